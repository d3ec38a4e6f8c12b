"""Tables from the evidence that `benchmarks.fields` collected: measures of each confidence, and effects of labels."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

import secl
from benchmarks.document_fields import SCHEMA
from benchmarks.documents import KINDS, case_of
from benchmarks.labels import Rated as Answer
from benchmarks.labels import review_label
from benchmarks.study import heading, row
from secl import SeclError
from secl.fields.extraction import ObjectRequest, Objects, field_question, request_of, weigh_objects
from secl.fields.values import WrittenObject, same_value, value_of
from secl.labels.state import LabelState
from secl.metrics.measures import auroc, brier, ece_floor, standard_measures
from secl.metrics.probability import Vector
from secl.metrics.risk_control import estimated, risk_coverage
from secl.posterior.views import VALUE_SLOPE
from secl.testing import ScriptedModel

OBJECTS = TypeAdapter(Objects[WrittenObject])
RESAMPLES = 500
DRAWS = 8


@dataclass(frozen=True)
class Rated:
    """A field of a document, with its confidences by name; some documents lack some confidences."""

    document: tuple[str, int]
    field: str
    correct: bool
    confidences: Mapping[str, float]


@dataclass(frozen=True)
class Recorded:
    """A model that replays recorded objects, by the id of the request."""

    objects: Mapping[str, Objects[WrittenObject]]

    def write_objects(self, requests: Sequence[ObjectRequest], samples: object) -> list[Any]:  # noqa: ARG002
        return [self.objects[request.question.id] for request in requests]


BUILT, ONCE, BY_P = "as built", "the same, each value read once", "P under the mask, odds to the power .6"
"""Confidences of a local model, with and without second readings, and of a server, which reports no entropies with the
mask."""


def read(folder: Path) -> tuple[list[Rated], list[float]]:
    """Return the fields of all recorded documents, and the passes per document."""
    weigh, fields, passes = secl.load(ScriptedModel()).calibrator.weigh, list[Rated](), list[float]()
    for path in sorted(folder.glob("*.jsonl")):
        for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            if line["objects"] is None:
                continue
            case = case_of(line["kind"], line["number"])
            schema, objects = SCHEMA[case.kind], OBJECTS.validate_python(line["objects"])
            request = request_of(case.text, schema)
            once = replace(objects, greedy=replace(objects.greedy, alone={}))
            found, first = (
                next(weigh_objects(Recorded({request.question.id: each}), [request], weigh)) for each in (objects, once)
            )
            if isinstance(found, SeclError):
                raise found
            if isinstance(first, SeclError):
                raise first
            if line.get("redrawn", True):
                passes.append(objects.ledger.total / objects.plain_tokens)
            own = objects.greedy
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
                confidences = {BUILT: found.fields[leaf.name].confidence, ONCE: first.fields[leaf.name].confidence}
                confidences[BY_P] = odds / (1 + odds)
                if leaf.name in objects.greedy.alone:
                    confidences["P as the only field"] = math.exp(objects.greedy.alone[leaf.name])
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
    """Yield a table of measures, with a row for each confidence over all fields that have this confidence."""
    yield heading(
        "confidence of a field", "fields", "AUROC pooled / within", "Brier", "ECE (floor)", "accepted at 2, 5, 10 %"
    )
    for name in dict.fromkeys(name for each in fields for name in each.confidences):
        some = [each for each in fields if name in each.confidences]
        yield row(name, len(some), *measures(*_vectors(some, name), [each.field for each in some]))


def differences(fields: Sequence[Rated], first: str) -> Iterator[str]:
    """Yield a table of differences: Brier score and AUROC of the confidence `first` minus those of every other."""
    yield heading(f"{first}, less", *(f"{kind}: Brier; AUROC" for kind in (*KINDS, "all")))
    for name in dict.fromkeys(name for each in fields for name in each.confidences if name != first):
        cells = []
        for kind in (*KINDS, None):
            some = [each for each in fields if kind in (each.document[0], None) and name in each.confidences]
            differ = (_difference(some, first, name, measure) for measure in (brier, auroc))
            cells.append("; ".join(differ) if some else "")
        yield row(name, *cells)


def _difference(fields: Sequence[Rated], first: str, name: str, measure: Callable[[Vector, Vector], float]) -> str:
    """Return the difference of a measure between two confidences, with a 95 % interval from resampled documents."""
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
    """Yield a table of measures on unlabelled documents, after labels of other documents."""
    yield heading("labelled documents of each kind", "map", "Brier", "AUROC", "mean confidence of fields below 20 %")
    hard = {name for name, right in _accuracy(fields).items() if right < 0.2}
    documents = min(len({each.document for each in fields if each.document[0] == kind}) for kind in KINDS)
    for count in (each for each in (0, 5, 10, 20) if each < documents):
        for title, shifts in (("one map", False), ("a shift for each field", True)):
            found = []
            for seed in range(DRAWS):
                rest = [each for kind in KINDS for each in _mapped(fields, kind, count, seed, shifts=shifts)]
                values, correct = _vectors(rest, BUILT)
                low = [value for each, value in zip(rest, values, strict=True) if each.field in hard]
                found.append((brier(values, correct), auroc(values, correct), float(np.mean(low)) if low else math.nan))
            yield row(count, title, *(f"{value:.3f}" for value in np.mean(found, axis=0)))


def _mapped(fields: Sequence[Rated], kind: str, count: int, seed: int, *, shifts: bool) -> list[Rated]:
    """Return the unlabelled fields of a kind, with confidences mapped by the labels of `count` documents."""
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
        replace(each, confidences={BUILT: state.rate(domain(each), each.confidences[BUILT]).calibrated})
        for each in own
        if each.document[1] not in chosen
    ]


def whole_objects(fields: Sequence[Rated]) -> str:
    """Return a sentence with measures of whole objects; their confidences are products of fields' confidences."""
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
    if passes:
        yield f"{len(passes)} documents, {np.mean(passes):.2f} passes in the mean.\n"
    yield f"Right: {right}.\n"
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
