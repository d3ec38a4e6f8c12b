"""Writing texts with a transformers model, many at a time: greedy, sampled, or by beam search."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from secl.backends.generation import Draft, TextRules
from secl.backends.local.fast.batch import Batch, fast_single_row
from secl.backends.local.loading.guard import enough_memory, in_halves
from secl.backends.local.loading.loader import Remembered

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FIRST_LOOK = 1024
"""Most probable tokens that are looked at first; sorting a whole vocabulary for every token takes longer."""

REMEMBERED = 1024
"""Batches whose texts are remembered, the first ones: streams are asked from the start again."""


class Writer:
    """Writes with a model, or remembers what its frozen weights wrote before, by batch.

    Attributes:
        alone: whether no other thread computes meanwhile.
    """

    def __init__(self, model: PreTrainedModel, rules: TextRules, remembered: Remembered | None = None) -> None:
        self.model = model
        self.rules = rules
        self.remembered: Remembered = {} if remembered is None else remembered
        self.alone = True

    @torch.no_grad()
    def write(self, drafts: Sequence[Draft], begun: Batch | None = None, *, frozen: bool = True) -> None:
        """Finish the drafts together; a finished one leaves the batch, so that no step is spent on it.

        The frozen model writes the same greedy texts whenever it is given the same batch, so it is asked once.

        `begun` is all of them as a batch that has gone through the network already.
        """
        if not frozen or any(draft.seed is not None for draft in drafts):
            self._write(drafts, begun)
            return
        # The whole batch is the key, because the padding of a row, and so its last digits, depend on the other rows.
        texts = [
            (draft.prompt, draft.written, draft.form, draft.limit, draft.lines, draft.stop, draft.ends)
            for draft in drafts
        ]
        key = hashlib.sha256(repr((texts, begun is None)).encode()).digest()
        known = self.remembered.get(key)
        if known is None:
            self._write(drafts, begun)
            if len(self.remembered) < REMEMBERED:
                self.remembered[key] = [[*draft.written] for draft in drafts]
            return
        for draft, written in zip(drafts, known, strict=True):
            draft.written = [*written]

    def _write(self, drafts: Sequence[Draft], begun: Batch | None) -> None:
        """Finish drafts together, or in halves, each from where it was, where there is too little memory for all."""
        before = {id(draft): (list(draft.written), list(draft.log_p)) for draft in drafts}

        def write(some: Sequence[Draft]) -> list[None]:
            whole = len(some) == len(drafts)
            if begun is not None and not whole:
                begun.clear()  # halves need its memory
            for draft in some:
                written, log_p = before[id(draft)]
                draft.written, draft.log_p = list(written), list(log_p)
            self._write_together(some, begun if whole else None)
            return []

        in_halves(write, drafts)

    def _write_together(self, drafts: Sequence[Draft], begun: Batch | None) -> None:
        active = [draft for draft in drafts if not self.rules.ended(draft)]
        if not active:
            return
        # Every draft draws from a stream of its own, so that its text does not depend on the others in the batch.
        generators = {
            id(draft): torch.Generator().manual_seed(draft.seed) for draft in active if draft.seed is not None
        }
        batch = begun or Batch.of(self.model, [[*draft.prompt, *draft.written] for draft in active])
        while True:
            next_tokens = batch.logits.argmax(-1).tolist()
            sampled = [row for row, draft in enumerate(active) if id(draft) in generators]
            if sampled:
                chances = [torch.rand(1, generator=generators[id(active[row])]).item() for row in sampled]
                logits = batch.logits[sampled]
                drawn = draw(logits, chances, active[sampled[0]].top_p)
                log_p = logits.float().log_softmax(-1)[range(len(drawn)), drawn].tolist()
                for row, token, value in zip(sampled, drawn, log_p, strict=True):
                    next_tokens[row] = token
                    active[row].log_p.append(value)
            for draft, token in zip(active, next_tokens, strict=True):
                draft.written.append(token)
            rows = [row for row, draft in enumerate(active) if not self.rules.ended(draft)]
            if not rows:
                return
            active = [active[row] for row in rows]
            with fast_single_row if self.alone and len(rows) == 1 else nullcontext():
                batch.step(rows, [draft.written[-1] for draft in active])

    @enough_memory()
    @torch.no_grad()
    def beams(self, draft: Draft, count: int) -> tuple[list[Draft], int]:
        """Beam search for the `count` most probable texts (sum of log-probabilities, no length penalty).

        Texts end as greedy ones do. The search is over when no unfinished text can still come among them.

        Returns:
            the texts, the most probable first, and the tokens that went through the network.
        """
        batch, tokens = Batch.of(self.model, [draft.prompt]), len(draft.prompt)
        beams, finished = [(0.0, draft)], list[tuple[float, Draft]]()
        while beams:
            scores = torch.tensor([score for score, _ in beams], device=batch.logits.device)
            totals = scores[:, None] + batch.logits.log_softmax(-1)
            # Twice as many as are wanted: up to `count` of them may end here, and `count` have to go on.
            values, flat = totals.flatten().topk(2 * count)
            unfinished: list[tuple[float, Draft]] = []
            rows: list[int] = []
            for value, index in zip(values.tolist(), flat.tolist(), strict=True):
                row, token = divmod(index, totals.shape[1])
                longer = replace(beams[row][1], written=[*beams[row][1].written, token])
                if self.rules.ended(longer):
                    finished.append((value, longer))
                elif len(unfinished) < count:
                    unfinished.append((value, longer))
                    rows.append(row)
            finished = sorted(finished, key=lambda each: -each[0])[:count]
            # A text can only become less probable as it grows.
            if not unfinished or (len(finished) == count and finished[-1][0] >= unfinished[0][0]):
                break
            beams = unfinished
            batch.step(rows, [each.written[-1] for _, each in beams])
            tokens += len(beams)
        return [text for _, text in finished], tokens


def draw(logits: Tensor, chances: Sequence[float], top_p: float) -> list[int]:
    """Return a token for each row of logits (rows, vocabulary) from its nucleus, by a number in [0, 1) each."""
    p = logits.softmax(-1)
    nucleus, order = p.topk(min(FIRST_LOOK, p.shape[-1]))
    if not bool((nucleus.sum(-1) >= top_p).all()):
        nucleus, order = p.sort(-1, descending=True)
    # A token is in the nucleus if those before it do not reach top_p yet.
    cumulative = nucleus.cumsum(-1)
    nucleus = nucleus * (cumulative - nucleus < top_p)
    cumulative = nucleus.cumsum(-1)
    # Inverse transform sampling: the first token whose cumulative probability exceeds the drawn one.
    drawn = torch.tensor(chances, device=cumulative.device, dtype=cumulative.dtype)[:, None] * cumulative[:, -1:]
    ranks = (cumulative <= drawn).sum(-1, keepdim=True).clamp(max=cumulative.shape[-1] - 1)
    tokens: list[int] = order.gather(-1, ranks)[:, 0].tolist()
    return tokens


def draw_many(p: Sequence[float], count: int, seed: int, top_p: float) -> list[int]:
    """`count` draws from the nucleus of one distribution."""
    chances = torch.rand(count, generator=torch.Generator().manual_seed(seed)).tolist()
    return draw(torch.tensor([p] * count).log(), chances, top_p)
