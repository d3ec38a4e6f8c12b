"""Writing with a transformers model: many texts together (greedy, sampled, beam search), or free texts in pieces."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from transformers import LogitsProcessor, TemperatureLogitsWarper, TopPLogitsWarper

from secl.backends.generation import Draft, TextRules
from secl.backends.local.fast.batch import Batch, fast_single_row
from secl.backends.local.passes import Passes, enough_memory, in_halves
from secl.writing import Piece, Token, Writing

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FIRST_LOOK = 1024
"""Number of most probable tokens that usually contain the nucleus; sorting the whole vocabulary takes longer."""

GREEDY = 1e-4
"""Minimum temperature of a draw. At lower temperatures, secl takes the most probable token, because logits divided by
the temperature may be infinite."""


class Writer:
    """Writes with a model; `alone` tells whether no other thread computes."""

    def __init__(self, model: PreTrainedModel, rules: TextRules) -> None:
        self.model = model
        self.rules = rules
        self.alone = True

    @torch.no_grad()
    def write(self, drafts: Sequence[Draft], begun: Batch | None = None) -> None:
        """Finish the drafts together; finished drafts leave the batch.

        If the memory is too small, start again with each half separately. `begun` is the batch of all drafts, if the
        network has read them already.
        """
        before = {id(draft): (list(draft.written), list(draft.log_p)) for draft in drafts}

        def write(some: Sequence[Draft]) -> list[None]:
            whole = len(some) == len(drafts)
            if begun is not None and not whole:
                begun.clear()  # the halves need the memory of this batch
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
        # Each draft has its own random stream, so that its text does not depend on the other drafts.
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
            for row in {*range(len(active))} - {*rows} if batch.network is not None else ():
                active[row].begun = batch.passed(row)
            if not rows:
                return
            active = [active[row] for row in rows]
            with fast_single_row(self.alone and len(rows) == 1):
                batch.step(rows, [draft.written[-1] for draft in active])

    @enough_memory()
    @torch.no_grad()
    def beams(self, draft: Draft, count: int) -> tuple[list[Draft], int]:
        """Search for the `count` most probable texts (sum of log-probabilities, no length penalty).

        Returns:
            the texts, the most probable first, and the tokens that went through the network.
        """
        batch, tokens = Batch.of(self.model, [draft.prompt]), len(draft.prompt)
        beams, finished = [(0.0, draft)], list[tuple[float, Draft]]()
        while beams:
            scores = torch.tensor([score for score, _ in beams], device=batch.logits.device)
            totals = scores[:, None] + batch.logits.log_softmax(-1)
            # Take twice `count` tokens, because up to `count` texts may end here, and `count` others must go on.
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
            # A text is never more probable than its beginning.
            if not unfinished or (len(finished) == count and finished[-1][0] >= unfinished[0][0]):
                break
            beams = unfinished
            batch.step(rows, [each.written[-1] for _, each in beams])
            tokens += len(beams)
        return [text for _, text in finished], tokens


def draw(logits: Tensor, chances: Sequence[float], top_p: float) -> list[int]:
    """Draw a token from the nucleus of each row of logits (rows, vocabulary); `chances`: a number in [0, 1) per row."""
    p = logits.softmax(-1)
    nucleus, order = p.topk(min(FIRST_LOOK, p.shape[-1]))
    if not bool((nucleus.sum(-1) >= top_p).all()):
        nucleus, order = p.sort(-1, descending=True)
    # A token is in the nucleus if the more probable tokens together do not reach top_p.
    cumulative = nucleus.cumsum(-1)
    nucleus = nucleus * (cumulative - nucleus < top_p)
    cumulative = nucleus.cumsum(-1)
    # Inverse transform sampling: the first token whose cumulative probability exceeds the drawn number.
    drawn = torch.tensor(chances, device=cumulative.device, dtype=cumulative.dtype)[:, None] * cumulative[:, -1:]
    ranks = (cumulative <= drawn).sum(-1, keepdim=True).clamp(max=cumulative.shape[-1] - 1)
    tokens: list[int] = order.gather(-1, ranks)[:, 0].tolist()
    return tokens


def draw_many(p: Sequence[float], count: int, seed: int, top_p: float) -> list[int]:
    """Return `count` draws from the nucleus of one distribution."""
    chances = torch.rand(count, generator=torch.Generator().manual_seed(seed)).tolist()
    return draw(torch.tensor([p] * count).log(), chances, top_p)


def write_texts(
    passes: Passes, rules: TextRules, prompt: Sequence[int], writing: Writing, ends: Sequence[int] = ()
) -> Iterator[Piece]:
    """Write texts after a prompt with the frozen model, one token of each text in turn; `writing` needs `max_tokens`.

    Every text goes through the network alone, exactly as in transformers' `generate`. In a batch, the last digits of a
    text's logits would depend on the other texts.
    """
    begun = yield from passes.text(prompt)
    # The prompt goes through the network once for all texts.
    rows = [begun, *(begun.chosen([0]) for _ in range(writing.n - 1))]
    drafts = Draft.texts(prompt, writing, ends)
    texts = deque(_pieces(rules, draft, row, writing) for draft, row in zip(drafts, rows, strict=True))
    while texts:
        piece = next(texts[0], None)
        if piece is None:
            texts.popleft()
            continue
        yield piece
        texts.rotate(-1)


@torch.no_grad()
def _pieces(rules: TextRules, draft: Draft, row: Batch, writing: Writing) -> Iterator[Piece]:
    """Yield the pieces of one text; `row` is a batch of one row, which has read the prompt."""
    generator = torch.Generator(row.logits.device).manual_seed((writing.seed + draft.number) % 2**63)
    warpers: list[LogitsProcessor] = []
    if writing.temperature not in (0, 1):
        warpers.append(TemperatureLogitsWarper(float(writing.temperature)))
    if writing.top_p < 1:
        warpers.append(TopPLogitsWarper(writing.top_p))
    while draft.finish is None:
        if draft.written:
            row.step([0], draft.written[-1:])
        if writing.temperature < GREEDY:
            token = int(row.logits.argmax(-1))
        else:
            scores = row.logits
            for warper in warpers:
                scores = warper(None, scores)
            token = int(torch.multinomial(scores.softmax(-1), 1, generator=generator))
        reported: tuple[Token, ...] = ()
        if writing.top_logprobs is not None:
            log_p = row.logits[0].log_softmax(-1)
            best = log_p.topk(writing.top_logprobs)
            top = zip(best.indices.tolist(), best.values.tolist(), strict=True)
            reported = (rules.token(token, float(log_p[token]), top),)
        piece = rules.push(draft, token, reported)
        if piece.finish is not None:
            draft.begun = row.passed(0)
        yield piece
