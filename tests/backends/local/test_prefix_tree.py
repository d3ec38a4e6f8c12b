"""The prefix tree: every token once, every sequence intact; attention with the numbers of the dense kernels."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from secl.backends.local.fast import prefix_tree
from secl.backends.local.fast.prefix_tree import Trie, attend, tree_attention
from tests.backends.local.conftest import MakeModel

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


SEQUENCES = [[5, 6, 7, 8, 9], [5, 6, 7, 10, 11, 12], [5, 6, 13], [14, 15, 16]]


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
    trie = Trie.of(SEQUENCES)
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
