"""Scores of lm-polygraph by its usual call, inside its own environment (see `benchmarks.peers`).

    python peer_polygraph.py FOLDER QUESTIONS.json MAX_TOKENS

QUESTIONS.json is a list of prompts. One JSON object is printed for each estimator.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from pathlib import Path

from lm_polygraph import estimators
from lm_polygraph.utils.estimate_uncertainty import estimate_uncertainty
from lm_polygraph.utils.generation_parameters import GenerationParameters
from lm_polygraph.utils.model import WhiteboxModel
from transformers import AutoModelForCausalLM, AutoTokenizer

JACCARD = "Jaccard_score"

ESTIMATORS = {
    "sequence probability": estimators.MaximumSequenceProbability,
    "mean token entropy": estimators.MeanTokenEntropy,
    "P(True)": estimators.PTrue,
    "degree matrix by words, 10 samples": lambda: estimators.DegMat(similarity_score=JACCARD),
}
"""Those that need no other model: its semantic ones load one from a hub."""


def main() -> None:
    logging.disable(logging.WARNING)
    folder, file, tokens = sys.argv[1:]
    prompts = json.loads(Path(file).read_text(encoding="utf-8"))
    # It reads attentions, which only this attention returns.
    network = AutoModelForCausalLM.from_pretrained(folder, dtype="auto", attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    shortest = GenerationParameters(max_new_tokens=int(tokens))
    model = WhiteboxModel(network, tokenizer, folder, "CausalLM", shortest, instruct=True)
    for name, estimator in ESTIMATORS.items():
        estimate_uncertainty(model, estimator(), input_text=prompts[0])
        start = time.perf_counter()
        outputs = [estimate_uncertainty(model, estimator(), input_text=prompt) for prompt in prompts]
        row = {
            "name": name,
            "seconds": (time.perf_counter() - start) / len(prompts),
            "uncertainties": [float(output.uncertainty) for output in outputs],
            "texts": [output.generation_text for output in outputs],
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
