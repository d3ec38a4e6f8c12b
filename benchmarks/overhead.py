"""Cost of an answer with stated confidence and entropy, outside bursts, relative to plain `model.generate`.

The library and plain generation get the same prompts, 16 questions at a time; times include tokenization. Plain
generation is greedy, left-padded, on the same weights without an adapter. The library is measured with an untouched
adapter, and with an adapted model. In the second case, the frozen and the adapted model read every question, and the
adapted model rates its own answers, as in the paper, or the frozen model's answers, as on a server and in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.by_hand import by_library
from benchmarks.setting import Say, Setting
from benchmarks.timing import Work, alternate, medians
from secl.backends.local.model import LocalModel
from secl.backends.prompting import Prompting
from secl.prompts.parsing import is_complete
from secl.prompts.templates import MAX_ANSWER_TOKENS
from secl.question import Form, Question

BATCH = 16
FORMS: tuple[Form, ...] = ("choice", "short", "sentence", "number")
PLAIN = "plain_generation"
ADAPTED, FROZEN_ANSWERS = "adapted", "adapted_frozen_answers"


def measure(setting: Setting, say: Say) -> dict[str, Any]:
    """Return, for each form of answer, seconds per question and overheads (seconds / those of plain generation - 1)."""
    found: dict[str, Any] = {}
    for form in FORMS:
        count = setting.questions
        questions = setting.choices(count) if form == "choice" else setting.open(form, count)
        found[form] = compare(setting, questions)
        told = ", ".join(f"{name.replace('_', ' ')} {100 * more:+.0f} %" for name, more in found[form]["over"].items())
        say(f"{form}: {told}")
    return {
        "ratios": {
            "overhead_vs_generation": found["choice"]["over"][ADAPTED],
            **{f"open_overhead_{model}": worst(found, model) for model in ("untouched", ADAPTED, FROZEN_ANSWERS)},
        },
        "overhead": found,
    }


def worst(found: dict[str, Any], model: str) -> float:
    """Return the largest of a model's overheads for the forms of open answers."""
    return float(max(found[form]["over"][model] for form in FORMS if form != "choice"))


def compare(setting: Setting, questions: Sequence[Question]) -> dict[str, Any]:
    """Measure plain generation and the library's models on questions of one form."""
    form = questions[0].form
    base, untouched = setting.loaded(), setting.library()
    adapted = {ADAPTED: setting.library(), FROZEN_ANSWERS: setting.library(answer_weights="frozen")}
    for model in adapted.values():
        by_library(model, setting.choices(2), "trained")
    plain, ends = Writer(base.model, base.tokenizer, untouched.prompting), untouched.backend.rules.end_ids
    # A number may come after some lines of reasoning; other answers end with their line.
    stops = ends | plain.breaks() if form in ("short", "sentence") else ends
    works: dict[str, Work] = {
        PLAIN: lambda: plain.write(questions, MAX_ANSWER_TOKENS[form], stops, form),
        "untouched": lambda: read(untouched, questions),
        **{name: partial(read, model, questions) for name, model in adapted.items()},
    }
    plain.write(questions[:1], 1, stops)
    each = medians(alternate(setting.rounds, works), len(questions))
    over = {name: took / each[PLAIN] - 1 for name, took in each.items() if name != PLAIN}
    return {"seconds": each, "over": over, "questions": len(questions)}


def read(model: LocalModel, questions: Sequence[Question]) -> None:
    """Answer questions with the library, a window at a time."""
    for place in range(0, len(questions), BATCH):
        window = questions[place : place + BATCH]
        model.prefetch(window, [()] * len(window), weights_fixed=True)
        for question in window:
            model.answer(question)


class Writer:
    """Writes greedy answers to the library's prompts with plain transformers, a batch at a time."""

    def __init__(self, model: Any, tokenizer: Any, prompting: Prompting) -> None:
        self.model, self.tokenizer, self.prompting = model, tokenizer, prompting

    def decode(self, rows: Tensor) -> list[str]:
        return [self.tokenizer.decode(row, skip_special_tokens=True) for row in rows.tolist()]

    def breaks(self) -> set[int]:
        """Return the tokens that contain a line break; a line break ends a short answer."""
        return {i for i in range(len(self.tokenizer)) if "\n" in self.tokenizer.decode([i])}

    @torch.no_grad()
    def write(self, questions: Sequence[Question], limit: int, ends: set[int], form: Form = "choice") -> None:
        """Write and decode answers of at most `limit` tokens; a token of `ends` or a final number ends an answer."""
        for place in range(0, len(questions), BATCH):
            batch = questions[place : place + BATCH]
            prompts = [self.prompting.answer(question) for question in batch]
            longest = max(map(len, prompts))
            written = self.model.generate(
                input_ids=torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts]),
                attention_mask=torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]),
                do_sample=False,
                max_new_tokens=limit,
                eos_token_id=sorted(ends),
                pad_token_id=min(ends),
                stopping_criteria=[partial(self._complete, longest)] if form == "number" else [],
            )
            self.decode(written[:, longest:])

    def _complete(self, begin: int, written: Tensor, _scores: Tensor, **_options: Any) -> Tensor:
        """Return which rows have written their final number, by the library's rule."""
        texts = self.decode(written[:, begin:])
        return torch.tensor([is_complete(text, "number") for text in texts])
