"""Verification of a state folder: is it consistent, and do its confidences come out again?

A reply is computed again from its question and the stored adapter version. A text is rated as it is stored, and not
written anew, so that nothing depends on the limits and draws of the request that it answered. Three outcomes are kept
apart: the reply agrees, to the last digit or within rounding; it contradicts what is stored; or nobody can tell,
because a close choice between two words came out otherwise, or texts were not kept.

A short answer that was computed alone, on this machine, must be the same to the last digit. A pass over several
questions has another shape, and so has reading a text that is written already: sums inside it round differently.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from secl.calibrator import given_by
from secl.errors import ModelError, RunError
from secl.evidence import CandidateEvidence
from secl.model import Model, ModelAnswer
from secl.records import Record
from secl.runs import loading
from secl.runs.manifest import Manifest, environment
from secl.runs.runner import build_calibrator
from secl.server.closeness import compared, furthest, measured, rounding, uncounted
from secl.server.entries import Served, Values
from secl.server.store import ServerStore
from secl.server.verify import Finding, examine

Match = Literal["same", "rounding", "differs", "unknown"]
"""How a reply computed again agrees: to the last digit; within rounding; not at all; or nobody can tell, because a
close choice between words came out otherwise or texts were not kept."""

NOT_KEPT = "its texts were not kept"


def load_recorded_model(state: ServerStore) -> Model:
    """Load the model that a state folder was begun with.

    Raises:
        RunError: it has changed since then.
    """
    settings = Manifest.of(state.store).to_load()
    model = loading.load_model(settings)
    if model.fingerprint != state.store.manifest["model"]:
        raise RunError(f"the model {settings.model.name!r} has changed since {state.folder} was begun; bring it back.")
    return model


def environment_changes(state: ServerStore, model: Model) -> list[str]:
    """How machine and libraries differ from when the state was begun, as "torch: 2.8 there, 2.9 here"."""
    then, now = state.store.manifest["environment"], environment(model)
    changes = [f"{key}: {then[key]} there, {now.get(key, 'another')} here" for key in then if then[key] != now.get(key)]
    starts = sum(event.kind == "start" for event in state.events())
    elsewhere = ["an endpoint answered, which may round otherwise each time"] if now.get("engine") == "openai" else []
    return [*changes, *([f"it changed {starts} times between starts"] if starts else []), *elsewhere]


@dataclass(frozen=True, slots=True)
class Rederived:
    """A reply computed again.

    Attributes:
        version: that answered.
        match: how it agrees.
        difference: largest one of its probabilities; logarithms and entropies count by `NATS`; None where nothing can
            be compared.
        detail: what differs, or why nobody can tell, in one sentence; empty where it agrees.
    """

    position: int
    version: int
    match: Match
    difference: float | None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Computed:
    """What a model says now: its answer, and the evidence that the server gathered in the same pass."""

    answer: ModelAnswer
    candidates: CandidateEvidence | None

    def is_same(self, record: Record) -> bool:
        """Whether replies and evidence are the same to the last digit; how many tokens were counted does not matter."""
        pairs = ((self.answer.reply, record.reply), (self.answer.frozen, record.frozen))
        replies = all(furthest(uncounted(now), uncounted(then)) == 0 for now, then in pairs)
        return replies and furthest(self.candidates, record.evidence.candidates) == 0

    def distance(self, record: Record) -> float:
        """Largest difference of a probability, logarithms and entropies by `NATS`; infinity where a word differs."""
        pairs = ((self.answer.reply, record.reply), (self.answer.frozen, record.frozen))
        replies = max(furthest(measured(now, then), measured(then, then)) for now, then in pairs)
        now, then = self.candidates, record.evidence.candidates
        if now is None or then is None:
            return replies if now is then else math.inf
        return max(replies, furthest(compared(now), compared(then)))

    def unsettled(self, record: Record, tolerance: float) -> str:
        """Why rounding leaves open whether it agrees with a record, in one sentence; "" where it does not."""
        now, then = self.candidates, record.evidence.candidates
        redrawn = now is not None and then is not None and now.candidates != then.candidates
        if redrawn and replace(self, candidates=then).distance(record) <= tolerance:
            return "the model draws other answers now, by a close choice between words; the reply itself agrees"
        letters = record.reply.option_log_p
        if letters and self.answer.reply.text != record.reply.text:
            best, second = sorted(map(math.exp, letters), reverse=True)[:2]
            if best - second <= 2 * tolerance:
                return "the model gives another letter now, and its best two are closer together than rounding"
        return ""


def rederive(state: ServerStore, model: Model, served: Served, tolerance: float, *, exact: bool = True) -> Rederived:
    """Compute a reply again from its question and the stored adapter version, to which the model's adapter is changed.

    Where machine or libraries are others than the server's, `exact` is False: the tolerance holds for all replies then.
    """
    record, version = served.record, served.record.reply.version

    def outcome(match: Match, difference: float | None, detail: str = "") -> Rederived:
        return Rederived(record.position, version, match, difference, detail)

    try:
        if version:
            model.load_version(state.store.weights(version), version)
        else:
            model.reset()
        now = _ask(state, model, [record])[0]
    except (RunError, ModelError) as problem:
        return outcome("differs", None, str(problem))
    if now.is_same(record):
        return outcome("same", now.distance(record))
    rounds = served.batch > 1 or not exact or record.question.free
    if rounds and now.answer.reply.text != record.reply.text and _is_written(model, record):
        now = _ask(state, model, [record], stored=True)[0]
    difference = now.distance(record)
    if rounds and difference <= tolerance:
        return outcome("rounding" if difference else "same", difference)
    if rounds and (reason := now.unsettled(record, tolerance)):
        return outcome("unknown", None, reason)
    reply = now.answer.reply
    if reply == record.reply:
        return outcome(
            "differs", difference, f"asked again it gives other evidence (largest difference: {difference:.2g})"
        )
    another = ", with another answer" if reply.text != record.reply.text else ""
    confidences = f"asked again it gives confidence {reply.stated}, stored is {record.reply.stated}"
    return outcome("differs", difference, f"{confidences}{another} (largest difference: {difference:.2g})")


def _is_written(model: Model, record: Record) -> bool:
    """Whether the answer was written by the untouched weights, so that any version can rate it as it stands."""
    written = record.question.free or model.answer_weights == "frozen"
    return written and not record.question.options and not record.given


def _ask(state: ServerStore, model: Model, records: Sequence[Record], *, stored: bool = False) -> list[Computed]:
    """Answer questions just as a server does: in a pass of the same shape, so with the same evidence.

    Free texts are rated as they are stored; with `stored` all open answers are.
    """
    calibrator = build_calibrator(Manifest.of(state.store).settings, model)
    if records[0].given:  # then all of its pass are
        ratings = model.rate_given([given_by(record) for record in records], calibrator.plan.rated)
        return [Computed(rating.answer, rating.evidence.candidates) for rating in ratings]
    shared = calibrator.plan.weighed(False)
    texts = [record.reply.text if stored or record.question.free else None for record in records]
    questions = [record.question for record in records]
    model.prefetch(questions, [shared] * len(records), weights_fixed=True, written=texts)
    computed = []
    for record, text in zip(records, texts, strict=True):
        answer = model.answer(record.question, evidence=shared, written=text)
        candidates = record.evidence.candidates
        if "candidates" in shared:
            candidates = model.compare_candidates(record.question, answer.reply)
        computed.append(Computed(answer, candidates))
    return computed


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of verifying a state folder.

    Attributes:
        examined: how many records were replayed, and compared with the tables beside them.
        rederived: replies that were computed again, with the `tolerance` of their probabilities.
        environment: how machine and libraries differ from the server's; the tolerance then holds for all.
        findings: what does not agree.
        first: position of the first record that is kept; those before it were pruned.
        largest: for "gate", "posterior", "labels" and "confidence", how far numbers that agree lie apart at most.
    """

    examined: int
    rederived: tuple[Rederived, ...]
    tolerance: float
    environment: tuple[str, ...]
    findings: tuple[Finding, ...]
    first: int
    largest: dict[str, float]

    @property
    def matches(self) -> dict[Match, int]:
        """How many replies agree in which way."""
        return dict(Counter(each.match for each in self.rederived))

    def to_json(self) -> Values:
        """As plain JSON values."""
        return {"agrees": not self.findings, **asdict(self), "matches": self.matches}


def choose(state: ServerStore, count: int, position: int | None = None) -> list[Served]:
    """The latest records, or the one at a position, to be computed again; none where they cannot be read.

    Raises:
        ParameterError: there is no record at that position.
    """
    try:
        return state.latest(count) if position is None else [state.served(position)]
    except RunError:
        return []  # the examination names what is damaged


def verify(state: ServerStore, chosen: Sequence[Served] = (), model: Model | None = None) -> Verification:
    """Examine a state folder, and compute chosen replies again, where there is a model because texts were kept."""
    with state.moment():
        examination, first = examine(state), state.first
    tolerance = rounding(state.store.manifest["environment"].get("dtype"))
    changes = [] if model is None else environment_changes(state, model)
    rederived = tuple(
        Rederived(served.record.position, served.record.reply.version, "unknown", None, NOT_KEPT)
        if model is None or state.keep_text != "full"
        else rederive(state, model, served, tolerance, exact=not changes)
        for served in chosen
    )
    wrong = [Finding("confidence", each.position, each.detail) for each in rederived if each.match == "differs"]
    agreeing = [each.difference or 0.0 for each in rederived if each.match in ("same", "rounding")]
    return Verification(
        examined=examination.count,
        rederived=rederived,
        tolerance=tolerance,
        environment=tuple(changes),
        findings=(*examination.findings, *wrong),
        first=first,
        largest={**examination.largest, "confidence": max(agreeing, default=0.0)},
    )
