"""Thresholds for accepting answers: the confidence that an accepted answer needs, for a given risk.

A guarantee needs a random sample of answers whose labels are known. Skipped answers of a sample count as wrong, because
reviewers often skip wrong ones. Several samples can exist: the labels of a review, rows with a reference that the user
drew at random, feedback for which a client drew the answers with equal chances, and all answers if each has a
reference. secl uses the largest sample, but ignores feedback if a review exists: secl drew the answers of the review,
but cannot check how a client chose answers.

All other labels are of answers that people chose. They give only an estimate.

secl tests thresholds in the order of the label-free confidences. Labels must not change that order: if the labels that
test a threshold also changed the confidences, up to 99 % of simulated streams would get a false guarantee
(docs/lab/log.md). People see confidences that labels calibrated. The map from one scale to the other is strictly
increasing in each domain (`secl.labels.state`), so each threshold also has a value on the scale that people see.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np

from secl.errors import ParameterError
from secl.grading.rules import grade, reported_correct
from secl.labels.label import Label, LabelKey, LabelSource, since_time, standing, valid
from secl.labels.state import LabelState
from secl.metrics.probability import Vector
from secl.metrics.risk_control import (
    RiskCoverage,
    Scale,
    Threshold,
    check_level,
    estimated,
    fewest_labels,
    guaranteed,
    labels_needed,
    nearest_risk,
    risk_coverage,
    strictest,
)
from secl.metrics.sampling import Flags, Integers, change, selection
from secl.question import NOT_KEPT
from secl.records import Record, answers_in

Doubt = Literal["chosen", "unequal", "partly", "unlike"]
"""Why labels allow no guarantee.

    chosen    people chose the labelled answers, or the choice is unknown
    unequal   the answers were drawn with unequal chances
    partly    the grades are references of some answers, and no person said how these answers were chosen
    unlike    the labelled answers are unlike the others in confidences or domains, so they were not drawn at random
"""


@dataclass(frozen=True, slots=True)
class LabelledSample:
    """Labelled answers, and how they were chosen.

    Attributes:
        verdicts: whether an answer is right, by its key; None for a skipped answer. In the order of the labels.
        doubt: why these labels allow no guarantee; None for a random sample.
        references: whether the verdicts are references, or labels that override them.
        left_out: number of labelled answers outside the sample.
    """

    verdicts: Mapping[LabelKey, bool | None]
    doubt: Doubt | None = None
    references: bool = False
    left_out: int = 0


def sample_of(log: Sequence[Label], references: Mapping[LabelKey, bool], answers: int) -> LabelledSample:
    """Return the sample of labelled answers.

    Args:
        log: labels in order, including corrected and withdrawn ones.
        references: whether an answer is right by its reference, by the answer's key.
        answers: number of all answers.
    """
    labels = {label.key: bool(label.correct) for label in standing(log)}
    entries = drawn(log)
    random: dict[str, dict[LabelKey, bool | None]] = {}
    for source in get_args(LabelSource):
        of_source = [entry for entry in entries if entry.source == source]
        if len({entry.chance for entry in of_source}) == 1:
            random[source] = {entry.key: entry.correct for entry in of_source}
    if 0 < len(references) == answers:
        judged = {key: verdict for each in random.values() for key, verdict in each.items()}
        overriding = {key: verdict for key, verdict in judged.items() if verdict is not None}
        random["all"] = {**references, **overriding}
    if "review" in random:
        random.pop("feedback", None)
    known = {*labels, *references}
    if random:
        used = max(random, key=lambda source: len(random[source]))
        verdicts = random[used]
        return LabelledSample(verdicts, references=used == "all", left_out=len(known - set(verdicts)))
    if labels:
        return LabelledSample(labels, "unequal" if entries else "chosen", left_out=len(known - set(labels)))
    return LabelledSample(references, "partly" if references else None, references=bool(references))


def drawn(log: Iterable[Label]) -> tuple[Label, ...]:
    """Return the valid labels and skips of known chance. Later labels of volunteers change none of them."""
    return valid(entry for entry in log if entry.chance is not None or (entry.correct is None and not entry.skipped))


Basis = Literal["labels", "volunteers", "confidences"]
"""What a threshold rests on: a random sample of labels, labels of answers that people chose, or confidences alone."""

MIN_P_VALUE = 0.01
"""If random samples are as unlike the other answers as the labelled ones in fewer cases, the labels do not count."""

CHANGED = 0.05
"""p-value below which secl reports that old and new labels differ."""


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between old and new labels at equal confidences.

    Attributes:
        time: time of the first new label, in seconds since 1970.
        old, new: number of labels before and from this time.
        old_risk, new_risk: share of wrong answers among these.
        p: probability of so large a difference by chance.
    """

    time: float
    old: int
    new: int
    old_risk: float
    new_risk: float
    p: float


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Answers with their confidences and labels.

    Attributes:
        confidence: label-free, in [0, 1]; nan for an unreadable answer, which is never accepted.
        probability: the same, calibrated by labels.
        scales: from the former to the latter, for each domain with a map of its own; None stands for all others.
        correct: 1 or 0, nan without a label.
        skipped: whether reviewers saw the answer and gave no judgement.
        unit: number of the document or question of the answer; answers of one unit may be right or wrong together.
        basis: origin of the labels.
        references: whether the labels are references, or labels that override them.
        left_out: number of unused labels and references, from outside the sample.
        doubt: why the labels allow no guarantee; None if they do, or if no label exists.
        change: a difference between old and new labels, if the labels show one.
        older: number of labels left out by age.
        misdated: number of these that are too old by their place in the log, but not by their time: a clock was wrong.
        noun: "fact" if all answers are facts of texts, else "answer".
    """

    confidence: Vector
    probability: Vector
    scales: Mapping[str | None, Scale]
    correct: Vector
    skipped: Flags
    unit: Integers
    basis: Basis
    references: bool = False
    left_out: int = 0
    doubt: Doubt | None = None
    change: Change | None = None
    older: int = 0
    misdated: int = 0
    noun: str = "answer"

    @property
    def curve(self) -> RiskCoverage:
        """The risk at each coverage, if skipped answers are wrong."""
        return replace(self, correct=np.where(self.skipped, 0.0, self.correct)).judged_curve

    @property
    def judged_curve(self) -> RiskCoverage:
        """The risk at each coverage, if skipped answers are like the other labelled ones."""
        return risk_coverage(self.confidence, self.correct, self.probability, self.scales, self.unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A threshold for a risk, or the reason why no threshold exists.

    Attributes:
        risk: largest permitted share of wrong answers among accepted answers, in [1e-9, 1).
        certainty: probability that the guarantee holds, in (0, 1).
        basis: what `threshold` rests on.
        anytime: whether the guarantee holds however often the user looks.
        answers, labels, wrong, skipped: number of answers, of labelled answers, of wrong answers among these, and of
            skipped answers. A guarantee counts skipped answers as wrong.
        worth: number of independent labels that the labels, with skipped answers, are worth; lower if several labels
            belong to one document or question.
        threshold: None if no threshold keeps the risk.
        unskipped: the threshold if skipped answers are like the other labelled ones; None without skipped answers.
        fewest: fewest labels for a guarantee, if all labelled answers are right.
        needed: number of labels for a guarantee if further labels are like the present ones; None if secl knows no
            such number, or if the present labels suffice.
        nearest: lowest risk that the labels guarantee, if they do not guarantee `risk`; otherwise None.
        first: the strictest tested threshold, if the labels do not guarantee `risk`; None if the labels are too few
            for a test.
        noun: as in `Answers`.
        units: number of documents, questions or texts that the labelled answers belong to.
    """

    risk: float
    certainty: float
    anytime: bool = False
    basis: Basis
    answers: int
    labels: int
    wrong: int
    skipped: int = 0
    worth: float
    threshold: Threshold | None
    unskipped: Threshold | None = None
    fewest: int
    needed: int | None = None
    nearest: float | None = None
    first: Threshold | None = None
    noun: str = "answer"
    units: int = 0

    @property
    def value(self) -> float | None:
        """Lowest confidence to accept, on the scale of `Record.confidence`; None if no threshold keeps the risk.

        `domains` has the value of each domain with a map of its own.
        """
        return None if self.threshold is None else self.threshold.value

    @property
    def domains(self) -> Mapping[str, float]:
        """Lowest confidence to accept in each domain whose confidences labels move by a map of its own."""
        return {} if self.threshold is None else self.threshold.domains

    def accepts(self, record: Record) -> bool:
        """Return whether the threshold accepts an answer, also if later labels have moved its confidence."""
        limit = None if self.threshold is None else self.threshold.uncalibrated
        return limit is not None and record.answer is not None and record.confidences.uncalibrated >= limit


class Judgement(NamedTuple):
    """Position, domain, confidence and reference grade of an answer, from which `advise` computes a threshold.

    Attributes:
        confidence: label-free, in [0, 1]; nan for an unreadable answer.
        reference: whether the answer is correct by the question's reference; None without a reference.
        document: hash of the passage, document or request that the question is about; None if unknown.
        asked: hash of the whole question; None if its texts were not kept.
        fact: number of a fact in its text; 0 for a whole answer.
    """

    position: int
    domain: str
    confidence: float
    reference: bool | None
    document: int | None = None
    asked: int | None = None
    fact: int = 0

    @property
    def key(self) -> LabelKey:
        return self.position, self.fact


def judgement_of(record: Record) -> Judgement:
    """Return the judgement of a record; `reference` ignores the label of the record."""
    reference = reported_correct(record) if record.label is None else grade(record.question, record.answer)
    confidence = math.nan if record.answer is None else record.confidences.uncalibrated
    document, asked = _texts_of(record)
    domain = record.question.domain
    return Judgement(record.position, domain, confidence, reference, document, asked, record.fact)


def judgements_of(record: Record) -> list[Judgement]:
    """Return the judgement of a record; of a text that is not compared as a whole, those of its facts."""
    return [judgement_of(each) for each in answers_in([record])]


def _texts_of(record: Record) -> tuple[int | None, int | None]:
    """Return hashes of what a question is about and of the question."""
    question = record.question
    if record.kind == "fact":
        return _text_of(record.position), None
    if question.text == NOT_KEPT:
        return None, None
    asked = hash((question.text, question.options, question.context, question.system, question.history))
    if record.kind != "field":
        return hash(question.context) if question.context else None, asked
    # Fields of one object share the context; arguments of one request for tools share the first paragraphs.
    request = question.text.rpartition("\n\n")[0]
    return hash((request, question.context, question.system, question.history)), asked


def _text_of(position: int) -> int:
    """Return what the facts of a text share, because they may be wrong together."""
    return hash((position, "text"))


def answers_of(
    answered: Iterable[Record | Judgement],
    log: Sequence[Label] = (),
    calibration: LabelState | None = None,
    *,
    since: float | None = None,
) -> Answers:
    """Return answers with their labels.

    Args:
        answered: records, or their judgements.
        log: labels in order, including corrected and withdrawn ones.
        calibration: gives the scale that people see; by default the calibration by `log`.
        since: leave out older labels, references, and answers before the first answer with a newer label; in seconds
            since 1970.
    """
    calibration = calibration or LabelState.start().add(log)
    recent = log if since is None else since_time(log, since)
    judged = [part for each in answered for part in ([each] if isinstance(each, Judgement) else judgements_of(each))]
    kept = {each.key for each in judged}
    pruned = [entry for entry in _entries(recent).values() if entry.key not in kept]
    judged += [
        Judgement(
            e.position,
            e.domain,
            e.confidence if e.reported else math.nan,
            None,
            document=_text_of(e.position) if e.fact else None,
            fact=e.fact,
        )
        for e in pruned
    ]
    references = {each.key: each.reference for each in judged if each.reference is not None}
    sample = sample_of(recent, references if since is None else {}, len(judged))
    if since is not None:
        first = min(sample.verdicts, default=(0, 0))
        judged = [each for each in judged if each.key >= first]
    unit = unit_numbers((each.key, each.document, each.asked) for each in judged)
    if sample.doubt is None and _unlike(judged, sample, unit):
        sample = LabelledSample({}, "unlike", left_out=sample.left_out + len(sample.verdicts))
    verdicts = [sample.verdicts.get(each.key, math.nan) for each in judged]
    left = valid(log[: len(log) - len(recent)])
    return Answers(
        confidence=np.array([each.confidence for each in judged]),
        probability=np.array([calibration.calibrated(each.domain, each.confidence) for each in judged]),
        scales=calibration.scales,
        correct=np.array([math.nan if verdict is None else float(verdict) for verdict in verdicts]),
        skipped=np.array([verdict is None for verdict in verdicts], np.bool_),
        unit=unit,
        basis="confidences" if not sample.verdicts else "labels" if sample.doubt is None else "volunteers",
        references=sample.references,
        left_out=sample.left_out,
        doubt=sample.doubt,
        change=_change(judged, sample, unit, recent),
        older=len(valid(log)) - len(valid(recent)),
        misdated=0 if since is None else sum(entry.time >= since for entry in left),
        noun="fact" if judged and all(each.fact for each in judged) else "answer",
    )


def _entries(log: Sequence[Label]) -> dict[LabelKey, Label]:
    """Return the entry that counts for each answer: of the random sample if any, else the last."""
    return {entry.key: entry for entry in (*valid(log), *drawn(log))}


def unit_numbers(answers: Iterable[tuple[LabelKey, int | None, int | None]]) -> Integers:
    """Return the number of each answer's unit: the text of a fact, else its document, else its question, else itself.

    A document that all answers share distinguishes none of them, so it counts neither as a document nor as a question.

    Args:
        answers: key of each answer, and hashes of its document and of its question (`Judgement`).
    """
    keyed = [(key, {"document": document, "asked": asked}) for key, document, asked in answers]
    names = [name for name in ("document", "asked") if len({texts[name] for _, texts in keyed} - {None}) > 1]
    numbers: dict[object, int] = {}
    units = []
    for (position, fact), texts in keyed:
        name = next((name for name in names if texts[name] is not None), "")
        shared = ("text", position) if fact else (name, texts[name] if name else (position, fact))
        units.append(numbers.setdefault(shared, len(numbers)))
    return np.array(units, np.intp)


def units_of(records: Iterable[Record]) -> Integers:
    """Return the number of the unit of each answer (`unit_numbers`)."""
    return unit_numbers((record.key, *_texts_of(record)) for record in records)


def _unlike(judged: Sequence[Judgement], sample: LabelledSample, unit: Integers) -> bool:
    """Return whether the sample differs too much from the other answers for a random sample.

    Answers of one unit are alike, so the test uses one answer of each unit, drawn at random.
    """
    order = np.random.default_rng(0).permutation(unit.size)
    answers = [judged[row] for row in order[np.unique(unit[order], return_index=True)[1]]]
    in_sample = np.array([each.key in sample.verdicts for each in answers], np.bool_)
    confidence = np.nan_to_num(np.array([each.confidence for each in answers]), nan=-1.0)
    _, domain = np.unique(np.array([each.domain for each in answers], np.object_), return_inverse=True)
    return selection(in_sample, confidence, domain) < MIN_P_VALUE


def _change(judged: Sequence[Judgement], sample: LabelledSample, unit: Integers, log: Sequence[Label]) -> Change | None:
    """Return a difference between old and new labels, by one label of each unit, if the labels show a difference."""
    if sample.references:
        return None
    row_of = {each.key: row for row, each in enumerate(judged)}
    labelled = [key for key, verdict in sample.verdicts.items() if verdict is not None]
    rows = np.array([row_of[key] for key in labelled], np.intp)
    confidence = np.array([judged[row].confidence for row in rows])
    first = np.zeros(rows.size, np.bool_)
    first[np.unique(unit[rows], return_index=True)[1]] = True
    used = np.flatnonzero(first & ~np.isnan(confidence))
    correct = np.array([float(bool(sample.verdicts[labelled[place]])) for place in used])
    p, start = change(confidence[used], correct)
    if p >= CHANGED:
        return None
    old, new = correct[:start], correct[start:]
    time = _entries(log)[labelled[used[start]]].time
    return Change(time, len(old), len(new), 1 - float(old.mean()), 1 - float(new.mean()), p)


def advise(answers: Answers, risk: float, certainty: float = 0.9, *, anytime: bool = False) -> Advice:
    """Return the threshold of the largest coverage with at most this risk.

    If the labels guarantee no threshold, the advice has the number of labels that a guarantee needs.

    Args:
        anytime: whether the guarantee is to hold for a user who looks again and again while labels arrive.

    Raises:
        ParameterError: no answers, or a risk or certainty out of range.
    """
    check_level(risk, certainty)
    if not len(answers.confidence):
        raise ParameterError("there are no answers, so there is nothing to accept; ask some questions first.")
    curve, judged, fewest = answers.curve, answers.judged_curve, fewest_labels(risk, certainty, anytime=anytime)
    # If volunteers gave too few labels, the threshold rests on the confidences.
    basis: Basis = "confidences" if answers.basis == "volunteers" and curve.total < fewest else answers.basis
    needed = nearest = first = unskipped = None
    if answers.basis == "labels":
        threshold = guaranteed(curve, risk, certainty, anytime=anytime)
        if answers.skipped.any():
            unskipped = guaranteed(judged, risk, certainty, anytime=anytime)
        if threshold is None:
            needed = labels_needed(curve, risk, certainty, anytime=anytime)
            nearest = nearest_risk(curve, certainty, above=risk, anytime=anytime)
            first = strictest(curve, risk, certainty, anytime=anytime)
    elif basis == "volunteers":
        threshold = estimated(curve, risk, from_labels=True)
    else:
        none = np.zeros(answers.correct.size, np.bool_)
        alone = replace(answers, correct=np.full(none.size, math.nan), skipped=none).curve
        threshold, needed = estimated(alone, risk), labels_needed(alone, risk, certainty, anytime=anytime)
    return Advice(
        risk=risk,
        certainty=certainty,
        anytime=anytime,
        basis=basis,
        answers=curve.answers,
        labels=judged.total,
        wrong=int(judged.wrong[-1]) if judged.wrong.size else 0,
        skipped=curve.total - judged.total,
        worth=curve.total_worth,
        threshold=threshold,
        unskipped=unskipped,
        fewest=fewest,
        needed=needed,
        nearest=nearest,
        first=first,
        noun=answers.noun,
        units=len(np.unique(answers.unit[~np.isnan(answers.correct) | answers.skipped])),
    )
