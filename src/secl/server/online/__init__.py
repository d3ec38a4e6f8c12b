"""Answers in batches, with learning in the background; independent of HTTP."""
