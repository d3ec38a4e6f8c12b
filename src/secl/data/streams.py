"""Streams of benchmark questions, their order and their fingerprint."""

from __future__ import annotations

import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import get_args

from secl.data.benchmarks import BENCHMARKS, find_benchmark, load
from secl.errors import ParameterError
from secl.question import GivenAnswer, Question
from secl.settings.groups import Order


def load_stream(
    names: Sequence[str], per_domain: int | None, *, order: Order = "forward", seed: int = 42, data: Path | None = None
) -> list[Question]:
    """Return the first questions of several benchmarks, one benchmark after the other.

    Args:
        names: different keys of `secl.data.benchmarks.BENCHMARKS`. "arc:50" takes 50 questions of "arc".
        per_domain: number of questions of a benchmark whose name gives no number, at least 1; None for all.
        order: order of the questions (`arrange`).
        seed: seed of `secl.data.benchmarks.load` and of the order "shuffled".
        data: folder with the official files (`secl.data.benchmarks.load`).

    Raises:
        ParameterError: no name, an unknown or repeated name, an unknown order, or per_domain below 1.
        DataError: a benchmark cannot be read, or has fewer questions than requested.

    >>> [question.domain for question in load_stream(["capitals", "science"], 1, order="reversed")]
    ['quiz/science', 'quiz/capitals']
    """
    if isinstance(names, str):
        raise ParameterError(f"the benchmark names are the text {names!r}; give a list of names such as [{names!r}].")
    if not names:
        raise ParameterError(f"no benchmark is named; choose from {', '.join(BENCHMARKS)}.")
    counts = [_split_count(name, per_domain) for name in names]
    bare = [name for name, _ in counts]
    for name in bare:
        find_benchmark(name)
        if bare.count(name) > 1:
            raise ParameterError(f"the benchmark {name!r} is named twice; name it once.")
    if order not in get_args(Order):
        raise ParameterError(f"the order {order!r} is unknown; the orders are {', '.join(get_args(Order))}.")
    questions = [question for name, count in counts for question in load(name, count, data=data, seed=seed)]
    return arrange(questions, order, seed)


def arrange(questions: Sequence[Question], order: Order, seed: int = 42) -> list[Question]:
    """Return questions in the given order ("forward"), with domains in reverse ("reversed"), or shuffled."""
    if order == "reversed":
        domains: defaultdict[str, list[Question]] = defaultdict(list)
        for question in questions:
            domains[question.domain].append(question)
        return [question for domain in reversed(domains) for question in domains[domain]]
    arranged = list(questions)
    if order == "shuffled":
        random.Random(f"shuffled-{seed}").shuffle(arranged)
    return arranged


def fingerprint(
    questions: Sequence[Question],
    given: Sequence[GivenAnswer] | None = None,
    grammar: Mapping[str, object] | None = None,
) -> str:
    """Return the SHA-256 hash of questions (without graders) and given answers, in order.

    A run stores the hash to detect a changed stream. `grammar` is the JSON Schema of an extraction's objects.
    """
    digest = hashlib.sha256()
    for question in questions:
        canonical = json.dumps(
            asdict(replace(question, grader="")), sort_keys=True, ensure_ascii=True, separators=(",", ":")
        )
        digest.update(canonical.encode("ascii") + b"\n")
    for each in given or ():
        digest.update(json.dumps([each.answer, each.rivals, each.correct]).encode("ascii") + b"\n")
    if grammar is not None:
        digest.update(json.dumps(grammar).encode("ascii"))
    return digest.hexdigest()


def _split_count(name: str, default: int | None) -> tuple[str, int | None]:
    """Split "arc:50" into the name of a benchmark and its number of questions."""
    base, colon, count = name.partition(":")
    if not colon:
        return name, default
    if not count.isdecimal() or int(count) < 1:
        raise ParameterError(f"{name!r} does not say how many questions to take; write for example {base}:50.")
    return base, int(count)
