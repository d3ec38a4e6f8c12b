"""Pictures of reports: reliability diagrams, risk over coverage, and the timeline of a stream.

Drawing needs no screen, and the same data give the same bytes."""

from __future__ import annotations

import functools
import io
import math
import textwrap
import warnings
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec

import numpy as np
import numpy.typing as npt

from secl.display import number
from secl.grading.rules import grade
from secl.metrics.intervals import design_effect
from secl.metrics.measures import brier, ece, reliability, running_mean, wilson
from secl.metrics.probability import bin_index
from secl.metrics.risk_control import RiskCoverage, risk_bound
from secl.records import Record
from secl.reports.html import xml_text
from secl.runs.folder import storage_errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
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


class Panel(NamedTuple):
    """A title, n confidences, n grades, and the unit of each answer, such as its document; None for single answers."""

    title: str
    confidence: npt.ArrayLike
    correct: npt.ArrayLike
    units: Sequence[int] | None = None


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
    """Return a figure as SVG, and write it as STEM.png, STEM.svg and STEM.pdf if `stem` is given."""
    import matplotlib

    image, document, text = io.BytesIO(), io.BytesIO(), io.StringIO()
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "secl", "font.sans-serif": ["DejaVu Sans"]}
    settings["pdf.fonttype"] = 42  # TrueType, because journals refuse fonts of type 3
    with warnings.catch_warnings(), matplotlib.rc_context(settings):
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # names of domains may be in any script
        if stem is not None:
            figure.savefig(image, dpi=DOTS, format="png")
            figure.set_layout_engine("none")  # keep the layout of the PNG for the others
            figure.savefig(document, format="pdf", metadata=dict.fromkeys(("Creator", "Producer", "CreationDate")))
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = xml_text(text.getvalue())
    files = {".png": image.getvalue(), ".svg": svg.encode(), ".pdf": document.getvalue()}
    for suffix, content in files.items() if stem is not None else ():
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


ACROSS = 4
"""Maximum number of diagrams in a row."""

LONG_COUNT = 1000
"""Count from which the counts of a diagram are rotated, because they are wider than the bars."""

MIN_ANSWERS = 50
"""Minimum number of answers for an opaque bar; bars of fewer answers are paler."""

WHISKER: dict[str, Any] = {"color": BLACK, "linewidth": 0.8, "alpha": 0.7}
DOT: dict[str, Any] = {"color": VERMILLION, "marker": "o", "markersize": 5, "linewidth": 0, "markeredgecolor": WHITE}
DIAGONAL: dict[str, Any] = {"color": BLACK, "linewidth": 1, "linestyle": "--"}


@styled
def reliability_figure(panels: Sequence[Panel]) -> Figure:
    """Draw a reliability diagram for each panel, four to a row.

    A bar shows the accuracy of a bin's answers. Its whisker is the 95% interval of the accuracy, and its dot marks the
    mean confidence of these answers. The strip below a diagram counts the answers of each of the ten bins. The title
    gives Brier score and ECE.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    columns, rows = min(ACROSS, len(panels)), math.ceil(len(panels) / ACROSS)
    figure = new_figure(0.5 + 2.35 * columns, 0.35 + 3.3 * rows)
    grid = figure.add_gridspec(2 * rows, columns, height_ratios=[4, 1.2] * rows)
    for index, panel in enumerate(panels):
        row, column = divmod(index, columns)
        top = figure.add_subplot(grid[2 * row, column])
        strip = figure.add_subplot(grid[2 * row + 1, column], sharex=top)
        _draw_panel(top, strip, panel)
        if column == 0:
            top.set_ylabel("accuracy")
            strip.set_ylabel("answers", fontsize=8)
        else:
            top.tick_params(labelleft=False)
    handles = [
        Patch(facecolor=SKY, edgecolor=BLUE, label="accuracy in the bin"),
        Line2D([], [], label="95% interval", **WHISKER),
        Line2D([], [], label="mean confidence", **DOT),
        Line2D([], [], label="perfect calibration", **DIAGONAL),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols={1: 1, 2: 2}.get(columns, 4))
    return figure


def _draw_panel(top: Axes, strip: Axes, panel: Panel) -> None:
    title, confidence, correct, units = panel
    full = [bar for bar in reliability(confidence, correct) if bar.count]
    place, grades = bin_index(np.asarray(confidence)), np.asarray(correct, dtype=np.float64)
    unit = np.arange(grades.size) if units is None else np.asarray(units)
    score, error = brier(confidence, correct), ece(confidence, correct)
    shown = f"Brier {number(score, 3)}, ECE {number(error, 3)}" if full else "no graded answer"
    top.set_title(f"{wrapped(title)}\n{shown}")
    ticks = np.arange(0, 1.01, 0.2)
    top.set(xlim=(0, 1), ylim=(0, 1), xticks=ticks, yticks=ticks)
    top.tick_params(labelbottom=False)
    strip.set(yticks=[], xlabel="confidence")
    strip.spines["left"].set_visible(False)
    for bar in full:
        alpha = min(math.sqrt(bar.count / MIN_ANSWERS), 1.0)
        top.bar(bar.lo + 0.05, bar.accuracy, 0.09, color=(SKY, alpha), edgecolor=(BLUE, alpha))
        inside = place == bin_index(bar.lo + 0.05)
        count = bar.count / design_effect(grades[inside], unit[inside].tolist())
        top.plot([bar.lo + 0.05] * 2, wilson(bar.accuracy, count), **WHISKER)
        top.plot([bar.confidence], [bar.accuracy], clip_on=False, zorder=4, **DOT)
        _count(strip, bar.lo, bar.count, upright=all(other.count < LONG_COUNT for other in full))
    if full:
        strip.set_ylim(0, 1.9 * max(bar.count for bar in full))
    top.plot([0, 1], [0, 1], **DIAGONAL)


def _count(axes: Axes, low: float, count: int, *, upright: bool, color: str = GREY) -> None:
    """Draw a bar for the answers of a bin, with their number above it."""
    bars = axes.bar(low + 0.05, count, 0.09, color=color)
    axes.bar_label(bars, rotation=0 if upright else 90, fontsize=7, padding=2)


@styled
def histogram_figure(confidences: Sequence[float], noun: str) -> Figure:
    """Draw the number of answers (or facts: `noun`) in each tenth of the confidence."""
    counts = np.bincount(np.minimum((np.asarray(confidences) * 10).astype(int), 9), minlength=10)
    figure = new_figure(4.6, 2.6)
    axes = figure.add_subplot()
    for index, count in enumerate(counts.tolist()):
        if count:
            _count(axes, index / 10, count, upright=True, color=SKY)
    axes.set(xlim=(0, 1), xticks=np.arange(0, 1.01, 0.2), xlabel="confidence", ylabel=f"{noun}s")
    axes.locator_params(axis="y", integer=True)
    return figure


LEVEL = 0.9
"""Level of the exact two-sided interval at each coverage."""

MIN_ACCEPTED = 5
"""Minimum number of accepted labelled answers; with fewer, the picture shows no share of wrong answers."""

MIN_COVERAGE = 0.05
"""Minimum coverage of the points that determine the height of the plot, because lower coverage has few labels."""


@styled
def risk_coverage_figure(curve: RiskCoverage, risks: Sequence[float] = ()) -> Figure:
    """Draw the risk measured by labels, with exact intervals, and the risk expected from the confidences.

    `risks` are heights of horizontal lines.
    """
    from matplotlib.ticker import PercentFormatter

    figure = new_figure(6.0, 3.4)
    axes = figure.add_subplot()
    for risk in risks:
        axes.axhline(risk, color=GREY, linewidth=0.6, linestyle=":")
    drawn = np.flatnonzero(curve.labels >= MIN_ACCEPTED)
    drawn = drawn[spread(len(drawn))]
    if drawn.size:
        coverage, labels, wrong = curve.coverage[drawn], curve.labels[drawn], curve.wrong[drawn]
        tail = (1 - LEVEL) / 2
        worth, scale = curve.worth[drawn], curve.worth[drawn] / labels
        high = risk_bound(wrong * scale, worth, 1 - tail)
        low = 1 - risk_bound((labels - wrong) * scale, worth, 1 - tail)
        axes.fill_between(coverage, low, high, color=SKY, alpha=0.35, linewidth=0, label="exact 90% interval")
        axes.plot(coverage, wrong / labels, color=BLUE, linewidth=1.6, label="labelled answers")
    shown = spread(len(curve.coverage))
    coverage, expected = curve.coverage[shown], curve.expected[shown]
    axes.plot(coverage, expected, color=ORANGE, linewidth=1.6, linestyle="--", label="by the confidences")
    labelled = f", {curve.total:,} labelled" if curve.total else ""
    axes.set_title(f"{curve.answers:,} answers{labelled}")
    wide = curve.coverage >= MIN_COVERAGE
    shares = np.concatenate([curve.expected[wide], curve.risk[wide & (curve.labels >= MIN_ACCEPTED)]])
    top = min(1.0, 1.2 * float(shares.max(initial=0.1)))
    axes.set(xlabel="accepted", ylabel="wrong of these", xlim=(0, 1), ylim=(0, top))
    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    figure.legend(loc="outside lower center", ncols=3)
    return figure


MOST_DOMAINS = 12
"""Maximum number of groups of successive questions from one domain. With more groups, the picture omits borders."""


@styled
def timeline_figure(records: Sequence[Record], *, window: int = 20, adapted: bool = True) -> Figure:
    """Draw the gate along a stream, in panels over the position in the stream.

    The panels show entropies with their running mean; the gate's statistic; running means of the stated confidences
    and of the posterior, with signals and targets; and running accuracies. Panels without data are left out. Bursts
    are shaded, alarms are vertical lines, and domain borders are dotted. For a long stream, the panels show only
    some points (`spread`).
    """
    draw = {"entropy": 1.0, "statistic": 0.55, "confidence": 1.25, "accuracy": 0.8}
    if all(record.decision.statistic is None for record in records):
        del draw["statistic"]
    if all(record.correct is None and record.frozen_correct is None for record in records):
        del draw["accuracy"]
    figure = new_figure(10.0, 0.6 + 2.0 * sum(draw.values()))
    every = figure.subplots(len(draw), 1, sharex=True, squeeze=False, height_ratios=list(draw.values()))[:, 0]
    panels: dict[str, Axes] = dict(zip(draw, every, strict=True))
    _entropy(panels["entropy"], records, window)
    if "statistic" in panels:
        _statistic(panels["statistic"], records)
    _confidence(panels["confidence"], records, window, adapted)
    if "accuracy" in panels:
        _accuracy(panels["accuracy"], records, window, adapted)
    domains = [(name, list(run)) for name, run in groupby(records, key=lambda record: record.question.domain)]
    domains = domains if len(domains) <= MOST_DOMAINS else []
    for axes in every:
        _mark_learning(axes, records, named=axes is every[0])
        for _, run in domains[1:]:
            axes.axvline(run[0].position - 0.5, color=BLACK, linewidth=0.9, linestyle=(0, (1, 2)))
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8.5, markerscale=1.8)
    first, last = records[0].position, records[-1].position
    every[-1].set_xlim(first - 0.5, max(last, first + 1) + 0.5)
    every[-1].set_xlabel("question of the stream")
    every[-1].locator_params(axis="x", integer=True)
    _name_domains(every[0], domains)
    figure.align_ylabels()
    return figure


def _mark_learning(axes: Axes, records: Sequence[Record], *, named: bool) -> None:
    """Shade the bursts and draw the alarms, with entries in the legend if `named`."""
    label = "burst" if named else "_burst"
    for in_burst, stretch in groupby(records, key=lambda record: record.decision.in_burst):
        if in_burst:
            positions = [record.position for record in stretch]
            axes.axvspan(positions[0] - 0.5, positions[-1] + 0.5, color=ORANGE, alpha=0.18, linewidth=0, label=label)
            label = "_another burst"
    label = "alarm" if named else "_alarm"
    for record in records:
        if record.decision.alarm:
            axes.axvline(record.position - 0.5, color=ORANGE, linewidth=1.6, label=label)
            label = "_another alarm"


def _name_domains(axes: Axes, domains: Sequence[tuple[str, Sequence[Record]]]) -> None:
    """Write the name of each domain above a panel, centred over its questions."""
    if not domains:
        return
    top = axes.secondary_xaxis("top")
    middles = [(run[0].position + run[-1].position) / 2 for _, run in domains]
    slanted: dict[str, Any] = {"rotation": 25, "ha": "left"} if len(domains) > 4 else {}
    top.set_xticks(middles, [wrapped(name, 30) for name, _ in domains], fontsize=8.5, **slanted)
    top.tick_params(length=0)


def _entropy(axes: Axes, records: Sequence[Record], window: int) -> None:
    shown = spread(len(records))
    positions = np.array([record.position for record in records])
    entropies = np.array([record.reply.entropy for record in records])
    size = min(18.0, max(5.0, 1500 / len(records)))
    axes.scatter(positions[shown], entropies[shown], s=size, color=GREY, alpha=0.6, linewidths=0, label="entropy")
    axes.plot(positions[shown], running_mean(entropies, window)[shown], color=BLUE, label=f"mean of {window}")
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.set_ylabel("entropy (nats)")


def _statistic(axes: Axes, records: Sequence[Record]) -> None:
    shown = spread(len(records))
    statistic = np.array([math.nan if r.decision.statistic is None else r.decision.statistic for r in records])
    positions = [records[index].position for index in shown]
    peaks = np.fmax.reduceat(statistic, shown)  # keep the peaks, because they raise alarms
    axes.plot(positions, peaks, color=VERMILLION, linewidth=1, label="gate statistic")
    axes.set_ylabel("statistic")


def _confidence(axes: Axes, records: Sequence[Record], window: int, adapted: bool) -> None:
    signalled = [(record.position, record.signal) for record in records if record.signal is not None]
    updated = [(record.position, record.update.target) for record in records if record.update is not None]
    if signalled:
        positions, signals = np.array(signalled)[spread(len(signalled))].T
        axes.scatter(positions, signals, s=9, color=GREEN, alpha=0.55, linewidths=0, label="signal")
        _means(axes, records, [record.signal for record in records], window, "signal, mean")
    if updated:
        positions, targets = np.array(updated)[spread(len(updated))].T
        axes.scatter(positions, targets, s=14, color=PURPLE, marker="x", linewidths=0.8, label="target")
    _means(axes, records, [record.frozen.stated for record in records], window, "stated, frozen")
    if adapted:
        _means(axes, records, [record.reply.stated for record in records], window, "stated, adapted")
    if any(record.posterior is not None for record in records):
        posteriors = [None if record.posterior is None else record.posterior.own_probability for record in records]
        _means(axes, records, posteriors, window, "posterior")
    axes.set(ylabel=f"confidence,\nmean of {window}", ylim=(0, 1))


def _accuracy(axes: Axes, records: Sequence[Record], window: int, adapted: bool) -> None:
    _means(axes, records, [r.frozen_correct for r in records], window, "frozen")
    if adapted:
        _means(axes, records, [r.correct for r in records], window, "adapted")
    if any(record.posterior is not None for record in records):
        best = [None if r.posterior is None else grade(r.question, r.best_answer) for r in records]
        _means(axes, records, best, window, "best answers")
    axes.set(ylabel=f"accuracy,\nmean of {window}", ylim=(0, 1))


def _means(axes: Axes, records: Sequence[Record], values: Sequence[float | None], window: int, label: str) -> None:
    """Draw the running mean of the values that are not None, with a line style that depends on the label."""
    style: dict[str, Any] = {"color": VERMILLION if label in ("posterior", "best answers") else BLUE, "linewidth": 2.2}
    if label == "signal, mean":
        style = {"color": GREEN, "linewidth": 1.2}
    if label.endswith("frozen"):
        style = {"color": BLACK, "linewidth": 1, "linestyle": (0, (4, 4)), "zorder": 3}
    means = running_mean([math.nan if value is None else float(value) for value in values], window)
    shown = spread(len(records))
    axes.plot([records[index].position for index in shown], means[shown], label=label, **style)
