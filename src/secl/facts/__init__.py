"""Facts of texts."""
