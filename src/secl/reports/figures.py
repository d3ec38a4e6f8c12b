"""Reliability diagrams, and what all pictures share: colours, an empty figure, and how it becomes PNG and SVG.

Pictures are drawn without a screen and without global state; the same data give the same bytes.
"""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from secl.errors import ParameterError, StorageError
from secl.metrics.calibration import Bin, ece, reliability
from secl.reports.formatting import number, xml_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The Okabe-Ito palette: colours that colour-blind readers can tell apart.
BLACK, WHITE, GREY = "#000000", "#ffffff", "#8c8c8c"
ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE = "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7"

DOTS = 150
"""Per inch, in the PNG of a picture."""

Panel = tuple[str, npt.ArrayLike, npt.ArrayLike]
"""Title, n confidences, n grades."""


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches; ten inches are the width of a page."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def write_picture(figure: Figure, stem: str | Path) -> str:
    """Write a figure as STEM.png (150 dots per inch) and STEM.svg (text stays text).

    Args:
        figure: as drawn.
        stem: path without suffix; its folder must exist.

    Returns:
        the SVG.

    Raises:
        StorageError: a file cannot be written.
    """
    import matplotlib

    image, text = io.BytesIO(), io.StringIO()
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "secl", "font.sans-serif": ["DejaVu Sans"]}
    with warnings.catch_warnings(), matplotlib.rc_context(settings):
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # a domain may be named in any script
        figure.savefig(image, dpi=DOTS, format="png")
        figure.set_layout_engine("none")  # where things stand is known now
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = xml_text(text.getvalue())
    for suffix, content in ((".png", image.getvalue()), (".svg", svg.encode())):
        path = Path(f"{stem}{suffix}")
        try:
            path.write_bytes(content)
        except OSError as error:
            raise StorageError(f"The figure {path} cannot be written: {error.strerror or error}.") from error
    return svg


def reliability_figure(panels: Sequence[Panel]) -> Figure:
    """Reliability diagrams side by side, four to a row: accuracy of each bin against the diagonal.

    A bar is the accuracy of the answers in its bin, the dot stands at their mean confidence; an empty bin has neither.
    The strip below counts the answers of each bin. The ECE is in the title, with ten bins [lo, hi).

    Args:
        panels: (title, confidences, grades) of each diagram.

    Raises:
        ParameterError: no panels, or numbers that `secl.metrics.graded.graded` refuses.
    """
    if not panels:
        raise ParameterError("A reliability figure needs at least one panel.")
    columns = min(4, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = new_figure(0.5 + 2.35 * columns, 0.35 + 3.3 * rows)
    grid = figure.add_gridspec(2 * rows, columns, height_ratios=[4, 1.2] * rows)
    for place, (title, confidence, correct) in enumerate(panels):
        row, column = divmod(place, columns)
        top = figure.add_subplot(grid[2 * row, column])
        strip = figure.add_subplot(grid[2 * row + 1, column], sharex=top)
        _reliability_panel(top, strip, title, confidence, correct)
        if column == 0:
            top.set_ylabel("accuracy")
            strip.set_ylabel("answers", fontsize=8)
        else:
            top.tick_params(labelleft=False)
    named = {
        label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    width = 3 if columns > 1 else 1
    figure.legend(list(named.values()), list(named), loc="outside lower center", ncols=width, frameon=False, fontsize=9)
    return figure


def wrapped(title: str, width: int = 26) -> str:
    """A title on as many lines as a small panel needs.

    >>> wrapped("Normalised P(True) + temperature*")
    'Normalised P(True) +\\ntemperature*'
    """
    return textwrap.fill(title, width)


def _reliability_panel(top: Axes, strip: Axes, title: str, confidence: npt.ArrayLike, correct: npt.ArrayLike) -> None:
    full = [bar for bar in reliability(confidence, correct) if bar.count]
    error = ece(confidence, correct)
    shown = "undefined" if math.isnan(error) else number(error, 3)
    top.set_title(f"{wrapped(title)}\nECE {shown}", fontsize=10, parse_math=False)
    ticks = np.arange(0, 1.01, 0.2)
    top.set(xlim=(0, 1), ylim=(0, 1), xticks=ticks, yticks=ticks)
    top.tick_params(labelbottom=False)
    strip.set(yticks=[], xlabel="confidence")
    for side in ("top", "right", "left"):
        strip.spines[side].set_visible(False)
    if full:
        _draw_bars(top, strip, full)
    else:
        top.text(0.45, 0.88, "no graded answers", ha="center", fontsize=9, color=GREY)
    top.plot([0, 1], [0, 1], color=BLACK, linewidth=1, linestyle="--", label="perfect calibration")


def _draw_bars(top: Axes, strip: Axes, full: Sequence[Bin]) -> None:
    """Accuracy, mean confidence and count of the bins that have answers."""
    left, accuracy = [bar.lo + 0.005 for bar in full], [bar.accuracy for bar in full]
    top.bar(left, accuracy, 0.09, align="edge", color=SKY, edgecolor=BLUE, label="accuracy in the bin")
    top.scatter(
        [bar.confidence for bar in full],
        accuracy,
        s=24,
        color=VERMILLION,
        edgecolors=WHITE,
        clip_on=False,
        zorder=4,
        label="at the mean confidence",
    )
    counts = [bar.count for bar in full]
    strip.bar(left, counts, 0.09, align="edge", color=GREY)
    for bar in full:
        above = bar.count + 0.06 * max(counts)
        strip.text(bar.lo + 0.05, above, str(bar.count), rotation=90, fontsize=7, ha="center", va="bottom")
    strip.set_ylim(0, 1.9 * max(counts))
