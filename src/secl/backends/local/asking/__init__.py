"""Prompts and read-out of a model. Read `asker` first, which all share."""
