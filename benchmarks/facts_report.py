"""Tables about the confidences of facts from the evidence that `benchmarks.facts` collects."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.fact_texts import FactPrompt, prompts_of
from benchmarks.fact_values import StatedValue, plain, values_of
from benchmarks.study import heading, row
from secl.facts.spans import find_spans
from secl.facts.tokens import PlacedToken, read_facts
from secl.metrics.measures import auroc, auroc_within, brier, ece, ece_floor
from secl.writing import Token

KINDS = ("knowledge", "summary", "instruction")

RISKS = (0.02, 0.05, 0.1)
"""Shares of wrong facts among accepted facts."""

DRAWS = 400
"""Number of bootstrap samples of texts."""

ACCEPTED = tuple(f"accepted at {100 * risk:.0f} % wrong" for risk in RISKS)

AS_BUILT = "P of the value, as built"

Measure = Callable[[npt.ArrayLike, npt.ArrayLike], float]


@dataclass(frozen=True)
class Fact:
    """A stated value of a known attribute, with its confidences by their names."""

    name: str
    attribute: str
    right: bool
    confidences: Mapping[str, float]


def facts_in(line: dict[str, Any], prompt: FactPrompt) -> tuple[list[StatedValue], list[Fact]]:
    """Return the stated values of known attributes in a text, and the facts of secl that are such values."""
    text, last = line["text"], len(line["text"].rstrip())
    tokens = [
        PlacedToken(start, end, Token(text[start:end], step["ln_p"], tuple((piece, p) for piece, p in step["top"])))
        for (start, end), step in zip(line["places"], line["steps"], strict=True)
    ]
    stated = [value for value in values_of(text, prompt.name, prompt.facts) if line["ended"] or value.end < last]
    found, facts = read_facts(text, tokens, complete=line["ended"]), []
    for value in stated:
        shared = [min(fact.end, value.end) - max(fact.start, value.start) for fact in found]
        if shared and max(shared) > 0:
            fact = found[shared.index(max(shared))]
            own = {AS_BUILT: math.exp(fact.value)} | confidences_of(line, fact.start, fact.end)
            facts.append(Fact(line["name"], f"{line['name'].split('/')[0]}: {value.attribute}", value.right, own))
    return stated, facts


def confidences_of(line: dict[str, Any], start: int, end: int) -> dict[str, float]:
    """Return the other confidences of the value at a place of a text."""
    text, log_p = line["text"], [step["ln_p"] for step in line["steps"]]
    ends = [0, *(match.end() for match in re.finditer(r"(?<=[.!?])\s+|\n+", text)), len(text)]

    def within(first: int, stop: int) -> list[int]:
        return [k for k, (begin, finish) in enumerate(line["places"]) if begin < stop and finish > first]

    own = within(start, end)
    sentence = within(max(each for each in ends if each <= start), min(each for each in ends if each >= end))
    p = math.exp(sum(log_p[k] for k in own))
    found = {
        "P of the value's tokens": p,
        "P of the value's tokens and the next": p * math.exp(log_p[min(own[-1] + 1, len(log_p) - 1)]),
        "lowest token of the value": math.exp(min(log_p[k] for k in own)),
        "exp(-largest entropy in the value)": math.exp(-max(line["steps"][k]["entropy"] for k in own)),
        "mean token of the sentence": float(np.mean([math.exp(log_p[k]) for k in sentence])),
        "mean token of the text": float(np.mean(np.exp(log_p))),
    }
    if "stated" in line:
        found["stated for the text"] = line["stated"]
    if "samples" in line:
        words = f" {plain(text[start:end])} "
        found["agreement of five whole texts"] = float(np.mean([words in f" {plain(s)} " for s in line["samples"]]))
    for reading, name in (("question", "P as the reply to a question"), ("alone", "P after its own sentence")):
        if reading in line:
            found[name] = math.exp(line[reading].get(str(start), math.log(p)))
    return found


def coverage(confidences: npt.NDArray[np.float64], right: npt.NDArray[np.bool_], risk: float) -> float:
    """Return the largest share of facts, those with the highest confidences, of which at most `risk` are wrong."""
    order = np.argsort(-confidences, kind="stable")
    wrong = np.cumsum(~right[order]) / np.arange(1, len(right) + 1)
    ends = np.flatnonzero(np.diff(confidences[order], append=-1.0))  # facts of equal confidence are accepted together
    return float(max((end + 1 for end in ends if wrong[end] <= risk), default=0) / len(right))


def difference(facts: Sequence[Fact], name: str, measure: Measure) -> tuple[float, float]:
    """Return the 95 % interval of a confidence's measure minus that of the one as built; whole texts are drawn."""
    texts: dict[str, list[int]] = {}
    for k, fact in enumerate(facts):
        texts.setdefault(fact.name, []).append(k)
    groups, draw = [np.array(each) for each in texts.values()], np.random.default_rng(0)
    right = np.array([fact.right for fact in facts])
    built, other = (np.array([fact.confidences[each] for fact in facts]) for each in (AS_BUILT, name))
    differences = []
    for _ in range(DRAWS):
        some = np.concatenate([groups[k] for k in draw.integers(len(groups), size=len(groups))])
        if 0 < right[some].sum() < len(some):
            differences.append(measure(other[some], right[some]) - measure(built[some], right[some]))
    low, high = np.quantile(differences, [0.025, 0.975])
    return float(low), float(high)


def table(facts: Sequence[Fact]) -> Iterator[str]:
    """Yield the rows of all confidences that these facts have, the one as built first.

    A star marks a measure that is worse than that of the confidence as built on the same facts, beyond the 95 %
    interval of the difference.
    """
    yield heading("confidence", "facts", "AUROC", "within attributes", "Brier", "ECE (floor)", "mean", *ACCEPTED)
    for name in dict.fromkeys(name for fact in facts for name in fact.confidences):
        some = [fact for fact in facts if name in fact.confidences]
        right = np.array([fact.right for fact in some])
        own = np.array([fact.confidences[name] for fact in some])
        if not 0 < right.sum() < len(right):
            continue
        ranked, score = auroc(own, right), brier(own, right)
        worse_rank = name != AS_BUILT and difference(some, name, auroc)[1] < 0
        worse_score = name != AS_BUILT and difference(some, name, brier)[0] > 0
        yield row(
            name,
            len(some),
            f"{ranked:.3f}{'*' if worse_rank else ''}",
            f"{auroc_within(own, right, [fact.attribute for fact in some]):.3f}",
            f"{score:.3f}{'*' if worse_score else ''}",
            f"{ece(own, right):.3f} ({ece_floor(own).mean:.3f})",
            f"{own.mean():.2f}",
            *(f"{100 * coverage(own, right, risk):.0f} %" for risk in RISKS),
        )


def passage_rows(lines: Sequence[tuple[dict[str, Any], FactPrompt]]) -> Iterator[str]:
    """Yield how well facts that a passage supports are told from the others."""
    ratios, words, supported, rights = [], [], [], []
    for line, prompt in lines:
        log_p = [step["ln_p"] for step in line["steps"]]
        for value in values_of(line["text"], prompt.name, prompt.facts):
            own = [k for k, (start, end) in enumerate(line["places"]) if start < value.end and end > value.start]
            ratio = sum(line["with_passage"][k] - log_p[k] for k in own)
            ratios.append(1 / (1 + math.exp(-ratio)))
            words.append(f" {plain(line['text'][value.start : value.end])} " in f" {plain(line['passage'])} ")
            supported.append(value.right and value.attribute in line["chosen"])
            rights.append(value.right)
    yield heading(
        "facts", "supported", "AUROC of ln P(with) - ln P(without)", "AUROC of word by word", "AUROC among right facts"
    )
    only = [k for k, right in enumerate(rights) if right]
    yield row(
        len(ratios),
        sum(supported),
        f"{auroc(ratios, supported):.3f}",
        f"{auroc(np.array(words, float), supported):.3f}",
        f"{auroc([ratios[k] for k in only], [supported[k] for k in only]):.3f}",
    )


def report(evidence: Path) -> Iterator[str]:
    """Yield tables in Markdown for each kind of texts."""
    with evidence.open(encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    for kind in KINDS:
        prompts = {prompt.name: prompt for prompt in prompts_of(kind)}
        some = [(line, prompts[line["name"]]) for line in lines if line["kind"] == kind]
        if not some:
            continue
        stated, facts = zip(*(facts_in(*each) for each in some), strict=True)
        values, known = sum(map(len, stated)), [fact for each in facts for fact in each]
        spans = sum(len(find_spans(line["text"])) for line, _ in some)
        right = sum(value.right for each in stated for value in each) / values
        yield (
            f"\n{kind}: {len(some)} texts, {values} values of known attributes, {100 * right:.0f} % right, "
            f"{100 * len(known) / values:.1f} % covered by facts, {spans / len(some):.1f} spans a text\n"
        )
        yield from table(known)
        read = [each for each in some if "with_passage" in each[0]]
        if read:
            yield f"\nWith a passage that states half of the values, {len(read)} texts\n"
            yield from passage_rows(read)
