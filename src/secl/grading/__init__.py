"""Grading: whether an answer is right. secl measures with grades and never learns from them.

Options are graded by their letter. Every other question has one of these graders (`Question.grader`). A grader accepts
an answer that fits any of several right answers:

    auto      the everyday rule, `secl.grading.everyday`: the judgement of a reader. The default, except for questions
              of the form "number" (number) and questions with wrong answers besides right ones (overlap)
    exact     the texts are equal except for case, accents, punctuation, articles and spellings of a number
    contains  the answer contains the right answer as whole words
    number    the last number of the answer is equal (GSM8K)
    regex     the answer matches the reference, a regular expression without regard to case
    overlap   ROUGE-1: closer to a right answer than to any wrong one (TruthfulQA)
"""
