"""Attention over a tree: the numbers and the gradients of the dense kernels."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from secl.backends.local.fast import tree_attention as blocks
from secl.backends.local.fast.prefix_tree import Trie
from secl.backends.local.fast.tree_attention import BlockMask, attend, tree_attention
from tests.backends.local.conftest import MakeModel

SEQUENCES = [[5, 6, 7, 8, 9], [5, 6, 7, 10, 11, 12], [5, 6, 13], [14, 15, 16]]


def material(heads: int, groups: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
    chance = torch.Generator().manual_seed(1)
    shapes = ((1, heads, length, 8), (1, groups, length, 8), (1, groups, length, 8))
    query, key, value = (torch.randn(shape, generator=chance, requires_grad=True) for shape in shapes)
    return query, key, value


def dense(query: Tensor, key: Tensor, value: Tensor, visible: Tensor, softcap: float | None = None) -> Tensor:
    """The same in float64, every pair computed."""
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
    monkeypatch.setattr(blocks, "BLOCK", block)
    sight = Trie.of(SEQUENCES).sight
    visible = sight.pairs(slice(None))
    parts = material(heads, groups, len(visible))
    ours = attend(*parts, BlockMask(sight), 0.3, softcap)
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
    sight = Trie.of([list(range(90)), [*range(60), *range(200, 260)]]).sight
    mask = sight.pairs(slice(None))
    query, key, value = (part.detach().bfloat16() for part in material(4, 4, len(mask)))
    truth = dense(query, key, value, mask)
    kernel = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=0.3).transpose(1, 2)
    ours = attend(query, key, value, BlockMask(sight), 0.3)
    assert (ours - truth).abs().mean() < 1.5 * (kernel - truth).abs().mean()


def test_the_usual_attention_comes_back_also_after_an_error() -> None:
    config = SimpleNamespace(_attn_implementation="sdpa")

    def fail() -> None:
        with tree_attention(config):
            assert config._attn_implementation == blocks.NAME
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert config._attn_implementation == "sdpa"


def test_a_model_in_this_process_takes_no_attention_of_cudnn(make_model: MakeModel) -> None:
    torch.backends.cuda.enable_cudnn_sdp(True)
    make_model()
    assert not torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
