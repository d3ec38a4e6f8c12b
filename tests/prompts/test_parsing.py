"""From what models write to what they mean: answers, lists, and the results of programs."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secl.prompts.parsing import is_complete, is_loop, read_answer, read_list, trim_answer, without_thought
from secl.prompts.programs import MOST_CHARACTERS, result_of
from secl.question import FORMS, Form


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
        ("a b c d e f g h i j k l m n o p " * 3, True),  # of 16 words at most
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
    assert trim_answer(text, "text") == text  # what was written stays


@given(st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=6), st.integers(0, 5))
def test_any_phrase_is_a_loop_once_it_comes_three_times_and_covers_eight_words(words: list[str], more: int) -> None:
    times = max(3, -(-8 // len(words)))
    assert is_loop(" ".join([*words * times, *(words * more)[:more]]))
    assert not is_loop(" ".join(f"{i}{word}" for i, word in enumerate(words * times)))


def test_a_generated_list_loses_its_marks_and_its_rambling() -> None:
    text = ' Rome\n2) "Milan".\n- Turin\n\n4. ' + "so many words " * 9
    assert read_list(text, "short") == ["Rome", "Milan", "Turin"]
    assert read_list(" 12 apples\n2. $1,300\n3. none", "number") == ["12", "1300"]


@given(st.text(max_size=200), st.sampled_from(FORMS))
def test_no_text_breaks_the_readers(text: str, form: Form) -> None:
    trimmed = trim_answer(text, form)
    assert trimmed == without_thought(text) if form == "text" else "Confidence:" not in trimmed
    read_answer(trimmed, form)
    read_list(text, form)
    is_complete(text, form)


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


def test_what_is_no_arithmetic_comes_to_nothing() -> None:
    programs = [part.replace(r"\n", "\n") for line in NOTHING.strip().splitlines() for part in line.split(" | ")]
    assert len(programs) == 29
    for program in ("", *programs, *(f"answer = {text}" for text in LONG)):
        assert result_of(program) is None, program


@given(st.text(alphabet="answeround=+-*/(),. 0123456789\n", max_size=60))
def test_any_text_comes_to_a_number_or_to_nothing(text: str) -> None:
    assert isinstance(result_of(text), Fraction | None)


def test_the_time_for_a_reply_of_fences_grows_with_its_length() -> None:
    def seconds(length: int) -> float:
        begin = time.perf_counter()
        assert result_of("`" * length) is None
        return time.perf_counter() - begin

    short = min(seconds(4_000) for _ in range(5))
    assert seconds(64_000) < 100 * short + 0.05  # the square of 16 is 256
