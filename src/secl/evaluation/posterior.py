"""Confidences from evidence about all candidates: single views, and the posterior."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from secl.evaluation.series import Rating
from secl.evidence import Posterior
from secl.metrics.probability import averaged, softmax
from secl.posterior.rule import PosteriorRule
from secl.question import Question
from secl.records import Record, Reply

LIKELIHOOD = PosteriorRule(("likelihood",))
"""The posterior of the likelihoods of texts alone."""

THOUGHTS = PosteriorRule(("thoughts",))
"""The posterior of the letters after thoughts alone."""


def of_own(records: Sequence[Record], posteriors: Sequence[Posterior | None]) -> Iterator[Rating]:
    """Yield the model's own answers with their probabilities in these posteriors."""
    for record, posterior in zip(records, posteriors, strict=True):
        yield record.reply.answer, None if posterior is None else posterior.confidence


def of_best(records: Sequence[Record]) -> Iterator[Rating]:
    """Yield the most probable candidates with their probabilities in the recorded posteriors."""
    for record in records:
        posterior = record.posterior
        yield record.best_answer, None if posterior is None else posterior.probabilities[posterior.best]


def of_at_once(records: Sequence[Record]) -> Iterator[Rating]:
    """For answers after thoughts, yield the option that the letters without a thought prefer."""
    for record in records:
        candidates, letters = record.evidence.candidates, record.question.letters
        at_once = [] if candidates is None else [each.log_p for each in candidates.letters if each.thought is None]
        if record.frozen.thought is None or not letters or not at_once:
            yield None, None
            continue
        shares = averaged(at_once)
        best = letters[shares.index(max(shares))]
        yield best, _of_option(record.question, best, shares)


def letter_probability(question: Question, reply: Reply) -> float | None:
    """Return the probability of the answer's letter relative to all options' letters; None for an open question."""
    if not reply.option_log_p or reply.answer is None:
        return None
    return _of_option(question, reply.answer, softmax(reply.option_log_p))


def order_averaged(record: Record) -> float | None:
    """Return the probability of the answer's letter from its mean log-probability over the orders; or None."""
    candidates = record.evidence.candidates
    if candidates is None or not record.question.options or record.reply.answer is None:
        return None
    first = [] if record.frozen.thought is not None else [record.frozen.option_log_p]
    shares = averaged([*first, *(order.log_p for order in candidates.letters if order.thought is None)])
    return _of_option(record.question, record.reply.answer, shares)


def _of_option(question: Question, letter: str, shares: Sequence[float]) -> float:
    """Return the total share of an option and its equals."""
    own = question.option(letter)
    return sum(share for share, option in zip(shares, question.options, strict=True) if option == own)


def tokens_of_posterior(record: Record) -> float:
    """Return the tokens of the answer and of the posterior's evidence, without samples for self-consistency."""
    evidence, ledger = record.evidence, record.ledger
    drawn = 0 if evidence.candidates is None else len(evidence.candidates.samples)
    others = 0 if evidence.samples is None or record.question.options else len(evidence.samples)
    sampling = ledger.sampling * drawn / (drawn + others) if drawn else 0.0
    scored = record.posterior is not None and any(view == "p_true" for view, _ in record.posterior.weights)
    weighed = ledger.replies + ledger.reordering + ledger.likelihood + sampling
    return weighed + (ledger.scoring if scored else 0.0)


def paper_passes(record: Record) -> float:
    """Return passes as the paper counts: 1 for the answer, each order, each sample and each likelihood read."""
    candidates = record.evidence.candidates
    if candidates is None:
        return 1.0
    likelihoods = sum(1 + (not math.isnan(each.alone)) for each in candidates.likelihoods if each is not None)
    return 1.0 + len(candidates.letters) + len(candidates.samples) + likelihoods


def replayed(rule: PosteriorRule, records: Sequence[Record]) -> list[Posterior | None]:
    """Return the posteriors of a rule along recorded evidence; None without evidence."""
    state = rule.start()
    posteriors: list[Posterior | None] = []
    for record in records:
        state, posterior = rule.follow(state, record)
        posteriors.append(posterior)
    return posteriors
