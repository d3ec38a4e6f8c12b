"""Verification of a state folder: is it consistent, and are its confidences reproducible?

A reply is computed again from its question and the stored adapter version. One that was answered alone must be the same
to the last digit. A pass over several questions has another shape, so that sums inside it round differently: asked
alone, such a reply must agree within a tolerance, or else be the same to the last digit once the questions of its pass
are asked together again (rounding can tip a close choice between two words).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from secl.errors import ModelError, RunError
from secl.evidence import CandidateEvidence
from secl.model import Model, ModelAnswer
from secl.records import Record, Reply
from secl.runs import loading
from secl.runs.manifest import Manifest, environment
from secl.runs.runner import build_calibrator
from secl.scoring import given_by
from secl.server.audit.entries import Served
from secl.server.audit.integrity import Finding, examine
from secl.server.audit.store import ServerStore

Match = Literal["same", "close", "together", "differs", "not kept"]
"""How a reply computed again agrees: to the last digit; within the tolerance; to the last digit once asked together
with the questions of its pass; not at all; unknown, because the question's text was not kept."""

ROUNDING = 0.05
"""Largest difference of a confidence or of one of its bins that rounding in bfloat16 or float16 may make."""

ROUNDING_FP32 = 1e-4
"""The same in float32."""


def load_recorded_model(state: ServerStore) -> Model:
    """Load the model that a state folder was begun with.

    Raises:
        RunError: it has changed since then.
    """
    settings = Manifest.of(state).settings
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
        position: of its record.
        version: that answered.
        batch: how many questions were answered in its pass.
        match: how it agrees.
        difference: largest one of the confidence and of its ten bins, when asked alone; None if it was not asked.
        detail: what differs, in one sentence; empty where it agrees.
    """

    position: int
    version: int
    batch: int
    match: Match
    difference: float | None
    detail: str = ""


def load_kept(state: ServerStore, model: Model, version: int) -> None:
    """Bring a model to a kept version, 0 for the untouched one, with an empty optimizer.

    Raises:
        RunError: that version was not kept.
        ModelError: its weights are damaged, or fit another model.
    """
    if version:
        model.load_version(state.weights(version), version)
    else:
        model.reset()


def rounding(dtype: str | None) -> float:
    """How much another shape of the pass may change a confidence, by the precision of the network's body.

    >>> rounding("float32"), rounding("bfloat16")
    (0.0001, 0.05)
    """
    return ROUNDING_FP32 if dtype == "float32" else ROUNDING


def rederive(state: ServerStore, model: Model, served: Served, tolerance: float, *, exact: bool = True) -> Rederived:
    """Compute a reply again from its question and the stored adapter version.

    Args:
        state: where it is stored.
        model: the server's; its adapter is changed to the version that answered.
        served: the record.
        tolerance: for a reply of a pass over several questions, see `rounding`.
        exact: False where the machine or the libraries are others than the server's, so that the tolerance holds for
            every reply.
    """
    record = served.record
    start = (record.position, record.reply.version, served.batch)
    if state.keep_text != "full":
        return Rederived(*start, "not kept", None)
    try:
        load_kept(state, model, record.reply.version)
        alone = _ask(state, model, [record])[0]
    except (RunError, ModelError) as problem:
        return Rederived(*start, "differs", None, str(problem))
    difference = _distance(alone, record)
    if _same(alone, record):
        return Rederived(*start, "same", difference)
    reply = alone.answer.reply
    reworded = reply.text != record.reply.text
    if (served.batch > 1 or not exact) and not reworded and difference <= tolerance:
        return Rederived(*start, "close", difference)
    if served.batch > 1 and _same_together(state, model, served):
        return Rederived(*start, "together", difference)
    detail = (
        "asked again it gives other evidence about the candidates"
        if _same_reply(alone, record)
        else f"asked again it gives confidence {reply.confidence} and not {record.reply.confidence}"
        f"{', with another answer' if reworded else ''} (largest difference of a bin: {difference:.2g})"
    )
    return Rederived(*start, "differs", difference, detail)


def _same_together(state: ServerStore, model: Model, served: Served) -> bool:
    """Whether the questions of its pass, asked together again, bring the same reply to the last digit."""
    position, batch = served.record.position, served.batch
    try:
        near = state.latest(2 * batch - 1, until=position + batch - 1)
    except RunError:
        return False  # a damaged neighbour, which the examination names
    batch_records = [other.record for other in near if other.time == served.time]
    if len(batch_records) != batch:
        return False
    answers = _ask(state, model, batch_records)
    return _same(answers[position - batch_records[0].position], served.record)


class Computed(NamedTuple):
    """What a model says now: its answer, and the evidence that the server gathered in the same pass."""

    answer: ModelAnswer
    candidates: CandidateEvidence | None


def _ask(state: ServerStore, model: Model, records: Sequence[Record]) -> list[Computed]:
    """Answer questions just as a server does: in a pass of the same shape, so with the same evidence."""
    calibrator = build_calibrator(Manifest.of(state).settings, model)
    if records[0].given:  # then all of its pass are
        ratings = model.rate_given([given_by(record) for record in records], calibrator.rated_evidence)
        return [Computed(rating.answer, rating.evidence.candidates) for rating in ratings]
    shared = calibrator.plan.weighed(False)
    model.prefetch([record.question for record in records], [shared] * len(records), weights_fixed=True)
    computed = []
    for record in records:
        answer, candidates = model.answer(record.question, evidence=shared), record.evidence.candidates
        if "candidates" in shared:
            candidates = model.compare_candidates(record.question, answer.reply)
        computed.append(Computed(answer, candidates))
    return computed


def _same(computed: Computed, record: Record) -> bool:
    return _same_reply(computed, record) and computed.candidates == record.evidence.candidates


def _same_reply(computed: Computed, record: Record) -> bool:
    return (computed.answer.reply, computed.answer.frozen) == (record.reply, record.frozen)


def _distance(computed: Computed, record: Record) -> float:
    """Largest difference of a confidence or of one of its bins, adapted or frozen."""

    def apart(now: Reply, then: Reply) -> float:
        pairs = [(now.confidence, then.confidence), *zip(now.bins, then.bins, strict=True)]
        return max(abs(a - b) for a, b in pairs)

    return max(apart(computed.answer.reply, record.reply), apart(computed.answer.frozen, record.frozen))


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of verifying a state folder.

    Attributes:
        examined: how many records the gate was replayed and the tables compared over.
        posteriors: how many of them have a posterior, which was replayed from its evidence.
        rederived: replies that were computed again.
        tolerance: for those of a pass over several questions; None if nothing was computed again.
        environment: how machine and libraries differ from the server's; the tolerance then holds for all.
        findings: what does not agree.
        first: position of the first record that is kept; those before it were pruned.
    """

    examined: int
    posteriors: int
    rederived: tuple[Rederived, ...]
    tolerance: float | None
    environment: tuple[str, ...]
    findings: tuple[Finding, ...]
    first: int

    @property
    def matches(self) -> dict[Match, int]:
        """How many replies agree in which way."""
        return dict(Counter(each.match for each in self.rederived))

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"agrees": not self.findings, **asdict(self), "matches": self.matches}


def choose(state: ServerStore, count: int, position: int | None = None) -> tuple[list[Served], list[Finding]]:
    """The latest records, or the one at a position, to be computed again; where they cannot be read, a finding.

    Raises:
        ParameterError: there is no record at that position.
    """
    try:
        return (state.latest(count) if position is None else [state.served(position)]), []
    except RunError as problem:
        return [], [Finding("confidence", position, f"no answer can be computed again: {problem}")]


def verify(
    state: ServerStore,
    chosen: Sequence[Served] = (),
    model: Model | None = None,
    environment: Sequence[str] = (),
    unread: Sequence[Finding] = (),
) -> Verification:
    """Examine a state folder, and compute chosen replies again.

    Args:
        state: to be verified.
        chosen: records whose replies are computed again.
        model: the server's; needed where any record is chosen and its text was kept.
        environment: how machine and libraries differ from the server's.
        unread: findings of `choose`.
    """
    with state.moment():
        examined, findings = examine(state)
        posteriors, first = next(state.read("SELECT count(*) FROM posteriors"))[0], state.first
    tolerance = rounding(state.manifest["environment"].get("dtype"))
    rederived = []
    for served in chosen:
        if model is None:
            record = served.record
            rederived.append(Rederived(record.position, record.reply.version, served.batch, "not kept", None))
        else:
            rederived.append(rederive(state, model, served, tolerance, exact=not environment))
    wrong = [Finding("confidence", each.position, each.detail) for each in rederived if each.match == "differs"]
    return Verification(
        examined=examined,
        posteriors=posteriors,
        rederived=tuple(rederived),
        tolerance=tolerance if rederived else None,
        environment=tuple(environment),
        findings=(*findings, *unread, *wrong),
        first=first,
    )
