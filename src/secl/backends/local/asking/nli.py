"""A model made to tell whether one text implies another (natural language inference)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from secl.backends.local.loading.guard import as_model_error, quiet
from secl.backends.local.loading.loader import fingerprint_of
from secl.errors import ModelError
from secl.question import Question

Pair = tuple[str, str]
"""Premise and hypothesis, both answers to the same question."""


@functools.lru_cache(maxsize=1)
def nli_model(name: str, device: torch.device) -> NliModel:
    """Return an NLI model, the latest of which is kept: it never learns, so runs have it in common."""
    return NliModel(name, device)


class NliModel:
    """A transformers sequence classifier, in float32, whose labels name entailment and contradiction.

    Its name is a hub id or a folder; its fingerprint changes with its configuration and its weights.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        self.name = name
        with as_model_error(name), quiet():
            self.tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(name)
            self.model: PreTrainedModel = AutoModelForSequenceClassification.from_pretrained(name, dtype=torch.float32)
        source = Path(name) if Path(name).is_dir() else name
        self.fingerprint = fingerprint_of(name, source, self.model.config, self.tokenizer)
        self.model = self.model.to(device).eval()
        labels = {str(label).lower(): int(i) for i, label in self.model.config.id2label.items()}
        columns = [
            next((i for label, i in labels.items() if label.startswith(word)), None) for word in ("entail", "contra")
        ]
        if None in columns:
            raise ModelError(f"{name!r} is no NLI model: its labels are {', '.join(labels)}.")
        self._columns = columns

    @torch.no_grad()
    def classify(self, question: Question, pairs: Sequence[Pair]) -> list[tuple[float, float]]:
        """P(entails) and P(contradicts) for each pair."""
        premises = [f"Question: {question.text}\nAnswer: {premise}" for premise, _ in pairs]
        hypotheses = [f"Answer: {hypothesis}" for _, hypothesis in pairs]
        batch = self.tokenizer(premises, hypotheses, padding=True, truncation=True, return_tensors="pt")
        scores = self.model(**batch.to(self.model.device)).logits.cpu().double().softmax(-1)[:, self._columns]
        return [(row[0], row[1]) for row in scores.tolist()]
