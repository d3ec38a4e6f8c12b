"""Prompts go through the network once: what reads and writes behind them goes on from the pass over them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel

from secl.backends.base import Bundle, TokenSequence
from secl.backends.generation import Draft
from secl.backends.local.fast.batch import Batch
from secl.backends.local.fast.batching import grown, passes
from secl.backends.local.fast.replay import Pass
from secl.backends.local.fast.shared_network import SharedNetwork
from secl.backends.local.loading.guard import out_of_memory


class Prefill:
    """Reads prompts and goes on from them; each draft holds the pass over its own prompt (`Draft.begun`)."""

    def __init__(self, model: PreTrainedModel, network: SharedNetwork, group_tokens: int) -> None:
        self.model = model
        self.network = network
        self.group_tokens = group_tokens

    def text(self, prompt: TokenSequence) -> tuple[Batch, Pass]:
        """Read the prompt of free texts: the row that they go on from, and the pass that is read on from."""
        forward, cache = self.network.begin(prompt)
        logits = self.network.head.written(forward.states[-1:])
        mask = torch.ones((1, len(prompt)), dtype=torch.int64, device=logits.device)
        return Batch(self.model, cache, mask, logits), forward

    def _begin_alone(self, drafts: Sequence[Draft]) -> None:
        """Read the prompts that were not read yet, each alone, as `text` does."""
        known: dict[tuple[int, ...], Pass] = {}
        for draft in drafts:
            if draft.begun is None:
                prompt = tuple(draft.prompt)
                if prompt not in known:
                    known[prompt] = self.network.begin(prompt)[0]
                draft.begun = known[prompt]

    def begin(self, drafts: Sequence[Draft]) -> Batch | None:
        """Read the prompts of answers that are to be written; samples go on from those that were read before.

        Returns:
            the answers to come as a batch; None for lists and for drafts that go on, whose prompts are not kept.
        """
        if not drafts or any(draft.lines is not None or draft.written for draft in drafts):
            return None
        if any(draft.seed is not None for draft in drafts):
            if any(draft.begun is None and draft.form != "text" for draft in drafts):
                return self.batch(drafts)[0]
            self._begin_alone(drafts)
            return self.behind([draft.begun for draft in drafts])
        batch, begun = self.batch(drafts)
        for draft, forward in zip(drafts, begun, strict=True):
            draft.begun = forward
        return batch

    @torch.no_grad()
    def batch(self, drafts: Sequence[Draft]) -> tuple[Batch | None, list[Pass]]:
        """Send unfinished drafts through the network, as the adapted model while the adapter is on.

        Returns:
            them as a batch to go on from, None where there is too little memory for all together, and the pass over
            each.
        """
        begun = self.read([(*draft.prompt, *draft.written) for draft in drafts])
        return self.behind(begun), begun

    def read(self, texts: Sequence[tuple[int, ...]]) -> list[Pass]:
        """Send texts through the network and return the pass over each; neighbours share one."""
        distinct = list(dict.fromkeys(texts))
        run = partial(self.network.run, keep=True)
        found = passes(run, [[text] for text in distinct], [*map(len, distinct)], self.group_tokens)
        place_of = dict(zip(distinct, found, strict=True))
        return [place_of[text] for text in texts]

    @torch.no_grad()
    def behind(self, begun: Sequence[Pass]) -> Batch | None:
        """A batch with a row behind each of some prompts that went through the network.

        None where there is too little memory for all rows: the writer reads fewer of them at a time again.
        """
        try:
            states = torch.cat([forward.frozen(forward.paths[0][-1:]) for forward in begun])
            return Batch(self.model, *_padded(begun, self.model.config), self.network.head.written(states))
        except RuntimeError as problem:
            if not out_of_memory(problem):
                raise
            return None

    def go_on(self, bundles: Sequence[Bundle]) -> list[Pass | None]:
        """Read bundles behind the prompts of their drafts; None for all others."""
        drafts = [bundle.draft for bundle in bundles]
        self._begin_alone([draft for draft in drafts if draft is not None and draft.free])
        begun: list[Any] = [None if draft is None else draft.begun for draft in drafts]
        together = [
            i for i, draft in enumerate(drafts) if draft is not None and not draft.free and begun[i] is not None
        ]
        alone = [[i] for i, draft in enumerate(drafts) if draft is not None and draft.free]
        found: list[Pass | None] = [None] * len(bundles)
        for numbers in (together, *alone):
            sequences, sizes = [bundles[i].sequences for i in numbers], [bundles[i].size for i in numbers]
            places = [begun[i] for i in numbers]
            for i, forward in zip(
                numbers, grown(self.network, places, sequences, sizes, self.group_tokens), strict=True
            ):
                found[i] = forward
        return found


def _padded(begun: Sequence[Pass], config: PreTrainedConfig) -> tuple[DynamicCache, Tensor]:
    """Keys and values of prompts as those of a batch that is padded on the left.

    Returns:
        the cache of all layers, and the mask (rows, length) that is 0 at the padding.
    """
    forwards = list({id(each.states): each for each in begun}.values())
    starts = np.cumsum([0, *(len(forward.trie.tokens) for forward in forwards)])
    start_of = {id(forward.states): start for forward, start in zip(forwards, starts, strict=False)}
    paths = [each.paths[0] + start_of[id(each.states)] for each in begun]
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
