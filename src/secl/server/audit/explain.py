"""Why an answer got its number, read from the state folder; nothing here needs the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from secl.evaluation.labelled import Source
from secl.labels import LabelRule
from secl.metrics.probability import bin_index
from secl.prompts.templates import answer_prompt, choice_with_confidence, confidence_prompt
from secl.question import Question
from secl.records import Record, Reply
from secl.reports.answers import source_of
from secl.runs.encoding import to_export
from secl.runs.manifest import Manifest
from secl.runs.settings import RunSettings
from secl.server.audit.entries import Served, record_id
from secl.server.audit.labels import Influence, influences
from secl.server.audit.redaction import Keep
from secl.server.audit.store import ServerStore
from secl.server.audit.wording import remark_on


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an answer got its number.

    Attributes:
        served: the record with the circumstances of its reply.
        keep_text: what is stored of texts; without "full" it has no prompt.
        prompt: the conversation whose next token was the confidence digit, as pairs of role and text; written anew
            from the question and the answer, before the model's chat template.
        threshold: of the gate's statistic; None for a gate without.
        stated_bin: of the stated confidence that the bin gate saw when the lesson was held; None without an update.
        signal_bin: of the signal; None without one.
        bin_gate: no update where these are at most so many bins apart; None if the bin gate is off.
        reason: what learning did with the question, in one sentence.
        source: where the reported confidence comes from.
        remark: what one must know to read it, in one sentence; None if there is nothing to say.
        influences: of the labels that moved the confidence, the strongest first.
    """

    served: Served
    keep_text: Keep
    prompt: tuple[tuple[str, str], ...] | None
    threshold: float | None
    stated_bin: int | None
    signal_bin: int | None
    bin_gate: int | None
    reason: str
    source: Source
    remark: str | None
    influences: tuple[Influence, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        served, record = self.served, self.served.record
        turns = None if self.prompt is None else [{"role": role, "content": text} for role, text in self.prompt]
        return {
            "record_id": record_id(record.position),
            "time": served.time,
            "batch": served.batch,
            "feedback": served.correct,
            "keep_text": self.keep_text,
            "prompt": turns,
            **to_export(record),
            "threshold": self.threshold,
            "stated_bin": self.stated_bin,
            "signal_bin": self.signal_bin,
            "bin_gate": self.bin_gate,
            "reason": self.reason,
            "source": self.source,
            "remark": self.remark,
            "influences": [
                {"record_id": record_id(each.position), "correct": each.correct, "moved": each.moved}
                for each in self.influences
            ],
        }


def explain(state: ServerStore, position: int, *, with_labels: bool = True) -> Explanation:
    """Everything known about one answer.

    Args:
        state: of the server.
        position: of the record.
        with_labels: compute which labels moved the confidence; each takes a fit, so many labels take seconds.

    Raises:
        ParameterError: there is no such record.
    """
    served = state.served(position)
    record, settings = served.record, Manifest.of(state).settings
    bin_gate = settings.loop.bin_gate
    alongside = settings.prompts.open_confidence == "alongside"
    return Explanation(
        served=served,
        keep_text=state.keep_text,
        prompt=conversation(record.question, record.reply, alongside=alongside)
        if state.keep_text == "full" and record.rated
        else None,
        threshold=getattr(settings.build_gate(), "threshold", None),
        stated_bin=None if record.update is None else bin_index(record.update.before),
        signal_bin=None if record.signal is None else bin_index(record.signal),
        bin_gate=bin_gate,
        reason=reason(record, bin_gate, paused_at(state, served.time)),
        source=source_of(record),
        remark=remark_on(record, expected=_was_weighed(settings, record)),
        influences=influences(LabelRule(), state.label_log(), record) if with_labels else (),
    )


def _was_weighed(settings: RunSettings, record: Record) -> bool:
    """Whether a posterior was to be computed for a record."""
    wanted = "candidates" in settings.all_evidence
    return record.given or (wanted and (settings.complete_loop.evidence_on == "always" or record.decision.in_burst))


def conversation(question: Question, reply: Reply, *, alongside: bool = False) -> tuple[tuple[str, str], ...]:
    """The conversation whose next token was the confidence digit, as pairs of role and text.

    Args:
        question: as asked.
        reply: as given.
        alongside: whether the confidence in an open answer is asked for in the same reply.

    >>> from secl.records import Reply
    >>> question = Question("2 + 2?", options=("4", "5"))
    >>> uniform = (0.1,) * 10
    >>> reply = Reply(text="A", answer="A", bins=uniform, digit_mass=1.0, entropy=0.5, log_probability=-0.1)
    >>> conversation(question, reply)[-1]
    ('assistant', 'Answer: A\\nConfidence: ')
    """
    if question.options:
        prompt = answer_prompt(question)
        prefill = prompt.prefill + (choice_with_confidence(reply.answer) if reply.answer else "")
    else:
        prompt = confidence_prompt(question, reply.text, alongside=alongside)
        prefill = prompt.prefill
    roles = ("user", "assistant")
    system = (("system", question.system),) if question.system else ()
    earlier = tuple((turn.role, turn.text) for turn in question.history)
    ours = ((roles[i % 2], text) for i, text in enumerate((*prompt.turns, prefill)))
    return (*system, *earlier, *ours)


def paused_at(state: ServerStore, moment: float) -> str | None:
    """Why learning was paused at a moment, in seconds since 1970; None if it was not."""
    change = state.latest_event("pause", "resume", before=moment)
    return change.detail if change is not None and change.kind == "pause" else None


def reason(record: Record, bin_gate: int | None, paused: str | None) -> str:
    """What learning did with a question, and why, in one sentence.

    Args:
        record: of it.
        bin_gate: no update where stated confidence and signal are at most so many bins apart; None if it is off.
        paused: why learning was paused when it was answered; None if it was not.
    """
    update = record.update
    if update is not None:
        return (
            f"it made version {update.version}: stated confidence {update.before:.3f}, target {update.target:.3f}, "
            f"{update.after:.3f} afterwards"
        )
    if record.outcome == "idle" and record.decision.in_burst:
        return f"learning was paused: {paused}" if paused is not None else "learning was off, or had failed"
    return {
        "given": "it was rated for somebody else, and nothing is learned from such answers",
        "idle": "it lies outside the bursts",
        "unrated": "its confidence was not asked for",
        "waiting": "its lesson has not been held yet",
        "dropped": "its lesson was dropped: too many waited, or learning was paused or rolled back before its turn",
        "failed": "its update failed and was taken back",
        "no_signal": "the evidence gave no signal to learn from",
        "agreed": f"stated confidence and signal were at most {bin_gate} bins apart when its lesson was held",
        "trained": "its update is not recorded",
    }[record.outcome]
