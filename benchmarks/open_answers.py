"""Measures of several confidences of the same open answers, from recorded runs.

    python -m benchmarks.open_answers questions capitals,science OUT.jsonl [--data DIR] [--count 100]
    secl run --method posterior --evidence.extra_evidence=samples,p_true --questions OUT.jsonl --out RUN
    python -m benchmarks.open_answers compare RUN [RUN ...]
    python -m benchmarks.open_answers given RUN [RUN ...]

`questions` writes multiple-choice questions that can be asked without their options. `compare` computes the posterior
again from the recorded evidence. It prints AUROC, PRR, Brier score and ECE of every confidence, with 95 % intervals of
the paired difference from the posterior.

`given` takes the first sample of each question, then the second one, as an answer from elsewhere. It compares the
posterior of this answer with and without the model's own answer beside it, and with and without other wordings. It
reads no letters.

Clustered Self-Assessment (arXiv 2606.03846) is the published method closest to the posterior of open answers. It shows
the model its answer, the clusters of its samples and "None of these" as options. The confidence is the probability of
the answer's letter. Here `secl.grading.rules`, not an NLI model, forms the clusters.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import secl
from benchmarks.study import heading, in_a_sentence, row
from secl import Model, Question, Record
from secl.data.benchmarks import load
from secl.evaluation.summary import measure
from secl.evidence import CandidateEvidence, Evidence, Posterior, Sample
from secl.flow.further import compare
from secl.grading.rules import grade, group
from secl.metrics.intervals import paired_differences
from secl.metrics.probability import averaged, softmax
from secl.posterior.rule import PosteriorRule, replayed
from secl.prompts.templates import NONE_OF_THESE, as_choice
from secl.runs.loading import load_model
from secl.runs.manifest import Manifest

LONGEST, WORDS = 220, 5
"""Largest number of characters of a question, and of words of an option."""

_NEEDS_OPTIONS = re.compile(
    r"following|these|below|above|figure|diagram|graph|\btable\b|shown|statement|likely|\bbest\b|except|___"
    r"|which (?:of|one|is|are|will|would|action|activity|change)|true about|example of|option|explains",
    re.IGNORECASE,
)
_ASKS = re.compile(r"\b(?:what|who|when|where|which|how (?:many|much|long|far|old))\b", re.IGNORECASE)
_NO_ANSWER = re.compile(r"of the above|none of|all of|both|neither|\b(?:I|A)\b and", re.IGNORECASE)


def can_be_open(question: Question) -> bool:
    """Return whether a question can be answered without its options, with a name or an amount.

    >>> can_be_open(Question("What is the capital of Peru?", ("Lima", "Cusco"), reference="A"))
    True
    >>> can_be_open(Question("Which of these is a city?", ("Lima", "Peru"), reference="A"))
    False
    """
    text = question.text.strip()
    return (
        text.endswith("?")
        and len(text) <= LONGEST
        and _ASKS.search(text) is not None
        and _NEEDS_OPTIONS.search(text) is None
        and all(len(each.split()) <= WORDS and _NO_ANSWER.search(each) is None for each in question.options)
    )


def write_questions(names: Sequence[str], out: Path, data: Path | None, count: int | None) -> None:
    """Write the questions of benchmarks that can be asked without their options."""
    found = [each for name in names for each in load(name, data=data) if can_be_open(each)]
    random.Random(7).shuffle(found)
    rows = [
        {"id": each.id, "question": each.text, "reference": each.option(str(each.reference)), "domain": each.domain}
        for each in found[:count]
    ]
    out.write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
    print(f"{len(rows)} of {len(found)} questions that can be asked without their options: {out}")


@dataclass(frozen=True)
class Case:
    """An open answer with its recorded evidence.

    Attributes:
        record: the record of the run.
        confidence: the posterior of the answer.
        samples: all sampled answers; the posterior uses the first of them.
        assessed: probability of the answer's letter by Clustered Self-Assessment.
    """

    record: Record
    confidence: float
    candidates: CandidateEvidence
    samples: tuple[str | None, ...]
    assessed: float

    @classmethod
    def of(cls, record: Record, posterior: Posterior | None, model: Model) -> Case | None:
        """Return the case of a record; None if the record has no grade or no posterior."""
        candidates, answer = record.evidence.candidates, record.frozen.answer
        if candidates is None or posterior is None or posterior.own_probability is None or record.correct is None:
            return None
        samples = record.evidence.samples or tuple(each.text for each in candidates.samples)
        assessed = self_assessed(model, record.question, str(answer), samples)
        return cls(record, posterior.own_probability, candidates, samples, assessed)

    @property
    def log_p(self) -> float:
        return self.record.frozen.log_probability

    def agreement(self, count: int) -> float:
        """Return the share of the first `count` samples that mean the same as the answer, smoothed towards 1/2."""
        _, numbers = group(self.record.question, self.samples[:count], (str(self.record.reply.answer),))
        return (numbers.count(0) + 0.5) / (len(numbers) + 1)

    def p_true(self) -> float | None:
        asked = self.record.evidence.p_true
        return None if asked is None else asked.probabilities[0]


def self_assessed(model: Model, question: Question, answer: str, samples: Sequence[str | None]) -> float:
    """Return the probability of the answer's letter; other options are the samples' clusters and "None of these"."""
    clusters, numbers = group(question, samples, (answer,))
    others = sorted(range(1, len(clusters)), key=numbers.count, reverse=True)
    choice = as_choice(question, [answer, *(clusters[number] for number in others)])
    letters = model.answer(choice).reply.option_log_p
    return softmax(letters)[0] if letters else 0.5


SCORES: dict[str, Callable[[Case], float | None]] = {
    "stated": lambda case: case.record.reply.stated,
    "P(True)": Case.p_true,
    "exp(ln P)": lambda case: math.exp(case.log_p),
    "agreement of 3": lambda case: case.agreement(3),
    "agreement of 10": lambda case: case.agreement(10),
    "letters, two orders": lambda case: averaged([order.log_p for order in case.candidates.letters])[0],
    "Clustered Self-Assessment": lambda case: case.assessed,
    "posterior": lambda case: case.confidence,
}
"""Functions that return a confidence, by the confidence's name; None if the record lacks its evidence."""


def report(name: str, cases: Sequence[Case]) -> None:
    """Print the table of the run `name`."""
    right = [bool(case.record.correct) for case in cases]
    domains = [case.record.question.domain for case in cases]
    rate = sum(right) / len(right)
    print(f"\n## {name}: {len(cases)} answers, {rate:.1%} right; Brier score of a constant {rate * (1 - rate):.3f}\n")
    print(heading("confidence", "AUROC", "PRR", "Brier", "ECE (95 % floor)", "mean"))
    ours = [case.confidence for case in cases]
    for title, score in SCORES.items():
        values = [value for case in cases if (value := score(case)) is not None]
        if len(values) < len(cases):
            continue
        known = measure(values, right, domains=domains, resamples=0)
        differences = paired_differences(ours, right, values, right, domains=domains)
        auroc, brier = (
            "" if title == "posterior" else f" [{each.low:+.3f}, {each.high:+.3f}]"
            for each in (differences[name].interval for name in ("auroc", "brier"))
        )
        cells = f"{known.auroc:.3f}{auroc}", f"{known.prr:.2f}", f"{known.brier:.3f}{brier}"
        print(row(title, *cells, f"{known.ece:.3f} ({known.ece_floor_95:.3f})", f"{sum(values) / len(values):.2f}"))


def rated(record: Record, number: int, *, own: bool, wordings: bool) -> Record | None:
    """Return the record of a sample as a given answer; None if the sample is unreadable or its ln P is unknown.

    Args:
        own: whether the model's own answer is compared with it, in place of the last other sample.
        wordings: whether texts with the same meaning count for its likelihood.
    """
    found, question, reply = record.evidence.candidates, record.question, record.frozen
    drawn = [] if found is None else [*found.samples]
    if number >= len(drawn) or (given := drawn.pop(number)).text is None or given.log_p is None or not reply.answer:
        return None
    if own:
        drawn = [Sample(text=reply.answer, candidate=None, log_p=reply.log_probability, own=True), *drawn[:-1]]
    compared = compare(question, given.text, drawn)
    if not wordings:
        drawn = [each if each.candidate else replace(each, log_p=None) for each in compared.samples]
        compared = replace(compared, samples=tuple(drawn))
    names = (*compared.candidates, NONE_OF_THESE)
    return replace(
        record,
        reply=replace(reply, text=given.text, answer=given.text, log_probability=given.log_p),
        learning=None,
        evidence=Evidence(candidates=replace(compared, candidates=names, likelihoods=(None,) * len(names))),
        correct=grade(question, given.text),
    )


def report_given(name: str, records: Sequence[Record]) -> None:
    """Print, for the first and for the second sample, the measures of its posterior as a given answer."""
    for number in (0, 1):
        before: list[float] = []
        for title, parts in (
            ("its wording, and samples", {"own": False, "wordings": False}),
            ("all wordings, and samples", {"own": False, "wordings": True}),
            ("all wordings, own answer and samples", {"own": True, "wordings": True}),
        ):
            cases = [case for each in records if (case := rated(each, number, **parts)) is not None]
            right = [bool(case.correct) for case in cases]
            values = [each.own_probability or 0.0 for each in replayed(PosteriorRule(), cases) if each is not None]
            if not before:
                before = values
                print(f"\n## {name}, sample {number}: {len(cases)} answers, {sum(right)} right\n")
                print(heading("posterior", "AUROC", "Brier", "ECE (95 % floor)", "mean"))
            known, differences = measure(values, right, resamples=0), paired_differences(before, right, values, right)
            auroc, brier = (
                f" [{each.low:+.3f}, {each.high:+.3f}]" if values is not before else ""
                for each in (differences[measured].interval for measured in ("auroc", "brier"))
            )
            cells = f"{known.auroc:.3f}{auroc}", f"{known.brier:.3f}{brier}"
            print(row(title, *cells, f"{known.ece:.3f} ({known.ece_floor_95:.3f})", f"{sum(values) / len(values):.2f}"))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.open_answers", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    questions = commands.add_parser("questions")
    questions.add_argument("benchmarks", help="names, with commas between them")
    questions.add_argument("out", type=Path)
    questions.add_argument("--data", type=Path, help="folder with the official files")
    questions.add_argument("--count", type=int, help="questions, drawn from all that can be asked so")
    compared = commands.add_parser("compare")
    given = commands.add_parser("given")
    for each in (compared, given):
        each.add_argument("runs", nargs="+", type=Path, help="folders of runs over open questions")
    chosen = parser.parse_args(arguments)
    if chosen.command == "questions":
        write_questions(chosen.benchmarks.split(","), chosen.out, chosen.data, chosen.count)
        return
    for folder in chosen.runs:
        with secl.runs.Store(folder) as store:
            records, manifest = list(store.records()), Manifest.of(store)
        if chosen.command == "given":
            report_given(folder.name, records)
            continue
        model = load_model(manifest.to_load())
        cases = map(Case.of, records, replayed(PosteriorRule(), records), [model] * len(records))
        report(folder.name, [case for case in cases if case is not None])
        model.close()


if __name__ == "__main__":
    with in_a_sentence():
        main()
