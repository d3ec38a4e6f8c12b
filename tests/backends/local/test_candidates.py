"""Letters under further orders, likelihoods and P(False): against the same numbers from transformers alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from secl.backends.base import Bundle
from secl.backends.local.asking.cases import Case
from secl.backends.local.asking.further import compare_options
from secl.backends.local.model import LocalModel
from secl.errors import QuestionError
from secl.evidence import EvidenceKind
from secl.question import Question
from tests.backends.local.alone import Alone
from tests.backends.local.conftest import MakeModel

pytestmark = pytest.mark.heavy

BOTH: tuple[EvidenceKind, ...] = ("candidates", "p_true")
CHOICE = Question("Which is a metal?", options=("neon", "iron", "argon", "liquid helium"), reference="B", id="b")


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt2"])
def test_letters_likelihoods_and_verdicts_are_those_of_transformers_alone(family: str, make_model: MakeModel) -> None:
    model, alone = make_model(family), Alone(family)
    reply = model.answer(CHOICE).reply
    found, verdicts = model.compare_candidates(CHOICE, reply), model.score_p_true(CHOICE, reply)
    assert found.candidates == CHOICE.options
    assert found.source == "options"
    assert [each.order for each in found.letters] == [(3, 2, 1, 0)]
    for each in found.letters:
        assert each.log_p == pytest.approx(alone.letters(CHOICE, each.order), abs=1e-4)
    for candidate, likelihood in zip(CHOICE.options, found.likelihoods, strict=True):
        given, tokens = alone.likelihood(CHOICE, candidate)
        assert likelihood.tokens == tokens
        assert likelihood.given == pytest.approx(given, abs=1e-3)
        assert likelihood.alone == pytest.approx(alone.likelihood(None, candidate)[0], abs=1e-3)
    assert len(verdicts.false_probabilities) == len(CHOICE.options)
    for candidate, *p in zip(verdicts.candidates, verdicts.probabilities, verdicts.false_probabilities, strict=True):
        assert p == pytest.approx(alone.verdicts(CHOICE, candidate), rel=1e-3)


def bundle_of(model: LocalModel, question: Question) -> Bundle:
    """All that is read about a question with both kinds of evidence."""
    prompting, case = model.prompting, Case(question)
    compare_options(model.asker, case)
    more: Any = case.comparison
    verdicts = prompting.verdicts(question, question.options)
    return replace(prompting.choices(question), verdicts=verdicts, orders=more.orders, spans=more.spans)


def spent(model: LocalModel, question: Question, evidence: tuple[EvidenceKind, ...]) -> dict[str, float]:
    """What the model counts for a question and its evidence, by purpose."""
    model.meter.take()
    reply = model.answer(question, evidence=evidence).reply
    if "p_true" in evidence:
        model.score_p_true(question, reply)
    if "candidates" in evidence:
        model.compare_candidates(question, reply)
    ledger = model.meter.take()
    parts = {name: getattr(ledger, name) for name in ("answering", "scoring", "reordering", "likelihood")}
    assert ledger.total == pytest.approx(sum(parts.values()))
    return parts


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_the_parts_of_the_ledger_are_the_tokens_of_the_pass(family: str, make_model: MakeModel) -> None:
    model = make_model(family)

    def cost(sequences: Sequence[Sequence[int]]) -> int:
        return len({tuple(sequence[: end + 1]) for sequence in sequences for end in range(len(sequence))})

    bundle = bundle_of(model, CHOICE)
    spans = [span.tokens[:-1] for span in bundle.spans]
    assert len(bundle.orders) == 1
    assert len(spans) == 8
    parts = spent(model, CHOICE, BOTH)
    sequences = [*bundle.answers]
    before = 0
    for purpose, more in (
        ("answering", []),
        ("scoring", bundle.verdicts),
        ("reordering", bundle.orders),
        ("likelihood", spans),
    ):
        sequences += more
        assert parts[purpose] == pytest.approx(cost(sequences) - before), purpose
        before = cost(sequences)
    # What was not wanted costs nothing, and what is gathered later costs a pass of its own.
    assert spent(make_model(family), CHOICE, ())["likelihood"] == 0
    later = make_model(family)
    reply = later.answer(CHOICE).reply
    later.meter.take()
    later.compare_candidates(CHOICE, reply)
    ledger = later.meter.take()
    assert (ledger.answering, ledger.scoring) == (0, 0)
    assert ledger.reordering + ledger.likelihood == pytest.approx(cost([*bundle.orders, *spans]))


SHAPES = {
    "two": Question("Why?", ("a", "b")),
    "long option": Question("Why?", ("a " * 200, "b")),
    "many options": Question("Why?", tuple(f"option {i}" for i in range(8))),
    "no letters": Question("?", ("1 2 3 4 5 6 7 8 9", "+ - * / % & $")),
}


@pytest.mark.parametrize("question", SHAPES.values(), ids=SHAPES)
def test_what_the_check_lets_pass_is_no_longer_than_the_model_can_read(
    question: Question, make_model: MakeModel
) -> None:
    model = make_model()
    longest = max(map(len, bundle_of(model, question).sequences))
    model.backend.limit = 1
    with pytest.raises(QuestionError, match="shorten it") as refused:
        model.check(question)
    needed = re.search(r"takes (\d+) tokens", str(refused.value))
    assert needed is not None
    assert longest <= int(needed[1])
    model.backend.limit = int(needed[1])
    model.check(question)
