"""SECL in one flat file of plain transformers and PEFT, without the library.

The method for multiple-choice questions in the order of the paper: answer, stated confidence, entropy, gate, bursts,
normalised P(True), bin gate, three LoRA steps. The script leaves out open answers with their distractors, the KL term,
and models that think in spite of their chat template. It pads prompts into batches, and sends every pass through the
whole network. Tests compare the library's numbers with the script's numbers; benchmarks compare the speed.

    python examples/secl_by_hand.py FOLDER QUESTIONS.jsonl [--gate page-hinkley|always|never] [--tau 0.7] [--limit 20]

QUESTIONS.jsonl has one object a line: {"question": ..., "options": [...], "reference": "A"}. The script prints one JSON
line per question: answer, stated confidence, normalised P(True), target, and the frozen model's answer and confidence.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

INSTRUCTION = (
    "Answer with the letter of the correct option. Then state how confident you are that your answer is correct, as a "
    "single digit from 0 to 9, where 0 means a 0-10% chance of being correct and 9 means 90-100%.\n"
    "Reply in exactly this format:\nAnswer: <letter>\nConfidence: <digit>"
)
P_TRUE = "Is the proposed answer to the question correct? Reply with exactly one word, True or False."
CENTRES = (torch.arange(10) + 0.5) / 10
DATE = "26 Jul 2024"
Row = dict[str, Any]
"""A line of QUESTIONS.jsonl."""


class ByHand:
    """A chat model with LoRA on its last layers, and the steps of SECL."""

    def __init__(self, model: Any, tokenizer: Any, layers: Sequence[int], modules: Sequence[str], seed: int = 42):
        config = LoraConfig(
            r=8, lora_alpha=16, target_modules=list(modules), layers_to_transform=list(layers), task_type="CAUSAL_LM"
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.model = get_peft_model(model, config).eval()
        self.tokenizer = tokenizer
        self.optimizer = torch.optim.AdamW([p for p in self.model.parameters() if p.requires_grad], lr=5e-5)
        self.head = model.get_output_embeddings().weight.detach().float()
        self.cap = getattr(model.config, "final_logit_softcapping", None)
        digits = self.last_tokens(self.chat("x") + "Answer: A\nConfidence: ", "0123456789")
        self.digits = torch.tensor(digits)
        true = self.last_tokens(self.chat("x"), ["True", " True", "true", " true", "TRUE"])
        self.true = [token for token in dict.fromkeys(true) if token]

    def chat(self, user: str) -> str:
        turns = [{"role": "user", "content": user}]
        text: str = self.tokenizer.apply_chat_template(
            turns, tokenize=False, add_generation_prompt=True, date_string=DATE, enable_thinking=False
        )
        return text

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def last_tokens(self, text: str, words: Sequence[str]) -> list[int]:
        """Return the id of each word after `text`; 0 for a word that is not a single token."""
        prefix = self.encode(text + words[0])[:-1]
        ids = [self.encode(text + word) for word in words]
        return [i[-1] if i[:-1] == prefix else 0 for i in ids]

    def read(self, texts: Sequence[str], next_word: str) -> Tensor:
        """Return full-vocabulary logits (N, V) in float32 at the place of `next_word`."""
        rows = [self.encode(text + next_word)[:-1] for text in texts]
        longest = max(map(len, rows))
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows], device=self.model.device)
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=ids.device)
        network = self.model.get_base_model().model
        hidden = network(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
        last = hidden[torch.arange(len(rows)), torch.tensor([len(row) - 1 for row in rows])].float()
        logits: Tensor = last @ self.head.T
        if self.cap is not None:
            logits = self.cap * torch.tanh(logits / self.cap)
        return logits.cpu()

    def prompt(self, question: Row) -> str:
        options = "".join(f"{chr(65 + i)}. {option}\n" for i, option in enumerate(question["options"]))
        return self.chat(f"Question: {question['question']}\n{options}\n{INSTRUCTION}") + "Answer:"

    @torch.no_grad()
    def answer(self, question: Row) -> tuple[int, float, float]:
        """Return the number of the chosen option, the stated confidence (Eq. soft_conf), and the entropy in nats."""
        prompt = self.prompt(question)
        letters = self.last_tokens(prompt, [f" {chr(65 + i)}" for i in range(len(question["options"]))])
        first = self.read([prompt], " A")
        chosen = int(first[0, letters].argmax())
        second = self.read([f"{prompt} {chr(65 + chosen)}\nConfidence: "], "0")
        log_p = torch.cat([first, second]).log_softmax(-1)
        entropy = -(log_p.exp() * log_p).sum(-1).mean().item()
        return chosen, (second[0, self.digits].softmax(-1) @ CENTRES).item(), entropy

    @torch.no_grad()
    def normalised_p_true(self, question: Row, chosen: int, tau: float) -> float:
        """Return softmax(log P(True) / tau) of the chosen option over all options, from the frozen model."""
        texts = [
            self.chat(f"Question: {question['question']}\nProposed answer: {option}\n{P_TRUE}")
            for option in question["options"]
        ]
        with self.model.disable_adapter():
            p_true = self.read(texts, "True").softmax(-1)[:, self.true].sum(-1)
        return (p_true.log() / tau).softmax(-1)[chosen].item()

    def learn(self, question: Row, chosen: int, target: float) -> None:
        """Move the stated confidence towards the target by three AdamW steps (Eq. loss)."""
        text = f"{self.prompt(question)} {chr(65 + chosen)}\nConfidence: "
        for _ in range(3):
            confidence = self.read([text], "0")[0, self.digits].softmax(-1) @ CENTRES
            self.optimizer.zero_grad()
            (confidence - target).square().backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()


class PageHinkley:
    """The gate (Eq. ph). Opens a burst if the entropy stays above its moving average for long enough."""

    def __init__(
        self, ema: float = 0.05, epsilon: float = 0.05, threshold: float = 3.0, warmup: int = 30, burst: int = 50
    ):
        self.ema, self.epsilon, self.threshold, self.warmup, self.burst = ema, epsilon, threshold, warmup, burst
        self.seen = self.left = 0
        self.restart()

    def restart(self) -> None:
        self.mean = math.nan
        self.total = self.lowest = 0.0

    def step(self, entropy: float) -> bool:
        """Return whether the question with this entropy belongs to a burst."""
        self.seen += 1
        self.mean = entropy if math.isnan(self.mean) else self.mean + self.ema * (entropy - self.mean)
        self.total += entropy - self.mean - self.epsilon
        self.lowest = min(self.lowest, self.total)
        if self.left:
            self.left -= 1
            return True
        if self.seen > self.warmup and self.total - self.lowest > self.threshold:
            self.restart()
            self.left = self.burst - 1
            return True
        return False


def secl(
    hand: ByHand,
    questions: Sequence[Row],
    *,
    gate: str = "always",
    detector: PageHinkley | None = None,
    tau: float = 0.7,
    with_frozen: bool = True,
) -> Iterator[Row]:
    """Run a stream: answer, then, in a burst, learn if stated confidence and signal are more than one bin apart."""
    detector = detector or PageHinkley()
    for question in questions:
        chosen, stated, entropy = hand.answer(question)
        row: Row = {"answer": chr(65 + chosen), "confidence": stated, "entropy": entropy}
        if with_frozen:
            with torch.no_grad(), hand.model.disable_adapter():
                other, frozen, _ = hand.answer(question)
            row |= {"frozen_answer": chr(65 + other), "frozen_confidence": frozen}
        inside = detector.step(entropy) if gate == "page-hinkley" else gate == "always"
        if inside:
            signal = hand.normalised_p_true(question, chosen, tau)
            row |= {"norm_p_true": signal, "target": None}
            if abs(math.floor(stated * 10) - min(9, math.floor(signal * 10))) > 1:
                row["target"] = stated + 0.5 * max(-0.15, min(0.15, signal - stated))
                hand.learn(question, chosen, row["target"])
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("questions")
    parser.add_argument("--gate", choices=("page-hinkley", "always", "never"), default="page-hinkley")
    parser.add_argument("--tau", type=float, default=0.7)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--last", type=int, default=4, help="adapted layers, counted from the end")
    arguments = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(arguments.folder)
    model = AutoModelForCausalLM.from_pretrained(arguments.folder, dtype=torch.float32)
    count = model.config.num_hidden_layers
    hand = ByHand(model, tokenizer, range(count - arguments.last, count), ("q_proj", "v_proj"))
    with open(arguments.questions, encoding="utf-8") as lines:
        questions = [json.loads(line) for line in lines if line.strip()][: arguments.limit]
    for row in secl(hand, questions, gate=arguments.gate, tau=arguments.tau):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
