"""The tutorial does what its page says: every command runs, and prints what the page marks as stable."""

from __future__ import annotations

import doctest
import re
import shutil
from pathlib import Path

import pytest

from tests.tutorial import PAGE, commands, run

pytestmark = pytest.mark.slow

NUMBER = re.compile(r"(\d+(?:\.\d+)?)(%?)")
BAR = re.compile(r"█+")
CLOSE = 0.06
"""How far two numbers may be apart: a processor that multiplies bfloat16 uses it, and others float32, which moves the
confidences of the embedded model by a few hundredths, a share of forty answers by one or two of them, and bars."""


@pytest.mark.smoke
def test_the_commands_of_the_first_page_run_and_print_what_it_says(tmp_path: Path, smollm2: str) -> None:
    first = PAGE.read_text(encoding="utf-8").partition("\n## Your own questions")[0]
    steps = commands(first)
    assert len(steps) > 2
    for step, output in zip(steps, run(steps, tmp_path), strict=True):
        assert not step.stable or close(step.output, output), (step.shown, output)


def test_all_commands_do_what_the_page_says(tmp_path: Path, smollm2: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("curl") is None:
        pytest.skip("the tutorial asks a server with curl")
    page = PAGE.read_text(encoding="utf-8")
    steps = commands(page)
    assert len(steps) > 12
    for step, output in zip(steps, run(steps, tmp_path), strict=True):
        if step.stable:
            assert close(step.output, output), (step.shown, output)
    monkeypatch.chdir(tmp_path)
    examples = doctest.DocTestParser().get_doctest(page, {}, "tutorial", str(PAGE), 0)
    assert len(examples.examples) > 4
    assert doctest.DocTestRunner(Close()).run(examples).failed == 0


class Close(doctest.OutputChecker):
    """Compares what the examples in Python print."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:  # noqa: ARG002
        return close(want, got)


def close(want: str, got: str) -> bool:
    """Whether two outputs are the same but for the last digits of their numbers."""
    want, got = (BAR.sub("", text) for text in (want, got))
    numbers = [[float(n) / (100 if share else 1) for n, share in NUMBER.findall(text)] for text in (want, got)]
    same = NUMBER.sub("0", want).split() == NUMBER.sub("0", got).split()  # columns may be wider
    return same and numbers[1] == pytest.approx(numbers[0], abs=CLOSE, rel=CLOSE)
