"""Writes the reference pages of docs/reference/ and docs/examples.md from the code: `make reference`.

The pages are committed, so that a checkout has them; a test compares them with the code. The hook of the site
(`reference.hook`) is here, too. The library's wheel does not contain this package.
"""
