"""Open questions with a number for an answer: asked one by one, and looked ahead at, with the same records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks.setting import Say, Setting
from benchmarks.timing import alternate, medians
from secl.backends.local.model import LocalModel
from secl.lookahead import WINDOW
from secl.question import Question
from secl.records import Record
from secl.runs.runner import build_calibrator
from secl.runs.settings import RunSettings

METHODS = {"answered": "stated", "default": "secl"}
"""Answers and confidences alone; and the whole method, whose opening burst judges and learns."""


def measure(setting: Setting, say: Say) -> dict[str, Any]:
    """Seconds of both ways, their ratio, and where their records differ, also where nothing is rounded to bf16."""
    found = compare(setting, METHODS, say)
    ratio = found["answered"]["ratio"]
    if setting.dtype != "fp32":
        exact = compare(replace(setting, dtype="fp32", rounds=1), {"answered": "stated"}, say)["answered"]
        found["answered_in_float32"] = {name: exact[name] for name in exact if name not in ("seconds", "ratio")}
    return {"ratios": {"gsm8k_lookahead_vs_sequential": ratio}, "lookahead": found}


def compare(setting: Setting, methods: Mapping[str, str], say: Say) -> dict[str, Any]:
    """Both ways in turns, for each method."""
    questions = setting.open("number", min(setting.questions, WINDOW))
    model = setting.library()
    untouched = model.snapshot()
    given: dict[str, Callable[[], Iterable[Question]]] = {
        "one_by_one": lambda: iter(questions),
        "looked_ahead": lambda: questions,
    }
    found: dict[str, Any] = {}
    for name, method in methods.items():
        recipe = setting.recipe(3, method=method)
        said: dict[str, list[Record]] = {way: [] for way in given}
        works = {way: partial(ask, model, untouched, recipe, give, said[way]) for way, give in given.items()}
        each = medians(alternate(setting.rounds, works), len(questions))
        found[name] = {
            "seconds": each,
            "ratio": each["one_by_one"] / each["looked_ahead"],
            **differences(said["one_by_one"], said["looked_ahead"]),
        }
        told = ", ".join(f"{way.replace('_', ' ')} {took:.2f} s" for way, took in each.items())
        say(f"{name}, {model.environment['dtype']}: {told} a question")
    return found


def ask(
    model: LocalModel, untouched: bytes, recipe: RunSettings, give: Callable[[], Iterable[Question]], said: list[Record]
) -> None:
    """The records of a stream, by the untouched model with nothing seen or written before."""
    model.restore(untouched)
    model.backend.writer.remembered.clear()
    said[:] = build_calibrator(recipe, model).run(give())


def differences(one: Sequence[Record], other: Sequence[Record]) -> dict[str, Any]:
    """How many answers differ, and the largest difference of confidence where the text is the same."""
    pairs = list(zip(one, other, strict=True))
    alike = [(a.reply, b.reply) for a, b in pairs if a.reply.text == b.reply.text]
    return {
        "questions": len(pairs),
        "texts_differ": len(pairs) - len(alike),
        "answers_differ": sum(a.reply.answer != b.reply.answer for a, b in pairs),
        "largest_confidence_difference": max((abs(a.confidence - b.confidence) for a, b in alike), default=None),
    }
