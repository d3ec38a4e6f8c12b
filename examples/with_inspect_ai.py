"""inspect_ai with confidences: a solver that answers with one, and a scorer that says what they are worth.

    pip install inspect-ai                                                      # beside secl
    inspect eval examples/with_inspect_ai.py --model none                       # no model of inspect's is asked
    inspect eval examples/with_inspect_ai.py --model none -T model=FOLDER -T count=100
    inspect view

Any task with choices or with short answers can take both: Task(dataset, solver=calibrated(), scorer=calibration()).
"""

from __future__ import annotations

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, accuracy, metric, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver

import secl
from secl.evaluation.measures import Measures


@task
def quiz(model: str = "smollm2", count: int = 20) -> Task:
    """Questions with four options, half about capitals and half about science."""
    questions = secl.load_stream(["capitals", "science"], -(-count // 2))
    samples = [
        Sample(id=question.id, input=question.text, choices=list(question.options), target=str(question.reference))
        for question in questions[:count]
    ]
    return Task(dataset=samples, solver=calibrated(model), scorer=calibration())


@solver
def calibrated(model: str = "smollm2") -> Solver:
    """Answer with a model of secl's, and keep how probable it is that the answer is right (the posterior).

    Nothing is learned, so that no answer depends on another, though weights of the posterior follow what was asked.
    """
    calibrator = secl.Calibrator.load(model, method="posterior")

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001
        record = calibrator.ask(question_of(state))  # a model does one thing at a time, so there is nothing to await
        state.output = ModelOutput.from_content(f"secl/{model}", record.answer or "")
        state.messages.append(state.output.message)
        state.store.set("confidence", record.confidence)
        state.store.set("stated", record.reply.confidence)
        return state

    return solve


def question_of(state: TaskState) -> secl.Question:
    """What a sample asks."""
    options = tuple(choice.value for choice in state.choices)
    return secl.Question(state.input_text, options=options, reference=state.target.text)


@metric
def brier() -> Metric:
    """Brier score of the confidences: lower is better."""

    def of(scores: list[SampleScore]) -> float:  # inspect reads these types
        return measures(scores).brier

    return of


@metric
def ece() -> Metric:
    """Expected calibration error in ten bins."""

    def of(scores: list[SampleScore]) -> float:  # inspect reads these types
        return measures(scores).ece

    return of


def measures(scores: list[SampleScore]) -> Measures:
    """What so many graded confidences are worth."""
    confidences = [each.score.metadata["confidence"] for each in scores]
    return secl.measure(confidences, [each.score.as_bool() for each in scores], resamples=0)


@scorer(metrics=[accuracy(), brier(), ece()])
def calibration() -> Scorer:
    """Grade the answer, as this library does, and keep its confidence beside the grade."""

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001
        answer = state.output.completion
        return Score(
            value=bool(secl.grade(question_of(state), answer)),
            answer=answer,
            explanation=f"right with probability {state.store.get('confidence'):.2f}",
            metadata={name: state.store.get(name) for name in ("confidence", "stated")},
        )

    return score
