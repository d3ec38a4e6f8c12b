"""Choose how to run a model: the fast path where it reproduces the model's own logits, else the plain one."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from secl.backends.local.fast.network import Network, Pass, Switch
from secl.backends.local.fast.plain_network import PlainNetwork
from secl.backends.local.fast.shared_network import SharedNetwork
from secl.backends.local.fast.windows import short_windows
from secl.backends.local.model_parts import AsLogits, LinearHead
from secl.backends.local.placement import compute_device
from secl.backends.local.text_model import decoder_of
from secl.errors import ModelError

TOLERANCE = 0.05
"""Largest difference of logits that rounding explains, in their standard deviations."""

TRIED_TOKENS = 32
"""Most tokens of a branch: enough to tell a wrong mask or position from rounding; more take a second of loading."""


@dataclass(frozen=True)
class Trial:
    """What a model computes by itself, which is what a path through it has to reproduce.

    Attributes:
        branches: two sequences of one length with a common first half: a mask or positions that mix them up change the
            logits of one of them.
        logits: behind each of their tokens, (2, length, vocabulary).
        config: of the text model, whose windows are short in the trial: local layers must see as little of the tree as
            of a text.
    """

    branches: list[list[int]]
    logits: Tensor
    config: Any

    @classmethod
    @torch.no_grad()
    def of(cls, model: Any, sample: Sequence[int]) -> Trial:
        """Let a model read a sample of tokens."""
        half = list(sample[: min(len(sample), TRIED_TOKENS) // 2])
        branches = [list(sample[: 2 * len(half)]), half * 2]
        config = decoder_of(model).config
        with short_windows(config, _window(branches)):
            logits = model(input_ids=torch.tensor(branches, device=compute_device(model)), use_cache=False).logits
        return cls(branches, logits, config)

    def windows(self) -> AbstractContextManager[None]:
        """Within the block the model sees what it saw in the trial."""
        return short_windows(self.config, _window(self.branches))


def _window(branches: Sequence[Sequence[int]]) -> int:
    return max(2, len(branches[0]) // 4)


def check_usable(name: str, trial: Trial) -> None:
    """Check that a model computes finite logits that do not depend on later tokens.

    Raises:
        ModelError: it does not.
    """
    one, other = trial.logits
    if not trial.logits.isfinite().all():
        raise ModelError(f"the model {name!r} computes numbers that are not finite; try another --dtype or file.")
    same = len(one) // 2
    if (one[same - 1] - other[same - 1]).float().abs().mean() > 0.1 * one.float().std():
        raise ModelError(f"the model {name!r} is not a causal language model: its logits depend on later tokens.")


def connect(model: Any, switch: Switch, first: int, trial: Trial) -> Network:
    """The fastest path that reproduces what the model computed in its trial; the plain path with a warning."""
    with trial.windows():
        return _fastest(model, switch, first, trial)


def _fastest(model: Any, switch: Switch, first: int, trial: Trial) -> Network:
    reason = ""
    # The fast path rests on how transformers builds its layers, which differs from family to family and changes from
    # release to release. So no list of families decides, but a comparison with the model itself, part by part.
    for narrow, sparse, grows in itertools.product((True, False), repeat=3):
        network: SharedNetwork | None = None
        try:
            network = SharedNetwork(model, switch, first, narrow=narrow, sparse=sparse, grows=grows)
            error = _disagreement(network, trial)
            if error < TOLERANCE:
                return network
            reason = f"replayed logits differ by {error:.2f} standard deviations."
        except (ModelError, TypeError, AttributeError, ValueError, RuntimeError, KeyError, IndexError) as problem:
            reason = next(iter(str(problem).splitlines()), type(problem).__name__)
        if network is not None:
            network.close()
    warnings.warn(
        f"{type(model).__name__} runs on the slow plain path, every pass through the whole network: {reason}",
        RuntimeWarning,
        stacklevel=3,
    )
    plain = PlainNetwork(model, switch, LinearHead.of(model))
    return plain if _disagreement(plain, trial) < TOLERANCE else PlainNetwork(model, switch, AsLogits())


@torch.no_grad()
def _disagreement(network: Network, trial: Trial) -> float:
    """Mean difference between the model's logits and ours on the two branches, in standard deviations of the logits."""
    result: Pass
    if isinstance(network, SharedNetwork) and network.grows:
        # What they have in common goes first, so that keeping keys and values is tried as well.
        begun = network.run([trial.branches[1][: len(trial.branches[1]) // 2]], keep=True)
        result = begun.grow(begun.trie.paths, trial.branches)
    else:
        result = network.run(trial.branches)
    exact = torch.tensor([0], device=trial.logits.device)
    differences = []
    for logits, path in zip(trial.logits, result.trie.paths, strict=True):
        truth = logits.float()
        # LoRA's B matrices are zero here, so the adapted model is the frozen one and its replay can be compared too.
        for hidden in (result.frozen(path), result.adapted(path)()):
            differences.append(((network.head.logits(hidden, exact) - truth).abs().mean() / truth.std()).item())
        # A single requested token takes the last layer's shortcut.
        end = result.adapted(path[-1:])()
        differences.append(((network.head.logits(end, exact) - truth[-1:]).abs().mean() / truth.std()).item())
    return float(max(differences))
