"""The posterior along a stream: `start() -> state`, `step(state, views) -> (state, posterior)`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from secl.evidence import Evidence, Posterior
from secl.posterior.fit import Fit, fit, prior_fit
from secl.posterior.views import Key, Views, read_views
from secl.question import Question
from secl.records import Reply
from secl.settings import PosteriorSettings

EARLY = (5, 10)
"""Numbers of questions after which weights are fitted before the first whole interval."""


@dataclass(frozen=True, slots=True)
class Group:
    """Questions of a stream that have the same views.

    Attributes:
        count: how many there were.
        latest: the latest of them, as many as the window holds.
        fit: made from those that there were at the last refit.
    """

    count: int
    latest: tuple[Views, ...]
    fit: Fit


@dataclass(frozen=True, slots=True)
class PosteriorState:
    """What is remembered of a stream: its questions in groups that are weighed alike."""

    groups: Mapping[Key, Group] = field(default_factory=dict)


@dataclass(frozen=True)
class PosteriorRule:
    """Combines views with weights that are fitted along the stream, without labels.

    Pure, like a gate: the state is frozen, a step changes nothing, and stepping through recorded evidence gives the
    recorded posteriors. A question is weighed by what was fitted to the questions before it; a fit starts from the
    prior, so that it depends on the questions in the window alone.

    Attributes:
        settings: which views, and how they are fitted.
    """

    settings: PosteriorSettings = field(default_factory=PosteriorSettings)

    def start(self) -> PosteriorState:
        """The state before the first question: the prior alone."""
        return PosteriorState()

    def step(self, state: PosteriorState, views: Views | None) -> tuple[PosteriorState, Posterior | None]:
        """The state after a question, and how probable each of its candidates is; None without views."""
        if views is None:
            return state, None
        group = state.groups.get(views.key) or Group(0, (), prior_fit(views))
        posterior = self.weigh(group.fit, views)
        count, latest = group.count + 1, (*group.latest, views)[-self.settings.window :]
        after = Group(count, latest, self._fit(latest) if self._refits(count) else group.fit)
        return PosteriorState({**state.groups, views.key: after}), posterior

    def _refits(self, count: int) -> bool:
        """Whether weights are fitted after this many questions of a group."""
        return count % self.settings.refit == 0 or (count in EARLY and count < self.settings.refit)

    def read(self, question: Question, reply: Reply, frozen: Reply, evidence: Evidence) -> Views | None:
        """The views of a question; see `read_views`."""
        return read_views(self.settings.views, question, reply, frozen, evidence)

    def weigh(self, fitted: Fit, views: Views) -> Posterior:
        """The posterior of a question under a fit; with the guard, 1/K where no view of K candidates is informed."""
        informed = fitted.informed or not self.settings.guard
        even = (1 / len(views.distinct),) * len(views.candidates)
        return Posterior(
            candidates=views.candidates,
            probabilities=fitted.probabilities(views) if informed else even,
            own=views.own,
            none_last=views.none_last,
            weights=tuple(zip(fitted.names, fitted.weights, strict=True)),
            reliability=_or_none(fitted.reliability),
            agreement=_or_none(fitted.agreement),
            informed=fitted.informed,
            questions=fitted.questions,
        )

    def _fit(self, questions: tuple[Views, ...]) -> Fit:
        settings = self.settings
        return fit(questions, prior=settings.prior, use_reliability=settings.reliability, level=settings.level)


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
