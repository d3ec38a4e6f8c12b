"""Every confidence that can be computed from a run's records: the rows of all tables and reports.

An estimator turns records into a series of (confidence, was it right) and says what it costs. Where nothing learns, all
of them rate the frozen model's answers, so that one run serves them all. In a run that learns, evidence is about the
adapted model's answer, and so are the estimators that need any. A new one is one line in `make_estimators`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from secl.evaluation.baselines import MAPS, constant, constant_with_labels, label_free_map, with_labels
from secl.evaluation.posterior import candidate_estimators, letter_probability
from secl.evaluation.series import AnswerOf, Cost, Estimator, Series
from secl.evaluation.symptoms import Source, main_source
from secl.grading import correctness, reported_correct
from secl.methods import Method
from secl.records import Record
from secl.settings.groups import Formula
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
"""Estimators of the reported confidences once labels have moved them; a run has one of them at most."""


def make_estimators(tau: float = 1.0, formula: Formula = "log") -> dict[str, Estimator]:
    """All estimators by name, in the order of reports; `tau` and `formula` are those of normalised P(True)."""
    norm_p_true = NormalisedPTrue(tau, formula)
    direct = (
        _of_frozen("stated", "Stated (frozen)", lambda r: r.frozen.stated),
        _of_frozen("stated_hard", "Stated, hard digit", lambda r: r.frozen.stated_hard),
        _of_frozen("answer_probability", "Answer probability", lambda r: answer_probability(r.frozen)),
        _of_frozen("token_entropy", "Token entropy, exp(-H)", lambda r: token_entropy(r.frozen)),
        _of_evidence("p_true", "P(True)", RawPTrue(), 2, _tokens_of_one_p_true),
        _of_evidence("norm_p_true", "Normalised P(True)", norm_p_true, 6, lambda record: record.ledger.scoring),
        _of_evidence(
            "self_consistency", "Self-consistency", SelfConsistency("mode"), 10, lambda r: r.ledger.sampling, "own"
        ),
        _of_evidence("dinco", "DINCO (beam answers)", DincoSignal("beam"), 10, _tokens_of_dinco, "own"),
        _of_evidence("dinco_greedy", "DINCO (greedy answers)", DincoSignal("greedy"), 10, _tokens_of_dinco),
        _of_frozen("letter_probability", "Letter probability", lambda r: letter_probability(r.question, r.frozen)),
        *candidate_estimators(),
        _with_labels_of_people("stated", "Stated + labels"),
        _with_labels_of_people("posterior", "Posterior + labels"),
        Estimator("secl", "SECL", _reported, _passes_of_learning, learned=True),
    )
    by_name = {estimator.name: estimator for estimator in direct}
    recalibrated = [with_labels(by_name[name], kind) for name in ("stated", "norm_p_true", "secl") for kind in MAPS]
    controls = [label_free_map(norm_p_true, kind) for kind in MAPS]
    constants = [make(by_name["stated"]) for make in (constant, constant_with_labels)]
    return by_name | {estimator.name: estimator for estimator in (*recalibrated, *controls, *constants)}


def _of_frozen(name: str, title: str, confidence: Callable[[Record], float | None]) -> Estimator:
    """The frozen model's reply alone."""

    def estimate(records: Sequence[Record]) -> Series:
        return Series.rated(records, confidence, lambda r: r.frozen_correct, lambda r: r.ledger.answering)

    return Estimator(name, title, estimate, lambda _record: 1.0, answers="frozen")


def _of_evidence(
    name: str, title: str, signal: Signal, passes: float, tokens: Cost, answers: AnswerOf = "reply"
) -> Estimator:
    """What the frozen model was asked about the reply: the paper's passes, and tokens beyond those of the answer."""

    def confidence(record: Record) -> float | None:
        return signal(record.question, record.reply, record.evidence)

    def correct(record: Record) -> bool | None:
        return correctness(record, signal.answer(record.question, record.reply, record.evidence))

    def estimate(records: Sequence[Record]) -> Series:
        return Series.rated(records, confidence, correct, lambda record: record.ledger.replies + tokens(record))

    return Estimator(name, title, estimate, lambda _record: passes, answers=answers, needs=signal.needs, signal=signal)


def _with_labels_of_people(source: Source, title: str) -> Estimator:
    """The reported confidences after labels, where they were of this source before them."""

    def estimate(records: Sequence[Record]) -> Series:
        moved = any(record.labelled is not None and record.labelled.labels for record in records)
        if not moved or main_source(records) != source:
            return Series()
        return Series.rated(records, lambda r: r.confidence, reported_correct, lambda r: r.ledger.total)

    name = f"{source}_with_labels"
    # Folds of labels have maps of their own, so these confidences rank nothing that the label-free ones do not.
    return Estimator(name, title, estimate, _passes_of_learning, answers="reported", needs_labels=True, ranks=False)


def _tokens_of_one_p_true(record: Record) -> float:
    p_true = record.evidence.p_true
    return record.ledger.scoring / len(p_true.candidates) if p_true is not None else 0.0


def _tokens_of_dinco(record: Record) -> float:
    samples = record.evidence.samples or ()
    return record.ledger.comparing + record.ledger.sampling * min(1.0, 5 / max(1, len(samples)))


def _passes_of_learning(record: Record) -> float:
    """The paper's ledger: 15 passes for a question that trained, 1 for any other."""
    return 15.0 if record.update is not None else 1.0


def _reported(records: Sequence[Record]) -> Series:
    """The reported confidence; evidence that was recorded outside bursts is there to compare with, not for learning."""

    def tokens(record: Record) -> float:
        ledger = record.ledger
        if record.decision.in_burst:
            return ledger.total
        # P(True) without evidence was prefetched for a burst that did not come.
        return ledger.replies + (ledger.scoring if record.evidence.p_true is None else 0.0)

    return Series.rated(records, lambda record: record.reply.stated, lambda record: record.correct, tokens)


def foremost(method: Method, names: Container[str]) -> str:
    """The estimator that a method is for, among those that a run has; the stated confidence if it is for none of them.

    >>> from secl.methods import METHODS
    >>> foremost(METHODS["secl"], ESTIMATORS), foremost(METHODS["baselines"], ESTIMATORS)
    ('secl', 'stated')
    """
    return next((name for name in reversed(method.reports) if name in names), "stated")


ESTIMATORS: dict[str, Estimator] = make_estimators()
"""All estimators, with normalised P(True) at tau 1."""
