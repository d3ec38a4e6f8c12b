"""JSON objects that satisfy a schema, written token by token under masks of llguidance."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from secl.backends.local.asking.asker import Asker
from secl.backends.local.fast.batch import Batch, fast_single_row
from secl.backends.local.fast.batching import groups
from secl.backends.local.loading.guard import in_halves
from secl.backends.local.writer import draw
from secl.errors import ModelError, ParameterError, SeclError, TooLongError, UnfinishedError, needs
from secl.fields.extraction import ObjectRequest, Objects
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
        limit: most tokens.
        generator: draws its tokens; None takes the most probable ones.
        tokens, log_p, entropy: of what is written; over the whole vocabulary.
    """

    matcher: Any
    limit: int
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


@dataclass(frozen=True)
class _Task:
    """A request on its way.

    Attributes:
        prompt: token ids that the object follows.
        begun: the matcher of an object before its first token.
        limit: most tokens of an object.
    """

    request: ObjectRequest
    prompt: tuple[int, ...]
    begun: Any
    limit: int

    @property
    def tokens(self) -> int:
        """Most tokens of a row."""
        return len(self.prompt) + self.limit


class ObjectWriter:
    """Writes JSON objects with the frozen weights.

    Raises:
        ParameterError: llguidance is not installed.
        ModelError: llguidance cannot read the model's tokenizer.
    """

    def __init__(self, backend: LocalBackend, asker: Asker, name: str) -> None:
        try:
            import llguidance
        except ImportError:
            raise ParameterError(needs("extract", "llguidance", "fields")) from None
        self._matcher = llguidance.LLMatcher
        self.backend = backend
        self.asker = asker
        try:
            described = backend.token_ids.tokenizer.backend_tokenizer.to_str()  # type: ignore[attr-defined]
            self._tokenizer = llguidance.LLTokenizer(described, eos_token=sorted(backend.rules.end_ids))
        except (AttributeError, ValueError) as problem:
            raise ModelError(
                f"llguidance cannot read the tokenizer of the model {name!r} ({problem}); take a model whose folder "
                "has a tokenizer.json."
            ) from problem

    def write(
        self, requests: Sequence[ObjectRequest], samples: Callable[[ObjectRequest, WrittenObject], int]
    ) -> list[Objects | SeclError]:
        """Write the objects of requests together, as many at a time as there is memory for."""
        tasks: list[_Task] = []
        outcomes: list[Objects | SeclError | None] = []
        for request in requests:
            try:
                tasks.append(self._task(request))
                outcomes.append(None)
            except SeclError as problem:
                outcomes.append(problem)
        written: list[Objects | SeclError] = []
        for group in groups([task.tokens for task in tasks], self.backend.text_tokens):
            written += in_halves(partial(self._together, samples=samples), [tasks[number] for number in group])
        rest = iter(written)
        return [next(rest) if outcome is None else outcome for outcome in outcomes]

    def _task(self, request: ObjectRequest) -> _Task:
        """Return the task of a request.

        Raises:
            ParameterError: the schema is not valid, or has a keyword that llguidance does not know.
            TooLongError: prompt and object together are longer than the model can read.
        """
        begun, fields = self._begun(request.schema.grammar), len(request.schema.leaves)
        prompt = self.asker.prompting.answer(request.question)
        room = self.backend.limit - len(prompt)
        if room < SHORTEST * fields:
            raise TooLongError(
                f"the document takes {len(prompt)} tokens with its instructions, which leaves {max(0, room)} of the "
                f"{self.backend.limit} that the model can read for an object of {fields} fields; shorten the document."
            )
        limit = min(room, max(LEAST_TOKENS, FIELD_TOKENS * fields), request.max_tokens or room)
        return _Task(request, (*prompt,), begun, limit)

    @torch.no_grad()
    def _together(
        self, tasks: Sequence[_Task], samples: Callable[[ObjectRequest, WrittenObject], int]
    ) -> list[Objects | SeclError]:
        """Write the most probable objects of all tasks in one batch, then all samples; prompts are read once."""
        prompts = _Prompts(self.backend, [task.prompt for task in tasks])
        best = self._finish(
            prompts.batch(range(len(tasks))), [_Row(task.begun.deep_copy(), task.limit) for task in tasks]
        )
        wanted = [
            (number, self.asker.seed_for(task.request.question, f"object {sample}"))
            for number, (task, greedy) in enumerate(zip(tasks, best, strict=True))
            if greedy is not None
            for sample in range(samples(task.request, greedy))
        ]

        def sampled(some: Sequence[tuple[int, int]]) -> list[WrittenObject | None]:
            rows = [
                _Row(tasks[n].begun.deep_copy(), tasks[n].limit, torch.Generator().manual_seed(seed))
                for n, seed in some
            ]
            return self._finish(prompts.batch([n for n, _ in some]), rows)

        drawn: list[list[WrittenObject | None]] = [[] for _ in tasks]
        for group in groups([tasks[number].tokens for number, _ in wanted], self.backend.text_tokens):
            for place, each in zip(group, in_halves(sampled, [wanted[place] for place in group]), strict=True):
                drawn[wanted[place][0]].append(each)
        return [_outcome(*each) for each in zip(tasks, best, drawn, strict=True)]

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

    def _finish(self, batch: Batch, rows: Sequence[_Row]) -> list[WrittenObject | None]:
        """Finish objects together; a finished one leaves the batch."""
        top_p = self.asker.prompting.prompts.top_p
        active = list(rows)
        while True:
            masks = np.stack([_mask(row.matcher, batch.logits.shape[1]) for row in active])
            allowed = batch.logits.masked_fill(~torch.from_numpy(masks).to(batch.logits.device), -torch.inf)
            chances = [torch.rand(1, generator=row.generator).item() for row in active if row.generator is not None]
            # All rows of a batch are drawn, or none.
            chosen = draw(allowed, chances, top_p) if chances else allowed.argmax(-1).tolist()
            log_p = batch.logits.log_softmax(-1)
            own = log_p[range(len(chosen)), chosen].tolist()
            entropies = torch.special.entr(log_p.exp()).sum(-1).tolist()
            for row, token, value, entropy in zip(active, chosen, own, entropies, strict=True):
                row.matcher.consume_token(token)
                row.tokens.append(token)
                row.log_p.append(min(0.0, value))
                row.entropy.append(entropy)
            going = [n for n, row in enumerate(active) if not row.matcher.is_stopped() and len(row.tokens) < row.limit]
            if not going:
                return [row.written(self._tokenizer) for row in rows]
            active = [active[n] for n in going]
            with fast_single_row if self.backend.writer.alone and len(going) == 1 else nullcontext():
                batch.step(going, [row.tokens[-1] for row in active])


def _mask(matcher: Any, width: int) -> NDArray[np.bool_]:
    """Return which of `width` tokens the schema allows next; embeddings may have more rows than the tokenizer."""
    bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8), bitorder="little")[:width]
    return np.pad(bits, (0, width - len(bits))).astype(bool)


class _Prompts:
    """Prompts that went through the network, for rows to go on from."""

    def __init__(self, backend: LocalBackend, prompts: Sequence[tuple[int, ...]]) -> None:
        self._prefill = backend.prefill
        self._passes = [] if self._prefill is None else self._prefill.read(prompts)
        self._plain = Batch.of(backend.model, [*map(list, prompts)]) if self._prefill is None else None

    def batch(self, numbers: Sequence[int]) -> Batch:
        """Return a batch with a row behind each of these prompts, which may repeat."""
        if self._plain is None:
            batch = (
                None if self._prefill is None else self._prefill.behind([self._passes[number] for number in numbers])
            )
            if batch is None:
                raise torch.OutOfMemoryError("no room for the keys and values of all rows")
            return batch
        rows = torch.tensor([*numbers], device=self._plain.mask.device)
        cache = copy.deepcopy(self._plain.cache)
        cache.batch_select_indices(rows)
        return replace(self._plain, cache=cache, mask=self._plain.mask[rows], logits=self._plain.logits[rows])


def _outcome(task: _Task, greedy: WrittenObject | None, drawn: Sequence[WrittenObject | None]) -> Objects | SeclError:
    """Return a task's objects and what they cost, as if the task had been alone."""
    if greedy is None:
        return UnfinishedError(
            f"the model did not close the object within {task.limit} tokens; bound long texts by maxLength in the "
            "schema, ask for fewer fields, or take a larger model."
        )
    answering = float(len(task.prompt) + len(greedy.ends) - 1)
    sampling = float(sum(task.limit - 1 if each is None else len(each.ends) - 1 for each in drawn))
    return Objects(
        greedy=greedy,
        samples=(*drawn,),
        ledger=Ledger(answering=answering, sampling=sampling),
        plain_tokens=answering,
    )
