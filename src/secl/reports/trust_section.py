"""Whether the confidences of a run may be acted on, in words."""

from __future__ import annotations

from secl.evaluation.trust import Level, Verdict

ANSWERS: dict[Level, str] = {
    "fine": "Yes, as far as these answers can tell, on the {source} confidence.",
    "unproven": "That is not proven of the {source} confidence.",
    "do not act on it": "No: do not act on the {source} confidence.",
}
"""What a report answers for each verdict."""


def trust_line(verdict: Verdict, name: str = "") -> str:
    """The verdict in one line, of the run called `name` where there are several.

    >>> from secl.evaluation.trust import assess
    >>> trust_line(assess([]), "runs/a")
    'verdict on the stated confidence, runs/a: unproven. Nothing has been answered yet.'
    """
    return f"verdict on the {verdict.source} confidence{f', {name}' if name else ''}: {verdict.line}"
