"""What questions with the same options share: a bias of each option, and a factor of the scores.

The score of an option is the weighted sum of its views, minus the mean over the options (nats). A stream in which one
list of options returns, such as rows to classify, has scores of this form:

    score of option k = bias of k + signal (1 if k is right, else 0) + noise

`SharedSums` estimates bias, signal and noise without labels, from sums over earlier questions. Each question first gets
its probabilities, then joins the sums. The estimate is expectation maximisation along the stream: a question counts for
an option as far as the option is probable, under shares of the options that the stream has shown. So a class with 95 %
of the rows is told from a bias by the rows in which the class does not win.

The posterior is softmax(factor (score - part of the bias)). docs/lab/log.md compares this form with other forms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from secl.metrics.probability import softmax

BIAS_ROWS = 4.0
"""Weight of the prior that no option has a bias, in questions."""

SIGNAL_SHARE = 0.3
"""Prior share of the signal in the variance of the scores."""

SPREAD = 0.3
"""Prior variance of the scores, in square nats."""

SCALE_ROWS = 40.0
"""Weight of the priors `SIGNAL_SHARE` and `SPREAD`, in questions."""

OPTION_ROWS = 3.0
"""Weight of the prior that all options are equally frequent, in questions for each option."""

EARLIEST, FORGETTING = 10, 0.7
"""Question n (from 0) has the weight (n + EARLIEST) ** -FORGETTING in the running means of responsibilities, because
early responsibilities rest on poor estimates."""

HIGHEST_SHARE = 0.95
"""Maximum share of the signal."""

SAME = 1e-6
"""If the scores vary between questions by less than this fraction of their squares, secl takes all questions for the
same question. The bias is then 0 and the strength 1, as for a single question."""

MIN_VARIANCE = 1e-9
"""Minimum variance, in square nats."""


@dataclass(frozen=True, slots=True)
class SharedSums:
    """Sums over earlier questions with the same options.

    Attributes:
        questions: number of questions.
        scores: sum of the scores, for each option.
        squares: sum of the squares of all scores.
        shares: running mean of each option's responsibility, which is its probability under the model of the scores.
        won: running mean of the scores weighted by responsibilities.
    """

    questions: int
    scores: tuple[float, ...]
    squares: float
    shares: tuple[float, ...]
    won: float

    @classmethod
    def empty(cls, options: int) -> SharedSums:
        return cls(0, (0.0,) * options, 0.0, (1 / options,) * options, 0.0)

    def add(self, scores: Sequence[float]) -> SharedSums:
        """Return the sums with a further question; `scores` sum to 0."""
        n, count = self.questions, len(self.scores)
        bias, strength = self.estimate()
        # Options that were right more often are more probable, with a prior of equal shares.
        share_of = [(n * share + OPTION_ROWS) / (n + OPTION_ROWS * count) for share in self.shares]
        now = [strength * (score - b) + math.log(share) for score, b, share in zip(scores, bias, share_of, strict=True)]
        responsibilities, step = softmax(now), (n + EARLIEST) ** -FORGETTING
        won = math.fsum(r * score for r, score in zip(responsibilities, scores, strict=True))
        return SharedSums(
            questions=n + 1,
            scores=tuple(total + score for total, score in zip(self.scores, scores, strict=True)),
            squares=self.squares + math.fsum(score * score for score in scores),
            shares=tuple((1 - step) * s + step * r for s, r in zip(self.shares, responsibilities, strict=True)),
            won=(1 - step) * self.won + step * won,
        )

    def estimate(self) -> tuple[list[float], float]:
        """Return the bias of each option in nats, and the strength of the scores, for the next question.

        The biases sum to 0. The strength is the signal divided by the variance of the noise: the factor that the model
        of the scores gives.
        """
        n, count = self.questions, len(self.scores)
        unit = (count - 1) / count**2  # variance of a signal of 1 nat, if all options are equally frequent
        means = [total / max(n, 1) for total in self.scores]
        square = self.squares / (max(n, 1) * count)
        spread = square - math.fsum(mean * mean for mean in means) / count  # variance between questions
        if n > 1 and spread < SAME * square:
            return [0.0] * count, 1.0
        # The equations for signal and bias, solved together:
        #     bias = kept (mean - signal (share - 1 / count)),  signal (1 - 1 / count) = won - sum of share * bias
        kept = n / (n + BIAS_ROWS)
        concentration = math.fsum(share * share for share in self.shares) - 1 / count
        explained = math.fsum(share * mean for share, mean in zip(self.shares, means, strict=True))
        signal = (self.won - kept * explained) / (1 - 1 / count - kept * concentration)
        # At most the signal that would explain the whole spread, if all options were equally frequent.
        signal = min(max(signal, 0.0), math.sqrt(_shrink(max(spread, 0.0), SPREAD, n) / unit))
        bias = [kept * (mean - signal * (share - 1 / count)) for mean, share in zip(means, self.shares, strict=True)]
        left = square - math.fsum((2 * mean - b) * b for mean, b in zip(means, bias, strict=True)) / count
        part = min(signal * signal * unit / max(left, MIN_VARIANCE), HIGHEST_SHARE)
        variance, part = _shrink(max(left, 0.0), SPREAD, n), _shrink(part, SIGNAL_SHARE, n)
        noise = max((1 - part) * variance * count / (count - 1), MIN_VARIANCE)
        return bias, math.sqrt(part * variance / unit) / noise

    def correction(self) -> tuple[list[float], float]:
        """Return what the next posterior subtracts from the score of each option, in nats, and the factor of the rest.

        One of n parts of the bias stays, with n options, because the estimate takes a frequent option for a bias in
        part: with two options more than with many.

        The factor is the mean of 1, as for a single question, and of the strength. The model of the scores takes errors
        that the views share for signal, so the strength alone is too high.
        """
        bias, strength = self.estimate()
        return [(1 - 1 / len(bias)) * each for each in bias], (1 + strength) / 2


def _shrink(value: float, prior: float, questions: int) -> float:
    return (questions * value + SCALE_ROWS * prior) / (questions + SCALE_ROWS)
