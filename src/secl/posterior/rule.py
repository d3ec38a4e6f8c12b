"""The posterior along a stream: `start() -> state`, `step(state, views) -> (state, posterior)`.

    P(candidate) = softmax( sum over the views of weight * view )

The weights are functions of one number, which is estimated along the stream without labels: the reliability s of the
letters. The reliability is high if the letters follow the options, and low if they follow the places of the options.
`views.VIEWS` has the functions. docs/lab/log.md shows the effect of other functions. If earlier questions had the same
options, `secl.posterior.shared` subtracts the bias of each option and scales the sum.

The state of a stream is a set of sums over its questions (`LetterSums`, `SharedSums`). Sums within a question use
`math.fsum`, so that a replay gives the same digits everywhere; the built-in `sum` rounds differently before and after
Python 3.12.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from secl.errors import ParameterError
from secl.evidence import Posterior
from secl.metrics.probability import softmax
from secl.posterior.shared import SharedSums
from secl.posterior.views import ANSWER_VIEWS, LETTERS_VIEW, VIEWS, Views, read_views
from secl.records import Record
from secl.settings.groups import DEFAULT_VIEWS

RELIABILITY = 0.5
"""Prior correlation of the letters between two orders, for an unmeasured model."""

PRIOR_QUESTIONS = 20.0
"""Weight of the prior correlation, in questions."""

PRIOR_PLACES = 5.0
"""Weight, in questions, of the prior that place effects are 0."""

ROUNDING = 1e-12
"""If subtracting place effects leaves less than this fraction of a sum of squares, what is left is rounding error."""


@dataclass(frozen=True, slots=True)
class LetterSums:
    """Sums over questions with the same number of candidates, shown in the same number of orders.

    Candidates are numbered by their place in the first order. "Letter" means the centred ln P of a letter
    (`Views.orders`).

    Attributes:
        questions: number of questions.
        places: sum of the letters, for each order and candidate.
        squares: sum of the squares of all letters.
        squared_sums: sum over the candidates of (sum of the candidate's letters over the orders)^2.
    """

    questions: int
    places: tuple[tuple[float, ...], ...]
    squares: float
    squared_sums: float

    @classmethod
    def empty(cls, views: Views) -> LetterSums:
        """Return sums of 0, in the shape of these views."""
        return cls(0, tuple((0.0,) * len(order.order) for order in views.orders), 0.0, 0.0)

    def add(self, views: Views) -> LetterSums:
        """Return the sums with a further question."""
        letters = _by_first_place(views)
        over_orders = [math.fsum(candidate) for candidate in zip(*letters, strict=True)]
        return LetterSums(
            questions=self.questions + 1,
            places=tuple(
                tuple(total + letter for total, letter in zip(*order, strict=True))
                for order in zip(self.places, letters, strict=True)
            ),
            squares=self.squares + math.fsum(letter * letter for order in letters for letter in order),
            squared_sums=self.squared_sums + math.fsum(total * total for total in over_orders),
        )

    def mean_letters(self, views: Views) -> tuple[float, ...]:
        """Subtract place effects, shrunk towards 0, and return the mean letter of each candidate over the orders."""
        shrunk = self.questions + PRIOR_PLACES
        less = [
            [letter - total / shrunk for letter, total in zip(*order, strict=True)]
            for order in zip(_by_first_place(views), self.places, strict=True)
        ]
        means = [math.fsum(candidate) / len(less) for candidate in zip(*less, strict=True)]
        by_candidate = dict(zip(views.orders[0].order, means, strict=True))
        return tuple(by_candidate[number] for number in range(len(means)))

    @property
    def agreement(self) -> tuple[float, float]:
        """Sum of the products of letters in two orders, and sum of their squares, without place effects.

        Place effects are not shrunk here, because shrinkage would leave a remainder of them. If a model prefers the
        first and the last letter, for example, both orders have the same remainder, which would look like agreement.
        Both sums are 0 with a single order, and if place effects explain all letters.
        """
        orders = len(self.places)
        if orders < 2 or self.questions < 2:
            return 0.0, 0.0
        n = self.questions
        squares = self.squares - math.fsum(total * total for row in self.places for total in row) / n
        sums = self.squared_sums - math.fsum(math.fsum(column) ** 2 for column in zip(*self.places, strict=True)) / n
        if squares <= ROUNDING * self.squares:
            return 0.0, 0.0
        return (sums - squares) / (orders * (orders - 1)), squares / orders


def correlation(groups: Iterable[LetterSums], before: float) -> float:
    """Return the correlation of letters between two orders, without place effects, from -1 to 1.

    1 means that the letters follow the options in any order, 0 or less that they do not. The prior correlation `before`
    has the weight of `PRIOR_QUESTIONS` questions.
    """
    both = own = 0.0
    questions = 0
    for group in groups:
        products, squares = group.agreement
        if squares > 0:
            both, own, questions = both + products, own + squares, questions + group.questions
    if own <= 0:
        return before
    return (questions * both / own + before * PRIOR_QUESTIONS) / (questions + PRIOR_QUESTIONS)


def of_mean(correlation: float, orders: int) -> float:
    """Return the reliability of a mean over orders from the correlation of two orders (Spearman-Brown), at least 0."""
    return orders * correlation / (1 + (orders - 1) * correlation) if correlation > 0 else 0.0


def _by_first_place(views: Views) -> list[list[float]]:
    first = views.orders[0].order
    return [[order.log_p[candidate] for candidate in first] for order in views.orders]


Group = tuple[int, int, bool]
"""Group of questions that share sums: number of candidates, number of orders, and whether the questions are open."""


OPTION_LISTS = 64
"""Number of lists of options whose sums a stream keeps: the latest lists."""


@dataclass(frozen=True, slots=True)
class PosteriorState:
    """The state of a stream.

    Attributes:
        letters: sums over the letters, for each group of questions.
        shared: sums over the scores, for each of the latest `OPTION_LISTS` lists of options (`Views.shared`).
    """

    letters: Mapping[Group, LetterSums] = field(default_factory=dict)
    shared: Mapping[str, SharedSums] = field(default_factory=dict)

    def letters_of(self, views: Views) -> LetterSums:
        """Return the sums over earlier questions in the group of these views."""
        return self.letters.get(_group(views)) or LetterSums.empty(views)

    def shared_by(self, views: Views) -> SharedSums:
        """Return the sums over earlier questions with the options of these views."""
        return self.shared.get(views.shared) or SharedSums.empty(len(views.distinct))

    def add(self, views: Views, scores: Sequence[float]) -> PosteriorState:
        """Return the state after a further question with these scores of its different candidates.

        The letters do not count if two options are equal or the letters are unknown.
        """
        letters, shared = self.letters, self.shared
        if views.orders and len(views.distinct) == len(views.candidates):
            letters = {**letters, _group(views): self.letters_of(views).add(views)}
        if views.shared:
            others = [(options, sums) for options, sums in shared.items() if options != views.shared]
            shared = {**dict(others[1 - OPTION_LISTS :]), views.shared: self.shared_by(views).add(scores)}
        return PosteriorState(letters, shared)


def _group(views: Views) -> Group:
    return len(views.candidates), len(views.orders), views.none_last


@dataclass(frozen=True)
class PosteriorRule:
    """Combines views of the candidates into one probability each, without labels.

    `step` is a pure function: a replay of recorded evidence gives the recorded posteriors. The weights for a question
    depend on earlier questions.

    Attributes:
        views: names of the combined views.
        letters: prior correlation of the model's letters between two orders of the options, -1 to 1
            (`secl.model.Model.letters`); None takes `RELIABILITY`.
        shares: whether questions with the same options share a bias of each option. A server that keeps no texts could
            not find these questions again.
        known: sums over the questions of an earlier run, for lists of options (`PosteriorState.shared`).

    Raises:
        ParameterError: an unknown view, or a correlation outside [-1, 1].
    """

    views: tuple[str, ...] = DEFAULT_VIEWS
    letters: float | None = None
    shares: bool = True
    known: Mapping[str, SharedSums] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.views or not {*self.views} <= {*ANSWER_VIEWS}:
            known = ", ".join(ANSWER_VIEWS)
            raise ParameterError(f"posterior.views is {self.views!r}; it must be a list of one or more of {known}.")
        if self.letters is not None and not -1 <= self.letters <= 1:
            raise ParameterError(f"the letters' correlation is {self.letters}; it must lie in [-1, 1].")

    def start(self) -> PosteriorState:
        return PosteriorState(shared=self.known)

    def step(self, state: PosteriorState, views: Views | None) -> tuple[PosteriorState, Posterior | None]:
        """Return the state after a question, and the posterior of its candidates; None without views."""
        if views is None:
            return state, None
        if not self.shares:
            views = replace(views, shared="")
        before = RELIABILITY if self.letters is None else self.letters
        # Sums over questions of the same kind (open, or with options). The fixed order keeps their rounding the same.
        alike = [state.letters[group] for group in sorted(state.letters) if group[2] is views.none_last]
        reliability = of_mean(correlation(alike, before), len(views.orders)) if views.orders else None
        names = [*[LETTERS_VIEW for _ in views.orders[:1]], *views.values]
        weights = {name: VIEWS[name].weight(reliability or 0.0, views.none_last) for name in names}
        # The bias of an option includes the effect of its place, so place effects are not subtracted before.
        scores = _scores(views, weights, LetterSums.empty(views))
        earlier, factor, bias = state.shared_by(views), 1.0, list[float]()
        if earlier.questions:
            bias, factor = earlier.correction()
            relative = [score - b for score, b in zip(scores, bias, strict=True)]
        else:
            relative = _scores(views, weights, state.letters_of(views))
        shares = softmax([factor * score for score in relative])
        posterior = Posterior(
            candidates=views.candidates,
            probabilities=tuple(shares[row] for row in views.rows),
            own=views.own,
            none_last=views.none_last,
            weights=tuple((name, factor * weight) for name, weight in weights.items()),
            bias=tuple(factor * bias[row] for row in views.rows) if bias else (),
            shared=earlier.questions,
            reliability=reliability,
            questions=sum(sums.questions for sums in alike),
        )
        return state.add(views, scores), posterior

    def follow(self, state: PosteriorState, record: Record) -> tuple[PosteriorState, Posterior | None]:
        """Return the state after a record, and the posterior of its candidates."""
        return self.step(state, read_views(self.views, record))


def _scores(views: Views, weights: Mapping[str, float], letters: LetterSums) -> list[float]:
    """Return the weighted sum of the views of each different candidate, minus the mean.

    The place effects in `letters` are subtracted.
    """
    columns = dict(views.values)
    if views.orders:
        columns[LETTERS_VIEW] = letters.mean_letters(views)
    sums = [math.fsum(weight * columns[name][number] for name, weight in weights.items()) for number in views.distinct]
    mean = math.fsum(sums) / len(sums)
    return [total - mean for total in sums]


def replayed(rule: PosteriorRule, records: Sequence[Record]) -> list[Posterior | None]:
    """Compute a rule's posteriors again from recorded evidence; None for a record without evidence."""
    state = rule.start()
    posteriors: list[Posterior | None] = []
    for record in records:
        state, posterior = rule.follow(state, record)
        posteriors.append(posterior)
    return posteriors
