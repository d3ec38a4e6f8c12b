"""A model that writes texts with facts of known truth, and runs of such texts."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from secl.evidence import Evidence, EvidenceKind
from secl.model import ModelAnswer
from secl.question import Question
from secl.records import Record, Reply
from secl.runs import RunSettings, Store, start_run
from secl.testing import ScriptedModel, unit
from secl.writing import Chunk

POEM = "Write a poem about the sea."


def text_about(asked: str) -> str:
    """Return a paragraph with some facts that depend on the question; a poem has none."""
    if asked == POEM:
        return "the sea is calm and the night is still, and the boats are asleep on the shore\n" * 4
    year, people = 1400 + int(500 * unit(f"y/{asked}")), 1 + int(90 * unit(f"p/{asked}"))
    whole = (
        f"The town was founded in {year} by Francisco Pizarro, and {people} million people live there today. "
        f"Its river is {20 * people} km long and flows through Arequipa. "
        "The people of the valley grow maize and potatoes, which they sell on the markets by the sea."
    )
    return whole if unit(f"l/{asked}") < 0.8 else whole.replace(" by Francisco Pizarro", "")


def probability(asked: str, value: str) -> float:
    """Return the probability with which a value is right: .9, .6 or .3."""
    return (0.9, 0.6, 0.3)[int(3 * unit(f"c/{asked}/{value}"))]


def is_right(asked: str, value: str) -> bool:
    return unit(f"r/{asked}/{value}") < probability(asked, value)


class Writer(ScriptedModel):
    """A model that answers questions of form "text" with `text_about`, and knows how probable its facts are."""

    def answer(
        self, question: Question, *, evidence: Collection[EvidenceKind] = (), written: str | Chunk | None = None
    ) -> ModelAnswer:
        written = text_about(question.text) if question.free and written is None else written
        return super().answer(question, evidence=evidence, written=written)

    def gather(
        self, question: Question, reply: Reply, evidence: Collection[EvidenceKind], *, samples: int = 0
    ) -> Evidence:
        gathered = super().gather(question, reply, evidence, samples=samples)
        text, facts = reply.answer or "", gathered.facts
        if facts is None:
            return gathered
        known = [math.log(probability(question.text, text[fact.start : fact.end])) for fact in facts]
        pairs = zip(facts, known, strict=True)
        return replace(gathered, facts=tuple(replace(fact, log_p=p, value=p) for fact, p in pairs))


def asked_about(number: int) -> str:
    return f"Tell me about town {number}."


def question_file(path: Path, count: int, *, poem: bool = True) -> Path:
    """Write a file with questions of form "text": `count` towns, and a poem in the second row."""
    asked = [asked_about(number) for number in range(count)]
    if poem:
        asked.insert(1, POEM)
    rows = ({"question": text, "form": "text", "domain": "towns", "note": f"row {n}"} for n, text in enumerate(asked))
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def run_of_texts(folder: Path, count: int = 8, *, poem: bool = True, accept: float | None = None) -> Path:
    """Make a run folder of `count` texts with facts and a poem."""
    questions = question_file(folder.parent / f"{folder.name}.jsonl", count, poem=poem)
    settings = RunSettings.of({"stream.questions": str(questions), "loop.accept": accept})
    run = start_run(settings, folder, lambda _: Writer())
    run.proceed()
    run.store.close()
    return folder


def facts_of_run(folder: Path) -> Sequence[Record]:
    with Store(folder) as store:
        return [fact for record in store.records() for fact in record.facts or ()]
