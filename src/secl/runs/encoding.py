"""Records to plain JSON values and back, without losing a digit."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from secl.data.cells import joined
from secl.grading import reported_correct
from secl.posterior.views import pmi_of
from secl.question import References
from secl.records import Record

_COMPUTED = ("stated", "stated_hard")
_REPORTED = ("answer", "confidence", "accepted", "best_answer")


def to_plain(record: Record) -> dict[str, Any]:
    """A record as nested dictionaries and lists."""
    return dict(_adapter().dump_python(record, warnings=False))  # as dataclasses.asdict, and much faster


def to_export(record: Record) -> dict[str, object]:
    """The same for other tools, with what is computed from it: confidences, and what was answered in the end."""
    values = to_plain(record)
    values |= {name: getattr(record, name) for name in _REPORTED}
    for key, reply in (("reply", record.reply), ("frozen", record.frozen)):
        values[key] |= {name: getattr(reply, name) for name in _COMPUTED}
    return values


def from_plain(values: Mapping[str, object]) -> Record:
    """The record behind `to_plain` or `to_export`, also after a trip through JSON (which keeps every float exactly).

    Raises:
        ValueError: a field is missing or has another type.
        QuestionError: the question is not usable.
    """
    return _adapter().validate_python(values)


@cache
def _adapter() -> TypeAdapter[Record]:
    return TypeAdapter(Record)


def to_row(record: Record) -> dict[str, object]:
    """A record as one flat row for tables: what people filter and plot by, and the question to ask it again.

    `answer`, `correct` and `confidence` are what was answered and reported in the end; without a posterior that is the
    model's own answer and its stated confidence.
    """
    question, p_true, posterior, labelled = record.question, record.evidence.p_true, record.posterior, record.labelled
    compared = posterior or p_true
    return {
        "position": record.position,
        "id": question.id,
        "domain": question.domain,
        "question": question.text,
        "options": list(question.options) or None,
        **_right(question.reference),
        "form": question.form,
        "grader": question.grader or None,
        "context": question.context or None,
        "system": question.system or None,
        "history": json.dumps(
            [{"role": turn.role, "content": turn.text} for turn in question.history], ensure_ascii=False
        )
        if question.history
        else None,
        "answer": record.answer,
        "answer_text": record.answer and question.text_of(record.answer),
        "correct": reported_correct(record),
        "label": record.label,
        "confidence": record.confidence,
        "labelled_confidence": labelled.confidence if labelled else None,
        "low": labelled.low if labelled else None,
        "high": labelled.high if labelled else None,
        "accepted": record.accepted,
        "raw_text": record.reply.text,
        "own_answer": record.reply.answer,
        "own_correct": record.correct,
        "stated_confidence": record.reply.stated,
        "stated_hard": record.reply.stated_hard,
        "digit_mass": record.reply.digit_mass,
        "entropy": record.reply.entropy,
        "log_probability": record.reply.log_probability,
        "version": record.reply.version,
        "frozen_answer": record.frozen.answer,
        "frozen_correct": record.frozen_correct,
        "frozen_confidence": record.frozen.stated,
        "p_true": p_true.probabilities[0] if p_true else None,
        "pmi": pmi_of(record.question, record.reply, record.evidence),
        "signal": record.signal,
        "posterior": posterior.confidence if posterior else None,
        "best_answer": record.best_answer if posterior else None,
        "posterior_best": posterior.probabilities[posterior.best] if posterior else None,
        "candidates": list(compared.candidates) if compared else None,
        "probabilities": list(posterior.probabilities) if posterior else None,
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


def _right(reference: str | References | None) -> dict[str, str | None]:
    """What is right, in the columns `reference` and `references` of a question file."""
    if isinstance(reference, References):
        several = json.dumps(dataclasses.asdict(reference), ensure_ascii=False)
        return {"reference": None, "references": several if reference.incorrect else joined(reference.correct)}
    return {"reference": reference, "references": None}
