"""What labels have taught along a stream, and what becomes of confidences."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from secl.evidence import Labelled
from secl.labels.fit import Prior, Scaling, fit
from secl.labels.label import Label, standing
from secl.records import Record

BAND = 0.9
"""Probability that the right confidence lies within the band of a confidence."""

WIDE = Prior(slope=0.4, shift=0.8, domains=0.5, choice=2.0)
"""Where they are not, in logits: spreads of the slope around 1, of the shift, of a domain's own shift, and of the shift
of what people volunteer, which confidences do not follow."""

DECAY = 0.999
"""What remains of a label's weight at the next."""

MEMORY = 5000
"""Latest labels that a fit is made of; older ones would weigh less than 1 in 100."""


@dataclass(frozen=True, slots=True)
class LabelState:
    """What labels have taught; it maps confidences by that.

    It depends on the labels that stand, and on nothing else, to the last digit. A label that is taken back is as if it
    had never been there. Before any label, confidences are as probably right as they are as not.

    Attributes:
        standing: the labels that count, the oldest first.
        of_domain: how many of them are about answers of each domain.
        until: number of the latest entry of the log; 0 before the first.
        scalings: under the narrow and under the wide prior.
        sound: probability of the narrow one: that confidences are right as they are.
    """

    standing: tuple[Label, ...]
    of_domain: Mapping[str, int]
    until: int
    scalings: tuple[Scaling, Scaling]
    sound: float

    @classmethod
    def start(cls) -> LabelState:
        """The state before the first label."""
        return cls._of((), 0)

    @classmethod
    def _of(cls, labels: tuple[Label, ...], until: int) -> LabelState:
        if not labels:  # another entry of a log that teaches nothing
            return cls((), {}, until, _scalings(()), 0.5)
        narrow, wide = _scalings(labels[-MEMORY:])
        counts = Counter(label.domain for label in labels)
        return cls(labels, counts, until, (narrow, wide), _sigmoid(narrow.evidence - wide.evidence))

    def add(self, labels: Iterable[Label]) -> LabelState:
        """The state after further entries of the log, the same as after one by one."""
        entries = tuple(labels)
        return self._of(standing((*self.standing, *entries)), entries[-1].number) if entries else self

    def without(self, label: Label) -> LabelState:
        """The state without one of its labels: what would be said if it had not been given."""
        return self._of(tuple(each for each in self.standing if each.number != label.number), self.until)

    def rate(self, domain: str, confidence: float) -> Labelled:
        """What becomes of a confidence without any label, in [0, 1], and the band around it."""
        parts = [scaling.logit(domain, confidence) for scaling in self.scalings]
        shares = (self.sound, 1.0 - self.sound)
        low, high = (_quantile(shares, parts, share) for share in ((1.0 - BAND) / 2.0, (1.0 + BAND) / 2.0))
        return Labelled(
            label_free=confidence,
            confidence=self.confidence(domain, confidence),
            low=_sigmoid(low),
            high=_sigmoid(high),
            labels=len(self.standing),
            of_domain=self.of_domain.get(domain, 0),
            until=self.until,
        )

    def confidence(self, domain: str, confidence: float) -> float:
        """What becomes of a confidence, without its band, which takes longer; arguments are those of `rate`."""
        if not self.standing:
            return confidence
        means = (scaling.logit(domain, confidence)[0] for scaling in self.scalings)
        return sum(p * _sigmoid(mean) for p, mean in zip((self.sound, 1.0 - self.sound), means, strict=True))


def relabelled(records: Iterable[Record], log: Iterable[Label]) -> Iterator[Record]:
    """Records with the confidences that all labels of a log give; a labelled answer's, those that the others give.

    Leaving a label out of its own answer's confidence keeps what is measured on labelled answers honest.
    """
    state = LabelState.start().add(log)
    own = {label.position: label for label in state.standing}
    for record in records:
        label = own.get(record.position)
        known = state if label is None else state.without(label)
        yield replace(record, labelled=known.rate(record.question.domain, record.label_free))


def _scalings(labels: tuple[Label, ...]) -> tuple[Scaling, Scaling]:
    """What labels make of the narrow prior, and of the wide one."""
    return fit(labels, WIDE.narrow, DECAY), fit(labels, WIDE, DECAY)


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
