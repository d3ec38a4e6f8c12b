"""Share of the first run's time that a second run takes with the cache, and whether its records are equal.

    python -m benchmarks.second_run [MODEL]

Each change of the questions or settings runs twice: with the cache of the first run, and without a cache.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from secl.data.benchmarks import quiz
from secl.runs.cache import ReadingCache
from secl.runs.encoding import to_body
from secl.runs.runner import start_run
from secl.runs.settings import RunSettings

CHOSEN, OPEN, MORE = 24, 12, 10
"""Numbers of questions with options, of open questions, and of further questions with options."""

Rows = Sequence[Mapping[str, Any]]


def rows_of(count: int) -> list[dict[str, Any]]:
    """Return questions of the built-in quiz as rows: open questions first, then `count` questions with options."""
    found = quiz("capitals")
    asked: list[dict[str, Any]] = [{"question": question.text} for question in found[:OPEN]]
    return asked + [{"question": q.text, "options": list(q.options)} for q in found[OPEN : OPEN + count]]


def with_references(rows: Rows) -> Rows:
    answers = {question.text: question.reference for question in quiz("capitals")}
    return [{**row, "reference": answers[str(row["question"])]} for row in rows]


def with_renamed_option(rows: Rows) -> Rows:
    *before, last = rows
    return [*before, {**last, "options": ["Zagreb", *last["options"][1:]]}]


@dataclass(frozen=True)
class Timing:
    """Seconds of a run with the model's loading, and the texts of its records."""

    seconds: float
    bodies: list[str]


def timed(folder: Path, model: str, rows: Rows, cache: ReadingCache | None, settings: Mapping[str, object]) -> Timing:
    number = len(list(folder.glob("run-*")))
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps({"id": row["question"], **row}) + "\n" for row in rows))
    began = time.perf_counter()
    run = start_run(
        RunSettings.of({"model.name": model, "stream.questions": str(path), **settings}),
        folder / f"run-{number}",
        cache=cache,
    )
    with run.store:
        run.proceed()
    return Timing(time.perf_counter() - began, [to_body(record) for record in run.records])


def main(model: str) -> None:
    rows = rows_of(CHOSEN)
    changes: dict[str, tuple[Rows, dict[str, object]]] = {
        "none": (rows, {}),
        "column `reference` added": (with_references(rows), {}),
        "threshold (`--accept 0.7`)": (rows, {"loop.accept": 0.7}),
        "grader (`--grader exact`)": (rows, {"stream.grader": "exact"}),
        "an option of one row renamed": (with_renamed_option(rows), {}),
        "ten rows added at the end": (rows_of(CHOSEN + MORE), {}),
        "ten rows added in front": (rows_of(CHOSEN + MORE)[-MORE:] + rows, {}),
    }
    with TemporaryDirectory() as place:
        folder = Path(place)
        cache = ReadingCache(folder / "readings.sqlite")
        first = timed(folder, model, rows, cache, {})
        print(f"first run: {len(rows)} questions, {first.seconds:.1f} s")
        print("| change | seconds, share of the first run | records equal to those without a cache |\n|---|--:|---|")
        for title, (changed, settings) in changes.items():
            second = timed(folder, model, changed, cache, settings)
            equal = second.bodies == timed(folder, model, changed, None, settings).bodies
            share = f"{100 * second.seconds / first.seconds:.0f} %"
            print(f"| {title} | {second.seconds:.1f} s, {share} | {'yes' if equal else 'no'} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:] or ["smollm2"])
