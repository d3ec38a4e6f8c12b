"""What a report says about one run, in words and numbers: the verdict, the worst answers, how the run was made."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from secl.evaluation.summary import EstimatorSummary, Evaluation, Summary
from secl.metrics.paired_bootstrap import FEWEST
from secl.records import Record
from secl.reports.figures.drawing import Panel
from secl.reports.formatting import amount, number, percent, span
from secl.reports.summary_table import floor_side
from secl.settings import SettingGroups

PURPOSES = {
    "answering": "answering, frozen model",
    "adapting": "answering, adapted model",
    "scoring": "P(True) and distractors",
    "reordering": "letters under further orders",
    "likelihood": "likelihoods of candidates",
    "sampling": "further answers",
    "comparing": "beams and entailment",
    "learning": "updates",
}
"""What people call the entries of a `secl.records.Ledger`."""


@dataclass(frozen=True)
class RunReport:
    """What a report is made of, for one run.

    Attributes:
        name: what people call the run; different for every run of a report.
        records: records of the questions answered so far, in order.
        evaluation: confidences and measures of these records.
        total: questions of the whole stream.
        seconds: spent on the questions so far.
        manifest: manifest of the run folder: settings, model, tau, stream, environment, adapter, created.
        settings: those that differ from the defaults.
        command: shell command that repeats the run.
    """

    name: str
    records: Sequence[Record]
    evaluation: Evaluation
    total: int
    seconds: float
    manifest: Mapping[str, Any]
    settings: Mapping[str, Any]
    command: str

    @property
    def summary(self) -> Summary:
        """The numbers of the evaluation."""
        return self.evaluation.summary

    @property
    def learned(self) -> bool:
        """Whether there is an adapted model beside the frozen one."""
        return adapted(self.summary) is not None

    @property
    def watched(self) -> bool:
        """Whether a gate did anything."""
        return any(r.decision.in_burst or r.decision.statistic is not None for r in self.records)

    @property
    def tested(self) -> bool:
        """Whether a gate had a statistic, so that there is one to draw."""
        return any(r.decision.statistic is not None for r in self.records)

    @property
    def complete(self) -> bool:
        """Whether all questions are answered."""
        return len(self.records) >= self.total


def panels(run: RunReport) -> dict[str, Panel]:
    """The graded confidences of a run by the name of their estimator, "before", "after" and the posterior first."""
    after = best_alternative(run.summary)
    first = ("stated", after.estimator.name if after else None, "posterior", "posterior_best")
    order = sorted(run.summary.estimators, key=lambda name: first.index(name) if name in first else len(first))
    graded: dict[str, Panel] = {}
    for name in order:
        confidences, grades = run.evaluation.series[name].graded()
        if grades:
            graded[name] = (run.summary.estimators[name].estimator.title, confidences, grades)
    return graded


def adapted(summary: Summary) -> EstimatorSummary | None:
    """The confidence that the adapted model reports; None where nothing learns."""
    rows = (row for row in summary.estimators.values() if row.estimator.learned and not row.estimator.needs_labels)
    return next(rows, None)


def posterior_of(summary: Summary) -> EstimatorSummary | None:
    """The posterior of the answers that were given; None without a graded one."""
    row = summary.estimators.get("posterior_best" if summary.answered_best else "posterior")
    return None if row is None or math.isnan(row.brier) else row


def reported(summary: Summary) -> EstimatorSummary | None:
    """The confidence that the run was for, whatever its score: the adapted one, else the posterior; None without."""
    return adapted(summary) or posterior_of(summary)


def best_alternative(summary: Summary) -> EstimatorSummary | None:
    """What the stated confidence is compared with: what the run reports, else the best Brier score without labels."""
    return reported(summary) or min(alternatives(summary), key=lambda row: row.brier, default=None)


def alternatives(summary: Summary) -> list[EstimatorSummary]:
    """The graded confidences beside the stated one that need no right answers."""
    rows = [row for name, row in summary.estimators.items() if name != "stated" and not row.estimator.needs_labels]
    return [row for row in rows if not math.isnan(row.brier)]


def comes_closer(summary: Summary) -> bool:
    """Whether the stated confidence is compared with one of a lower Brier score."""
    stated, after = summary.estimators.get("stated"), best_alternative(summary)
    return stated is not None and after is not None and after.brier < stated.brier


def verdict(summary: Summary) -> str:
    """What the run found, in one or two plain sentences.

    >>> from secl.evaluation.summary import summarise
    >>> print(verdict(summarise([])))
    No answer could be graded, so nothing can be said about calibration.
    """
    stated, after = summary.estimators.get("stated"), best_alternative(summary)
    if stated is None or math.isnan(stated.ece):
        return "No answer could be graded, so nothing can be said about calibration."
    claim = f"it said {100 * stated.mean_confidence:.0f}% and was right {100 * stated.accuracy:.0f}% of the time"
    text = f"Stated confidence was {_off(stated, ' on average')} ({claim})"
    if after is None:
        return f"{text}."
    if reported(summary) is not None:
        return f"{text}; {_off_reported(summary, stated)}.{_of_answers(summary)}"
    if not comes_closer(summary):
        return f"{text}; none of the confidences that need no right answers has a lower Brier score."
    best = f'"{after.estimator.title}" was best, {_off(after)}'
    return f"{text}; of the confidences that need no right answers, {best}."


def _off_reported(summary: Summary, stated: EstimatorSummary) -> str:
    """What adapting and the posterior made of the stated confidence."""
    parts = []
    for row, name in ((adapted(summary), "after adapting it"), (posterior_of(summary), "the posterior")):
        if row is not None:
            doubt = "" if _distinguishable(stated, row) else " (too few questions to tell)"
            parts.append(f"{name} was {_off(row)}{doubt}")
    return "; ".join(parts)


def _of_answers(summary: Summary) -> str:
    """Whether the posterior's best answers are better; empty without any."""
    own, best = summary.estimators.get("posterior"), summary.estimators.get("posterior_best")
    if own is None or best is None or math.isnan(best.accuracy) or math.isnan(own.accuracy):
        return ""
    return (
        f" The model's own answers were right {100 * own.accuracy:.0f}% of the time, the posterior's best ones "
        f"{100 * best.accuracy:.0f}%."
    )


def _off(row: EstimatorSummary, how: str = "") -> str:
    """The calibration error in words, whether chance alone may have made it, and the Brier score."""
    chance = " (chance alone may explain that)" if row.ece_within_floor else ""
    return f"off by {row.ece:.3f}{how}{chance}, Brier score {row.brier:.3f}"


def _distinguishable(one: EstimatorSummary, other: EstimatorSummary) -> bool:
    """Whether two scores may be read as different: with `FEWEST` questions, or where intervals do not overlap."""
    if min(one.n, other.n) >= FEWEST:
        return True
    if one.intervals is None or other.intervals is None:
        return False
    spans = (one.intervals.brier, other.intervals.brier)
    return max(each.low for each in spans) > min(each.high for each in spans)


def provenance(run: RunReport) -> list[tuple[str, str]]:
    """How the run was made, as terms and values."""
    manifest, recipe = run.manifest, _settings(run)
    environment, adapter = manifest.get("environment", {}), manifest.get("adapter") or {}
    settings = ", ".join(f"{key} = {_joined(value)}" for key, value in run.settings.items())
    facts = {
        "Model": recipe.get("model"),
        "Fingerprint of the model": str(manifest.get("model", ""))[:12],
        "Stream": _joined(recipe.get("benchmarks") or recipe.get("questions") or ""),
        "Fingerprint of the stream": str(manifest.get("stream", ""))[:12],
        "Questions": f"{amount(len(run.records))} of {amount(run.total)}",
        "Method": recipe.get("method"),
        "Temperature of normalised P(True)": recipe.get("tau") or manifest.get("tau"),
        "Seed": recipe.get("seed"),
        "Settings other than the defaults": settings or "none",
        "Adapter": f"LoRA of rank {adapter.get('r')} on {_joined(adapter.get('target_modules') or [])}, "
        f"layers {_joined(adapter.get('layers_to_transform') or 'all')}"
        if adapter and run.learned
        else "",
        "Environment": ", ".join(f"{key} {value}" for key, value in environment.items()),
        "Begun": manifest.get("created"),
        "Time": f"{run.seconds:,.0f} s on the questions, {run.seconds / max(len(run.records), 1):.2f} s each",
    }
    return [(term, str(value)) for term, value in facts.items() if value not in (None, "")]


def _settings(run: RunReport) -> dict[str, Any]:
    """Every setting of a run by the name of its flag."""
    return SettingGroups.model_validate(run.manifest.get("settings", {})).flat()


def _joined(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def ledger(records: Sequence[Record]) -> list[tuple[str, str, str, str]]:
    """Tokens through the network by purpose: name, in total, per question, and share of all."""
    by_purpose = dict.fromkeys(PURPOSES, 0.0)
    for record in records:
        for purpose, tokens in asdict(record.ledger).items():
            by_purpose[purpose] += tokens
    total = sum(by_purpose.values())
    lines = [(PURPOSES[purpose], tokens) for purpose, tokens in by_purpose.items() if tokens] + [("together", total)]
    questions = max(len(records), 1)
    return [(name, f"{n:,.0f}", f"{n / questions:,.1f}", percent(n / total if total else None)) for name, n in lines]


def domain_rows(run: RunReport) -> list[dict[str, str]]:
    """A row for each domain: how calibrated it was before and after, and how much was learned there."""
    after = best_alternative(run.summary)
    rows = []
    for domain, part in run.summary.domains.items():
        row = {"name": domain, "questions": amount(part.questions)}
        row |= _columns("before", part.estimators.get("stated"))
        row |= _columns("after", part.estimators.get(after.estimator.name) if after else None)
        row["best_accuracy"] = _best_accuracy(part)
        rows.append(row | {"trained": amount(part.trained), "alarms": amount(part.alarms)})
    return rows


def _best_accuracy(summary: Summary) -> str:
    """Accuracy of the posterior's best answers; empty without any."""
    best = summary.estimators.get("posterior_best")
    return "" if best is None or math.isnan(best.accuracy) else f"best {percent(best.accuracy)}"


def _columns(prefix: str, row: EstimatorSummary | None) -> dict[str, str]:
    intervals = row.intervals if row else None
    return {
        f"{prefix}_brier": number(row.brier if row else None, 3),
        f"{prefix}_interval": span(intervals.brier if intervals else None),
        f"{prefix}_ece": number(row.ece if row else None, 3),
        f"{prefix}_floor": floor_side(row) if row else "",
        f"{prefix}_auroc": number(row.auroc if row else None, 3),
        f"{prefix}_accuracy": percent(row.accuracy if row else None),
    }


def overview(run: RunReport) -> tuple[str, ...]:
    """The row of a run in the table of all runs, without its name; a confidence picked among several says so."""
    recipe, after = _settings(run), best_alternative(run.summary)
    stated = run.summary.estimators.get("stated")
    accurate = after or stated
    candidates = 1 if reported(run.summary) else len(alternatives(run.summary))
    best = _best_accuracy(run.summary)
    among = f", the best of {candidates} on these answers" if candidates > 1 else ""
    return (
        str(recipe.get("model", "")),
        str(recipe.get("method", "")),
        amount(len(run.records)),
        ", ".join(filter(None, (percent(accurate.accuracy if accurate else None), best))),
        number(stated.brier if stated else None, 3),
        number(stated.ece if stated else None, 3),
        f"{after.estimator.title}{among}" if after else "",
        number(after.brier if after else None, 3),
        number(after.ece if after else None, 3),
        number(after.cost_measured if after else None, 1),
    )
