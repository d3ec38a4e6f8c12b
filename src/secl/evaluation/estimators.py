"""Every confidence that can be computed from a run's records: the rows of all tables and reports.

An estimator turns records into a series of confidences and grades, with their cost. In a run without learning, all
estimators rate the frozen model's answers, so one run serves all of them. In a run that learns, evidence describes the
adapted model's answers, so estimators that need evidence rate these answers. `make_estimators` lists all estimators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from itertools import repeat

import numpy as np

from secl.evaluation.series import Cost, Estimator, Rate, Rating, Series
from secl.evaluation.symptoms import Source, main_source
from secl.evidence import Posterior
from secl.methods import Method
from secl.metrics.probability import averaged, softmax
from secl.metrics.recalibration import FOLDS, Kind, cross_validated, label_free
from secl.posterior.rule import PosteriorRule
from secl.question import Question
from secl.records import Record, Reply
from secl.settings.groups import Formula, ViewName
from secl.signals import (
    DincoSignal,
    NormalisedPTrue,
    RawPTrue,
    SelfConsistency,
    Signal,
    answer_probability,
    token_entropy,
)

LABELLED = ("stated_with_labels", "posterior_with_labels")
"""Estimators of the reported confidences after calibration by labels; a run has at most one of them."""


def make_estimators(tau: float = 1.0, formula: Formula = "log") -> dict[str, Estimator]:
    """Return all estimators by name, in the order of reports; `tau` and `formula` define normalised P(True)."""
    norm_p_true = NormalisedPTrue(tau, formula)
    direct = (
        _of_frozen("stated", "Stated (frozen)", lambda r: r.frozen.stated),
        _of_frozen("stated_hard", "Stated, hard digit", lambda r: r.frozen.stated_hard),
        _of_frozen("answer_probability", "Answer probability", lambda r: answer_probability(r.frozen)),
        _of_frozen("token_entropy", "Token entropy, exp(-H)", lambda r: token_entropy(r.frozen)),
        _of_signal("p_true", "P(True)", RawPTrue(), 2, _tokens_of_one_p_true),
        _of_signal("norm_p_true", "Normalised P(True)", norm_p_true, 6, lambda r: r.ledger.scoring),
        _of_signal("self_consistency", "Self-consistency", SelfConsistency("mode"), 10, lambda r: r.ledger.sampling),
        _of_signal("dinco", "DINCO (beam answers)", DincoSignal("beam"), 10, _tokens_of_dinco),
        _of_signal("dinco_greedy", "DINCO (greedy answers)", DincoSignal("greedy"), 10, _tokens_of_dinco),
        _of_frozen("letter_probability", "Letter probability", lambda r: letter_probability(r.question, r.frozen)),
        _of_candidates(
            "order_averaged",
            "Letters, mean over orders",
            lambda records: ((r.reply.answer, order_averaged(r)) for r in records),
            lambda r: r.ledger.replies + r.ledger.reordering,
        ),
        _of_candidates(
            "likelihood",
            "Likelihood, normalised",
            _of_view("likelihood"),
            lambda r: r.ledger.replies + r.ledger.likelihood,
        ),
        _of_candidates("at_once", "Letters without the thought", of_at_once, lambda r: r.ledger.reordering),
        _of_candidates("thoughts", "Letters after thoughts", _of_view("thoughts")),
        _of_candidates("posterior_best", "Posterior, best answers", of_best),
        _of_candidates("posterior", "Posterior", lambda records: of_own(records, [r.posterior for r in records])),
        _with_labels_of_people("stated", "Stated + labels"),
        _with_labels_of_people("posterior", "Posterior + labels"),
        Estimator(
            "secl",
            "SECL",
            lambda records: ((r.reply.answer, r.reply.stated) for r in records),
            _passes_of_learning,
            _tokens_of_learning,
            learned=True,
        ),
    )
    by_name = {estimator.name: estimator for estimator in direct}
    recalibrated = [with_labels(by_name[name], kind) for name in ("stated", "norm_p_true", "secl") for kind in MAPS]
    controls = [label_free_map(norm_p_true, kind) for kind in MAPS]
    constants = [make(by_name["stated"]) for make in (constant, constant_with_labels)]
    return by_name | {estimator.name: estimator for estimator in (*recalibrated, *controls, *constants)}


def _of_frozen(name: str, title: str, confidence: Callable[[Record], float | None]) -> Estimator:
    """Return an estimator that rates the frozen model's answers and needs only its replies."""

    def rate(records: Sequence[Record]) -> Iterator[Rating]:
        return ((record.frozen.answer, confidence(record)) for record in records)

    return Estimator(name, title, rate, lambda _: 1.0, lambda record: record.ledger.answering, frozen=True)


def _of_signal(name: str, title: str, signal: Signal, passes: float, tokens: Cost) -> Estimator:
    """Return the estimator of a signal. It costs `passes` as the paper counts, or the reply's tokens plus `tokens`."""

    def rate(records: Sequence[Record]) -> Iterator[Rating]:
        for record in records:
            known = record.question, record.reply, record.evidence
            yield signal.answer(*known), signal(*known)

    return Estimator(
        name, title, rate, lambda _: passes, lambda record: record.ledger.replies + tokens(record), needs=signal.needs
    )


def _with_labels_of_people(source: Source, title: str) -> Estimator:
    """Return the estimator of confidences calibrated by labels; undefined unless `source` is their main source."""

    def rate(records: Sequence[Record]) -> Iterator[Rating]:
        moved = any(record.labelled is not None and record.labelled.labels for record in records)
        defined = moved and main_source(records) == source
        return ((record.answer, record.confidence if defined else None) for record in records)

    # Each fold of labels has its own map, so confidences of different folds cannot be ranked.
    name = f"{source}_with_labels"
    return Estimator(name, title, rate, _passes_of_learning, lambda r: r.ledger.total, needs_labels=True, ranks=False)


def _tokens_of_one_p_true(record: Record) -> float:
    p_true = record.evidence.p_true
    return record.ledger.scoring / len(p_true.candidates) if p_true is not None else 0.0


def _tokens_of_dinco(record: Record) -> float:
    samples = record.evidence.samples or ()
    return record.ledger.comparing + record.ledger.sampling * min(1.0, 5 / max(1, len(samples)))


def of_own(records: Sequence[Record], posteriors: Sequence[Posterior | None]) -> Iterator[Rating]:
    """Yield the model's own answers with their probabilities in these posteriors."""
    for record, posterior in zip(records, posteriors, strict=True):
        yield record.reply.answer, None if posterior is None else posterior.own_probability


def of_best(records: Sequence[Record]) -> Iterator[Rating]:
    """Yield the most probable candidates with their probabilities in the recorded posteriors."""
    for record in records:
        posterior = record.posterior
        yield record.best_answer, None if posterior is None else posterior.probabilities[posterior.best]


def of_at_once(records: Sequence[Record]) -> Iterator[Rating]:
    """Yield the option whose letter is most probable before the thought; None for records without a thought."""
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
    """Return the probability of the answer: softmax of the letters' log-probabilities, averaged over the orders first.

    None if unknown.
    """
    candidates = record.evidence.candidates
    if candidates is None or not record.question.options or record.reply.answer is None:
        return None
    first = [] if record.frozen.thought is not None else [record.frozen.option_log_p]
    shares = averaged([*first, *(order.log_p for order in candidates.letters if order.thought is None)])
    return _of_option(record.question, record.reply.answer, shares)


def _of_option(question: Question, letter: str, shares: Sequence[float]) -> float:
    """Return the share of an option: the sum over all options with its text."""
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
    """Return the passes as the paper counts: one for the answer, and one for each order, sample and likelihood."""
    candidates = record.evidence.candidates
    if candidates is None:
        return 1.0
    likelihoods = sum(1 + (not math.isnan(each.alone)) for each in candidates.likelihoods if each is not None)
    return 1.0 + len(candidates.letters) + len(candidates.samples) + likelihoods


def _of_candidates(name: str, title: str, rate: Rate, tokens: Cost = tokens_of_posterior) -> Estimator:
    return Estimator(name, title, rate, paper_passes, tokens, needs="candidates")


def _of_view(name: ViewName) -> Rate:
    """Return a function that rates the model's own answers by the posterior of a single view."""
    return lambda records: of_own(records, replayed(PosteriorRule((name,)), records))


def replayed(rule: PosteriorRule, records: Sequence[Record]) -> list[Posterior | None]:
    """Compute a rule's posteriors again from recorded evidence; None for a record without evidence."""
    state = rule.start()
    posteriors: list[Posterior | None] = []
    for record in records:
        state, posterior = rule.follow(state, record)
        posteriors.append(posterior)
    return posteriors


def _passes_of_learning(record: Record) -> float:
    """Return the passes as the paper counts: 15 for a question that trained, 1 for any other."""
    return 15.0 if record.update is not None else 1.0


def _tokens_of_learning(record: Record) -> float:
    """Return the tokens of replies and learning, without evidence outside bursts, which learning does not need."""
    ledger = record.ledger
    if record.decision.in_burst:
        return ledger.total
    # secl may have prefetched P(True) for a burst that did not come. This P(True) cost tokens, but is not recorded.
    return ledger.replies + (ledger.scoring if record.evidence.p_true is None else 0.0)


MAPS: dict[Kind, str] = {"temperature": "temperature", "platt": "Platt"}
"""Titles of the fitted maps."""


def with_labels(base: Estimator, kind: Kind) -> Estimator:
    """Return an estimator whose confidences are mapped by a five-fold cross-validated fit to graded answers."""

    def mapped(series: Series, _records: Sequence[Record]) -> Series:
        graded = series.where(series.has_grade)
        if len(graded) < FOLDS:
            return Series()
        confidence, parameters = cross_validated(graded.confidence, graded.correct, kind)
        names = ("T=",) if kind == "temperature" else ("a=", "b=")
        fit = ", ".join(f"{name}{value:.3g}" for name, value in zip(names, parameters, strict=True))
        fit += f", range [{min(confidence):.2f}, {max(confidence):.2f}]"
        return replace(graded, confidence=confidence, fitted=fit)

    title = f"{base.title} + {MAPS[kind]}*"
    return replace(base, name=f"{base.name}_{kind}", title=title, mapped=mapped, needs_labels=True)


def label_free_map(signal: Signal, kind: Kind) -> Estimator:
    """Return the estimator that maps stated confidences by a fit to the signals of earlier questions (no labels)."""

    def rate(records: Sequence[Record]) -> Iterator[Rating]:
        scores = [_score_of_frozen(signal, record) for record in records]
        undefined = all(math.isnan(score) for score in scores)
        confidences = [] if undefined else label_free([r.frozen.stated for r in records], scores, kind).tolist()
        answers = (record.frozen.answer for record in records)
        return zip(answers, repeat(None) if undefined else confidences, strict=not undefined)

    def passes(record: Record) -> float:
        return 1.0 if record.evidence.p_true is None else 6.0

    def tokens(record: Record) -> float:
        return record.ledger.answering + record.ledger.scoring

    title = f"Label-free {MAPS[kind]}"
    return Estimator(f"label_free_{kind}", title, rate, passes, tokens, needs=signal.needs, frozen=True)


def _score_of_frozen(signal: Signal, record: Record) -> float:
    """Return the signal of the frozen model's answer; nan if undefined."""
    if record.reply.answer != record.frozen.answer:
        return math.nan
    score = signal(record.question, record.reply, record.evidence)
    return math.nan if score is None else score


def constant(stated: Estimator) -> Estimator:
    """Return the estimator of a constant without labels: the running mean of earlier stated confidences."""

    def mapped(series: Series, _records: Sequence[Record]) -> Series:
        earlier = np.cumsum(series.confidence)[:-1] / np.arange(1, len(series))
        return replace(series, confidence=np.append(series.confidence[:1], np.clip(earlier, 0.0, 1.0)))

    return replace(stated, name="constant", title="Constant, mean stated", mapped=mapped, ranks=False)


def constant_with_labels(stated: Estimator) -> Estimator:
    """Return the estimator of a constant for each fold: the share of right answers in the other folds."""

    platt = with_labels(stated, "platt").mapped

    def mapped(series: Series, records: Sequence[Record]) -> Series:
        # Platt scaling maps equal confidences to the share of right answers.
        return replace(platt(replace(series, confidence=np.full(len(series), 0.5)), records), fitted=None)

    title = "Constant, base rate*"
    return replace(stated, name="constant_labelled", title=title, mapped=mapped, needs_labels=True, ranks=False)


def foremost(method: Method, names: Container[str]) -> str:
    """Return the method's most important estimator among these names, or "stated" if the method has none of them."""
    return next((name for name in reversed(method.reports) if name in names), "stated")


ESTIMATORS: dict[str, Estimator] = make_estimators()
"""All estimators, with normalised P(True) at tau 1."""
