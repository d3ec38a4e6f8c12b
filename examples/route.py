"""Ask a small model first, and a larger model if the small model's confidence is low; count the savings.

    secl threshold RUN --risk 0.1                       # lowest confidence of accepted answers, such as 0.8
    secl serve state --model smollm2 --accept 0.8       # the small model, with this threshold
    python examples/route.py QUESTIONS.jsonl http://127.0.0.1:8080/v1 http://127.0.0.1:8000/v1 0.1 2.0

The second address is a server with OpenAI's chat API; OPENAI_API_KEY is its key. The last two numbers are the prices of
a thousand tokens of the small and the large model. The price of the small model includes the tokens of its confidences.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai

import secl


@dataclass(frozen=True)
class Endpoint:
    """A model at an address, with the price of a thousand tokens."""

    client: openai.OpenAI
    model: str
    price: float

    @classmethod
    def at(cls, address: str, price: float, key: str | None = None) -> Endpoint:
        """Return the first model that an address lists. Without a key, the SDK uses OPENAI_API_KEY."""
        client = openai.OpenAI(base_url=address, api_key=key)
        return cls(client, next(iter(client.models.list())).id, price)

    def ask(self, question: secl.Question) -> tuple[Any, float]:
        """Return a server's answer with its confidence and its price."""
        body = {"question": question.text, "options": list(question.options), "detail": "full"}
        reply: Any = self.client.post("/ask", body=body, cast_to=object)
        return reply, self.price * sum(reply["detail"]["ledger"].values()) / 1000

    def chat(self, text: str) -> tuple[str, float]:
        """Return any model's reply to a text, with its price."""
        completion = self.client.chat.completions.create(model=self.model, messages=[{"role": "user", "content": text}])
        tokens = completion.usage.total_tokens if completion.usage is not None else 0
        return completion.choices[0].message.content or "", self.price * tokens / 1000


@dataclass(frozen=True)
class Routed:
    """An answer by the "small" or "large" model, the small model's confidence in its own answer, and the prices."""

    question: secl.Question
    answer: str
    by: str
    confidence: float
    paid_small: float
    paid_large: float


def route(questions: Iterable[secl.Question], small: Endpoint, large: Endpoint) -> Iterator[Routed]:
    """Ask the small model; if the answer is not accepted, ask the large one.

    Raises:
        SystemExit: the small model's server has no threshold.
    """
    for question in questions:
        first, paid = small.ask(question)
        if first["accepted"] is None:
            raise SystemExit("the small model's server accepts everything; start it with secl serve --accept 0.8")
        answer, by, more = first["text"], "small", 0.0
        if not first["accepted"]:
            choices = "".join(f"\n{question.named(letter)}" for letter in question.letters)
            (answer, more), by = large.chat(question.text + choices), "large"
        yield Routed(question, answer, by, first["confidence"], paid, more)


def bill(answers: list[Routed]) -> str:
    """Return the price paid, and an estimate of the price if the large model had answered every question."""
    sent_on = [each for each in answers if each.by == "large"]
    paid = sum(each.paid_small + each.paid_large for each in answers)
    kept = (
        f"{len(answers) - len(sent_on)} of {len(answers)} questions were answered by the small model; paid {paid:.4f}"
    )
    if not sent_on:
        return f"{kept}, and the large model was never asked."
    alone = len(answers) * sum(each.paid_large for each in sent_on) / len(sent_on)
    saved = f" ({1 - paid / alone:.0%} saved)" if alone else ""
    return f"{kept}, where the large model alone would have cost about {alone:.4f}{saved}."


def main(file: str, small: str, large: str, price_small: str = "0", price_large: str = "1") -> None:
    """Route the questions of a file. Print each answer, then the bill."""
    first, second = Endpoint.at(small, float(price_small), key="none"), Endpoint.at(large, float(price_large))
    answers = []
    for each in route(secl.read_rows(Path(file)).questions, first, second):
        answers.append(each)
        print(f"{each.by}  {each.confidence:.2f}  {each.question.text[:60]}  ->  {each.answer}")
    print(bill(answers))


if __name__ == "__main__":
    main(*sys.argv[1:])
