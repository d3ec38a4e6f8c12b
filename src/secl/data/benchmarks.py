"""All benchmarks with the built-in quiz, and streams of their questions.

A new official benchmark needs a reader of its files and a builder of questions (`secl.data.official`), and an entry in
`_TABLE`. `tests/data/test_benchmarks.py` tests all entries.

The quiz has four domains, one file each under `facts/`:

    arithmetic       word problems of one to three steps, answered by a number
    capitals         the capital of a country among cities of its continent
    science          chemical elements, SI prefixes and units, conversions
    misconceptions   popular beliefs against the facts
"""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

from secl.data import official
from secl.data.official import BenchmarkRow, LocatedRow, hub_rows, read_file, round_robin
from secl.errors import DataError, ParameterError, QuestionError
from secl.question import LETTERS, Form, GivenAnswer, Question
from secl.settings.groups import Order


def quiz(domain: str, n: int | None = None, seed: int = 42) -> list[Question]:
    """Return the first `n` questions of a domain, in an order that the seed determines.

    Each question has a kind, such as "symbol of an element". Questions of different kinds alternate.
    """
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for line in files("secl.data").joinpath("facts", f"{domain}.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        kinds.setdefault(row["kind"], []).append(row)
    generator = random.Random(f"{domain}-{seed}")
    rows = round_robin(generator.sample(kind, len(kind)) for kind in kinds.values())
    return [_question(domain, number, row, seed) for number, row in enumerate(rows[:n])]


def _question(domain: str, number: int, row: Mapping[str, Any], seed: int) -> Question:
    text, reference = row["question"], row["answer"]
    options = list(row.get("options", ()))
    if options:
        # Seed with the text, so that the order of the options does not depend on the question's position.
        random.Random(f"quiz/{domain}-{seed}-{text}").shuffle(options)
        reference = LETTERS[options.index(reference)]
    form: Form = "choice" if options else "number"
    return Question(text, tuple(options), reference, f"quiz/{domain}", f"quiz-{domain}-{number:03d}", form)


DATA_VARIABLE = "SECL_DATA"
"""Environment variable that names the folder with the official benchmark files."""

Build = Callable[[BenchmarkRow, int, int], Question]
"""Function that makes a question from a row, the index of the row and the seed."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A published benchmark, or a domain of the built-in quiz (`secl.data.benchmarks`).

    The official files and the Hugging Face hub give identical questions.

    Attributes:
        hub: repository and configuration on the hub.
        read: two functions; None for the quiz. The first reads the official files in a data folder as rows in the
            hub's schema. The second makes a question from a row, the row's index in its subject, and the seed.
        sampled: whether the seed determines the order of the questions of each subject.
    """

    name: str
    description: str
    form: Form
    split: str = "built in"
    licence: str = "Apache-2.0"
    hub: tuple[str, str] = ("", "")
    read: tuple[Callable[[Path], Iterator[LocatedRow]], Build] | None = None
    sampled: bool = False


_read_mc1 = partial(read_file, name="truthfulqa/mc_task.json", flat=official.truthfulqa_row)
_read_generation = partial(read_file, name="truthfulqa/TruthfulQA.csv", flat=official.truthfulqa_gen_row)
_GSM8K = Benchmark(
    name="gsm8k",
    description="grade-school math word problems, answered by a number",
    form="number",
    split="train",
    licence="MIT",
    hub=("openai/gsm8k", "main"),
    read=(partial(read_file, name="gsm8k/train.jsonl"), official.gsm8k_question),
)
_MMLU = Benchmark(
    name="mmlu",
    description="multiple choice from 57 subjects, one question of each subject in turn",
    form="choice",
    split="test",
    licence="MIT",
    hub=("cais/mmlu", "all"),
    read=(official.read_mmlu, official.mmlu_question),
)
_ARC = Benchmark(
    name="arc",
    description="ARC-Challenge: grade-school science, multiple choice",
    form="choice",
    split="test",
    licence="CC BY-SA 4.0",
    hub=("allenai/ai2_arc", "ARC-Challenge"),
    read=(partial(read_file, name="arc/ARC-Challenge-Test.jsonl", flat=official.arc_row), official.arc_question),
)
_TRUTHFULQA = Benchmark(
    name="truthfulqa",
    description="TruthfulQA MC1: questions that invite popular errors, options shuffled by the seed",
    form="choice",
    split="validation",
    licence="Apache-2.0",
    hub=("truthfulqa/truthful_qa", "multiple_choice"),
    read=(_read_mc1, official.truthfulqa_question),
)
_TABLE = (
    _GSM8K,
    _MMLU,
    replace(
        _MMLU,
        name="mmlu_sampled",
        description="MMLU, with the questions of each subject shuffled by the seed",
        sampled=True,
    ),
    _ARC,
    _TRUTHFULQA,
    replace(
        _TRUTHFULQA,
        name="truthfulqa_in_order",
        description="TruthfulQA MC1, with the options in the order of the file, where the first option is always right",
        read=(_read_mc1, partial(official.truthfulqa_question, shuffled=False)),
    ),
    replace(
        _TRUTHFULQA,
        name="truthfulqa_gen",
        description="TruthfulQA generation: answered in one sentence, graded by ROUGE-1",
        form="sentence",
        hub=("truthfulqa/truthful_qa", "generation"),
        read=(_read_generation, official.truthfulqa_gen_question),
    ),
    Benchmark("arithmetic", "built-in quiz: word problems of one to three steps", "number"),
    Benchmark("capitals", "built-in quiz: the capital of a country among cities of its continent", "choice"),
    Benchmark("science", "built-in quiz: chemical elements, SI units, prefixes and conversions", "choice"),
    Benchmark("misconceptions", "built-in quiz: popular beliefs against the facts", "choice"),
)

BENCHMARKS = {benchmark.name: benchmark for benchmark in _TABLE}
"""All benchmarks by name."""


def load(name: str, n: int | None = None, *, data: Path | None = None, seed: int = 42) -> list[Question]:
    """Return the first `n` questions of a benchmark, by default all. The order does not depend on `n`.

    Args:
        data: folder with the official files; by default the environment variable SECL_DATA, or else the hub.
        seed: shuffles the options of "truthfulqa", the questions of "mmlu_sampled", and options and questions of the
            quiz.

    Raises:
        ParameterError: the name is unknown, or n is below 1.
        DataError: a file is missing or broken, the network fails, or the benchmark has fewer than `n` questions.

    >>> load("capitals", 2, seed=1)[0].domain
    'quiz/capitals'
    """
    benchmark = find_benchmark(name)
    if n is not None and n < 1:
        raise ParameterError(f"the number of questions of {name} is {n}; ask for at least 1.")
    questions = _official(benchmark, *benchmark.read, data, seed) if benchmark.read else quiz(name, seed=seed)
    if n is not None and n > len(questions):
        raise DataError(f"{name} has {len(questions)} questions but {n} were asked for; take at most {len(questions)}.")
    return questions[:n]


def _official(
    benchmark: Benchmark, read: Callable[[Path], Iterator[LocatedRow]], build: Build, data: Path | None, seed: int
) -> list[Question]:
    """Return all questions of a published benchmark, with its subjects in turn."""
    folder = data or os.environ.get(DATA_VARIABLE)
    if folder and not Path(folder).is_dir():
        raise DataError(f"the data folder {folder} does not exist; check --data or SECL_DATA.")
    rows = read(Path(folder)) if folder else hub_rows(benchmark.name, *benchmark.hub, benchmark.split)
    groups = official.by_subject(rows)
    if benchmark.sampled:
        generator = random.Random(f"sampled-{benchmark.name.removesuffix('_sampled')}-{seed}")
        groups = [generator.sample(group, len(group)) for group in groups]
    questions = []
    for index, (location, row) in round_robin(groups):
        try:
            questions.append(build(row, index, seed))
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, QuestionError) as error:
            reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
            message = f"{location} is not a usable {benchmark.name} question ({reason}); restore the official data."
            raise DataError(message) from error
    return questions


def find_benchmark(name: str) -> Benchmark:
    if name not in BENCHMARKS:
        raise ParameterError(f"the benchmark {name!r} is unknown; the benchmarks are {', '.join(BENCHMARKS)}.")
    return BENCHMARKS[name]


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
