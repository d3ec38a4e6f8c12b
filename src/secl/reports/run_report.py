"""What a report tells about one run, in words and numbers: the verdict, the worst answers, how the run was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from secl.metrics.paired_bootstrap import FEWEST
from secl.records import Question, Record, References
from secl.reports.estimators import READINGS, Series
from secl.reports.figures import Panel
from secl.reports.tables import NEEDS_LABELS, amount, number, percent, span

WORST = 10
"""Wrong answers that are shown."""

EXCERPT = 300
"""Characters of a question that are shown."""

PURPOSES = {
    "answering": "answering, frozen model",
    "adapting": "answering, adapted model",
    "scoring": "P(True) and distractors",
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
        records: of the questions answered so far, in order.
        summary: of `secl.reports.summary.summarise`, over the same readings as `series`.
        series: every confidence read off the records, by the name of its reading.
        total: questions of the whole stream.
        seconds: spent on the questions so far.
        manifest: of the run folder: recipe, model, tau, stream, environment, adapter, created.
        settings: of the recipe, those that differ from the defaults.
        command: that repeats the run.
    """

    name: str
    records: Sequence[Record]
    summary: Mapping[str, Any]
    series: Mapping[str, Series]
    total: int
    seconds: float
    manifest: Mapping[str, Any]
    settings: Mapping[str, Any]
    command: str

    @property
    def learned(self) -> bool:
        """Whether there is an adapted model beside the frozen one."""
        return "secl" in self.summary

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
    """The graded confidences of a run by the name of their reading, "before" and "after" first."""
    first = ("stated", after(run.summary))
    order = sorted(run.series, key=lambda key: first.index(key) if key in first else len(first))
    found: dict[str, Panel] = {}
    for key in order:
        series = run.series[key]
        pairs = [(c, right) for c, right in zip(series.confidence, series.correct, strict=True) if right is not None]
        if pairs:
            found[key] = (READINGS[key], [c for c, _ in pairs], [right for _, right in pairs])
    return found


def after(summary: Mapping[str, Any]) -> str | None:
    """What the stated confidence is compared with: SECL where the model learned, else the lowest ECE without labels.

    >>> after({"stated": {"ece": 0.4}, "p_true": {"ece": 0.3}, "norm_p_true": {"ece": 0.1}})
    'norm_p_true'
    """
    if "secl" in summary:
        return "secl"
    errors = {key: summary[key]["ece"] for key in rivals(summary)}
    return min(errors, key=lambda key: errors[key]) if errors else None


def rivals(summary: Mapping[str, Any]) -> list[str]:
    """The graded confidences beside the stated one that need no right answers."""
    candidates = [key for key in READINGS if key in summary and key != "stated" and key not in NEEDS_LABELS]
    return [key for key in candidates if summary[key]["ece"] is not None]


def closer(summary: Mapping[str, Any]) -> bool:
    """Whether the stated confidence is compared with one of a lower ECE.

    >>> closer({"stated": {"ece": 0.1}, "p_true": {"ece": 0.3}})
    False
    """
    stated, key = summary.get("stated"), after(summary)
    if not stated or stated["ece"] is None or key is None or summary[key]["ece"] is None:
        return False
    return bool(summary[key]["ece"] < stated["ece"])


def verdict(summary: Mapping[str, Any]) -> str:
    """What the run found, in one or two plain sentences.

    >>> stated = {"n": 200, "ece": 0.446, "accuracy": 0.4, "mean_confidence": 0.846}
    >>> print(verdict({"stated": stated, "secl": {**stated, "ece": 0.075}}))
    Stated confidence was off by 0.446 on average (it said 85% and was right 40% of the time); after adapting by 0.075.
    >>> print(verdict({"stated": {**stated, "ece": 0.1}, "p_true": {**stated, "ece": 0.7}}).partition("; ")[2])
    none of the confidences that need no right answers came closer.
    >>> print(verdict({"stated": {"ece": None}}))
    No answer could be graded, so nothing can be said about calibration.
    """
    stated, key = summary.get("stated"), after(summary)
    if stated is None or stated["ece"] is None:
        return "No answer could be graded, so nothing can be said about calibration."
    said = f"it said {100 * stated['mean_confidence']:.0f}% and was right {100 * stated['accuracy']:.0f}% of the time"
    text = f"Stated confidence was off by {stated['ece']:.3f} on average ({said})"
    if key == "secl":
        doubt = "" if _told_apart(stated, summary["secl"]) else " (too few questions to tell)"
        return f"{text}; after adapting by {number(summary['secl']['ece'], 3)}{doubt}."
    if key is None:
        return f"{text}."
    if not closer(summary):
        return f"{text}; none of the confidences that need no right answers came closer."
    best = f'"{READINGS[key]}" came closest, off by {summary[key]["ece"]:.3f}'
    return f"{text}; of the confidences that need no right answers, {best}."


def _told_apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two errors may be read as different: with `FEWEST` questions, or where intervals do not overlap."""
    if min(one["n"], other["n"]) >= FEWEST:
        return True
    spans = [span for each in (one, other) if (span := (each.get("intervals") or {}).get("ece"))]
    return len(spans) == 2 and max(low for low, _ in spans) > min(high for _, high in spans)


def wrong_answers(run: RunReport, count: int = WORST) -> list[dict[str, Any]]:
    """The graded wrong answers with the highest reported confidence, ready to be shown."""
    graded = [(r, r.reply, r.correct) if run.learned else (r, r.frozen, r.frozen_correct) for r in run.records]
    wrong = [(record, reply) for record, reply, correct in graded if correct is False]
    wrong.sort(key=lambda pair: (-pair[1].confidence, pair[0].position))
    shown = []
    for record, reply in wrong[:count]:
        question, p_true = record.question, record.evidence.p_true
        text = question.text.strip()
        other = record.frozen.answer != reply.answer
        shown.append(
            {
                "position": record.position,
                "domain": question.domain,
                "text": text if len(text) <= EXCERPT else f"{text[:EXCERPT].rstrip()} …",
                "options": list(zip(question.letters, question.options, strict=True)),
                "answer": reply.answer,
                "said": _named(question, reply.answer) or f"nothing readable: {reply.text.strip()[:EXCERPT]!r}",
                "reference": question.reference,
                "right": _reference(question),
                "before": number(record.frozen.confidence, 3),
                "before_of": _named(question, record.frozen.answer) or "nothing readable" if other else "",
                "after": number(reply.confidence, 3) if run.learned else "",
                "p_true": number(p_true.probabilities[0], 3) if p_true else "",
            }
        )
    return shown


def _named(question: Question, answer: str | None) -> str:
    return f"{answer}. {question.option(answer)}" if answer in question.letters and answer else answer or ""


def _reference(question: Question) -> str:
    reference = question.reference
    if isinstance(reference, References):
        return " / ".join(reference.correct[:3])
    return _named(question, reference)


def making(run: RunReport) -> list[tuple[str, str]]:
    """How the run was made, as terms and values."""
    manifest, recipe = run.manifest, run.manifest.get("recipe", {})
    environment, adapter = manifest.get("environment", {}), manifest.get("adapter") or {}
    settings = ", ".join(f"{key} = {_plainly(value)}" for key, value in run.settings.items())
    facts = {
        "Model": recipe.get("model"),
        "Fingerprint of the model": str(manifest.get("model", ""))[:12],
        "Stream": _plainly(recipe.get("stream") or recipe.get("questions") or ""),
        "Fingerprint of the stream": str(manifest.get("stream", ""))[:12],
        "Questions": f"{amount(len(run.records))} of {amount(run.total)}",
        "Method": recipe.get("method"),
        "Temperature of normalised P(True)": recipe.get("tau") or manifest.get("tau"),
        "Seed": recipe.get("seed"),
        "Settings other than the defaults": settings or "none",
        "Adapter": f"LoRA of rank {adapter.get('r')} on {_plainly(adapter.get('target_modules') or [])}, "
        f"layers {_plainly(adapter.get('layers_to_transform') or 'all')}"
        if adapter and run.learned
        else "",
        "Environment": ", ".join(f"{key} {value}" for key, value in environment.items()),
        "Begun": manifest.get("created"),
        "Time": f"{run.seconds:,.0f} s on the questions, {run.seconds / max(len(run.records), 1):.2f} s each",
    }
    return [(term, str(value)) for term, value in facts.items() if value not in (None, "")]


def _plainly(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def ledger(records: Sequence[Record]) -> list[tuple[str, str, str, str]]:
    """Tokens through the network by purpose: name, in total, per question, and share of all."""
    spent = dict.fromkeys(PURPOSES, 0.0)
    for record in records:
        for purpose, tokens in asdict(record.ledger).items():
            spent[purpose] += tokens
    whole = sum(spent.values())
    lines = [(PURPOSES[purpose], tokens) for purpose, tokens in spent.items() if tokens] + [("together", whole)]
    each = max(len(records), 1)
    return [(name, f"{n:,.0f}", f"{n / each:,.1f}", percent(n / whole if whole else None)) for name, n in lines]


def domains(run: RunReport) -> list[dict[str, str]]:
    """A line for each domain: how calibrated it was before and after, and how much was learned there."""
    key = after(run.summary)
    lines = []
    for name, part in run.summary["domains"].items():
        pair = {"before": part.get("stated"), "after": part.get(key or "")}
        line = {"name": name, "questions": amount(part["questions"])}
        for when, part_of_it in pair.items():
            found = part_of_it or {"ece": None, "auroc": None, "accuracy": None}
            line[f"{when}_ece"] = number(found["ece"], 3)
            line[f"{when}_interval"] = span((found.get("intervals") or {}).get("ece"), lambda value: f"{value:.3f}")
            line[f"{when}_auroc"] = number(found["auroc"], 3)
            line[f"{when}_accuracy"] = percent(found["accuracy"])
        lines.append(line | {count: amount(part[count]) for count in ("trained", "alarms")})
    return lines


def overview(run: RunReport) -> tuple[str, ...]:
    """The line of a run in the table of all runs, without its name; a confidence picked among several says so."""
    recipe, key = run.manifest.get("recipe", {}), after(run.summary)
    stated, best = run.summary.get("stated") or {}, run.summary.get(key or "") or {}
    picked = 1 if key == "secl" else len(rivals(run.summary))
    among = f", the best of {picked} on these answers" if picked > 1 else ""
    return (
        str(recipe.get("model", "")),
        str(recipe.get("method", "")),
        amount(len(run.records)),
        percent((best or stated).get("accuracy")),
        number(stated.get("ece"), 3),
        f"{READINGS[key]}{among}" if key else "",
        number(best.get("ece"), 3),
        number(best.get("cost_measured"), 1),
    )
