"""Views of candidates against values computed by hand."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secl.evidence import OPTIONS, Evidence, LetterOrder, Likelihood, PTrue, Sample, Source, SourceKind, Thought
from secl.posterior.views import (
    ANSWER_VIEWS,
    DOUBT,
    VIEWS,
    VOTE,
    Views,
    centred,
    p_true,
    read_views,
    value,
    view_title,
)
from secl.prompts.templates import NONE_OF_THESE
from secl.question import Question
from secl.records import Learning
from tests.answers import compared, make_record, replied

ALL: tuple[str, ...] = ("letters", "likelihood", "p_true")
QUESTION = Question("Capital of France?", ("Rome", "Paris", "Bern"))
REPLY = replied("B", (-3.0, -1.0, -2.0))
LIKELIHOODS = [Likelihood(given=-g, alone=-a, tokens=n) for g, a, n in ((8, 6, 2), (3, 7, 1), (9, 9, 3))]
ORDER = LetterOrder(order=(2, 0, 1), log_p=(-4.0, -2.0, -6.0))
COMPARED = compared(QUESTION.options, ORDER, likelihoods=LIKELIHOODS)
P_TRUE = PTrue(
    candidates=("Paris", "Rome", "Bern"),
    probabilities=(0.6, 0.2, 0.1),
    false_probabilities=(0.2, 0.4, 0.1),
    source=OPTIONS,
)
EVIDENCE = replace(COMPARED, p_true=P_TRUE)


def maybe(names: tuple[str, ...] = ALL, evidence: Evidence = EVIDENCE, **changes: Any) -> Views | None:
    question, reply = changes.get("question", QUESTION), changes.get("reply", REPLY)
    frozen = changes.get("frozen", reply)
    learning = Learning(frozen=frozen, frozen_correct=None)
    record = replace(make_record(0), question=question, reply=reply, learning=learning, evidence=evidence)
    return read_views(names, record)


def read(names: tuple[str, ...] = ALL, evidence: Evidence = EVIDENCE, **changes: Any) -> Views:
    views = maybe(names, evidence, **changes)
    assert views is not None
    return views


def open_evidence(*samples: Sample, named: tuple[str, ...], letters: tuple[LetterOrder, ...] = ()) -> Evidence:
    return compared((*named, NONE_OF_THESE), *letters, samples=samples, source=Source("answers", sampled=1))


def test_views_by_hand() -> None:
    views = read()
    assert (views.candidates, views.own, [*views.values]) == (("Rome", "Paris", "Bern"), 1, ["likelihood", "p_true"])
    # (-8 + 3) / 2, (-3 + 3.5) / 1, (-9 + 4.5) / 3 and their mean of -7 / 6
    assert views.values["likelihood"] == pytest.approx((-2.5 + 7 / 6, 0.5 + 7 / 6, -1.5 + 7 / 6))
    odds = (math.log(0.5), math.log(3), 0.0)
    assert views.values["p_true"] == pytest.approx([log_odds - sum(odds) / 3 for log_odds in odds])
    first, second = views.orders
    frozen = read(frozen=replace(REPLY, text="C", answer="C", option_log_p=(-9.0, -9.0, -3.0)))
    assert (frozen.own, frozen.orders[0].log_p) == (1, (-2.0, -2.0, 4.0))  # letters of the frozen reply alone
    assert (first.order, first.log_p) == ((0, 1, 2), (-1.0, 1.0, 0.0))
    assert (second.order, second.log_p) == ((2, 0, 1), (0.0, 2.0, -2.0))


def test_letters_behind_thoughts_are_the_mean_over_thoughts_moved_to_equal_probabilities() -> None:
    shares, thought = ((0.1, 0.7, 0.2), (0.5, 0.3, 0.2)), Thought(text="Hm.", tokens=2)
    first, second = (tuple(map(math.log, each)) for each in shares)
    evidence = compared(QUESTION.options, ORDER, LetterOrder(order=(2, 1, 0), log_p=second, thought=thought))
    values = read(("thoughts",), evidence, reply=replace(replied("B", first), thought=thought)).values["thoughts"]
    moved = [math.log((1 - DOUBT) * (a + b) / 2 + DOUBT / 3) for a, b in zip(*shares, strict=True)]
    assert DOUBT == 0.2
    assert values == pytest.approx([each - sum(moved) / 3 for each in moved])
    assert maybe(("thoughts",), compared(QUESTION.options, ORDER)) is None


def test_without_its_evidence_a_view_is_left_out_and_nothing_to_compare_gives_none() -> None:
    old = replace(EVIDENCE, p_true=replace(P_TRUE, false_probabilities=()))
    for views, orders in ((read(evidence=COMPARED), 2), (read(("p_true", "likelihood"), old), 0)):
        assert ([*views.values], len(views.orders)) == (["likelihood"], orders)
    assert maybe(("p_true",), old) is None
    assert maybe((), EVIDENCE) is None
    assert maybe(evidence=Evidence(p_true=P_TRUE)) is None
    assert maybe(evidence=compared(["Paris"] * 3, ORDER, likelihoods=LIKELIHOODS)) is None
    assert maybe(evidence=compared("ab"), reply=replace(REPLY, option_log_p=())) is None


def test_an_open_question_has_its_own_answer_first_and_all_other_answers_last() -> None:
    evidence = open_evidence(
        *(Sample(text="x", candidate=candidate, log_p=None) for candidate in (0, 0, 1, None, 0)),
        named=("Paris", "Rome"),
        letters=(
            LetterOrder(order=(0, 1, 2), log_p=(-1.0, -2.0, -3.0)),
            LetterOrder(order=(2, 0, 1), log_p=(-1.0, -1.0, -4.0)),
        ),
    )
    reply = replace(REPLY, text="Paris", answer="Paris", option_log_p=())
    question = Question("Capital of France?")
    views = read(("letters", "samples"), evidence, question=question, reply=reply)
    assert (views.own, views.none_last, [*views.values]) == (0, True, ["samples"])
    assert [order.order for order in views.orders] == [(0, 1, 2), (2, 0, 1)]
    assert views.orders[1].log_p == (1.0, 1.0, -2.0)
    # Paris has three samples and the answer itself, Rome one, and other answers one; 0.5 is added to each count.
    shares = [math.log(count + 0.5) for count in (4, 1, 1)]
    assert views.values["samples"] == pytest.approx([share - sum(shares) / 3 for share in shares])
    unread = read(evidence=evidence, question=question, reply=replace(reply, answer=None))
    assert unread.own is None
    first, *others = evidence.candidates.samples if evidence.candidates else ()
    beside = open_evidence(replace(first, own=True), *others, named=("Paris", "Rome"))
    given = read(("samples",), beside, question=question, reply=reply).values["samples"]
    shares = [math.log(count + 0.5) for count in (3, 1, 1)]  # a given answer is no sample of the model
    assert given == pytest.approx([share - sum(shares) / 3 for share in shares])


def test_the_best_wording_of_a_meaning_counts_by_the_root_of_its_words_and_what_is_left_by_the_rest() -> None:
    reply = replace(REPLY, text="Paris, I think", answer="Paris, I think", option_log_p=(), log_probability=-2.0)
    rome = Sample(text="Rome", candidate=1, log_p=-3.0)
    again = Sample(text="It is Rome", candidate=1, log_p=-2.5)
    evidence = open_evidence(rome, again, named=("Paris, I think", "Rome"))
    views = read(("text",), evidence, question=Question("Capital of France?"), reply=reply)
    texts = [-2.0 / math.sqrt(3), -2.5 / math.sqrt(3)]
    expected = [*texts, math.log(1 - sum(map(math.exp, texts)))]
    assert views.values["text"] == pytest.approx([score - sum(expected) / 3 for score in expected])
    asked, same = Question("Capital of France?"), replace(reply, log_probability=-9.0)
    other = replace(same, text="Bern", answer="Bern")  # the frozen reply counts if it has the same answer
    assert read(("text",), evidence, question=asked, reply=reply, frozen=other).values == views.values
    assert read(("text",), evidence, question=asked, reply=reply, frozen=same).values != views.values
    likely = open_evidence(rome, again, Sample(text="Paris", candidate=0, log_p=-0.5), named=("Paris, I think", "Rome"))
    given = [read(("text",), likely, question=asked, reply=each) for each in (reply, same)]
    assert given[0].values == given[1].values  # whatever the wording of the given answer
    unknown = replace(reply, log_probability=math.nan)
    assert maybe(("text",), evidence, question=Question("Capital of France?"), reply=unknown) is None


def seven(log_p: float, source: SourceKind) -> Evidence:
    """Evidence of a value with one sample."""
    return compared(
        ("7", NONE_OF_THESE), samples=[Sample(text="7", candidate=0, log_p=log_p)], source=Source(source, sampled=1)
    )


@pytest.mark.parametrize(
    ("source", "entropy", "log_p", "log_odds"),
    [
        ("values", 0.0, -9.0, 0.6 - 1.4 * math.log(0.02)),
        ("fixed_values", 0.0, -9.0, -0.1 - 1.4 * math.log(0.02)),
        ("fixed_values", 2.0, 0.0, -0.1 - 1.4 * math.log(2.02)),
        ("fixed_values", math.nan, 0.0, 0.6 * math.log(99)),
        ("values", math.nan, math.log(0.5), 0.0),
        ("values", math.nan, -9999.0, -5999.4),  # vLLM's log-probability of the impossible
    ],
)
def test_a_value_has_odds_of_its_entropy_or_text(
    source: SourceKind, entropy: float, log_p: float, log_odds: float
) -> None:
    alone = seven(log_p, source)
    assert alone.candidates is not None
    found = value(alone.candidates, replace(REPLY, entropy=entropy, log_probability=log_p), alone)
    own, other = (math.nan if each is None else each for each in found or ())
    assert (own - other, math.exp(own) + math.exp(other)) == pytest.approx((log_odds, 1.0))


@pytest.mark.parametrize(("given", "asked"), [(math.log(0.8), 0.8), (0.0, 0.99), (-50.0, 0.01)])
def test_a_value_that_was_read_alone_has_the_mean_of_both_log_odds(given: float, asked: float) -> None:
    found = seven(-0.2, "values").candidates
    assert found is not None
    read = replace(found, likelihoods=(Likelihood(given=given, alone=math.nan, tokens=1), None))
    reply = replace(REPLY, entropy=0.4, log_probability=-0.2)
    own, other = (math.nan if each is None else each for each in value(read, reply, Evidence(candidates=read)) or ())
    first, alone = 0.6 - 1.4 * math.log(0.42), 0.8 * math.log(asked / (1 - asked))
    assert own - other == pytest.approx((first + alone) / 2)


def test_a_field_has_its_views_whichever_are_chosen_for_answers() -> None:
    evidence, question = seven(-0.1, "fixed_values"), Question("Total?")
    for log_p, view in ((-0.1, "value"), (math.nan, "samples")):
        chosen: tuple[tuple[str, ...], ...] = (("letters",), ("samples", "text"), ANSWER_VIEWS)
        for names in chosen:
            reply = replace(REPLY, text="7", answer="7", option_log_p=(), log_probability=log_p)
            assert [*read(names, evidence, question=question, reply=reply).values] == [view]


def test_every_way_to_a_number_adds_as_much_and_one_that_leads_nowhere_nothing() -> None:
    seven = Sample(text="7", candidate=0, log_p=None, program=True)
    nowhere = Sample(text=None, candidate=None, log_p=None, program=True)
    drawn = Sample(text="8", candidate=1, log_p=-1.0)
    unread = Sample(text=None, candidate=None, log_p=-1.0)
    question, reply = Question("3 + 4?", form="number"), replace(REPLY, text="7", answer="7", option_log_p=())

    def values(*samples: Sample) -> tuple[float, ...]:
        evidence = open_evidence(*samples, named=("7", "8"))
        views = read(("samples", "text"), evidence, question=question, reply=reply)
        assert [*views.values] == ["samples"]
        return views.values["samples"]

    for samples, votes in (
        ((seven,), (2, 0, 0)),
        ((nowhere, drawn, drawn), (1, 2, 0)),
        ((nowhere,), (1, 0, 0)),
        ((nowhere, unread), (1, 0, 1)),
    ):
        assert values(*samples) == pytest.approx([VOTE * (n - sum(votes) / 3) for n in votes])


def test_what_is_impossible_counts_as_the_least_possible_and_every_view_has_a_title() -> None:
    assert centred(("a", "b", "a"), (-2.5, 0.5, -1.5)) == (-1.25, 1.25, -1.25)  # equal texts have their mean
    texts = ("a", "b", "c")
    for least in (-math.inf, math.nan):
        assert centred(texts, (-1.0, least, -3.0)) == pytest.approx((4 / 3, -2 / 3, -2 / 3))
    for none in ((-math.inf,) * 3, (None,) * 3):
        assert centred(texts, none) == (0.0, 0.0, 0.0)
    certain = replace(P_TRUE, probabilities=(1.0, 0.0, 0.0), false_probabilities=(0.0, 1.0, 1.0))
    assert COMPARED.candidates is not None
    log_odds = p_true(COMPARED.candidates, REPLY, Evidence(p_true=certain))
    assert log_odds == pytest.approx((math.log(1e-12), -math.log(1e-12), math.log(1e-12)))  # far and finite
    assert {view_title(name) for name in (*ANSWER_VIEWS, "value")} == {view.title for view in VIEWS.values()}
    assert view_title("a view of one's own") == "a view of one's own"


NUMBERS = st.one_of(st.none(), st.floats(-1e4, 0), st.just(-math.inf))


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), NUMBERS), min_size=1, max_size=10))
def test_centred_values_are_finite_sum_to_0_and_equal_texts_agree(pairs: list[tuple[str, float | None]]) -> None:
    texts, values = zip(*pairs, strict=True)
    found = centred(texts, values)
    assert all(map(math.isfinite, found))
    assert math.fsum(dict(zip(texts, found, strict=True)).values()) == pytest.approx(0.0, abs=1e-8)
    assert all(value == found[texts.index(text)] for text, value in zip(texts, found, strict=True))
