"""Streams: questions of one or more domains in the order in which they will be asked."""

from __future__ import annotations

import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal, get_args

from secl.data.benchmarks import BENCHMARKS, load
from secl.errors import ParameterError
from secl.records import Question

Order = Literal["forward", "reversed", "shuffled"]
"""Domains as named; domains from last to first; or all questions mixed."""


def stream(
    names: Sequence[str],
    per_domain: int | None,
    *,
    order: Order = "forward",
    seed: int = 42,
    data: Path | None = None,
) -> list[Question]:
    """Benchmarks one after the other, each with its first `per_domain` questions.

    Args:
        names: keys of `secl.data.benchmarks.BENCHMARKS`, each once, in forward order; "arc:50" takes 50 of it.
        per_domain: questions of each that does not say how many, at least 1; None for all.
        order: "forward" as named, "reversed" from the last domain to the first (each domain still from its first
            question on), "shuffled" over all questions by the seed.
        seed: of the shuffle and of the benchmarks that use one.
        data: folder with the official files, see `secl.data.benchmarks.load`.

    Raises:
        ParameterError: no name, an unknown or repeated one, an unknown order, or per_domain below 1.
        DataError: a benchmark cannot be read or has fewer questions.

    >>> [question.domain for question in stream(["capitals", "science"], 1, order="reversed")]
    ['quiz/science', 'quiz/capitals']
    """
    if isinstance(names, str):
        raise ParameterError(f"the benchmark names are the text {names!r}; give a list of names such as [{names!r}].")
    counts = [_named_count(name, per_domain) for name in names]
    _check([name for name, _ in counts], per_domain, order)
    questions = [question for name, count in counts for question in load(name, count, data=data, seed=seed)]
    return arrange(questions, order, seed)


def arrange(questions: Sequence[Question], order: Order, seed: int = 42) -> list[Question]:
    """The same questions in another order.

    Args:
        questions: a stream in forward order, for example from `secl.data.question_files.read_questions`.
        order: "forward" leaves it as it is; "reversed" turns the order of the domains round (by first appearance;
            inside a domain the order stays); "shuffled" mixes all questions.
        seed: of the shuffle.

    Raises:
        ParameterError: an unknown order.
    """
    if order == "forward":
        return list(questions)
    if order == "reversed":
        domains: defaultdict[str, list[Question]] = defaultdict(list)
        for question in questions:
            domains[question.domain].append(question)
        return [question for domain in reversed(domains) for question in domains[domain]]
    if order == "shuffled":
        shuffled = list(questions)
        random.Random(f"shuffled-{seed}").shuffle(shuffled)
        return shuffled
    raise ParameterError(f"the order {order!r} is unknown; the orders are {', '.join(get_args(Order))}.")


def fingerprint(questions: Sequence[Question]) -> str:
    """64 hexadecimal digits that change with any field of any question and with their order.

    A run remembers it, so that a changed stream is refused at resume.

    >>> one, two = Question("One?"), Question("Two?")
    >>> fingerprint([one, two]) == fingerprint([one, two]), fingerprint([one, two]) == fingerprint([two, one])
    (True, False)
    """
    digest = hashlib.sha256()
    for question in questions:
        canonical = json.dumps(asdict(question), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        digest.update(canonical.encode("ascii") + b"\n")
    return digest.hexdigest()


def _named_count(name: str, usual: int | None) -> tuple[str, int | None]:
    """A benchmark and how many of its questions: "arc:50" says so itself."""
    base, colon, count = name.partition(":")
    if not colon:
        return name, usual
    if not count.isdecimal() or int(count) < 1:
        raise ParameterError(f"{name!r} does not say how many questions to take; write for example {base}:50.")
    return base, int(count)


def _check(names: Sequence[str], per_domain: int | None, order: Order) -> None:
    if not names:
        raise ParameterError(f"no benchmark is named; choose from {', '.join(BENCHMARKS)}.")
    for name in names:
        if name not in BENCHMARKS:
            raise ParameterError(f"the benchmark {name!r} is unknown; the benchmarks are {', '.join(BENCHMARKS)}.")
        if list(names).count(name) > 1:
            raise ParameterError(f"the benchmark {name!r} is named twice; name each once.")
    if per_domain is not None and per_domain < 1:
        raise ParameterError(f"the number of questions per domain is {per_domain}; ask for at least 1.")
    if order not in get_args(Order):
        raise ParameterError(f"the order {order!r} is unknown; the orders are {', '.join(get_args(Order))}.")
