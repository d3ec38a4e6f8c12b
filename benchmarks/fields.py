"""Confidences of JSON fields: evidence of each document, then measures from the evidence.

    python -m benchmarks.fields collect MODEL FOLDER [--documents 100] [--rich 8] [--template own]
    python -m benchmarks.fields report FOLDER

`collect` writes one JSON line per document to FOLDER, eight documents of each kind in turn, and continues a stopped
collection. A line has the object as `extract` writes it, and ln P and entropy of each token with and without the
schema's mask. The first `--redrawn` documents of each kind have samples of values, which change no confidence. The
first `--rich` documents also have ten sampled objects, and the confidences that the model states for all fields in a
second turn, as a JSON object. Base models need `--template plain`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.document_fields import SCHEMA
from benchmarks.documents import KINDS, Case, cases
from benchmarks.fields_report import OBJECTS, report
from benchmarks.study import collect_or_report
from secl import Message, Question, SeclError
from secl.backends.local.constrained import After, GrammarRow, GrammarWriter
from secl.backends.local.fast.batch import Batch
from secl.backends.local.loading.loader import load
from secl.backends.local.model import LocalModel
from secl.backends.local.objects import ObjectTask, ObjectWriter
from secl.fields.extraction import REQUESTS_AT_ONCE, ObjectRequest, request_of, samples_wanted
from secl.fields.schema import Schema
from secl.fields.values import WrittenObject
from secl.prompts.templates import quoted
from secl.settings.groups import ChatTemplate, ModelSettings

WHOLE = 10
STATED = (
    "How likely is each value to be correct? Reply with a JSON object of the same keys with percentages from 0 to 100."
)


class Collector(ObjectWriter):
    """Writes objects, and records ln P and entropy of each token without the schema's mask.

    Attributes:
        free: for each written object, ln P and entropy of its first token without the mask, then of its second, ...
        whole: for each written object, the sampled objects if `rich`.
    """

    def __init__(self, model: LocalModel) -> None:
        super().__init__(model.backend, model.driver, model.name)
        self.rich = False
        self.free: list[list[float]] = []
        self.whole: list[Sequence[WrittenObject | None]] = []

    def finish(self, batch: Batch, rows: Sequence[GrammarRow], *, keep: bool = False) -> None:
        self.batch = batch
        super().finish(batch, rows, keep=keep)

    def _note(self, rows: Sequence[GrammarRow], tokens: Sequence[int], allowed: torch.Tensor) -> None:
        log_p = self.batch.logits.log_softmax(-1)
        entropies = torch.special.entr(log_p.exp()).sum(-1).tolist()
        for each, token, of_tokens, entropy in zip(rows, tokens, log_p, entropies, strict=True):
            each.notes += [of_tokens[token].item(), entropy]
        super()._note(rows, tokens, allowed)

    def draw(self, after: After, tasks: Sequence[ObjectTask]) -> None:
        self.free += [task.best.notes for task in tasks]
        counts = [task.count for task in tasks]
        for task in tasks:
            task.count = WHOLE * self.rich
        GrammarWriter.draw(self, after, tasks)
        self.whole += [task.samples for task in tasks]
        for task, count in zip(tasks, counts, strict=True):
            task.count = count
        super().draw(after, tasks)

    def window(self, window: Sequence[Case], schema: Schema, *, rich: bool, redrawn: bool) -> list[dict[str, Any]]:
        """Return the evidence of each document of a window; all its documents are of one kind."""
        began = time.monotonic()
        self.rich, self.free, self.whole = rich, [], []
        requests = [request_of(case.text, schema) for case in window]
        found = self.write(requests, samples_wanted if redrawn else lambda *_: 0)
        free, whole, took = self.free, self.whole, time.monotonic() - began
        stated = self._stated(requests, found, schema) if rich else [None] * len(window)
        return [
            {
                "kind": case.kind,
                "number": case.number,
                "seconds": round(took / len(window), 2),
                "redrawn": redrawn,
                "objects": None if isinstance(each, SeclError) else OBJECTS.dump_python(each),
                "free": notes,
                "whole": [None if sample is None else sample.text for sample in samples],
                "stated": percents,
            }
            for case, each, notes, samples, percents in zip(window, found, free, whole, stated, strict=True)
        ]

    def _stated(self, requests: Sequence[ObjectRequest], found: Sequence[Any], schema: Schema) -> list[Any]:
        """Return each object's stated confidences in percent, from a second turn."""
        names = [leaf.name for leaf in schema.leaves]
        percent = {"type": "integer", "minimum": 0, "maximum": 100}
        numbers = Schema.of({"type": "object", "properties": dict.fromkeys(names, percent), "required": names})
        asked = []
        for request, each in zip(requests, found, strict=True):
            first = Message("user", f"{quoted(request.question.context)}\n\n{request.question.text}")
            history = first, Message("assistant", "{}" if isinstance(each, SeclError) else each.greedy.text)
            question = Question(STATED, id=request.question.id, form="text", history=history)
            asked.append(ObjectRequest(question, numbers))
        self.rich, self.free, self.whole = False, [], []
        return [None if isinstance(each, SeclError) else each.greedy.value for each in self.write(asked, lambda *_: 0)]


def collect(model: str, evidence: Path, documents: int, rich: int, redrawn: int, template: ChatTemplate) -> None:
    """Append the evidence of all documents that have none yet in the folder `evidence`."""
    evidence.mkdir(parents=True, exist_ok=True)
    writer = Collector(LocalModel(load(ModelSettings(name=model, chat_template=template))))
    for first in range(0, documents, REQUESTS_AT_ONCE):
        for kind in KINDS:
            path = evidence / f"{kind}-{first:03}.jsonl"
            if path.exists():
                continue
            window = cases(kind, documents)[first : first + REQUESTS_AT_ONCE]
            found = writer.window(window, SCHEMA[kind], rich=first < rich, redrawn=first < redrawn)
            lines = (json.dumps(each, ensure_ascii=False) for each in found)
            short = (json.dumps(json.loads(line, parse_float=_rounded), ensure_ascii=False) for line in lines)
            path.with_suffix(".part").write_text("".join(f"{line}\n" for line in short), encoding="utf-8")
            path.with_suffix(".part").rename(path)
            print(f"{time.strftime('%H:%M:%S')} {path.name}: {found[0]['seconds']} s a document", flush=True)


def _rounded(number: str) -> float:
    return round(float(number), 5)


if __name__ == "__main__":
    collect_or_report(__doc__, collect, report, documents=100, rich=8, redrawn=100, template="own")
