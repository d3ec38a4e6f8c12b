"""The posterior of a stream is recomputed from its records to the last digit, also from those that were stored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from secl.calibrator import Calibrator
from secl.evaluation.posterior import replayed
from secl.evidence import EvidenceKind, PTrue
from secl.gates import EntropyShift, Never
from secl.posterior.rule import PosteriorRule
from secl.question import Question
from secl.records import Record, Reply
from secl.runs.encoding import from_plain, to_plain
from secl.settings.groups import LoopSettings, PosteriorSettings
from secl.testing import ScriptedModel, toy_stream, unit

CANDIDATES: tuple[EvidenceKind, ...] = ("candidates",)
ALWAYS = LoopSettings(evidence_on="always", bin_gate=None)
IN_BURSTS = LoopSettings(evidence_on="burst", bin_gate=None)
SHORT = PosteriorRule(letters=0.1)
MANY = PosteriorRule(PosteriorSettings(views=("letters", "likelihood", "p_true")))


class Judging(ScriptedModel):
    """Has P(False) too."""

    def score_p_true(self, question: Question, reply: Reply) -> PTrue | None:
        found = super().score_p_true(question, reply)
        if found is None:
            return None
        false = tuple(0.9 * unit(f"f/{question.id}/{candidate}") for candidate in found.candidates)
        return PTrue(
            candidates=found.candidates,
            probabilities=found.probabilities,
            false_probabilities=false,
            distractor_source=found.distractor_source,
        )


def stream(count: int) -> list[Question]:
    """Questions with four options and with three, and open ones."""
    questions = toy_stream(count)
    for i in range(0, count, 5):
        questions[i] = Question(f"What is {i}?", reference=str(i), id=f"open-{i}")
    for i in range(3, count, 7):
        questions[i] = Question(f"Is it {i}?", ("yes", "no", "yes"), reference="A", id=f"equal-{i}")
    return questions


CASES: dict[str, dict[str, Any]] = {
    "bursts": {"gate": EntropyShift(warmup=3, threshold=1, burst=5), "loop": IN_BURSTS},
    "all views": {
        "gate": Never(),
        "learns": False,
        "loop": ALWAYS,
        "posterior": MANY,
        "evidence": ("candidates", "p_true"),
    },
    "best answers": {
        "gate": Never(),
        "learns": False,
        "loop": LoopSettings(evidence_on="always", answer="best"),
        "posterior": SHORT,
    },
}


def calibrator(case: str) -> Calibrator:
    return Calibrator(Judging(), **{"method": "secl", "evidence": CANDIDATES, **CASES[case]})


def stored(records: Sequence[Record]) -> list[Record]:
    return [from_plain(json.loads(json.dumps(to_plain(record)))) for record in records]


@pytest.mark.parametrize("case", CASES)
def test_stored_records_give_the_posteriors_of_the_stream(case: str) -> None:
    made = calibrator(case)
    records = list(made.run(stream(60)))
    posteriors = [record.posterior for record in records]
    assert sum(posterior is not None for posterior in posteriors) >= 10
    assert len({posterior.questions for posterior in posteriors if posterior is not None}) >= 3
    again = stored(records)
    assert again == records
    assert replayed(made.posterior, again) == posteriors
    if case == "best answers":
        assert any(record.answer != record.reply.answer for record in records)
        for record in records:
            assert record.posterior is not None
            assert (record.answer, record.confidence) == (record.best_answer, max(record.posterior.probabilities))
