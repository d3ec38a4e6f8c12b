"""Views: what one kind of evidence says about every candidate answer to a question, one number each.

A view is a pure function of evidence. Its numbers are natural logarithms up to a constant of the question; only their
differences between candidates mean anything. A new view is one function and one entry in `VIEWS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from secl.evidence import CandidateEvidence, Evidence, LetterOrder
from secl.question import Question
from secl.records import Reply
from secl.settings.groups import ViewName

Values = tuple[float | None, ...]
"""One number for each candidate; None where the view has none."""

SMOOTHING = 0.5
"""Times that every candidate of an open question counts as drawn beyond those that it was."""

VOTE = 2.6
"""What every way to the same number adds, in nats before the weight of the view."""

LEFT = 0.05
"""Least probability of what is none of the candidates."""

TINY = 1e-12
"""Probabilities are kept this far from 0 before the logarithm."""


def likelihood(candidates: CandidateEvidence, reply: Reply, evidence: Evidence) -> Values:  # noqa: ARG001
    """Log-likelihood per token, less half of what the candidate has without the question.

    Per token, because the noise of a sum grows with its length. Half, because that lies between the two usual scores
    (all and nothing), and near to what regression finds: per token, log-likelihoods with a question follow those
    without one with a slope of 0.4 to 0.8 on every stream that was measured (`python -m benchmarks.posterior`).
    """
    return tuple(
        None if each is None else (each.given - each.alone / 2) / each.tokens for each in candidates.likelihoods
    )


def p_true(candidates: CandidateEvidence, reply: Reply, evidence: Evidence) -> Values | None:  # noqa: ARG001
    """ln P(True) / P(False) of each candidate."""
    asked = evidence.p_true
    if asked is None or not asked.false_probabilities:
        return None
    verdicts = zip(asked.probabilities, asked.false_probabilities, strict=True)
    odds = dict(zip(asked.candidates, (math.log((t + TINY) / (f + TINY)) for t, f in verdicts), strict=True))
    return tuple(odds.get(candidate) for candidate in candidates.candidates)


def samples(candidates: CandidateEvidence, reply: Reply, evidence: Evidence) -> Values | None:  # noqa: ARG001
    """How often each candidate of an open question is what the model says: ln of its share of the answers drawn.

    The answer counts as drawn once, and every candidate half a time more. The last candidate has what is none of the
    others, so that an answer is compared with all that the model may say instead. Numbers that were found in different
    ways hardly agree by chance, so each of these adds as much as the one before.
    """
    if not candidates.samples:
        return None
    last = len(candidates.candidates) - 1
    if any(each.program for each in candidates.samples):
        # A program that computes nothing tells nothing; reasoning that leads nowhere speaks against every number.
        ways = [each.candidate for each in candidates.samples if not each.program or each.text is not None]
        found = [0, *(last if number is None else number for number in ways)]
        return tuple(VOTE * found.count(number) for number in range(last + 1))
    said = [0, *(last if each.candidate is None else each.candidate for each in candidates.samples)]
    return tuple(math.log(said.count(number) + SMOOTHING) for number in range(last + 1))


def text(candidates: CandidateEvidence, reply: Reply, evidence: Evidence) -> Values | None:  # noqa: ARG001
    """How probable the text of each candidate of an open question is: its log-probability over the root of its words.

    Between a sum, by which a sentence is never probable, and a mean, by which it always is. The last candidate has what
    the others leave of 1. No view of numbers, whose texts are the reasoning.
    """
    drawn = candidates.samples
    if not drawn or any(each.program for each in drawn) or math.isnan(reply.log_probability):
        return None
    log_p: dict[int | None, float] = {0: reply.log_probability}
    for each in drawn:
        if each.log_p is not None and each.text is not None:
            log_p.setdefault(each.candidate, each.log_p)
    words = candidates.words or [len(each.split()) for each in candidates.candidates]
    values = [log_p[n] / math.sqrt(max(1, words[n])) if n in log_p else None for n in range(len(words) - 1)]
    left = 1 - math.fsum(math.exp(value) for value in values if value is not None)
    return (*values, math.log(max(left, LEFT)))


Weight = Callable[[float, bool], float]
"""A weight by the reliability of the letters, and by whether the question is open."""


@dataclass(frozen=True, slots=True)
class View:
    """A view of all candidates.

    Attributes:
        read: maps the evidence, and the reply whose answer is the model's own, to values, or to None where there are
            none at all; None for the letters, which are read in several orders.
        weight: what it counts for, per nat of difference between two candidates, by the reliability of the letters (0
            to 1; 0 without letters), and by whether the question is open, so that the candidates are the model's own.
    """

    title: str
    read: Callable[[CandidateEvidence, Reply, Evidence], Values | None] | None
    weight: Weight


LETTERS: ViewName = "letters"
"""The view of the option letters, the mean over all orders in which the options were shown."""

VIEWS: dict[str, View] = {
    # Letters are worth most of what they say as far as they follow the options, and less among what the model has just
    # said itself; texts share what letters know of them.
    LETTERS: View("option letters, mean over orders", None, lambda s, is_open: (0.3 if is_open else 0.8) * s),
    "likelihood": View("likelihood of the text, per token", likelihood, lambda s, _: 0.5 - s / 3),
    # What is generated keeps its weight also where nothing is recognised.
    "samples": View("share of the answers drawn", samples, lambda *_: 0.4),
    # It also ranks the answers that all samples repeat.
    "text": View("probability of the text", text, lambda *_: 0.4),
    "p_true": View("P(True) against P(False)", p_true, lambda *_: 0.3),
}
"""Every view by its name (`secl.settings.groups.ViewName`)."""


def view_title(name: str) -> str:
    """What people call a view; its name if it is not one of `VIEWS`, as it may be in a record."""
    return VIEWS[name].title if name in VIEWS else name


@dataclass(frozen=True, slots=True)
class Views:
    """What several views say about the candidates of one question.

    Attributes:
        candidates: their texts; equal ones are right or wrong together, so they are one candidate with several letters.
        own: number of the candidate that the model answered; None if it is none of them.
        values: for each view, one number for each candidate, the same for equal ones; those of different ones sum to 0.
            The letters have zeros here.
        orders: the letters in every order that was shown, the one of the answer first where it has one; their numbers
            are such, too.
        none_last: whether the last candidate is "None of these", as it is for open questions.
    """

    candidates: tuple[str, ...]
    own: int | None
    names: tuple[ViewName, ...]
    values: tuple[tuple[float, ...], ...]
    orders: tuple[LetterOrder, ...] = ()
    none_last: bool = False

    @property
    def distinct(self) -> tuple[int, ...]:
        """Numbers of the different candidates, the first of equal ones."""
        return tuple(map(self.candidates.index, dict.fromkeys(self.candidates)))

    @property
    def rows(self) -> tuple[int, ...]:
        """Place of each candidate among the different ones."""
        place_of = {text: place for place, text in enumerate(dict.fromkeys(self.candidates))}
        return tuple(place_of[text] for text in self.candidates)


def read_views(
    names: Sequence[ViewName], question: Question, reply: Reply, frozen: Reply, evidence: Evidence
) -> Views | None:
    """What the evidence says about a question; None where there are fewer than two different candidates, or no view.

    Views without evidence are left out. The answer of `reply` counts as the model's own, and the letters of the
    answering pass are those of `frozen`.
    """
    candidates = evidence.candidates
    if candidates is None or len(set(candidates.candidates)) < 2:
        return None
    texts = candidates.candidates
    answering = frozen if frozen.answer == reply.answer else reply
    found = {name: read(candidates, answering, evidence) for name in names if (read := VIEWS[name].read) is not None}
    values = {name: centred(texts, each) for name, each in found.items() if each is not None and any(map(_known, each))}
    orders = _letter_orders(frozen, candidates) if LETTERS in names else ()
    if orders:
        values = {LETTERS: (0.0,) * len(texts), **values}
    if not values:
        return None
    own = own_candidate(question, reply)
    none_last = not question.options and candidates.likelihoods[-1] is None
    return Views(texts, own, tuple(values), tuple(values.values()), orders, none_last)


def own_candidate(question: Question, reply: Reply) -> int | None:
    """Number of a reply's answer among the candidates (`CandidateEvidence`); None without a readable answer."""
    if reply.answer is None:
        return None
    return question.letters.index(reply.answer) if question.options else 0


def pmi_of(question: Question, reply: Reply, evidence: Evidence) -> float | None:
    """Pointwise mutual information of question and answer in nats; None where the answer is compared with nothing."""
    number, compared = own_candidate(question, reply), evidence.candidates
    likelihood = None if compared is None or number is None else compared.likelihoods[number]
    return None if likelihood is None else likelihood.pmi


def _letter_orders(frozen: Reply, candidates: CandidateEvidence) -> tuple[LetterOrder, ...]:
    texts = candidates.candidates
    first = LetterOrder(order=tuple(range(len(texts))), log_p=frozen.option_log_p)
    orders = [first, *candidates.letters] if frozen.option_log_p else candidates.letters
    return tuple(LetterOrder(order=each.order, log_p=centred_letters(texts, each.log_p)) for each in orders)


def centred_letters(texts: Sequence[str], log_p: Sequence[float]) -> tuple[float, ...]:
    """Log-probabilities of letters, `centred`; an option is meant by the letter of any that is equal to it.

    >>> centred_letters(("Rome", "Paris", "Rome"), (math.log(0.25), math.log(0.5), math.log(0.25)))
    (0.0, 0.0, 0.0)
    """
    by_text: dict[str, list[float]] = {}
    for text, value in zip(texts, log_p, strict=True):
        by_text.setdefault(text, []).append(value)
    return centred(texts, [_sum_of(by_text[text]) for text in texts])


def _sum_of(log_p: Sequence[float]) -> float:
    """The logarithm of the sum of probabilities from their logarithms."""
    high = max(log_p)
    return high + math.log(math.fsum(math.exp(value - high) for value in log_p)) if math.isfinite(high) else high


def centred(texts: Sequence[str], values: Sequence[float | None]) -> tuple[float, ...]:
    """Values less the mean of different texts; equal ones share theirs, and a candidate without a value gets the mean.

    What is impossible, and so has no finite logarithm, counts as the least possible of the others.

    >>> centred(("Rome", "Paris", "Rome"), (1.0, 5.0, 3.0))
    (-1.5, 1.5, -1.5)
    """
    by_text: dict[str, list[float]] = {}
    least = min((value for value in values if _known(value)), default=0.0)
    for text, value in zip(texts, values, strict=True):
        if value is not None:
            by_text.setdefault(text, []).append(value if math.isfinite(value) else least)
    shared = {text: math.fsum(same) / len(same) for text, same in by_text.items()}
    mean = math.fsum(shared.values()) / len(shared) if shared else 0.0
    return tuple(shared[text] - mean if text in shared else 0.0 for text in texts)


def _known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)
