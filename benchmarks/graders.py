"""How often graders take one option of a question for another: `python -m benchmarks.graders --data DIR [--each 3000]`.

Each ordered pair of different options is a reference and a wrong answer; some pairs say nearly the same. Every option
is also its own right answer.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

from secl.data.benchmarks import load
from secl.grading.rules import grade
from secl.question import Question

GRADERS = ("auto", "exact", "contains")


def measure(questions: list[Question]) -> dict[str, tuple[int, int, int]]:
    """Return, for each grader, accepted wrong answers, all wrong answers, and rejected right answers."""
    counts = {grader: [0, 0, 0] for grader in GRADERS}
    for question in questions:
        for reference, answer in product(question.options, repeat=2):
            for grader, count in counts.items():
                right = grade(Question(question.text, reference=reference, grader=grader), answer)
                count[0] += reference != answer and right is True
                count[1] += reference != answer
                count[2] += reference == answer and right is False
    return {grader: (count[0], count[1], count[2]) for grader, count in counts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--each", type=int, default=3000)
    wanted = parser.parse_args()
    questions = [question for name in ("mmlu", "arc") for question in load(name, None, data=wanted.data)[: wanted.each]]
    for grader, (accepted, wrong, rejected) in measure(questions).items():
        print(f"{grader}: accepts {accepted} of {wrong} wrong answers, rejects {rejected} right ones")


if __name__ == "__main__":
    main()
