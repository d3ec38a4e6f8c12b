"""Evidence for the method DINCO.

The model says Yes or No to each of its most probable answers. Then the model itself, or a model for natural language
inference (NLI), tells for each pair of answers whether one implies the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import groupby
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from secl.backends.base import Bundle
from secl.backends.local.loading.guard import NO_CODE, as_model_error, quiet
from secl.backends.local.loading.loader import fingerprint_of
from secl.backends.local.writer import Writer
from secl.backends.token_driver import TokenDriver
from secl.errors import ModelError
from secl.evidence import DINCO_SAMPLES, DincoEvidence
from secl.grading.texts import answer_key
from secl.ledger import Meter
from secl.prompts.parsing import read_answer
from secl.question import Form, Question

BEAMS = 5

Pair = tuple[str, str]
"""Premise and hypothesis, both answers to the same question."""


@lru_cache(maxsize=1)
def nli_model(name: str, device: torch.device) -> NliModel:
    """Return an NLI model. The latest NLI model stays in memory for later runs, because NLI models never learn."""
    return NliModel(name, device)


class NliModel:
    """A transformers sequence classifier in float32 whose labels include entailment and contradiction.

    `name` is a hub id or a folder; the fingerprint depends on configuration and weights.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        self.name = name
        with as_model_error(name), quiet():
            self.tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(name, **NO_CODE)
            self.model: PreTrainedModel = AutoModelForSequenceClassification.from_pretrained(
                name, dtype=torch.float32, **NO_CODE
            )
        source = Path(name) if Path(name).is_dir() else name
        self.fingerprint = fingerprint_of(name, source, self.model.config, self.tokenizer)
        self.model = self.model.to(device).eval()
        labels = {str(label).lower(): int(i) for i, label in self.model.config.id2label.items()}
        columns = [
            next((i for label, i in labels.items() if label.startswith(word)), None) for word in ("entail", "contra")
        ]
        if None in columns:
            raise ModelError(
                f"the labels of the model {name!r} are {', '.join(labels)}; name a model with labels for "
                "entailment and contradiction."
            )
        self._columns = columns

    @torch.no_grad()
    def classify(self, question: Question, pairs: Sequence[Pair]) -> list[tuple[float, float]]:
        """Return P(entails) and P(contradicts) for each pair."""
        premises = [f"Question: {question.text}\nAnswer: {premise}" for premise, _ in pairs]
        hypotheses = [f"Answer: {hypothesis}" for _, hypothesis in pairs]
        batch = self.tokenizer(premises, hypotheses, padding=True, truncation=True, return_tensors="pt")
        scores = self.model(**batch.to(self.model.device)).logits.cpu().double().softmax(-1)[:, self._columns]
        return [(row[0], row[1]) for row in scores.tolist()]


def beam_answers(driver: TokenDriver, writer: Writer, meter: Meter, question: Question) -> list[str]:
    """Return up to `BEAMS` different answers to an open question, the most probable first."""
    generations, tokens = writer.beams(driver.prompting.start_answer(question), BEAMS)
    texts = [driver.rules.answer(generation) for generation in generations]
    meter.spend("comparing", tokens)
    answers = [answer for text in texts if (answer := read_answer(text, question.form, question.text)) is not None]
    return list(first_by_key(answers, question.form).values())


def gather(
    driver: TokenDriver,
    meter: Meter,
    nli: NliModel | None,
    question: Question,
    beams: Sequence[str],
    own: str | None,
    samples: Sequence[str | None],
) -> DincoEvidence:
    """Verify beams and the model's own answer, and compare them with each other and with the samples.

    Args:
        nli: model that compares answers; None asks the frozen model itself.
        beams: at least one answer, all different, the most probable first.
        own: the model's own answer, possibly a beam; None if unreadable.
        samples: sampled answers, of which only the first `DINCO_SAMPLES` are used; None for unreadable ones.
    """
    form, counted = question.form, samples[:DINCO_SAMPLES]
    answers, rated = [*beams], [0]  # indices of the answers to compare with samples: best beam, own answer
    if own is not None:
        keys = [answer_key(answer, form) for answer in beams]
        key = answer_key(own, form)
        if key not in keys:
            answers, keys = [*answers, own], [*keys, key]
        rated = sorted({0, keys.index(key)})
    texts = [question.text_of(answer) for answer in answers]
    bundle = Bundle(verdicts=[driver.prompting.verification(question, text) for text in texts])
    (reading,) = driver.engine.read([bundle])
    meter.spend("comparing", reading.tokens)
    p_yes = driver.readout.p_yes(reading, bundle.ends("scoring"))
    # A sample equal to a candidate or earlier sample gets the text of that answer, so no pair is compared twice.
    distinct = first_by_key([*answers, *(sample for sample in counted if sample is not None)], form)
    text_by_key = {key: question.text_of(answer) for key, answer in distinct.items()}
    strangers = dict.fromkeys(text for text in text_by_key.values() if text not in texts)
    pairs: list[Pair] = [(a, b) for a in texts for b in texts if a != b]
    pairs += [pair for i in rated for b in strangers for pair in ((texts[i], b), (b, texts[i]))]
    classify = partial(ask_whether_one_implies, driver, meter) if nli is None else nli.classify
    scores = dict(zip(pairs, classify(question, pairs), strict=True)) if pairs else {}
    scores |= {(text, text): (1.0, 0.0) for text in texts}

    def agreement(i: int, sample: str | None) -> float:
        if sample is None:
            return 0.0
        same = text_by_key[answer_key(sample, form)]
        return (scores[texts[i], same][0] + scores[same, texts[i]][0]) / 2

    return DincoEvidence(
        candidates=tuple(texts),
        answers=tuple(answers),
        beams=len(beams),
        p_yes=p_yes,
        entails=tuple(tuple(scores[a, b][0] for b in texts) for a in texts),
        contradicts=tuple(tuple(scores[a, b][1] for b in texts) for a in texts),
        agreement=tuple(
            tuple(agreement(i, sample) for sample in counted) if i in rated else () for i in range(len(answers))
        ),
        nli_name="self" if nli is None else nli.name,
    )


def ask_whether_one_implies(
    driver: TokenDriver, meter: Meter, question: Question, pairs: Sequence[Pair]
) -> list[tuple[float, float]]:
    """Return P(entails) and P(contradicts) for each pair, from the frozen model's probabilities of three letters."""
    prompts = {pair: driver.prompting.entailment(question, *pair) for pair in sorted(set(pairs))}
    # Pairs with a common premise share most of their prompt, so they form a bundle.
    groups = [list(group) for _, group in groupby(prompts, key=lambda pair: pair[0])]
    readings = driver.engine.read([Bundle(verdicts=[prompts[pair] for pair in group]) for group in groups])
    scores: dict[Pair, tuple[float, float]] = {}
    for group, reading in zip(groups, readings, strict=True):
        letters = driver.readout.options(reading, reading.bundle.ends("scoring"), 3)
        scores |= {pair: (p[0], p[2]) for pair, p in zip(group, letters, strict=True)}
        meter.spend("comparing", reading.tokens)
    return [scores[pair] for pair in pairs]


def first_by_key(answers: Sequence[str], form: Form) -> dict[object, str]:
    """Return the first of each group of equal answers, in order.

    >>> list(first_by_key(["Paris", "London", "Paris.", "Rome"], "short").values())
    ['Paris', 'London', 'Rome']
    """
    first: dict[object, str] = {}
    for answer in answers:
        first.setdefault(answer_key(answer, form), answer)
    return first
