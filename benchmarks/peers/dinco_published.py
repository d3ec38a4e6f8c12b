"""DINCO's published script on another model and other questions, timed (see `benchmarks.peers.dinco`).

    python dinco_published.py SCRIPT MODEL NLI QUESTIONS.json

SCRIPT is `dinco_triviaqa.py` of its authors. It names its models, its data set and how many questions it takes of it;
what loads them is replaced, and the rest runs as published. QUESTIONS.json is a list of texts. One JSON object is
printed: seconds a question; for each question the evidence that was gathered and the confidence; and what the script's
formula makes of evidence that is drawn at random.
"""

from __future__ import annotations

import ast
import json
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any

import datasets
import torch
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

COUNT = "n_qst"
"""Name of the script's variable with the number of questions."""

FORMULA = "get_normalized_verbalized_confidence"
"""Name of its function of P(Yes) (questions, n) and entailment (questions, n, n, 3), which gives NVC (questions)."""

DRAWN, CANDIDATES = 200, 5
"""Sizes of the evidence that is drawn."""

ENTAILS, CONTRADICTS = 0, 2
"""Columns of its entailment model."""


class Questions(list[dict[str, str]]):
    """As much of a data set as the script uses; the order stays."""

    def shuffle(self, seed: int) -> Questions:  # noqa: ARG002
        return self

    def select(self, places: Iterable[int]) -> Questions:  # noqa: ARG002
        return self


def program(script: Path, count: int) -> CodeType:
    """The script with another number of questions.

    Raises:
        SystemExit: it does not say how many it takes.
    """
    tree = ast.parse(script.read_text(encoding="utf-8"))
    constants = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and [getattr(target, "id", None) for target in node.targets] == [COUNT]
    ]
    if len(constants) != 1:
        raise SystemExit(f"{script} does not set {COUNT} once; it is no dinco_triviaqa.py that is known here.")
    constants[0].value = count
    return compile(tree, str(script), "exec")


def load_instead(model: str, nli: str) -> None:
    """Let the script have this model and this entailment model wherever it loads any."""
    network = AutoModelForCausalLM.from_pretrained(model, dtype="auto").eval()
    network.generation_config.do_sample = True  # as in the configurations of the script's models; it relies on that
    tokenizer = AutoTokenizer.from_pretrained(model, padding_side="left")
    if tokenizer.pad_token == tokenizer.eos_token and tokenizer.unk_token is not None:
        tokenizer.pad_token = tokenizer.unk_token  # the script masks every padding token, those of the template too
    # It was written for transformers 4, which returned token ids alone unless told otherwise.
    tokenizer.apply_chat_template = partial(tokenizer.apply_chat_template, return_dict=False)
    judge = AutoModelForSequenceClassification.from_pretrained(nli, dtype=torch.float32).eval()
    judge_tokenizer = AutoTokenizer.from_pretrained(nli)
    AutoModelForCausalLM.from_pretrained = lambda *_, **__: network
    AutoModelForSequenceClassification.from_pretrained = lambda *_, **__: judge
    # The tokenizer of the answering model is the one that it pads on the left.
    AutoTokenizer.from_pretrained = lambda _, **how: tokenizer if how else judge_tokenizer


def run(script: Path, texts: list[str]) -> float:
    """Run the script in the present folder; its seconds."""
    rows = Questions({"question": text} for text in texts)
    datasets.load_dataset = lambda *_: {"validation": rows}
    code = program(script, len(texts))
    start = time.perf_counter()
    exec(code, {"__name__": "__main__"})
    return time.perf_counter() - start


def drawn(script: Path) -> list[dict[str, Any]]:
    """Evidence in which every distractor counts, unlike that of a model that doubts all it is asked, and its NVC."""
    names: dict[str, Any] = {"__name__": "published"}
    exec(program(script, DRAWN), names)
    generator = torch.Generator().manual_seed(0)
    p_yes = torch.rand(DRAWN, CANDIDATES, generator=generator)
    nli = torch.randn(DRAWN, CANDIDATES, CANDIDATES, 3, generator=generator).softmax(-1)
    itself = torch.eye(CANDIDATES, dtype=torch.bool)
    nli[:, itself] = -1.0  # as the script has it
    nvc = names[FORMULA](p_yes, nli)
    return [{**as_row(p_yes[i], nli[i]), "nvc": nvc[i].item()} for i in range(DRAWN)]


def as_row(p_yes: torch.Tensor, nli: torch.Tensor) -> dict[str, Any]:
    """P(Yes) (n) and entailment (n, n, 3) as lists."""
    entails, contradicts = nli[..., ENTAILS], nli[..., CONTRADICTS]
    return {"p_yes": p_yes.tolist(), "entails": entails.tolist(), "contradicts": contradicts.tolist()}


def results(count: int) -> list[dict[str, Any]]:
    """What the script left behind in the present folder, a question each."""
    (folder,) = Path("results").glob("*/*")
    with (folder / "beam_strs_cleaned.pkl").open("rb") as stream:
        candidates = pickle.load(stream)
    p_yes, nli, agreement, confidence = (
        torch.load(folder / f"{name}.pth").double() for name in ("ptrues", "nlis", "sc_nlis", "dinco_confs")
    )
    rows = []
    for i in range(count):
        n = len(candidates[i])
        rows.append(
            {
                "candidates": candidates[i],
                **as_row(p_yes[i, :n], nli[i, :n, :n]),
                "agreement": agreement[i].tolist(),
                "confidence": confidence[i].item(),
            }
        )
    return rows


def main() -> None:
    script, model, nli, file = sys.argv[1:]
    texts = json.loads(Path(file).read_text(encoding="utf-8"))
    load_instead(model, nli)
    published, sys.argv = Path(script).absolute(), [script]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # where it writes
        run(published, texts[:1])
        seconds = run(published, texts)
        rows = results(len(texts))
    print(json.dumps({"seconds": seconds / len(texts), "questions": rows, "drawn": drawn(published)}))


if __name__ == "__main__":
    main()
