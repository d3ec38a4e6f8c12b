"""Which token sequences share a pass through the network, and how texts go on after a pass over their prompt."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel

from secl.backends.base import Bundle, TokenSequence
from secl.backends.generation import Draft
from secl.backends.local.fast.batch import Batch
from secl.backends.local.fast.prefix_tree import Nodes, Trie
from secl.backends.local.fast.replay import Captured, Pass
from secl.backends.local.fast.select_network import Network
from secl.backends.local.fast.shared_network import SharedNetwork
from secl.backends.local.fast.sight import Sight
from secl.backends.local.loading.guard import in_halves, out_of_memory
from secl.errors import ModelError
from secl.writing import Piece

R = TypeVar("R")

GROUP_TOKENS = 1000
"""Most distinct tokens in one pass of several bundles: enough for a processor, and for a GPU with a large model.

Attention grows with the square. No device has a number of its own, because a pass of another shape rounds differently.
"""


@dataclass
class TextRow(Batch):
    """A free text after its prompt, and all that a pass over both would have left.

    Attributes:
        prompt: the pass over the prompt.
        tokens: those of the text that went through the network, with what each `left` there.
    """

    network: SharedNetwork
    prompt: Pass
    tokens: list[int] = field(init=False, default_factory=list)
    left: list[Captured] = field(init=False, default_factory=list)

    def step(self, keep: list[int], tokens: list[int]) -> None:
        with self.network.capturing() as captured:
            super().step(keep, tokens)
        self.tokens += tokens
        self.left.append(captured)

    def passed(self) -> Pass:
        """Return the pass over prompt and text; over the prompt alone if layers with a window let go of its keys."""
        trie = Trie.of([[*self.prompt.trie.tokens.tolist(), *self.tokens]])
        if not self.tokens or any(layer.keys.shape[-2] < len(trie.tokens) for layer in self.cache.layers):
            return self.prompt
        rows = torch.arange(len(self.prompt.trie.tokens), device=self.prompt.states.device)
        written = [each.final.to(rows.device)[0] for each in self.left if each.final is not None]
        captured = self.prompt.captured.joined(rows, *self.left)
        return Pass(trie, Sight.of(trie), torch.cat([self.prompt.states, *written]), captured, self.cache)


class Passes:
    """Reads bundles and begins texts; each draft holds the pass over its own prompt (`Draft.begun`).

    Attributes:
        shared: the network, if its passes can grow; None on the plain path.
    """

    def __init__(self, model: PreTrainedModel, network: Network) -> None:
        self.model = model
        self.network = network
        self.shared = network if isinstance(network, SharedNetwork) else None

    def read(self, bundles: Sequence[Bundle]) -> list[Pass]:
        """Return a pass for each bundle; it grows from the one that the bundle's draft holds, if any.

        Raises:
            ModelError: a bundle alone needs more memory than the device has.
        """
        sequences, sizes = [bundle.sequences for bundle in bundles], [bundle.size for bundle in bundles]
        shared, drafts = self.shared, [bundle.draft for bundle in bundles]
        if shared is None:
            return _grouped(self.network.run, sequences, sizes)
        self._begin([draft for draft in drafts if draft is not None and draft.free])
        begun: dict[int, Pass] = {i: each.begun for i, each in enumerate(drafts) if each is not None and each.begun}
        free = {i for i, draft in enumerate(drafts) if draft is not None and draft.free}
        whole = [i for i in range(len(bundles)) if i not in begun]
        passes = _grouped(shared.run, [sequences[i] for i in whole], [sizes[i] for i in whole])
        found = dict(zip(whole, passes, strict=True))
        # Bundles that go on from one pass share the next; one after a free text goes on alone.
        for _, same in groupby(sorted(begun, key=free.__contains__), lambda i: (id(begun[i].states), i in free and i)):
            numbers = list(same)
            first, paths = begun[numbers[0]], [begun[i].paths[0] for i in numbers]
            new = [max(0, sizes[i] - len(path)) for i, path in zip(numbers, paths, strict=True)]
            passes = _grouped(partial(shared.grow, first), [sequences[i] for i in numbers], new, paths)
            found |= zip(numbers, passes, strict=True)
        return [found[i] for i in range(len(bundles))]

    def text(self, prompt: Sequence[int]) -> Generator[Piece, None, Batch]:
        """Read the prompt of a free text, piece by piece, and return the text's row."""
        if self.shared is None:
            return Batch.of(self.model, [[*prompt]])
        forward, cache = yield from self.shared.begin(prompt)
        logits = self.shared.head.written(forward.states[-1:])
        mask = torch.ones((1, len(prompt)), dtype=torch.int64, device=logits.device)
        return TextRow(self.model, cache, mask, logits, self.shared, forward)

    def _begin(self, drafts: Sequence[Draft]) -> None:
        """Read the prompts that were not read yet, each alone, as `text` does."""
        known: dict[tuple[int, ...], Pass] = {}
        for draft in drafts:
            prompt = tuple(draft.prompt)
            if draft.begun is None and self.shared is not None:
                draft.begun = known[prompt] = known.get(prompt) or _result(self.shared.begin(prompt))[0]

    def begin(self, drafts: Sequence[Draft]) -> Batch | None:
        """Read the prompts of answers that are to be written; samples go on from those that were read before.

        Returns:
            the answers to come as a batch; None for lists and for continued drafts, whose prompts are not kept.
        """
        if self.shared is None or not drafts or any(draft.lines is not None or draft.written for draft in drafts):
            return None
        if any(draft.seed is not None for draft in drafts):
            if any(draft.begun is None and draft.form != "text" for draft in drafts):
                return self.batch(drafts)[0]
            self._begin(drafts)
            return self.behind([draft.begun for draft in drafts], [len(draft.prompt) for draft in drafts])
        batch, begun = self.batch(drafts)
        for draft, forward in zip(drafts, begun, strict=True):
            draft.begun = forward
        return batch

    @torch.no_grad()
    def batch(self, drafts: Sequence[Draft]) -> tuple[Batch | None, list[Pass]]:
        """Send unfinished drafts through the network, as the adapted model while the adapter is on.

        Returns:
            them as a batch to go on from, None if there is too little memory for all together or on the plain path,
            and the pass over each.
        """
        if self.shared is None:
            return None, []
        begun = self.keep([(*draft.prompt, *draft.written) for draft in drafts])
        return self.behind(begun), begun

    def keep(self, texts: Sequence[tuple[int, ...]]) -> list[Pass]:
        """Send texts through the network and return the pass over each; neighbours share one.

        Raises:
            ModelError: the network is on the plain path.
        """
        if self.shared is None:
            raise ModelError("passes on the plain path keep nothing.")
        distinct = list(dict.fromkeys(texts))
        found = _grouped(partial(self.shared.run, keep=True), [[text] for text in distinct], [*map(len, distinct)])
        place_of = dict(zip(distinct, found, strict=True))
        return [place_of[text] for text in texts]

    @torch.no_grad()
    def behind(self, begun: Sequence[Pass], lengths: Sequence[int | None] | None = None) -> Batch | None:
        """Return a batch with a row after the first tokens, or all, of each pass.

        None if there is too little memory for all rows: the writer reads fewer of them at a time again.
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


def _result(steps: Generator[object, None, R]) -> R:
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
    paths: Sequence[Nodes] | None = None,
) -> list[Pass]:
    """Run the sequences of bundles after their `paths`, if any; neighbours share a pass of `GROUP_TOKENS`, all new."""

    def together(numbers: Sequence[int]) -> list[Pass]:
        sequences = [sequence for number in numbers for sequence in bundles[number]]
        forward = run(sequences) if paths is None else run([paths[number] for number in numbers], sequences)
        own = iter(forward.trie.paths)
        return [replace(forward, part=[next(own) for _ in bundles[number]]) for number in numbers]

    return [forward for numbers in groups(sizes, GROUP_TOKENS) for forward in in_halves(together, numbers)]


def groups(sizes: Sequence[int], most: int) -> list[list[int]]:
    """Return numbers of neighbours that go together, as long as their sizes add up to at most `most`.

    >>> groups([600, 300, 300, 1200], 1000)
    [[0, 1], [2], [3]]
    """
    together: list[list[int]] = []
    room = 0
    for number, size in enumerate(sizes):
        if not together or size > room:
            together.append([])
            room = most
        together[-1].append(number)
        room -= size
    return together


def _padded(begun: Sequence[Pass], paths: Sequence[Nodes], config: PreTrainedConfig) -> tuple[DynamicCache, Tensor]:
    """Keys and values of paths through passes as those of a batch that is padded on the left.

    Returns:
        the cache of all layers, and the mask (rows, length) that is 0 at the padding.
    """
    forwards = list({id(forward.states): forward for forward in begun}.values())
    starts = np.cumsum([0, *(len(forward.trie.tokens) for forward in forwards)])
    start_of = {id(forward.states): start for forward, start in zip(forwards, starts, strict=False)}
    paths = [path + start_of[id(forward.states)] for forward, path in zip(begun, paths, strict=True)]
    length = max(map(len, paths))
    device = forwards[0].states.device
    places = torch.from_numpy(np.stack([np.pad(path, (length - len(path), 0)) for path in paths])).to(device)
    mask = torch.tensor([[0] * (length - len(path)) + [1] * len(path) for path in paths])

    def batched(parts: Sequence[Tensor]) -> Tensor:
        """(1, heads, tokens, d) of each pass as (rows, heads, length, d)."""
        return torch.cat(list(parts), dim=2)[0][:, places].transpose(0, 1)

    layers = zip(*(forward.cache.layers for forward in forwards if forward.cache is not None), strict=True)
    states = [(batched([each.keys for each in layer]), batched([each.values for each in layer])) for layer in layers]
    return DynamicCache(states, config=config), mask.to(device)
