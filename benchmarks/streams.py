"""Seconds of a stream in the library, with and without a store, and by hand: same questions, gate and settings.

The three programs take turns after every `PIECE` questions, so that a slower machine slows all of them. Their answers
are compared. The library's ledgers give the cost in passes.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import torch

from benchmarks.setting import Say, Setting
from benchmarks.timing import Work, alternate
from examples.secl_by_hand import ByHand
from secl import Question, Record
from secl.data.question_files import QuestionFile
from secl.gates import Gate
from secl.metrics.probability import bin_index, directional_target
from secl.runs import RunSettings, start_run
from secl.runs.loading import build_calibrator, load_model, read_stream

GATES = {"stream_default": None, "stream_always": "always"}
PIECE = 96
"""Number of questions of a turn: a multiple of the library's window."""

AGREEMENT_SHARE = 10
"""Streams in float32 are shorter by this factor."""

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """The results of the method by hand for one question; `target` is None without an update."""

    answer: str
    confidence: float
    frozen_answer: str
    frozen_confidence: float
    in_burst: bool
    target: float | None


@dataclass(frozen=True)
class Race:
    """A stream run by three programs in the precision `dtype`: seconds and results by the program's name."""

    dtype: str
    seconds: dict[str, float]
    library: list[Record]
    stored: list[Record]
    by_hand: list[Row]


def measure(setting: Setting, say: Say) -> dict[str, Any]:
    """Measure a stream with the default gate and one that always learns, in the setting's precision."""
    found: dict[str, Any] = {"ratios": {}, "seconds": {}, "fwd_equivalents": {}, "agreement": {}}
    for name, gate in GATES.items():
        race = run(setting, setting.recipe(setting.stream_questions, {"method": "secl", "gate.name": gate}), say)
        took, count = race.seconds, len(race.library)
        found["ratios"] |= {
            f"{name}_vs_by_hand": took["by_hand"] / took["library"],
            f"{name}_stored_vs_by_hand": took["by_hand"] / took["stored"],
        }
        found["seconds"][name] = {key: value / count for key, value in took.items()}
        found["fwd_equivalents"][name] = equivalents(race.library)
        found["agreement"][f"{name}, {race.dtype}"] = agreement(race)
        if gate == "always":
            trained = [record for record in race.library if record.update is not None]
            found["fwd_equivalents"]["trained"] = equivalents(trained)
    return found


def measure_in_float32(setting: Setting, say: Say) -> dict[str, Any]:
    """Compare the results of library and method by hand in float32, without the rounding of bf16."""
    exact = replace(setting, dtype="fp32")
    count = max(3, setting.stream_questions // AGREEMENT_SHARE)
    races = {
        name: run(exact, exact.recipe(count, {"method": "secl", "gate.name": gate}), say)
        for name, gate in GATES.items()
    }
    return {"agreement": {f"{name}, {race.dtype}": agreement(race) for name, race in races.items()}}


def run(setting: Setting, recipe: RunSettings, say: Say) -> Race:
    """Run a stream with the three programs in turns."""
    questions = read_stream(recipe).questions
    model = load_model(recipe)
    coming = build_calibrator(recipe, model).run(questions)
    rows = by_hand(setting.by_hand(), questions, recipe.build_gate(), recipe, model.tau)
    seconds = dict.fromkeys(("library", "stored", "by_hand"), 0.0)
    records: list[Record] = []
    manual: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        stored = start_run(recipe, Path(folder) / "run")

        def store(end: int) -> None:
            stored.asked = QuestionFile(questions[:end])
            stored.proceed()

        with stored.store:
            for number, begin in enumerate(range(0, len(questions), PIECE)):
                end = min(begin + PIECE, len(questions))
                works: dict[str, Work] = {
                    "library": partial(take, records, coming, end - begin),
                    "stored": partial(store, end),
                    "by_hand": partial(take, manual, rows, end - begin),
                }
                order = list(works)[:: -1 if number % 2 else 1]
                for name, (took,) in alternate(1, {name: works[name] for name in order}).items():
                    seconds[name] += took
                told = ", ".join(f"{name.replace('_', ' ')} {took:.0f} s" for name, took in seconds.items())
                say(f"{recipe.gate.name or 'default gate'}: {end} of {len(questions)} questions, {told}")
    return Race(str(model.environment["dtype"]), seconds, records, stored.records, manual)


def take(kept: list[T], coming: Iterator[T], count: int) -> None:
    """Move the next `count` results into `kept`."""
    kept.extend(islice(coming, count))


def by_hand(hand: ByHand, questions: Sequence[Question], gate: Gate, recipe: RunSettings, tau: float) -> Iterator[Row]:
    """Yield the results of `examples.secl_by_hand.secl`, with a gate of the library instead of the example's gate."""
    state = gate.start()
    for question in questions:
        row = {"question": question.text, "options": question.options}
        chosen, stated, entropy = hand.answer(row)
        with torch.no_grad(), hand.model.disable_adapter():
            other, frozen, _ = hand.answer(row)
        state, decision = gate.step(state, entropy)
        target = None
        if decision.in_burst:
            signal = hand.normalised_p_true(row, chosen, tau)
            if abs(bin_index(stated) - bin_index(signal)) > (recipe.loop.bin_gate or 0):
                target = directional_target(stated, signal, recipe.loop.alpha, recipe.loop.delta)
                hand.learn(row, chosen, target)
        yield Row(question.letters[chosen], stated, question.letters[other], frozen, decision.in_burst, target)


def equivalents(records: Sequence[Record]) -> float:
    """Return the mean cost of a question in passes; nan without records."""
    return statistics.fmean(r.ledger.total / r.plain_tokens for r in records) if records else math.nan


def agreement(race: Race) -> dict[str, Any]:
    """Return the differences between library and method by hand; confidences are compared if the answers agree."""
    pairs = list(zip(race.library, race.by_hand, strict=True))
    alike = [(record, row) for record, row in pairs if record.reply.answer == row.answer]
    frozen = [(record, row) for record, row in pairs if record.frozen.answer == row.frozen_answer]
    return {
        "questions": len(pairs),
        "answers_differ": len(pairs) - len(alike),
        "frozen_answers_differ": len(pairs) - len(frozen),
        "burst_decisions_differ": sum(record.decision.in_burst != row.in_burst for record, row in pairs),
        "updates_differ": sum((record.update is None) != (row.target is None) for record, row in pairs),
        "trained_by_library": sum(record.update is not None for record in race.library),
        "trained_by_hand": sum(row.target is not None for row in race.by_hand),
        "largest_confidence_difference": _largest(record.reply.stated - row.confidence for record, row in alike),
        "largest_frozen_difference": _largest(record.frozen.stated - row.frozen_confidence for record, row in frozen),
        "records_changed_by_store": sum(a != b for a, b in zip(race.library, race.stored, strict=True)),
    }


def _largest(differences: Iterator[float]) -> float:
    """Return the largest absolute difference; nan without any."""
    return max((abs(difference) for difference in differences), default=math.nan)
