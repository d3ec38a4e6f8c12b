"""Free texts, token by token, exactly as transformers' `generate` writes them.

Every text goes through the network alone, so that it does not depend on other texts that are written or read at the
same time. Rows of one batch share kernels, so the last digits of their logits depend on each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import torch
from transformers import LogitsProcessor, PreTrainedModel, TemperatureLogitsWarper, TopPLogitsWarper

from secl.backends.generation import TextRules
from secl.backends.local.fast.batch import Batch, TextBatch
from secl.backends.local.loading.model_parts import layers_of, text_config
from secl.backends.local.loading.placement import compute_device
from secl.backends.local.passes import Passes
from secl.backends.text_stream import FreeText
from secl.writing import Piece, Token, Writing

CGROUP = Path("/sys/fs/cgroup")
"""Folder in which Linux publishes the limits of a container."""

GREEDY = 1e-4
"""Minimum temperature of a draw. Lower ones take the most probable token, because divided logits may be infinite."""


def room_for_texts(model: PreTrainedModel) -> int:
    """Return the number of tokens whose keys and values fill half of the free memory.

    Answers and lessons need the other half.
    """
    config = text_config(model.config)
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    free = sum(map(_free_memory, {compute_device(layer) for layer in layers_of(model)}))
    return int(free // (2 * config.num_hidden_layers * 2 * heads * size * model.dtype.itemsize))


def _free_memory(device: torch.device) -> int:
    """Return the free bytes of a device; a container's limit counts."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    free: int = psutil.virtual_memory().available
    with suppress(OSError, ValueError):  # no limit
        limit = int((CGROUP / "memory.max").read_text())
        (used,) = re.findall(r"^anon (\d+)", (CGROUP / "memory.stat").read_text(), re.MULTILINE)
        free = min(free, limit - int(used))
    return max(0, free)


def write_texts(
    passes: Passes, rules: TextRules, prompt: Sequence[int], writing: Writing, ends: Sequence[int] = ()
) -> Iterator[Piece]:
    """Write texts after a prompt with the frozen model, one token of each text in turn; `max_tokens` is set."""
    begun = yield from passes.text(prompt)
    # The prompt goes through the network once for all texts.
    rows = [begun, *(replace(begun, cache=begun.chosen([0]).cache) for _ in range(writing.n - 1))]
    texts = [_Text(rules, prompt, writing, number, row, ends) for number, row in enumerate(rows)]
    while texts:
        for text in texts:
            yield text.step()
        texts = [text for text in texts if not text.ended]


class _Text(FreeText):
    """One unfinished text."""

    def __init__(
        self,
        rules: TextRules,
        prompt: Sequence[int],
        writing: Writing,
        number: int,
        row: Batch,
        ends: Sequence[int],
    ) -> None:
        super().__init__(rules, prompt, writing, number, ends)
        self._row = row
        self._generator = torch.Generator(row.logits.device).manual_seed(writing.seed + number)
        self._warpers: list[LogitsProcessor] = []
        if writing.temperature not in (0, 1):
            self._warpers.append(TemperatureLogitsWarper(float(writing.temperature)))
        if writing.top_p < 1:
            self._warpers.append(TopPLogitsWarper(writing.top_p))

    @torch.no_grad()
    def step(self) -> Piece:
        if self.draft.written:
            self._row.step([0], self.draft.written[-1:])
        token, top = self._choose(), self.writing.top_logprobs
        piece = self.push(token, () if top is None else (self._report(token, top),))
        if self.ended and isinstance(self._row, TextBatch):
            self.draft.begun = self._row.passed(0)
        return piece

    def _choose(self) -> int:
        if self.writing.temperature < GREEDY:
            return int(self._row.logits.argmax(-1))
        scores = self._row.logits
        for warper in self._warpers:
            scores = warper(None, scores)
        return int(torch.multinomial(scores.softmax(-1), 1, generator=self._generator))

    def _report(self, token: int, count: int) -> Token:
        log_p = self._row.logits[0].log_softmax(-1)
        best = log_p.topk(count)
        top = tuple(
            (self.word(i), min(0.0, p)) for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        )
        return Token(self.word(token), min(0.0, float(log_p[token])), top)
