"""Does one answer imply another? Judged by a model made for it (NLI), or by the answering model itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from secl.backends.local.fast.batching import passes
from secl.backends.local.fast.shared_network import Network
from secl.backends.local.loading import as_model_error, fingerprint_of, quiet
from secl.backends.local.readout import Reader
from secl.backends.local.token_ids import TokenIds, render
from secl.errors import ModelError
from secl.prompts.templates import entailment_prompt
from secl.records import Question

Pairs = Sequence[tuple[str, str]]
"""(premise, hypothesis), both answers to the same question."""


class Entailment(Protocol):
    """Judges pairs of answers to a question.

    Attributes:
        name: what a record calls it.
    """

    name: str

    def classify(self, question: Question, pairs: Pairs) -> tuple[list[tuple[float, float]], float]:
        """P(entails) and P(contradicts) for each pair, and the tokens that went through the answering model."""
        ...


class NliModel:
    """A transformers sequence classifier whose labels name entailment and contradiction.

    Args:
        name: hub id or folder.
        device: where it computes, in float32.

    Attributes:
        fingerprint: changes with its configuration and its weights.

    Raises:
        ModelError: it cannot be loaded, or its labels name no entailment and contradiction.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        self.name = name
        with as_model_error(name), quiet():
            self.tokenizer: Any = AutoTokenizer.from_pretrained(name)
            self.model: Any = AutoModelForSequenceClassification.from_pretrained(name, dtype=torch.float32)
        source = Path(name) if Path(name).is_dir() else name
        self.fingerprint = fingerprint_of(name, source, self.model.config, self.tokenizer)
        self.model = self.model.to(device).eval()
        labels = {str(label).lower(): int(i) for i, label in self.model.config.id2label.items()}
        found = [
            next((i for label, i in labels.items() if label.startswith(word)), None) for word in ("entail", "contra")
        ]
        if None in found:
            raise ModelError(f"{name!r} is no NLI model: its labels are {', '.join(labels)}.")
        self._columns = found

    @torch.no_grad()
    def classify(self, question: Question, pairs: Pairs) -> tuple[list[tuple[float, float]], float]:
        if not pairs:
            return [], 0.0
        premises = [f"Question: {question.text}\nAnswer: {premise}" for premise, _ in pairs]
        hypotheses = [f"Answer: {hypothesis}" for _, hypothesis in pairs]
        batch = self.tokenizer(premises, hypotheses, padding=True, truncation=True, return_tensors="pt")
        scores = self.model(**batch.to(self.model.device)).logits.cpu().double().softmax(-1)[:, self._columns]
        return [(row[0], row[1]) for row in scores.tolist()], 0.0


class SelfEntailment:
    """The answering model, frozen, asked in words and read off three option letters."""

    name = "self"

    def __init__(self, words: TokenIds, network: Network, reader: Reader) -> None:
        self.words = words
        self.network = network
        self.reader = reader

    @torch.no_grad()
    def classify(self, question: Question, pairs: Pairs) -> tuple[list[tuple[float, float]], float]:
        if not pairs:
            return [], 0.0
        prompts = {
            pair: render(self.words.tokenizer, entailment_prompt(question, *pair)) for pair in sorted(set(pairs))
        }
        # Pairs with a common premise share most of their prompt, so they are bundled.
        bundles = [list(bundle) for _, bundle in groupby(prompts, key=lambda pair: pair[0])]
        sequences = [[self.words.before(prompts[pair], " A") for pair in bundle] for bundle in bundles]
        scores: dict[tuple[str, str], tuple[float, float]] = {}
        tokens = 0.0
        for bundle, (judged, paths, share) in zip(bundles, passes(self.network, sequences), strict=True):
            read = self.reader.options(3, judged.frozen(np.array([int(path[-1]) for path in paths])))
            scores |= {pair: (row[0], row[2]) for pair, row in zip(bundle, read, strict=True)}
            tokens += share
        return [scores[pair] for pair in pairs], tokens
