"""Tables from evidence of `benchmarks.thoughts`: measures of each confidence, and accuracy by length of the thought."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from benchmarks.study import heading, row
from secl.evidence import CandidateEvidence, Evidence, LetterOrder, Sample, Thought
from secl.flow.further import compare, settled
from secl.grading.numbers import parse_number
from secl.metrics.intervals import Difference, paired_differences
from secl.metrics.measures import auroc, ece_floor, standard_measures
from secl.metrics.probability import softmax
from secl.posterior.rule import PosteriorRule
from secl.prompts.templates import NONE_OF_THESE
from secl.question import LETTERS, Question
from secl.records import Record, Reply
from secl.runs.encoding import from_plain

KINDS = ("arc", "mmlu", "gsm8k", "arithmetic")

BUDGETS = (0, 64, 128)
"""Numbers of tokens of the greedy thought after which the model also answers."""

LONGEST, THOUGHTS, USED = 256, 5, 3
"""Largest number of tokens of a thought; thoughts about a question; largest number of thoughts that `secl` uses."""


BUILT, OFF = "thoughts: posterior", "thinking off: posterior"


def weighed(records: Iterable[Record]) -> list[tuple[str, float]]:
    """Return the posterior's most probable answer to each question of a stream, with its probability."""
    rule, found = PosteriorRule(), []
    state = rule.start()
    for record in records:
        state, posterior = rule.follow(state, record)
        if posterior is None:
            found.append((record.frozen.answer or "", 0.0))
            continue
        answers = record.question.letters or posterior.candidates
        found.append((answers[posterior.best], posterior.probabilities[posterior.best]))
    return found


def behind_thoughts(line: dict[str, Any]) -> Record:
    """Return the record that `secl` would make of a question with thoughts."""
    question, reply, candidates = (evidence_of_numbers if "program" in line else evidence_of_letters)(line)
    record = from_plain(line["plain"])
    return replace(record, question=question, reply=reply, learning=None, evidence=Evidence(candidates=candidates))


def reply_of(line: dict[str, Any], answer: str | None, **changes: Any) -> Reply:
    """Return the reply after the first thought."""
    first = line["thoughts"][0]
    thought = Thought(text=first["text"], tokens=first["tokens"], cut=first["cut"])
    known = {"bins": tuple(first["bins"]), "digit_mass": 1.0, "entropy": 0.0, "thought": thought}
    return Reply(text=answer or "", answer=answer, **{"log_probability": first.get("log_p", 0.0), **known, **changes})


def evidence_of_letters(line: dict[str, Any]) -> tuple[Question, Reply, CandidateEvidence]:
    """Return the evidence after two thoughts, or after three if the first two lead to different letters."""
    record = from_plain(line["plain"])
    at_once = cast(CandidateEvidence, record.evidence.candidates)
    first, *further = cast(list[dict[str, Any]], line["thoughts"][:USED])
    letters = tuple(
        LetterOrder(order=tuple(each["order"]), log_p=tuple(each["log_p"]), thought=Thought(text=None, tokens=1))
        for each in (further if best(first) != best(further[0]) else further[:1])
    )
    plain = LetterOrder(order=tuple(range(len(first["log_p"]))), log_p=record.frozen.option_log_p)
    candidates = replace(at_once, letters=(plain, *at_once.letters, *letters))
    log_p = {"option_log_p": tuple(first["log_p"]), "log_probability": max(first["log_p"])}
    return record.question, reply_of(line, best(first), **log_p), candidates


def evidence_of_numbers(line: dict[str, Any]) -> tuple[Question, Reply, CandidateEvidence]:
    """Return the evidence after a thought: a program, and two more thoughts if the program disagrees."""
    question = Question("How many?", form="number")
    first, *further = cast(list[dict[str, Any]], line["thoughts"][:USED])
    answer, program = first["answer"] or "", Sample(text=line["program"], candidate=None, log_p=None, program=True)
    drawn = [Sample(text=each["answer"], candidate=None, log_p=each["log_p"]) for each in further]
    samples = [program] if settled(question, answer, [program]) else [program, *drawn]
    compared = compare(question, answer, samples)
    texts = (*compared.candidates, NONE_OF_THESE)
    nothing = (None,) * len(texts)
    candidates = CandidateEvidence(
        candidates=texts, letters=(), likelihoods=nothing, samples=compared.samples, source=compared.source
    )
    return question, reply_of(line, answer), candidates


def used(line: dict[str, Any]) -> int:
    """Return the number of thoughts that `secl` uses for a question."""
    if "program" in line:
        return USED if len(evidence_of_numbers(line)[2].samples) > 1 else 1
    return USED if best(line["thoughts"][0]) != best(line["thoughts"][1]) else USED - 1


def best(thought: dict[str, Any]) -> str:
    """Return the answer after a thought."""
    if "answer" in thought:
        return thought["answer"] or ""
    return LETTERS[thought["log_p"].index(max(thought["log_p"]))]


def stated(thought: dict[str, Any]) -> float:
    """Return the stated confidence after a thought."""
    return float(sum(p * (k + 0.5) / 10 for k, p in enumerate(thought["bins"])))


def shared(thoughts: Sequence[dict[str, Any]], *, alike: bool) -> tuple[str, float]:
    """Return the first thought's answer, and the mean stated confidence; if `alike`, other answers count as 0."""
    own = best(thoughts[0])
    return own, sum(stated(each) for each in thoughts if not alike or best(each) == own) / len(thoughts)


def mean_letters(thoughts: Sequence[dict[str, Any]]) -> tuple[str, float]:
    """Return the letter with the highest mean probability after thoughts, or the first thought's number, and this P."""
    if "answer" in thoughts[0]:
        return best(thoughts[0]), math.exp(thoughts[0]["log_p"])
    shares = [softmax(each["log_p"]) for each in thoughts]
    means = [sum(option) / len(shares) for option in zip(*shares, strict=True)]
    return LETTERS[means.index(max(means))], max(means)


def agreement(thoughts: Sequence[dict[str, Any]]) -> tuple[str, float]:
    """Return the most frequent answer after thoughts, the earliest of tied answers, and its share."""
    answers = [best(each) for each in thoughts]
    most = max(answers, key=answers.count)
    return most, answers.count(most) / len(answers)


def report(evidence: Path) -> Iterator[str]:
    """Yield the tables from the evidence in a file."""
    lines = [json.loads(line) for line in evidence.read_text().splitlines()]
    for kinds in (("arc", "mmlu"), ("gsm8k", "arithmetic")):
        some = [line for line in lines if line["kind"] in kinds]
        yield f"\n{' and '.join(kinds)}: {len(some)} questions\n"
        yield from compared(some)
    yield ""
    yield heading("tokens of the thought at most", *(f"{kind}: accuracy, AUROC of stated" for kind in KINDS))
    for budget in (*BUDGETS, LONGEST):
        yield row(budget, *(of_budget([line for line in lines if line["kind"] == kind], budget) for kind in KINDS))


def compared(some: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield a table of all confidences, and a table of the posterior with thoughts minus each of them."""
    cut = [line["thoughts"][:THOUGHTS] for line in some]
    at_once = [next(each for each in line["thoughts"] if each["budget"] == 0) for line in some]
    plain = [from_plain(line["plain"]) for line in some]
    rows: dict[str, tuple[list[tuple[str, float]], int]] = {
        "at once: stated": ([(best(each), stated(each)) for each in at_once], 0),
        "at once: letter or text": ([mean_letters([each]) for each in at_once], 0),
        OFF: (weighed(plain), 0),
        "a thought: stated": ([(best(each[0]), stated(each[0])) for each in cut], 1),
        "a thought: letter or text": ([mean_letters(each[:1]) for each in cut], 1),
        "two thoughts: letters or text": ([mean_letters(each[:2]) for each in cut], 2),
        "two thoughts: stated": ([shared(each[:2], alike=False) for each in cut], 2),
        "two thoughts: stated, 0 where the other differs": ([shared(each[:2], alike=True) for each in cut], 2),
        "two thoughts: agreement": ([agreement(each[:2]) for each in cut], 2),
        "three thoughts: agreement": ([agreement(each[:3]) for each in cut], 3),
        "five thoughts: agreement": ([agreement(each) for each in cut], 5),
        BUILT: (weighed(map(behind_thoughts, some)), USED),
    }
    kinds = [line["kind"] for line in some]
    graded = {}
    yield heading("confidence", "accuracy", "AUROC within", "Brier", "ECE (floor)", "mean", "tokens")
    for name, (found, thoughts) in rows.items():
        right = [same(line, answer) for line, (answer, _) in zip(some, found, strict=True)]
        confidence = [value for _, value in found]
        graded[name] = confidence, right
        measures = standard_measures(confidence, right, kinds)
        shown = [f"{measures[key]:.3f}" for key in ("accuracy", "auroc_within", "brier", "ece", "mean_confidence")]
        shown[3] += f" ({ece_floor(confidence).mean:.3f})"
        tokens = [sum(each["prompt"] + each["tokens"] for each in own[:thoughts]) for own in cut]
        if name == OFF:
            tokens = [record.ledger.total for record in plain]
        if name == BUILT:
            tokens = [sum(each["prompt"] + each["tokens"] for each in line["thoughts"][: used(line)]) for line in some]
        yield row(name, *shown, f"{sum(tokens) / len(tokens):.0f}" if any(tokens) else "")
    yield ""
    yield heading(f"{BUILT}, less", "accuracy", "AUROC within", "Brier")
    for name, other in graded.items():
        if name != BUILT:
            less = paired_differences(*other, *graded[BUILT], domains=kinds)
            yield row(name, *(difference(less[key]) for key in ("accuracy", "auroc_within", "brier")))


def difference(of: Difference) -> str:
    """Return a cell with a difference and its 95 % interval."""
    return f"{of.difference:+.3f} [{of.interval.low:+.3f}, {of.interval.high:+.3f}]"


def of_budget(some: Sequence[dict[str, Any]], budget: int) -> str:
    """Return accuracy, and AUROC of the stated confidence, after `budget` tokens of the greedy thought."""
    read = [reached(line, budget) for line in some]
    right = [same(line, best(each)) for line, each in zip(some, read, strict=True)]
    stating = [i for i, each in enumerate(read) if each["bins"]]
    area = auroc([stated(read[i]) for i in stating], [right[i] for i in stating])
    return f"{sum(right) / len(right):.3f}, {area:.2f}"


def reached(line: dict[str, Any], budget: int) -> dict[str, Any]:
    """Return the greedy thought cut after `budget` tokens, or the whole thought if it is shorter."""
    return next((each for each in line["thoughts"] if each["budget"] == budget), line["thoughts"][0])


def same(line: dict[str, Any], answer: str) -> bool:
    """Return whether an answer is right; numbers are compared as numbers."""
    if "program" not in line:
        return bool(answer == line["reference"])
    return parse_number(answer) is not None and parse_number(answer) == parse_number(line["reference"])
