"""The prefix tree: every token once, every sequence intact."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from secl.backends.local.fast.prefix_tree import Trie

SEQUENCES = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=12), min_size=1, max_size=6)


@given(SEQUENCES)
def test_every_path_spells_its_sequence_and_there_are_as_many_nodes_as_distinct_prefixes(
    sequences: list[list[int]],
) -> None:
    trie, apart = Trie.of(sequences), Trie.of(sequences, shared=False)
    for each in (trie, apart):
        assert [each.tokens[path].tolist() for path in each.paths] == sequences
    assert len(trie.tokens) == len({tuple(each[:end]) for each in sequences for end in range(1, len(each) + 1)})
    assert len(apart.tokens) == sum(map(len, sequences))


@given(SEQUENCES)
def test_a_node_sees_exactly_its_own_path(sequences: list[list[int]]) -> None:
    trie = Trie.of(sequences)
    sight = trie.sight
    pairs = sight.pairs(slice(None))
    for path in trie.paths:
        for length, node in enumerate(path, start=1):
            assert pairs[node].nonzero()[:, 0].tolist() == sorted(path[:length].tolist())
            assert sight.depths[node] == length - 1
    assert sight.is_chain == all(pairs[node, : node + 1].all() for node in range(len(pairs)))


@given(SEQUENCES, st.data())
def test_what_some_nodes_see_together_is_what_each_sees_and_they_see_it_alone_too(
    sequences: list[list[int]], data: st.DataObject
) -> None:
    trie = Trie.of(sequences)
    sight = trie.sight
    chosen = data.draw(st.lists(st.integers(0, len(trie.tokens) - 1), min_size=1, unique=True).map(sorted))
    nodes, pairs = torch.tensor(chosen), sight.pairs(slice(None))
    seen = sight.seen(nodes)
    assert seen.tolist() == pairs[nodes].any(0).nonzero()[:, 0].tolist()
    assert torch.equal(sight.at(seen).pairs(slice(None)), pairs[seen][:, seen])
    assert torch.equal(sight.pairs(nodes, seen), pairs[nodes][:, seen])
