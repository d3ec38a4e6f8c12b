"""What a model is asked, and what is read off. Read `asker`, what all share, then `readout`, from logits to digits."""
