"""From a table of questions to accepted answers: confidences, a few labels, and a threshold from costs.

    python examples/morning.py [MODEL [QUESTIONS.csv [FOLDER]]]

Answers the questions of a CSV; by default `morning.csv`, which has a passage and right answers for each question. Then
a person labels 20 random answers. A wrong answer costs twice as much as a check, so answers with a confidence of at
least 0.5 are accepted. Writes `answers.csv` (answers, confidences, 90 % intervals, acceptance) and `threshold.png`.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import secl
from secl.evaluation.acceptance import answers_of
from secl.grading.rules import grade
from secl.labels.label import random_order
from secl.reports.figures import risk_coverage_figure, write_picture

LABELS = 20
COST_WRONG, COST_REVIEW = 2.0, 1.0


def main(model: str = "smollm2", file: str = str(Path(__file__).with_suffix(".csv")), folder: str = "morning") -> None:
    questions = secl.read_rows(Path(file)).questions
    chat = secl.load(model)
    # secl does not see the right answers. The script uses them instead of a person's labels, and to grade all answers.
    records = list(chat.ask_all([replace(question, reference=None) for question in questions]))
    by_position = {record.position: question for record, question in zip(records, questions, strict=True)}

    log = []
    for position in random_order(range(len(records)), seed=42)[:LABELS]:
        record = records[position]
        log.append(chat.label(record, grade(by_position[record.position], record.answer), chance=1))
    rated = chat.recalibrate(records)
    before, after = (sum(each.confidence for each in group) / len(group) for group in (records, rated))
    print(f"{len(records)} answers, mean confidence {before:.2f}; after {LABELS} labels {after:.2f}")

    accept = 1 - COST_REVIEW / COST_WRONG  # at a higher confidence, a check costs more than the expected error
    right = [bool(grade(by_position[record.position], record.answer)) for record in rated]
    taken = [verdict for record, verdict in zip(rated, right, strict=True) if record.confidence >= accept]
    print(f"in truth: {sum(right)} of {len(right)} answers are right, {sum(taken)} of {len(taken)} accepted ones")

    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    write(out / "answers.csv", rated, accept)
    write_picture(risk_coverage_figure(answers_of(records, log).curve), out / "threshold")
    print(f"wrote {out / 'answers.csv'} and {out / 'threshold.png'}")


def write(path: Path, records: Sequence[secl.Record], accept: float) -> None:
    """Write a row for each answer, with the columns of its question."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        names = [name for name, _ in records[0].question.row]
        writer.writerow([*names, "answer", "confidence", "low", "high", "accepted"])
        for record in sorted(records, key=lambda each: -each.confidence):
            numbers = [record.confidence, record.low, record.high]
            cells = [value for _, value in record.question.row]
            accepted = "yes" if record.confidence >= accept else "no"
            writer.writerow([*cells, record.text, *(f"{number:.3f}" for number in numbers), accepted])


if __name__ == "__main__":
    main(*sys.argv[1:])
