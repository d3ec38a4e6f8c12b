"""Confidences of the facts in long texts, for which the right values are known.

    pip install countryinfo pycountry mendeleev    # values for the texts about knowledge
    python -m benchmarks.facts collect MODEL EVIDENCE.jsonl [--minutes 60] [--texts 100] [--window 32]
    python -m benchmarks.facts report EVIDENCE.jsonl

`collect` writes greedy texts of three kinds: paragraphs about countries and elements, summaries of generated documents,
and instructions with computed amounts and dates. Every third text is also sampled five times, and rated by a stated
digit. Uncertain values are read again as replies to a question about them alone. Texts about knowledge are read again
with a passage that states half of the values. `report` compares confidences from this evidence.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.fact_texts import FactPrompt, prompts_of
from benchmarks.facts_report import KINDS, report
from benchmarks.study import collect_lines, collect_or_report
from secl.backends.local.loading.loader import Loaded, load
from secl.facts.spans import find_spans
from secl.settings.groups import ModelSettings

NEW_TOKENS, TOP = 160, 5
"""Maximum number of tokens of a text, and number of most probable tokens recorded at each position."""

SAMPLED_EVERY, SAMPLES = 3, 5
"""One text in `SAMPLED_EVERY` is sampled `SAMPLES` times."""

UNCERTAIN = 0.9
"""Values with a higher probability are not read again."""

STATED = (
    "How likely is it that every fact in your answer is correct? Reply with one digit from 0 (certainly not) to 9 "
    "(certainly)."
)
GAP = '\n\nA sentence of the answer: "{}"\nWhat stands in place of ____? Reply with it alone.'


class Writer:
    """Writes and reads texts with a model, in batches.

    Attributes:
        ends: ids of the tokens that end a text.
    """

    def __init__(self, loaded: Loaded) -> None:
        self.model: Any = loaded.model
        self.tokenizer: Any = loaded.tokenizer
        ends: Any = loaded.end_ids or self.tokenizer.eos_token_id
        self.ends: set[int] = {ends} if isinstance(ends, int) else set(ends)

    def prompt(self, *messages: str) -> list[int]:
        """Return the tokens of a chat; the user writes the first message."""
        chat = [{"role": ("user", "assistant")[k % 2], "content": text} for k, text in enumerate(messages)]
        text = self.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def text(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(tokens, clean_up_tokenization_spaces=False))

    @torch.inference_mode()
    def write(self, prompts: Sequence[Sequence[int]], seed: int | None = None) -> list[dict[str, Any]]:
        """Return a text for each prompt; greedy without a seed."""
        widest = max(map(len, prompts))
        ids = torch.tensor([[0] * (widest - len(prompt)) + [*prompt] for prompt in prompts])
        mask = torch.tensor([[0] * (widest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        position, cache = (mask.cumsum(-1) - 1).clamp(min=0), None
        generator = torch.Generator().manual_seed(seed or 0)
        written: list[list[int]] = [[] for _ in prompts]
        steps: list[list[dict[str, Any]]] = [[] for _ in prompts]
        rows = [*range(len(prompts))]
        for _ in range(NEW_TOKENS):
            output = self.model(
                input_ids=ids, attention_mask=mask, position_ids=position, past_key_values=cache, logits_to_keep=1
            )
            cache, log_p = output.past_key_values, output.logits[:, -1].float().log_softmax(-1)
            entropy = -(log_p.exp() * log_p).sum(-1)
            ids = log_p.argmax(-1) if seed is None else log_p.exp().multinomial(1, generator=generator)[:, 0]
            top = log_p.topk(TOP)
            for k, row in enumerate(rows):
                token = int(ids[k])
                written[row].append(token)
                best = [
                    [self.text([int(i)]), round(float(p), 4)] for p, i in zip(*(each[k] for each in top), strict=True)
                ]
                steps[row].append({"ln_p": round(float(log_p[k, token]), 5), "entropy": float(entropy[k]), "top": best})
            live = [k for k, row in enumerate(rows) if written[row][-1] not in self.ends]
            if not live:
                break
            if len(live) < len(rows):
                kept = torch.tensor(live)
                cache.batch_select_indices(kept)
                ids, mask, position = ids[kept], mask[kept], position[kept]
                rows = [rows[k] for k in live]
            mask = torch.cat([mask, torch.ones_like(mask[:, :1])], 1)
            ids, position = ids[:, None], position[:, -1:] + 1
        return [self._line(tokens, made) for tokens, made in zip(written, steps, strict=True)]

    def _line(self, tokens: list[int], steps: list[dict[str, Any]]) -> dict[str, Any]:
        """Return a text with the place of each token; a character counts for the token that completes it."""
        ended = tokens[-1] in self.ends
        body, places, last = tokens[: len(tokens) - ended], [], 0
        for count in range(1, len(body) + 1):
            end = max(last, len(self.text(body[:count]).rstrip("\ufffd")))
            places.append([last, end])
            last = end
        return {"text": self.text(body), "ended": ended, "ids": body, "places": places, "steps": steps[: len(body)]}

    @torch.inference_mode()
    def read(self, prompt: Sequence[int], reply: Sequence[int]) -> list[float]:
        """Return ln P of each token of a reply."""
        logits = self.model(input_ids=torch.tensor([[*prompt, *reply]]), logits_to_keep=len(reply) + 1).logits[0, :-1]
        return [round(float(row[token]), 5) for row, token in zip(logits.float().log_softmax(-1), reply, strict=True)]

    @torch.inference_mode()
    def stated(self, prompt: Sequence[int]) -> float:
        """Return the expected digit after a prompt, as a probability."""
        digits = [self.tokenizer(str(digit), add_special_tokens=False)["input_ids"][-1] for digit in range(10)]
        p = self.model(input_ids=torch.tensor([prompt]), logits_to_keep=1).logits[0, -1, digits].float().softmax(-1)
        return float((p * (torch.arange(10) + 0.5) / 10).sum())


def gap_questions(prompt: str, line: dict[str, Any]) -> Iterator[tuple[int, str, str]]:
    """Yield the start of each uncertain value, a question with a gap in place of the value, and the value."""
    text = line["text"]
    ends = [0, *(match.end() for match in re.finditer(r"(?<=[.!?])\s+|\n+", text)), len(text)]
    for span in find_spans(text):
        own = [
            step["ln_p"]
            for (start, end), step in zip(line["places"], line["steps"], strict=True)
            if start < span.end and end > span.start
        ]
        if math.exp(sum(own)) < UNCERTAIN:
            first, last = max(end for end in ends if end <= span.start), min(end for end in ends if end >= span.end)
            sentence = f"{text[first : span.start]}____{text[span.end : last]}".strip()
            yield span.start, prompt + GAP.format(sentence), text[span.start : span.end]


def line_of(writer: Writer, kind: str, asked: FactPrompt, line: dict[str, Any], number: int) -> dict[str, Any]:
    """Return the evidence of a text: the text, and what the model says when it reads the text again."""
    again: dict[str, Any] = {
        "question": {
            start: math.fsum(writer.read(writer.prompt(question), writer.tokenizer(value)["input_ids"]))
            for start, question, value in gap_questions(asked.prompt, line)
        }
    }
    if asked.sentences:
        draw = random.Random(asked.name)
        chosen = draw.sample(sorted(asked.sentences), len(asked.sentences) // 2)
        passage = " ".join(asked.sentences[attribute] for attribute in chosen)
        prompt = writer.prompt(f"Use this passage: {passage}\n\n{asked.prompt}")
        again |= {"passage": passage, "chosen": sorted(chosen), "with_passage": writer.read(prompt, line["ids"])}
    if number % SAMPLED_EVERY == 0:
        again["stated"] = writer.stated(writer.prompt(asked.prompt, line["text"], STATED))
        samples = writer.write([writer.prompt(asked.prompt)] * SAMPLES, seed=number)
        again["samples"] = [sample["text"] for sample in samples]
    return {"kind": kind, "name": asked.name, **line, **again}


def collect(model: str, evidence: Path, minutes: float, texts: int, window: int) -> None:
    """Append the evidence of the prompts that have none yet in the file `evidence`."""
    writer = Writer(load(ModelSettings(name=model)))
    asked = [(kind, prompt, number) for kind in KINDS for number, prompt in enumerate(prompts_of(kind, texts))]

    def lines_of(part: Sequence[tuple[str, FactPrompt, int]]) -> Iterator[dict[str, Any]]:
        lines = writer.write([writer.prompt(prompt.prompt) for _, prompt, _ in part])
        for (kind, prompt, number), line in zip(part, lines, strict=True):
            yield line_of(writer, kind, prompt, line, number)

    collect_lines(evidence, asked, minutes, lines_of, window)


if __name__ == "__main__":
    collect_or_report(__doc__, collect, report, minutes=60.0, texts=100, window=32)
