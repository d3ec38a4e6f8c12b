"""Verify a state folder: check its consistency, and compute some replies again.

secl computes a short reply again from its question and the stored adapter version. For a free text, secl only rates the
stored text again. If this machine computed a short answer alone, not in a batch, the new reply must agree with the
stored reply to the last digit. In a batch, the network computes larger matrices, which round differently.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from secl.errors import ModelError, QuestionError, RunError
from secl.evidence import CandidateEvidence
from secl.model import Model
from secl.records import Record, Reply
from secl.reports.formatting import counted
from secl.runs import loading
from secl.runs.loading import build_calibrator
from secl.runs.manifest import Manifest, environment
from secl.server.entries import Served
from secl.server.store import ServerStore
from secl.server.verify import Rederived, Verification, examine, furthest

NOT_KEPT = "its texts were not kept"
OF_AN_OBJECT = "it is a field, and secl does not generate objects again"

ROUNDING = {"float32": 1e-4, "bfloat16": 0.05, "float16": 0.05}
"""Largest change of a probability that rounding in a network may cause, by the precision of the network.

Other batch sizes and other processors round differently. For an unknown precision, secl uses the bound of 16 bits.

Derivation: assume a hundred layers, and logits of about 10. The relative rounding error of a layer is 2^-24 in float32,
2^-11 in float16, and 2^-8 in bfloat16. In float32, the errors of a logit add up to at most 10 * 100 * 2^-24 = 6e-5. In
16 bits, this worst case would be useless, so the bound assumes independent errors: 10 * sqrt(100) * 2^-9 = 0.2. A
probability changes by at most a quarter of the error of its logit.
"""

NATS = 20.0
"""Tolerance of entropies and of log-probabilities per token, as a multiple of the tolerance of probabilities.

The factor is large because an error of a logit hardly changes a small probability, but changes its logarithm fully.
"""


def load_recorded_model(state: ServerStore) -> Model:
    """Load the model with which a state folder was created. Raises RunError: the model has changed since then."""
    settings = Manifest.of(state).to_load()
    model = loading.load_model(settings)
    if model.fingerprint != state.manifest["model"]:
        raise RunError(
            f"the model {settings.model.name!r} has changed since {state.folder} was created; restore the model."
        )
    return model


def environment_changes(state: ServerStore, model: Model) -> list[str]:
    """Return changes of machine and libraries since the state was created, such as "torch: 2.8 there, 2.9 here".

    "there" stands for the state folder, "here" for this process.
    """
    then, now = state.manifest["environment"], environment(model)
    changes = [f"{key}: {then[key]} there, {now.get(key, 'another')} here" for key in then if then[key] != now.get(key)]
    starts = sum(event.kind == "start" for event in state.events())
    elsewhere = ["the answers come from an endpoint, whose rounding may vary"] if now.get("engine") == "openai" else []
    started = f"the server started {counted(starts, 'time')} on another machine or with other libraries"
    return [*changes, *([started] if starts else []), *elsewhere]


def rederive(
    state: ServerStore, model: Model | None, served: Served, tolerance: float, *, exact: bool = True
) -> Rederived:
    """Compute a reply again with its stored version, and compare both replies.

    `tolerance`: largest accepted difference between probabilities. If this process has the server's environment
    (`exact`), the tolerance is 0 for a short answer that the server computed alone.
    """
    record, version = served.record, served.record.reply.version
    reply = partial(Rederived, record.position, version)
    if model is None or state.keep_text != "full":
        return reply(None, None, NOT_KEPT)
    if record.outcome == "field":
        return reply(None, None, OF_AN_OBJECT)
    rounds = served.batch > 1 or not exact or record.question.free
    try:
        state.load_version(model, version)
        now = compute_again(state, model, record)
        # If the frozen weights wrote the text and rounding now gives another text, rate the stored text.
        written = record.question.free or model.answer_weights == "frozen"
        rated_as_stored = written and not record.question.options and not record.given
        if rounds and now.reply.text != record.reply.text and rated_as_stored:
            now = compute_again(state, model, record, stored=True)
    except (RunError, ModelError) as problem:
        return reply(False, None, str(problem))
    difference = distance(now, record)
    if difference <= (tolerance if rounds else 0.0):
        return reply(True, difference)
    if rounds and (reason := rounding_reason(now, record, tolerance)):
        return reply(None, None, reason)
    another = "gives another answer and " if now.reply.text != record.reply.text else ""
    detail = f"asked again, the model {another}states {now.reply.stated}; the record has {record.reply.stated}"
    return reply(False, difference, f"{detail} (largest difference: {difference:.2g})")


def rounding_reason(now: Record, record: Record, tolerance: float) -> str:
    """Explain in one sentence how rounding may have caused a difference; "" if rounding cannot have caused it."""
    if now.reply.text == record.reply.text and distance(replace(now, evidence=record.evidence), record) <= tolerance:
        drawn = [each and each.candidates for each in (now.evidence.candidates, record.evidence.candidates)]
        return "the reply agrees, but the model now samples other answers" if drawn[0] != drawn[1] else ""
    best, second, *_ = [*sorted(map(math.exp, record.reply.option_log_p), reverse=True), math.inf, 0.0]
    if now.reply.text != record.reply.text and best - second <= 2 * tolerance:
        return "the model now chooses another letter, and rounding may swap the two most probable letters"
    if now.reply.thought != record.reply.thought:
        return "the model now writes another thought"
    return ""


def compute_again(state: ServerStore, model: Model, record: Record, *, stored: bool = False) -> Record:
    """Compute a record again as a server does. With `stored`, or for a free text, only rate the stored text."""
    calibrator = build_calibrator(Manifest.of(state).settings, model)
    if record.given:
        (rating,) = model.rate_given([record.as_given()], calibrator.plan.rated)
        if isinstance(rating, QuestionError):
            raise rating
        reply = frozen = rating.reply
        candidates = rating.evidence.candidates
    else:
        shared = calibrator.plan.weighed(False)
        text = record.reply.written if stored or record.question.free else None
        model.prefetch([record.question], [shared], weights_fixed=True, written=[text])
        answer = model.answer(record.question, evidence=shared, written=text)
        reply, frozen, candidates = answer.reply, answer.frozen, record.evidence.candidates
        if "candidates" in shared:
            candidates = model.compare_candidates(record.question, reply)
    return replace(record, reply=reply, frozen=frozen, evidence=replace(record.evidence, candidates=candidates))


def choose(state: ServerStore, count: int, record: str | None = None) -> list[Served]:
    """Return the records to compute again; [] if the file is damaged.

    `record`: id or number of the only record to compute; by default, the latest `count` records. Raises ParameterError:
    the record does not exist.
    """
    try:
        return state.latest(count) if record is None else [state.find(record)]
    except RunError:
        return []  # `examine` will report the damage


def verify(state: ServerStore, chosen: Sequence[Served] = (), model: Model | None = None) -> Verification:
    """Examine a state folder, and compute chosen replies again; `model` is None if the server keeps no texts."""
    result = examine(state)
    result.tolerance = ROUNDING.get(state.manifest["environment"].get("dtype"), ROUNDING["bfloat16"])
    result.environment = [] if model is None else environment_changes(state, model)
    exact = not result.environment
    result.rederived = [rederive(state, model, each, result.tolerance, exact=exact) for each in chosen]
    for each in result.rederived:
        if each.agrees is False:
            result.find("confidence", each.position, each.detail)
    agreeing = [each.difference or 0.0 for each in result.rederived if each.agrees]
    result.largest["confidence"] = max(agreeing, default=0.0)
    return result


def distance(now: Record, then: Record) -> float:
    """Return the largest difference between probabilities of two records; infinity if a text differs.

    Differences of entropies and of log-probabilities per token are divided by `NATS` before the comparison.
    """
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
    """Return a text's log-probability per token, divided by `NATS`. Assume four bytes per token."""
    return None if log_p is None else log_p / (NATS * max(1, len((text or "").encode()) // 4))
