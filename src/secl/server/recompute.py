"""Verification of a state folder: is it consistent, and do its confidences come out again?

A reply is computed again from its question and the stored adapter version; a text is rated as it is stored. A short
answer that was computed alone, on this machine, must be the same to the last digit. Passes of another shape round
differently.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from secl.errors import ModelError, QuestionError, RunError
from secl.model import Model
from secl.records import Record
from secl.runs import loading
from secl.runs.loading import build_calibrator
from secl.runs.manifest import Manifest, environment
from secl.server.closeness import distance, rounding
from secl.server.entries import Served, Values
from secl.server.store import ServerStore
from secl.server.verify import Finding, examine

Match = Literal["same", "rounding", "differs", "unknown"]
"""How a reply computed again agrees: to the last digit; within rounding; not at all; or unverifiable, because a close
choice between words came out otherwise or texts were not kept."""

NOT_KEPT = "its texts were not kept"
OF_AN_OBJECT = "a field is written with its whole object, which is not written again"


def load_recorded_model(state: ServerStore) -> Model:
    """Load the model that a state folder was begun with. Raises RunError: it has changed since then."""
    settings = Manifest.of(state).to_load()
    model = loading.load_model(settings)
    if model.fingerprint != state.manifest["model"]:
        raise RunError(f"the model {settings.model.name!r} has changed since {state.folder} was begun; bring it back.")
    return model


def environment_changes(state: ServerStore, model: Model) -> list[str]:
    """How machine and libraries differ from when the state was begun, as "torch: 2.8 there, 2.9 here"."""
    then, now = state.manifest["environment"], environment(model)
    changes = [f"{key}: {then[key]} there, {now.get(key, 'another')} here" for key in then if then[key] != now.get(key)]
    starts = sum(event.kind == "start" for event in state.events())
    elsewhere = ["an endpoint answered, which may round otherwise each time"] if now.get("engine") == "openai" else []
    return [*changes, *([f"it changed {starts} times between starts"] if starts else []), *elsewhere]


@dataclass(frozen=True, slots=True)
class Rederived:
    """A reply computed again.

    Attributes:
        difference: largest one of its probabilities; logarithms and entropies count by `NATS`; None if incomparable.
        detail: what differs, or why the reply is unverifiable, in one sentence; empty where it agrees.
    """

    position: int
    version: int
    match: Match
    difference: float | None
    detail: str = ""


def rederive(state: ServerStore, model: Model, served: Served, tolerance: float, *, exact: bool = True) -> Rederived:
    """Compute a reply again with the stored version, which the model takes over; within the tolerance or `exact`."""
    record, version = served.record, served.record.reply.version
    if record.outcome == "field":
        return Rederived(record.position, version, "unknown", None, OF_AN_OBJECT)
    rounds = served.batch > 1 or not exact or record.question.free
    try:
        if version:
            model.load_version(state.weights(version), version)
        else:
            model.reset()
        now = computed(state, model, record)
        # What the untouched weights wrote, any version can rate as it stands.
        written = record.question.free or model.answer_weights == "frozen"
        rated_as_stored = written and not record.question.options and not record.given
        if rounds and now.reply.text != record.reply.text and rated_as_stored:
            now = computed(state, model, record, stored=True)
    except (RunError, ModelError) as problem:
        return Rederived(record.position, version, "differs", None, str(problem))
    difference = distance(now, record)
    if not difference or (rounds and difference <= tolerance):
        return Rederived(record.position, version, "rounding" if difference else "same", difference)
    if rounds and (reason := left_open(now, record, tolerance)):
        return Rederived(record.position, version, "unknown", None, reason)
    another = ", with another answer" if now.reply.text != record.reply.text else ""
    detail = f"asked again, the model states the confidence {now.reply.stated}; stored is {record.reply.stated}"
    detail += f"{another} (largest difference: {difference:.2g})"
    return Rederived(record.position, version, "differs", difference, detail)


def left_open(now: Record, record: Record, tolerance: float) -> str:
    """Why rounding leaves open whether a reply agrees with a record, in one sentence; "" where it does not."""
    if now.reply.text == record.reply.text and distance(replace(now, evidence=record.evidence), record) <= tolerance:
        drawn = [each and each.candidates for each in (now.evidence.candidates, record.evidence.candidates)]
        return "the model draws other answers now; the reply itself agrees" if drawn[0] != drawn[1] else ""
    best, second, *_ = [*sorted(map(math.exp, record.reply.option_log_p), reverse=True), math.inf, 0.0]
    if now.reply.text != record.reply.text and best - second <= 2 * tolerance:
        return "the model gives another letter now, and its best two are closer together than rounding"
    return ""


def computed(state: ServerStore, model: Model, record: Record, *, stored: bool = False) -> Record:
    """A record with what a model says now, asked as by a server; `stored` rates open answers as they stand."""
    calibrator = build_calibrator(Manifest.of(state).settings, model)
    if record.given:
        (rating,) = model.rate_given([record.as_given()], calibrator.plan.rated)
        if isinstance(rating, QuestionError):
            raise rating
        reply = frozen = rating.reply
        candidates = rating.evidence.candidates
    else:
        shared = calibrator.plan.weighed(False)
        text = record.reply.text if stored or record.question.free else None
        model.prefetch([record.question], [shared], weights_fixed=True, written=[text])
        answer = model.answer(record.question, evidence=shared, written=text)
        reply, frozen, candidates = answer.reply, answer.frozen, record.evidence.candidates
        if "candidates" in shared:
            candidates = model.compare_candidates(record.question, reply)
    return replace(record, reply=reply, frozen=frozen, evidence=replace(record.evidence, candidates=candidates))


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of verifying a state folder.

    Attributes:
        examined: number of records that were replayed.
        rederived: replies that were computed again, with the `tolerance` of their probabilities.
        environment: how machine and libraries differ from the server's; the tolerance then holds for all.
        largest: as of `Examination`, and of "confidence".
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
        return {"agrees": not self.findings, **asdict(self), "matches": self.matches}


def choose(state: ServerStore, count: int, position: int | None = None) -> list[Served]:
    """The latest records, or the one at a position (else ParameterError), to compute again; none if unreadable."""
    try:
        return state.latest(count) if position is None else [state.served(position)]
    except RunError:
        return []  # the examination names what is damaged


def verify(state: ServerStore, chosen: Sequence[Served] = (), model: Model | None = None) -> Verification:
    """Examine a state folder, and compute chosen replies again, where there is a model because texts were kept."""
    with state.moment():
        examination, first = examine(state), state.first
    tolerance = rounding(state.manifest["environment"].get("dtype"))
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
