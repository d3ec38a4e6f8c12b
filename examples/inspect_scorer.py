"""A scorer of inspect_ai with the confidence of each answer, and its Brier score and calibration error as metrics.

    inspect eval TASK.py --model openai-api/secl/MODEL --log-model-api      # SECL_BASE_URL, SECL_API_KEY: the server
    inspect score LOG.eval --scorer examples/inspect_scorer.py@confidence

The confidence is that of a server of secl. In logs of other servers (with `--logprobs`) it is the probability of the
answer's tokens. To score while a task runs, give the task `scorer=confidence()`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from inspect_ai._util.error import PrerequisiteError  # inspect_ai prints its message without a traceback
from inspect_ai.event import ModelEvent
from inspect_ai.log import transcript
from inspect_ai.scorer import (
    Metric,
    SampleScore,
    Score,
    Scorer,
    Target,
    accuracy,
    includes,
    metric,
    scorer,
    value_to_float,
)
from inspect_ai.solver import TaskState

from secl.client import reply_of
from secl.metrics import measures


def confidence_of(state: TaskState) -> float | None:
    """Return the confidence of a sample's answer; None for a sample without an answer, or if the server gave none.

    Raises:
        PrerequisiteError: the log has neither the reply of a server of secl nor log-probabilities.
    """
    events = [event for event in transcript().events if isinstance(event, ModelEvent) and event.call is not None]
    replies = [event.call.response for event in events if "secl" in (event.call.response or {})]
    if replies:
        confidence: float | None = reply_of(replies[-1])["confidence"]
        return confidence
    if not state.output.choices or state.output.error:
        return None
    tokens = state.output.choices[0].logprobs
    if tokens is None or not tokens.content:
        raise PrerequisiteError(
            f"sample {state.sample_id} has no confidence of secl and no log-probabilities; run the task again with "
            "--log-model-api against secl serve, or with --logprobs against another server."
        )
    return math.exp(sum(token.logprob for token in tokens.content))


def _metric(measure: Callable[[list[float], list[float]], float]) -> Metric:
    def compute(scores: list[SampleScore]) -> float:
        known = [
            (metadata["confidence"], each.score.as_float()) for each in scores if (metadata := each.score.metadata)
        ]
        pairs = [pair for pair in known if pair[0] is not None]
        return measure([p for p, _ in pairs], [right for _, right in pairs])

    return compute


@metric
def brier() -> Metric:
    """Mean squared error of the confidences."""
    return _metric(measures.brier)


@metric
def ece() -> Metric:
    """Calibration error in ten bins of equal width."""
    return _metric(measures.ece)


@scorer(metrics=[accuracy(), brier(), ece()])
def confidence() -> Scorer:
    """Grade an answer as right if it includes the target, and add its confidence."""
    judge = includes()  # or any other scorer of inspect_ai

    async def score(state: TaskState, target: Target) -> Score:
        graded, probability = await judge(state, target), confidence_of(state)
        right = value_to_float()(graded.value)
        return Score(value=right, answer=graded.answer, metadata={"confidence": probability})

    return score
