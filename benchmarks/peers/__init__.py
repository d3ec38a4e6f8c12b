"""Other libraries that compute P(True), in environments of their own; no part of the project depends on them."""
