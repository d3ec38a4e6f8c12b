"""The fast path through the network: many prompts as one prefix tree, two models in one pass."""
