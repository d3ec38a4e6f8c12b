"""Confidences of JSON fields: evidence of each document, then measures from the evidence.

    python -m benchmarks.fields collect MODEL FOLDER [--documents 100] [--rich 8]
    python -m benchmarks.fields report FOLDER

`collect` writes one JSON line per document to FOLDER, eight documents of each kind in turn, and continues a stopped
collection. A line has the object as `extract` writes it, and for each of its tokens ln P and entropy without the
schema's mask, too. The first `--redrawn` documents of each kind have values drawn again, which move no confidence. The
first `--rich` documents also have ten whole samples, and the confidences that the model states for the fields as a JSON
object in a second turn.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import TypeAdapter

import secl
from benchmarks.documents import KINDS, Case, case_of, cases, schema_of
from benchmarks.labels import Rated as Answer
from benchmarks.labels import review_label
from benchmarks.study import heading, row
from secl.backends.local.constrained import Drawn, GrammarWriter, Prompts, Row, Task
from secl.backends.local.fast.batch import Batch
from secl.backends.local.model import LocalModel
from secl.backends.local.objects import ObjectWriter
from secl.conversation import Turn
from secl.errors import SeclError
from secl.fields.extraction import (
    WINDOW,
    ObjectRequest,
    Objects,
    field_question,
    request_of,
    samples_wanted,
    weigh_objects,
)
from secl.fields.schema import Schema
from secl.fields.values import OpenedObject, WrittenObject, same_value, value_of
from secl.labels.state import LabelState
from secl.metrics.calibration import brier, ece_floor
from secl.metrics.discrimination import auroc
from secl.metrics.graded import Vector
from secl.metrics.risk_control import estimated, risk_coverage
from secl.metrics.standard import standard_measures
from secl.posterior.open_views import VALUE_SLOPE
from secl.prompts.templates import quoted
from secl.question import Question
from secl.testing import ScriptedModel

OBJECTS = TypeAdapter(Objects[WrittenObject])
SCHEMA = {kind: Schema.of(schema_of(kind)) for kind in KINDS}
RESAMPLES = 500
DRAWS = 8
WHOLE = 10
STATED = (
    "How likely is each value to be correct? Reply with a JSON object of the same keys with percentages from 0 to 100."
)


class Collector(ObjectWriter):
    """Writes objects and notes what the distributions without the mask were.

    Attributes:
        free: of each object so far ln P and entropy of its tokens without the mask, in turn.
        whole: of each object so far the whole samples, if `rich`.
    """

    def __init__(self, model: LocalModel) -> None:
        super().__init__(model.backend, model.asker, model.name)
        self.rich = False
        self.free: list[list[float]] = []
        self.whole: list[Sequence[WrittenObject | None]] = []

    def finish(self, batch: Batch, rows: Sequence[Row], *, keep: bool = False) -> None:
        self.batch = batch
        super().finish(batch, rows, keep=keep)

    def _note(self, rows: Sequence[Row], tokens: Sequence[int], allowed: torch.Tensor) -> None:
        log_p = self.batch.logits.log_softmax(-1)
        entropies = torch.special.entr(log_p.exp()).sum(-1).tolist()
        for each, token, of_tokens, entropy in zip(rows, tokens, log_p, entropies, strict=True):
            each.notes += [of_tokens[token].item(), entropy]
        super()._note(rows, tokens, allowed)

    def drawn(
        self,
        prompts: Prompts,
        tasks: Sequence[Task[ObjectRequest]],
        best: Sequence[Row],
        greedy: Sequence[WrittenObject | None],
        counts: Sequence[int],
    ) -> list[Drawn[WrittenObject]]:
        self.free += [row.notes for row in best]
        wanted = [WHOLE * self.rich] * len(tasks)
        whole = GrammarWriter.drawn(self, prompts, tasks, best, greedy, wanted)
        self.whole += [each.samples for each in whole]
        return super().drawn(prompts, tasks, best, greedy, counts)

    def window(self, window: Sequence[Case], schema: Schema, *, rich: bool, redrawn: bool) -> list[dict[str, Any]]:
        """Return the evidence of some documents of one kind."""
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
        """Return the percentages that the model states in a second turn."""
        names = [leaf.name for leaf in schema.leaves]
        percent = {"type": "integer", "minimum": 0, "maximum": 100}
        numbers = Schema.of({"type": "object", "properties": dict.fromkeys(names, percent), "required": names})
        asked = []
        for request, each in zip(requests, found, strict=True):
            first = Turn("user", f"{quoted(request.question.context)}\n\n{request.question.text}")
            history = first, Turn("assistant", "{}" if isinstance(each, SeclError) else each.greedy.text)
            question = Question(STATED, id=request.question.id, form="text", history=history)
            asked.append(ObjectRequest(question, numbers))
        self.rich, self.free, self.whole = False, [], []
        return [None if isinstance(each, SeclError) else each.greedy.value for each in self.write(asked, lambda *_: 0)]


def collect(model: str, folder: Path, documents: int, rich: int, redrawn: int) -> None:
    """Write the evidence of documents that the folder lacks."""
    folder.mkdir(parents=True, exist_ok=True)
    writer = Collector(LocalModel.load(model))
    for first in range(0, documents, WINDOW):
        for kind in KINDS:
            path = folder / f"{kind}-{first:03}.jsonl"
            if path.exists():
                continue
            window = cases(kind, documents)[first : first + WINDOW]
            found = writer.window(window, SCHEMA[kind], rich=first < rich, redrawn=first < redrawn)
            lines = (json.dumps(each, ensure_ascii=False) for each in found)
            short = (json.dumps(json.loads(line, parse_float=_rounded), ensure_ascii=False) for line in lines)
            path.with_suffix(".part").write_text("".join(f"{line}\n" for line in short), encoding="utf-8")
            path.with_suffix(".part").rename(path)
            print(f"{time.strftime('%H:%M:%S')} {path.name}: {found[0]['seconds']} s a document", flush=True)


def _rounded(number: str) -> float:
    return round(float(number), 5)


@dataclass(frozen=True)
class Rated:
    """A field of a document with its confidences by their names; some documents lack some of them."""

    document: tuple[str, int]
    field: str
    correct: bool
    confidences: Mapping[str, float]


@dataclass(frozen=True)
class Recorded:
    """A model whose objects are recorded, by the id of the request."""

    objects: Mapping[str, Objects[WrittenObject]]

    def write_objects(self, requests: Sequence[ObjectRequest], samples: object) -> list[Any]:  # noqa: ARG002
        return [self.objects[request.question.id] for request in requests]


BUILT, BY_P = "as built", "P under the mask, odds to the power .6"
"""The confidence of a local model, and that of a server, which shows no entropies under the mask."""


def read(folder: Path) -> tuple[list[Rated], list[float]]:
    """Return the fields of all recorded documents, and the passes of each document."""
    weigh, fields, passes = secl.load(ScriptedModel()).calibrator.weigh, list[Rated](), list[float]()
    for path in sorted(folder.glob("*.jsonl")):
        for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            if line["objects"] is None:
                continue
            case = case_of(line["kind"], line["number"])
            schema, objects = SCHEMA[case.kind], OBJECTS.validate_python(line["objects"])
            request = request_of(case.text, schema)
            (found,) = weigh_objects(Recorded({request.question.id: objects}), [request], weigh)
            if isinstance(found, SeclError):
                raise found
            if line.get("redrawn", True):
                passes.append((objects.ledger.answering + objects.ledger.sampling) / objects.plain_tokens)
            own = OpenedObject.of(objects.greedy)
            whole = [None if text is None else json.loads(text) for text in line["whole"]]
            for leaf in schema.leaves:
                value, question = value_of(leaf, own.value), field_question(leaf, request)
                same = partial(same_value, leaf, question, value)
                tokens = [*objects.greedy.tokens(own.place_of(leaf))]
                masked = [objects.greedy.log_p[n] for n in tokens], [objects.greedy.entropy[n] for n in tokens]
                free = [line["free"][2 * n] for n in tokens], [line["free"][2 * n + 1] for n in tokens]
                agreed = [each is not None and same(value_of(leaf, each)) for each in whole]
                p = min(0.99, math.exp(sum(masked[0])))
                odds = (p / (1 - p)) ** VALUE_SLOPE
                confidences = {BUILT: found.fields[leaf.name].confidence, BY_P: odds / (1 + odds)}
                for (log_p, entropy), mask in ((masked, "with the mask"), (free, "without")):
                    confidences[f"exp(ln P), {mask}"] = min(1.0, math.exp(sum(log_p)))
                    confidences[f"lowest token, {mask}"] = min(1.0, math.exp(min(log_p)))
                    confidences[f"exp(-largest entropy), {mask}"] = math.exp(-max(entropy))
                    confidences[f"exp(-sum of entropies), {mask}"] = math.exp(-sum(entropy))
                if line["stated"] is not None:
                    confidences["stated"] = line["stated"][leaf.name] / 100
                for count in (5, 10) if agreed else ():
                    confidences[f"agreement of {count}"] = sum(agreed[:count]) / count
                correct = any(map(same, case.gold[leaf.name]))
                fields.append(Rated((case.kind, case.number), f"{case.kind}/{leaf.name}", correct, confidences))
    return fields, passes


def measures(confidence: Vector, correct: Vector, domains: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return cells: AUROC (pooled / within), Brier, ECE with its floor, shares accepted at 2, 5 and 10 % wrong."""
    found, curve = standard_measures(confidence, correct, domains), risk_coverage(confidence, correct)
    accepted = [estimated(curve, risk, from_labels=True) for risk in (0.02, 0.05, 0.1)]
    within = "" if domains is None else f" / {found['auroc_within']:.3f}"
    return (
        f"{found['auroc']:.3f}{within}",
        f"{found['brier']:.3f}",
        f"{found['ece']:.3f} ({ece_floor(confidence).mean:.3f})",
        ", ".join("0" if each is None else f"{each.coverage:.0%}" for each in accepted),
    )


def table(fields: Sequence[Rated]) -> Iterator[str]:
    """Yield a table with each confidence, over the fields that have it."""
    yield heading(
        "confidence of a field", "fields", "AUROC pooled / within", "Brier", "ECE (floor)", "accepted at 2, 5, 10 %"
    )
    for name in dict.fromkeys(name for each in fields for name in each.confidences):
        some = [each for each in fields if name in each.confidences]
        yield row(name, len(some), *measures(*_vectors(some, name), [each.field for each in some]))


def differences(fields: Sequence[Rated], first: str) -> Iterator[str]:
    """Yield a table of Brier score and AUROC of a confidence less those of each other one, by kind and over all."""
    yield heading(f"{first}, less", *(f"{kind}: Brier; AUROC" for kind in (*KINDS, "all")))
    for name in dict.fromkeys(name for each in fields for name in each.confidences if name != first):
        cells = []
        for kind in (*KINDS, None):
            some = [each for each in fields if kind in (each.document[0], None) and name in each.confidences]
            cells.append("; ".join(_difference(some, first, name, measure) for measure in (brier, auroc)))
        yield row(name, *cells)


def _difference(fields: Sequence[Rated], first: str, name: str, measure: Callable[[Vector, Vector], float]) -> str:
    """Return a difference with its 95 % interval, from resampled documents."""
    (built, correct), (other, _) = _vectors(fields, first), _vectors(fields, name)
    _, document = np.unique(["{}-{}".format(*each.document) for each in fields], return_inverse=True)
    places, drawn = [np.flatnonzero(document == n) for n in range(document.max() + 1)], []
    generator = np.random.default_rng(0)
    for _ in range(RESAMPLES):
        chosen = np.concatenate([places[n] for n in generator.integers(0, len(places), len(places))])
        drawn.append(measure(built[chosen], correct[chosen]) - measure(other[chosen], correct[chosen]))
    low, high = np.percentile(drawn, (2.5, 97.5))
    return f"{measure(built, correct) - measure(other, correct):+.3f} [{low:+.3f}, {high:+.3f}]"


def labelled(fields: Sequence[Rated]) -> Iterator[str]:
    """Yield a table: some documents of each kind are labelled, the others measured."""
    yield heading("labelled documents of each kind", "map", "Brier", "AUROC", "mean confidence of fields below 20 %")
    hard = {name for name, right in _accuracy(fields).items() if right < 0.2}
    for count in (0, 5, 10, 20):
        for title, shifts in (("one map", False), ("a shift for each field", True)):
            found = []
            for seed in range(DRAWS):
                rest = [each for kind in KINDS for each in _mapped(fields, kind, count, seed, shifts=shifts)]
                values, correct = _vectors(rest, BUILT)
                low = [value for each, value in zip(rest, values, strict=True) if each.field in hard]
                found.append((brier(values, correct), auroc(values, correct), float(np.mean(low)) if low else math.nan))
            yield row(count, title, *(f"{value:.3f}" for value in np.mean(found, axis=0)))


def _mapped(fields: Sequence[Rated], kind: str, count: int, seed: int, *, shifts: bool) -> list[Rated]:
    """Return the unlabelled fields of a kind, with the confidences that labels of some documents make of theirs."""
    own = [each for each in fields if each.document[0] == kind]
    numbers = sorted({each.document[1] for each in own})
    chosen = set(np.random.default_rng(seed).permutation(numbers)[:count].tolist())
    domain = (lambda each: each.field) if shifts else (lambda _: "")
    labels = [
        review_label(place, Answer(each.confidences[BUILT], each.correct, domain(each)))
        for place, each in enumerate(own)
        if each.document[1] in chosen
    ]
    state = LabelState.start().add(labels)
    return [
        replace(each, confidences={BUILT: state.rate(domain(each), each.confidences[BUILT]).confidence})
        for each in own
        if each.document[1] not in chosen
    ]


def whole_objects(fields: Sequence[Rated]) -> str:
    """Return a sentence about the objects as wholes, whose confidence is the product of their fields'."""
    objects = [
        [each for each in fields if each.document == name] for name in dict.fromkeys(each.document for each in fields)
    ]
    confidence = np.array([math.prod(each.confidences[BUILT] for each in own) for own in objects])
    correct = np.array([all(each.correct for each in own) for own in objects], float)
    area, score, error, accepted = measures(confidence, correct)
    base = brier(np.full(len(correct), correct.mean()), correct)
    return (
        f"Whole objects: {correct.mean():.1%} of {len(objects)} are right; mean confidence {confidence.mean():.1%}, "
        f"AUROC {area}, Brier {score} (base rate {base:.3f}), ECE (floor) {error}, "
        f"accepted at 2, 5, 10 % wrong {accepted}."
    )


def _accuracy(fields: Sequence[Rated]) -> dict[str, float]:
    names = dict.fromkeys(each.field for each in fields)
    return {name: float(np.mean([each.correct for each in fields if each.field == name])) for name in names}


def _vectors(fields: Sequence[Rated], name: str) -> tuple[Vector, Vector]:
    return np.array([each.confidences[name] for each in fields]), np.array([each.correct for each in fields], float)


def report(folder: Path) -> Iterator[str]:
    """Yield the tables."""
    fields, passes = read(folder)
    right = ", ".join(f"{name} {share:.0%}" for name, share in _accuracy(fields).items())
    yield f"{len(passes)} documents, {np.mean(passes):.2f} passes in the mean. Right: {right}.\n"
    yield from table(fields)
    some = [each for each in fields if "stated" in each.confidences]
    yield f"\nThe {len({each.document for each in some})} documents with whole samples:\n"
    yield from table(some)
    for kind in KINDS:
        own = [each for each in fields if each.document[0] == kind]
        yield f"\n{kind}: {np.mean([each.correct for each in own]):.0%} of fields right\n"
        yield from table(own)
    yield ""
    for name in (BUILT, BY_P):
        yield from differences(fields, name)
        yield ""
    yield from labelled(fields)
    yield f"\n{whole_objects(fields)}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    collecting, reporting = commands.add_parser("collect"), commands.add_parser("report")
    collecting.add_argument("model")
    collecting.add_argument("--documents", type=int, default=100)
    collecting.add_argument("--rich", type=int, default=8)
    collecting.add_argument("--redrawn", type=int, default=100)
    for each in (collecting, reporting):
        each.add_argument("evidence", type=Path)
    given = parser.parse_args(arguments)
    if given.command == "collect":
        collect(given.model, given.evidence, given.documents, given.rich, given.redrawn)
    else:
        print(*report(given.evidence), sep="\n")


if __name__ == "__main__":
    main()
