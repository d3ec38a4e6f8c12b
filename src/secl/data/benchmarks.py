"""The benchmarks, one entry each, and `load`.

To add an official benchmark, write a reader of its files (`secl.data.official_files`) and a builder of questions
(`secl.data.rows`), and add an entry to `_TABLE`. `tests/data/test_benchmark_contract.py` walks all entries.
"""

from __future__ import annotations

import os
import random
from abc import ABC, abstractmethod
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark(ABC):
    """A named source of questions: an `OfficialBenchmark` or a domain of the built-in quiz.

    Attributes:
        name: key in `BENCHMARKS` and on the command line.
        description: one line.
        form: form of the answers.
        split: official split; "built in" for the quiz.
        licence: licence of the questions.
    """

    name: str
    description: str
    form: Form
    split: str
    licence: str

    @abstractmethod
    def questions(self, data: Path | None, seed: int, *, sampled: bool = False) -> list[Question]:
        """All of its questions.

        Args:
            data: folder with the official files; None for the environment variable SECL_DATA, and without that the hub.
            seed: seed of everything random about the questions.
            sampled: whether they come in an order drawn by the seed, and not in that of the files.

        Raises:
            DataError: a file is missing or broken, or the hub cannot be reached.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialBenchmark(Benchmark):
    """A published benchmark, read from its official files or from the Hugging Face hub; both give equal questions.

    Attributes:
        hub: repository and configuration on the hub.
        read_files: data folder -> the rows of the official files, in the schema of the hub.
        build: (row, index, seed) -> question; the index counts inside the subject of the row, where it has one.
    """

    hub: tuple[str, str]
    read_files: Callable[[Path], Iterator[LocatedRow]]
    build: Callable[[Row, int, int], Question]

    def questions(self, data: Path | None, seed: int, *, sampled: bool = False) -> list[Question]:
        groups = rows.by_subject(self._rows(data or os.environ.get(DATA_VARIABLE)))
        if sampled:
            generator = random.Random(f"sampled-{self.name}-{seed}")
            groups = [generator.sample(group, len(group)) for group in groups]
        return [self._question(located_row, index, seed) for index, located_row in rows.round_robin(groups)]

    def _rows(self, data: Path | str | None) -> Iterator[LocatedRow]:
        if not data:
            return hub_rows(self.name, *self.hub, self.split)
        if not Path(data).is_dir():
            raise DataError(f"the data folder {data} does not exist; check --data or SECL_DATA.")
        return self.read_files(Path(data))

    def _question(self, located_row: LocatedRow, index: int, seed: int) -> Question:
        location, row = located_row
        try:
            return self.build(row, index, seed)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, QuestionError) as error:
            reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
            message = f"{location} is no usable {self.name} question ({reason}); restore the official data."
            raise DataError(message) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class QuizBenchmark(Benchmark):
    """A domain of the built-in quiz (`secl.data.quiz`); it has the same name and needs no files.

    The seed decides which questions come first, sampled or not.
    """

    split: str = "built in"
    licence: str = "Apache-2.0"

    def questions(self, data: Path | None, seed: int, *, sampled: bool = False) -> list[Question]:  # noqa: ARG002
        return quiz(self.name, seed=seed)


_TABLE: tuple[Benchmark, ...] = (
    OfficialBenchmark(
        name="gsm8k",
        description="grade-school math word problems, answered by a number",
        form="number",
        split="train",
        licence="MIT",
        hub=("openai/gsm8k", "main"),
        read_files=official_files.read_gsm8k,
        build=rows.gsm8k_question,
    ),
    OfficialBenchmark(
        name="mmlu",
        description="multiple choice over 57 subjects, taken round-robin",
        form="choice",
        split="test",
        licence="MIT",
        hub=("cais/mmlu", "all"),
        read_files=official_files.read_mmlu,
        build=rows.mmlu_question,
    ),
    OfficialBenchmark(
        name="arc",
        description="ARC-Challenge: grade-school science, multiple choice",
        form="choice",
        split="test",
        licence="CC BY-SA 4.0",
        hub=("allenai/ai2_arc", "ARC-Challenge"),
        read_files=official_files.read_arc,
        build=rows.arc_question,
    ),
    OfficialBenchmark(
        name="truthfulqa",
        description="TruthfulQA MC1: questions that invite popular errors, options shuffled by the seed",
        form="choice",
        split="validation",
        licence="Apache-2.0",
        hub=("truthfulqa/truthful_qa", "multiple_choice"),
        read_files=official_files.read_truthfulqa,
        build=rows.truthfulqa_question,
    ),
    OfficialBenchmark(
        name="truthfulqa_in_order",
        description="TruthfulQA MC1 with its options as in the file, where the first one is always right",
        form="choice",
        split="validation",
        licence="Apache-2.0",
        hub=("truthfulqa/truthful_qa", "multiple_choice"),
        read_files=official_files.read_truthfulqa,
        build=partial(rows.truthfulqa_question, shuffled=False),
    ),
    OfficialBenchmark(
        name="truthfulqa_gen",
        description="TruthfulQA generation: answered in one sentence, graded by ROUGE-1",
        form="sentence",
        split="validation",
        licence="Apache-2.0",
        hub=("truthfulqa/truthful_qa", "generation"),
        read_files=official_files.read_truthfulqa_gen,
        build=rows.truthfulqa_gen_question,
    ),
    QuizBenchmark(
        name="arithmetic",
        description="built-in quiz: word problems of one to three steps",
        form="number",
    ),
    QuizBenchmark(
        name="capitals",
        description="built-in quiz: the capital of a country among cities of its continent",
        form="choice",
    ),
    QuizBenchmark(
        name="science",
        description="built-in quiz: chemical elements, SI units, prefixes and conversions",
        form="choice",
    ),
    QuizBenchmark(
        name="misconceptions",
        description="built-in quiz: popular beliefs against the facts",
        form="choice",
    ),
)

BENCHMARKS: dict[str, Benchmark] = {benchmark.name: benchmark for benchmark in _TABLE}
"""Every benchmark by its name."""


def load(
    name: str, n: int | None = None, *, data: Path | None = None, seed: int = 42, sampled: bool = False
) -> list[Question]:
    """The first `n` questions of a benchmark; they do not depend on `n`.

    Args:
        name: a key of `BENCHMARKS`.
        n: number of questions, at least 1; None for all of them.
        data: folder with the official files; None for the environment variable SECL_DATA, and without that the hub.
        seed: seed of the option order of "truthfulqa", of the whole quiz, and of what is sampled; no other question
            depends on it.
        sampled: draw the questions of an official benchmark at random, MMLU's of each subject in turn, in place of its
            first ones.

    Raises:
        ParameterError: the name is unknown, or n is below 1.
        DataError: a file is missing or broken, there is no network, or there are fewer than `n` questions.

    >>> load("capitals", 2, seed=1)[0].domain
    'quiz/capitals'
    """
    benchmark = find_benchmark(name)
    if n is not None and n < 1:
        raise ParameterError(f"the number of questions of {name} is {n}; ask for at least 1.")
    questions = benchmark.questions(data, seed, sampled=sampled)
    if n is not None and n > len(questions):
        raise DataError(
            f"{name} has {len(questions)} questions but {n} were asked for; ask for at most {len(questions)}."
        )
    return questions[:n]


def find_benchmark(name: str) -> Benchmark:
    """The entry called `name`.

    Raises:
        ParameterError: there is none; the message lists them.
    """
    if name not in BENCHMARKS:
        raise ParameterError(f"the benchmark {name!r} is unknown; the benchmarks are {', '.join(BENCHMARKS)}.")
    return BENCHMARKS[name]
