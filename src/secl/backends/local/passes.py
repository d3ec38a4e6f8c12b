"""Passes through the network that several token sequences share, and batches that continue these passes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel

from secl.backends.base import Bundle, TokenSequence
from secl.backends.generation import Generation
from secl.backends.local.fast.batch import Batch
from secl.backends.local.fast.prefix_tree import Nodes
from secl.backends.local.fast.select_network import Network
from secl.backends.local.fast.shared_network import Pass, SharedNetwork, numbered
from secl.backends.local.loading.guard import out_of_memory
from secl.errors import ModelError
from secl.writing import Chunk

T = TypeVar("T")
R = TypeVar("R")

GROUP_TOKENS = 1000
"""Maximum number of distinct tokens in one pass of several bundles.

Larger passes gain no speed on a CPU, nor for large models on a GPU, and attention takes time quadratic in this number.
The limit is the same on every device, because a pass of another shape rounds differently.
"""


class Passes:
    """Reads bundles and begins texts. Here `Generation.begun` is a pass over the generation's prompt.

    Attributes:
        shared: the network of the fast path; None on the plain path, whose passes cannot grow.
    """

    def __init__(self, model: PreTrainedModel, network: Network) -> None:
        self.model = model
        self.network = network
        self.shared = network if isinstance(network, SharedNetwork) else None

    def read(self, bundles: Sequence[Bundle]) -> list[Pass]:
        """Return a pass for each bundle, which grows from the pass of the bundle's generation, if any.

        Raises:
            ModelError: a bundle alone needs more memory than the device has.
        """
        sequences, sizes = [bundle.sequences for bundle in bundles], [bundle.size for bundle in bundles]
        shared, generations = self.shared, [bundle.generation for bundle in bundles]
        if shared is None:
            return _grouped(self.network.run, sequences, sizes)
        self._begin([generation for generation in generations if generation is not None and generation.free])
        begun: dict[int, Pass] = {
            i: each.begun for i, each in enumerate(generations) if each is not None and each.begun
        }
        free = {i for i, generation in enumerate(generations) if generation is not None and generation.free}
        whole = [i for i in range(len(bundles)) if i not in begun]
        passes = _grouped(shared.run, [sequences[i] for i in whole], [sizes[i] for i in whole])
        found = dict(zip(whole, passes, strict=True))
        # Bundles that continue the same pass are read together, and so are bundles after thoughts. Each bundle after a
        # free text is read alone, so that its probabilities do not depend on other bundles.
        kept = {i for i, generation in enumerate(generations) if generation is not None and generation.kept}
        for _, same in groupby(
            sorted(begun, key=lambda i: (i in free, i in kept)),
            lambda i: (i in kept or id(begun[i].states), i in free and i),
        ):
            numbers = list(same)
            new = [max(0, sizes[i] - len(begun[i].paths[0])) for i in numbers]
            passes = _grouped(shared.grow, [sequences[i] for i in numbers], new, [begun[i] for i in numbers])
            found |= zip(numbers, passes, strict=True)
        return [found[i] for i in range(len(bundles))]

    def text(self, prompt: Sequence[int]) -> Generator[Chunk, None, Batch]:
        """Read a prompt in chunks, and return a batch of one row in which the text can be written."""
        if self.shared is None:
            return Batch.of(self.model, [[*prompt]])
        forward, cache = yield from self.shared.begin(prompt)
        logits = self.shared.head.written(forward.states[0, -1:])
        mask = torch.ones((1, len(prompt)), dtype=torch.int64, device=logits.device)
        return Batch(self.model, cache, mask, logits).capturing(self.shared, [forward])

    def _begin(self, generations: Sequence[Generation]) -> None:
        """Read each prompt that has no pass yet, alone and in chunks, as `text` does; equal prompts share a pass."""
        known: dict[tuple[int, ...], Pass] = {}
        for generation in generations:
            prompt = tuple(generation.prompt)
            if generation.begun is None and self.shared is not None:
                generation.begun = known[prompt] = known.get(prompt) or _exhaust(self.shared.begin(prompt))[0]

    def begin(self, generations: Sequence[Generation]) -> Batch | None:
        """Read the prompts of answers and thoughts that have no pass yet.

        Returns:
            a batch to write with; None for lists and begun texts, on the plain path, or with too little memory.
        """
        shared = self.shared
        if shared is None or not generations or any(each.lines is not None or each.written for each in generations):
            return None
        behind = [each for each in generations if each.thought is not None and each.begun is not None]
        grown = read_kept(shared, [(*each.prompt,) for each in behind], [each.begun for each in behind])
        for generation, forward in zip(behind, grown, strict=True):
            generation.begun = forward
        if any(each.seed is not None for each in generations) and all(each.form == "text" for each in generations):
            self._begin(generations)
        elif unread := [each for each in generations if each.begun is None]:
            for generation, forward in zip(
                unread, read_kept(shared, [(*each.prompt,) for each in unread]), strict=True
            ):
                generation.begun = forward
        batch = self.continue_passes(
            [generation.begun for generation in generations], [len(generation.prompt) for generation in generations]
        )
        if batch is None or not all(generation.kept for generation in generations):
            return batch
        return batch.capturing(shared, [generation.begun for generation in generations])

    @torch.no_grad()
    def batch(self, generations: Sequence[Generation]) -> Batch | None:
        """Send unfinished generations through the network, which is adapted inside `adapter.on()` and frozen outside.

        Return a batch that continues the generations; None on the plain path, or with too little memory for all rows.
        """
        if self.shared is None:
            return None
        texts = [(*generation.prompt, *generation.written) for generation in generations]
        return self.continue_passes(read_kept(self.shared, texts))

    @torch.no_grad()
    def continue_passes(self, begun: Sequence[Pass], lengths: Sequence[int | None] | None = None) -> Batch | None:
        """Return a batch whose row i continues pass i, after its last token or after its first `lengths[i]` tokens.

        Return None if the memory is too small for all rows.
        """
        paths = [forward.paths[0][:end] for forward, end in zip(begun, lengths or [None] * len(begun), strict=True)]
        try:
            states = torch.cat([forward.frozen(path[-1:]) for forward, path in zip(begun, paths, strict=True)])
            cache, mask = _padded(begun, paths, self.model.config)
            return Batch(self.model, cache, mask, self.network.head.written(states))
        except RuntimeError as problem:
            if not out_of_memory(problem):
                raise
            return None


def read_kept(network: SharedNetwork, texts: Sequence[tuple[int, ...]], begun: Sequence[Pass] = ()) -> list[Pass]:
    """Send texts through the network, several in each pass, and return the pass over each text, which can grow.

    `begun` holds passes over the beginnings of the texts, if any.
    """
    if begun:
        new = [max(1, len(text) - len(forward.paths[0])) for forward, text in zip(begun, texts, strict=True)]
        return _grouped(partial(network.grow, keep=True), [[text] for text in texts], new, begun)
    distinct = list(dict.fromkeys(texts))
    found = _grouped(partial(network.run, keep=True), [[text] for text in distinct], [*map(len, distinct)])
    place_of = dict(zip(distinct, found, strict=True))
    return [place_of[text] for text in texts]


def _exhaust(steps: Generator[object, None, R]) -> R:
    """Run a generator to its end and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result


def _grouped(
    run: Callable[..., Pass],
    bundles: Sequence[Sequence[TokenSequence]],
    sizes: Sequence[int],
    begun: Sequence[Pass] | None = None,
) -> list[Pass]:
    """Run bundles, or grow `begun`; consecutive bundles share a pass of up to `GROUP_TOKENS` new tokens."""

    def together(numbers: Sequence[int]) -> list[Pass]:
        sequences = [sequence for number in numbers for sequence in bundles[number]]
        forward = run(sequences) if begun is None else run([begun[number] for number in numbers], sequences)
        own = iter(forward.paths)
        return [replace(forward, part=[next(own) for _ in bundles[number]]) for number in numbers]

    return in_groups(together, range(len(bundles)), sizes, GROUP_TOKENS)


def in_groups(work: Callable[[Sequence[T]], list[R]], items: Sequence[T], sizes: Sequence[int], most: int) -> list[R]:
    """Process consecutive items in groups with a total size of at most `most`; halve groups that exceed the memory.

    >>> in_groups(lambda group: [list(group)], "abcd", [600, 300, 300, 1200], 1000)
    [['a', 'b'], ['c'], ['d']]
    """
    groups: list[list[T]] = []
    room = 0
    for item, size in zip(items, sizes, strict=True):
        if not groups or size > room:
            groups.append([])
            room = most
        groups[-1].append(item)
        room -= size
    return [done for group in groups for done in in_halves(work, group)]


@contextmanager
def enough_memory() -> Iterator[None]:
    """Turn out-of-memory errors into `ModelError`."""
    try:
        yield
    except RuntimeError as problem:
        if not out_of_memory(problem):
            raise
        raise ModelError(
            "a single question needs more memory than the device has; take a smaller model or --quantize, or shorten "
            "the question."
        ) from problem


def in_halves(work: Callable[[Sequence[T]], list[R]], items: Sequence[T]) -> list[R]:
    """Process items together; if the memory is too small for all items, process each half separately.

    Raises:
        ModelError: too little memory for one item.
    """
    if len(items) < 2:
        with enough_memory():
            return work(items)
    try:
        return work(items)
    except RuntimeError as problem:
        if not out_of_memory(problem):
            raise
    warnings.warn(
        "The device has too little memory for a whole pass, so secl divides the pass into halves. Halves take longer, "
        "and the last digits of numbers may differ from those of another run.",
        RuntimeWarning,
        stacklevel=2,
    )
    torch.cuda.empty_cache()  # after the handler, because the exception kept the memory of the failed work
    half = len(items) // 2
    return in_halves(work, items[:half]) + in_halves(work, items[half:])


def _padded(begun: Sequence[Pass], paths: Sequence[Nodes], config: PreTrainedConfig) -> tuple[DynamicCache, Tensor]:
    """Return keys and values of paths through passes as the cache of a batch with padding on the left.

    The mask (rows, length) is 0 at the padding.
    """
    forwards, whole = numbered(begun)
    paths = [own[: len(path)] for own, path in zip(whole, paths, strict=True)]
    length = max(map(len, paths))
    device = forwards[0].states.device
    places = torch.from_numpy(np.stack([np.pad(path, (length - len(path), 0)) for path in paths])).to(device)
    mask = torch.tensor([[0] * (length - len(path)) + [1] * len(path) for path in paths])

    def batched(parts: Sequence[Tensor]) -> Tensor:
        """Return parts (1, heads, tokens, d) of all passes as (rows, heads, length, d)."""
        return torch.cat(list(parts), dim=2)[0][:, places].transpose(0, 1)

    layers = zip(*(forward.cache.layers for forward in forwards if forward.cache is not None), strict=True)
    states = [(batched([each.keys for each in layer]), batched([each.values for each in layer])) for layer in layers]
    return DynamicCache(states, config=config), mask.to(device)
