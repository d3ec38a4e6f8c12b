"""What SECL and the posterior change, for a reader who has not seen them before: the screen that ends `secl demo`."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from secl.evaluation.summary import EstimatorSummary, Summary
from secl.reports.formatting import counted, number
from secl.reports.run_report import RunReport
from secl.reports.table import Table, plain_table, to_rich

if TYPE_CHECKING:
    from rich.console import Console

ROWS = {
    "stated": "the model's own word",
    "secl": "SECL: it learns from its P(True)",
    "posterior": "posterior: several views of it",
    "posterior_best": "posterior of its best answers",
}
"""Estimators that are compared, and what people call them here."""

COLUMNS_NOTE = (
    "right: accuracy, of the frozen model's answers in the first row, of the adapted model's in the next two. says: "
    "mean confidence; it should equal right. Brier: mean squared error; 0 is perfect. AUROC: how often a right answer "
    "is surer than a wrong one; 0.5 is a coin."
)
"""The columns in words."""


def print_effect(run: RunReport, folder: Path, screen: Console) -> None:
    """Print what was asked, four rows of numbers, what they mean, where the pictures are, and what to type next."""
    model = run.manifest["settings"]["model"]["name"]
    domains = ", ".join(dict.fromkeys(record.question.domain.rpartition("/")[-1] for record in run.records))
    screen.print(
        f"{counted(len(run.records), 'question')} of the built-in quiz ({domains}), asked of {model}. Right answers "
        "were only used to grade what follows."
    )
    screen.print()
    screen.print(to_rich(effect_table(run.summary)))
    if meaning := effect_sentence(run.summary):
        screen.print(f"\n{meaning}", highlight=False)
    screen.print()
    screen.print(f"pictures: {folder / 'reliability.png'} and {folder / 'timeline.png'}", soft_wrap=True)
    screen.print(f"all tables: secl report {shlex.quote(str(folder))} --full", soft_wrap=True)
    screen.print('next: secl ask "What is the capital of Kenya?" --option Lagos --option Nairobi', soft_wrap=True)
    screen.print("your own questions: secl check --questions FILE", soft_wrap=True)


def effect_table(summary: Summary) -> Table:
    """Stated, learned and posterior confidence, own and best answers: accuracy, mean confidence, Brier score, AUROC."""
    rows = [
        (title, _whole(row.accuracy), _whole(row.mean_confidence), number(row.brier, 3), number(row.auroc, 3))
        for name, title in ROWS.items()
        if (row := summary.estimators.get(name))
    ]
    return plain_table(("confidence", "right", "says", "Brier", "AUROC"), rows, (COLUMNS_NOTE,), texts=1)


def effect_sentence(summary: Summary) -> str | None:
    """The same in one sentence; None where there is no graded posterior.

    Whether a confidence tells right from wrong is said by the interval of its AUROC.
    """
    rows = summary.estimators
    stated, own, best = (rows.get(name) for name in ("stated", "posterior", "posterior_best"))
    if stated is None or own is None or best is None or math.isnan(own.brier):
        return None
    learned = rows.get("secl")
    text = f"The model says {_whole(stated.mean_confidence)}, is right {_whole(stated.accuracy)} of the time, and its "
    text += f"word {_ranks(stated)}; "
    if learned is not None and not math.isnan(learned.brier):
        text += f"with SECL it says {_whole(learned.mean_confidence)}, which {_ranks(learned)}; "
    text += (
        f"the posterior {_ranks(own)}, and the answers that it prefers are right {_whole(best.accuracy)} of the time"
    )
    return f"{text} (--answer best)."


def _ranks(row: EstimatorSummary) -> str:
    """Whether a confidence tells right from wrong, by the interval of its AUROC."""
    if math.isnan(row.auroc):
        return "has nothing to tell apart"
    if row.intervals is None or row.intervals["auroc"].low <= 0.5 <= row.intervals["auroc"].high:
        return "is not shown to tell right from wrong"
    return "tells right from wrong" if row.auroc > 0.5 else "is higher for wrong answers than for right ones"


def _whole(share: float) -> str:
    return f"{number(100 * share, 0)}%"
