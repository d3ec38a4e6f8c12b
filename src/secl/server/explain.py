"""Explain a stored confidence from the records of a state folder, in values and in sentences."""

from __future__ import annotations

from dataclasses import replace

from typing_extensions import TypedDict

from secl.display import counted
from secl.evaluation.symptoms import LOW_DIGIT_MASS, Source, source_of
from secl.evidence import Posterior
from secl.gates import GATES
from secl.metrics.probability import bin_index
from secl.prompts.templates import answer_prompt, confidence_prompt, request_for, thinking_prompt
from secl.question import Question
from secl.records import Record, Reply
from secl.reports.acceptance_report import accepted_line
from secl.reports.console import near_labels
from secl.runs.encoding import to_export
from secl.runs.manifest import Manifest
from secl.server.entries import Keep, Served, remark_on
from secl.server.store import ServerStore

LABELS = {
    None: "the answer has no label",
    True: "a person labelled it as right",
    False: "a person labelled it as wrong",
}


class Said(TypedDict):
    """A turn that the model read."""

    role: str
    content: str


class Explained(TypedDict):
    """Explanation of an answer's confidence.

    time: of the answer, in seconds since 1970. batch: number of records that were computed together. label: whether
    people judged the answer right; null while unlabelled. source: source of the label-free confidence. why: sentences
    about confidence, gate, lesson and label. prompt: turns that the model read before the confidence digit, without the
    chat template; null for fields, or if texts are not kept. record: the record, as docs/reference describes it.
    """

    record_id: str
    time: float
    batch: int
    label: bool | None
    source: Source
    why: list[str]
    keep_text: Keep
    prompt: list[Said] | None
    record: dict[str, object]


def explain(state: ServerStore, served: Served) -> Explained:
    """Explain the confidence of a stored answer."""
    record, manifest = served.record, Manifest.of(state)
    settings, prefilled = manifest.settings, manifest.environment.get("short_replies") == "prefilled"
    alongside = settings.paper
    number = _number(record, remark_on(record, settings.plan()))
    known = settings.gate_name in GATES  # a user's own gate is not loaded, because its file may have moved
    threshold: float | None = getattr(settings.build_gate(), "threshold", None) if known else None
    learning: list[str] = []
    prompt: list[Said] | None = None
    if settings.named_method.learns:
        lesson = _lesson(record, settings.loop.bin_gate, state.paused(served.time))
        learning = [f"gate: {_gate(record, threshold)}", f"lesson: {lesson}"]
    if state.keep_text == "full" and record.outcome != "field":
        requested = manifest.environment.get("thoughts") == "requested"
        request = request_for(settings.prompts.thinking) if requested else ""
        turns = conversation(record.question, record.reply, alongside=alongside, prefilled=prefilled, request=request)
        prompt = [Said(role=role, content=text) for role, text in turns]
    return {
        "record_id": served.id,
        "time": served.time,
        "batch": served.batch,
        "label": served.label,
        "source": source_of(record),
        "why": [sentence(each) for each in (*number, *learning, LABELS[served.label]) if each],
        "keep_text": state.keep_text,
        "prompt": prompt,
        "record": to_export(record),
    }


def conversation(
    question: Question, reply: Reply, *, alongside: bool = False, prefilled: bool = True, request: str = ""
) -> tuple[tuple[str, str], ...]:
    r"""Return the conversation whose next token was the confidence digit, as pairs of role and text.

    `alongside`: whether the model writes an open answer and its confidence in one reply. `prefilled`: whether secl
    begins short replies with "Answer:". `request`: sentence that asks the model to think first.

    >>> from secl.records import Reply
    >>> reply = Reply(text="A", answer="A", bins=(0.1,) * 10, digit_mass=1.0, entropy=0.5, log_probability=-0.1)
    >>> conversation(Question("2 + 2?", options=("4", "5")), reply)[-1]
    ('assistant', 'Answer: A\nConfidence: ')
    >>> [conversation(Question("Who?"), reply, prefilled=begun)[1] for begun in (True, False)]
    [('assistant', 'Answer: A'), ('assistant', 'A')]
    >>> from secl.evidence import Thought
    >>> shown, hidden = (replace(reply, thought=Thought(text=text, tokens=5)) for text in ("Hm.", None))
    >>> [conversation(Question("Who?", form="text"), each)[1] for each in (shown, hidden)]
    [('assistant', 'Hm.\n\nA'), ('assistant', 'A')]
    >>> [text for _, text in conversation(Question("Who?", form="text"), shown, request="Think.")][:4]
    ['Who?\n\nThink. Do not reply yet.', 'Hm.', 'Now write your reply.', 'A']
    >>> [conversation(Question("Who?"), each)[1] for each in (shown, hidden)]
    [('assistant', 'Hm.\n\nAnswer: A'), ('assistant', 'Answer: A')]
    """
    read = reply.answer is not None or not question.options
    # The text of a thought is None if the model's server hides thoughts.
    thought = "" if reply.thought is None or reply.thought.text is None else f"{reply.thought.text}\n\n"
    if reply.thought is None:
        begun = answer_prompt(question, alongside=alongside, prefilled=prefilled)
    elif question.free and request:
        begun, thought = thinking_prompt(question, request, reply.thought.text or ""), ""
    else:
        begun = thinking_prompt(question, request, "")
    # The record of an open answer lacks the space between the prefill and the answer.
    text = f" {reply.text}" if begun.prefill and not question.options else reply.text
    begun = replace(begun, prefill=thought + begun.prefill)
    prompt = confidence_prompt(question, text, alongside=alongside, before=begun) if read else begun
    roles = ("user", "assistant")
    system = (("system", question.system),) if question.system else ()
    earlier = tuple((turn.role, turn.text) for turn in question.history)
    ours = ((roles[i % 2], text) for i, text in enumerate((*prompt.turns, prompt.prefill)))
    return (*system, *earlier, *ours)


def _lesson(record: Record, bin_gate: int | None, paused: str | None) -> str:
    """Return the outcome of a lesson and its reason; `paused`: why learning was paused when the model answered."""
    update, signal = record.update, record.signal
    if update is not None and signal is not None:
        rule = "" if bin_gate is None else f", more than {counted(bin_gate, 'bin')} apart"
        return (
            f"the update made version {update.version}: stated confidence {update.before:.3f} "
            f"(bin {bin_index(update.before)}) against the signal {signal:.3f} (bin {bin_index(signal)}){rule}; "
            f"target {update.target:.3f}; stated confidence after the update: {update.after:.3f}"
        )
    signalled = "" if signal is None else f"; the signal was {signal:.3f} (bin {bin_index(signal)})"
    if record.outcome == "trained":
        return f"trained; the record lacks the update or its signal{signalled}"
    reason = {
        "given": "the answer came from elsewhere, and secl learns nothing from such answers",
        "field": "the answer is a field of an object, and secl learns nothing from fields",
        "idle": "the question is outside a burst",
        "waiting": "its lesson is not finished yet",
        "dropped": "too many lessons waited, or learning was paused or rolled back before this lesson was finished",
        "failed": "an error ended its lesson, and the weights did not change",
        "no_signal": "the evidence gave no signal to learn from",
        "agreed": f"stated confidence and signal were at most {counted(bin_gate or 0, 'bin')} apart during the lesson",
    }[record.outcome]
    if record.outcome == "idle" and record.decision.in_burst:
        reason = f"learning was paused: {paused}" if paused is not None else "learning was off, or had failed"
    return f"{record.outcome.replace('_', ' ')}, because {reason}{signalled}"


def weights_in_words(posterior: Posterior) -> str:
    """Return the weights of the views, the reliability of letters, and the number of questions behind it."""
    weights = ", ".join(f"{name} {weight:.3f}" for name, weight in posterior.weights)
    if posterior.reliability is None:
        return weights
    seen = f"from {posterior.questions} questions" if posterior.questions else "by the prior"
    return f"{weights}; reliability of letters {posterior.reliability:.2f} {seen}"


def _number(record: Record, remark: str | None) -> list[str]:
    """Return sentences about the reported confidence: posterior or stated confidence, labels, threshold."""
    mass = record.reply.digit_mass
    little = (
        f"asked for its confidence, the model gave all ten digits together a probability of only {mass:.2f}, so its "
        "stated confidence is unreliable"
    )
    return [
        _weighed(record, record.posterior)
        if record.posterior and source_of(record) == "posterior"
        else _stated(record),
        remark or "",
        little if mass < LOW_DIGIT_MASS else "",
        _labels(record),
        "" if record.accept is None else accepted_line(record.answer, record.confidence, record.accept),
    ]


def _gate(record: Record, threshold: float | None) -> str:
    decision = record.decision
    what = "alarm, a burst begins" if decision.alarm else "inside a burst" if decision.in_burst else "quiet"
    to_come = f", {counted(decision.remaining, 'question')} to come" if decision.in_burst else ""
    if decision.statistic is None:
        return f"{what}{to_come}; the gate made no test"
    against = "" if threshold is None else f" against the threshold {threshold:g}"
    return f"{what}{to_come}; statistic {decision.statistic:.4f}{against}"


def sentence(text: str) -> str:
    """Return a text with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '?', '!')) else '.'}"


def _stated(record: Record) -> str:
    frozen = f"the frozen model states {record.frozen.stated:.4f}"
    learned = frozen if record.reply.version else "the model had learned nothing"
    return (
        f"the model states {record.reply.stated:.4f} (mean of ten digits, weighted by their probabilities); {learned}"
    )


def _weighed(record: Record, posterior: Posterior) -> str:
    count = counted(len(set(posterior.candidates)), "candidate")
    of = "the best candidate" if record.answers_best and posterior.best != posterior.own else "the model's answer"
    views = " and ".join(name for name, weight in posterior.weights if weight > 0) or "no view"
    stated = f"; the model states {record.reply.stated:.4f}" if record.reply.bins else ""
    number = f"{of} has the probability {record.label_free:.4f}{stated}"
    return f"of {count}, compared by {views}, {number}"


def _labels(record: Record) -> str:
    labelled = record.labelled
    if labelled is None:
        return ""
    band = (
        "if the map of labels is a line in logits, the calibrated confidence lies with 90 % probability between "
        f"{labelled.low:.4f} and {labelled.high:.4f}"
    )
    if not labelled.labels:
        return f"no answer had a label yet; {band}"
    changed = labelled.confidence - labelled.label_free
    moved = f"moved the confidence by {changed:+.4f} to {labelled.confidence:.4f}"
    domain = f"{labelled.of_domain} of them in the same domain"
    near = near_labels(labelled)
    return f"{counted(labelled.labels, 'label')}, {domain}, {moved}; {band}{near and '; '}{near}"
