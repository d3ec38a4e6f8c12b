"""The checks of the documentation find what is wrong on made-up pages, and nothing on a right one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli import pages
from tests.conftest import ROOT

RIGHT = """# Made up

See [labels](labels.md#which-answers-were-labelled) and [above](#made-up).

    secl run --method posterior --gate never --set evidence.tau=0.7 --benchmarks arc:3 --out RUN   # `loop.alpha`
    make test && python -m benchmarks --only serving

```python
>>> from secl import Calibrator, Question
```

`VIEWS` (`posterior/views.py`), `secl.metrics.risk_control`, `Record.accepted`, `src/secl/errors.py`; gone:
`python -m benchmarks.soak --minutes 10` at 7be5c80. Answers take 0.25 s, -28 % of the time by hand.
"""

RESULTS = {"seconds": {"answered": 0.2544}, "over": -0.284}
PHRASES = ("Answers take {seconds[answered]:.2f} s, {over:.0%} of the time",)


def problems(text: str, folder: Path) -> list[str]:
    """What all checks say about a page in the folder `folder`."""
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    (folder / "labels.md").write_text("# Labels\n\n## Which answers were labelled\n", encoding="utf-8")
    return [
        *pages.dead_links(page),
        *pages.missing_files(text, ROOT),
        *pages.missing_from_map(text, ROOT),
        *pages.missing_names(text, ROOT),
        *pages.unknown_words(
            text,
            {"secl", "gates", "py", "src", "errors", "loop", "alpha", "Record", "accepted"}
            | {"VIEWS", "posterior", "views", "metrics", "risk_control"},
        ),
        *pages.wrong_settings(text),
        *pages.unknown_flags(text, lambda command: {"--method", "--gate", "--set", "--benchmarks", "--out"}),
        *pages.wrong_numbers(text, PHRASES, RESULTS),
    ]


def test_a_right_page_passes(tmp_path: Path) -> None:
    assert problems(RIGHT, tmp_path) == []


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("labels.md#which", "label.md#which", "label.md#which-answers-were-labelled"),
        ("#which-answers-were-labelled", "#which-answers-are-labelled", "labels.md#which-answers-are-labelled"),
        ("(#made-up)", "(#made-down)", "#made-down"),
        ("--out RUN", "--outt RUN", "secl run --outt"),
        ("--method posterior", "--method prior", "--method prior"),
        ("--gate never", "--gate seldom", "--gate seldom"),
        ("--set evidence.tau=0.7", "--set evidence.tao=0.7", "evidence.tao"),
        ("--set evidence.tau=0.7", "--set evidence.tau=-1", "evidence.tau=-1"),
        ("`loop.alpha`", "`loop.omega`", "loop.omega"),
        ("--benchmarks arc:3", "--benchmarks ark:3", "ark"),
        ("make test", "make tests", "make tests"),
        ("python -m benchmarks ", "python -m benchmark ", "benchmark"),
        ("--only serving", "--solely serving", "benchmarks --solely"),
        ("import Calibrator", "import Calibrador", "secl.Calibrador"),
        ("`VIEWS` (", "`DOORS` (", "DOORS in posterior/views.py"),
        ("(`posterior/views.py`)", "(`posterior/sights.py`)", "posterior/sights.py"),
        ("`secl.metrics.risk_control`", "`secl.metrics.risk`", "secl.metrics.risk"),
        ("`Record.accepted`", "`Record.refrained`", "secl.Record.refrained"),
        ("`src/secl/errors.py`", "`src/secl/mistakes.py`", "src/secl/mistakes.py"),
        ("`src/secl/errors.py`", "`FadedName`", "FadedName"),
        (" at 7be5c80", "", "benchmarks.soak"),
        ("0.25 s", "0.26 s", "Answers take 0.25 s, -28 % of the time"),
        ("-28 %", "-29 %", "Answers take 0.25 s, -28 % of the time"),
    ],
)
def test_what_is_wrong_is_found(tmp_path: Path, right: str, wrong: str, said: str) -> None:
    assert RIGHT.count(right) == 1
    assert said in problems(RIGHT.replace(right, wrong), tmp_path)


def test_a_map_of_the_package_names_only_what_is_there() -> None:
    text = "    src/secl/\n      errors.py          what users read\n      mistakes.py        gone\n"
    assert pages.missing_from_map(text, ROOT) == ["mistakes.py"]


def test_a_heading_that_comes_twice_has_two_anchors() -> None:
    assert pages.anchors("# One `secl` of [a](b)?\n\n# One `secl` of a?\n\n```\n# no heading\n```\n") == {
        "one-secl-of-a",
        "one-secl-of-a-1",
    }
