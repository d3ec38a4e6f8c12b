"""How near the library comes to what the machine and the method allow.

Two questions. Of the time that a scoring pass takes, how much is the bare matrix products of its layers: the same
weights, the same number of tokens, the same precision and threads, and nothing in between? And of the tokens that went
through the network, how many does the method need: each distinct token of a question's prompts once, and the top
n of L layers again for the adapted reading and for each training step?
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.by_hand import by_library
from benchmarks.setting import Say, Setting
from benchmarks.timing import alternate, medians
from secl.backends.local.fast.prefix_tree import Trie
from secl.backends.local.model import LocalModel
from secl.backends.local.model_parts import Layout
from secl.question import Question
from secl.records import Record
from secl.runs.runner import build_calibrator


def measure(setting: Setting, say: Say) -> dict[str, Any]:
    """Achieved against possible, in FLOP/s and in tokens."""
    reached, spent = rate(setting), tokens(setting)
    say(f"matrix products are {100 * reached['share_of_pass']:.0f} % of a scoring pass")
    say(", ".join(f"{kind}: {found['ratio']:.2f} times the least tokens" for kind, found in spent.items()))
    return {"limit": {"rate": reached, "tokens": spent}}


def rate(setting: Setting) -> dict[str, float]:
    """The scoring pass of each question (answers of all options and all verdicts) against its bare products."""
    questions = setting.choices(setting.questions)
    model, products = setting.library(), Products(setting)
    by_library(model, questions[:2], "trained")
    passes = [scoring(model, question) for question in questions]
    sizes = [len(Trie.of(sequences).tokens) for sequences in passes]
    least = [least_tokens(model, question, "A", adapted=True, judged=True) for question in questions]
    each = medians(
        alternate(
            setting.rounds,
            {
                "pass": lambda: [model.backend.network.run(sequences) for sequences in passes],
                "products": lambda: [products(size) for size in sizes],
                "scored_question": lambda: by_library(model, questions, "scored"),
                "least_products": lambda: [products(round(size)) for size in least],
            },
        ),
        len(questions),
    )
    flop = products.flop * statistics.fmean(sizes)
    return {
        "tokens_of_pass": statistics.fmean(sizes),
        "gflop_of_pass": flop / 1e9,
        "gflop_per_second_of_pass": flop / each["pass"] / 1e9,
        "gflop_per_second_of_products": flop / each["products"] / 1e9,
        "share_of_pass": each["products"] / each["pass"],
        "share_of_scored_question": each["least_products"] / each["scored_question"],
        **{f"seconds_of_{name}": took for name, took in each.items()},
    }


class Products:
    """The matrix products of all decoder layers for some tokens, each with the model's own weights.

    Attributes:
        flop: of one token: two for each weight. Attention scores and the output head are not among them.
    """

    def __init__(self, setting: Setting) -> None:
        layers = Layout.find(setting.loaded().model).layers
        self.weights = [m.weight.detach() for m in layers.modules() if isinstance(m, nn.Linear)]
        self.flop = 2 * sum(weight.numel() for weight in self.weights)
        self._inputs: dict[tuple[int, int], Tensor] = {}

    @torch.no_grad()
    def __call__(self, tokens: int) -> None:
        for weight in self.weights:
            F.linear(self._input(tokens, weight), weight)

    def _input(self, tokens: int, weight: Tensor) -> Tensor:
        size = (tokens, weight.shape[1])
        if size not in self._inputs:
            chance = torch.Generator().manual_seed(0)
            self._inputs[size] = torch.randn(size, generator=chance).to(weight.dtype)
        return self._inputs[size]


def tokens(setting: Setting) -> dict[str, dict[str, float]]:
    """Tokens spent and needed by kind of question, of a run whose opening burst is its first half."""
    recipe = setting.recipe(3, burst=max(1, setting.questions // 2))
    model = setting.library()
    records = list(build_calibrator(recipe, model).run(setting.choices(setting.questions)))
    kinds: dict[str, list[Record]] = {}
    for record in records:
        kinds.setdefault(KINDS[record.outcome], []).append(record)
    return {kind: compare(model, found) for kind, found in kinds.items()}


KINDS = {"idle": "outside_bursts", "agreed": "judged", "no_signal": "judged", "trained": "trained"}


def compare(model: LocalModel, records: Sequence[Record]) -> dict[str, float]:
    """Mean tokens of a question, spent and needed."""
    spent = statistics.fmean(record.ledger.total for record in records)
    least = statistics.fmean(needed(model, record) for record in records)
    return {"questions": len(records), "spent": spent, "least": least, "ratio": spent / least}


def needed(model: LocalModel, record: Record) -> float:
    """The least tokens for what was done with a question."""
    return least_tokens(
        model,
        record.question,
        record.reply.text,
        adapted=record.reply.version > 0,
        judged=record.evidence.p_true is not None,
        steps=model.backend.distiller.epochs if record.update is not None else 0,
    )


def least_tokens(
    model: LocalModel, question: Question, letter: str, *, adapted: bool, judged: bool, steps: int = 0
) -> float:
    """The least tokens through the network for a multiple-choice question answered with `letter`.

    Prompt, chosen letter and confidence once, every verdict's own tokens once; through n of L layers the answer again
    where the model is adapted, and three times (forward, and backward as two) for each training step.
    """
    answer = branch(model, question, letter)
    verdicts = model.prompting.verdicts(question, question.options) if judged else []
    layers: list[int] = model.adapter.config.layers_to_transform
    share = len(layers) / int(model.backend.model.config.num_hidden_layers)
    return len(Trie.of([answer, *verdicts]).tokens) + share * len(answer) * (adapted + 3 * steps)


def branch(model: LocalModel, question: Question, letter: str) -> list[int]:
    """Token ids up to the confidence digit of an answer."""
    return model.prompting.confidence(question, letter)


def scoring(model: LocalModel, question: Question) -> list[list[int]]:
    """All token sequences that answer and score a question."""
    answers = [branch(model, question, letter) for letter in question.letters]
    return [*answers, *model.prompting.verdicts(question, question.options)]
