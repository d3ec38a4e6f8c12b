"""Writing with a transformers model: many texts together (greedy, sampled, beam search), or free texts in chunks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

import torch
from torch import Tensor
from transformers import TopPLogitsWarper

from secl.backends.generation import Generation, TextRules
from secl.backends.local.fast.batch import Batch, fast_single_row
from secl.backends.local.passes import enough_memory, in_halves
from secl.writing import Chunk, SamplingParameters, Token

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FIRST_LOOK = 1024
"""Number of most probable tokens that usually contain the nucleus; sorting the whole vocabulary takes longer."""

GREEDY = 1e-4
"""Minimum temperature of a draw. At lower temperatures, secl takes the most probable token, because logits divided by
the temperature may be infinite."""


class GrowingText(Protocol):
    """A text in progress: its token ids so far, and the number of passes that each read its latest token."""

    written: list[int]
    decoding_steps: int


T = TypeVar("T", bound=GrowingText)


Unfinished = list[tuple[int, T]]
"""Texts to continue, each with the number of the row in the batch that it continues."""


def decode(
    batch: Batch, texts: Sequence[T], add: Callable[[Sequence[T], Tensor], Unfinished[T]], *, alone: bool = False
) -> Iterator[None]:
    """Write texts together, one token of each text at a time; yield after each token.

    Args:
        batch: a row for each text, in which the text's prompt is already read.
        add: adds a token to each text, given the logits (texts, vocabulary), and returns the texts to continue.
        alone: whether the last text may use the kernels of `fast_single_row`, because no other thread computes.
    """
    while going := add(texts, batch.logits):
        yield
        rows, texts = [row for row, _ in going], [text for _, text in going]
        with fast_single_row(alone and len(rows) == 1):
            batch.step(rows, [text.written[-1] for text in texts])
        for text in texts:
            text.decoding_steps += 1
    yield


def finish(steps: Iterator[None]) -> None:
    """Run a `decode` to its end."""
    deque(steps, maxlen=0)


class Writer:
    """Writes with a model; `alone` tells whether no other thread computes."""

    def __init__(self, model: PreTrainedModel, rules: TextRules) -> None:
        self.model = model
        self.rules = rules
        self.alone = True

    @torch.no_grad()
    def write(self, generations: Sequence[Generation], begun: Batch | None = None) -> None:
        """Finish the generations together; finished generations leave the batch.

        If the memory is too small, start again with each half separately. `begun` is the batch of all generations, if
        the network has read them already.
        """
        before = {
            id(generation): (list(generation.written), list(generation.log_p), generation.decoding_steps)
            for generation in generations
        }

        def write(some: Sequence[Generation]) -> list[None]:
            whole = len(some) == len(generations)
            if begun is not None and not whole:
                begun.clear()  # the halves need the memory of this batch
            for generation in some:
                written, log_p, generation.decoding_steps = before[id(generation)]
                generation.written, generation.log_p = list(written), list(log_p)
            self._write_together(some, begun if whole else None)
            return []

        in_halves(write, generations)

    def _write_together(self, generations: Sequence[Generation], begun: Batch | None) -> None:
        active = [generation for generation in generations if not self.rules.ended(generation)]
        if not active:
            return
        streams = {
            id(generation): None if generation.seed is None else random_stream(generation.seed) for generation in active
        }
        batch = begun or Batch.of(self.model, [[*generation.prompt, *generation.written] for generation in active])

        def add(active: Sequence[Generation], logits: Tensor) -> Unfinished[Generation]:
            top_p = next((generation.top_p for generation in active if generation.seed is not None), 1.0)
            tokens = next_tokens(logits, [streams[id(generation)] for generation in active], top_p)
            log_p = logits.float().log_softmax(-1)[range(len(active)), tokens].tolist()
            going: Unfinished[Generation] = []
            for row, (generation, token, value) in enumerate(zip(active, tokens, log_p, strict=True)):
                generation.written.append(token)
                generation.log_p.append(value)
                if not self.rules.ended(generation):
                    going.append((row, generation))
                elif batch.network is not None:
                    generation.begun = batch.passed(row)
            return going

        finish(decode(batch, active, add, alone=self.alone))

    @torch.no_grad()
    def chunks(self, generation: Generation, row: Batch, sampling: SamplingParameters) -> Iterator[Chunk]:
        """Yield the chunks of one text; `row` is a batch of one row, which has read the prompt."""
        generator = torch.Generator(row.logits.device).manual_seed((sampling.seed + generation.number) % 2**63)
        chunks: list[Chunk] = []

        def add(_: Sequence[Generation], logits: Tensor) -> Unfinished[Generation]:
            token = draw_as_generate(logits, sampling, generator)
            reported: tuple[Token, ...] = ()
            if sampling.top_logprobs is not None:
                log_p = logits[0].log_softmax(-1)
                best = log_p.topk(sampling.top_logprobs)
                top = zip(best.indices.tolist(), best.values.tolist(), strict=True)
                reported = (self.rules.token(token, float(log_p[token]), top),)
            chunks.append(self.rules.push(generation, token, reported))
            if generation.finish is None:
                return [(0, generation)]
            generation.begun = row.passed(0)
            return []

        for _ in decode(row, [generation], add):
            yield chunks.pop()

    @enough_memory()
    @torch.no_grad()
    def beams(self, generation: Generation, count: int) -> tuple[list[Generation], int]:
        """Search for the `count` most probable texts (sum of log-probabilities, no length penalty).

        Returns:
            the texts, the most probable first, and the tokens that went through the network.
        """
        scores, finished, tokens = [0.0], list[tuple[float, Generation]](), len(generation.prompt)

        def add(beams: Sequence[Generation], logits: Tensor) -> Unfinished[Generation]:
            nonlocal scores, finished, tokens
            totals = torch.tensor(scores, device=logits.device)[:, None] + logits.log_softmax(-1)
            # Take twice `count` tokens, because up to `count` texts may end here, and `count` others must go on.
            values, flat = totals.flatten().topk(2 * count)
            unfinished: Unfinished[Generation] = []
            scores = []
            for value, index in zip(values.tolist(), flat.tolist(), strict=True):
                row, token = divmod(index, totals.shape[1])
                longer = replace(beams[row], written=[*beams[row].written, token])
                if self.rules.ended(longer):
                    finished.append((value, longer))
                elif len(unfinished) < count:
                    unfinished.append((row, longer))
                    scores.append(value)
            finished = sorted(finished, key=lambda each: -each[0])[:count]
            # A text is never more probable than its beginning.
            if unfinished and len(finished) == count and finished[-1][0] >= scores[0]:
                return []
            tokens += len(unfinished)
            return unfinished

        finish(decode(Batch.of(self.model, [generation.prompt]), [generation], add))
        return [text for _, text in finished], tokens


def random_stream(seed: int) -> torch.Generator:
    """Return the random stream of one text, so that the text does not depend on the other texts of its batch."""
    return torch.Generator().manual_seed(seed)


def next_tokens(logits: Tensor, streams: Sequence[torch.Generator | None], top_p: float) -> list[int]:
    """Return the next token of each row of logits: drawn with the row's random stream, or the most probable."""
    tokens: list[int] = logits.argmax(-1).tolist()
    drawn = {row: torch.rand(1, generator=each).item() for row, each in enumerate(streams) if each is not None}
    if drawn:
        for row, token in zip(drawn, draw(logits[[*drawn]], [*drawn.values()], top_p), strict=True):
            tokens[row] = token
    return tokens


def draw_as_generate(logits: Tensor, sampling: SamplingParameters, generator: torch.Generator) -> int:
    """Return the token that transformers' `generate` draws from the logits (1, vocabulary) of a free text."""
    if sampling.temperature < GREEDY:
        return int(logits.argmax(-1))
    scores = logits / sampling.temperature
    if sampling.top_p < 1:
        scores = TopPLogitsWarper(sampling.top_p)(None, scores)
    return int(torch.multinomial(scores.softmax(-1), 1, generator=generator))


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
    chances = torch.rand(count, generator=random_stream(seed)).tolist()
    return draw(torch.tensor([p] * count).log(), chances, top_p)
