"""Candidates, further answers, likelihoods and P(False) against plain transformers, and their cost."""

import re
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest
import torch

from secl.backends import readout, token_model
from secl.backends.base import Bundle
from secl.backends.generation import Generation
from secl.backends.local.model import LocalModel
from secl.data.benchmarks import quiz
from secl.errors import QuestionError
from secl.evidence import EvidenceKind, Sample
from secl.flow import questions
from secl.flow.further import FIRST, LISTED, SECOND_ROUND, compare, settled
from secl.flow.questions import Case, gather
from secl.flow.requests import FlowRun, Text
from secl.prompts.templates import MAX_ANSWER_TOKENS, NONE_OF_THESE, other_order
from secl.question import Question
from secl.records import Reply
from tests.backends.local.alone import FEW_WORDS, ONE_SENTENCE, Alone, chat, tokens_of
from tests.backends.local.conftest import MakeModel

pytestmark = pytest.mark.heavy

BOTH: tuple[EvidenceKind, ...] = ("candidates", "p_true")
CHOICE = Question("Which is a metal?", options=("neon", "iron", "argon", "liquid helium"), reference="B", id="b")


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt2"])
def test_letters_likelihoods_and_verdicts_are_those_of_transformers_alone(family: str, make_model: MakeModel) -> None:
    model, alone = make_model(family), Alone(family)
    reply = model.answer(CHOICE).reply
    gathered = model.gather(CHOICE, reply, ["candidates", "p_true"])
    found, verdicts = gathered.candidates, gathered.p_true
    assert found.candidates == CHOICE.options
    assert str(found.source) == "options"
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
    """Return everything that the model reads about a question with both kinds of evidence."""
    prompting = model.prompting
    return replace(
        prompting.choices(question),
        verdicts=prompting.verdicts(question, question.options),
        orders=prompting.orders(question, [other_order(len(question.options))]),
        spans=prompting.spans(question, question.options),
    )


def spent(model: LocalModel, question: Question, evidence: tuple[EvidenceKind, ...]) -> dict[str, float]:
    """Return the counted tokens of a question and its evidence by purpose."""
    model.meter.take()
    reply = model.answer(question, evidence=evidence).reply
    model.gather(question, reply, evidence)
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
    # Evidence that was not requested costs nothing. Evidence that is gathered later costs a separate pass.
    assert spent(make_model(family), CHOICE, ())["likelihood"] == 0
    later = make_model(family)
    reply = later.answer(CHOICE).reply
    later.meter.take()
    later.gather(CHOICE, reply, ["candidates"])
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
    with pytest.raises(QuestionError, match="shorten the question") as refused:
        model.check(question)
    needed: Any = re.search(r"takes (\d+) tokens", str(refused.value))
    assert longest <= int(needed[1])
    model.backend.limit = int(needed[1])
    model.check(question)


OPEN = [
    Question("Who wrote Hamlet?", reference="Shakespeare", id="d"),
    Question("Tom has 3 apples and buys 4. How many has he?", form="number", reference="7", id="c"),
    Question("Why is the sky blue?", form="sentence", id="e"),
    Question("Hello.", form="text", id="t"),
]


def sample(text: str | None) -> Sample:
    return Sample(text=text, candidate=None, log_p=None)


def compared(model: LocalModel, question: Question, answer: str) -> Any:
    """Return the evidence about an answer and its candidates."""
    case = Case(question, model.driver)
    case.reply = Reply(text=answer, answer=answer, bins=(0.1,) * 10, digit_mass=1.0, entropy=1.0, log_probability=-1.0)
    model.driver.run([FlowRun(gather(case, ["candidates"]))])
    return case.compared


@pytest.mark.parametrize("family", ["llama", "gemma2"])
@pytest.mark.parametrize("text", ["Who wrote Hamlet?", "Where is Oslo?", "Which metal is liquid?"])
def test_open_answers_are_those_of_generate_and_their_confidence_that_of_one_pass(
    family: str, text: str, make_model: MakeModel
) -> None:
    alone, model = Alone(family), make_model(family)
    for form, instruction, prefill in (
        ("short", FEW_WORDS, "Answer:"),
        ("short", FEW_WORDS, ""),
        ("sentence", ONE_SENTENCE, ""),
    ):
        model.prompting.prefilled = prefill != ""
        user = f"Question: {text}\n\n{instruction}"
        reply = model.answer(Question(text, form=form)).reply  # type: ignore[arg-type]
        written = alone.written(chat(user, prefill=prefill), MAX_ANSWER_TOKENS[form])  # type: ignore[index]
        assert reply.text.strip() == (written.strip().splitlines() or [""])[0].rstrip()
        said = f" {reply.text}" if form == "short" and written[:1].isspace() else reply.text
        assert reply.stated == pytest.approx(alone.confidence(user, prefill + said), abs=2e-5)
        entropies = alone.entropies(user, prefill, said)
        assert reply.entropy == pytest.approx(sum(entropies) / len(entropies), abs=2e-4)


def test_a_model_is_prefilled_unless_its_first_tokens_are_surer_without(
    make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, alone = make_model(), Alone("llama")
    facts = [each.text for domain in readout.PROBED for each in quiz(domain, readout.FACTS)]
    users = [f"Question: {fact}\n\n{FEW_WORDS}" for fact in facts]
    surest = [
        fmean(float(alone.log_p(tokens_of(chat(user, prefill=prefill)))[-1].max()) for user in users)
        for prefill in ("Answer:", "")
    ]
    gained = surest[1] - surest[0]
    for margin, prefilled in ((gained + 1e-3, True), (gained - 1e-3, False)):
        monkeypatch.setattr(readout, "PREFILL_GAIN", margin)
        assert readout.prefers_prefill(model.backend, model.backend.token_ids) is prefilled
        assert make_model().environment["short_replies"] == ("prefilled" if prefilled else "plain")
        assert make_model(paper=True).prompting.prefilled


def test_a_model_is_tried_for_its_first_short_reply_and_not_before(
    make_model: MakeModel, questions: list[Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[object] = []

    def prefers_prefill(engine: object, _ids: object) -> bool:
        tried.append(engine)
        return True

    monkeypatch.setattr(token_model, "prefers_prefill", prefers_prefill)
    model = make_model()
    model.prefetch([*questions[:3], questions[4]], [("candidates", "p_true")] * 4, weights_fixed=True)
    assert not tried
    for question in (questions[3], replace(questions[3], text="Who wrote Faust?")):
        model.answer(question)
    assert tried == [model.backend]


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_log_probabilities_of_samples_are_those_of_transformers_alone(family: str, make_model: MakeModel) -> None:
    model = make_model(family)
    prompt = model.prompting.answer(OPEN[0])
    generations = [replace(Generation.answer(prompt, "short"), seed=seed, top_p=0.95) for seed in range(4)]
    model.backend.write([generations])
    alone = Alone(family)
    for generation in generations:
        whole = [*prompt, *generation.written]
        expected = alone.log_p(whole)[torch.arange(len(prompt) - 1, len(whole) - 1), generation.written]
        assert generation.log_p == pytest.approx(expected.tolist(), abs=1e-4)
    assert len({tuple(generation.written) for generation in generations}) > 1


@pytest.mark.parametrize("question", OPEN, ids=lambda question: question.form)
def test_an_answer_is_one_of_a_choice_in_an_order_of_its_own(question: Question, make_model: MakeModel) -> None:
    model = make_model()
    answer = "so it is" if question.free else "42"  # a number in a text is a fact, which is not compared
    reply = replace(model.answer(question).reply, answer=answer)
    found = model.gather(question, reply, ["candidates"]).candidates
    assert (found.candidates[0], found.candidates[-1]) == (answer, NONE_OF_THESE)
    # A random model never repeats an answer, and its programs compute nothing.
    number = question.form == "number"
    assert [each.program for each in found.samples] == ([True] + [False] * SECOND_ROUND if number else [False] * 5)
    assert len(found.samples) == (1 if number else FIRST) + SECOND_ROUND
    assert all(each is None for each in found.likelihoods)
    first = found.letters[0].order
    assert first[-1] == len(first) - 1
    assert [each.order for each in found.letters[1:]] == [tuple(first[i] for i in other_order(len(first)))]
    if not question.free:
        choice = Question(question.text, found.candidates)
        for each in found.letters:
            assert each.log_p == pytest.approx(Alone("llama").letters(choice, each.order), abs=1e-3)
    assert model.gather(question, reply, ["candidates"]).candidates == found


@pytest.mark.parametrize("left", [0, 1])
def test_a_further_answer_that_ends_where_it_may_have_no_more_tokens_is_none(left: int) -> None:
    text = Text(text="Paris", form="short", complete=bool(left))
    assert questions.sample_of(Question("Who?"), text).text == (None, "Paris")[left]


def test_other_answers_are_those_drawn_most_often_and_an_echo_is_none() -> None:
    question = Question("What is the capital of Peru?")
    texts = ["Cusco", "Ica", "Ica", "Puno", "Tacna", "The capital of Peru.", None, "It is Lima."]
    drawn = compare(question, "Lima", [sample(text) for text in texts])
    assert drawn.candidates == ("Lima", "Ica", "Cusco", "Puno")
    assert len(drawn.candidates) == 1 + LISTED
    assert [each.candidate for each in drawn.samples] == [2, 1, 1, 3, None, None, None, 0]
    given = compare(question, "Lima", [sample("Ica")], rivals=("Puno",))
    assert (given.candidates, str(given.source)) == (("Lima", "Puno", "Ica"), "given:1+sampled:1")
    assert settled(question, "Lima", [sample("Lima"), sample("lima."), sample("It is Lima.")])
    assert not settled(question, "Lima", [sample("Lima"), sample(None)])


def test_candidates_too_long_to_read_are_not_compared(make_model: MakeModel) -> None:
    model = make_model()
    assert compared(model, OPEN[0], "Marlowe") is not None
    model.backend.limit = 20
    assert compared(model, OPEN[0], "Marlowe") is None
