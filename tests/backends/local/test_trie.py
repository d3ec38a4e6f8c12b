"""The prefix tree: every token once, every sequence intact."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from secl.backends.local.fast.prefix_tree import Trie

SEQUENCES = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=12), min_size=1, max_size=6)


@given(SEQUENCES)
def test_every_path_spells_its_sequence(sequences: list[list[int]]) -> None:
    trie = Trie.of(sequences)
    assert [trie.tokens[path].tolist() for path in trie.paths] == sequences


@given(SEQUENCES)
def test_a_node_sees_exactly_its_own_path(sequences: list[list[int]]) -> None:
    trie = Trie.of(sequences)
    visible = trie.visible()
    for path in trie.paths:
        for length, node in enumerate(path, start=1):
            assert visible[node].nonzero()[0].tolist() == sorted(path[:length].tolist())
            assert trie.depths[node] == length - 1


@given(SEQUENCES)
def test_there_are_as_many_nodes_as_distinct_prefixes(sequences: list[list[int]]) -> None:
    prefixes = {tuple(sequence[:end]) for sequence in sequences for end in range(1, len(sequence) + 1)}
    assert len(Trie.of(sequences).tokens) == len(prefixes)


def test_sequences_kept_apart_share_nothing() -> None:
    trie = Trie.of([[1, 2], [1, 2]], shared=False)
    assert trie.tokens.tolist() == [1, 2, 1, 2]
