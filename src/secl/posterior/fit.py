"""The weight of each view, fitted along a stream without any right answer.

Per candidate k a vector x_k of views, centred over the candidates of its question. Exactly one of the K candidates, z,
is right:

    x_k = delta (1[k = z] - 1/K) + noise with covariance S,    z uniform.

Expectation maximisation gives delta and S, and with them the weights beta = S^-1 delta of P(z = k) = softmax_k(x_k .
beta); weights are kept at or above 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from secl.posterior.letters import (
    RELIABILITY,
    Places,
    agreements,
    follow_options,
    mean_letters,
    of_mean,
    place_effects,
    reliability,
)
from secl.posterior.views import LETTERS, VIEWS, Views
from secl.settings import ViewName

Array = npt.NDArray[np.float64]

ITERATIONS = 50
TOLERANCE = 1e-4
"""The fit ends when no weight moves by more, relative to the largest."""

TEXTS: tuple[ViewName, ...] = ("likelihood", "pmi")
"""Views that read candidates as texts and not as options."""

Z = 1.645
"""Standard errors beyond which a view counts as informed: 5 of 100 views that know nothing are."""

FEWEST = 20
"""Questions below which nobody is called uninformed."""


@dataclass(frozen=True, slots=True)
class Fit:
    """What a stream has taught about some views.

    Attributes:
        names: of the views.
        weights: one for each view, 0 or more, per nat.
        places: what letters get for their place alone.
        reliability: of the letters averaged over their orders, from 0 to 1; nan without letters or with one order.
        agreement: how often letters and texts prefer the same candidate; nan where they were not compared.
        informed: whether any view carries information; True while too few questions were seen to tell.
        questions: that it was fitted to.
    """

    names: tuple[ViewName, ...]
    weights: tuple[float, ...]
    places: Places
    reliability: float
    agreement: float
    informed: bool
    questions: int

    def matrix(self, views: Views) -> Array:
        """The views of a question as (different candidates, views), the letters without place effects."""
        columns = [
            mean_letters(views, self.places) if name == LETTERS else values
            for name, values in zip(views.names, views.values, strict=True)
        ]
        return np.array([[column[number] for number in views.distinct] for column in columns], dtype=np.float64).T

    def probabilities(self, views: Views) -> tuple[float, ...]:
        """P(right) of each candidate; those of different ones sum to 1."""
        # Not a matrix product, which may round equal rows differently: what looks the same is equally probable.
        scores = (self.matrix(views) * np.array(self.weights)).sum(axis=1)
        exp = np.exp(scores - scores.max())
        p = (exp / exp.sum()).tolist()
        return tuple(p[row] for row in views.rows)


def prior_fit(views: Views) -> Fit:
    """The fit before anything is seen."""
    trust = of_mean(RELIABILITY, len(views.orders)) if len(views.orders) > 1 else math.nan
    weights = tuple(_prior(views.names, trust).tolist())
    return Fit(views.names, weights, {}, trust, math.nan, informed=True, questions=0)


def fit(questions: Sequence[Views], *, prior: float, use_reliability: bool = True, level: bool = True) -> Fit:
    """The weights of the views of some questions.

    Args:
        questions: at least one, all with the same `Views.key`.
        prior: questions that the prior counts for, above 0.
        use_reliability: whether the letters' prior follows their reliability, which then bounds their weight, so that
            unreliable letters weigh nothing.
        level: whether weights are lowered until letters are as confident as they agree with the texts.
    """
    names, places = questions[0].names, place_effects(questions)
    orders, agreed = len(questions[0].orders), agreements(questions)
    trust = of_mean(reliability(agreed), orders) if orders > 1 else math.nan
    empty = Fit(names, (0.0,) * len(names), places, trust, math.nan, informed=True, questions=len(questions))
    stack = Stack.of([empty.matrix(views) for views in questions])
    start = _prior(names, trust if use_reliability else math.nan)
    used = np.flatnonzero(start > 0)
    weights = np.zeros(len(names))
    agreement, scale = math.nan, 1.0
    if len(used):
        weights[used] = _maximise(stack.columns(used), start[used], prior)
    if use_reliability and LETTERS in names:
        weights *= _modesty(weights[names.index(LETTERS)], start[names.index(LETTERS)])
    if level:
        agreement, scale = _level(stack, names, weights, prior)
    known = len(questions) < FEWEST or follow_options(agreed, Z) or _informed(stack)
    return Fit(names, tuple((scale * weights).tolist()), places, trust, agreement, known, len(questions))


def _prior(names: Sequence[ViewName], trust: float) -> Array:
    letters = RELIABILITY if math.isnan(trust) else trust
    return np.array([VIEWS[name].prior * (letters if name == LETTERS else 1.0) for name in names])


@dataclass(frozen=True)
class Stack:
    """Views of many questions, the different candidates of one question behind each other.

    Attributes:
        x: (different candidates of all questions, views).
        starts: where each question begins.
        sizes: number of different candidates of each question.
    """

    x: Array
    starts: npt.NDArray[np.intp]
    sizes: npt.NDArray[np.intp]

    @classmethod
    def of(cls, matrices: Sequence[Array]) -> Stack:
        sizes = np.array([len(matrix) for matrix in matrices], dtype=np.intp)
        starts = np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.intp)
        return cls(np.concatenate(matrices), starts, sizes)

    def columns(self, numbers: npt.NDArray[np.intp]) -> Stack:
        """Some of the views alone."""
        return Stack(self.x[:, numbers], self.starts, self.sizes)

    def softmax(self, scores: Array) -> Array:
        """Softmax of (candidates,) within each question."""
        exp = np.exp(scores - np.repeat(np.maximum.reduceat(scores, self.starts), self.sizes))
        return np.asarray(exp / np.repeat(np.add.reduceat(exp, self.starts), self.sizes))

    def best(self, column: Array) -> npt.NDArray[np.intp]:
        """Row of the highest value of each question, the first of a tie."""
        rows = np.flatnonzero(column == np.repeat(np.maximum.reduceat(column, self.starts), self.sizes))
        return np.asarray(rows[np.searchsorted(rows, self.starts)])


def _maximise(stack: Stack, start: Array, prior: float) -> Array:
    """Expectation maximisation from the prior's weights, which also count as `prior` questions."""
    x, share = stack.x, 1 - 1 / stack.sizes
    total, freedom = float(share.sum()), float((stack.sizes - 1).sum())
    squares = x.T @ x
    spread = squares / freedom
    # A view that says the same of all candidates has no spread; the ridge keeps its weight finite.
    ridge = np.diag(1e-6 * np.diag(spread) + 1e-9)
    pseudo = prior * total / len(stack.sizes)
    before_any = _delta(start, spread, total / freedom)
    weights = start
    for _ in range(ITERATIONS):
        belief = stack.softmax(x @ weights)
        delta = (belief @ x + pseudo * before_any) / (total + pseudo)
        noise = (squares - total * np.outer(delta, delta)) / freedom + ridge
        before, weights = weights, _non_negative(noise, delta, spread + ridge)
        if np.abs(weights - before).max() <= TOLERANCE * max(1e-9, float(weights.max())):
            break
    return weights


def _delta(weights: Array, spread: Array, share: float) -> Array:
    """The delta that has these weights where views spread so far: S^-1 delta for S = spread - share delta delta'."""
    return np.asarray(2 / (1 + math.sqrt(1 + 4 * share * float(weights @ spread @ weights))) * (spread @ weights))


def _non_negative(noise: Array, delta: Array, spread: Array) -> Array:
    """The weights of least expected error among those of 0 or more: S^-1 delta where that has none below 0."""
    from scipy.optimize import nnls

    try:
        root = np.linalg.cholesky(noise)
    except np.linalg.LinAlgError:  # delta explains more than there is
        root = np.linalg.cholesky(spread / 10)
    weights, _ = nnls(root.T, np.linalg.solve(root, delta))
    return np.asarray(weights, dtype=np.float64)


def _modesty(weight: float, most: float) -> float:
    """The factor that keeps the letters' weight at what they deserve.

    Letters are what the model believes, at weight 1, and worth their reliability. Whatever the fit says, a model is not
    to be believed more than it believes itself.
    """
    return float(most / weight) if weight > most > 0 else 1.0


def _level(stack: Stack, names: Sequence[ViewName], weights: Array, prior: float) -> tuple[float, float]:
    """How often letters and texts agree, and the factor that makes the weights no more confident than that.

    All views come from one model and share its errors, so expectation maximisation takes what the model believes for
    what is true. Letters and texts are read in different ways and share less of them: they agree as often as chance
    where one of them knows nothing and always where both know everything; in between it is no estimate of how often
    they are right (docs/log.md), which is why this is a choice and not the default.
    """
    from scipy.optimize import brentq

    texts = next((name for name in TEXTS if name in names), None)
    if texts is None or LETTERS not in names or not weights[names.index(LETTERS)] > 0:
        return math.nan, 1.0
    letters = stack.best(stack.x[:, names.index(LETTERS)])
    agreement = float((letters == stack.best(stack.x[:, names.index(texts)])).mean())
    scores = stack.x @ weights

    def confidence(scale: float) -> float:
        return float(stack.softmax(scale * scores)[letters].mean())

    believed = confidence(1.0)
    bound = (agreement * len(letters) + believed * prior) / (len(letters) + prior)
    if believed <= bound:
        return agreement, 1.0
    if confidence(0.0) >= bound:
        return agreement, 0.0
    return agreement, float(brentq(lambda scale: confidence(scale) - bound, 0.0, 1.0, xtol=1e-6))


def _informed(stack: Stack) -> bool:
    """Whether any view carries information: a test of each at 5 %."""
    return bool((standing_out(stack) > Z).any())


def standing_out(stack: Stack) -> Array:
    """How far one candidate stands out upwards in each view, (views,), in standard errors of chance.

    As one candidate is right, a view that knows it stands out upwards, so that the third moment of its centred values
    is above 0; noise that is symmetric has none. Two candidates have none either, whatever the view knows: a stream of
    such questions is called uninformed unless its letters follow the options (`follow_options`).
    """
    cubes = np.add.reduceat(stack.x**3, stack.starts)[stack.sizes > 2]  # of two candidates rounding alone is left
    spread = np.sqrt((cubes**2).sum(axis=0))
    return np.asarray(np.where(spread > 0, cubes.sum(axis=0), 0.0) / np.where(spread > 0, spread, 1.0))
