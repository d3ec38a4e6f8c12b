"""The fast path: one pass over the prefix tree of many prompts, from which the adapted model replays the top layers."""
