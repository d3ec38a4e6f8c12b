"""JSON objects that satisfy a schema, written token by token under masks of llguidance."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from secl.backends.local.fast.batch import Batch, fast_single_row
from secl.backends.local.loading.guard import enough_memory
from secl.backends.local.writer import draw
from secl.errors import ModelError, ParameterError, TooLongError, needs
from secl.fields.extraction import Objects
from secl.fields.schema import Node
from secl.fields.values import WrittenObject
from secl.records import Ledger

if TYPE_CHECKING:
    from secl.backends.local.backend import LocalBackend

WHITESPACE = r"\x20|\x0A\x20{0,32}"
"""Between two parts of an object: nothing, a space, or a line break with its indent; more would never end."""

LEAST_TOKENS = 512
"""Tokens that an object may have, unless its fields need more (`FIELD_TOKENS`)."""

FIELD_TOKENS = 64
"""Tokens that an object may have for each of its fields."""

SHORTEST = 8
"""Tokens of the shortest field with its name: less room for each is none."""


@dataclass
class _Row:
    """An object in the making.

    Attributes:
        matcher: what the schema allows next.
        generator: draws its tokens; None takes the most probable ones.
        tokens, log_p, entropy: of what is written; over the whole vocabulary.
    """

    matcher: Any
    generator: torch.Generator | None = None
    tokens: list[int] = field(default_factory=list)
    log_p: list[float] = field(default_factory=list)
    entropy: list[float] = field(default_factory=list)

    def written(self, tokenizer: Any) -> WrittenObject | None:
        """Return the object; None if it is not closed."""
        if not self.matcher.is_accepting():
            return None
        parts = [tokenizer.decode_bytes([token]) for token in self.tokens]
        # A character belongs to the token with its first byte.
        ends = accumulate(sum(byte & 0xC0 != 0x80 for byte in part) for part in parts)
        return WrittenObject(b"".join(parts).decode(), (*ends,), (*self.log_p,), (*self.entropy,))


class ObjectWriter:
    """Writes JSON objects with the frozen weights.

    Raises:
        ParameterError: llguidance is not installed.
        ModelError: llguidance cannot read the model's tokenizer.
    """

    def __init__(self, backend: LocalBackend, name: str) -> None:
        try:
            import llguidance
        except ImportError:
            raise ParameterError(needs("extract", "llguidance", "fields")) from None
        self._matcher = llguidance.LLMatcher
        self.backend = backend
        try:
            described = backend.token_ids.tokenizer.backend_tokenizer.to_str()  # type: ignore[attr-defined]
            self._tokenizer = llguidance.LLTokenizer(described, eos_token=sorted(backend.rules.end_ids))
        except (AttributeError, ValueError) as problem:
            raise ModelError(
                f"llguidance cannot read the tokenizer of the model {name!r} ({problem}); take a model whose folder "
                "has a tokenizer.json."
            ) from problem

    def write(
        self,
        prompt: Sequence[int],
        grammar: Node,
        fields: int,
        seeds: Callable[[WrittenObject], Sequence[int]],
        top_p: float,
    ) -> Objects:
        """Write the most probable object and one sample for each of the seeds; the prompt is read once.

        Raises:
            ParameterError: the schema is not valid, or has a keyword that llguidance does not know.
            TooLongError: prompt and object together are longer than the model can read.
            ModelError: the model did not close the object.
        """
        begun = self._begun(grammar)
        room = self.backend.limit - len(prompt)
        if room < SHORTEST * fields:
            raise TooLongError(
                f"the document takes {len(prompt)} tokens with its instructions, which leaves {max(0, room)} of the "
                f"{self.backend.limit} that the model can read for an object of {fields} fields; shorten the document."
            )
        limit = min(room, max(LEAST_TOKENS, FIELD_TOKENS * fields))
        with enough_memory(), torch.no_grad():
            first = Batch.of(self.backend.model, [list(prompt)])
            kept = replace(first, cache=copy.deepcopy(first.cache))
            (greedy,) = self._finish(first, [_Row(begun.deep_copy())], limit, top_p)
            if greedy is None:
                raise ModelError(
                    f"the model did not close the object within {limit} tokens; bound long texts by maxLength in the "
                    "schema, ask for fewer fields, or take a larger model."
                )
            drawn = [_Row(begun.deep_copy(), torch.Generator().manual_seed(seed)) for seed in seeds(greedy)]
            samples = self._finish(_repeated(kept, len(drawn)), drawn, limit, top_p) if drawn else []
        answering = len(prompt) + len(greedy.ends) - 1
        sampling = sum(len(row.tokens) - 1 for row in drawn)
        return Objects(
            greedy=greedy,
            samples=(*samples,),
            ledger=Ledger(answering=float(answering), sampling=float(sampling)),
            plain_tokens=float(answering),
        )

    def _begun(self, grammar: Node) -> Any:
        """Return the matcher of an object before its first token."""
        try:
            compiled = self._matcher.grammar_from_json_schema(
                dict(grammar), overrides={"whitespace_pattern": WHITESPACE}
            )
            matcher = self._matcher(self._tokenizer, compiled, log_level=0)
            reason = matcher.get_error()
        except ValueError as problem:
            reason = str(problem)
        if reason:
            raise ParameterError(f"the schema cannot constrain a model: {' '.join(reason.split()).rstrip('.')}.")
        return matcher

    def _finish(self, batch: Batch, rows: Sequence[_Row], limit: int, top_p: float) -> list[WrittenObject | None]:
        """Finish objects together; a finished one leaves the batch."""
        active = list(rows)
        while True:
            masks = np.stack([_mask(row.matcher, batch.logits.shape[1]) for row in active])
            allowed = batch.logits.masked_fill(~torch.from_numpy(masks).to(batch.logits.device), -torch.inf)
            chances = [torch.rand(1, generator=row.generator).item() for row in active if row.generator is not None]
            chosen = draw(allowed, chances, top_p) if chances else allowed.argmax(-1).tolist()
            log_p = batch.logits.log_softmax(-1)
            own = log_p[range(len(chosen)), chosen].tolist()
            entropies = torch.special.entr(log_p.exp()).sum(-1).tolist()
            for row, token, value, entropy in zip(active, chosen, own, entropies, strict=True):
                row.matcher.consume_token(token)
                row.tokens.append(token)
                row.log_p.append(min(0.0, value))
                row.entropy.append(entropy)
            going = [n for n, row in enumerate(active) if not row.matcher.is_stopped() and len(row.tokens) < limit]
            if not going:
                return [row.written(self._tokenizer) for row in rows]
            active = [active[n] for n in going]
            with fast_single_row if self.backend.writer.alone and len(going) == 1 else nullcontext():
                batch.step(going, [row.tokens[-1] for row in active])


def _mask(matcher: Any, width: int) -> NDArray[np.bool_]:
    """Return which of `width` tokens the schema allows next; embeddings may have more rows than the tokenizer."""
    bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8), bitorder="little")[:width]
    return np.pad(bits, (0, width - len(bits))).astype(bool)


def _repeated(batch: Batch, copies: int) -> Batch:
    """Return a batch of copies of a row."""
    batch.cache.batch_repeat_interleave(copies)
    return replace(batch, mask=batch.mask.repeat(copies, 1), logits=batch.logits.repeat(copies, 1))
