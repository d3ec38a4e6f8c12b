"""The outcome of a verification, for the terminal."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from secl.reports.formatting import counted
from secl.server.audit.entries import record_id
from secl.server.audit.replay import Verification

if TYPE_CHECKING:
    from rich.console import RenderableType

MAX_FINDINGS = 50
"""Most findings that are printed."""


def verification_page(outcome: Verification) -> list[RenderableType]:
    """What was verified and how it came out, the findings last."""
    counts = Counter(finding.check for finding in outcome.findings)
    records = counted(outcome.examined, "record")
    parts: list[RenderableType] = [
        f"gate        replayed over {records}: {_differences(counts['gate']) or 'every decision is as stored'}",
        *_posteriors_replayed(outcome.posteriors, counts["posterior"]),
        f"labels      {_differences(counts['labels']) or 'give every confidence as stored'}",
        f"integrity   {records} examined: {_differences(counts['integrity']) or 'all tables agree'}",
        f"confidence  {_confidence(outcome)}",
    ]
    if outcome.first:
        parts.append(
            f"pruned      the records before {record_id(outcome.first)}; all this is about those that are kept"
        )
    for difference in outcome.environment:
        parts.append(f"            computed elsewhere, so the tolerance holds for every answer: {difference}")
    for finding in outcome.findings[:MAX_FINDINGS]:
        where = "" if finding.position is None else f" {record_id(finding.position)}"
        parts.append(f"{finding.check}{where}: {finding.detail}")
    if len(outcome.findings) > MAX_FINDINGS:
        parts.append(f"... and {len(outcome.findings) - MAX_FINDINGS} more; see --json")
    return parts


def _posteriors_replayed(count: int, differences: int) -> list[RenderableType]:
    if not count and not differences:
        return []
    answers = counted(count, "answer")
    return [f"posterior   of {answers} replayed from the evidence: {_differences(differences) or 'all as stored'}"]


def _confidence(outcome: Verification) -> str:
    if not outcome.rederived:
        return "no answer computed again"
    meanings = {
        "same": "the same to the last digit",
        "close": f"within {outcome.tolerance:g}, as a pass of another shape rounds",
        "together": "the same to the last digit once asked with their pass",
        "not kept": "not verifiable, because their texts were not kept",
        "differs": "different",
    }
    phrases = [f"{count} {meanings[name]}{_worst(outcome, name)}" for name, count in outcome.matches.items()]
    return f"{counted(len(outcome.rederived), 'answer')} computed again: {', '.join(phrases)}"


def _worst(outcome: Verification, name: str) -> str:
    """The largest difference among answers that came out close."""
    differences = [each.difference for each in outcome.rederived if each.match == name and each.difference is not None]
    return f" (at most {max(differences):.1g} apart)" if name == "close" and differences else ""


def _differences(count: int) -> str:
    return counted(count, "difference") if count else ""
