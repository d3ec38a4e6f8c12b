"""A share of the questions scored: the others get their posterior from a map of the letters, which cost nothing more.

Half of the share is random. The other half are the questions that the map is least certain about.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from secl.errors import ParameterError
from secl.evidence import EvidenceKind, LetterOrder, Posterior
from secl.posterior.fit import Fit, Stack
from secl.posterior.letters import PRIOR_QUESTIONS, RELIABILITY, place_effects
from secl.posterior.rule import PosteriorRule
from secl.posterior.views import LETTERS, Views, centred_letters
from secl.question import Question
from secl.records import Reply
from secl.settings import PosteriorSettings
from secl.validation import check_finite

FIRST = 20
"""Positions of a stream that are scored whatever the share, so that there is something to fit the map to."""

DOUBTS = 100
"""Latest questions that the uncertainty of a question is compared with."""

MOST = 10.0
"""Largest weight of the letters in the map; there every candidate but the best is as good as ruled out."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A question of the stream.

    Attributes:
        letters: of the answering pass, in the one order that it shows.
        target: the posterior's probabilities; None where the question was not scored.
    """

    letters: Views
    target: tuple[float, ...] | None


PRIOR_MAP = Fit((LETTERS,), (RELIABILITY,), {}, math.nan, math.nan, informed=True, questions=0)
"""Letters in one order, believed as far as they are reliable before anything is seen."""


@dataclass(frozen=True, slots=True)
class ShareState:
    """What is remembered of a stream.

    Attributes:
        scored: how many questions were scored.
        seen: the latest questions, scored or not, as many as the window holds.
        doubts: uncertainty p (1 - p) of the latest answers under the map.
        map: a fit of the letters alone; `informed` is that of the latest scored question.
    """

    scored: int = 0
    seen: tuple[Seen, ...] = ()
    doubts: tuple[float, ...] = ()
    map: Fit = PRIOR_MAP


@dataclass(frozen=True)
class ScoreShare:
    """Chooses the multiple-choice questions to score, and maps letters to a posterior for the others.

    Pure, like the rule of the posterior: stepping through a stream's letters and posteriors gives the same again. Open
    questions are all scored, for they have no letters until they are.

    Attributes:
        share: of the questions to score, in (0, 1]; at 1 there is no map and nothing is remembered.
        seed: with the position it decides which questions are chosen at random.
        settings: window and refit interval of the map, and whether its guess is guarded, are the posterior's.

    Raises:
        ParameterError: a share outside its range.
    """

    share: float = 1.0
    seed: int = 42
    settings: PosteriorSettings = field(default_factory=PosteriorSettings)

    def __post_init__(self) -> None:
        check_finite("score_share", self.share, 0.0 < self.share <= 1.0, "lie above 0 and not above 1")

    def check(self, evidence: Collection[EvidenceKind], *, always: bool) -> None:
        """Check that the share fits what a stream gathers about its answers.

        Raises:
            ParameterError: candidates are not compared always, or the posterior reads what is gathered apart from them.
        """
        if self.share == 1:
            return
        if "candidates" not in evidence or not always:
            raise ParameterError(
                f"a score_share of {self.share} needs a method that compares candidates always; leave it out or take "
                "the method posterior."
            )
        if "p_true" in self.settings.views:
            raise ParameterError(
                f"a score_share of {self.share} does not go with the view p_true, whose evidence is gathered of every "
                "question; leave one of them out."
            )

    def start(self) -> ShareState:
        """The state before the first question."""
        return ShareState()

    def expects(self, question: Question, position: int) -> bool:
        """Whether a question is scored whatever the map will say, so that its evidence can share the answer's pass."""
        chosen = position < FIRST or self._unit("random", position) < self.share / 2
        return self.share == 1 or not question.options or chosen

    def chooses(self, state: ShareState, letters: Views | None, position: int) -> bool:
        """Whether a question that was not expected is scored after its answer, as one of the least certain.

        The rank of its uncertainty among the latest ones, ties broken at random, is uniform where questions come in no
        particular order. So the share comes out, whatever the map.
        """
        if letters is None:
            return True  # no readable answer, or nothing to compare: there is no cost either
        doubt = _doubt(state.map, letters)
        above = sum(other > doubt for other in state.doubts)
        equal = sum(other == doubt for other in state.doubts) + 1
        rank = (above + equal * self._unit("tie", position)) / (len(state.doubts) + 1)
        return rank < self.share / (2 - self.share)  # s/2 of all are s/2 / (1 - s/2) of those not chosen at random

    def step(
        self, state: ShareState, letters: Views | None, posterior: Posterior | None
    ) -> tuple[ShareState, Posterior | None]:
        """The state after a question, and its posterior: the one given, or the map's where it was not scored.

        Args:
            state: before it.
            letters: from `read`.
            posterior: None where it was not scored.
        """
        if self.share == 1 or letters is None:
            return state, posterior
        scored, fitted = state.scored, state.map
        target = None if posterior is None else posterior.probabilities
        seen = (*state.seen, Seen(letters, target))[-self.settings.window :]
        doubts = (*state.doubts, _doubt(fitted, letters))[-DOUBTS:]
        if posterior is None:
            guess = PosteriorRule(self.settings).weigh(fitted, letters)
            return ShareState(scored, seen, doubts, fitted), replace(guess, scored=False)
        scored, fitted = scored + 1, replace(fitted, informed=posterior.informed)
        if scored == FIRST or scored % self.settings.refit == 0:
            fitted = replace(fit_map(seen), informed=posterior.informed)
            doubts = tuple(_doubt(fitted, each.letters) for each in seen[-DOUBTS:])
        return ShareState(scored, seen, doubts, fitted), posterior

    def read(self, question: Question, reply: Reply, frozen: Reply) -> Views | None:
        """The letters of the answering pass; None where a question has none, or no answer to be uncertain about."""
        options = question.options
        if reply.answer is None or len(set(options)) < 2 or not frozen.option_log_p:
            return None
        order = LetterOrder(order=tuple(range(len(options))), log_p=centred_letters(options, frozen.option_log_p))
        own = question.letters.index(reply.answer)
        return Views(options, own, (LETTERS,), ((0.0,) * len(options),), (order,))

    def _unit(self, purpose: str, position: int) -> float:
        """A number in [0, 1) that looks random and depends on these alone."""
        digest = hashlib.sha256(f"score/{purpose}/{self.seed}/{position}".encode()).digest()
        return int.from_bytes(digest[:6], "big") / 2**48


def fit_map(seen: Sequence[Seen]) -> Fit:
    """The weight w >= 0 at which softmax(w x) of the letters is nearest to the posteriors of the scored questions.

    x are the letters less what their places get over all questions. Nearest is least cross-entropy, which is convex in
    w; its slope is the sum of x (softmax(w x) - target). Before anything is seen w is `RELIABILITY`, which counts for
    `PRIOR_QUESTIONS` questions.

    Args:
        seen: questions, at least one of them scored.
    """
    from scipy.optimize import brentq

    taught = [(each.letters, each.target) for each in seen if each.target is not None]
    start = replace(PRIOR_MAP, places=place_effects([each.letters for each in seen]), questions=len(taught))
    stack = Stack.of([start.matrix(letters) for letters, _ in taught])
    x, prior = stack.x[:, 0], PRIOR_QUESTIONS / len(taught)
    targets = [target[number] for letters, target in taught for number in letters.distinct]
    wanted = float(x @ (targets + prior * stack.softmax(RELIABILITY * x)))

    def slope(weight: float) -> float:
        return (1 + prior) * float(x @ stack.softmax(weight * x)) - wanted

    if slope(0.0) >= 0:
        weight = 0.0
    elif slope(MOST) <= 0:
        weight = MOST
    else:
        weight = float(brentq(slope, 0.0, MOST, xtol=1e-9))
    return replace(start, weights=(weight,))


def _doubt(fitted: Fit, letters: Views) -> float:
    """Uncertainty p (1 - p) of the model's own answer."""
    p = 0.0 if letters.own is None else fitted.probabilities(letters)[letters.own]
    return p * (1 - p)
