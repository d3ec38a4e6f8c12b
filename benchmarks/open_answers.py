"""Confidences on open answers, beside each other on the same answers of recorded runs.

    secl run --method posterior --set evidence.extra_evidence=samples,p_true --questions QUESTIONS --out RUN
    python -m benchmarks.open_answers RUN [RUN ...]

The posterior is computed anew from the recorded evidence. Prints Markdown: for every score its AUROC (over all
questions, and within domains), PRR, Brier score and ECE, with 95 % intervals of the paired difference to the posterior.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import secl
from benchmarks.study import heading, in_a_sentence, row
from secl.evaluation.measures import measure
from secl.evaluation.posterior import replayed
from secl.evidence import CandidateEvidence, Posterior
from secl.grading import correctness
from secl.grading.same import group
from secl.metrics.bootstrap import paired_differences
from secl.metrics.probability import averaged
from secl.posterior.rule import PosteriorRule
from secl.records import Record
from secl.signals import NormalisedPTrue

COUNTS = (1, 3, 5, 10)
SCALELESS = {"length", "-ln P times disagreement"}
"""Scores that are no probabilities: only their order counts."""


@dataclass(frozen=True)
class Case:
    """An open answer with all that was recorded about it.

    Attributes:
        record: of the run.
        confidence: the posterior's.
        samples: the ten further answers of self-consistency, of which the first are the posterior's own.
        numbers: which of the different answers each sample is, 0 for the answer itself; None for no answer.
    """

    record: Record
    confidence: float
    candidates: CandidateEvidence
    samples: tuple[str | None, ...]
    numbers: Sequence[int | None] = field(init=False)

    def __post_init__(self) -> None:
        _, numbers = group(self.record.question, self.samples, (str(self.record.reply.answer),))
        object.__setattr__(self, "numbers", numbers)

    @classmethod
    def of(cls, record: Record, posterior: Posterior | None) -> Case | None:
        """The case of a record; None without an answer that can be compared with samples, or a grade."""
        candidates, samples = record.evidence.candidates, record.evidence.samples
        if candidates is None or posterior is None or posterior.confidence is None or record.correct is None:
            return None
        record = replace(record, posterior=posterior)
        return cls(record, posterior.confidence, candidates, samples or tuple(each.text for each in candidates.samples))

    @property
    def log_p(self) -> float:
        return self.record.frozen.log_probability

    def agreement(self, count: int) -> float:
        """Smoothed share of the first samples that say what the answer says."""
        return (self.numbers[:count].count(0) + 0.5) / (min(count, len(self.numbers)) + 1)

    def entropy(self, count: int) -> float:
        """Of the classes among the first samples and the answer, in nats; what is no answer is a class of its own."""
        numbers = [0, *self.numbers[:count]]
        shares = [numbers.count(number) / len(numbers) for number in set(numbers)]
        return -sum(share * math.log(share) for share in shares)

    def mass(self) -> float:
        """Probability of all distinct texts seen that say what the answer says."""
        texts = {self.record.reply.text.strip(): self.log_p}
        for each in self.candidates.samples:
            if each.candidate == 0 and each.log_p is not None:
                texts.setdefault(str(each.text), each.log_p)
        return min(1.0, sum(map(math.exp, texts.values())))

    def letters(self) -> float:
        """Probability of the answer's letter, averaged over the orders."""
        return averaged([order.log_p for order in self.candidates.letters])[0]

    def p_true(self) -> float | None:
        asked = self.record.evidence.p_true
        return None if asked is None else asked.probabilities[0]

    def normalised_p_true(self) -> float | None:
        return NormalisedPTrue(1.0, "log")(self.record.question, self.record.reply, self.record.evidence)


Score = Callable[[Case], float | None]


def scores() -> dict[str, Score]:
    """Every score by its title; None where a record lacks it."""
    table: dict[str, Score] = {
        "stated": lambda case: case.record.reply.stated,
        "P(True)": Case.p_true,
        "normalised P(True), listed rivals": Case.normalised_p_true,
        "exp(ln P)": lambda case: math.exp(case.log_p),
        "exp(mean ln P of a token)": lambda case: math.exp(case.log_p / max(1, case.record.frozen.answer_tokens or 1)),
        "length": lambda case: -float(case.record.frozen.answer_tokens or 0),
    }
    for count in COUNTS:
        table[f"agreement of {count}"] = lambda case, count=count: case.agreement(count)  # type: ignore[misc]
    return table | {
        "entropy over classes, 5": lambda case: math.exp(-case.entropy(5)),
        "mass": Case.mass,
        "-ln P times disagreement": lambda case: case.log_p * (1.1 - case.agreement(5)),
        "letters": Case.letters,
        "posterior": lambda case: case.confidence,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.open_answers", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of runs over open questions")
    for folder in parser.parse_args(arguments).runs:
        with secl.Store(folder) as store:
            records = list(store.records())
        posteriors = replayed(PosteriorRule(), records)
        cases = [case for case in map(Case.of, records, posteriors) if case is not None]
        report(folder.name, cases)


def report(name: str, cases: Sequence[Case]) -> None:
    """The table of one run, and what is known beside it."""
    right = [bool(case.record.correct) for case in cases]
    domains = [case.record.question.domain for case in cases]
    base_rate = sum(right) / len(right)
    print(f"\n## {name}: {len(cases)} answers, {base_rate:.1%} right; a constant has a Brier score of", end=" ")
    print(f"{base_rate * (1 - base_rate):.3f}\n")
    print(heading("confidence", "AUROC", "within", "PRR", "Brier", "ECE (floor)"))
    ours = [case.confidence for case in cases]
    for title, score in scores().items():
        values = [score(case) for case in cases]
        if any(value is None for value in values):
            continue
        known = [float(value) for value in values if value is not None]
        print(row(title, *cells(title, known, ours, right, domains)))
    best = [correctness(case.record, case.record.best_answer) for case in cases]
    changed = [case for case in cases if case.record.best_answer != case.record.reply.answer]
    print(f"\nBest answers: {sum(map(bool, best)) / len(best):.1%} right ({len(changed)} differ). ", end="")
    print(f"Passes of the posterior: {passes(cases):.2f}.")


def cells(
    title: str, values: Sequence[float], ours: Sequence[float], right: Sequence[bool], domains: Sequence[str]
) -> tuple[str, ...]:
    """The measures of a score, with intervals of their difference to the posterior's in brackets."""
    if title in SCALELESS:
        low, high = min(values), max(values)
        values = [(value - low) / max(high - low, 1e-9) for value in values]
    known = measure(values, right, domains=domains, resamples=0)
    differences = paired_differences(ours, right, values, right, domains=domains)

    def beside(name: str) -> str:
        interval = differences[name].interval
        return "" if values == ours else f" [{interval.low:+.3f}, {interval.high:+.3f}]"

    level = (
        ("", "")
        if title in SCALELESS
        else (f"{known.brier:.3f}{beside('brier')}", f"{known.ece:.3f} ({known.ece_floor_95:.3f})")
    )
    ranked = (f"{known.auroc:.3f}{beside('auroc')}", f"{known.auroc_within:.3f}", f"{known.prr:.2f}")
    return *ranked, *level


def passes(cases: Sequence[Case]) -> float:
    """Tokens of a posterior over those of a plain answer, without what only the other scores need.

    Its part in what a run drew together with the ten samples is estimated; a run without these tells exactly.
    """
    total = plain = 0.0
    for case in cases:
        ledger, drawn = case.record.ledger, list(case.candidates.samples)
        extra = 0 if case.record.evidence.samples is None else len(case.record.evidence.samples)
        total += ledger.answering + ledger.reordering + ledger.sampling * len(drawn) / (len(drawn) + extra)
        plain += case.record.plain_tokens
    return total / plain


if __name__ == "__main__":
    with in_a_sentence():
        main()
