"""A model without the library: prompts written out, token ids from the tokenizer, logits from transformers."""

from collections.abc import Sequence
from typing import Any

import torch

from secl.backends.local.model import LocalModel
from secl.question import LETTERS, Question
from tests.tiny import tiny_model, tiny_tokenizer

INSTRUCTION = "Answer with the letter of the correct option."
FEW_WORDS = "Answer with a few words and no explanation."
ONE_SENTENCE = "Answer truthfully in one short sentence."
HOW_SURE = (
    "How confident are you that your answer is correct? State it as a single digit from 0 to 9, where 0 means a 0-10% "
    "chance of being correct and 9 means 90-100%.\nReply in exactly this format:\nConfidence: <digit>"
)


def tokens_of(text: str) -> list[int]:
    tokens: list[int] = tiny_tokenizer()(text, add_special_tokens=False)["input_ids"]
    return tokens


def chat(*turns: str, prefill: str = "") -> str:
    """Return turns of user and assistant, and the beginning of the assistant's next turn."""
    roles = ("user", "assistant")
    told = "".join(f"<|start|>{roles[place % 2]}\n{turn}<|end|>\n" for place, turn in enumerate(turns))
    return f"{told}<|start|>assistant\n{prefill}"


@torch.no_grad()
def log_p(network: Any, tokens: Sequence[int]) -> torch.Tensor:
    """Return log-probabilities (tokens, vocabulary) of the token after each token, from a plain pass."""
    found: torch.Tensor = network(input_ids=torch.tensor([list(tokens)])).logits[0].double().log_softmax(-1)
    return found


def generated(
    network: Any, model: LocalModel, question: Question, *, limit: int = 20, seed: int = 0, **how: Any
) -> str:
    """Return the text that plain `generate` writes after the prompt of a question."""
    begun, ends = torch.tensor([model.prompting.answer(question)]), sorted(model.backend.rules.end_ids)
    how = {"do_sample": False, "max_new_tokens": limit, "eos_token_id": ends, **how}
    torch.manual_seed(seed)
    ids = network.generate(begun, attention_mask=torch.ones_like(begun), **how)[0, begun.shape[1] :]
    return str(model.backend.token_ids.tokenizer.decode(ids, skip_special_tokens=True))


class Alone:
    """The same model without the library."""

    def __init__(self, family: str) -> None:
        self.model = tiny_model(family)

    def log_p(self, tokens: Sequence[int]) -> torch.Tensor:
        """Return log-probabilities (tokens, vocabulary) of the token after each token."""
        return log_p(self.model, tokens)

    def written(self, prompt: str, limit: int) -> str:
        """Return the text that plain `generate` writes after a prompt."""
        begun = torch.tensor([tokens_of(prompt)])
        how = {"do_sample": False, "max_new_tokens": limit, "pad_token_id": 1}
        ids = self.model.generate(begun, attention_mask=torch.ones_like(begun), **how)
        return str(tiny_tokenizer().decode(ids[0, begun.shape[1] :], skip_special_tokens=True))

    def entropies(self, user: str, prefill: str, answer: str) -> list[float]:
        """Return entropies in nats before every token of an answer and before the confidence digit."""
        prompt = chat(user, prefill=prefill)
        behind = self.log_p(tokens_of(prompt + answer)[:-1])[len(tokens_of(prompt)) - 1 :]
        rows = [*behind, self._before_the_digit(user, prefill + answer)]
        return [-(row.exp() * row).sum().item() for row in rows]

    def confidence(self, user: str, answer: str) -> float:
        """Return the confidence in an answer: Eq. soft_conf over the digits after "Confidence: "."""
        prompt = chat(user, answer, HOW_SURE, prefill="Confidence: ")
        digits = [tokens_of(f"{prompt}{digit}")[-1] for digit in range(10)]
        shares = self._before_the_digit(user, answer)[digits].softmax(-1)
        return float(shares @ ((torch.arange(10) + 0.5) / 10).double())

    def _before_the_digit(self, user: str, answer: str) -> torch.Tensor:
        return self.log_p(tokens_of(chat(user, answer, HOW_SURE, prefill="Confidence: 0"))[:-1])[-1]

    def letters(self, question: Question, order: Sequence[int]) -> list[float]:
        """Return ln P of the letter of each option."""
        lines = "".join(f"{letter}. {question.options[i]}\n" for letter, i in zip(LETTERS, order, strict=False))
        text = chat(f"Question: {question.text}\n{lines}\n{INSTRUCTION}", prefill="Answer:")
        shown = self.log_p(tokens_of(text))[-1]
        places = [shown[tokens_of(f"{text} {letter}")[-1]].item() for letter in LETTERS[: len(order)]]
        return [places[list(order).index(i)] for i in range(len(order))]

    def likelihood(self, question: Question | None, candidate: str) -> tuple[float, int]:
        """Return ln P of a candidate, and the number of its tokens."""
        asked = "" if question is None else f"Question: {question.text}\n"
        text = chat(f"{asked}\n{FEW_WORDS}", prefill="Answer:")
        before, tokens = tokens_of(text), tokens_of(f"{text} {candidate}")
        assert tokens[: len(before)] == before
        log_p = self.log_p(tokens)
        places = range(len(before), len(tokens))
        return sum(log_p[i - 1, tokens[i]].item() for i in places), len(places)

    def verdicts(self, question: Question, candidate: str) -> tuple[float, float]:
        """Return P(True) and P(False), summed over all spellings that are one token."""
        text = chat(
            f"Question: {question.text}\nProposed answer: {candidate}\n"
            "Is the proposed answer to the question correct? Reply with exactly one word, True or False."
        )
        shown = self.log_p(tokens_of(text))[-1].exp()
        sums = []
        for word in ("True", "False"):
            spellings = (word, f" {word}", word.lower(), f" {word.lower()}", word.upper())
            ids = {
                tokens[0]
                for spelling in spellings
                if len(tokens := tokens_of(text + spelling)[len(tokens_of(text)) :]) == 1
            }
            sums.append(sum(shown[i].item() for i in ids))
        return sums[0], sums[1]
