"""Prompts go through the network once, for the writer and for the reading after it: of a window, and of free texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel

from secl.backends.base import Bundle, TokenSequence
from secl.backends.generation import Draft
from secl.backends.local.fast.batch import Batch
from secl.backends.local.fast.batching import BundlePass, alone, grown, passes
from secl.backends.local.fast.shared_network import SharedNetwork
from secl.backends.local.loading.guard import out_of_memory

Prompts = dict[tuple[int, ...], BundlePass]
"""Where each of some prompts is."""

KEPT_TOKENS = 4096
"""Most tokens of the prompts of free texts that are kept; the latest stays until its window is read, however long."""


class Prefill:
    """Keeps the passes over the prompts of the present window, and of the latest free texts.

    Attributes:
        begun: the prompts of the window.
    """

    def __init__(self, model: PreTrainedModel, network: SharedNetwork, group_tokens: int) -> None:
        self.model = model
        self.network = network
        self.group_tokens = group_tokens
        self.begun: Prompts = {}
        self._texts: Prompts = {}

    def text(self, prompt: TokenSequence) -> Batch:
        """Read the prompt of free texts, which go on from the row that is given, and keep it for `go_on`."""
        forward, cache = self.network.begin(prompt)
        self._texts.pop(tuple(prompt), None)
        self._texts[tuple(prompt)] = alone(forward, prompt)
        self._trim()
        logits = self.network.head.written(forward.states[-1:])
        return Batch(self.model, cache, torch.ones((1, len(prompt)), dtype=torch.int64, device=logits.device), logits)

    def _trim(self, least: int = 1) -> None:
        while len(self._texts) > least and sum(map(len, self._texts)) > KEPT_TOKENS:
            del self._texts[next(iter(self._texts))]

    def _of_text(self, prompt: TokenSequence) -> BundlePass:
        """The pass over the prompt of free texts. One that is not kept is read again in the same way, so what is read
        behind it does not depend on whether it was."""
        key = tuple(prompt)
        if key not in self._texts:
            self._trim()
            # It is the next to go, and not those that are still to be asked about.
            self._texts = {key: alone(self.network.begin(prompt)[0], prompt), **self._texts}
        return self._texts[key]

    def begin(self, drafts: Sequence[Draft]) -> Batch | None:
        """Read the prompts of answers that are to be written; those of an earlier window are let go.

        Samples go on from the prompts that are kept.

        Returns:
            the answers to come as a batch; None for other texts, which nobody reads again.
        """
        if not drafts or any(draft.lines is not None or draft.written for draft in drafts):
            return None
        if any(draft.seed is not None for draft in drafts):
            prompts = [each for draft in drafts if (each := self._kept(draft)) is not None]
            return self._behind(prompts) if len(prompts) == len(drafts) else self.batch(drafts)[0]
        self.release()
        batch, self.begun = self.batch(drafts)
        return batch

    def _kept(self, draft: Draft) -> BundlePass | None:
        """The pass over a draft's prompt; that of a free text is read now if it is not kept."""
        return self.begun.get(tuple(draft.prompt)) or (self._of_text(draft.prompt) if draft.form == "text" else None)

    @torch.no_grad()
    def batch(self, drafts: Sequence[Draft]) -> tuple[Batch | None, Prompts]:
        """Send unfinished drafts through the network, as the adapted model while the adapter is on.

        Returns:
            them as a batch to go on from, None where there is too little memory for all together, and where each of the
            texts so far is.
        """
        texts = [(*draft.prompt, *draft.written) for draft in drafts]
        turns = Counter(texts)
        shares = passes(partial(self.network.run, keep=True), [[text] for text in turns], self.group_tokens)
        place_of = dict(zip(turns, shares, strict=True))
        begun = [place_of[text] for text in texts]
        for draft, share, text in zip(drafts, begun, texts, strict=True):
            draft.tokens += share.tokens / turns[text]
        return self._behind(begun), place_of

    @torch.no_grad()
    def _behind(self, begun: Sequence[BundlePass]) -> Batch | None:
        """A batch with a row behind each of some prompts that went through the network.

        None where there is too little memory for all rows: the writer reads fewer of them at a time again.
        """
        try:
            states = torch.cat([share.forward.frozen(share.paths[0][-1:]) for share in begun])
            return Batch(self.model, *_padded(begun, self.model.config), self.network.head.written(states))
        except RuntimeError as problem:
            if not out_of_memory(problem):
                raise
            return None

    def go_on(self, bundles: Sequence[Bundle]) -> list[BundlePass | None]:
        """Read bundles behind the prompts that are kept; None for all others."""
        begun = [None if each.written is None else self.begun.get(tuple(each.written.prompt)) for each in bundles]
        known = [(share, bundle.sequences) for share, bundle in zip(begun, bundles, strict=True) if share is not None]
        places, sequences = [share for share, _ in known], [sequences for _, sequences in known]
        read = iter(grown(self.network, places, sequences, self.group_tokens))
        return [
            (None if bundle.begun is None else self._behind_text(bundle, bundle.begun)) if share is None else next(read)
            for share, bundle in zip(begun, bundles, strict=True)
        ]

    def _behind_text(self, bundle: Bundle, prompt: TokenSequence) -> BundlePass:
        begun = [self._of_text(prompt)]
        return grown(self.network, begun, [bundle.sequences], self.group_tokens, paid=False)[0]

    def release(self) -> None:
        """Let go of the prompts of the window, and of a long one of a free text: it takes gigabytes on a device."""
        self.begun = {}
        self._trim(0)


def _padded(begun: Sequence[BundlePass], config: PreTrainedConfig) -> tuple[DynamicCache, Tensor]:
    """Keys and values of prompts as those of a batch that is padded on the left.

    Returns:
        the cache of all layers, and the mask (rows, length) that is 0 at the padding.
    """
    forwards = list({id(share.forward): share.forward for share in begun}.values())
    starts = np.cumsum([0, *(len(forward.trie.tokens) for forward in forwards)])
    start_of = {id(forward): start for forward, start in zip(forwards, starts, strict=False)}
    paths = [share.paths[0] + start_of[id(share.forward)] for share in begun]
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
