"""Prompts and read-out of a model. Read `asker`, which all share, then `readout`, from logits to digits."""
