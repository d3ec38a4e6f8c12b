"""The prefix tree: every token once, every sequence intact; attention with the numbers of the dense kernels.

Shared passes, grown passes and replays against the network's own forward pass, also with short windows.
"""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from secl.backends.local.adapter import Adapter
from secl.backends.local.fast import prefix_tree
from secl.backends.local.fast.prefix_tree import Trie, attend, tree_attention
from secl.backends.local.fast.select_network import PlainNetwork, Trial, check_usable, connect
from secl.backends.local.fast.shared_network import Pass, SharedNetwork
from secl.backends.local.loading.model_parts import AsLogits, LinearHead
from secl.errors import ModelError
from tests.backends.local.architectures import ARCHITECTURES
from tests.backends.local.conftest import MakeModel, tokens_seen
from tests.tiny import FAMILIES, tiny_model

TREES = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=12), min_size=1, max_size=6)


@given(TREES)
def test_every_path_spells_its_sequence_and_there_are_as_many_nodes_as_distinct_prefixes(
    sequences: list[list[int]],
) -> None:
    trie, apart = Trie.of(sequences), Trie.of(sequences, shared=False)
    for each in (trie, apart):
        assert [each.tokens[path].tolist() for path in each.paths] == sequences
    assert len(trie.tokens) == len({tuple(each[:end]) for each in sequences for end in range(1, len(each) + 1)})
    assert len(apart.tokens) == sum(map(len, sequences))


@given(TREES)
def test_a_node_sees_exactly_its_own_path(sequences: list[list[int]]) -> None:
    trie = Trie.of(sequences)
    pairs = trie.pairs(slice(None))
    for path in trie.paths:
        for length, node in enumerate(path, start=1):
            assert pairs[node].nonzero()[:, 0].tolist() == sorted(path[:length].tolist())
            assert trie.depths[node] == length - 1
    assert trie.is_chain == all(pairs[node, : node + 1].all() for node in range(len(pairs)))


@given(TREES, st.data())
def test_what_some_nodes_see_together_is_what_each_sees_and_they_see_it_alone_too(
    sequences: list[list[int]], data: st.DataObject
) -> None:
    trie = Trie.of(sequences)
    chosen = data.draw(st.lists(st.integers(0, len(trie.tokens) - 1), min_size=1, unique=True).map(sorted))
    nodes, pairs = torch.tensor(chosen), trie.pairs(slice(None))
    seen = trie.seen(nodes)
    assert seen.tolist() == pairs[nodes].any(0).nonzero()[:, 0].tolist()
    assert torch.equal(trie.at(seen).pairs(slice(None)), pairs[seen][:, seen])
    assert torch.equal(trie.pairs(nodes, seen), pairs[nodes][:, seen])


def test_what_tokens_see_counts_positions_and_not_rows() -> None:
    trie = Trie.of([[1, 2, 3, 4], [1, 5]])
    window: Any = SimpleNamespace(sliding_window=2)
    whole: Any = SimpleNamespace(sliding_window=4)
    assert trie.window("full_attention", window) is None
    assert trie.window("sliding_attention", whole) is None
    pairs = trie.pairs(slice(None), window=trie.window("sliding_attention", window))
    assert [row.nonzero()[:, 0].tolist() for row in pairs] == [[0], [0, 1], [1, 2], [2, 3], [0, 4]]


BRANCHES = [[5, 6, 7, 8, 9], [5, 6, 7, 10, 11, 12], [5, 6, 13], [14, 15, 16]]


def material(heads: int, groups: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
    chance = torch.Generator().manual_seed(1)
    shapes = ((1, heads, length, 8), (1, groups, length, 8), (1, groups, length, 8))
    query, key, value = (torch.randn(shape, generator=chance, requires_grad=True) for shape in shapes)
    return query, key, value


def dense(query: Tensor, key: Tensor, value: Tensor, visible: Tensor, softcap: float | None = None) -> Tensor:
    """Return the same attention in float64, computed over every pair."""
    each = query.shape[1] // key.shape[1]
    key, value = (part.double().repeat_interleave(each, dim=1) for part in (key, value))
    scores = query.double() @ key.transpose(2, 3) * 0.3
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    weights = scores.masked_fill(~visible, -torch.inf).softmax(-1)
    return (weights @ value).transpose(1, 2)


@pytest.mark.parametrize("block", [1, 4, 96])
@pytest.mark.parametrize(("heads", "groups"), [(4, 4), (6, 2), (3, 1)])
@pytest.mark.parametrize("softcap", [None, 2.0])
def test_numbers_and_gradients_are_those_of_the_dense_computation(
    monkeypatch: pytest.MonkeyPatch, block: int, heads: int, groups: int, softcap: float | None
) -> None:
    monkeypatch.setattr(prefix_tree, "BLOCK", block)
    trie = Trie.of(BRANCHES)
    visible = trie.pairs(slice(None))
    parts = material(heads, groups, len(visible))
    ours = attend(*parts, trie.blocks(), 0.3, softcap)
    theirs = dense(*parts, visible, softcap)
    torch.testing.assert_close(ours.double(), theirs, atol=1e-6, rtol=1e-5)
    weights = torch.randn(ours.shape, generator=torch.Generator().manual_seed(2))
    for one, other in zip(
        torch.autograd.grad((ours * weights).sum(), parts),
        torch.autograd.grad((theirs * weights).sum(), parts),
        strict=True,
    ):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_a_bf16_body_loses_no_more_than_the_dense_kernel_does() -> None:
    trie = Trie.of([list(range(90)), [*range(60), *range(200, 260)]])
    mask = trie.pairs(slice(None))
    query, key, value = (part.detach().bfloat16() for part in material(4, 4, len(mask)))
    truth = dense(query, key, value, mask)
    kernel = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=0.3).transpose(1, 2)
    ours = attend(query, key, value, trie.blocks(), 0.3)
    assert (ours - truth).abs().mean() < 1.5 * (kernel - truth).abs().mean()


def test_the_usual_attention_comes_back_also_after_an_error() -> None:
    config = SimpleNamespace(_attn_implementation="sdpa")

    def fail() -> None:
        with tree_attention(config):
            assert config._attn_implementation == prefix_tree.NAME
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert config._attn_implementation == "sdpa"


def test_a_model_in_this_process_takes_no_attention_of_cudnn(make_model: MakeModel) -> None:
    torch.backends.cuda.enable_cudnn_sdp(True)
    make_model()
    assert not torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]


SEQUENCES = [[5, 6, 7, 8, 9], [5, 6, 7, 20, 21, 22], [5, 6, 30]]
LONG = [[*range(5, 15)], [*range(5, 11), 20, 21, 22, 23, 24, 25], [5, 6, 30]]
BOTH_MASKS = pytest.mark.parametrize("sparse", [True, False], ids=["blocks", "dense"])


def shaken(family: str, layers: tuple[int, ...], model: Any = None, by: float = 0.3) -> tuple[Any, Adapter]:
    """A tiny model with an adapter that is not zero."""
    model = model or tiny_model(family)
    adapter = Adapter(model, layers, ("qkv_proj",) if family == "phi3" else ("q_proj", "v_proj"))
    generator = torch.Generator().manual_seed(1)
    for parameter in adapter.parameters.values():
        parameter.data += by * torch.randn(parameter.shape, generator=generator)
    return model, adapter


def with_windows(name: str, by: float = 0.3) -> tuple[Any, Adapter]:
    """A tiny model with windows of four tokens, and an adapter that is not zero."""
    (row,) = (each for each in ARCHITECTURES if each.name == name)
    return shaken(name, (2, 3), replace(row, changes={**row.changes, "sliding_window": 4}).model(), by)


def plain_logits(model: Any, sequence: list[int]) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = model(input_ids=torch.tensor([sequence])).logits[0]
    return logits


@torch.no_grad()
def check_states(network: Any, model: Any, result: Pass, sequences: list[list[int]], atol: float = 5e-5) -> None:
    """Check that frozen and adapted states of all tokens, and of the last token alone, equal those of plain passes."""
    exact = torch.tensor([0, 5])
    for sequence, path in zip(sequences, result.paths, strict=True):
        frozen = network.head.logits(result.frozen(path), exact)
        torch.testing.assert_close(frozen, plain_logits(model, sequence), atol=atol, rtol=1e-5)
        with network.adapter.on():
            expected = plain_logits(model, sequence)
        for nodes in (path, path[-1:]):
            adapted = network.head.logits(network.adapted(result, nodes)[1](), exact)
            torch.testing.assert_close(adapted, expected[-len(nodes) :], atol=atol, rtol=1e-5)


@BOTH_MASKS
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_of_a_replay_are_those_of_a_full_pass(family: str, sparse: bool) -> None:
    model, adapter = shaken(family, (2, 3))
    network = SharedNetwork(model, adapter, 2)
    network.sparse = sparse
    result = network.run(SEQUENCES)
    last = np.array([result.paths[1][-1]])
    network.head.rows(network.adapted(result, last)[1](), torch.tensor([3, 4])).sum().backward()  # type: ignore[no-untyped-call]
    ours = [parameter.grad.clone() for parameter in adapter.parameters.values() if parameter.grad is not None]
    for parameter in adapter.parameters.values():
        parameter.grad = None
    with adapter.on():
        model(input_ids=torch.tensor([SEQUENCES[1]])).logits[0, -1, [3, 4]].sum().backward()
    theirs = [parameter.grad for parameter in adapter.parameters.values() if parameter.grad is not None]
    assert len(ours) == len(theirs) == len(adapter.parameters)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def layer_that_cannot_be_narrowed(model: Any) -> None:
    """Make the last layer treat a single token differently, as no feed-forward part of a language model does."""
    mlp, plain = model.model.layers[3].mlp, model.model.layers[3].mlp.forward
    mlp.forward = lambda hidden: plain(hidden) if hidden.shape[1] > 1 else plain(hidden) + 1


def bent_logits(model: Any) -> None:
    """Change the logits after the head."""

    def bend(_module: Any, _args: Any, out: Any) -> Any:
        out.logits = out.logits.abs()
        return out

    model.register_forward_hook(bend)


@pytest.mark.parametrize(("spoil", "head"), [(bent_logits, AsLogits), (layer_that_cannot_be_narrowed, LinearHead)])
def test_a_model_whose_logits_the_fast_path_does_not_reproduce_takes_the_plain_path(spoil: Any, head: Any) -> None:
    model = tiny_model("llama")
    adapter = Adapter(model, (2, 3), ("q_proj", "v_proj"))
    spoil(model)
    with pytest.warns(RuntimeWarning, match="differ"):
        network = connect(model, adapter, 2, Trial.of(model, range(2, 12)))
    assert isinstance(network, PlainNetwork)
    assert isinstance(network.head, head)
    assert not model.model.layers[2]._forward_pre_hooks


def test_a_model_whose_logits_change_from_pass_to_pass_is_refused() -> None:
    model = tiny_model("llama")
    model.lm_head.register_forward_hook(lambda module, args, out: out + torch.randn(out.shape[-1]))
    adapter, trial = Adapter(model, (2, 3), ("q_proj", "v_proj")), Trial.of(model, range(2, 12))
    with pytest.warns(RuntimeWarning, match="differ"), pytest.raises(ModelError, match="cannot write texts with"):
        connect(model, adapter, 2, trial)


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
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = transformers.BertConfig(vocab_size=64, initializer_range=1.0, **sizes)
    with pytest.raises(ModelError, match="is not a causal language model"):
        check_usable("bert", Trial.of(transformers.BertForMaskedLM(config).eval(), range(2, 12)))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_last_layer_goes_on_with_the_asked_tokens_alone(family: str) -> None:
    model, adapter = shaken(family, (2, 3))
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
    path = result.paths[0]
    asked = np.array([path[-1], path[2], path[-1]])
    states = network.adapted(result, asked)[1]().detach()
    assert widths == {2: {len(path)}, 3: {2}}
    with adapter.on():
        expected = plain_logits(model, SEQUENCES[0])[[-1, 2, -1]]
    torch.testing.assert_close(network.head.logits(states, torch.tensor([0])), expected, atol=2e-5, rtol=1e-5)


@BOTH_MASKS
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layers", [(2, 3), (0, 1), (1,)])
def test_a_pass_and_one_that_grew_have_the_states_of_plain_passes(
    family: str, layers: tuple[int, ...], sparse: bool
) -> None:
    model, adapter = shaken(family, layers)
    network = SharedNetwork(model, adapter, min(layers))
    network.sparse = sparse
    seen, tree = tokens_seen(model), [[5, 6, 7], [5, 6, 30], [40, 41]]
    begun = network.run(tree, keep=True)
    # The first sequence goes on, the second ends as before, the third branches off, and the fourth is new.
    sequences = [[5, 6, 7, 8, 9], [5, 6, 30], [40, 50, 51], [60, 61]]
    grown = network.grow([begun], sequences)
    assert seen[1:] == [2 + 0 + 2 + 2]
    check_states(network, model, begun, tree)
    for result in (grown, network.grow([begun], sequences)):  # the first one did not change what was kept
        check_states(network, model, result, sequences)
    path = begun.paths[0]
    assert not torch.allclose(begun.frozen(path), network.adapted(begun, path)[1](), atol=1e-3)


def test_a_device_that_fails_in_the_trial_is_not_taken_for_an_unknown_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    model, adapter = shaken("llama", (2, 3))
    trial = Trial.of(model, range(5, 30))

    def fail(*_: Any, **__: Any) -> Any:
        raise torch.AcceleratorError("CUDA error: device-side assert triggered\nCompile with `TORCH_USE_CUDA_DSA`.")

    monkeypatch.setattr(SharedNetwork, "run", fail)
    with pytest.raises(
        ModelError, match=r"the device failed .* \(CUDA error: device-side assert triggered\), so this process"
    ):
        connect(model, adapter, 2, trial)


def test_a_device_that_refuses_wide_products_of_16_bits_computes_narrow_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnRocm(torch.Tensor):
        """A tensor that says that it is on a GPU."""

        @property
        def device(self) -> torch.device:  # type: ignore[override]
            return torch.device("cuda")

    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError("gemm input type at::BFloat16 and output type float is not supported for ROCm")

    model = tiny_model("llama").to(torch.bfloat16)
    head = LinearHead.of(model)
    hidden = torch.randn(3, 32, dtype=torch.bfloat16)
    expected = head.logits(hidden, torch.tensor([1]))
    monkeypatch.setattr(torch, "mm", refuse)
    with torch.no_grad():
        with pytest.raises(RuntimeError, match="not supported for ROCm"):
            head._wide(hidden.as_subclass(OnRocm))
        monkeypatch.setattr(torch.version, "hip", "6.4.0")
        found = head._wide(hidden.as_subclass(OnRocm))
    assert torch.equal(found[:, 2:].as_subclass(torch.Tensor), expected[:, 2:])


@BOTH_MASKS
@pytest.mark.parametrize("name", ["Gemma 2", "Gemma 3", "Mistral", "gpt-oss"])
def test_a_tree_deeper_than_the_windows_has_the_states_of_plain_passes(name: str, sparse: bool) -> None:
    model, adapter = with_windows(name)
    network = SharedNetwork(model, adapter, 2)
    network.sparse = sparse
    begun = network.run([LONG[1][:7]], keep=True)
    check_states(network, model, network.run(LONG), LONG, 2e-4)
    check_states(network, model, network.run(LONG[:1]), LONG[:1], 2e-4)
    check_states(network, model, network.grow([begun], LONG[1:2]), LONG[1:2], 2e-4)


def test_windows_are_tried_at_load_although_the_sample_is_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    model, adapter = with_windows("Mistral", by=0)
    model.config.sliding_window = 1024
    trial = Trial.of(model, range(2, 22))
    assert model.config.sliding_window == 1024
    network = connect(model, adapter, 2, trial)
    assert isinstance(network, SharedNetwork)
    network.close()
    monkeypatch.setattr("secl.backends.local.fast.shared_network.layer_kinds", lambda _config: ["full_attention"] * 4)
    with pytest.warns(RuntimeWarning, match="differ"):  # a fast path that ignores the window
        network = connect(model, adapter, 2, trial)
    assert isinstance(network, PlainNetwork)
