"""Generation as plain transformers has it: what the library's answers are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from secl.backends.token_ids import render
from secl.prompts.templates import answer_prompt, confidence_prompt
from secl.question import Question


class Plain:
    """A model and its tokenizer, asked with the library's prompts."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model, self.tokenizer = model, tokenizer

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(self, rows: Tensor) -> list[str]:
        return [self.tokenizer.decode(row, skip_special_tokens=True) for row in rows.tolist()]

    def breaks(self) -> set[int]:
        """Tokens that hold a line break, with which a short answer ends."""
        texts = [self.tokenizer.decode([i]) for i in range(len(self.tokenizer))]
        return {i for i, text in enumerate(texts) if "\n" in text}

    def length_of_reply(self, question: Question) -> int:
        """Tokens of an answer with its confidence line."""
        prompts = answer_prompt(question), confidence_prompt(question, "A")
        before, after = (render(self.tokenizer, prompt) for prompt in prompts)
        return len(self.encode(after + "0")) - len(self.encode(before))

    def prompts(self, questions: Sequence[Question]) -> list[list[int]]:
        return [self.encode(render(self.tokenizer, answer_prompt(question))) for question in questions]

    @torch.no_grad()
    def generate(self, prompts: Sequence[Sequence[int]], **options: Any) -> Any:
        """What `model.generate` gives for one left-padded batch of prompts."""
        longest = max(map(len, prompts))
        return self.model.generate(
            input_ids=torch.tensor([[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts]),
            attention_mask=torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]),
            **options,
        )
