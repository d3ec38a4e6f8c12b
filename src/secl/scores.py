"""Scores: every confidence that can be computed from records, as one row each of `SCORES`.

A score is a function from a record to the probability that an answer is correct. Training signals, views of the
posterior, rows of tables and the user's own confidences are scores. A new score is a function and a row in
`make_scores`: reports then show it for every method that gathers its evidence.

In a run without learning, all scores rate the frozen model's answers, so one run serves all of them. In a run that
learns, evidence describes the adapted model's answers, so scores that need evidence rate these answers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Self

import numpy as np
import numpy.typing as npt

from secl.errors import ParameterError
from secl.evidence import DINCO_SAMPLES, DincoEvidence, EvidenceKind
from secl.grading.rules import correctness
from secl.grading.texts import answer_key
from secl.metrics.probability import Vector, averaged, normalised_p_true, softmax
from secl.metrics.recalibration import FOLDS, MapKind, cross_validated, label_free
from secl.posterior.rule import PosteriorRule, replayed
from secl.posterior.views import VIEWS, View
from secl.question import Question
from secl.records import ConfidenceSource, Record, Reply, main_source
from secl.settings.groups import Formula

Of = Callable[[Record], float | None]
"""A probability in [0, 1] that an answer to the record's question is correct; None or nan if undefined."""

CostFunction = Callable[[Record], float]
"""Forward passes, or tokens, of one question."""


def spent(*purposes: str) -> CostFunction:
    """Return the function that adds the tokens of a question for these purposes (`secl.ledger.Ledger`)."""
    return lambda record: math.fsum(getattr(record.ledger, purpose) for purpose in purposes)


Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """The confidences of one score along a stream. Each array has one entry for each question with a confidence.

    Attributes:
        rows: index of each rated record among the records.
        confidence: in [0, 1].
        correct: 1 for right, 0 for wrong, nan without a grade.
        fitted: fitted parameters in words, for example "T=1.8"; None without a fit.
    """

    rows: npt.NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    confidence: Vector = field(default_factory=lambda: np.empty(0))
    correct: Vector = field(default_factory=lambda: np.empty(0))
    fitted: str | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def has_grade(self) -> Mask:
        """Mask of the graded answers."""
        return ~np.isnan(self.correct)

    def where(self, entries: Mask | npt.NDArray[np.intp]) -> Self:
        """Return the entries that a mask or a list of numbers selects."""
        chosen = {name: getattr(self, name)[entries] for name in ("rows", "confidence", "correct")}
        return replace(self, **chosen)

    def graded(self) -> tuple[Vector, Vector]:
        """Return confidences and grades of the graded answers."""
        return self.confidence[self.has_grade], self.correct[self.has_grade]


def own_answer(record: Record) -> str | None:
    """Return the model's own answer."""
    return record.reply.answer


def frozen_answer(record: Record) -> str | None:
    """Return the frozen model's own answer."""
    return record.frozen.answer


@dataclass(frozen=True)
class Score:
    """A confidence.

    Attributes:
        name: short and unique, for files and flags.
        title: name in reports; ends in a star if cross-validated.
        of: returns the confidence of a record.
        needs: required evidence; None if the reply suffices.
        answer: returns the rated answer; None if unreadable.
        signal: whether SECL may learn from the score (`evidence.signal`).
        passes: cost of one question in forward passes, as the paper counts.
        tokens: cost of one question in tokens through the network.
        learned: whether the confidence comes from an adapted model; a run without learning has no such confidence.
        needs_labels: whether the confidence is fitted to graded answers.
        ranks: whether the order of confidences has a meaning: not for a constant, and not for maps that differ by fold.
        extra: whether reports show the score only if the method or the evidence is chosen for it.
        mapped: recalibrates the confidences of a run; by default the identity.
    """

    name: str
    title: str
    of: Of
    needs: EvidenceKind | None = None
    answer: Callable[[Record], str | None] = own_answer
    signal: bool = False
    passes: CostFunction | float = 1.0
    tokens: CostFunction = lambda record: record.ledger.total
    learned: bool = False
    needs_labels: bool = False
    ranks: bool = True
    extra: bool = False
    mapped: Callable[[Series, Sequence[Record]], Series] = lambda series, _records: series

    def estimate(self, records: Sequence[Record]) -> Series:
        """Return the series of all records of a run."""
        rated = [
            (row, value, self._grade(record))
            for row, record in enumerate(records)
            if (value := self.of(record)) is not None and not math.isnan(value)
        ]
        rows, confidence, correct = np.array(rated, dtype=float).reshape(-1, 3).T.copy()
        return self.mapped(Series(rows.astype(np.intp), confidence, correct), records)

    def paper_passes(self, record: Record) -> float:
        """Return the cost of a question in forward passes, as the paper counts."""
        return self.passes(record) if callable(self.passes) else self.passes

    def _grade(self, record: Record) -> float:
        frozen = self.answer is frozen_answer
        grade = record.frozen_correct if frozen else correctness(record, self.answer(record))
        return math.nan if grade is None else grade


# Scores of a reply.


def answer_probability(reply: Reply) -> float | None:
    """Return the joint probability of the answer's tokens; None if unknown."""
    known = reply.answer is not None and not math.isnan(reply.log_probability)
    return min(1.0, math.exp(reply.log_probability)) if known else None


def letter_probability(question: Question, reply: Reply) -> float | None:
    """Return the probability of the answer's letter relative to all options' letters; None for an open question."""
    if not reply.option_log_p or reply.answer is None:
        return None
    return _of_option(question, reply.answer, softmax(reply.option_log_p))


def _of_option(question: Question, letter: str, shares: Sequence[float]) -> float:
    """Return the share of an option: the sum over all options with its text."""
    own = question.option(letter)
    return sum(share for share, option in zip(shares, question.options, strict=True) if option == own)


# Scores of P(True), of samples, and of beams.


def p_true(record: Record) -> float | None:
    """Return P(True) of the answer alone (Kadavath et al. 2022). Often overconfident: models accept most answers."""
    judged = record.evidence.p_true
    return None if judged is None else judged.probabilities[0]


def norm_p_true(record: Record, tau: float = 1.0, formula: Formula = "log") -> float | None:
    """Return P(True) of the answer relative to its distractors (the paper's Eq. `normp`); None without a distractor.

    Equal options count as one candidate. `formula`: "log" is softmax(log P / tau), "exp" is softmax(P / tau) as in
    Eq. normp.
    """
    judged = record.evidence.p_true
    compared = {} if judged is None else judged.compared
    return normalised_p_true([*compared.values()], tau, formula) if len(compared) > 1 else None


def _tokens_of_one_p_true(record: Record) -> float:
    judged = record.evidence.p_true
    return record.ledger.replies + (0.0 if judged is None else record.ledger.scoring / len(judged.candidates))


def key_of(question: Question, answer: str | None) -> object:
    """Return a key that is equal for equal options, and for texts that grading treats as equal; None for None."""
    if answer is None:
        return None
    return question.option(answer) if answer in question.letters else answer_key(answer, question.form)


def most_frequent(record: Record) -> str | None:
    """Return the most frequent sample, the earliest in a tie; None without a readable sample."""
    readable = [sample for sample in record.evidence.samples or () if sample is not None]
    keys = [key_of(record.question, sample) for sample in readable]
    return readable[keys.index(Counter(keys).most_common(1)[0][0])] if keys else None


def self_consistency(record: Record, answer: Callable[[Record], str | None] = own_answer) -> float | None:
    """Return the share of the samples that give the same answer (Wang et al. 2023); grading decides what is equal."""
    question, samples, rated = record.question, record.evidence.samples, answer(record)
    if not samples or rated is None:
        return None
    return sum(key_of(question, text) == key_of(question, rated) for text in samples if text is not None) / len(samples)


def _rated_beam(record: Record, own: bool) -> int | None:
    """Return the index of the answer that DINCO rates: the most probable beam, or with `own` the model's own answer."""
    beams, form, answer = record.evidence.dinco, record.question.form, record.reply.answer
    if beams is None or not own:
        return None if beams is None else 0
    keys, key = [answer_key(each, form) for each in beams.answers], None if answer is None else answer_key(answer, form)
    return keys.index(key) if key in keys else None


def dinco_answer(record: Record, *, own: bool = False) -> str | None:
    """Return the answer that DINCO rates: the most probable beam, as published, or with `own` the model's own."""
    number, beams = _rated_beam(record, own), record.evidence.dinco
    return None if beams is None or number is None else beams.answers[number]


def dinco(record: Record, *, own: bool = False) -> float | None:
    """Return the mean of the confidence normalised over beam distractors and of self-consistency (Wang et al. 2025)."""
    number, beams = _rated_beam(record, own), record.evidence.dinco
    if beams is None or number is None:
        return None
    return (normalised_verbalised_confidence(beams, number) + consistency(beams.agreement[number][:DINCO_SAMPLES])) / 2


def normalised_verbalised_confidence(beams: DincoEvidence, main: int) -> float:
    """Return NVC: P("Yes") of the answer, divided by the weighted sum of P("Yes") over answer and beams (at least 1).

    The answer, candidate `main`, has weight 1. The weight of a distractor is its contradiction of the answer (mean of
    both directions), divided by 1 + the sum of P(entail) from the other distractors.
    """
    distractors = [number for number in range(beams.beams) if number != main]
    mass = beams.p_yes[main]
    for i in distractors:
        opposition = (beams.contradicts[main][i] + beams.contradicts[i][main]) / 2
        repeated = sum(beams.entails[j][i] for j in distractors if j != i)
        mass += beams.p_yes[i] * opposition / (1 + repeated)
    return beams.p_yes[main] / max(1.0, mass)


MATCH = 0.9
"""Agreement in DINCO above which a sample counts as the same answer."""


def consistency(agreement: Sequence[float]) -> float:
    """Return SC: the share of samples that agree with the answer. The answer itself counts as a sample."""
    return (1 + sum(same > MATCH for same in agreement)) / (len(agreement) + 1)


def _tokens_of_dinco(record: Record) -> float:
    samples, ledger = record.evidence.samples or (), record.ledger
    return ledger.replies + (ledger.comparing + ledger.sampling * min(1.0, 5 / max(1, len(samples))))


# Scores of candidates.


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


def _shares_at_once(record: Record) -> list[float] | None:
    """Return the probabilities of the letters before the thought; None for records without a thought."""
    candidates = record.evidence.candidates
    at_once = [] if candidates is None else [each.log_p for each in candidates.letters if each.thought is None]
    return averaged(at_once) if record.frozen.thought is not None and record.question.letters and at_once else None


def answer_at_once(record: Record) -> str | None:
    """Return the option whose letter is most probable before the thought."""
    shares = _shares_at_once(record)
    return None if shares is None else record.question.letters[shares.index(max(shares))]


def at_once(record: Record) -> float | None:
    """Return the probability of `answer_at_once`."""
    shares, answer = _shares_at_once(record), answer_at_once(record)
    return None if shares is None or answer is None else _of_option(record.question, answer, shares)


def by_view(name: str, view: View) -> Score:
    """Return the score of the model's own answer by the posterior of a single view."""
    rule = PosteriorRule((name,))

    def of(record: Record) -> float | None:
        (posterior,) = [None] if record.kind == "fact" else replayed(rule, [record])  # facts have no such views
        return None if posterior is None else posterior.own_probability

    def mapped(series: Series, records: Sequence[Record]) -> Series:
        # Questions with the same options share what the rule learns along the stream.
        own = [None if posterior is None else posterior.own_probability for posterior in replayed(rule, records)]
        return replace(series, confidence=np.array([own[row] for row in series.rows.tolist()], dtype=float))

    tokens = spent("replies", view.purpose)
    return Score(name, view.row, of, needs="candidates", passes=paper_passes, tokens=tokens, mapped=mapped)


def of_best(record: Record) -> float | None:
    """Return the posterior probability of the most probable candidate."""
    return None if record.posterior is None else record.posterior.probabilities[record.posterior.best]


def of_own(record: Record) -> float | None:
    """Return the posterior probability of the model's own answer."""
    return None if record.posterior is None else record.posterior.own_probability


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


# Scores of learning, of labels, and of whole streams.


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


def _by_labels(source: ConfidenceSource, title: str) -> Score:
    """Return the score of confidences calibrated by labels; undefined unless `source` is their main source."""

    def mapped(series: Series, records: Sequence[Record]) -> Series:
        moved = any(record.labelled is not None and record.labelled.labels for record in records)
        return series if moved and main_source(records) == source else Series()

    # Each fold of labels has its own map, so confidences of different folds cannot be ranked.
    return Score(
        f"{source}_with_labels",
        title,
        lambda record: record.confidence,
        answer=lambda record: record.answer,
        passes=_passes_of_learning,
        needs_labels=True,
        ranks=False,
        mapped=mapped,
    )


LABELLED_SCORES = ("stated_with_labels", "posterior_with_labels")
"""Scores of the reported confidences after calibration by labels; a run has at most one of them."""

MAPS: dict[MapKind, str] = {"temperature": "temperature", "platt": "Platt"}
"""Titles of the fitted maps."""


def with_labels(base: Score, kind: MapKind, *, extra: bool = False) -> Score:
    """Return a score whose confidences are mapped by a five-fold cross-validated fit to graded answers."""

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
    return replace(
        base, name=f"{base.name}_{kind}", title=title, mapped=mapped, needs_labels=True, extra=extra, signal=False
    )


def label_free_map(stated: Score, signal: Score, kind: MapKind) -> Score:
    """Return the score that maps stated confidences by a fit to the signals of earlier questions (no labels)."""

    def target(record: Record) -> float:
        same = record.reply.answer == record.frozen.answer
        score = signal.of(record) if same else None
        return math.nan if score is None else score

    def mapped(series: Series, records: Sequence[Record]) -> Series:
        targets = [target(records[row]) for row in series.rows.tolist()]
        if all(map(math.isnan, targets)):
            return Series()
        return replace(series, confidence=label_free(series.confidence, targets, kind))

    return replace(
        stated,
        name=f"label_free_{kind}",
        title=f"Label-free {MAPS[kind]}",
        needs=signal.needs,
        passes=lambda record: 1.0 if record.evidence.p_true is None else 6.0,
        tokens=lambda record: record.ledger.answering + record.ledger.scoring,
        extra=kind == "temperature",
        mapped=mapped,
    )


def constant(stated: Score) -> Score:
    """Return the score of a constant without labels: the running mean of earlier stated confidences."""

    def mapped(series: Series, _records: Sequence[Record]) -> Series:
        earlier = np.cumsum(series.confidence)[:-1] / np.arange(1, len(series))
        return replace(series, confidence=np.append(series.confidence[:1], np.clip(earlier, 0.0, 1.0)))

    return replace(stated, name="constant", title="Constant, mean stated", mapped=mapped, ranks=False)


def constant_with_labels(stated: Score) -> Score:
    """Return the score of a constant for each fold: the share of right answers in the other folds."""
    platt = with_labels(stated, "platt").mapped

    def mapped(series: Series, records: Sequence[Record]) -> Series:
        # Platt scaling maps equal confidences to the share of right answers.
        return replace(platt(replace(series, confidence=np.full(len(series), 0.5)), records), fitted=None)

    title = "Constant, base rate*"
    return replace(stated, name="constant_labelled", title=title, mapped=mapped, needs_labels=True, ranks=False)


# The registry.


@cache
def make_scores(tau: float = 1.0, formula: Formula = "log") -> Mapping[str, Score]:
    """Return all scores by name, in the order of reports; `tau` and `formula` define normalised P(True)."""
    frozen = partial(Score, answer=frozen_answer, tokens=spent("answering"))
    judged = partial(Score, needs="p_true", signal=True)
    beams = partial(Score, needs="dinco", passes=10, tokens=_tokens_of_dinco)
    compared = partial(Score, needs="candidates", passes=paper_passes, tokens=tokens_of_posterior)
    learned = partial(Score, passes=_passes_of_learning, tokens=_tokens_of_learning, learned=True)
    normalised = partial(norm_p_true, tau=tau, formula=formula)
    direct = [
        frozen("stated", "Stated (frozen)", lambda r: r.frozen.stated),
        frozen("stated_hard", "Stated, hard digit", lambda r: r.frozen.stated_hard, extra=True),
        frozen("answer_probability", "Answer probability", lambda r: answer_probability(r.frozen), extra=True),
        # H is the mean token entropy in nats, so exp(-H) is 1 over the effective number of choices per token.
        frozen("token_entropy", "Token entropy, exp(-H)", lambda r: math.exp(-r.frozen.entropy), extra=True),
        judged("p_true", "P(True)", p_true, passes=2, tokens=_tokens_of_one_p_true),
        judged("norm_p_true", "Normalised P(True)", normalised, passes=6, tokens=spent("replies", "scoring")),
        Score(
            "self_consistency",
            "Self-consistency",
            partial(self_consistency, answer=most_frequent),
            needs="samples",
            answer=most_frequent,
            signal=True,
            passes=10,
            tokens=spent("replies", "sampling"),
        ),
        beams("dinco", "DINCO (beam answers)", dinco, answer=dinco_answer),
        beams(
            "dinco_greedy", "DINCO (greedy answers)", partial(dinco, own=True), answer=partial(dinco_answer, own=True)
        ),
        frozen("letter_probability", "Letter probability", lambda r: letter_probability(r.question, r.frozen)),
        compared("order_averaged", "Letters, mean over orders", order_averaged, tokens=spent("replies", "reordering")),
        *(by_view(name, view) for name, view in VIEWS.items() if view.row),
        compared("at_once", "Letters without the thought", at_once, answer=answer_at_once, tokens=spent("reordering")),
        compared("posterior_best", "Posterior, best answers", of_best, answer=lambda r: r.best_answer),
        compared("posterior", "Posterior", of_own),
        _by_labels("stated", "Stated + labels"),
        _by_labels("posterior", "Posterior + labels"),
        learned("secl", "SECL", lambda r: r.reply.stated),
    ]
    by_name = {score.name: score for score in direct}
    stated, signal = by_name["stated"], by_name["norm_p_true"]
    bases = [by_name[name] for name in ("stated", "norm_p_true", "secl")]
    mapped = [with_labels(base, kind, extra=base is not stated) for base in bases for kind in MAPS]
    mapped += [label_free_map(stated, signal, kind) for kind in MAPS]
    return by_name | {score.name: score for score in (*mapped, constant(stated), constant_with_labels(stated))}


SCORES = make_scores()
"""All scores, with normalised P(True) at tau 1."""


def make_signal(name: str, tau: float = 1.0, formula: Formula = "log", *, paper: bool = False) -> Score:
    """Return the training signal called `name`, which rates the model's own answer.

    With `paper`, self-consistency rates the most frequent sample.

    Raises:
        ParameterError: no training signal has this name.
    """
    signals = {score.name: score for score in make_scores(tau, formula).values() if score.signal}
    if name not in signals:
        raise ParameterError(f"there is no signal {name!r}; the signals are {', '.join(signals)}.")
    greedy = name == "self_consistency" and not paper
    return replace(signals[name], of=self_consistency, answer=own_answer) if greedy else signals[name]
