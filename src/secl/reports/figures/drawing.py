"""Colours, style and files of all pictures. Drawing needs no screen, and the same data give the same bytes."""

from __future__ import annotations

import functools
import io
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np
import numpy.typing as npt

from secl.reports.html import xml_text
from secl.runs.folder import storage_errors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The Okabe-Ito palette: colours that colour-blind readers can tell apart.
BLACK, WHITE, GREY = "#000000", "#ffffff", "#8c8c8c"
ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE = "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7"

DOTS = 150
"""Dots per inch of a PNG."""

POINTS = 1000
"""Maximum number of points of a line or a scatter plot. More points would only enlarge the file."""

STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "text.parse_math": False,  # the name of a domain may contain dollar signs
}

Panel = tuple[str, npt.ArrayLike, npt.ArrayLike]
"""Title, n confidences, n grades."""

Arguments = ParamSpec("Arguments")


def styled(draw: Callable[Arguments, Figure]) -> Callable[Arguments, Figure]:
    """Return a function that draws in the style of all pictures and leaves matplotlib's settings unchanged."""

    @functools.wraps(draw)
    def drawn(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Figure:
        import matplotlib

        with matplotlib.rc_context(STYLE):
            return draw(*args, **kwargs)

    return drawn


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a width and height in inches; the HTML page is ten inches wide."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def write_picture(figure: Figure, stem: Path | None = None) -> str:
    """Return a figure as SVG, and write it as STEM.png and STEM.svg if `stem` is given."""
    import matplotlib

    image, text = io.BytesIO(), io.StringIO()
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "secl", "font.sans-serif": ["DejaVu Sans"]}
    with warnings.catch_warnings(), matplotlib.rc_context(settings):
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # names of domains may be in any script
        if stem is not None:
            figure.savefig(image, dpi=DOTS, format="png")
            figure.set_layout_engine("none")  # keep the layout of the PNG for the SVG
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = xml_text(text.getvalue())
    for suffix, content in ((".png", image.getvalue()), (".svg", svg.encode())) if stem is not None else ():
        path = Path(f"{stem}{suffix}")
        with storage_errors(path):
            path.write_bytes(content)
    return svg


def spread(count: int) -> npt.NDArray[np.intp]:
    """Return the indices of at most `POINTS` evenly spread points among `count` points.

    >>> spread(4).tolist(), spread(10_000)[[0, -1]].tolist()
    ([0, 1, 2, 3], [0, 9999])
    """
    return np.linspace(0, count - 1, min(count, POINTS)).round().astype(np.intp)


def wrapped(title: str, width: int = 26) -> str:
    """Return a title with line breaks for a small panel.

    >>> wrapped("Normalised P(True) + temperature*")
    'Normalised P(True) +\\ntemperature*'
    """
    return textwrap.fill(xml_text(title), width)
