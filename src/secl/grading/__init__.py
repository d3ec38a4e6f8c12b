"""Grading: whether an answer is right. secl measures with it and never learns from it.

Options are graded by their letter. Every other question has one of these graders (`Question.grader`). A grader accepts
an answer that fits any of several right answers:

    auto      the everyday rule, `secl.grading.everyday`: what a person who reads the answer would say. The default, but
              for questions of the form "number" (number) and questions with wrong answers besides right ones (overlap)
    exact     the texts are equal except for case, accents, punctuation, articles and ways to write a number
    contains  the right answer stands in the answer as whole words
    number    the number that the answer ends in is equal (GSM8K)
    regex     the reference is a regular expression, searched for without regard to case
    overlap   ROUGE-1: closer to a right answer than to any wrong one (TruthfulQA)
"""
