"""P(True) as lm-polygraph computes it, timed inside its own environment (see `benchmarks.peers.__main__`).

    python polygraph.py FOLDER QUESTIONS.json

QUESTIONS.json is a list of {"text": ..., "prompt": ..., "options": [...]}. One JSON object is printed.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

from lm_polygraph.estimators import MaximumSequenceProbability, PTrue
from lm_polygraph.stat_calculators import PromptCalculator
from lm_polygraph.utils.estimate_uncertainty import estimate_uncertainty
from lm_polygraph.utils.generation_parameters import GenerationParameters
from lm_polygraph.utils.model import WhiteboxModel
from transformers import AutoModelForCausalLM, AutoTokenizer

BATCH = 16


def answered(model: Any, questions: list[dict[str, Any]]) -> list[float]:
    """The library's usual call: a short answer to a question, and P(True) of it."""
    outputs = [estimate_uncertainty(model, PTrue(), input_text=question["prompt"]) for question in questions]
    return [-float(output.uncertainty) for output in outputs]


def scored(model: Any, questions: list[dict[str, Any]]) -> list[float]:
    """Its calculator of P(True) for all options of 16 questions at a time; nothing is answered."""
    calculator = PromptCalculator()
    scores: list[float] = []
    for start in range(0, len(questions), BATCH):
        pairs = [(q["text"], option) for q in questions[start : start + BATCH] for option in q["options"]]
        texts = [text for text, _ in pairs]
        dependencies = {"input_texts": texts, "greedy_texts": [option for _, option in pairs]}
        scores += map(float, calculator(dependencies, texts, model)[calculator.method])
    return scores


def sequence_probability(model: Any, questions: list[dict[str, Any]]) -> list[float]:
    """The usual call with the cheapest of its estimators: the probability of the answer (MSP)."""
    estimator = MaximumSequenceProbability()
    outputs = [estimate_uncertainty(model, estimator, input_text=question["prompt"]) for question in questions]
    return [-float(output.uncertainty) for output in outputs]


def main() -> None:
    logging.disable(logging.WARNING)
    folder, file = sys.argv[1:]
    with open(file, encoding="utf-8") as lines:
        questions = json.load(lines)
    network = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    # With more tokens it reads attentions, which needs a slower attention than the model's own.
    shortest = GenerationParameters(max_new_tokens=1)
    model = WhiteboxModel(network, tokenizer, folder, "CausalLM", shortest, instruct=True)
    answered(model, questions[:1])
    results: dict[str, Any] = {}
    for way in (answered, scored, sequence_probability):
        start = time.perf_counter()
        scores = way(model, questions)
        results[way.__name__] = {"seconds": (time.perf_counter() - start) / len(questions), "scores": len(scores)}
    print(json.dumps(results))


if __name__ == "__main__":
    main()
