"""`secl ask` as part of a pipe: standard input, JSON, a passage, a system text, and what a terminal must not obey."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Shell

pytestmark = pytest.mark.heavy


def test_a_question_comes_from_standard_input_and_the_answer_as_json(
    shell: Shell, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Which is a planet?\n"))
    options = ("--option", "Mars", "--option", "a\x1b[31m", "--context", "Mars is one.", "--system", "Be brief.")
    ended = shell("ask", "-", *options, "--accept", 0.0, "--model", tiny_llama, "--json")
    assert (ended.code, ended.err) == (0, "")
    found = json.loads(ended.out)
    question, options_asked = found["question"], ["Mars", "a\x1b[31m"]
    assert (question["text"], question["options"]) == ("Which is a planet?", options_asked)
    assert found["text"] == options_asked["AB".index(found["letter"])]
    probability = dict(found["candidates"])
    assert found["confidence"] == probability[found["text"]]
    assert found["low"] < found["confidence"] < found["high"]
    assert sum(found["reply"]["bins"]) == pytest.approx(1.0)
    assert found["accepted"] is True
    assert all(isinstance(each, str) for each in found["warnings"])
    printed = shell("ask", "Which is a planet?", *options[:4], "--model", tiny_llama, "--full")
    assert "\x1b" not in printed.out
    assert r"a\x1b[31m" in printed.out


def test_a_mistyped_flag_is_no_question_and_nothing_is_no_question(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shell("ask", "--jsn").err == "secl: ask has no option --jsn; secl ask --help lists those that it has.\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert "has no text" in shell("ask", "-").err
    assert "--install-completion" in shell("--help").out
