"""Records to plain JSON values and back, without losing a digit."""

from __future__ import annotations

import dataclasses
from typing import Any

from secl.records import Decision, DincoEvidence, Evidence, Ledger, PTrue, Question, Record, References, Reply, Update

_COMPUTED = ("confidence", "hard_confidence")


def to_plain(record: Record) -> dict[str, Any]:
    """A record as nested dictionaries and lists."""
    return dataclasses.asdict(record)


def to_export(record: Record) -> dict[str, Any]:
    """The same for other tools, with the confidences that are computed from the bins."""
    values = to_plain(record)
    for key, reply in (("reply", record.reply), ("frozen", record.frozen)):
        values[key] |= {name: getattr(reply, name) for name in _COMPUTED}
    return values


def from_plain(values: dict[str, Any]) -> Record:
    """The record behind `to_plain` or `to_export`, also after a trip through JSON (which keeps every float exactly)."""
    question = dict(values["question"])
    question["options"] = tuple(question["options"])
    reference = question["reference"]
    if isinstance(reference, dict):
        question["reference"] = References(tuple(reference["correct"]), tuple(reference["incorrect"]))
    update = values["update"]
    return Record(
        **{
            **values,
            "question": Question(**question),
            "reply": _reply(values["reply"]),
            "frozen": _reply(values["frozen"]),
            "decision": Decision(**values["decision"]),
            "evidence": _evidence(values["evidence"]),
            "ledger": Ledger(**values["ledger"]),
            "update": update and Update(**{**update, "losses": tuple(update["losses"])}),
        }
    )


def to_row(record: Record) -> dict[str, Any]:
    """A record as one flat row for tables: what people filter and plot by."""
    p_true = record.evidence.p_true
    return {
        "position": record.position,
        "id": record.question.id,
        "domain": record.question.domain,
        "question": record.question.text,
        "answer": record.reply.answer,
        "correct": record.correct,
        "confidence": record.reply.confidence,
        "hard_confidence": record.reply.hard_confidence,
        "digit_mass": record.reply.digit_mass,
        "entropy": record.reply.entropy,
        "log_probability": record.reply.log_probability,
        "version": record.reply.version,
        "frozen_answer": record.frozen.answer,
        "frozen_correct": record.frozen_correct,
        "frozen_confidence": record.frozen.confidence,
        "p_true": p_true.probabilities[0] if p_true else None,
        "signal": record.signal,
        "candidates": len(p_true.candidates) if p_true else None,
        "distractor_source": p_true.distractor_source if p_true else None,
        "alarm": record.decision.alarm,
        "in_burst": record.decision.in_burst,
        "statistic": record.decision.statistic,
        "outcome": record.outcome,
        "target": record.update.target if record.update else None,
        "after": record.update.after if record.update else None,
        "new_version": record.update.version if record.update else None,
        "tokens": record.ledger.total,
        "plain_tokens": record.plain_tokens,
    }


def _evidence(values: dict[str, Any]) -> Evidence:
    p_true, samples, dinco = values["p_true"], values["samples"], values["dinco"]
    return Evidence(
        p_true and PTrue(**_as_tuples(p_true)),
        None if samples is None else tuple(samples),
        dinco and DincoEvidence(**_as_tuples(dinco)),
    )


def _as_tuples(value: Any) -> Any:
    """The lists inside a value of JSON as the tuples that records hold."""
    if isinstance(value, dict):
        return {key: _as_tuples(inside) for key, inside in value.items()}
    return tuple(map(_as_tuples, value)) if isinstance(value, list | tuple) else value


def _reply(values: dict[str, Any]) -> Reply:
    stored = {key: value for key, value in values.items() if key not in _COMPUTED}
    return Reply(**{**stored, "bins": tuple(values["bins"])})
