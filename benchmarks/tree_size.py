"""What a pass costs that holds one question, or several in one tree, with attention in blocks and with a dense mask.

python -m benchmarks.tree_size [--model smollm2]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial

from benchmarks.timing import alternate, medians
from secl.backends.local.fast.prefix_tree import Trie
from secl.backends.local.model import LocalModel
from secl.data.quiz import quiz

ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    model = LocalModel.load(parser.parse_args().model)
    for count in (1, 2, 4, 8):
        sequences: list[Sequence[int]] = []
        for question in quiz("science", count, 1):
            sequences += model.prompting.choices(question, ["p_true"]).sequences
        tokens = len(Trie.of(sequences).tokens)
        taken = alternate(
            ROUNDS, {"blocks": partial(run, model, sequences, True), "dense": partial(run, model, sequences, False)}
        )
        told = ", ".join(f"{name} {took:.3f} s" for name, took in medians(taken, count).items())
        print(f"{count} scored questions, {tokens} tokens: {told} a question")


def run(model: LocalModel, sequences: Sequence[Sequence[int]], sparse: bool) -> None:
    """One pass, with or without attention in blocks."""
    model.backend.network.sparse = sparse  # type: ignore[attr-defined]
    model.backend.network.run(sequences)


if __name__ == "__main__":
    main()
