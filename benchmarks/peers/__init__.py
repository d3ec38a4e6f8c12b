"""Confidences of other libraries beside those of secl, each in an environment of its own."""
