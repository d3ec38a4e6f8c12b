"""What stands under a table besides its differences: what the numbers themselves do not say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from secl.reports.formatting import UNDEFINED
from secl_paper.compare import Line
from secl_paper.layout import Column


def remarks(lines: Sequence[Line], columns: Mapping[str, Column], untrained: Mapping[str, bool]) -> list[str]:
    """How many answers the numbers are of, what never learned, and what dashes mean."""
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
