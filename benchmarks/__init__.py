"""How fast the library is, measured against other ways of doing the same work: `python -m benchmarks`."""
