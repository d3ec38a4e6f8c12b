"""lm-polygraph with an estimator of this library: how probable is it that the answer is wrong?

    pip install lm-polygraph                                   # beside secl
    python examples/with_lm_polygraph.py FOLDER [RATER]

FOLDER is a chat model as transformers loads it, whose answers are lm-polygraph's affair; RATER is the model of secl's
that rates them (smollm2), the same or another. The estimator stands beside all others:
UEManager(..., [SeclUncertainty(calibrator), MaximumSequenceProbability()], ...).
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
from lm_polygraph.estimators import MaximumSequenceProbability
from lm_polygraph.estimators.estimator import Estimator
from lm_polygraph.utils.estimate_uncertainty import estimate_uncertainty
from lm_polygraph.utils.generation_parameters import GenerationParameters
from lm_polygraph.utils.model import WhiteboxModel
from transformers import AutoModelForCausalLM, AutoTokenizer

import secl

QUESTIONS = (
    "What is the capital of France? Answer with its name alone.",
    "What is the capital of Kazakhstan? Answer with its name alone.",
    "Which planet is closest to the sun? Answer with its name alone.",
)


class SeclUncertainty(Estimator):
    """1 minus the probability that an answer is right, among others that the rating model thinks of itself.

    Args:
        calibrator: rates.
    """

    def __init__(self, calibrator: secl.Calibrator) -> None:
        super().__init__(["greedy_texts"], "sequence")
        self.calibrator = calibrator

    def __str__(self) -> str:
        return "SeclUncertainty"

    def __call__(self, stats: dict[str, Any]) -> npt.NDArray[np.float64]:
        pairs = zip(stats["input_texts"], stats["greedy_texts"], strict=True)
        return np.array([self.uncertainty(question, answer.strip()) for question, answer in pairs])

    def uncertainty(self, question: str, answer: str) -> float:
        """That of one answer; nan for an empty one, which nobody can rate."""
        return 1 - self.calibrator.score(question, answer).confidence if answer else math.nan


def main(folder: str, rater: str = "smollm2") -> None:
    network = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    few = GenerationParameters(max_new_tokens=8)
    model = WhiteboxModel(network, tokenizer, folder, "CausalLM", few, instruct=True)
    estimators = [SeclUncertainty(secl.Calibrator.load(rater)), MaximumSequenceProbability()]
    for question in QUESTIONS:
        found = [estimate_uncertainty(model, estimator, question) for estimator in estimators]
        numbers = "  ".join(f"{output.estimator} {output.uncertainty:.3f}" for output in found)
        print(f"{numbers}  {question}  ->  {found[0].generation_text.strip()!r}")


if __name__ == "__main__":
    main(*sys.argv[1:])
