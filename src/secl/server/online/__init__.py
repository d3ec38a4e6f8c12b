"""Answers in batches, with learning in the background; no HTTP."""
