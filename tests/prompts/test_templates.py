"""Every prompt, to the last character: a changed word changes what a model says, and with it every recorded run."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace

import pytest

from secl.conversation import Turn
from secl.prompts import templates
from secl.prompts.templates import Prompt
from secl.question import LETTERS, Form, Question

PASSAGE = "Es regnet in Oslo.\n\n日本: 雨"


def prompts(question: Question) -> list[Prompt]:
    return [
        templates.answer_prompt(question),
        templates.confidence_prompt(question, "A" if question.options else " the Nile"),
        templates.p_true_prompt(question, "the Nile"),
        templates.verification_prompt(question, "the Nile"),
        templates.entailment_prompt(question, "the Nile", "the Amazon"),
        templates.order_prompt(question, (1, 0)) if question.options else templates.distractor_prompt(question, 5),
        templates.candidate_prompt(question, "short"),
    ]


DIGESTS: dict[Form, str] = {
    "choice": "f14798ebe58b0519",
    "number": "865f6b6e7720cdb2",
    "short": "5d0df7c82eb2f99c",
    "sentence": "987574b3e58c7399",
}


def test_the_prompts_of_a_form_never_change_by_accident() -> None:
    for form, digest in DIGESTS.items():
        question = Question("Which river is longest?", ("The Nile", "The Po") if form == "choice" else (), form=form)
        asked = [*prompts(question), templates.candidate_prompt(question, "sentence", alone=True)]
        text = "\n---\n".join("\n".join((*prompt.turns, prompt.prefill)) for prompt in asked)
        assert hashlib.sha256(text.encode()).hexdigest()[:16] == digest


def test_the_papers_question_for_p_true_is_there_word_for_word() -> None:
    question = Question("Which river is longest?")
    (turn,) = templates.p_true_prompt(question, "the Nile", paper=True).turns
    assert turn.splitlines()[-2:] == [
        "Is the following answer to the question correct? (True/False)",
        "Answer: the Nile",
    ]
    (unsafe,) = templates.p_true_prompt(question, "X. Confidence: 9", paper=True).turns
    assert "Confidence: 9" not in unsafe


@pytest.mark.parametrize(
    ("form", "text", "end"),
    [
        ("short", " the Nile", "Answer: the Nile\nConfidence: "),
        ("sentence", " It is the Nile.", "Answer: It is the Nile.\nConfidence: "),
        ("number", "6 km.\nAnswer: 6", "6 km.\nAnswer: 6\nConfidence: "),
    ],
)
def test_a_confidence_alongside_an_open_answer_stands_in_the_same_reply(form: Form, text: str, end: str) -> None:
    question = Question("Which river is longest?", form=form)
    asked = templates.answer_prompt(question, alongside=True)
    (turn,) = asked.turns
    assert turn.endswith("Confidence: <digit>")
    assert "single digit from 0 to 9" in turn
    stated = templates.confidence_prompt(question, text, alongside=True)
    assert stated.turns == asked.turns
    assert stated.prefill == end


@pytest.mark.parametrize("form", ["choice", "short"])
def test_a_passage_stands_quoted_before_the_question_of_every_prompt(form: Form) -> None:
    plain = Question("Which river is longest?", ("The Nile", "The Po") if form == "choice" else (), form=form)
    given = replace(plain, context=PASSAGE, system="Be brief.", row=(("year", "1"),))
    quotation = templates.quoted(PASSAGE)
    for with_passage, without in zip(prompts(given), prompts(plain), strict=True):
        assert with_passage.turns == (f"{quotation}\n\n{without.turns[0]}", *without.turns[1:])
        assert (with_passage.system, with_passage.prefill) == ("Be brief.", without.prefill)
        assert without.system == ""
    alone = templates.candidate_prompt(given, "short", alone=True)
    assert alone == replace(templates.candidate_prompt(plain, "short", alone=True), system="Be brief.")


def test_no_part_of_a_question_looks_like_a_reply_in_our_own_format() -> None:
    passage = "It said:\n  CONFIDENCE =\t0.\nanswer : B. Confidential: 9. Answers: 3. The time is 9:30."
    shown = "It said:\n  CONFIDENCE 0.\nanswer B. Confidential: 9. Answers: 3. The time is 9:30."
    assert templates.quoted(passage) == f"Context:\n{shown}"
    question = Question("Where? Confidence: 9", options=("Rome", "Oslo\nconfidence = 0"))
    for prompt in (
        templates.answer_prompt(question),
        templates.order_prompt(question, (1, 0)),
        templates.p_true_prompt(question, "X. Confidence: 9"),
    ):
        ours = prompt.turns[0].split("Reply in exactly this format")[0]
        assert not re.search(r"confidence\s*[:=]", ours, re.IGNORECASE)


def test_a_conversation_stands_before_every_prompt_about_its_question() -> None:
    said = (Turn("user", "France?"), Turn("assistant", "Paris"))
    question = Question("Italy?", form="text", system="Be brief.", history=said)
    assert templates.answer_prompt(question) == Prompt(("Italy?",), system="Be brief.", history=said)
    for prompt in (
        templates.confidence_prompt(question, "Rome"),
        templates.p_true_prompt(question, "Rome"),
        templates.distractor_prompt(question, 5),
    ):
        assert (prompt.system, prompt.history) == ("Be brief.", said)
    assert templates.confidence_prompt(question, "Rome").turns[:2] == ("Italy?", "Rome")
    assert templates.candidate_prompt(question, "sentence", alone=True).history == ()


@pytest.mark.parametrize("options", [2, 3, 4, 7, len(LETTERS)])
def test_every_option_has_another_letter_in_the_nearly_reversed_order(options: int) -> None:
    order = templates.other_order(options)
    assert sorted(order) == list(range(options))
    assert all(number != place for place, number in enumerate(order))
    moved = [place for place, number in enumerate(order) if number != options - 1 - place]
    assert len(moved) == (2 if options % 2 else 0)


def test_short_replies_alone_can_do_without_answer() -> None:
    short, choice = Question("Which river is longest?"), Question("Which river is longest?", ("The Nile", "The Po"))
    assert templates.answer_prompt(short, prefilled=False) == replace(templates.answer_prompt(short), prefill="")
    plain = templates.answer_prompt(short, prefilled=False)
    assert templates.confidence_prompt(short, "The Nile", before=plain).turns[1] == "The Nile"
    assert templates.answer_prompt(choice, prefilled=False) == templates.answer_prompt(choice)
