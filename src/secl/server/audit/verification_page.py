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
        f"gate        replayed over {records}: {_differences(counts['gate']) or 'every decision is as stored'}"
        f"{_apart(outcome, 'gate')}",
        *_posteriors_replayed(outcome, counts["posterior"]),
        f"labels      {_differences(counts['labels']) or 'give every confidence as stored'}{_apart(outcome, 'labels')}",
        f"integrity   {records} examined: {_differences(counts['integrity']) or 'all tables agree'}",
        f"confidence  {_confidence(outcome)}",
    ]
    if outcome.first:
        parts.append(
            f"pruned      the records before {record_id(outcome.first)}; all this is about those that are kept"
        )
    for difference in outcome.environment:
        parts.append(f"            computed elsewhere, so every answer may differ by rounding: {difference}")
    for each in outcome.rederived:
        if each.match == "unsettled":
            parts.append(f"open {record_id(each.position)}: {each.detail}")
    for finding in outcome.findings[:MAX_FINDINGS]:
        where = "" if finding.position is None else f" {record_id(finding.position)}"
        parts.append(f"{finding.check}{where}: {finding.detail}")
    if len(outcome.findings) > MAX_FINDINGS:
        parts.append(f"... and {len(outcome.findings) - MAX_FINDINGS} more; see --json")
    return parts


def _posteriors_replayed(outcome: Verification, differences: int) -> list[RenderableType]:
    if not outcome.posteriors and not differences:
        return []
    answers, found = counted(outcome.posteriors, "answer"), _differences(differences) or "all as stored"
    return [f"posterior   of {answers} replayed from the evidence: {found}{_apart(outcome, 'posterior')}"]


def _confidence(outcome: Verification) -> str:
    if not outcome.rederived:
        return "no answer computed again"
    meanings = {
        "same": "the same to the last digit",
        "rounding": f"within {outcome.tolerance:g}, as other passes and processors round",
        "together": "the same to the last digit once asked with their pass",
        "unsettled": "open, because a close choice between words came out otherwise",
        "not kept": "not verifiable, because their texts were not kept",
        "differs": "different",
    }
    phrases = [f"{count} {meanings[name]}" for name, count in outcome.matches.items()]
    found = f"{counted(len(outcome.rederived), 'answer')} computed again: {', '.join(phrases)}"
    return found + _apart(outcome, "confidence")


def _apart(outcome: Verification, check: str) -> str:
    """How far numbers that agree lie apart at most; nothing where they are the same."""
    largest = outcome.largest[check]
    return f" (numbers at most {largest:.1g} apart)" if largest else ""


def _differences(count: int) -> str:
    return counted(count, "difference") if count else ""
