"""Open answers against plain transformers: the text of `generate`, and a confidence read from one pass over it.

The prompts are written out here, so that nothing of the library's own prompting, reading or writing is trusted.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from secl.backends.local.model import LocalModel
from secl.prompts.templates import MAX_ANSWER_TOKENS
from secl.question import Question
from tests.backends.local.conftest import MakeModel
from tests.tiny import tiny_model, tiny_tokenizer

pytestmark = pytest.mark.heavy

SHORT = "Answer with a few words and no explanation."
SENTENCE = "Answer truthfully in one short sentence."
NUMBER = (
    "Think step by step in a few short lines. Then write the final number on a line of its own in the format\n"
    "Answer: <number>"
)
HOW_SURE = (
    "How confident are you that your answer is correct? State it as a single digit from 0 to 9, where 0 means a 0-10% "
    "chance of being correct and 9 means 90-100%.\nReply in exactly this format:\nConfidence: <digit>"
)


class Plain:
    """A chat model as transformers gives it, and the question of each form as text."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model, self.tokenizer = model, tokenizer

    def chat(self, *turns: str) -> str:
        roles = ("user", "assistant")
        messages = [{"role": roles[place % 2], "content": turn} for place, turn in enumerate(turns)]
        text: str = self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, date_string="26 Jul 2024"
        )
        return text

    def ids(self, text: str) -> list[int]:
        found: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return found

    @torch.no_grad()
    def log_p(self, ids: list[int]) -> torch.Tensor:
        """Log-probabilities (length, vocabulary) behind each token."""
        logits: torch.Tensor = self.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()
        return logits.log_softmax(-1)

    def written(self, prompt: str, limit: int) -> str:
        ids = torch.tensor([self.ids(prompt)])
        whole = self.model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=limit, pad_token_id=1
        )
        text: str = self.tokenizer.decode(whole[0, ids.shape[1] :], skip_special_tokens=True)
        return text

    def confidence(self, user: str, answer: str) -> tuple[float, float]:
        """Of an answer: Eq. soft_conf over the digits behind "Confidence: ", and the entropy of that digit in nats."""
        prompt = self.chat(user, answer, HOW_SURE) + "Confidence: "
        ids = self.ids(prompt + "0")
        log_p = self.log_p(ids[:-1])[-1]
        digits = [self.ids(f"{prompt}{digit}")[-1] for digit in range(10)]
        shares = log_p[digits].softmax(-1)
        centres = (torch.arange(10) + 0.5) / 10
        return (shares @ centres).item(), -(log_p.exp() * log_p).sum().item()

    def entropy(self, user: str, prefill: str, answer: str) -> list[float]:
        """Of every token of the answer, in nats."""
        prompt = self.chat(user) + prefill
        begin = len(self.ids(prompt))
        ids = self.ids(prompt + answer)
        log_p = self.log_p(ids[:-1])[begin - 1 :]
        return [-(row.exp() * row).sum().item() for row in log_p]


def agree(plain: Plain, model: LocalModel, question: Question, user: str, prefill: str) -> None:
    reply = model.answer(question).reply
    text = plain.written(plain.chat(user) + prefill, MAX_ANSWER_TOKENS[question.form])
    if question.form == "number":
        assert text.startswith(reply.text)
    else:
        assert reply.text.strip() == (text.strip().splitlines() or [""])[0].rstrip()
    said = f" {reply.text}" if prefill and text.startswith(" ") else reply.text  # a short answer goes on behind a colon
    stated, last = plain.confidence(user, prefill + said)
    assert reply.confidence == pytest.approx(stated, abs=2e-5)
    entropies = [*plain.entropy(user, prefill, said), last]
    assert reply.entropy == pytest.approx(sum(entropies) / len(entropies), abs=2e-4)


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_open_answers_are_those_of_generate_and_their_confidence_that_of_one_pass(
    family: str, make_model: MakeModel
) -> None:
    plain, model = Plain(tiny_model(family), tiny_tokenizer()), make_model(family)
    for text in ("Who wrote Hamlet?", "Where is Oslo?", "Which metal is liquid?"):
        asked = f"Question: {text}\n\n"
        agree(plain, model, Question(text), f"{asked}{SHORT}", "Answer:")
        agree(plain, model, Question(text, form="sentence"), f"{asked}{SENTENCE}", "")
