"""Free texts, token by token, exactly as transformers' `generate` writes them.

Every text goes through the network alone, step by step, so that it does not depend on what else is written or read
meanwhile: rows of one batch would share kernels, and with them their last digits.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, TemperatureLogitsWarper, TopPLogitsWarper

from secl.backends.generation import TextRules
from secl.backends.text_stream import TextStream
from secl.writing import Finish, Piece, Token, Writing


def write_texts(model: Any, rules: TextRules, prompt: Sequence[int], writing: Writing) -> Iterator[Piece]:
    """Write texts behind a prompt, one token of each in turn.

    Args:
        model: a transformers causal language model, whose adapter is off.
        rules: tell the tokens that end a text.
        prompt: token ids.
        writing: how; `max_tokens` is given.
    """
    with torch.no_grad():
        tokens = torch.tensor([list(prompt)], device=model.device)
        cache = DynamicCache(config=model.config)
        logits = _forward(model, tokens, cache, len(prompt))
    # The prompt goes through the network once for all texts.
    caches = [cache, *(copy.deepcopy(cache) for _ in range(writing.n - 1))]
    texts = [_Text(model, rules, prompt, writing, number, each, logits) for number, each in enumerate(caches)]
    while texts:
        for text in texts:
            yield text.step()
        texts = [text for text in texts if not text.ended]


class _Text:
    """One text in the making.

    Attributes:
        ended: whether its last piece is out.
    """

    def __init__(
        self,
        model: Any,
        rules: TextRules,
        prompt: Sequence[int],
        writing: Writing,
        number: int,
        cache: Any,
        logits: Tensor,
    ) -> None:
        self.model, self.rules, self.writing, self.number = model, rules, writing, number
        self.ended = False
        self._prompt = len(prompt)
        self._cache, self._logits = cache, logits
        self._stream = TextStream(rules.tokenizer, prompt, writing.stop)
        self._generator = torch.Generator(model.device).manual_seed(writing.seed + number)
        self._written = 0
        self._latest = 0
        self._warpers: list[Any] = []
        if writing.temperature not in (0, 1):
            self._warpers.append(TemperatureLogitsWarper(float(writing.temperature)))
        if writing.top_p < 1:
            self._warpers.append(TopPLogitsWarper(writing.top_p))

    @torch.no_grad()
    def step(self) -> Piece:
        """Write the next token."""
        if self._written:
            latest = torch.tensor([[self._latest]], device=self.model.device)
            self._logits = _forward(self.model, latest, self._cache, self._prompt + self._written)
        token = self._choose()
        self._latest, self._written = token, self._written + 1
        if token in self.rules.end_ids:
            return self._last("", "stop")
        reported = () if self.writing.top_logprobs is None else (self._report(token, self.writing.top_logprobs),)
        text = self._stream.push(token)
        if self._stream.stopped or self._written == self.writing.max_tokens:
            return self._last(text, "stop" if self._stream.stopped else "length", reported)
        return Piece(choice=self.number, text=text, tokens=reported)

    def _last(self, text: str, finish: Finish, tokens: tuple[Token, ...] = ()) -> Piece:
        self.ended = True
        return Piece(
            choice=self.number,
            text=text + self._stream.close(),
            tokens=tokens,
            finish=finish,
            prompt_tokens=self._prompt,
            completion_tokens=self._written,
        )

    def _choose(self) -> int:
        if self.writing.temperature == 0:
            return int(self._logits.argmax(-1))
        scores = self._logits
        for warper in self._warpers:
            scores = warper(None, scores)
        return int(torch.multinomial(scores.softmax(-1), 1, generator=self._generator))

    def _report(self, token: int, count: int) -> Token:
        log_p = self._logits[0].log_softmax(-1)
        best = log_p.topk(count)
        top = tuple(
            (self._word(i), min(0.0, p)) for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        )
        return Token(self._word(token), min(0.0, float(log_p[token])), top)

    def _word(self, token: int) -> str:
        return str(self.rules.tokenizer.decode([token]))


def _forward(model: Any, tokens: Tensor, cache: Any, length: int) -> Tensor:
    """Logits (1, vocabulary) in float32 of the token behind `tokens`, which end a text of `length` tokens."""
    out = model(
        input_ids=tokens,
        attention_mask=tokens.new_ones(1, length),
        position_ids=torch.arange(length - tokens.shape[1], length, device=tokens.device)[None],
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    logits: Tensor = out.logits[:, -1].float()
    return logits
