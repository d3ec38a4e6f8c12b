"""Growth of time and memory over a long stream, with the real store and a scripted model.

    python -m benchmarks.growth QUESTIONS

The command prints one JSON object. `python -m benchmarks` runs it in a separate process, so that only the stream is
in memory.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]

from benchmarks.timing import seconds
from secl import Question
from secl.reports.folder import write_report
from secl.reports.run_report import RunReport
from secl.runs import RunSettings, resume_run, start_run
from secl.runs.runner import Run
from secl.testing import ScriptedModel, toy_stream, unit

if TYPE_CHECKING:
    from benchmarks.setting import Say, Setting  # imports torch, which would add to the measured memory

BLOCKS = 10
"""Number of equal parts of the stream that are measured: a thousand questions each of ten thousand."""

DOMAINS = 4


def measure(setting: Setting, say: Say) -> dict[str, Any]:
    """Run `grow` in a separate process, and return its results."""
    asked = [sys.executable, "-m", "benchmarks.growth", str(setting.growth_questions)]
    done = subprocess.run(asked, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    say(f"{found['questions']} questions: the last tenth takes {found['last_vs_first']:.2f} times as long as the first")
    return {"growth": found}


def grow(count: int, folder: Path) -> dict[str, float]:
    """Run, resume and report a stream of `count` questions in `folder`; return seconds and bytes."""
    file = folder.with_suffix(".jsonl")
    rows = [
        {"id": q.id, "question": q.text, "options": q.options, "reference": q.reference, "domain": q.domain}
        for q in toy_stream(count, DOMAINS)
    ]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    recipe = RunSettings.of({"model.name": "scripted", "stream.questions": str(file), "method": "secl"})
    load = lambda _recipe: ScriptedModel(entropy=_entropy)  # noqa: E731
    run = start_run(recipe, folder, load)
    size = max(1, count // BLOCKS)
    moments: list[float] = []
    memory: list[int] = []

    def note(done: int, _all: int, _record: object) -> None:
        moments.append(time.perf_counter())
        if done % size == 0:
            memory.append(psutil.Process().memory_info().rss)

    with run.store:
        run.proceed(note)
    each = [after - before for before, after in pairwise(moments)]
    first, last = statistics.median(each[:size]), statistics.median(each[-size:])
    kept = sum(file.stat().st_size for file in folder.iterdir())
    reopened: list[Run] = []
    resuming = seconds(lambda: reopened.append(resume_run(folder, load=load)))
    with reopened[0].store as store:
        reports: list[RunReport] = []
        summing = seconds(lambda: reports.append(RunReport.of(store)))
        writing = seconds(lambda: write_report(folder / "report", reports[0]))
    return {
        "questions": count,
        "updates": sum(record.update is not None for record in run.records),
        "seconds_a_question_first_tenth": first,
        "seconds_a_question_last_tenth": last,
        "last_vs_first": last / first,
        "memory_bytes_a_question": (memory[-1] - memory[1]) / (size * (len(memory) - 2)) if len(memory) > 2 else 0.0,
        "memory_bytes_at_end": memory[-1],
        "store_bytes_a_question": kept / count,
        "seconds_to_resume": resuming,
        "seconds_to_summarise": summing,
        "seconds_to_write_report": writing,
    }


def _entropy(question: Question) -> float:
    """Return noise around a mean that differs between domains, so that every domain has a burst."""
    return 1.0 + int(question.domain.removeprefix("toy")) + unit(f"h/{question.id}") / 5


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        print(json.dumps(grow(int(sys.argv[1]), Path(temporary) / "run")))
