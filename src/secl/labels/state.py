"""What labels teach: the map from label-free confidences to calibrated ones, and the confidences of a labelled run.

A map moves the level of confidences and never decides their order: thresholds are tested on label-free confidences
(`secl.evaluation.acceptance`), and so is every measure of ranking.
"""

from __future__ import annotations

import functools
import logging
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from secl.evidence import Labelled
from secl.labels.draw import by_lot
from secl.labels.fit import Prior, Scaling, fit
from secl.labels.label import Label, standing
from secl.records import Record

BAND = 0.9
"""Probability that the right confidence lies within the band of a confidence."""

WIDE = Prior(slope=0.4, shift=0.8, domains=0.5, choice=2.0)
"""Prior of confidences that are not right as they are, in logits."""

DECAY = 0.999
"""What remains of a label's weight at the next."""

MEMORY = 5000
"""Latest labels that a fit is made of; older ones would weigh less than 1 in 100."""

FOLDS = 5
"""Parts of the labels of a run, each rated by a map of the others."""

log = logging.getLogger("secl.labels")


@dataclass(frozen=True, slots=True)
class LabelState:
    """What labels have taught; it maps confidences by that.

    It depends on the labels that stand, and on nothing else, to the last digit. A label that is taken back is as if it
    had never been there. Before any label, confidences are as probably right as they are as not. Labels whose fit fails
    leave confidences as they are, with a warning in the log.

    Attributes:
        carried: labels of an earlier run, its calibration; older than all others.
        standing: the labels of this stream that count, the oldest first.
        of_domain: how many labels are about answers of each domain.
        until: number of the latest entry of the log; 0 before the first.
        scalings: under the narrow and under the wide prior.
        sound: probability of the narrow one: that confidences are right as they are.
    """

    carried: tuple[Label, ...]
    standing: tuple[Label, ...]
    of_domain: Mapping[str, int]
    until: int
    scalings: tuple[Scaling, Scaling]
    sound: float

    @classmethod
    def start(cls, carried: Sequence[Label] = ()) -> LabelState:
        """Return the state before the first label, with the labels of an earlier run, if any."""
        return cls._of(tuple(carried), (), 0)

    @classmethod
    def _of(cls, carried: tuple[Label, ...], own: tuple[Label, ...], until: int) -> LabelState:
        labels = (*carried, *own)
        scalings = _untaught()
        try:
            with np.errstate(invalid="raise"):
                scalings = _scalings(labels[-MEMORY:]) if labels else scalings
        except (np.linalg.LinAlgError, FloatingPointError) as problem:
            log.warning("%d labels cannot be fitted (%s); confidences stay as they are", len(labels), problem)
        narrow, wide = scalings
        counts = Counter(label.domain for label in labels)
        return cls(carried, own, counts, until, scalings, _sigmoid(narrow.evidence - wide.evidence))

    def add(self, labels: Iterable[Label]) -> LabelState:
        """Return the state after further entries of the log, the same as after one by one."""
        entries = tuple(labels)
        if not entries:
            return self
        return self._of(self.carried, standing((*self.standing, *entries)), entries[-1].number)

    def without(self, positions: Collection[int]) -> LabelState:
        """Return the state without the labels of the answers at these positions."""
        rest = tuple(label for label in self.standing if label.position not in positions)
        return self._of(self.carried, rest, self.until)

    def rate(self, domain: str, confidence: float) -> Labelled:
        """Return what becomes of a label-free confidence, in [0, 1], with its band."""
        parts = [scaling.logit(domain, confidence) for scaling in self.scalings]
        shares = (self.sound, 1.0 - self.sound)
        low, high = (_quantile(shares, parts, share) for share in ((1.0 - BAND) / 2.0, (1.0 + BAND) / 2.0))
        return Labelled(
            label_free=confidence,
            confidence=self.confidence(domain, confidence),
            low=_sigmoid(low),
            high=_sigmoid(high),
            labels=len(self.carried) + len(self.standing),
            of_domain=self.of_domain.get(domain, 0),
            until=self.until,
        )

    def confidence(self, domain: str, confidence: float) -> float:
        """Return what becomes of a confidence, without its band, which takes longer; arguments are those of `rate`."""
        if self.scalings is _untaught():
            return confidence
        means = (scaling.logit(domain, confidence)[0] for scaling in self.scalings)
        return sum(p * _sigmoid(mean) for p, mean in zip((self.sound, 1.0 - self.sound), means, strict=True))


def relabelled(records: Iterable[Record], log: Iterable[Label], carried: Sequence[Label] = ()) -> Iterator[Record]:
    """Yield records with the confidences that all labels of a log give.

    A labelled answer gets the map of the labels outside its fold, one of `FOLDS` drawn at random, so that measures of
    the level on labelled answers are nearly unbiased (`python -m benchmarks.label_maps`). The maps differ, so ranks
    must be measured on `Record.label_free`.
    """
    state = LabelState.start(carried).add(log)
    drawn = by_lot((label.position for label in state.standing), 0)
    folds = [drawn[first::FOLDS] for first in range(min(FOLDS, len(drawn)))]
    map_of = {position: held for fold in folds for held in [state.without(frozenset(fold))] for position in fold}
    for record in records:
        labels = map_of.get(record.position, state)
        yield replace(record, labelled=labels.rate(record.question.domain, record.label_free))


def _scalings(labels: tuple[Label, ...]) -> tuple[Scaling, Scaling]:
    """What labels make of the narrow prior, and of the wide one."""
    return fit(labels, WIDE.narrow, DECAY), fit(labels, WIDE, DECAY)


@functools.cache
def _untaught() -> tuple[Scaling, Scaling]:
    """The map before any label, which leaves confidences as they are."""
    return _scalings(())


def _quantile(shares: tuple[float, float], parts: list[tuple[float, float]], share: float) -> float:
    """Where a mixture of Gaussians has this share below it."""
    from scipy.optimize import brentq
    from scipy.special import ndtr  # another way of computing it would change the last digits of stored bands

    def below(z: float) -> float:
        return float(sum(p * ndtr((z - mean) / sd) for p, (mean, sd) in zip(shares, parts, strict=True))) - share

    low = min(mean - 10.0 * sd for mean, sd in parts)
    high = max(mean + 10.0 * sd for mean, sd in parts)
    return float(brentq(below, low, high, xtol=1e-12))


def _sigmoid(z: float) -> float:
    return 1.0 / (1.0 + math.exp(-z)) if z >= 0.0 else math.exp(z) / (1.0 + math.exp(z))
