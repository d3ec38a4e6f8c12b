"""SECL to the letter of the paper in plain transformers: `examples.secl_by_hand` with the paper's question for P(True),
its bins, the KL term and open answers."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from examples.secl_by_hand import CENTRES, INSTRUCTION, ByHand, PageHinkley, Row

_SCALE = INSTRUCTION[INSTRUCTION.index("Then state") : INSTRUCTION.index("Answer: <letter>")]
OPEN = {
    "short": f"Answer without any explanation. {_SCALE}Answer: <a few words>\nConfidence: <digit>",
    "sentence": f"Answer truthfully. {_SCALE}Answer: <one short sentence>\nConfidence: <digit>",
}
P_TRUE = "Is the following answer to the question correct? (True/False)"
KINDS = {"short": "a few words", "sentence": "one short sentence"}


class PaperByHand(ByHand):
    """The paper's method: P(True) is one token, and a KL term keeps the frozen model's distribution at the digit."""

    def __init__(self, *arguments: Any, beta: float = 0.0, limit: int = 20) -> None:
        super().__init__(*arguments)
        self.true, self.beta, self.limit = self.true[:1], beta, limit

    def prompt(self, question: Row) -> str:
        if question["options"]:
            return super().prompt(question)
        return self.chat(f"Question: {question['question']}\n\n{OPEN[question['form']]}") + "Answer:"

    @torch.no_grad()
    def written(self, prompt: str, lines: int) -> str:
        """Return the greedy text after a prompt, written one token at a time until its lines are complete."""
        begun = self.encode(prompt)
        ids, text = list(begun), ""
        for _ in range(self.limit):
            logits = self.model(input_ids=torch.tensor([ids])).logits[0, -1]
            ids.append(int(logits.argmax()))
            text = self.tokenizer.decode(ids, skip_special_tokens=True)
            text = text[len(self.tokenizer.decode(begun, skip_special_tokens=True)) :]
            if ids[-1] == self.tokenizer.eos_token_id or (text.lstrip() if lines == 1 else text).count("\n") >= lines:
                break
        return text

    @torch.no_grad()
    def reply(self, question: Row) -> tuple[str, float, float]:
        """Return the answer, the stated confidence, and the entropy in nats."""
        if question["options"]:
            number, stated, entropy = self.answer(question)
            return f" {chr(65 + number)}", stated, entropy
        prompt = self.prompt(question)
        written = self.written(prompt, 1).split("Confidence:")[0]
        text = (" " if written[:1].isspace() else "") + (written.strip().splitlines() or [""])[0].rstrip()
        ids = self.encode(f"{prompt}{text}\nConfidence: 0")[:-1]
        logits = self.model(input_ids=torch.tensor([ids])).logits[0].float()
        inside = range(len(self.encode(prompt)), len(self.encode(prompt + text)))
        log_p = logits[[place - 1 for place in (*inside, len(ids))]].log_softmax(-1)
        entropy = -(log_p.exp() * log_p).sum(-1).mean().item()
        return text, (logits[-1, self.digits].softmax(-1) @ CENTRES).item(), entropy

    def listed(self, question: Row) -> list[str]:
        """Return the frozen model's list of answers."""
        asked = (
            "People gave five different answers to this question. Some are wrong. List their five answers, each on a "
            f"line of its own, each {KINDS[question['form']]}."
        )
        with self.model.disable_adapter():
            return self.written(f"{self.chat('Question: ' + question['question'] + chr(10) + asked)}1.", 5).splitlines()

    @torch.no_grad()
    def signal(self, question: Row, candidates: Sequence[str], tau: float) -> float:
        """Return softmax(log P(True) / tau) of the first candidate."""
        texts = [self.chat(f"Question: {question['question']}\n{P_TRUE}\nAnswer: {each}") for each in candidates]
        with self.model.disable_adapter():
            p_true = torch.stack([self.read([text], "True")[0].softmax(-1)[self.true].sum() for text in texts])
        return (p_true.double().log() / tau).softmax(-1)[0].item()

    def teach(self, question: Row, text: str, target: float) -> None:
        """Take three AdamW steps on (c - target)^2 + beta KL(base, adapted)."""
        behind = f"{self.prompt(question)}{text}\nConfidence: "
        with torch.no_grad(), self.model.disable_adapter():
            base = self.read([behind], "0")[0].log_softmax(-1)
        for _ in range(3):
            logits = self.read([behind], "0")[0]
            loss = (logits[self.digits].softmax(-1) @ CENTRES - target).square()
            loss = loss + self.beta * (base.exp() * (base - logits.log_softmax(-1))).sum()
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()


def secl_paper(
    hand: PaperByHand,
    questions: Iterable[tuple[Row, Sequence[str]]],
    tau: float,
    delta: float,
    detector: PageHinkley | None,
) -> Iterator[Row]:
    """Yield the rows of a stream; each question has the candidates of its P(True), the answer first."""
    for question, candidates in questions:
        text, stated, entropy = hand.reply(question)
        with hand.model.disable_adapter():
            other, frozen, _ = hand.reply(question)
        row: Row = {"answer": text.strip(), "confidence": stated, "entropy": entropy}
        row |= {"frozen_answer": other.strip(), "frozen_confidence": frozen}
        if (detector is None or detector.step(entropy)) and len(candidates) > 1:
            signal = hand.signal(question, candidates, tau)
            row |= {"norm_p_true": signal, "target": None}
            bins = math.floor(stated * 10), min(9, math.floor(signal * 10))
            if abs(bins[0] - bins[1]) > 1:
                row["target"] = stated + 0.5 * max(-delta, min(delta, (bins[1] + 0.5) / 10 - stated))
                hand.teach(question, text, row["target"])
        yield row
