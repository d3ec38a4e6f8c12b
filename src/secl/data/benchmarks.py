"""The benchmarks, one entry each, and `load`.

To add an official benchmark, write a reader of its files (`secl.data.official_files`) and a builder of questions
(`secl.data.rows`), and add an entry to `_TABLE`. `tests/data/test_benchmark_contract.py` walks all entries.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from secl.data import official_files, rows
from secl.data.hub import hub_rows
from secl.data.quiz import quiz
from secl.data.rows import LocatedRow, Row
from secl.errors import DataError, ParameterError, QuestionError
from secl.question import Form, Question

DATA_VARIABLE = "SECL_DATA"
"""Environment variable that names the folder with the official benchmark files."""

Build = Callable[[Row, int, int], Question]
"""Makes a question of a row, its index and the seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A published benchmark, or a domain of the built-in quiz (`secl.data.quiz`).

    Official files and the Hugging Face hub give equal questions.

    Attributes:
        name: key in `BENCHMARKS` and on the command line.
        description: one line.
        form: form of the answers.
        split: official split.
        licence: licence of the questions.
        hub: repository and configuration on the hub.
        read: (data folder -> the rows of its official files, in the schema of the hub), and (row, index, seed) ->
            question, where the index counts inside the subject of the row; None for the quiz.
        sampled: whether the seed draws the order of the questions of each subject.
    """

    name: str
    description: str
    form: Form
    split: str = "built in"
    licence: str = "Apache-2.0"
    hub: tuple[str, str] = ("", "")
    read: tuple[Callable[[Path], Iterator[LocatedRow]], Build] | None = None
    sampled: bool = False


_TABLE: tuple[Benchmark, ...] = (
    Benchmark(
        name="gsm8k",
        description="grade-school math word problems, answered by a number",
        form="number",
        split="train",
        licence="MIT",
        hub=("openai/gsm8k", "main"),
        read=(official_files.read_gsm8k, rows.gsm8k_question),
    ),
    Benchmark(
        name="mmlu",
        description="multiple choice over 57 subjects, taken round-robin",
        form="choice",
        split="test",
        licence="MIT",
        hub=("cais/mmlu", "all"),
        read=(official_files.read_mmlu, rows.mmlu_question),
    ),
    Benchmark(
        name="mmlu_sampled",
        description="MMLU with the questions of each subject in an order drawn by the seed",
        form="choice",
        split="test",
        licence="MIT",
        hub=("cais/mmlu", "all"),
        read=(official_files.read_mmlu, rows.mmlu_question),
        sampled=True,
    ),
    Benchmark(
        name="arc",
        description="ARC-Challenge: grade-school science, multiple choice",
        form="choice",
        split="test",
        licence="CC BY-SA 4.0",
        hub=("allenai/ai2_arc", "ARC-Challenge"),
        read=(official_files.read_arc, rows.arc_question),
    ),
    Benchmark(
        name="truthfulqa",
        description="TruthfulQA MC1: questions that invite popular errors, options shuffled by the seed",
        form="choice",
        split="validation",
        licence="Apache-2.0",
        hub=("truthfulqa/truthful_qa", "multiple_choice"),
        read=(official_files.read_truthfulqa, rows.truthfulqa_question),
    ),
    Benchmark(
        name="truthfulqa_in_order",
        description="TruthfulQA MC1 with its options as in the file, where the first one is always right",
        form="choice",
        split="validation",
        licence="Apache-2.0",
        hub=("truthfulqa/truthful_qa", "multiple_choice"),
        read=(official_files.read_truthfulqa, partial(rows.truthfulqa_question, shuffled=False)),
    ),
    Benchmark(
        name="truthfulqa_gen",
        description="TruthfulQA generation: answered in one sentence, graded by ROUGE-1",
        form="sentence",
        split="validation",
        licence="Apache-2.0",
        hub=("truthfulqa/truthful_qa", "generation"),
        read=(official_files.read_truthfulqa_gen, rows.truthfulqa_gen_question),
    ),
    Benchmark(
        name="arithmetic",
        description="built-in quiz: word problems of one to three steps",
        form="number",
    ),
    Benchmark(
        name="capitals",
        description="built-in quiz: the capital of a country among cities of its continent",
        form="choice",
    ),
    Benchmark(
        name="science",
        description="built-in quiz: chemical elements, SI units, prefixes and conversions",
        form="choice",
    ),
    Benchmark(
        name="misconceptions",
        description="built-in quiz: popular beliefs against the facts",
        form="choice",
    ),
)

BENCHMARKS: dict[str, Benchmark] = {benchmark.name: benchmark for benchmark in _TABLE}
"""Every benchmark by its name."""


def load(name: str, n: int | None = None, *, data: Path | None = None, seed: int = 42) -> list[Question]:
    """The first `n` questions of a benchmark; they do not depend on `n`.

    Args:
        name: a key of `BENCHMARKS`.
        n: number of questions, at least 1; None for all of them.
        data: folder with the official files; None for the environment variable SECL_DATA, and without that the hub.
        seed: seed of the option order of "truthfulqa", of the order of "mmlu_sampled", and of the whole quiz; no other
            question depends on it.

    Raises:
        ParameterError: the name is unknown, or n is below 1.
        DataError: a file is missing or broken, there is no network, or there are fewer than `n` questions.

    >>> load("capitals", 2, seed=1)[0].domain
    'quiz/capitals'
    """
    benchmark = find_benchmark(name)
    if n is not None and n < 1:
        raise ParameterError(f"the number of questions of {name} is {n}; ask for at least 1.")
    questions = _official(benchmark, *benchmark.read, data, seed) if benchmark.read else quiz(name, seed=seed)
    if n is not None and n > len(questions):
        raise DataError(
            f"{name} has {len(questions)} questions but {n} were asked for; ask for at most {len(questions)}."
        )
    return questions[:n]


def _official(
    benchmark: Benchmark,
    read_files: Callable[[Path], Iterator[LocatedRow]],
    build: Build,
    data: Path | None,
    seed: int,
) -> list[Question]:
    """All questions of a published benchmark, one of each subject in turn."""
    folder = data or os.environ.get(DATA_VARIABLE)
    if not folder:
        located = hub_rows(benchmark.name, *benchmark.hub, benchmark.split)
    elif not Path(folder).is_dir():
        raise DataError(f"the data folder {folder} does not exist; check --data or SECL_DATA.")
    else:
        located = read_files(Path(folder))
    groups = rows.by_subject(located)
    if benchmark.sampled:
        generator = random.Random(f"sampled-{benchmark.name.removesuffix('_sampled')}-{seed}")
        groups = [generator.sample(group, len(group)) for group in groups]
    return [_question(benchmark, build, located_row, index, seed) for index, located_row in rows.round_robin(groups)]


def _question(benchmark: Benchmark, build: Build, located_row: LocatedRow, index: int, seed: int) -> Question:
    location, row = located_row
    try:
        return build(row, index, seed)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, QuestionError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise DataError(
            f"{location} is no usable {benchmark.name} question ({reason}); restore the official data."
        ) from error


def find_benchmark(name: str) -> Benchmark:
    """The entry called `name`.

    Raises:
        ParameterError: there is none; the message lists them.
    """
    if name not in BENCHMARKS:
        raise ParameterError(f"the benchmark {name!r} is unknown; the benchmarks are {', '.join(BENCHMARKS)}.")
    return BENCHMARKS[name]
