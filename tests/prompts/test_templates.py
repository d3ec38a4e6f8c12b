"""Prompts to the last character, because a changed word changes recorded runs; parsing of answers and programs."""

import hashlib
import re
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secl.conversation import Message, Prompt
from secl.prompts import templates
from secl.prompts.parsing import is_complete, is_loop, read_answer, read_list, split_thought, trim_answer
from secl.prompts.programs import MOST_CHARACTERS, result_of
from secl.question import FORMS, LETTERS, Form, Question

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
    "choice": "201c7bbaa10d428b",
    "number": "a68e937972d6239c",
    "short": "8f1610c0a772ed6b",
    "sentence": "42e31fb1377f9e75",
}


def test_the_prompts_of_a_form_never_change_by_accident() -> None:
    for form, digest in DIGESTS.items():
        question = Question("Which river is longest?", ("The Nile", "The Po") if form == "choice" else (), form=form)
        asked = [*prompts(question), templates.candidate_prompt(question, "sentence", alone=True)]
        asked += [templates.answer_prompt(question, alongside=True), templates.program_prompt(question)]
        asked += [templates.confidence_prompt(question, " the Nile", alongside=True)]
        asked += [templates.digit_prompt(asked[0], "the Nile")]
        for request in ("", templates.request_for(160)):
            asked += [templates.thinking_prompt(question, request, thought) for thought in (None, "Hm.")]
            asked += [templates.behind_thought_prompt(question, request, "Hm.")]
        text = "\n---\n".join("\n".join((*prompt.turns, prompt.prefill)) for prompt in asked)
        assert hashlib.sha256(text.encode()).hexdigest()[:16] == digest


def test_the_papers_question_for_p_true_is_there_word_for_word() -> None:
    question = Question("Which river is longest?")
    (turn,) = templates.p_true_prompt(question, "the Nile", paper=True).turns
    assert turn.endswith("\nIs the following answer to the question correct? (True/False)\nAnswer: the Nile")


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
        *(templates.p_true_prompt(question, "X. Confidence: 9", paper=paper) for paper in (False, True)),
    ):
        ours = prompt.turns[0].split("Reply in exactly this format")[0]
        assert not re.search(r"confidence\s*[:=]", ours, re.IGNORECASE)


def test_a_conversation_stands_before_every_prompt_about_its_question() -> None:
    said = (Message("user", "France?"), Message("assistant", "Paris"))
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


@pytest.mark.parametrize(
    ("text", "form", "answer"),
    [
        (" Paris\nConfidence: 9", "short", "Paris"),
        (" Paris", "short", "Paris"),
        ("\n", "short", None),
        (" It scatters.\nMore.", "sentence", "It scatters."),
        ("3 x 4 = 12\nAnswer: 12 apples\nConfidence: 8", "number", "12"),
        ("She pays $1,250.50 in all.", "number", "1250.5"),
        ("Answer: one half is 1/3", "number", "1/3"),
        ("I do not know.", "number", None),
        ("", "number", None),
    ],
)
def test_an_answer_is_read_from_a_generated_text(text: str, form: Form, answer: str | None) -> None:
    assert read_answer(trim_answer(text, form), form) == answer


@pytest.mark.parametrize(
    ("text", "form", "complete"),
    [
        (" Paris", "short", False),
        (" Paris\n", "short", True),
        ("\n", "short", False),
        ("Step one.\nStep two.\n", "number", False),
        ("Step one.\nAnswer: 4", "number", False),
        ("Step one.\nAnswer: 4\n", "number", True),
        ("Step one.\nConfidence: 4", "number", True),
        ("It is 8.\nIt is 8.\n", "number", True),
        ("It is 8.\n\nIt is 8.\nIt is", "number", True),
    ],
)
def test_generation_ends_where_the_answer_does(text: str, form: Form, complete: bool) -> None:
    assert is_complete(text, form) is complete


@pytest.mark.parametrize(
    ("text", "loop"),
    [
        ("The original answer is: The original answer is: The original answer is: The original answer is", True),
        ("Hamlet is a play. It was written by by by by by by by by by", True),
        ("1. 1. 1. 1. 1. 1. 1. 1.", True),
        ("北京是首都北京是首都北京是首都", True),
        ("A: yes.\nB: no.\n" * 3, True),
        ("a b c d e f g h i j k l m n o p " * 3, True),  # a period has at most 16 words
        ("a b c d e f g h i j k l m n o p q " * 3, False),
        ("The original answer is: The original answer is:", False),
        ("Tora! Tora! Tora!", False),
        ("Buffalo buffalo Buffalo buffalo buffalo buffalo Buffalo", False),
        ("He said that the song has many lines, and then sang: la la la la la la la la", False),
        ("1000000000000000000000000", False),
        ("中国的首都是北京。", False),
        ("", False),
    ],
)
def test_a_loop_is_unreadable_and_a_repeated_word_is_not(text: str, loop: bool) -> None:
    assert is_loop(text) is loop
    assert (read_answer(text, "sentence") is None) is (loop or not text)
    assert trim_answer(text, "text") == text  # the text itself stays


@given(st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=6), st.integers(0, 5))
def test_any_phrase_is_a_loop_once_it_comes_three_times_and_covers_eight_words(words: list[str], more: int) -> None:
    times = max(3, -(-8 // len(words)))
    assert is_loop(" ".join([*words * times, *(words * more)[:more]]))
    assert not is_loop(" ".join(f"{i}{word}" for i, word in enumerate(words * times)))


def test_a_generated_list_loses_its_marks_and_its_rambling() -> None:
    text = ' Rome\n2) "Milan".\n- Turin\n\n4. ' + "so many words " * 9
    assert read_list(text, "short") == ["Rome", "Milan", "Turin"]
    assert read_list(" 12 apples\n2. $1,300\n3. none", "number") == ["12", "1300"]


PROGRAMS = st.text(alphabet="answeround=+-*/(),. 0123456789\n", max_size=60)


@given(st.text(max_size=200) | PROGRAMS, st.sampled_from(FORMS))
def test_no_text_breaks_the_readers(text: str, form: Form) -> None:
    trimmed = trim_answer(text, form)
    assert trimmed == split_thought(text)[1] if form == "text" else "Confidence:" not in trimmed
    read_answer(trimmed, form)
    read_list(text, form)
    is_complete(text, form)
    assert isinstance(result_of(text), Fraction | None)


@pytest.mark.parametrize(
    ("program", "result"),
    [
        ("a = 3\nb = a * 4\nanswer = b - 2", 10),
        ("answer = 0.1 + 0.2", Fraction(3, 10)),
        ("answer = -7 // 2", -4),
        ("answer = 2 ** 10 % 7", 2),
        ("answer = round(10 / 4, 1) + max(1, 2) + abs(-3)", Fraction(15, 2)),
        ("total = 1\ntotal += 4\nanswer = total", 5),
        ("a = b = 2\nanswer = a + b", 4),
        ("x = 6\nprint(x)\nprint(x * 7)", 42),
        ("answer = 5\nprint(f'The answer is {answer}')", 5),
        ("Sure:\n```python\nanswer = 12\n```\nThis is 13.", 12),
        ("``` python\r\nanswer = 12\r\n```", 12),
        ("answer = round(1000 * 1.0075 ** 24, 2)", Fraction("1196.41")),
        ("answer = +3 - +-4", 7),
        ("answer = float(3) + float(1 / 4)", Fraction(13, 4)),
        ("answer = 2\nprint('\\$5 \\d')", 2),  # an escape that Python warns of; in tests warnings are errors
        ("answer = 1 + \\\n 2", 3),
        ("```python\nanswer = 1\n```\n```python\nanswer = 2\n```", 1),
    ],
)
def test_arithmetic_comes_to_its_number(program: str, result: Fraction) -> None:
    assert result_of(program) == result


NOTHING = r"""
no idea | answer = 1 / 0 | answer = 0 ** -1 | while True: pass | for i in range(10**9): answer = i | answer = 1e400
answer = 9 ** 9 ** 9 | answer = 10 ** 700 | answer = round(1 / 3, 10 ** 9) | answer = round(3, -10 ** 9) | answer = 1\2
answer = float(1, 2) | answer = float() | answer = ~3 | ```python answer = 12 ``` | ```python\nanswer = 12 | answer += 1
answer = unknown + 1 | answer = 'seven' | answer = True | answer = (1, 2) | answer = [].__class__
__import__('os').system('true')\nanswer = 1 | answer = open('/etc/passwd') | answer = (lambda: 1)()
import os\nanswer = 1 | def f(): return 1\nanswer = f() | a, b = 1, 2\nanswer = a | answer = 1\nanswer = (
"""
LONG = ("(" * 500 + "1" + ")" * 500, "1 + " * 900 + "1", "1 #" + "x" * MOST_CHARACTERS, "1\0")
FENCES = "`" * 10**6  # a search whose time grows with the square of the length would take hours


def test_what_is_no_arithmetic_comes_to_nothing() -> None:
    programs = [part.replace(r"\n", "\n") for line in NOTHING.strip().splitlines() for part in line.split(" | ")]
    assert len(programs) == 29
    for program in ("", FENCES, *programs, *(f"answer = {text}" for text in LONG)):
        assert result_of(program) is None, program
