"""Programs: what arithmetic comes to, and that nothing else comes to anything."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secl.prompts.programs import MOST_CHARACTERS, result_of


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


@pytest.mark.parametrize(
    "program",
    [
        "",
        "no idea",
        "answer = 1 / 0",
        "answer = 0 ** -1",
        "while True: pass",
        "for i in range(10**9): answer = i",
        "answer = 9 ** 9 ** 9",
        "answer = 10 ** 700",
        "answer = round(1 / 3, 10 ** 9)",
        "answer = round(3, -10 ** 9)",
        "```python\nanswer = 12",
        "answer = 1e400",
        "answer = float(1, 2)",
        "answer = float()",
        "answer = ~3",
        r"answer = 1\2",
        "```python answer = 12 ```",
        "answer = unknown + 1",
        "answer += 1",
        "answer = 'seven'",
        "answer = True",
        "answer = (1, 2)",
        "import os\nanswer = 1",
        "__import__('os').system('true')\nanswer = 1",
        "answer = open('/etc/passwd')",
        "answer = (lambda: 1)()",
        "answer = [].__class__",
        "def f(): return 1\nanswer = f()",
        "a, b = 1, 2\nanswer = a",
        "answer = 1\nanswer = (",
        "answer = " + "(" * 500 + "1" + ")" * 500,
        "answer = 1 + " * 900 + "1",
        "answer = 1 #" + "x" * MOST_CHARACTERS,
        "answer = 1\0",
    ],
)
def test_what_is_no_arithmetic_comes_to_nothing(program: str) -> None:
    assert result_of(program) is None


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
