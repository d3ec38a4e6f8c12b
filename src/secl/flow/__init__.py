"""What to ask a model about a question, and in which order: without torch, and without a network."""
