"""The posterior of a stream is recomputed from its records to the last digit, also from those that were stored."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from secl.calibrator import Calibrator
from secl.evaluation.posterior import replayed
from secl.evidence import PTrue
from secl.gates import EntropyShift, Never
from secl.posterior.rule import PosteriorRule
from secl.question import Question
from secl.records import Reply
from secl.runs.encoding import from_plain, to_plain
from secl.settings.groups import LoopSettings, PosteriorSettings
from secl.testing import ScriptedModel, toy_stream, unit


class Judging(ScriptedModel):
    """Has P(False) too."""

    def score_p_true(self, question: Question, reply: Reply) -> PTrue | None:
        found = super().score_p_true(question, reply)
        if found is None:
            return None
        false = tuple(0.9 * unit(f"f/{question.id}/{candidate}") for candidate in found.candidates)
        return replace(found, false_probabilities=false)


def stream(count: int) -> list[Question]:
    """Questions with four options and with three, and open ones."""
    questions = toy_stream(count)
    for i in range(0, count, 5):
        questions[i] = Question(f"What is {i}?", reference=str(i), id=f"open-{i}")
    for i in range(3, count, 7):
        questions[i] = Question(f"Is it {i}?", ("yes", "no", "yes"), reference="A", id=f"equal-{i}")
    return questions


CASES: dict[str, dict[str, Any]] = {
    "bursts": {
        "gate": EntropyShift(warmup=3, threshold=1, burst=5),
        "loop": LoopSettings(evidence_on="burst", bin_gate=None),
    },
    "all views": {
        "learns": False,
        "loop": LoopSettings(evidence_on="always"),
        "posterior": PosteriorRule(PosteriorSettings(views=("letters", "likelihood", "p_true"))),
        "evidence": ("candidates", "p_true"),
    },
    "best answers": {
        "learns": False,
        "loop": LoopSettings(evidence_on="always", answer="best"),
        "posterior": PosteriorRule(letters=0.1),
    },
}


@pytest.mark.parametrize("case", CASES)
def test_stored_records_give_the_posteriors_of_the_stream(case: str) -> None:
    made = Calibrator(Judging(), **{"method": "secl", "gate": Never(), "evidence": ("candidates",), **CASES[case]})
    records = list(made.run(stream(60)))
    posteriors = [record.posterior for record in records]
    assert sum(posterior is not None for posterior in posteriors) >= 10
    assert len({posterior.questions for posterior in posteriors if posterior is not None}) >= 3
    again = [from_plain(json.loads(json.dumps(to_plain(record)))) for record in records]
    assert again == records
    assert replayed(made.posterior, again) == posteriors
    if case == "best answers":
        assert any(record.answer != record.reply.answer for record in records)
        for record in records:
            assert record.posterior is not None
            assert (record.answer, record.confidence) == (record.best_answer, max(record.posterior.probabilities))
