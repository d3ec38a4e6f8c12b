"""Stated against posterior, own against best answers: how often each is right, and how sure it was."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from secl.errors import ParameterError
from secl.grading import grade
from secl.metrics.shares import wilson
from secl.records import Record
from secl.reports.figures.drawing import BLACK, BLUE, SKY, VERMILLION, WHITE, new_figure, wrapped
from secl.reports.formatting import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_DOMAINS = 20
"""Domains that are drawn; of more, those with the most questions."""

LEGEND = (
    "own answers, accuracy",
    "best answers, accuracy",
    "posterior, own answers",
    "posterior, best answers",
    "stated confidence (frozen)",
)
"""Names of the bars and of the markers on them, in columns of two."""


@dataclass(frozen=True, slots=True)
class Group:
    """Graded questions with a posterior of the model's own answer; all but `n` are means over them, in [0, 1].

    Attributes:
        n: number of questions.
        own: accuracy of the model's own answers.
        best: accuracy of the most probable candidates.
        stated: stated confidence of the frozen model.
        posterior: posterior of the model's own answers.
        posterior_best: posterior of the most probable candidates.
    """

    n: int
    own: float
    best: float
    stated: float
    posterior: float
    posterior_best: float


def groups_of(records: Sequence[Record]) -> dict[str, Group]:
    """All usable questions together (named "all questions"), then each domain where there are several."""
    usable = [record for record in records if _confidence(record) is not None and record.correct is not None]
    if not usable:
        return {}
    domains: dict[str, list[Record]] = {}
    for record in usable:
        domains.setdefault(record.question.domain, []).append(record)
    groups = {"all questions": _group(usable)}
    if len(domains) > 1:
        most = sorted(domains, key=lambda domain: -len(domains[domain]))[:MOST_DOMAINS]
        groups |= {domain: _group(domains[domain]) for domain in domains if domain in most}
    return groups


def _confidence(record: Record) -> float | None:
    return None if record.posterior is None else record.posterior.confidence


def _group(records: Sequence[Record]) -> Group:
    mean = statistics.fmean
    return Group(
        n=len(records),
        own=mean(bool(record.correct) for record in records),
        best=mean(bool(grade(record.question, record.best_answer)) for record in records),
        stated=mean(record.frozen.confidence for record in records),
        posterior=mean(_confidence(record) or 0.0 for record in records),
        posterior_best=mean(max(record.posterior.probabilities) for record in records if record.posterior is not None),
    )


def posterior_figure(groups: Mapping[str, Group]) -> Figure:
    """For each group a bar for the accuracy of own and of best answers, and how sure each confidence was on average.

    A confidence is right on average where its marker stands at the end of its bar. Whiskers are 95% intervals of the
    accuracy.

    Args:
        groups: by name, from above to below; see `groups_of`.

    Raises:
        ParameterError: no groups.
    """
    if not groups:
        raise ParameterError("A figure of the posterior needs at least one group of questions.")
    figure = new_figure(8.0, 1.5 + 0.8 * len(groups))
    axes = figure.subplots()
    for row, group in enumerate(groups.values()):
        _draw(axes, row, group, named=row == 0)
    axes.set_yticks(range(len(groups)))
    axes.set_yticklabels([f"{wrapped(name)}\nn = {group.n:,}" for name, group in groups.items()], parse_math=False)
    axes.set(xlim=(0, 1), ylim=(len(groups) - 0.45, -0.55), xlabel="accuracy, and mean confidence")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    figure.legend(
        handles=[handles[name] for name in LEGEND], loc="outside lower center", ncols=3, frameon=False, fontsize=9
    )
    return figure


def _draw(axes: Axes, row: int, group: Group, named: bool) -> None:
    """Two bars, whiskers, their accuracy in words, and three markers; `named` for the legend."""
    for place, share, colour, name in (
        (row - 0.19, group.own, SKY, LEGEND[0]),
        (row + 0.19, group.best, BLUE, LEGEND[1]),
    ):
        low, high = wilson(share, group.n)
        axes.barh(place, share, 0.34, color=colour, label=name if named else None)
        axes.plot([low, high], [place, place], color=BLACK, linewidth=0.9)
        axes.text(1.01, place, f"{percent(share)} right", va="center", fontsize=8.5, clip_on=False)
    for value, place, marker, colour, name in (
        (group.posterior, row - 0.19, "o", WHITE, LEGEND[2]),
        (group.posterior_best, row + 0.19, "D", WHITE, LEGEND[3]),
        (group.stated, row - 0.19, "v", VERMILLION, LEGEND[4]),
    ):
        axes.scatter(
            [value],
            [place],
            s=46,
            marker=marker,
            color=colour,
            edgecolors=BLACK,
            zorder=4,
            label=name if named else None,
        )
