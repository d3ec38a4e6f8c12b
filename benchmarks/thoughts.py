"""Evidence on whether thoughts before answers pay: answers with and without thoughts, one JSON line per question.

    python -m benchmarks.thoughts collect MODEL EVIDENCE.jsonl [--minutes 60] [--questions 150] [--window 8]
    python -m benchmarks.thoughts report EVIDENCE.jsonl

`collect` continues a stopped collection; it alternates between the four kinds of questions. The model writes a greedy
thought and four sampled thoughts about each question; every second thought sees the options in another order. The model
answers after each thought, and after 0, 64 and 128 tokens of the greedy thought. All thoughts of a window are written
in one batch. Answers reuse the keys and values of their thoughts.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch

from benchmarks.study import WINDOW, collect_lines, collect_or_report
from benchmarks.thoughts_report import BUDGETS, KINDS, LONGEST, THOUGHTS, report
from secl import Question
from secl.backends.generation import Generation
from secl.backends.local.fast.batch import Batch, KeptRow, go_on, next_logits
from secl.backends.local.loading.loader import ModelCache
from secl.backends.local.model import LocalModel
from secl.backends.local.writer import draw
from secl.backends.token_ids import common_length
from secl.data.benchmarks import load
from secl.flow.further import PROGRAM_TOKENS, computed
from secl.learning import Calibrator
from secl.prompts.parsing import read_answer
from secl.prompts.programs import FENCE, OPENING
from secl.prompts.templates import other_order
from secl.runs.encoding import to_plain
from secl.settings.groups import ModelSettings

ROWS, STATED = 32, 2
"""Rows of a batch that reads answers, and thoughts about a number after which the model states a confidence."""

WIDE = 20
"""Least number of tokens per row that `extend` sends through the network in one pass."""

Kept = tuple[KeptRow, list[int]]
"""Keys and values of a row of a batch, and the tokens of this row."""


def arithmetic(count: int) -> list[Question]:
    """Return questions such as "What is 12 times 34 plus 567?"; Qwen answers about half of them right."""
    drawn = random.Random("arithmetic")
    found = []
    for number in range(count):
        a, b, c = drawn.randint(12, 99), drawn.randint(12, 99), drawn.randint(100, 999)
        text = f"What is {a} times {b} plus {c}?"
        found.append(Question(text, form="number", reference=str(a * b + c), grader="number", id=f"sum-{number}"))
    return found


def questions_in_turn(count: int) -> list[tuple[str, Question]]:
    """Return `count` questions of each kind, with their kinds, alternating between the kinds."""
    kinds = {name: load(name, count) for name in KINDS[:3]} | {"arithmetic": arithmetic(count)}
    return [(kind, asked[number]) for number in range(count) for kind, asked in kinds.items()]


@dataclass
class Row:
    """A thought about a question, or the first `budget` tokens of the thought."""

    question: Question
    order: tuple[int, ...]
    generation: Generation
    number: int
    kept: Kept | None = None
    budget: int | None = None

    @property
    def shown(self) -> Question:
        """The question with its options in the order of this thought."""
        options = tuple(self.question.options[i] for i in self.order)
        return replace(self.question, options=options, reference=None, grader="") if options else self.question


@torch.no_grad()
def write(model: LocalModel, batch: Batch, generations: Sequence[Generation]) -> list[Kept]:
    """Finish generations, from a batch that has read their prompts; return each row's keys and values."""
    rules, active, kept = model.backend.rules, [*generations], dict[int, Kept]()
    generators = {id(each): torch.Generator().manual_seed(each.seed) for each in generations if each.seed is not None}
    while True:
        tokens = batch.logits.argmax(-1).tolist()
        drawn = [row for row, generation in enumerate(active) if id(generation) in generators]
        if drawn:
            chances = [torch.rand(1, generator=generators[id(active[row])]).item() for row in drawn]
            found = draw(batch.logits[drawn], chances, active[drawn[0]].top_p)
            for row, token in zip(drawn, found, strict=True):
                tokens[row] = token
        own = torch.tensor(tokens, device=batch.logits.device)[:, None]
        log_p = batch.logits.log_softmax(-1).gather(-1, own)[:, 0].tolist()
        for generation, token, value in zip(active, tokens, log_p, strict=True):
            generation.written.append(token)
            generation.log_p.append(value)
        rows = []
        for row, generation in enumerate(active):
            if rules.ended(generation):
                states = cast(KeptRow, batch.kept(row))  # these models have no layer with a sliding window
                kept[id(generation)] = states, [*generation.prompt, *generation.written[:-1]]
            else:
                rows.append(row)
        if not rows:
            return [kept[id(generation)] for generation in generations]
        active = [active[row] for row in rows]
        batch.step(rows, [generation.written[-1] for generation in active])


@torch.no_grad()
def extend(batch: Batch, tokens: Sequence[Sequence[int]]) -> None:
    """Send further tokens of each row of a batch through the network, at least one per row."""
    most = max(map(len, tokens))
    padded = batch.mask.new_tensor([[0] * (most - len(row)) + [*row] for row in tokens])
    mask = batch.mask.new_tensor([[0] * (most - len(row)) + [1] * len(row) for row in tokens])
    width = 1 if most < WIDE else most  # one pass over a few tokens per row takes as long as twenty passes over one
    for first in range(0, most, width):
        batch.mask = torch.cat([batch.mask, mask[:, first : first + width]], 1)
        positions = (batch.mask.cumsum(-1) - 1).clamp(min=0)[:, -width:]
        batch.logits = next_logits(batch.model, batch.cache, batch.mask, padded[:, first : first + width], positions)


@torch.no_grad()
def behind(model: LocalModel, begun: Sequence[Kept], sequences: Sequence[Sequence[int]]) -> Batch:
    """Return a batch that has read `sequences`, reusing keys and values of the tokens shared with the rows `begun`."""
    same = [
        min(common_length(tokens, sequence), len(sequence) - 2)
        for (_, tokens), sequence in zip(begun, sequences, strict=True)
    ]
    parts = list(zip(begun, same, sequences, strict=True))
    batch = go_on(model.backend.model, [(row, length, sequence[length]) for (row, _), length, sequence in parts])
    extend(batch, [sequence[length + 1 :] for _, length, sequence in parts])
    return batch


def bins(model: LocalModel, batch: Batch) -> list[list[float]]:
    """Return the probabilities of the ten digits as next token of each row."""
    digits = batch.logits[:, list(model.prompting.token_ids.digits)].double().softmax(-1)
    return [[round(p, 6) for p in row] for row in digits.tolist()]


def choices(model: LocalModel, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return, after each row's thought, ln P of the letters and the digits' probabilities after the best letter."""
    bundles = [model.prompting.choices(row.shown, thought_of(model, row)) for row in rows]
    starts = [bundle.positions[0][1] for bundle in bundles]
    sequences = [bundle.answers[0][:start] for bundle, start in zip(bundles, starts, strict=True)]
    batch = behind(model, [row.kept for row in rows if row.kept], sequences)
    letters = batch.logits.double().log_softmax(-1)[:, list(model.prompting.token_ids.letters)].tolist()
    read = [dict(zip(row.order, log_p, strict=False)) for row, log_p in zip(rows, letters, strict=True)]
    best = [log_p.index(max(log_p[: len(row.order)])) for row, log_p in zip(rows, letters, strict=True)]
    extend(batch, [bundle.answers[i][start:] for bundle, start, i in zip(bundles, starts, best, strict=True)])
    stated = bins(model, batch)
    return [
        {"log_p": [found[i] for i in range(len(found))], "bins": digits}
        for found, digits in zip(read, stated, strict=True)
    ]


def numbers(model: LocalModel, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the number written after each row's thought; for `STATED` thoughts also the digits' probabilities."""
    texts = [thought_of(model, row) for row in rows]
    generations = [
        Generation(model.prompting.answer(row.question, text), "short", 20)
        for row, text in zip(rows, texts, strict=True)
    ]
    batch = behind(model, [row.kept for row in rows if row.kept], [generation.prompt for generation in generations])
    kept = write(model, batch, generations)
    answers = [model.backend.rules.answer(generation) for generation in generations]
    asked = [i for i, row in enumerate(rows) if row.number < STATED and row.budget in (None, 0)]
    stated: dict[int, list[float]] = {}
    if asked:
        sequences = [model.prompting.confidence(rows[i].question, answers[i], texts[i]) for i in asked]
        stated = dict(zip(asked, bins(model, behind(model, [kept[i] for i in asked], sequences)), strict=True))
    return [
        {"answer": read_answer(text, "number"), "log_p": sum(generation.log_p[:-1]), "bins": stated.get(i)}
        for i, (text, generation) in enumerate(zip(answers, generations, strict=True))
    ]


def thought_of(model: LocalModel, row: Row) -> str:
    """Return the text of a row's thought, or of its first tokens."""
    return model.backend.rules.thought(row.generation).text or ""


def rows_of(model: LocalModel, question: Question) -> list[Row]:
    """Return a row for each thought about a question, with a generation that has no tokens yet."""
    given = tuple(range(len(question.options)))
    rows = []
    for number in range(THOUGHTS):
        row = Row(
            question, other_order(len(given)) if number % 2 and given else given, Generation([], "text", 1), number
        )
        row.generation = model.prompting.thought(row.shown, model.backend.limit)
        if number:
            row.generation = model.driver.drawn(row.generation, question, f"thought {number}")
        rows.append(row)
    return rows


def evidence_of(model: LocalModel, off: LocalModel, asked: Sequence[tuple[str, Question]]) -> list[dict[str, Any]]:
    """Return the evidence of the questions as JSON lines; `off` is the model without thoughts."""
    plain = Calibrator(off, method="posterior").answer_window([question for _, question in asked])
    rows = [row for _, question in asked for row in rows_of(model, question)]
    programs = {
        question.id: Generation(model.prompting.program(question), "text", PROGRAM_TOKENS, stop=(FENCE,))
        for _, question in asked
        if not question.options
    }
    generations = [*(row.generation for row in rows), *programs.values()]
    batch = cast(Batch, model.backend.passes.batch(generations))
    for row, kept in zip(rows, write(model, batch, generations), strict=False):
        row.kept = kept
    shorter = [
        replace(
            row,
            generation=replace(row.generation, written=row.generation.written[:budget], limit=budget),
            budget=budget,
        )
        for row in rows
        for budget in BUDGETS
        if not row.number and budget < len(row.generation.written)
    ]
    everything, read = [*rows, *shorter], dict[int, dict[str, Any]]()
    for reader, wanted in ((choices, True), (numbers, False)):
        some = [row for row in everything if bool(row.question.options) is wanted]
        for first in range(0, len(some), ROWS):
            part = some[first : first + ROWS]
            read |= zip(map(id, part), reader(model, part), strict=True)
    lines = []
    for (kind, question), record in zip(asked, plain, strict=True):
        own = [row for row in everything if row.question is question]
        thoughts = [
            read[id(row)]
            | {"order": row.order, "tokens": len(row.generation.written), "prompt": len(row.generation.prompt)}
            | {
                "cut": model.backend.rules.thought(row.generation).cut,
                "budget": row.budget,
                "text": thought_of(model, row),
            }
            for row in own
        ]
        line: dict[str, Any] = {"kind": kind, "id": question.id, "reference": question.reference, "thoughts": thoughts}
        line["plain"] = to_plain(record)  # type: ignore[arg-type]
        if not question.options:
            line["program"] = computed(OPENING + model.backend.rules.text(programs[question.id])).text
        lines.append(line)
    return lines


def collect(model: str, evidence: Path, minutes: float, questions: int, window: int) -> None:
    """Append the evidence of all questions that have none yet in the file `evidence`."""
    cache = ModelCache()
    thinking_format, off = (
        LocalModel(cache.load(ModelSettings(name=model)), thinking=thinking) for thinking in (LONGEST, "off")
    )
    collect_lines(
        evidence, questions_in_turn(questions), minutes, lambda asked: evidence_of(thinking_format, off, asked), window
    )


if __name__ == "__main__":
    collect_or_report(__doc__, collect, report, minutes=60.0, questions=150, window=WINDOW)
