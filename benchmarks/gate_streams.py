"""Gates over recorded streams, with and without borders between domains; no model is needed.

    secl run --model smollm2 --benchmarks mmlu,arc,truthfulqa --per-domain 300 --method norm_p_true --out RUN
    python -m benchmarks.gate_streams RUN

Every gate is replayed over the run's entropies and gaps in three ways: as recorded; in `ROUNDS` streams whose questions
are mixed inside their domains, so that the borders stay; and in as many that are mixed altogether, where every alarm is
a false one. Nothing learns in between, and the alarm that opens the stream is not counted. `GapShift` probes other
questions in every round.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path

from secl.errors import ParameterError
from secl.gates import EntropyShift, GapShift, Gate, PageHinkley, gap_of, replay
from secl.runs.store import Store

ROUNDS = 100

GATES: dict[str, Callable[[int], Gate]] = {
    "entropy-shift": lambda _: EntropyShift(),
    "page-hinkley": lambda _: PageHinkley(),
    "page-hinkley, mean restarted": lambda _: PageHinkley(restart="all"),
    "page-hinkley, mean restarted, bursts skipped": lambda _: PageHinkley(restart="all", in_bursts="skipped"),
    "page-hinkley, plain mean": lambda _: PageHinkley(mean="cumulative"),
    "page-hinkley, plain mean, restarted": lambda _: PageHinkley(mean="cumulative", restart="all"),
    "page-hinkley, as printed": lambda _: PageHinkley(equation="printed", restart="all"),
    "page-hinkley, smoothed": lambda _: PageHinkley(equation="smoothed", restart="all"),
    "gap-shift": lambda seed: GapShift(seed=seed),
    "gap-shift, all probed": lambda seed: GapShift(seed=seed, probe_rate=1.0),
}


@dataclass(frozen=True)
class Seen:
    """What gates see of one question: entropy in nats, gap (None if unknown); and its domain, which they do not see."""

    entropy: float
    gap: float | None
    domain: str


@dataclass(frozen=True)
class Row:
    """One gate over one run.

    Attributes:
        recorded: positions of its alarms in the recorded order.
        found: for each border, the share of bordered streams with an alarm in the domain behind it.
        delays: for each border, the median of questions from it to the first alarm; nan if there is none.
        inside: alarms in the first domain, before any border, per 1,000 of its questions.
        false: alarms per 1,000 questions of streams without borders.
    """

    recorded: list[int]
    found: list[float]
    delays: list[float]
    inside: float
    false: float


def compare(stream: Sequence[Seen], make: Callable[[int], Gate], rounds: int = ROUNDS) -> Row:
    """Replay a gate, made from the number of a round, over a stream and over streams mixed from it."""
    domains = blocks(stream)
    starts = [sum(map(len, domains[:k])) for k in range(len(domains) + 1)]
    bordered, mixed = [], []
    for number in range(rounds):
        chance = random.Random(number)
        inside = [each for domain in domains for each in chance.sample(domain, len(domain))]
        bordered.append(alarms(make(number), inside))
        mixed.append(alarms(make(number), chance.sample(stream, len(stream))))
    delays = [
        [next((at - first for at in found if first <= at < last), None) for found in bordered]
        for first, last in pairwise(starts[1:])
    ]
    known = [[delay for delay in border if delay is not None] for border in delays]
    early = sum(at < starts[1] for found in bordered for at in found)
    return Row(
        recorded=alarms(make(42), stream),
        found=[len(border) / rounds for border in known],
        delays=[statistics.median(border) if border else float("nan") for border in known],
        inside=1000 * early / (rounds * starts[1]),
        false=1000 * sum(map(len, mixed)) / (rounds * len(stream)),
    )


def blocks(stream: Sequence[Seen]) -> list[list[Seen]]:
    """The domains of a stream one after the other; all of it as one where domains come back, as if they were mixed."""
    found = [list(seen) for _, seen in groupby(stream, key=lambda each: each.domain)]
    return found if len(found) == len({each.domain for each in stream}) else [list(stream)]


def alarms(gate: Gate, stream: Sequence[Seen]) -> list[int]:
    """Where a gate fires, but for the stream's opening."""
    decisions = replay(gate, [seen.entropy for seen in stream], [seen.gap for seen in stream])
    return [position for position, decision in enumerate(decisions) if decision.alarm and position]


def read(folder: Path) -> list[Seen]:
    """What gates saw, or would have seen, of a run.

    Raises:
        ParameterError: it has no signal outside bursts.
    """
    with Store(folder) as store:
        records = list(store.records())
    if sum(record.signal is None for record in records) > len(records) / 2:
        raise ParameterError(f"most questions of {folder} have no signal; record it with --method norm_p_true.")
    return [Seen(record.reply.entropy, gap_of(record), record.question.domain) for record in records]


def table(stream: Sequence[Seen], rounds: int = ROUNDS) -> str:
    """What differs between the domains, and what each gate makes of it, in Markdown."""
    lines = ["| domain | questions | entropy | gap |", "|---|---|---|---|"]
    for seen in blocks(stream):
        numbers = [each.entropy for each in seen], [each.gap for each in seen if each.gap is not None]
        cells = [f"{statistics.mean(x):.3f}, sd {statistics.stdev(x):.3f}" if len(x) > 1 else "-" for x in numbers]
        name = "+".join(sorted({each.domain for each in seen}))
        lines.append(f"| {name} | {len(seen)} | {' | '.join(cells)} |")
    lines += ["", "| gate | alarms as recorded | found behind each border (median delay) | false alarms per 1,000 |"]
    lines.append("|---|---|---|---|")
    for name, make in GATES.items():
        row = compare(stream, make, rounds)
        found = [f"{share:.0%} ({delay:.0f})" for share, delay in zip(row.found, row.delays, strict=True)]
        rates = f"{row.false:.2f} mixed" + (f", {row.inside:.2f} in the first domain" if found else "")
        lines.append(f"| {name} | {row.recorded or 'none'} | {', '.join(found) or '-'} | {rates} |")
    return "\n".join(lines)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(f"## {name}\n\n{table(read(Path(name)))}\n")
