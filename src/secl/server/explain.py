"""Explain a stored confidence from the records of a state folder, in values and in sentences."""

from __future__ import annotations

from dataclasses import replace

from typing_extensions import TypedDict

from secl.display import counted
from secl.explain import explain
from secl.gates import GATES
from secl.prompts.templates import answer_prompt, confidence_prompt, request_for, thinking_prompt
from secl.question import Question
from secl.records import ConfidenceSource, Reply
from secl.runs.encoding import to_export
from secl.runs.labelling import labelled
from secl.runs.manifest import Manifest
from secl.server.entries import Keep, Served
from secl.server.store import ServerStore


class PromptMessage(TypedDict):
    """A message that the model read."""

    role: str
    content: str


class Explained(TypedDict):
    """Explanation of an answer's confidence.

    time: of the answer, in seconds since 1970. batch: number of records that were computed together. label: whether
    people judged the answer right; null while unlabelled. fact_labels: the same for facts of a text, by number. source:
    source of the label-free confidence. why: sentences about confidence, gate, lesson and label. prompt: turns that the
    model read before the confidence digit, without the chat template; null for fields, or if texts are not kept.
    record: the record, as docs/reference describes it.
    """

    record_id: str
    time: float
    batch: int
    label: bool | None
    fact_labels: dict[int, bool]
    source: ConfidenceSource
    why: list[str]
    keep_text: Keep
    prompt: list[PromptMessage] | None
    record: dict[str, object]


def explain_served(state: ServerStore, served: Served) -> Explained:
    """Explain the confidence of a stored answer."""
    record, manifest = served.record, Manifest.of(state)
    settings, environment = manifest.settings, manifest.environment
    known = settings.gate_name in GATES  # a user's own gate is not loaded, because its file may have moved
    threshold: float | None = getattr(settings.build_gate(), "threshold", None) if known else None
    of_facts = {fact: correct for fact, correct in state.verdicts(record.position).items() if fact}
    explained = explain(
        labelled(record, of_facts), manifest.plan, threshold=threshold, paused=state.paused(served.time)
    )
    label = "The answer has no label."
    if record.facts and of_facts:
        wrong = list(of_facts.values()).count(False)
        label = f"People labelled {len(of_facts)} of {counted(len(record.facts), 'fact')}, {wrong} of them as wrong."
    elif served.label is not None:
        label = f"A person labelled it as {'right' if served.label else 'wrong'}."
    prompt: list[PromptMessage] | None = None
    if state.keep_text == "full" and record.kind != "field":
        turns = conversation(
            record.question,
            record.reply,
            alongside=settings.paper,
            prefilled=environment.get("short_replies") == "prefilled",
            request=request_for(settings.prompts.thinking) if environment.get("thoughts") == "requested" else "",
        )
        prompt = [PromptMessage(role=role, content=text) for role, text in turns]
    return {
        "record_id": served.id,
        "time": served.time,
        "batch": served.batch,
        "label": served.label,
        "fact_labels": of_facts,
        "source": explained.source,
        "why": [*explained.lines, label],
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
