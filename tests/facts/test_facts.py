"""The facts of a text: their tokens, their records, and what labels and thresholds do with them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import secl
from secl.evidence import Evidence, FactEvidence
from secl.explain import explain
from secl.facts.records import facts_of as facts_of_text
from secl.facts.tokens import place_tokens, read_facts
from secl.posterior.rule import PosteriorRule
from secl.records import Record
from secl.runs.encoding import from_body, to_body
from secl.testing import ScriptedModel
from secl.writing import Token

TEXT = (
    "The capital of the country is Lima, which was founded in 1535 by Francisco Pizarro. About 10 million people live "
    "there today. The currency is called the sol, and the largest port of the country is Callao, a part of Lima."
)
ABOUT = "Tell me about Peru."


def scored(text: str = TEXT, model: secl.CalibratedModel | None = None) -> Record:
    return (model or secl.load(ScriptedModel())).score(ABOUT, text, form="text")


def facts_in(record: Record) -> tuple[Record, ...]:
    assert record.facts is not None
    return record.facts


@pytest.mark.parametrize(
    ("pieces", "text", "places"),
    [
        (["Li", "ma"], "Lima", [(0, 2), (2, 4)]),
        ([" Li", "ma", "\n"], "Lima", [(0, 2), (2, 4)]),
        (["\n\n", "Li", "ma"], "Lima", [(0, 2), (2, 4)]),
        (["Lima.", "<|im_end|>"], "Lima", [(0, 4)]),
        (["\ufffd", "\ufffd", "京"], "东京", [(0, 1), (0, 1), (1, 2)]),
        (["\ufffd", "", "东", "京"], "东京", [(0, 1), (0, 1), (0, 1), (1, 2)]),
        (["a", "\ufffd", "\ufffd"], "aé", [(0, 1), (1, 2), (1, 2)]),
        (["Rome"], "Lima", None),
        (["Li"], "Lima", None),
        ([], "Lima", None),
    ],
)
def test_tokens_have_their_places_in_the_text(
    pieces: list[str], text: str, places: list[tuple[int, int]] | None
) -> None:
    placed = place_tokens([Token(piece, -1.0) for piece in pieces], text)
    assert places == (None if placed is None else [(start, end) for start, end, _ in placed])


def test_a_fact_has_the_probability_of_all_its_tokens() -> None:
    (fact,) = facts_of([("In", -9.0), (" 15", -0.25), ("35", -0.5), (" it", -9.0), (" was", -9.0)])
    assert (fact.start, fact.end, fact.log_p, fact.value, fact.tokens) == (3, 7, -0.75, -0.5, 2)  # " 15" has no rival


def facts_of(pieces: list[tuple[str, float]], top: dict[str, float] | None = None) -> tuple[FactEvidence, ...]:
    """Return the facts of a text of these tokens; `top` has other tokens in place of each, with probabilities."""
    others = tuple((text, math.log(p)) for text, p in (top or {}).items())
    tokens = [Token(text, log_p, ((text, log_p), *others)) for text, log_p in pieces]
    text = "".join(text for text, _ in pieces)
    return read_facts(text, place_tokens(tokens, text))


def test_a_value_competes_with_values_of_its_kind() -> None:
    pieces = [("Its", -9.0), (" capital", -9.0), (" is", -9.0), (" Li", math.log(0.4)), ("ma", math.log(0.5))]
    (fact,) = facts_of(pieces, {" located": 0.4, " Ca": 0.1, " 3": 0.1})
    assert math.exp(fact.log_p) == pytest.approx(0.2)
    assert math.exp(fact.value) == pytest.approx(0.5 * 0.4 / (0.4 + 0.1))


def test_a_value_that_the_model_would_not_write_is_improbable_even_if_no_other_value_is_known() -> None:
    tokens = [Token("It is", -9.0), Token(" Li", -9.0, ((" located", -0.7), (" a", -1.5))), Token("ma", -0.01)]
    (fact,) = read_facts("It is Lima", place_tokens(tokens, "It is Lima"))
    assert fact.value < -7


def test_late_digits_of_a_number_do_not_count_but_its_unit_does() -> None:
    half = math.log(0.5)
    digits = [(digit, half) for digit in "0.6271"]
    (fact,) = facts_of([("It", -9.0), (" is", -9.0), (" ", -9.0), *digits, (" kg", half), (" now", -9.0)])
    assert fact.tokens == 7
    assert fact.value == pytest.approx(math.log(0.5**5))  # not the first token, which has no rival; .627 and kg


def test_a_value_that_a_limit_cuts_is_no_fact() -> None:
    text = "It was founded in 1535 and has 10"
    assert len(read_facts(text, None)) == 2
    assert len(read_facts(text, None, complete=False)) == 1


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("It was founded in 1535", []),
        ("In 1535 it had 10 mill", ["1535"]),
        ("It was in Rio that J.", ["Rio"]),
        ("It is 12.", []),
        ("It was founded in 1535 by the", ["1535"]),
        ('In 1535 "Rio"', ["1535"]),
        ("东京的人口约为1400万。大阪", []),
        ("人口约为1400万。大阪的人口约为270万。", ["1400万"]),
    ],
)
def test_a_value_at_the_end_of_a_cut_text_is_no_fact(text: str, values: list[str]) -> None:
    found = read_facts(text, None, complete=False)
    assert [text[fact.start : fact.end] for fact in found] == values
    assert len(read_facts(text, None)) >= len(found)


def test_without_tokens_a_fact_has_no_probability() -> None:
    (fact,) = read_facts("In 1535 it was", None)
    assert math.isnan(fact.log_p)
    assert fact.tokens == 0


def test_what_a_text_says_again_is_no_new_fact() -> None:
    found = facts_in(scored())
    assert [each.text for each in found].count("Lima") == 1
    loop = "The river is 350 km long. " * 10
    assert (
        len(facts_in(scored(loop + "The lake lies near Puno, at a height of 350 m above the level of the sea."))) == 3
    )


def test_what_the_question_says_is_no_fact() -> None:
    assert "Peru" not in {each.text for each in facts_in(scored(f"In the south of Peru, {TEXT}"))}


def test_each_fact_is_a_record_with_a_place_and_a_question() -> None:
    record = scored()
    for number, fact in enumerate(facts_in(record), 1):
        assert fact.span is not None
        start, end = fact.span
        assert (fact.kind, fact.fact, fact.position) == ("fact", number, record.position)
        assert fact.text == TEXT[start:end]
        assert fact.question.text.replace("____", str(fact.text)) in TEXT
        assert fact.confidence == pytest.approx(math.exp(-0.5 * len(str(fact.text).split())))
    assert from_body(to_body(record)) == record or to_body(from_body(to_body(record))) == to_body(record)


def test_a_text_is_right_if_all_its_facts_are() -> None:
    record = scored()
    assert record.confidence == pytest.approx(math.prod(each.confidence for each in facts_in(record)))
    assert record.confidences.source == "posterior"
    assert "expected to be right" in explain(record).number


@pytest.mark.parametrize("text", ["The sea is calm and the night is still. " * 6, "roses are red, violets blue\n" * 8])
def test_a_text_without_facts_has_no_confidence_but_a_reason(text: str) -> None:
    record = scored(text)
    assert record.facts == ()
    assert math.isnan(record.confidence)
    assert record.accepted is None
    assert "no number, date, name" in str(explain(record).caveat)


def test_labels_of_facts_move_the_facts_of_later_texts() -> None:
    model = secl.load(ScriptedModel())
    before = scored(model=model)
    for fact in facts_in(before):
        model.label(fact, False, chance=1)
    after = scored(model=model)
    pairs = list(zip(facts_in(before), facts_in(after), strict=True))
    assert all(new.confidence < old.confidence for old, new in pairs)
    assert after.confidence < before.confidence
    assert model.recalibrate([before])[0].confidence == pytest.approx(after.confidence)


def test_a_text_has_no_label_of_its_own_but_its_facts_have() -> None:
    model = secl.load(ScriptedModel())
    record = scored(model=model)
    with pytest.raises(secl.ParameterError, match="a text with 5 facts; label its facts"):
        model.label(record, True, chance=1)
    assert model.label_references([record], chance=1) == 0


def test_a_threshold_accepts_facts_and_a_text_if_it_accepts_all_of_them() -> None:
    model = secl.load(ScriptedModel(), accept=0.5)
    record = scored(model=model)
    decisions = [each.accepted for each in facts_in(record)]
    assert True in decisions
    assert False in decisions
    assert record.accepted is False
    assert record.accept == 0.5
    sure = "The capital is Lima. " + "It lies by the sea, and many ships come there. " * 4
    assert scored(sure, model).accepted is True


def test_a_threshold_rests_on_the_labels_of_facts() -> None:
    model = secl.load(ScriptedModel())
    for number in range(40):
        record = scored(TEXT.replace("1535", str(1500 + number)), model)
        for fact in facts_in(record):
            model.label(fact, True, chance=1)
    advice = model.threshold(0.2)
    assert advice.basis == "labels"
    assert advice.labels == advice.answers == 40 * len(facts_in(record))
    assert advice.worth <= advice.labels  # the facts of one text may be wrong together


def test_a_text_of_which_no_tokens_are_known_has_facts_without_a_confidence() -> None:
    record = scored()
    unknown = tuple(replace(each, posterior=None, labelled=None) for each in facts_in(record))
    without = replace(record, facts=unknown, evidence=Evidence())
    assert math.isnan(without.confidence)
    assert "probabilities of the text's tokens are unknown" in str(explain(without).caveat)


def test_the_candidates_of_a_fact_are_other_values_in_its_place() -> None:
    record = scored()
    text = str(record.text)
    start = text.index("1535")
    evidence = FactEvidence(
        start=start,
        end=start + 4,
        kind="date",
        log_p=-2.0,
        value=math.log(0.2),
        tokens=2,
        others=(("1821", math.log(0.7)),),
    )
    (fact,) = facts_of_text(replace(record, evidence=Evidence(facts=(evidence,))))
    _, posterior = PosteriorRule().follow(PosteriorRule().start(), fact)
    assert posterior is not None
    assert posterior.candidates == ("1535", "1821", "None of these")
    assert posterior.probabilities == pytest.approx((0.2, 0.7, 0.1))
    assert [text for text, _ in replace(fact, posterior=posterior).candidates] == ["1821", "1535"]
