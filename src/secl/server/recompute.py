"""Verification of a state folder: is it consistent, and do its confidences come out again?

A reply is computed again from its question and the stored adapter version; a text is rated as it is stored. A short
answer that was computed alone, on this machine, must be the same to the last digit. Passes of another shape round
differently.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

from secl.errors import ModelError, QuestionError, RunError
from secl.evidence import CandidateEvidence
from secl.model import Model
from secl.records import Record, Reply
from secl.runs import loading
from secl.runs.loading import build_calibrator
from secl.runs.manifest import Manifest, environment
from secl.server.entries import Served, Values
from secl.server.store import ServerStore
from secl.server.verify import Finding, examine, furthest

NOT_KEPT = "its texts were not kept"
OF_AN_OBJECT = "a field is written with its whole object, which is not written again"

ROUNDING = {"float32": 1e-4, "bfloat16": 0.05, "float16": 0.05}
"""Largest difference of a probability that rounding in a network's body may make, by its precision.

A logit of ten or so goes through dozens of layers, each of which rounds by 2^-24 in float32 (2^-11 in float16, 2^-8 in
bfloat16); added up that is 10 * 100 * 2^-24 = 6e-5 at worst. In 16 bits the worst would be useless; errors that are
independent come to 10 * sqrt(100) * 2^-9 = 0.2 of a logit, and a probability moves by at most a quarter of its logit.
"""

NATS = 20.0
"""How much farther logarithms, by token, and entropies may lie apart than probabilities, which saturate."""


def rounding(dtype: str | None) -> float:
    """How much another shape of the pass, or another processor, may change a probability; if unknown, 16 bits."""
    return ROUNDING.get(dtype or "", ROUNDING["bfloat16"])


def load_recorded_model(state: ServerStore) -> Model:
    """Load the model that a state folder was begun with. Raises RunError: it has changed since then."""
    settings = Manifest.of(state).to_load()
    model = loading.load_model(settings)
    if model.fingerprint != state.manifest["model"]:
        raise RunError(f"the model {settings.model.name!r} has changed since {state.folder} was begun; bring it back.")
    return model


def environment_changes(state: ServerStore, model: Model) -> list[str]:
    """Return the differences of machine and libraries since the state began, as "torch: 2.8 there, 2.9 here"."""
    then, now = state.manifest["environment"], environment(model)
    changes = [f"{key}: {then[key]} there, {now.get(key, 'another')} here" for key in then if then[key] != now.get(key)]
    starts = sum(event.kind == "start" for event in state.events())
    elsewhere = ["an endpoint answered, which may round otherwise each time"] if now.get("engine") == "openai" else []
    return [*changes, *([f"it changed {starts} times between starts"] if starts else []), *elsewhere]


@dataclass(frozen=True, slots=True)
class Rederived:
    """A reply computed again.

    Attributes:
        agrees: None if unverifiable, because a close choice between words came out otherwise or texts were not kept.
        difference: largest one of its probabilities; logarithms and entropies count by `NATS`; None if incomparable.
        detail: what differs, or why the reply is unverifiable, in one sentence; empty if it agrees.
    """

    position: int
    version: int
    agrees: bool | None
    difference: float | None
    detail: str = ""


def rederive(
    state: ServerStore, model: Model | None, served: Served, tolerance: float, *, exact: bool = True
) -> Rederived:
    """Compute a reply again with the stored version, which the model takes over; within the tolerance or `exact`."""
    record, version = served.record, served.record.reply.version
    reply = partial(Rederived, record.position, version)
    if model is None or state.keep_text != "full":
        return reply(None, None, NOT_KEPT)
    if record.outcome == "field":
        return reply(None, None, OF_AN_OBJECT)
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
        return reply(False, None, str(problem))
    difference = distance(now, record)
    if difference <= (tolerance if rounds else 0.0):
        return reply(True, difference)
    if rounds and (reason := left_open(now, record, tolerance)):
        return reply(None, None, reason)
    another = ", with another answer" if now.reply.text != record.reply.text else ""
    detail = f"asked again, the model states the confidence {now.reply.stated}; stored is {record.reply.stated}"
    return reply(False, difference, f"{detail}{another} (largest difference: {difference:.2g})")


def left_open(now: Record, record: Record, tolerance: float) -> str:
    """Return why rounding makes a comparison with a record impossible, in one sentence; "" if it does not."""
    if now.reply.text == record.reply.text and distance(replace(now, evidence=record.evidence), record) <= tolerance:
        drawn = [each and each.candidates for each in (now.evidence.candidates, record.evidence.candidates)]
        return "the model draws other answers now; the reply itself agrees" if drawn[0] != drawn[1] else ""
    best, second, *_ = [*sorted(map(math.exp, record.reply.option_log_p), reverse=True), math.inf, 0.0]
    if now.reply.text != record.reply.text and best - second <= 2 * tolerance:
        return "the model gives another letter now, and its best two are closer together than rounding"
    if now.reply.thought != record.reply.thought:
        return "the model writes another thought now"
    return ""


def computed(state: ServerStore, model: Model, record: Record, *, stored: bool = False) -> Record:
    """Return a record computed again by a model, asked as by a server; `stored` open answers are rated, not written."""
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

    def to_json(self) -> Values:
        return {"agrees": not self.findings, **asdict(self)}


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
    rederived = tuple(rederive(state, model, each, tolerance, exact=not changes) for each in chosen)
    wrong = [Finding("confidence", each.position, each.detail) for each in rederived if each.agrees is False]
    agreeing = [each.difference or 0.0 for each in rederived if each.agrees]
    return Verification(
        examined=examination.count,
        rederived=rederived,
        tolerance=tolerance,
        environment=tuple(changes),
        findings=(*examination.findings, *wrong),
        first=first,
        largest={**examination.largest, "confidence": max(agreeing, default=0.0)},
    )


def distance(now: Record, then: Record) -> float:
    """Largest difference of a probability; logarithms and entropies count by `NATS`; infinity where a word differs."""
    one, other = (
        (_of_reply(each.reply), _of_reply(each.frozen), _of_candidates(each.evidence.candidates))
        for each in (now, then)
    )
    return furthest(one, other)


def _of_reply(reply: Reply) -> tuple[object, ...]:
    log_p = _by_token(reply.log_probability, reply.text)
    options = tuple(map(math.exp, reply.option_log_p))
    said = (reply.text, reply.answer, reply.version)
    return (*said, reply.stated, reply.bins, reply.digit_mass, reply.entropy / NATS, log_p, options)


def _of_candidates(evidence: CandidateEvidence | None) -> tuple[object, ...] | None:
    if evidence is None:
        return None
    letters = [(order.order, tuple(map(math.exp, order.log_p))) for order in evidence.letters]
    likely = [
        None if each is None else (each.given / (NATS * each.tokens), each.alone / (NATS * each.tokens), each.tokens)
        for each in evidence.likelihoods
    ]
    drawn = [(each.text, each.candidate, _by_token(each.log_p, each.text)) for each in evidence.samples]
    return (evidence.candidates, evidence.source, letters, likely, drawn)


def _by_token(log_p: float | None, text: str | None) -> float | None:
    """Return the log-probability of a token of a text, at four bytes a token."""
    return None if log_p is None else log_p / (NATS * max(1, len((text or "").encode()) // 4))
