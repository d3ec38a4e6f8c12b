"""Speed of the library relative to other ways of doing the same work: `python -m benchmarks`."""
