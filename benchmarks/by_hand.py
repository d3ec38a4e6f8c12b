"""Seconds per question in the library and by hand: answering, scoring with P(True), training.

The method by hand is `examples/secl_by_hand.py`: plain transformers and PEFT, padded batches, every pass through all
layers, the output head in float32 from the start. The method by hand answers multiple-choice questions only, so the
comparison has only such questions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from benchmarks.setting import Say, Setting
from benchmarks.timing import Timings, alternate, medians
from examples.secl_by_hand import ByHand
from secl.backends.local.model import LocalModel
from secl.evidence import EvidenceKind
from secl.metrics.probability import directional_target
from secl.question import Question

PARTS = ("answered", "scored", "trained")
"""Work of a measurement: answers and confidences of both models; with P(True) of all candidates; with an update."""

WINDOW = 16
"""Questions that the library prefetches together, the same number as in `Calibrator.run`."""

SIGNAL, ALPHA, DELTA, TAU = 0.25, 0.5, 0.15, 1.0
"""Settings that give every question the same target, so that both sides train on all questions."""


def measure(setting: Setting, say: Say) -> dict[str, Any]:
    """Return ratios and seconds of one multiple-choice question."""
    questions = setting.choices(setting.questions)
    library = setting.library()
    hand = setting.by_hand()
    # Train both sides first: with an untouched adapter, the library would read each question once, not twice.
    by_library(library, questions[:2], "trained")
    by_hand(hand, questions[:2], "trained")
    sides: dict[str, Callable[[str], float]] = {
        "library": lambda part: by_library(library, questions, part),
        "by_hand": lambda part: by_hand(hand, questions, part),
    }
    timings: dict[str, Timings] = {}
    for part in PARTS:
        training: Timings = {name: [] for name in sides}
        works = {name: partial(_append, training[name], work, part) for name, work in sides.items()}
        timings[part] = alternate(setting.rounds, works)
        say(f"{part}: {_shown(medians(timings[part], len(questions)))}")
    each = {part: medians(timing, len(questions)) for part, timing in timings.items()}
    each["training_part"] = medians(training, len(questions))
    ratios = {f"{part}_vs_by_hand": took["by_hand"] / took["library"] for part, took in each.items()}
    return {"ratios": ratios, "seconds": {"a_question": each}}


def by_library(model: LocalModel, questions: Sequence[Question], part: str) -> float:
    """Do the work `part` with the library, prefetching as in a stream; return the seconds of learning alone."""
    learning = 0.0
    evidence: list[EvidenceKind] = [] if part == "answered" else ["p_true"]
    for start in range(0, len(questions), WINDOW):
        window = questions[start : start + WINDOW]
        model.prefetch(window, [evidence] * len(window), weights_fixed=part != "trained")
        for question in window:
            reply = model.answer(question).reply
            if part != "answered":
                model.gather(question, reply, ["p_true"])
            if part == "trained":
                began = time.perf_counter()
                model.learner.learn(question, reply, directional_target(reply.stated, SIGNAL, ALPHA, DELTA))
                learning += time.perf_counter() - began
    return learning


def by_hand(hand: ByHand, questions: Sequence[Question], part: str) -> float:
    """Do the work `part` by hand; return the seconds of learning alone."""
    learning = 0.0
    for question in questions:
        row = {"question": question.text, "options": question.options}
        chosen, stated, _ = hand.answer(row)
        with torch.no_grad(), hand.model.disable_adapter():
            hand.answer(row)
        if part != "answered":
            hand.normalised_p_true(row, chosen, TAU)
        if part == "trained":
            began = time.perf_counter()
            hand.learn(row, chosen, directional_target(stated, SIGNAL, ALPHA, DELTA))
            learning += time.perf_counter() - began
    return learning


def _append(timings: list[float], work: Callable[[str], float], part: str) -> None:
    timings.append(work(part))


def _shown(each: dict[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {took:.3f} s" for name, took in each.items()) + " a question"
