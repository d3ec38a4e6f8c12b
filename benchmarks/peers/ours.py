"""P(True) as this library computes it, timed like `polygraph.py` beside it.

    python -m benchmarks.peers.ours FOLDER QUESTIONS.json

`polygraph.py` has all ways but the last.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from benchmarks.by_hand import by_library
from secl.backends.local.model import LocalModel
from secl.question import Question
from secl.records import Reply

ANSWER = Reply(text="A", answer="A", bins=(0.1,) * 10, digit_mass=1.0, entropy=1.0, log_probability=-1.0)
"""A placeholder where nothing is answered."""


def answered(model: LocalModel, questions: list[Question]) -> None:
    """Answer, stated confidence and P(True) of all options, every question on its own."""
    for question in questions:
        model.score_p_true(question, model.answer(question, evidence=["p_true"]).reply)


def scored(model: LocalModel, questions: list[Question]) -> None:
    """P(True) of all options alone, every question on its own."""
    for question in questions:
        model.score_p_true(question, ANSWER)


def sequence_probability(model: LocalModel, questions: list[Question]) -> None:
    """Answer and its log-probability, with the stated confidence and the entropy that come with it, one by one."""
    for question in questions:
        model.answer(question)


def prefetched(model: LocalModel, questions: list[Question]) -> None:
    """The same as `answered`, for windows of 16 questions, as a stream is run."""
    by_library(model, questions, "scored")


def timed(model: LocalModel, questions: list[Question]) -> dict[str, Any]:
    """Seconds a question of each way, with nothing left over from the way before."""
    answered(model, questions[:1])
    results: dict[str, Any] = {}
    for way in (answered, scored, sequence_probability, prefetched):
        model.restore(model.snapshot())
        start = time.perf_counter()
        way(model, questions)
        results[way.__name__] = {
            "seconds": (time.perf_counter() - start) / len(questions),
            "scores": sum(len(question.options) for question in questions),
        }
    return results


def main() -> None:
    folder, file = sys.argv[1:]
    with open(file, encoding="utf-8") as lines:
        rows = json.load(lines)
    questions = [Question(row["text"], options=tuple(row["options"])) for row in rows]
    print(json.dumps(timed(LocalModel.load(folder, device="cpu"), questions)))


if __name__ == "__main__":
    main()
