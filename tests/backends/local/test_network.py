"""The shared pass, passes that grew and replays against the network's own plain forward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from secl.backends.local.adapter import Adapter
from secl.backends.local.fast.prefix_tree import Trie
from secl.backends.local.fast.select_network import Network, Pass, PlainNetwork, Trial, check_usable, connect
from secl.backends.local.fast.shared_network import SharedNetwork
from secl.backends.local.fast.sight import Sight
from secl.backends.local.model_parts import AsLogits
from secl.errors import ModelError
from tests.backends.local.architectures import ARCHITECTURES
from tests.tiny import FAMILIES, tiny_model

SEQUENCES = [[*range(5, 15)], [*range(5, 11), 20, 21, 22, 23, 24, 25], [5, 6, 30]]
WINDOWED = ("Gemma 2", "Gemma 3", "Mistral", "gpt-oss")
"""Architectures with layers that see so far: here four tokens, so that sequences are longer."""


def model_of(name: str) -> Any:
    """A tiny model of a family, or of an architecture with short windows."""
    if name not in WINDOWED:
        return tiny_model(name)
    (row,) = (each for each in ARCHITECTURES if each.name == name)
    return replace(row, changes={**row.changes, "sliding_window": 4}).model()


def shaken(name: str, layers: tuple[int, ...] = (2, 3)) -> tuple[Any, Adapter]:
    """A tiny model with an adapter that is not zero."""
    model = model_of(name)
    adapter = Adapter(model, layers, ("qkv_proj",) if name == "phi3" else ("q_proj", "v_proj"))
    generator = torch.Generator().manual_seed(1)
    for parameter in adapter.parameters.values():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
    frozen = plain_logits(model, [5, 6, 7])
    with adapter.on():
        assert not torch.allclose(plain_logits(model, [5, 6, 7]), frozen, atol=1e-3)
    return model, adapter


@torch.no_grad()
def plain_logits(model: Any, sequence: Sequence[int]) -> torch.Tensor:
    logits: torch.Tensor = model(input_ids=torch.tensor([list(sequence)])).logits[0]
    return logits


def check_states(model: Any, network: Network, result: Pass, sequences: Sequence[Sequence[int]]) -> None:
    """Frozen and adapted states of a pass are those of plain ones, also where only the last token is asked for."""
    exact = torch.tensor([0, 5])
    for sequence, path in zip(sequences, result.trie.paths, strict=True):
        frozen = network.head.logits(result.frozen(path), exact)
        torch.testing.assert_close(frozen, plain_logits(model, sequence), atol=2e-4, rtol=1e-5)
        with network.adapter.on():
            expected = plain_logits(model, sequence)
        adapted = network.head.logits(result.adapted(path)().detach(), exact)
        torch.testing.assert_close(adapted, expected, atol=2e-4, rtol=1e-5)
        last = network.head.logits(result.adapted(path[-1:])().detach(), exact)
        torch.testing.assert_close(last, expected[-1:], atol=2e-4, rtol=1e-5)


sparse_or_dense = pytest.mark.parametrize("sparse", [True, False], ids=["blocks", "dense"])


@sparse_or_dense
@pytest.mark.parametrize("name", [*FAMILIES, *WINDOWED])
@pytest.mark.parametrize("layers", [(2, 3), (1,)])
def test_a_tree_and_a_pass_that_grew_have_the_states_of_plain_passes(
    name: str, layers: tuple[int, ...], sparse: bool
) -> None:
    model, adapter = shaken(name, layers)
    network = SharedNetwork(model, adapter, min(layers), sparse=sparse)
    for sequences in (SEQUENCES, SEQUENCES[:1]):
        check_states(model, network, network.run(sequences), sequences)
    begun = network.run([SEQUENCES[1][:7], [5, 6, 30], [40, 41]], keep=True)
    # One goes on, one is left where it was, one parts from what was read, and one has nothing in common with it.
    sequences = [SEQUENCES[1], [5, 6, 30], [40, 50, 51], [60, 61]]
    grown = begun.grow(begun.trie.paths, sequences)
    assert len(grown.trie.tokens) - grown.known == 5 + 0 + 2 + 2
    for result in (grown, begun.grow(begun.trie.paths, sequences)):  # the first one did not change what was kept
        check_states(model, network, result, sequences)


@sparse_or_dense
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_of_a_replay_are_those_of_a_full_pass(family: str, sparse: bool) -> None:
    model, adapter = shaken(family)
    network = SharedNetwork(model, adapter, 2, sparse=sparse)
    result = network.run(SEQUENCES)
    last = np.array([result.trie.paths[1][-1]])
    network.head.rows(result.adapted(last)(), torch.tensor([3, 4])).sum().backward()  # type: ignore[no-untyped-call]
    ours = [parameter.grad.clone() for parameter in adapter.parameters.values() if parameter.grad is not None]
    for parameter in adapter.parameters.values():
        parameter.grad = None
    with adapter.on():
        model(input_ids=torch.tensor([SEQUENCES[1]])).logits[0, -1, [3, 4]].sum().backward()
    theirs = [parameter.grad for parameter in adapter.parameters.values() if parameter.grad is not None]
    assert len(ours) == len(theirs) == len(adapter.parameters)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_last_layer_goes_on_with_the_asked_tokens_alone(family: str) -> None:
    model, adapter = shaken(family)
    network = SharedNetwork(model, adapter, 2)
    widths: dict[int, set[int]] = {2: set(), 3: set()}
    for number, seen in widths.items():
        mlp: Any = network.layout.layers[number].mlp
        (getattr(mlp, "up_proj", None) or mlp.gate_up_proj).register_forward_pre_hook(
            lambda _module, args, seen=seen: seen.add(args[0].shape[1])
        )
    result = network.run(SEQUENCES)
    for seen in widths.values():
        seen.clear()
    path = result.trie.paths[0]
    asked = np.array([path[-1], path[2], path[-1]])
    states = result.adapted(asked)().detach()
    assert widths == {2: {len(path)}, 3: {2}}
    with adapter.on():
        expected = plain_logits(model, SEQUENCES[0])[[-1, 2, -1]]
    torch.testing.assert_close(network.head.logits(states, torch.tensor([0])), expected, atol=2e-5, rtol=1e-5)


def connected(model: Any, module: str = "v_proj") -> Network:
    """The path that is chosen for a model."""
    return connect(model, Adapter(model, (2, 3), (module,)), 2, Trial.of(model, range(2, 22)))


def long_sighted() -> Any:
    """A model whose windows are longer than any trial."""
    model = model_of("Mistral")
    model.config.sliding_window = 1024
    return model


def test_windows_are_tried_at_load_although_the_sample_is_shorter() -> None:
    model = long_sighted()
    assert isinstance(connected(model), SharedNetwork)
    assert model.config.sliding_window == 1024


def forget_windows(_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secl.backends.local.fast.shared_network.layer_kinds", lambda _config: ["full_attention"] * 4)


def count_tokens(model: Any, _monkeypatch: pytest.MonkeyPatch) -> None:
    """Tell a single token from several, as no feed-forward part of a language model does."""
    mlp = model.model.layers[3].mlp
    plain = mlp.forward
    mlp.forward = lambda hidden: plain(hidden) if hidden.shape[1] > 1 else plain(hidden) + 1


def add_noise(model: Any, _monkeypatch: pytest.MonkeyPatch) -> None:
    model.lm_head.register_forward_hook(lambda module, args, out: out + torch.randn(out.shape[-1]))


@pytest.mark.parametrize("spoil", [forget_windows, count_tokens, add_noise])
def test_a_fast_path_that_does_not_reproduce_the_logits_is_not_taken(
    spoil: Callable[[Any, pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = long_sighted()
    spoil(model, monkeypatch)
    with pytest.warns(RuntimeWarning, match="differ"):
        network = connected(model)
    assert isinstance(network, PlainNetwork)
    assert isinstance(network.head, AsLogits) == (spoil is add_noise)  # not even the plain path has these logits
    assert not model.model.layers[2]._forward_pre_hooks


def test_a_model_of_unknown_layout_takes_the_plain_path_with_a_warning() -> None:
    model = tiny_model("gpt2")
    with pytest.warns(RuntimeWarning, match="plain path"):
        network = connected(model, "c_attn")
    assert isinstance(network, PlainNetwork)
    check_states(model, network, network.run(SEQUENCES), SEQUENCES)


def test_the_rows_of_interest_come_from_a_float32_head_also_for_a_bf16_body() -> None:
    model = tiny_model("llama").to(torch.bfloat16)
    network = SharedNetwork(model, Adapter(model, (3,), ("q_proj", "v_proj")), 3)
    states = network.run([SEQUENCES[0]]).frozen(np.arange(5))
    rows = torch.tensor([7, 9])
    expected = states.float() @ model.lm_head.weight[rows].float().T
    assert torch.equal(network.head.rows(states, rows), expected)
    assert torch.equal(network.head.logits(states, rows)[:, rows], expected)


def test_weights_that_are_not_finite_are_refused() -> None:
    model = tiny_model()
    model.model.norm.weight.data[0] = float("nan")
    with pytest.raises(ModelError, match="'broken' computes numbers that are not finite"):
        check_usable("broken", Trial.of(model, range(2, 12)))


def test_a_network_that_looks_ahead_is_refused() -> None:
    config = transformers.BertConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        initializer_range=1.0,
    )
    with pytest.raises(ModelError, match="is not a causal language model"):
        check_usable("bert", Trial.of(transformers.BertForMaskedLM(config).eval(), range(2, 12)))


def test_what_tokens_see_counts_positions_and_not_rows() -> None:
    sight = Sight.of(Trie.of([[1, 2, 3, 4], [1, 5]]))
    window: Any = SimpleNamespace(sliding_window=2)
    whole: Any = SimpleNamespace(sliding_window=4)
    assert sight.in_layer("full_attention", whole) is sight
    assert sight.in_layer("sliding_attention", whole) is sight
    pairs = sight.in_layer("sliding_attention", window).pairs(slice(None))
    assert [row.nonzero()[:, 0].tolist() for row in pairs] == [[0], [0, 1], [1, 2], [2, 3], [0, 4]]
