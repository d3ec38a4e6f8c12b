"""How well a model judges open answers, and how well the graders do, on forty that were graded by hand.

    python -m benchmarks.judge MODEL

The answers are those of `tests/grading/everyday.py`, on which the default grader was made.
"""

from __future__ import annotations

import argparse

import secl
from secl.evaluation.judging import judge_by
from secl.question import References
from tests.grading.everyday import CASES

GRADERS = ("auto", "exact", "contains")


def main() -> None:
    """One line for each grader, and one for the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="preset, hub id, folder or GGUF file")
    name = parser.parse_args().model
    questions = [secl.Question(case.question, reference=References(case.references, ())) for case in CASES]
    right = [case.right for case in CASES]
    for grader in GRADERS:
        asked = [secl.Question(q.text, reference=q.reference, grader=grader) for q in questions]
        _print(grader, [bool(secl.grade(q, case.answer)) for q, case in zip(asked, CASES, strict=True)], right)
    pairs = [(question, case.answer) for question, case in zip(questions, CASES, strict=True)]
    _print(name, list(judge_by(secl.LocalModel.load(name))(pairs)), right)


def _print(name: str, verdicts: list[bool], right: list[bool]) -> None:
    agreed = sum(verdict == truth for verdict, truth in zip(verdicts, right, strict=True))
    called = f"calls {sum(verdicts)} right where they call {sum(right)}"
    print(f"{name}: agrees with people on {agreed} of {len(right)}, {called}")


if __name__ == "__main__":
    main()
