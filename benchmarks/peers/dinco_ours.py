"""DINCO as this library computes it, timed like `dinco_published.py` beside it.

    python -m benchmarks.peers.dinco_ours MODEL NLI QUESTIONS.json

QUESTIONS.json is a list of texts. One JSON object is printed: seconds a question, and answer and confidence of each.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.peers.ours import ANSWER
from secl.backends.local.model import LocalModel
from secl.evidence import Evidence
from secl.metrics.dinco import COUNTED
from secl.question import Question
from secl.signals import DincoSignal

UNANSWERED = replace(ANSWER, answer=None)
"""A placeholder: as published, the answer is the most probable beam, and no other is asked for."""


def rated(model: LocalModel, questions: Sequence[Question]) -> list[dict[str, Any]]:
    """Answer and confidence of every question, one by one; both are None where no beam can be read."""
    signal = DincoSignal("beam")
    rows = []
    for question in questions:
        samples = model.sample(question, COUNTED)
        evidence = Evidence(samples=samples, dinco=model.dinco(question, UNANSWERED, samples))
        rows.append(
            {
                "answer": signal.answer(question, UNANSWERED, evidence),
                "confidence": signal(question, UNANSWERED, evidence),
            }
        )
    return rows


def main() -> None:
    folder, nli, file = sys.argv[1:]
    questions = [Question(text) for text in json.loads(Path(file).read_text(encoding="utf-8"))]
    model = LocalModel.load(folder, device="cpu", nli=nli)
    rated(model, questions[:1])
    start = time.perf_counter()
    rows = rated(model, questions)
    print(json.dumps({"seconds": (time.perf_counter() - start) / len(questions), "questions": rows}))


if __name__ == "__main__":
    main()
