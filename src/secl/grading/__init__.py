"""Grading: whether an answer is right. secl measures with grades and never learns from them.

If a question has several right answers, one of them suffices. secl grades the choice of an option by its letter. For
every other question, `Question.grader` names one of these graders:

    auto      the everyday rule, `secl.grading.everyday`: the judgement of a reader. The default, except that questions
              of the form "number" have number, and questions whose references include wrong answers have overlap
    exact     the texts are equal except for case, accents, punctuation, articles and formats of a number (1,200.0)
    contains  the answer contains the right answer as whole words
    number    the last number of the answer is equal (GSM8K)
    regex     the reference is a regular expression that matches in the answer; case does not count
    overlap   ROUGE-1: closer to a right answer than to any wrong one (TruthfulQA)
"""
