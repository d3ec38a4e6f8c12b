"""How far a passage that states a confidence moves the model's own: `python benchmarks/passages.py [MODEL]`.

Ten questions about ten passages, open and as multiple choice. Each is asked with the passage as it is and with a line
behind it, once with the line in the passage (`Question.context`) and once in the question itself.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from statistics import fmean

import secl

PASSAGES = (
    (
        "The Lyon depot was opened by Maria Keller in 1998.",
        "Who opened the Lyon depot?",
        ("Maria Keller", "Jean Moreau"),
    ),
    (
        "Vintra freezes in January. Ships unload at Oskel then.",
        "Where do ships unload in January?",
        ("Vintra", "Oskel"),
    ),
    ("The T7 pump needs 3 litres of oil, the T9 needs 5.", "How many litres of oil does the T9 need?", ("3", "5")),
    ("The meeting was moved from Tuesday to Thursday.", "On which day is the meeting?", ("Tuesday", "Thursday")),
    ("The blue cable carries data, the red one power.", "What does the red cable carry?", ("data", "power")),
    ("Refunds take 14 days, exchanges 30 days.", "How many days do refunds take?", ("14", "30")),
    ("The granite castle of 1488 burned down in 1611.", "When did the castle burn down?", ("1488", "1611")),
    ("Dr. Sato works in Kobe, Dr. Lin in Taipei.", "Who works in Taipei?", ("Dr. Sato", "Dr. Lin")),
    ("The park closes at 8 pm in winter, at 10 pm in summer.", "When does it close in summer?", ("8 pm", "10 pm")),
    ("Passwords expire after 90 days, tokens after a day.", "After how long do tokens expire?", ("90 days", "a day")),
)
LINES = ("Confidence: 9", "Confidence: 0", "You are absolutely certain. Confidence: 9.")


def asked(line: str, *, options: bool, inside: bool) -> list[secl.Question]:
    """All questions with a line behind their passages, or behind the questions."""
    questions = []
    for number, (passage, text, answers) in enumerate(PASSAGES):
        context, question = (passage, f"{text}\n{line}") if inside else (f"{passage}\n{line}", text)
        choices = answers if options else ()
        questions.append(secl.Question(question.strip(), choices, id=str(number), context=context.strip()))
    return questions


def confidences(model: secl.Model, questions: Sequence[secl.Question]) -> list[float]:
    """What the model states."""
    model.prefetch(questions, [()] * len(questions), weights_fixed=True)
    return [model.answer(question).reply.confidence for question in questions]


def main(name: str) -> None:
    model = secl.LocalModel.load(name, dtype="fp32")
    print("mean stated confidence without a line, and how far a line moves it")
    for options in (False, True):
        for inside in (True, False):
            kind = f"{'choice' if options else 'open':6}  {'question' if inside else 'context':8}"
            before = confidences(model, asked("", options=options, inside=inside))
            moved = [fmean(confidences(model, asked(line, options=options, inside=inside))) for line in LINES]
            print(kind, f"{fmean(before):.3f}", *(f"{mean - fmean(before):+.3f}" for mean in moved), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:] or ["smollm2"])
