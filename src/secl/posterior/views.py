"""Views: one number for each candidate answer to a question, from one kind of evidence.

A view is a pure function of evidence. Its numbers are natural logarithms plus a constant for each question, so only
differences between candidates matter. A new view is one function and one row in `VIEWS`.

The views of the example in `secl.evidence`, before place effects are subtracted from the letters:

                   Praia    Mombasa    Maseru    Nairobi
    letters        -2.60      -1.35     -1.76      -2.35     mean of the two orders
    likelihood     -3.35       0.84     -1.18       4.70     for Nairobi: (-2.21 + 13.82 / 2) / 1
    posterior       0.01       0.12      0.04       0.82     softmax(0.0 letters + 0.5 likelihood)
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from secl.evidence import CandidateEvidence, Evidence, LetterOrder
from secl.ledger import Purpose
from secl.metrics.probability import log_sum, softmax
from secl.question import Question
from secl.records import Record, Reply

P_TRUE_CLIP = 1e-12
"""Added to P(True) and P(False) before the logarithm, so that their ratio stays finite."""

ViewValues = tuple[float | None, ...]
"""One number for each candidate; None if unknown."""

SMOOTHING = 0.5
"""Pseudo-count of every candidate among the samples."""

VOTE = 2.6
"""Nats that each solution adds to its number, before multiplication by the weight of the view."""

DOUBT = 0.2
"""Weight of the uniform distribution in the mixture with probabilities after thoughts."""

LEAST_REST = 0.05
"""Minimum probability of an answer outside the candidates."""

VALUE_COEFFICIENTS = (0.6, -1.4, 0.02, -0.7)
"""a, b, c, d in a field's log-odds: a + b ln(H + c), plus d for a fixed form. H: entropy in nats (`value`)."""

VALUE_SLOPE = 0.6
"""Ratio of a value's log-odds to the log-odds of its text, if the entropy is unknown."""

TOOL_SLOPE = 2.0
"""Ratio of the log-odds of a choice of a tool to the log-odds of its first tokens. The ratio is above 1, because most
other first tokens lead to the same choice."""

ALONE_SLOPE = 0.8
"""Ratio of a value's log-odds to the log-odds of its text in the reply to a request for this field alone."""

LEAST_WRONG = 0.01
"""Minimum probability that the value of a field is wrong, before log-odds are multiplied by a slope."""


def likelihood(candidates: CandidateEvidence, reply: Reply, evidence: Evidence) -> ViewValues:  # noqa: ARG001
    """Return, per token, the log-likelihood of each candidate minus half of its log-likelihood without the question.

    The value is per token, because the noise of a sum grows with its number of tokens. The factor is a half, because on
    every measured stream the log-likelihoods with the question have a regression slope of 0.4 to 0.8 on the
    log-likelihoods without the question (`python -m benchmarks.posterior`).
    """
    return tuple(
        None if option is None else (option.given - option.alone / 2) / option.tokens
        for option in candidates.likelihoods
    )


def thoughts(candidates: CandidateEvidence, reply: Reply, evidence: Evidence) -> ViewValues | None:  # noqa: ARG001
    """Return ln of each option's mean probability after the thoughts, mixed with equal probabilities (`DOUBT`).

    After a single thought, the model is nearly certain of its letter, even of a wrong one. So the view averages over
    several thoughts, each with another order of the options.
    """
    letters = [each.log_p for each in candidates.letters if each.thought is not None]
    letters += [reply.option_log_p] if reply.thought is not None and reply.option_log_p else []
    if not letters:
        return None
    shares = [softmax(log_p) for log_p in letters]
    means = [math.fsum(option) / len(shares) for option in zip(*shares, strict=True)]
    texts = candidates.candidates
    by_text = {text: math.fsum(p for p, other in zip(means, texts, strict=True) if other == text) for text in texts}
    return tuple(math.log((1 - DOUBT) * by_text[text] + DOUBT / len(by_text)) for text in texts)


def p_true(candidates: CandidateEvidence, reply: Reply, evidence: Evidence) -> ViewValues | None:  # noqa: ARG001
    """Return ln P(True) / P(False) of each candidate."""
    asked = evidence.p_true
    if asked is None or not asked.false_probabilities:
        return None
    verdicts = zip(asked.probabilities, asked.false_probabilities, strict=True)
    log_odds = (math.log((true + P_TRUE_CLIP) / (false + P_TRUE_CLIP)) for true, false in verdicts)
    odds = dict(zip(asked.candidates, log_odds, strict=True))
    return tuple(odds.get(candidate) for candidate in candidates.candidates)


def samples(candidates: CandidateEvidence, reply: Reply, evidence: Evidence) -> ViewValues | None:
    """Return ln of the number of samples for each candidate of an open question, with a pseudo-count.

    The model's own answer counts as one sample. A given answer does not count beside it. Every candidate gets a
    pseudo-count (`SMOOTHING`). Samples that equal no candidate count for the last candidate. For numbers, the view is
    linear: every solution adds `VOTE` nats to its number, because independent solutions rarely agree on a wrong number.
    The view `value` replaces this view for fields, because both views estimate the same probability.
    """
    if not candidates.samples or value(candidates, reply, evidence) is not None:
        return None
    last = len(candidates.candidates) - 1
    programs = any(sample.program for sample in candidates.samples)
    # A program without a result does not count. Reasoning without a result counts for "None of these".
    ways = [sample.candidate for sample in candidates.samples if not sample.program or sample.text is not None]
    counts = Counter(last if number is None else number for number in ways)
    counts[0] += not any(sample.own for sample in candidates.samples)
    return tuple(
        VOTE * counts[number] if programs else math.log(counts[number] + SMOOTHING) for number in range(last + 1)
    )


def text(candidates: CandidateEvidence, reply: Reply, evidence: Evidence) -> ViewValues | None:  # noqa: ARG001
    """Return the log-probability of the most probable text of each candidate, divided by the square root of its words.

    A given answer may have unusual words, so the likelihood of its meaning is that of the best known wording. The
    square root is a compromise: a sum makes every sentence improbable, a mean makes every sentence probable. The
    last candidate has the remaining probability. Numbers do not have this view, because their texts are the reasoning.
    Fields have the view `value` instead.
    """
    texts = {} if candidates.source.of_field else most_probable_texts(candidates, reply)
    if not texts:
        return None
    scores = [
        texts[n][0] / math.sqrt(max(1, texts[n][1])) if n in texts else None
        for n in range(len(candidates.candidates) - 1)
    ]
    rest = 1 - math.fsum(math.exp(score) for score in scores if score is not None)
    return (*scores, math.log(max(rest, LEAST_REST)))


def value(candidates: CandidateEvidence, reply: Reply, evidence: Evidence) -> ViewValues | None:  # noqa: ARG001
    """Return ln of the probability of each value of a field.

    The model's own value has the probability sigmoid(L). L = a + b ln(H + c), plus d for a fixed form. H is the entropy
    of the value's tokens under the schema; `VALUE_COEFFICIENTS` holds a to d. If a server does not report H,
    L = `VALUE_SLOPE` logit P. P is the probability of the value's text, clipped at 1 - `LEAST_WRONG`. For the choice of
    a tool, L = min(`TOOL_SLOPE` logit P, -ln `LEAST_WRONG`). If secl also asked for this field alone, and the
    value has the probability P' in that reply, L becomes the mean of L and `ALONE_SLOPE` logit P'. The other values
    share the remaining probability in proportion to the probabilities of their texts.

    If the model thinks, the probability of a value is the mean over several thoughts, mixed with the uniform
    distribution (`DOUBT`).
    """
    if candidates.source.kind == "facts":
        return _fact(candidates)
    texts = most_probable_texts(candidates, reply) if candidates.source.of_field else {}
    if not texts:
        return None
    log_p = {number: p for number, (p, _) in texts.items()} | {0: reply.log_probability}
    if reply.thought is not None:
        return _average_thoughts(candidates, reply)
    own = min(log_p[0], math.log1p(-LEAST_WRONG))
    count = len(candidates.candidates)
    others = [max(math.exp(log_p.get(n, -math.inf)), LEAST_WRONG / 100) for n in range(1, count - 1)]
    others.append(max(1 - math.exp(own) - math.fsum(others), LEAST_WRONG))
    odds = own - math.log1p(-math.exp(own))
    if candidates.source.kind == "tools":
        log_odds = min(TOOL_SLOPE * odds, -math.log(LEAST_WRONG))
    elif math.isnan(reply.entropy):
        log_odds = VALUE_SLOPE * odds
    else:
        a, b, c, d = VALUE_COEFFICIENTS
        log_odds = a + b * math.log(reply.entropy + c) + (d if candidates.source.kind == "fixed_values" else 0.0)
    alone = candidates.likelihoods[0]
    if alone is not None:
        asked = min(max(math.exp(alone.given), LEAST_WRONG), 1 - LEAST_WRONG)
        log_odds = (log_odds + ALONE_SLOPE * math.log(asked / (1 - asked))) / 2
    right, wrong = -log_sum((0.0, -log_odds)), -log_sum((0.0, log_odds))
    return (right, *(wrong + math.log(other / math.fsum(others)) for other in others))


def _fact(candidates: CandidateEvidence) -> ViewValues:
    """Return ln P of the tokens of a value in a text, of other values in its place, and of all unlisted values.

    The probabilities of other values are those of their first tokens, so together they may exceed what the value
    leaves.
    """
    own, *others = (each.given for each in candidates.likelihoods if each is not None)
    right = min(own, math.log1p(-LEAST_WRONG))
    left = -math.expm1(right)
    listed = math.fsum(map(math.exp, others))
    scale = min(1.0, (left - LEAST_WRONG / 2) / listed) if listed else 1.0
    return right, *(other + math.log(scale) for other in others), math.log(left - scale * listed)


def _average_thoughts(candidates: CandidateEvidence, reply: Reply) -> ViewValues:
    """Return ln of each value's mean probability over thoughts; the last candidate has the remaining probability."""
    count, thoughts = len(candidates.candidates), 1 + len(candidates.samples)
    shares = [0.0] * count
    for number, log_p in [(0, reply.log_probability), *((each.candidate, each.log_p) for each in candidates.samples)]:
        if number is not None and log_p is not None:
            shares[number] += math.exp(log_p) / thoughts
    shares[-1] = max(0.0, 1 - math.fsum(shares[:-1]))
    return tuple(math.log((1 - DOUBT) * share + DOUBT / count) for share in shares)


def most_probable_texts(candidates: CandidateEvidence, reply: Reply) -> dict[int, tuple[float, int]]:
    """Return, by candidate, ln P and number of words of the most probable known text with its meaning.

    The result is empty without samples and for numbers.
    """
    drawn = candidates.samples
    if not drawn or any(sample.program for sample in drawn) or math.isnan(reply.log_probability):
        return {}
    texts: list[tuple[int | None, float | None, str | None]] = [(0, reply.log_probability, candidates.candidates[0])]
    texts += [(sample.candidate, sample.log_p, sample.text) for sample in drawn]
    best: dict[int, tuple[float, int]] = {}
    for number, log_p, text in texts:
        if number is not None and log_p is not None and text is not None:
            known = log_p, candidates.words[number] if candidates.words else len(text.split())
            best[number] = max(known, best.get(number, known))
    return best


Weight = Callable[[float, bool], float]
"""Weight of a view, by the reliability of the letters and by whether the question is open."""


@dataclass(frozen=True, slots=True)
class View:
    """A view of all candidates.

    Attributes:
        read: maps evidence, and the reply with the model's own answer, to values; None without evidence.
        weight: returns the factor of the values in the posterior's sum. Its arguments are the reliability of the
            letters (0 to 1; 0 without letters), and whether the question is open, which means that the candidates are
            the model's own answers.
        row: title in reports for the confidence by this view alone; "" for none (`secl.scores`).
        purpose: purpose of the tokens that the view needs besides the reply.
    """

    title: str
    read: Callable[[CandidateEvidence, Reply, Evidence], ViewValues | None]
    weight: Weight
    row: str = ""
    purpose: Purpose = "reordering"


LETTERS_VIEW = "letters"
"""The view of the option letters, read in several orders of the options (`Views.orders`)."""

FIELD_VIEWS = ("samples", "value")
"""Views of the values of a field, for any setting of `views`; `samples` is used only without evidence for `value`."""

VIEWS: dict[str, View] = {
    # The weight of letters grows with their reliability, and is lower for open questions. Likelihoods share evidence
    # with reliable letters, so the weight of likelihoods falls as the reliability grows.
    LETTERS_VIEW: View(
        "option letters, mean over orders", lambda *_: None, lambda s, is_open: (0.3 if is_open else 0.8) * s
    ),
    "likelihood": View(
        "likelihood of the text, per token",
        likelihood,
        lambda s, _: 0.5 - s / 3,
        row="Likelihood, normalised",
        purpose="likelihood",
    ),
    # The weight is constant, so samples still count if letters are unreliable.
    "samples": View("share of the samples", samples, lambda *_: 0.4),
    # If all samples agree, `samples` is the same for each question, but `text` still differs between questions.
    "text": View("probability of the text", text, lambda *_: 0.4),
    # This view is the only evidence about a field's values.
    "value": View("probability of the value", value, lambda *_: 1.0),
    # The weight is low for two reasons: thoughts share evidence with the letters before them, and no measured model was
    # trained to think.
    "thoughts": View("letters after thoughts", thoughts, lambda *_: 0.5, row="Letters after thoughts"),
    "p_true": View("P(True) against P(False)", p_true, lambda *_: 0.3),
}
"""Every view by its name: the views of answers (`ANSWER_VIEWS`), and `value` for fields."""

ANSWER_VIEWS = tuple(name for name in VIEWS if name != "value")
"""Names of the views that `posterior.views` may name."""


def view_title(name: str) -> str:
    """Return the title of a view. Old records may have views that no longer exist; their title is their name."""
    return VIEWS[name].title if name in VIEWS else name


@dataclass(frozen=True, slots=True)
class Views:
    """Several views of the candidates of one question.

    Attributes:
        candidates: their texts; equal texts are one candidate with several letters.
        own: number of the model's own answer among the candidates; None if the own answer is not a candidate.
        values: for each view except the letters, one `centred` number for each candidate.
        orders: the `centred` letters in every order shown, the order of the answering pass first.
        none_last: whether the last candidate is "None of these", as for open questions.
        shared: digest of the options and of the kinds of views; "" for an open question. Questions with one digest
            share the bias of each option (`secl.posterior.shared`).
    """

    candidates: tuple[str, ...]
    own: int | None
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    orders: tuple[LetterOrder, ...] = ()
    none_last: bool = False
    shared: str = ""

    @property
    def distinct(self) -> tuple[int, ...]:
        """Numbers of the candidates without duplicates: of equal candidates, the first."""
        return tuple(map(self.candidates.index, dict.fromkeys(self.candidates)))

    @property
    def rows(self) -> tuple[int, ...]:
        """For each candidate, the index of its text in `distinct`."""
        place_of = {text: place for place, text in enumerate(dict.fromkeys(self.candidates))}
        return tuple(place_of[text] for text in self.candidates)


def read_views(names: Sequence[str], record: Record) -> Views | None:
    """Return the views for which a record has evidence; None without evidence, or without two different candidates.

    The model's own answer comes from the record's `reply`, and the letters of the answering pass come from `frozen`.
    Fields always have `FIELD_VIEWS`.
    """
    reply, frozen, candidates = record.reply, record.frozen, record.evidence.candidates
    if candidates is None or len(set(candidates.candidates)) < 2:
        return None
    texts = candidates.candidates
    chosen = FIELD_VIEWS if candidates.source.of_field else names
    read = {name: VIEWS[name].read(candidates, answering_reply(record), record.evidence) for name in chosen}
    values = {name: centred(texts, row) for name, row in read.items() if row is not None and any(map(_known, row))}
    orders = _letter_orders(frozen, candidates) if LETTERS_VIEW in chosen else ()
    if not values and not orders:
        return None
    none_last = not record.question.options and candidates.likelihoods[-1] is None
    shared = _digest((*values, str(len(orders)), *texts)) if record.question.options else ""
    return Views(texts, own_candidate(record.question, reply), values, orders, none_last, shared)


def answering_reply(record: Record) -> Reply:
    """Return the reply whose probabilities the views read: the frozen model's, unless the adapted model's differs."""
    return record.frozen if record.frozen.answer == record.reply.answer else record.reply


def _digest(texts: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]


def own_candidate(question: Question, reply: Reply) -> int | None:
    """Return the number of a reply's answer among the candidates (`CandidateEvidence`); None if unreadable."""
    if reply.answer is None:
        return None
    return question.letters.index(reply.answer) if question.options else 0


def pmi_of(record: Record) -> float | None:
    """Return the pointwise mutual information of question and answer in nats; None without both likelihoods."""
    number, compared = own_candidate(record.question, record.reply), record.evidence.candidates
    likelihood = None if compared is None or number is None else compared.likelihoods[number]
    return None if likelihood is None or math.isnan(likelihood.alone) else likelihood.pmi


def _letter_orders(frozen: Reply, candidates: CandidateEvidence) -> tuple[LetterOrder, ...]:
    texts = candidates.candidates
    first = LetterOrder(order=tuple(range(len(texts))), log_p=frozen.option_log_p)
    at_once = [each for each in candidates.letters if each.thought is None]
    orders = [first, *at_once] if frozen.option_log_p and frozen.thought is None else at_once
    return tuple(LetterOrder(order=shown.order, log_p=centred_letters(texts, shown.log_p)) for shown in orders)


def centred_letters(texts: Sequence[str], log_p: Sequence[float]) -> tuple[float, ...]:
    """Return `centred` log-probabilities of letters; equal options share the probability of all their letters.

    >>> centred_letters(("Rome", "Paris", "Rome"), (math.log(0.25), math.log(0.5), math.log(0.25)))
    (0.0, 0.0, 0.0)
    """
    by_text: dict[str, list[float]] = {}
    for text, letter in zip(texts, log_p, strict=True):
        by_text.setdefault(text, []).append(letter)
    return centred(texts, [log_sum(by_text[text]) for text in texts])


def centred(texts: Sequence[str], values: Sequence[float | None]) -> tuple[float, ...]:
    """Return values minus their mean over different texts, so that the values of different texts sum to 0.

    Equal texts share their mean value. A candidate without a value gets 0. An infinite value counts as the least
    finite value.
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
