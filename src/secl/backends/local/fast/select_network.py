"""Choose how to run a model: on the fast path if the path reproduces the model's logits, else on the plain path.

On the plain path, each sequence goes through all layers in a separate forward pass of the model.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from secl.backends.local.adapter import Adapter
from secl.backends.local.fast.batch import Batch
from secl.backends.local.fast.prefix_tree import Nodes, Trie, short_windows
from secl.backends.local.fast.shared_network import Pass, Replay, SharedNetwork
from secl.backends.local.loading.guard import out_of_memory
from secl.backends.local.loading.model_parts import AsLogits, LinearHead, compute_device, decoder_of
from secl.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

TOLERANCE = 0.05
"""Largest difference of logits that rounding explains, in standard deviations of the logits."""

MAX_DIFFERENCE = 0.1
"""Largest difference of logits between two ways to compute a text, in standard deviations of the logits."""

TRIED_TOKENS = 32
"""Maximum number of tokens of each sequence in a `Trial`: enough to tell the effect of a wrong mask from rounding."""


class PlainNetwork:
    """Runs every sequence in a separate forward pass of the model.

    `head` turns hidden states into logits. If the output embedding alone does not reproduce the model's logits, passes
    return logits, and `head` is `AsLogits`.
    """

    def __init__(self, model: PreTrainedModel, adapter: Adapter, head: LinearHead | AsLogits) -> None:
        self.model = model
        self.device = compute_device(model)
        self.adapter = adapter
        self.head = head
        self.top_share = 1.0
        self._hidden: Tensor
        # In every architecture, the input of the head is the final hidden state.
        if isinstance(head, LinearHead):
            head.module.register_forward_pre_hook(self._keep)

    def _keep(self, _head: nn.Module, args: tuple[Tensor, ...]) -> None:
        self._hidden = args[0]

    @torch.no_grad()
    def run(self, sequences: Sequence[Sequence[int]]) -> Pass:
        """Return a pass in which each sequence went through the frozen model alone."""
        trie = Trie.of(sequences, shared=False)
        return Pass(torch.cat([self.forward(sequence) for sequence in sequences])[None], trie=trie)

    def adapted(self, forward: Pass, nodes: Nodes) -> Replay:
        """See `SharedNetwork.adapted`."""
        # The plain path cannot run parts of a sequence, so each sequence with a requested node runs again. Here each
        # node belongs to a single sequence.
        paths = [path for path in forward.trie.paths if np.isin(path, nodes).any()]
        order = np.concatenate(paths)
        rows = torch.tensor([int(np.flatnonzero(order == node)[0]) for node in nodes])

        def compute() -> Tensor:
            with self.adapter.on():
                return torch.cat([self.forward(forward.trie.tokens[path].tolist()) for path in paths])[rows]

        return len(order), compute

    def forward(self, sequence: Sequence[int]) -> Tensor:
        """Return the inputs of the head for one sequence: hidden states (length, d), or logits (length, V)."""
        tokens = torch.tensor([list(sequence)], device=self.device)
        logits: Tensor = self.model(input_ids=tokens, use_cache=False).logits
        return logits[0] if isinstance(self.head, AsLogits) else self._hidden[0].to(self.device)


Network = SharedNetwork | PlainNetwork
"""Runs sequences through the network; its head turns the states of passes into logits."""


@dataclass(frozen=True)
class Trial:
    """The model's own logits for two short sequences, which the fast or the plain path must reproduce.

    Attributes:
        branches: two sequences of equal length with a common first half. A wrong mask or position changes the logits of
            one of them.
        logits: logits after each token, (2, length, vocabulary).
        config: configuration of the text model. The trial shortens sliding windows, so that the windows end inside the
            branches.
    """

    branches: list[list[int]]
    logits: Tensor
    config: PreTrainedConfig

    @classmethod
    @torch.no_grad()
    def of(cls, model: PreTrainedModel, sample: Sequence[int]) -> Trial:
        """Run a model on sequences made from a sample of tokens."""
        half = list(sample[: min(len(sample), TRIED_TOKENS) // 2])
        branches = [list(sample[: 2 * len(half)]), half * 2]
        config = decoder_of(model).config
        with short_windows(config, _window(branches)):
            logits = model(input_ids=torch.tensor(branches, device=compute_device(model)), use_cache=False).logits
        return cls(branches, logits, config)


def _window(branches: Sequence[Sequence[int]]) -> int:
    return max(2, len(branches[0]) // 4)


def check_usable(name: str, trial: Trial) -> None:
    """Raise `ModelError` if a model's logits are not finite, or depend on later tokens."""
    one, other = trial.logits
    if not trial.logits.isfinite().all():
        raise ModelError(f"the model {name!r} computes numbers that are not finite; try another --dtype or file.")
    same = len(one) // 2
    if (one[same - 1] - other[same - 1]).float().abs().mean() > MAX_DIFFERENCE * one.float().std():
        raise ModelError(f"the model {name!r} is not a causal language model: its logits depend on later tokens.")


def connect(model: PreTrainedModel, adapter: Adapter, first: int, trial: Trial) -> Network:
    """Return the fast path if it reproduces the model's own results; else warn and return the plain path."""
    with short_windows(trial.config, _window(trial.branches)):
        fast = _fast_network(model, adapter, first, trial)
        if isinstance(fast, SharedNetwork):
            return fast
        warnings.warn(
            f"{type(model).__name__} takes the slower plain path, which runs every prompt separately. Reason: {fast}",
            RuntimeWarning,
            stacklevel=2,
        )
        _check_writing(model, trial)
        plain = PlainNetwork(model, adapter, LinearHead.of(model))
        return plain if _disagreement(plain, trial) < TOLERANCE else PlainNetwork(model, adapter, AsLogits())


@torch.no_grad()
def _check_writing(model: PreTrainedModel, trial: Trial) -> None:
    """Raise `ModelError` if the logits of padded texts, or of texts that continue a cache, are not the model's own."""
    lengths = len(trial.branches[0]) - 1, len(trial.branches[0]) // 2
    try:
        batch = Batch.of(model, [row[:length] for row, length in zip(trial.branches, lengths, strict=True)])
        before = batch.logits
        batch.step([0, 1], [row[length] for row, length in zip(trial.branches, lengths, strict=True)])
        error = 0.0
        for row, length in enumerate(lengths):
            own = trial.logits[row].float()
            found = torch.stack([before[row], batch.logits[row]])
            error = max(error, ((found - own[length - 1 : length + 1]).abs().mean(-1).max() / own.std()).item())
    except Exception as problem:
        raise ModelError(f"secl cannot write texts with {type(model).__name__}: {_first_line(problem)}.") from problem
    if error > MAX_DIFFERENCE:
        raise ModelError(
            f"secl cannot write texts with {type(model).__name__}: after padding, or after a first pass, its logits "
            f"differ by {error:.2f} standard deviations from those of a whole text."
        )


def _fast_network(model: PreTrainedModel, adapter: Adapter, first: int, trial: Trial) -> SharedNetwork | str:
    """Return the fast path through a model, or the reason why it cannot be used.

    The fast path depends on transformers' layers, which differ between families and releases. So a comparison with the
    model itself decides, instead of a list of families.
    """
    network: SharedNetwork | None = None
    try:
        network = SharedNetwork(model, adapter, first)
        error = _disagreement(network, trial)
        if error < TOLERANCE:
            return network
        reason = f"the fast path's logits differ from the model's by {error:.2f} standard deviations."
    except torch.AcceleratorError as problem:
        raise ModelError(
            f"the device failed in a test of the model ({_first_line(problem)}), so this process cannot use it any "
            "more; start again, and take --device cpu if the device fails again."
        ) from problem
    except Exception as problem:  # an unknown layout may fail in any way; the warning quotes the error
        if out_of_memory(problem):
            raise ModelError("the model fills the device's memory; take a smaller model or --quantize.") from problem
        reason = _first_line(problem)
    if network is not None:
        network.close()
    return reason


def _first_line(problem: Exception) -> str:
    return next(iter(str(problem).splitlines()), type(problem).__name__)


@torch.no_grad()
def _disagreement(network: Network, trial: Trial) -> float:
    """Return the largest mean difference of a network's logits from the model's, in standard deviations."""
    if isinstance(network, SharedNetwork):
        # The first half, which the branches have in common, has a pass of its own, so that the trial also tests kept
        # keys and values.
        begun = network.run([trial.branches[1][: len(trial.branches[1]) // 2]], keep=True)
        result = network.grow([begun], trial.branches)
    else:
        result = network.run(trial.branches)
    exact = torch.tensor([0], device=trial.logits.device)
    differences = []
    for logits, path in zip(trial.logits, result.paths, strict=True):
        truth = logits.float()
        # LoRA's B matrices are zero here, so replays must give the frozen model's logits as well.
        for hidden in (result.frozen(path), network.adapted(result, path)[1]()):
            differences.append(((network.head.logits(hidden, exact) - truth).abs().mean() / truth.std()).item())
        # A single requested token tests `only_rows`.
        end = network.adapted(result, path[-1:])[1]()
        differences.append(((network.head.logits(end, exact) - truth[-1:]).abs().mean() / truth.std()).item())
    return float(max(differences))
