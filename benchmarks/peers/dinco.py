"""DINCO by its authors' script and by this library: the same model, questions and entailment model, in turns.

The script is not part of this project, because it has no licence: the user names the folder that has it.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from scipy.stats import spearmanr
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

from benchmarks.peers.dinco_ours import UNANSWERED
from benchmarks.peers.turns import in_turns
from secl.evidence import DincoEvidence, Evidence
from secl.grading import answer_key
from secl.metrics.dinco import normalised_verbalised_confidence
from secl.question import Question
from secl.signals import DincoSignal

SCRIPT = "dinco_triviaqa.py"
LABELS = {0: "entailment", 1: "neutral", 2: "contradiction"}
"""As the entailment model that the script names has them."""


def measure(published: Path, model: str, nli: str | None, questions: Sequence[Question], rounds: int) -> dict[str, Any]:
    """Time and agreement.

    Args:
        published: folder with the script.
        model: folder of the model that answers.
        nli: folder of an entailment model; None makes one of random weights, which agrees with itself but is no judge.
        questions: open ones.
        rounds: of each side; agreement is that of the first.
    """
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "questions.json"
        file.write_text(json.dumps([question.text for question in questions]), encoding="utf-8")
        given = [model, nli or str(save_stand_in(Path(temporary) / "nli", model)), str(file)]
        driver = str(Path(__file__).with_name("dinco_published.py"))
        commands = {
            "library": [sys.executable, "-m", "benchmarks.peers.dinco_ours", *given],
            "published": [sys.executable, driver, str(published / SCRIPT), *given],
        }
        outputs = in_turns(commands, rounds)
    seconds = {name: statistics.median(one["seconds"] for one in all_of) for name, all_of in outputs.items()}
    theirs, ours = outputs["published"][0], outputs["library"][0]["questions"]
    return {
        "ratios": {"dinco_published_vs_ours": seconds["published"] / seconds["library"]},
        "peers": {"dinco_seconds": seconds},
        "agreement": {
            "dinco_published": {
                **agreement(questions, theirs["questions"], ours),
                "largest_difference_on_drawn_evidence": max(map(difference_of_nvc, theirs["drawn"])),
            }
        },
    }


def save_stand_in(folder: Path, model: str) -> Path:
    """Save an entailment model of random weights with the tokenizer of a model."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=4096,
        initializer_range=0.5,  # far from even, so that it has opinions
        pad_token_id=tokenizer.pad_token_id,
        id2label=LABELS,
        label2id={label: number for number, label in LABELS.items()},
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def agreement(
    questions: Sequence[Question], theirs: Sequence[Mapping[str, Any]], ours: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """How far our formula on their evidence is from their confidence, and the two whole procedures from each other.

    Questions to which ours has no answer count for the formula alone.
    """
    same = [abs(ours_on(question, row) - row["confidence"]) for question, row in zip(questions, theirs, strict=True)]
    pairs = [(one, other) for one, other in zip(theirs, ours, strict=True) if other["confidence"] is not None]
    same_answer = [
        answer_key(one["candidates"][0], "short") == answer_key(other["answer"], "short") for one, other in pairs
    ]
    confidences = [(one["confidence"], other["confidence"]) for one, other in pairs]
    return {
        "questions": len(questions),
        "largest_difference_on_their_evidence": max(same),
        "rank_correlation": float(spearmanr(confidences).statistic),
        "same_answer": statistics.mean(same_answer),
        "mean_confidence_published": statistics.mean(one for one, _ in confidences),
        "mean_confidence_library": statistics.mean(other for _, other in confidences),
    }


def ours_on(question: Question, row: Mapping[str, Any]) -> float:
    """The confidence that our formula makes of evidence that the script gathered about a question."""
    candidates = tuple(row["candidates"])
    evidence = DincoEvidence(
        candidates=candidates,
        answers=candidates,
        beams=len(candidates),
        p_yes=tuple(row["p_yes"]),
        entails=tuple(map(tuple, row["entails"])),
        contradicts=tuple(map(tuple, row["contradicts"])),
        agreement=(tuple(row["agreement"]), *(() for _ in candidates[1:])),
        nli_name="published",
    )
    confidence = DincoSignal("beam")(question, UNANSWERED, Evidence(dinco=evidence))
    if confidence is None:
        raise ValueError(f"the script has no candidate for {question.text!r}.")
    return confidence


def difference_of_nvc(row: Mapping[str, Any]) -> float:
    """How far our NVC of drawn evidence is from the script's."""
    ours = normalised_verbalised_confidence(row["p_yes"], row["entails"], row["contradicts"])
    return abs(ours - float(row["nvc"]))
