"""Pictures that cost nothing, for tests that look at everything else of a report."""

from __future__ import annotations

from typing import Any

PNG = b"\x89PNG\r\n\x1a\n"
SVG = '<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg" width="1pt" height="1pt"></svg>'


def sketch(figure: Any, file: Any, *, format: str, **settings: Any) -> None:
    """In the place of matplotlib's `Figure.savefig`: the head of the file that it would write."""
    file.write(PNG if format == "png" else SVG)
