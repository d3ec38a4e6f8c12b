"""How many GPU-hours the tables of the paper take, from the tokens of runs over a few questions of its benchmarks.

    STREAM="--benchmarks gsm8k,mmlu,arc,truthfulqa --per-domain 8 --data DIR"
    secl run --method baselines $STREAM --out runs/baselines
    secl run --method secl-paper --gate always $STREAM --out runs/always
    python -m benchmarks.hours --baselines runs/baselines --always runs/always --data DIR [--reached 0.1]

A token costs 2 operations for each parameter of a model; a ledger counts a layer that it skips as nothing, and a
backward pass as two forward ones. What a model's tokens are is taken from the recorded model: others cut texts a
little otherwise, and adapt another share of their layers.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from secl.records import Ledger, Record
from secl.runs.settings import RunSettings
from secl.runs.store import Store
from secl_paper.paper import read_paper
from secl_paper.reproduce import Reproduction
from secl_paper.setup import Setup
from secl_paper.tables import TABLES


@dataclass(frozen=True)
class Tokens:
    """Tokens through the whole network for a question, on average over domains.

    Attributes:
        answer: for the frozen and the adapted reply.
        lesson: for P(True), its distractors and the update, inside a burst.
        baselines: for everything that the method baselines asks.
    """

    answer: float
    lesson: float
    baselines: float

    @classmethod
    def of(cls, baselines: Sequence[Record], always: Sequence[Record]) -> Tokens:
        """Those of records of the method baselines, and of a method that may learn from every question."""
        answer = _mean(always, lambda ledger: ledger.replies)
        lesson = _mean(always, lambda ledger: ledger.scoring + ledger.learning)
        return cls(answer, lesson, _mean(baselines, lambda ledger: ledger.total))

    def spent(self, settings: RunSettings) -> tuple[float, float]:
        """The least and the most tokens of a run: no question of it is in a burst, or all are."""
        questions = sum(int(name.partition(":")[2]) for name in settings.stream.benchmarks)
        if settings.method == "baselines":
            return questions * self.baselines, questions * self.baselines
        everywhere = questions * (self.answer + self.lesson)
        always = settings.gate.name == "always" or settings.complete_loop.evidence_on == "always"
        return (everywhere if always else questions * self.answer), everywhere


def _mean(records: Sequence[Record], part: Callable[[Ledger], float]) -> float:
    """The mean of the means of the domains, which all have as many questions in the paper."""
    domains: defaultdict[str, list[float]] = defaultdict(list)
    for record in records:
        domains[record.question.domain].append(part(record.ledger))
    return fmean(map(fmean, domains.values()))


def hours(tokens: float, parameters: float, speed: float) -> float:
    """Hours of a device that does `speed` operations a second.

    >>> round(hours(1e8, 3.2e9, 3e13), 1)
    5.9
    """
    return 2 * parameters * tokens / speed / 3600


def read(folders: Sequence[Path]) -> list[Record]:
    """The records of runs, finished or not."""
    records: list[Record] = []
    for folder in folders:
        with Store(folder) as store:
            records += store.records()
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baselines", type=Path, nargs="+", required=True, help="runs of the method baselines")
    parser.add_argument("--always", type=Path, nargs="+", required=True, help="runs of secl-paper, always learning")
    parser.add_argument("--data", help="folder with the official benchmark files")
    parser.add_argument("--flops", type=float, default=312e12, help="operations a second that the device is sold with")
    parser.add_argument("--reached", type=float, default=0.1, help="share of them that is reached")
    options = parser.parse_args()
    tokens = Tokens.of(read(options.baselines), read(options.always))
    print(f"tokens a question: {tokens.answer:.0f} to answer, {tokens.lesson:.0f} more in a burst, "
          f"{tokens.baselines:.0f} for the baselines")  # fmt: skip
    sizes = {name: row["LoRA"]["model_parameters"] for name, row in read_paper().tables["lora"].numbers.items()}
    for name, parameters in sizes.items():
        plan = Reproduction.plan(TABLES, Setup.of({"model": name, "data": options.data}), Path("nowhere"))
        spent = [tokens.spent(job.settings) for job in plan.runs]
        least, most = (sum(each) for each in zip(*spent, strict=True))
        low, high = (hours(total, parameters, options.flops * options.reached) for total in (least, most))
        print(f"{name:14} {len(spent)} runs, {least / 1e6:.0f} to {most / 1e6:.0f} million tokens, "
              f"{low:.1f} to {high:.1f} hours, weights {2 * parameters / 2**30:.1f} GiB in bf16")  # fmt: skip


if __name__ == "__main__":
    main()
