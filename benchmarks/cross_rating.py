"""One model's answers rated by another one: who knows better which of them are right?

    python -m benchmarks.cross_rating compare RUN OTHER

RUN and OTHER are runs of two models over the same questions with options, whose candidates were compared and whose
P(True) was asked (`--set loop.evidence_on=always --set evidence.extra_evidence=candidates`, or the method
posterior). Neither depends on who
answered, so OTHER's rating of RUN's answers can be read off it; but for the confidence that OTHER states, for which it
has to be given the answers:

    python -m benchmarks.cross_rating write RUN answers.jsonl --per-domain 100
    secl score answers.jsonl --model OTHER --out RATED
    python -m benchmarks.cross_rating compare RUN RATED

Answers are those of the frozen model; posteriors are weighed along each run's own stream.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
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


def compare(run: Path, other: Path) -> dict[str, dict[str, Measures]]:
    """Measures of the confidences that a model itself and another one have in its answers, by domain."""
    own, others = _records(run), {view.record.question.id: view for view in _views(_records(other))}
    found: dict[str, list[tuple[bool, Confidences]]] = {}
    for view in _views(own):
        record, rater = view.record, others.get(view.record.question.id)
        answer, correct = record.frozen.answer, record.frozen_correct
        if rater is None or answer is None or correct is None:
            continue
        confidences = {f"itself, {name}": each for name, each in view.of(answer).items()}
        confidences |= {f"the other, {name}": each for name, each in rater.of(answer).items()}
        for domain in (record.question.domain, ALL):
            found.setdefault(domain, []).append((correct, confidences))
    return {
        domain: {
            name: measure([each[name] for _, each in rows], [correct for correct, _ in rows])
            for name in sorted(set.intersection(*(set(each) for _, each in rows)))
        }
        for domain, rows in sorted(found.items(), key=lambda item: item[0] == ALL)
    }


@dataclass(frozen=True)
class View:
    """What a model thinks of the options of a question, whoever answers it."""

    record: Record
    posterior: tuple[float, ...]

    def of(self, letter: str) -> Confidences:
        """Its confidences in an option."""
        question, p_true = self.record.question, self.record.evidence.p_true
        found = {"posterior": self.posterior[question.letters.index(letter)]}
        if self.record.frozen.answer == letter:  # a model states its confidence in one answer only
            found["stated"] = self.record.frozen.confidence
        if p_true is not None and question.option(letter) in p_true.candidates:
            found["P(True)"] = p_true.probabilities[p_true.candidates.index(question.option(letter))]
        return found


def _views(records: Sequence[Record]) -> list[View]:
    """What a run says about the options of each question; the posterior is weighed along its stream."""
    rule = PosteriorRule()
    state, views = rule.start(), []
    for record in records:
        state, posterior = rule.step(state, rule.read(record.question, record.frozen, record.frozen, record.evidence))
        if posterior is not None:
            views.append(View(record, posterior.probabilities))
    return views


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
    comparing.add_argument("other", type=Path)
    options = parser.parse_args(arguments)
    if options.command == "write":
        print(f"{write(options.run, options.path, options.per_domain)} answers in {options.path}")
    else:
        print(table(compare(options.run, options.other)))


if __name__ == "__main__":
    main()
