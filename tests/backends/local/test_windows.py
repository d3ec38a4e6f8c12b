"""Layers that see only so far: passes over trees, replays and passes that grew, against plain passes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from secl.backends.local.adapter import Adapter
from secl.backends.local.fast.prefix_tree import Trie
from secl.backends.local.fast.select_network import PlainNetwork, Trial, connect
from secl.backends.local.fast.shared_network import SharedNetwork
from tests.backends.local import test_network
from tests.backends.local.architectures import ARCHITECTURES
from tests.backends.local.test_network import plain_logits

SEQUENCES = [[*range(5, 15)], [*range(5, 11), 20, 21, 22, 23, 24, 25], [5, 6, 30]]


def shaken(name: str, by: float = 0.3) -> tuple[Any, Adapter]:
    """A tiny model with windows of four tokens, and an adapter that is not zero."""
    (row,) = (each for each in ARCHITECTURES if each.name == name)
    return test_network.shaken(name, (2, 3), replace(row, changes={**row.changes, "sliding_window": 4}).model(), by)


@pytest.mark.parametrize("sparse", [True, False], ids=["blocks", "dense"])
@pytest.mark.parametrize("name", ["Gemma 2", "Gemma 3", "Mistral", "gpt-oss"])
def test_a_tree_deeper_than_the_windows_has_the_states_of_plain_passes(name: str, sparse: bool) -> None:
    model, adapter = shaken(name)
    network = SharedNetwork(model, adapter, 2)
    network.sparse = sparse
    whole = network.run(SEQUENCES)
    results = [(whole, SEQUENCES), (network.run(SEQUENCES[:1]), SEQUENCES[:1])]  # a tree, and a single sequence
    begun = network.run([SEQUENCES[1][:7]], keep=True)
    results.append((network.grow([begun], SEQUENCES[1:2]), SEQUENCES[1:2]))
    exact = torch.tensor([0])
    for result, sequences in results:
        for sequence, path in zip(sequences, result.paths, strict=True):
            frozen = network.head.logits(result.frozen(path), exact)
            torch.testing.assert_close(frozen, plain_logits(model, sequence), atol=2e-4, rtol=1e-5)
            adapted = network.head.logits(network.adapted(result, path)().detach(), exact)
            last = network.head.logits(network.adapted(result, path[-1:])().detach(), exact)
            with adapter.on():
                expected = plain_logits(model, sequence)
            torch.testing.assert_close(adapted, expected, atol=2e-4, rtol=1e-5)
            torch.testing.assert_close(last, expected[-1:], atol=2e-4, rtol=1e-5)


def test_windows_are_tried_at_load_although_the_sample_is_shorter() -> None:
    model, adapter = shaken("Mistral", by=0)
    model.config.sliding_window = 1024
    trial = Trial.of(model, range(2, 22))
    assert model.config.sliding_window == 1024
    network = connect(model, adapter, 2, trial)
    assert isinstance(network, SharedNetwork)
    network.close()


def test_a_fast_path_that_does_not_know_of_a_window_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    model, adapter = shaken("Mistral", by=0)
    model.config.sliding_window = 1024
    monkeypatch.setattr("secl.backends.local.fast.shared_network.layer_kinds", lambda _config: ["full_attention"] * 4)
    with pytest.warns(RuntimeWarning, match="differ"):
        network = connect(model, adapter, 2, Trial.of(model, range(2, 22)))
    assert isinstance(network, PlainNetwork)


def test_what_tokens_see_counts_positions_and_not_rows() -> None:
    sight = Trie.of([[1, 2, 3, 4], [1, 5]]).sight
    window: Any = SimpleNamespace(sliding_window=2)
    whole: Any = SimpleNamespace(sliding_window=4)
    assert sight.in_layer("full_attention", whole) is sight
    assert sight.in_layer("sliding_attention", whole) is sight
    pairs = sight.in_layer("sliding_attention", window).pairs(slice(None))
    assert [row.nonzero()[:, 0].tolist() for row in pairs] == [[0], [0, 1], [1, 2], [2, 3], [0, 4]]
