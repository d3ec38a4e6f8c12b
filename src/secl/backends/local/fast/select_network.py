"""Choose how to run a model: the fast path where it reproduces the model's own logits, else the plain one."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch

from secl.backends.local.fast.plain_network import PlainNetwork
from secl.backends.local.fast.shared_network import Network, SharedNetwork, Switch
from secl.backends.local.model_parts import AsLogits, LinearHead
from secl.backends.local.placement import compute_device
from secl.errors import ModelError

TOLERANCE = 0.05
"""Largest difference of logits that rounding explains, in their standard deviations."""


@torch.no_grad()
def check_usable(name: str, model: Any, sample: Sequence[int]) -> None:
    """Check that a model computes finite logits that do not depend on later tokens.

    Raises:
        ModelError: it does not.
    """
    half = len(sample) // 2
    whole, part = (
        model(input_ids=torch.tensor([list(ids)], device=compute_device(model)), use_cache=False).logits[0].float()
        for ids in (sample, sample[:half])
    )
    if not whole.isfinite().all():
        raise ModelError(f"the model {name!r} computes numbers that are not finite; try another --dtype or file.")
    if (whole[half - 1] - part[-1]).abs().mean() > 0.1 * whole.std():
        raise ModelError(f"the model {name!r} is not a causal language model: its logits depend on later tokens.")


def connect(model: Any, switch: Switch, first: int, sample: Sequence[int]) -> Network:
    """The fastest path that reproduces the model's own logits on `sample`; the plain path with a warning."""
    reason = ""
    # The fast path rests on how transformers builds its layers, which differs from family to family and changes from
    # release to release. So no list of families decides, but a comparison with the model itself, part by part.
    for narrow, sparse in ((True, True), (True, False), (False, False)):
        network: SharedNetwork | None = None
        try:
            network = SharedNetwork(model, switch, first, narrow=narrow, sparse=sparse)
            error = _disagreement(network, model, sample)
            if error < TOLERANCE:
                return network
            reason = f"replayed logits differ by {error:.2f} standard deviations."
        except (ModelError, TypeError, AttributeError, ValueError, RuntimeError, KeyError, IndexError) as problem:
            reason = str(problem)
        if network is not None:
            network.close()
    warnings.warn(
        f"{type(model).__name__} runs on the slow plain path, every pass through the whole network: {reason}",
        RuntimeWarning,
        stacklevel=2,
    )
    plain = PlainNetwork(model, switch, LinearHead.of(model))
    return plain if _disagreement(plain, model, sample) < TOLERANCE else PlainNetwork(model, switch, AsLogits())


@torch.no_grad()
def _disagreement(network: Network, model: Any, sample: Sequence[int]) -> float:
    """Mean difference between the model's logits and ours on two branches, in standard deviations of the logits."""
    # Two branches with a common trunk: a mask or positions that mix them up change the logits of one of them.
    cut = len(sample) // 2
    branches = [list(sample), [*sample[:cut], *sample[:cut]]]
    result = network.run(branches)
    exact = torch.tensor([0], device=compute_device(model))
    differences = []
    for branch, path in zip(branches, result.trie.paths, strict=True):
        tokens = torch.tensor([branch], device=compute_device(model))
        truth = model(input_ids=tokens, use_cache=False).logits[0].float()
        # LoRA's B matrices are zero here, so the adapted model is the frozen one and its replay can be compared too.
        for hidden in (result.frozen(path), result.adapted(path)()):
            differences.append(((network.head.logits(hidden, exact) - truth).abs().mean() / truth.std()).item())
        # A single requested token takes the last layer's shortcut.
        end = result.adapted(path[-1:])()
        differences.append(((network.head.logits(end, exact) - truth[-1:]).abs().mean() / truth.std()).item())
    return float(max(differences))
