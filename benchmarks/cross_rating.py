"""One model's answers rated by another one: who knows better which of them are right?

    python -m benchmarks.cross_rating write RUN pairs.jsonl --per-domain 100
    secl score pairs.jsonl --model OTHER --out RATED
    python -m benchmarks.cross_rating compare RUN RATED

RUN is a run over questions with options whose answers were scored with P(True) and compared with the other candidates
(`--gate always --evidence-on always --extra-evidence candidates`); the answers are those of its frozen model. Its
self-rating is weighed along its own stream from as many orders of the options as the other model read.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from secl.evaluation.measures import Measures, measure
from secl.posterior.rule import PosteriorRule
from secl.records import Record
from secl.reports.formatting import span
from secl.runs.store import Store

ALL = "together"
Confidences = dict[str, float]
"""Confidences of one answer, by name."""


def write(run: Path, path: Path, per_domain: int) -> int:
    """Write the answers of a run's frozen model for `secl score`; returns how many."""
    counts: Counter[str] = Counter()
    lines = []
    for record in _records(run):
        question = record.question
        counts[question.domain] += 1
        if counts[question.domain] <= per_domain and question.options:
            row = {"question": question.text, "options": question.options, "reference": question.reference}
            lines.append(
                json.dumps({**row, "domain": question.domain, "id": question.id, "answer": record.frozen.answer})
            )
    path.write_text("\n".join(lines) + "\n")
    return len(lines)


def compare(run: Path, rated: Path) -> dict[str, dict[str, Measures]]:
    """Measures of the confidences that the model itself and the other one have in the same answers, by domain."""
    others = {record.question.id: record for record in _records(rated)}
    first = next(iter(others.values())).evidence.candidates
    orders = 0 if first is None else len(first.letters)
    found: dict[str, list[tuple[bool, Confidences]]] = {}
    for record, posterior in _self_rated(_records(run), orders):
        other = others.get(record.question.id)
        if other is None or record.frozen_correct is None or other.reply.answer != record.frozen.answer:
            continue
        confidences = {"stated by itself": record.frozen.confidence, "its own posterior": posterior}
        confidences |= _p_true("its own P(True)", record) | _p_true("P(True) of the other", other)
        confidences |= {"stated by the other": other.reply.confidence, "posterior of the other": other.label_free}
        for domain in (record.question.domain, ALL):
            found.setdefault(domain, []).append((record.frozen_correct, confidences))
    return {
        domain: {
            name: measure([each[name] for _, each in rows], [correct for correct, _ in rows], resamples=1000)
            for name in sorted(set.intersection(*(set(each) for _, each in rows)))
        }
        for domain, rows in found.items()
    }


def _p_true(name: str, record: Record) -> Confidences:
    """P(True) of the answer of a frozen model, where it was asked for."""
    p_true, question = record.evidence.p_true, record.question
    if p_true is None or record.frozen.answer is None:
        return {}
    by_text = dict(zip(p_true.candidates, p_true.probabilities, strict=True))
    return {name: by_text[question.option(record.frozen.answer)]}


def _self_rated(records: Sequence[Record], orders: int) -> list[tuple[Record, float]]:
    """The posterior of every answer of the frozen model, weighed along the stream."""
    rule = PosteriorRule()
    state, weighed = rule.start(), []
    for record in records:
        evidence = record.evidence
        if evidence.candidates is not None:
            fewer = replace(evidence.candidates, letters=evidence.candidates.letters[:orders])
            evidence = replace(evidence, candidates=fewer)
        state, posterior = rule.step(state, rule.read(record.question, record.frozen, record.frozen, evidence))
        own = None if posterior is None else posterior.confidence
        weighed.append((record, record.frozen.confidence if own is None else own))
    return weighed


def _records(run: Path) -> list[Record]:
    with Store(run) as store:
        return list(store.records())


def table(found: dict[str, dict[str, Measures]]) -> str:
    """The measures as a table in Markdown."""
    lines = ["| answers | right | confidence | AUROC (95 %) | Brier | ECE | mean |", "|---|---|---|---|---|---|---|"]
    for domain, measures in found.items():
        for name, each in measures.items():
            interval = span(None if each.intervals is None else each.intervals.auroc, "{:.2f}".format)
            lines.append(
                f"| {domain}, {each.n} | {each.accuracy:.3f} | {name} | {each.auroc:.2f} ({interval}) "
                f"| {each.brier:.3f} | {each.ece:.3f} | {each.mean_confidence:.2f} |"
            )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cross_rating",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write")
    writing.add_argument("run", type=Path)
    writing.add_argument("path", type=Path)
    writing.add_argument("--per-domain", type=int, default=100)
    comparing = commands.add_parser("compare")
    comparing.add_argument("run", type=Path)
    comparing.add_argument("rated", type=Path)
    options = parser.parse_args(arguments)
    if options.command == "write":
        print(f"{write(options.run, options.path, options.per_domain)} answers in {options.path}")
    else:
        print(table(compare(options.run, options.rated)))


if __name__ == "__main__":
    main()
