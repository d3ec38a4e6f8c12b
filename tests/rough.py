"""Empty pictures and intervals from few draws, for tests of other parts of a report."""

from collections.abc import Callable
from typing import Any

PNG = b"\x89PNG\r\n\x1a\n"
SVG = '<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg" width="1pt" height="1pt"></svg>'


def sketch(figure: Any, file: Any, *, format: str, **settings: Any) -> None:
    """Write only the head of the picture's file, in place of matplotlib's `Figure.savefig`."""
    file.write({"png": PNG, "pdf": b"%PDF-1.4\n"}.get(format, SVG))


def few_draws(put: Callable[[object, str, object], None] = setattr) -> None:
    """Make the intervals of summaries rough, because all draws take longer than a run of a tiny model."""
    from secl.evaluation import summary
    from secl.metrics import intervals

    put(intervals, "DRAWS", 10)
    put(summary, "RESAMPLES", 40)
