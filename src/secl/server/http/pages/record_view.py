"""One record as the page shows it: plain values, made from its explanation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TypedDict

from secl.evaluation.json_values import defined
from secl.evidence import CandidateEvidence, Evidence, Likelihood, Posterior
from secl.records import Record
from secl.server.entries import Served, Values, answer_text, record_id
from secl.server.explain import Explanation, learning_in_words, number_in_words, weights_in_words

INFLUENCES = 20
"""Labels that are listed, the strongest first."""


def card(served: Served) -> Values:
    """What was asked and answered, and what people said of it."""
    record = served.record
    return {
        "id": record_id(record.position),
        "time": served.time,
        "turns": turns(record),
        "answer": answer_text(record) if record.answer is not None else None,
        "text": record.reply.text,
        "confidence": defined(record.confidence),
        "correct": served.correct,
    }


def record_view(explanation: Explanation) -> Values:
    """All that the page of a record shows."""
    served, record = explanation.served, explanation.served.record
    labelled = record.labelled
    return {
        **card(served),
        "batch": served.batch,
        "keep_text": explanation.keep_text,
        "domain": record.question.domain,
        "version": record.reply.version,
        "given": record.given,
        "frozen": defined(record.frozen.confidence),
        "source": explanation.source,
        "low": None if labelled is None else labelled.low,
        "high": None if labelled is None else labelled.high,
        "why": [*number_in_words(explanation), *learning_in_words(explanation)],
        "candidates": _candidates(record.posterior),
        "weights": None if record.posterior is None else weights_in_words(record.posterior),
        "bins": list(zip(record.reply.bins, record.frozen.bins, strict=True)),
        "evidence": _evidence(record.evidence),
        "labels": 0 if labelled is None else labelled.labels,
        "influences": [
            {"id": record_id(each.position), "correct": each.correct, "moved": each.moved}
            for each in explanation.influences[:INFLUENCES]
        ],
        "further_influences": max(0, len(explanation.influences) - INFLUENCES),
        "prompt": explanation.prompt,
    }


def turns(record: Record) -> list[Values]:
    """The conversation up to the question, in its roles; what is kept of it."""
    question = record.question
    said = [("system", question.system)] if question.system else []
    said += [(turn.role, turn.text) for turn in question.history]
    passage = [("passage", question.context)] if question.context else []
    asked = {
        "role": "user",
        "text": question.text,
        "options": [f"{letter}. {question.option(letter)}" for letter in question.letters],
    }
    return [*({"role": role, "text": text, "options": []} for role, text in (*said, *passage)), asked]


def _candidates(posterior: Posterior | None) -> list[Values]:
    if posterior is None:
        return []
    return [
        {"text": text, "probability": probability, "own": k == posterior.own, "best": k == posterior.best}
        for k, (text, probability) in enumerate(zip(posterior.candidates, posterior.probabilities, strict=True))
    ]


class Table(TypedDict):
    """Numbers of texts: a title, the heads of the columns of numbers, and the rows."""

    title: str
    heads: list[str]
    rows: list[tuple[str, tuple[float | None, ...]]]


def _evidence(evidence: Evidence) -> list[Table]:
    """What the frozen model was asked."""
    tables: list[Table] = []
    if (p_true := evidence.p_true) is not None:
        asked_alone = [(text, (p,)) for text, p in zip(p_true.candidates, p_true.probabilities, strict=True)]
        tables.append(_table("P(True), asked of each alone", ["P(True)"], asked_alone))
    if evidence.candidates is not None:
        tables += _of_candidates(evidence.candidates)
    if (dinco := evidence.dinco) is not None:
        verified = [(text, (p,)) for text, p in zip(dinco.candidates, dinco.p_yes, strict=True)]
        tables.append(_table("DINCO: P(Yes), asked of each alone", ["P(Yes)"], verified))
    if evidence.samples is not None:
        texts = ["(could not be read)" if text is None else text for text in evidence.samples]
        tables.append(_table("Further answers, sampled", [], [(text, ()) for text in texts]))
    return tables


def _of_candidates(asked: CandidateEvidence) -> Iterator[Table]:
    if asked.letters:
        heads = [f"order {number}" for number in range(1, len(asked.letters) + 1)]
        letters = [tuple(math.exp(each.log_p[k]) for each in asked.letters) for k in range(len(asked.candidates))]
        rows = list(zip(asked.candidates, letters, strict=True))
        yield _table("Probability of the letter, options in other orders", heads, rows)
    if any(each is not None for each in asked.likelihoods):
        heads = ["with the question", "without it", "PMI"]
        likely = [_likelihood(each) for each in asked.likelihoods]
        yield _table("Log-likelihood as a text, in nats", heads, list(zip(asked.candidates, likely, strict=True)))


def _likelihood(each: Likelihood | None) -> tuple[float | None, ...]:
    return (None, None, None) if each is None else (each.given, each.alone, each.pmi)


def _table(title: str, heads: list[str], rows: Sequence[tuple[str, tuple[float | None, ...]]]) -> Table:
    return {"title": title, "heads": heads, "rows": list(rows)}
