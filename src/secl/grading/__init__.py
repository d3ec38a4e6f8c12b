"""Grading: whether an answer is right. Used to measure and never to learn.

Options are graded by their letter. Every other question has one of these graders (`Question.grader`), each of which is
content with any one of several right answers:

    auto      the everyday rule, see `secl.grading.everyday`: what a person who reads the answer would say. It is the
              default, except that a question of the form "number" has the grader number, and one with wrong answers
              beside the right ones the grader overlap
    exact     the texts are equal but for case, accents, punctuation, articles and ways to write a number
    contains  the right answer stands in the answer as whole words
    number    the number that the answer ends in is equal (GSM8K)
    regex     the reference is a regular expression, searched for without regard to case
    overlap   ROUGE-1: closer to a right answer than to any wrong one (TruthfulQA)
"""

from secl.grading.numbers import parse_number, write_number
from secl.grading.rules import (
    check_grader,
    correctness,
    grade,
    grade_by_references,
    grader_of,
    regrade,
    reported_correct,
)
from secl.grading.texts import LONGEST, answer_key, contains, normalise_text, same_text

__all__ = [
    "LONGEST",
    "answer_key",
    "check_grader",
    "contains",
    "correctness",
    "grade",
    "grade_by_references",
    "grader_of",
    "normalise_text",
    "parse_number",
    "regrade",
    "reported_correct",
    "same_text",
    "write_number",
]
