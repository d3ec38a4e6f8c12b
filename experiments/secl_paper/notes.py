"""What stands under a table: how its setup differs from the paper's, and what the numbers themselves do not say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from secl.methods import method
from secl.reports.formatting import UNDEFINED
from secl_paper.compare import Line
from secl_paper.layout import Column, Run, Table
from secl_paper.paper import read_paper
from secl_paper.runs import OPEN_FORM, benchmarks_of
from secl_paper.setup import PAPER_GATE, STREAM, Setup


def differences(table: Table, setup: Setup) -> list[str]:
    """Where model, questions, stream and gate are not those of the paper, in whole sentences."""
    paper, ours = read_paper().table(table), Path(setup.model.name).name
    counts = _counts(benchmarks_of(min(table.runs, key=lambda run: run.scale, default=Run("none")), setup))
    if paper is None:
        return [f"These numbers are {ours} with {counts} questions per domain of {', '.join(setup.names)}."]
    theirs = read_paper().models[setup.column(paper)]
    if paper.per_domain is None:
        return [f"The paper's numbers are those of {theirs}; these are {ours}'s."]
    notes = [
        f"The paper ran {theirs} with {paper.per_domain:,} questions per domain; "
        f"these numbers are {ours} with {counts}."
    ]
    if setup.names != STREAM:
        notes.append(f"The stream is {', '.join(setup.names)} in place of the paper's {', '.join(STREAM)}.")
    if any(run.open_ended for run in table.runs) and not set(setup.names) & set(OPEN_FORM):
        notes.append("No benchmark of this stream has an open-ended form, so it is asked as it is.")
    if setup.gate not in (None, PAPER_GATE) and any(_gate_of_setup(run) for run in table.runs):
        notes.append(f"SECL's gate is {setup.gate} in place of the paper's {PAPER_GATE}.")
    return notes


def _gate_of_setup(run: Run) -> bool:
    """Whether a run takes the setup's gate."""
    return "gate" not in run.changes and method(run.changes.get("method", "secl")).learns


def _counts(stream: Sequence[str]) -> str:
    """How many questions per domain, in words.

    >>> _counts(("arc:20", "mmlu:20")), _counts(("arc:20", "truthfulqa:17"))
    ('20', '20 (arc), 17 (truthfulqa)')
    """
    parts = [name.partition(":") for name in stream]
    counts = {count for _, _, count in parts}
    return f"{int(counts.pop()):,}" if len(counts) == 1 else ", ".join(f"{count} ({name})" for name, _, count in parts)


def remarks(lines: Sequence[Line], columns: Mapping[str, Column], untrained: Mapping[str, bool]) -> list[str]:
    """How many answers the numbers are of, what never learned, and what dashes mean.

    Args:
        lines: of the table.
        columns: of the table.
        untrained: rows that never learned, and whether a gate opened in them (`secl_paper.compare.untrained`).
    """
    notes = []
    counts = {line.name: line.ours["n"] for line in lines if line.ours.get("n") is not None}
    if counts:
        usual = Counter(counts.values()).most_common(1)[0][0]
        others = ", ".join(f"{name} {n:,}" for name, n in counts.items() if n != usual)
        notes.append(f"n = {usual:,} graded answers{f' ({others})' if others else ''}.")
    for opened, why in ((False, "the gate never opened"), (True, "the bin gate stopped every update")):
        names = ", ".join(name for name, was_open in untrained.items() if was_open is opened)
        if names:
            notes.append(f"Nothing was trained in {names}, because {why}: this is the frozen model, up to rounding.")
    if any(line.ours.get(name) is None for line in lines for name in columns):
        notes.append(f"{UNDEFINED} is undefined or does not apply (AUROC needs right and wrong answers).")
    return notes
