"""Estimators from evidence about all candidates: single views, and the posterior that combines them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from secl.evaluation.series import AnswerOf, Estimate, Estimator, Series
from secl.evidence import CandidateEvidence, Posterior
from secl.grading import correctness
from secl.metrics.probability import averaged, softmax
from secl.posterior.rule import PosteriorRule
from secl.question import Question
from secl.records import Record, Reply
from secl.settings import PosteriorSettings

Confidence = Callable[[Record], float | None]
Posteriors = Callable[[Sequence[Record]], Sequence[Posterior | None]]


def candidate_estimators() -> tuple[Estimator, ...]:
    """The probability of the letter, each view alone, and the posterior of the model's own and of the best answers."""
    return (
        Estimator(
            "letter_probability", "Letter probability", "reply", _letters_of_frozen, lambda _record: 1.0, "frozen"
        ),
        _direct("order_averaged", "Letters, mean over orders", order_averaged),
        _likelihood("likelihood", "Likelihood, normalised"),
        _combined("posterior_best", "Posterior, best answers", best=True),
        _combined("posterior", "Posterior", best=False),
    )


def letter_probability(question: Question, reply: Reply) -> float | None:
    """Probability of the answer's letter among those of all options; None for an open question."""
    if not reply.option_log_p or reply.answer is None:
        return None
    return _of_option(question, reply.answer, softmax(reply.option_log_p))


def order_averaged(record: Record) -> float | None:
    """Probability of the answer's letter when log-probabilities are averaged over the orders; None without a letter."""
    candidates = record.evidence.candidates
    if candidates is None or not record.question.options or record.reply.answer is None:
        return None
    shares = averaged([record.frozen.option_log_p, *(order.log_p for order in candidates.letters)])
    return _of_option(record.question, record.reply.answer, shares)


def _of_option(question: Question, letter: str, shares: Sequence[float]) -> float:
    """The share of an option, with those of options that are equal to it."""
    own = question.option(letter)
    return sum(share for share, option in zip(shares, question.options, strict=True) if option == own)


def _letters_of_frozen(records: Sequence[Record]) -> Series:
    rated = ((record, letter_probability(record.question, record.frozen)) for record in records)
    return Series.of(
        Estimate(record.position, confidence, record.frozen_correct, record.ledger.answering)
        for record, confidence in rated
        if confidence is not None
    )


def _direct(name: str, title: str, confidence: Confidence) -> Estimator:
    """A pure function of one record."""

    def estimate(records: Sequence[Record]) -> Series:
        rated = ((record, confidence(record)) for record in records)
        return Series.of(
            Estimate(record.position, value, record.correct, record.ledger.replies + record.ledger.reordering)
            for record, value in rated
            if value is not None
        )

    return Estimator(name, title, "candidates", estimate, _paper_passes, needs="candidates")


def _likelihood(name: str, title: str) -> Estimator:
    """The posterior from the likelihoods alone."""
    rule = PosteriorRule(PosteriorSettings(views=("likelihood",)))

    def tokens(record: Record) -> float:
        return record.ledger.replies + record.ledger.likelihood

    return _series_of(name, title, lambda records: replayed(rule, records), tokens, best=False)


def _combined(name: str, title: str, *, best: bool) -> Estimator:
    """The posterior that was computed along the stream."""

    def tokens(record: Record) -> float:
        scored = any(view == "p_true" for view, _ in record.posterior.weights) if record.posterior else False
        ledger = record.ledger
        weighed = ledger.replies + ledger.reordering + ledger.likelihood + _tokens_of_drawn(record)
        return weighed + (ledger.scoring if scored else 0.0)

    return _series_of(name, title, lambda records: [record.posterior for record in records], tokens, best=best)


def _tokens_of_drawn(record: Record) -> float:
    """Tokens of the further answers that an open answer is compared with; self-consistency has its own."""
    evidence = record.evidence
    drawn = 0 if evidence.candidates is None else len(evidence.candidates.samples)
    others = 0 if evidence.samples is None or record.question.options else len(evidence.samples)
    return record.ledger.sampling * drawn / (drawn + others) if drawn else 0.0


def _series_of(
    name: str, title: str, posteriors: Posteriors, tokens: Callable[[Record], float], *, best: bool
) -> Estimator:
    def estimate(records: Sequence[Record]) -> Series:
        pairs = zip(records, posteriors(records), strict=True)
        rated = (each for record, posterior in pairs if (each := rate(record, posterior)) is not None)
        return Series.of(rated)

    def rate(record: Record, posterior: Posterior | None) -> Estimate | None:
        if posterior is None or (posterior.own is None and not best):
            return None
        own = posterior.best == posterior.own or not best
        confidence = posterior.confidence if own else posterior.probabilities[posterior.best]
        correct = record.correct if own else correctness(record, record.best_answer)
        return None if confidence is None else Estimate(record.position, confidence, correct, tokens(record))

    answers: AnswerOf = "best" if best else "reply"
    return Estimator(name, title, "candidates", estimate, _paper_passes, answers, needs="candidates")


def replayed(rule: PosteriorRule, records: Sequence[Record]) -> list[Posterior | None]:
    """The posteriors that a rule gives along recorded evidence; None where there is none."""
    state = rule.start()
    posteriors: list[Posterior | None] = []
    for record in records:
        views = rule.read(record.question, record.reply, record.frozen, record.evidence)
        state, posterior = rule.step(state, views)
        posteriors.append(posterior)
    return posteriors


def _paper_passes(record: Record) -> float:
    """As the paper counts: a pass for the answer, each further order or answer, two for a candidate's likelihood."""
    candidates: CandidateEvidence | None = record.evidence.candidates
    if candidates is None:
        return 1.0
    likelihoods = sum(each is not None for each in candidates.likelihoods)
    return 1.0 + len(candidates.letters) + len(candidates.samples) + 2 * likelihoods
