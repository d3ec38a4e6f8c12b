"""LM-Polygraph 0.7: `estimate_uncertainty` with four estimators that need no further model.

Usage: PYTHON by_polygraph.py MODEL ROWS OUT
"""

import json
import math
import sys
import time
from pathlib import Path

import torch
from lm_polygraph import WhiteboxModel, estimate_uncertainty
from lm_polygraph.estimators import LexicalSimilarity, MaximumSequenceProbability, MeanTokenEntropy, PTrue
from lm_polygraph.utils.generation_parameters import GenerationParameters
from transformers import AutoModelForCausalLM, AutoTokenizer

folder, rows, out = sys.argv[1:]
torch.manual_seed(0)
network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="eager").eval()
parameters = GenerationParameters(max_new_tokens=24, allow_newlines=True)
model = WhiteboxModel(network, AutoTokenizer.from_pretrained(folder), instruct=True, generation_parameters=parameters)
ESTIMATORS = {
    "probability": MaximumSequenceProbability(),
    "mean token entropy": MeanTokenEntropy(),
    "P(True)": PTrue(),
    "ten samples": LexicalSimilarity("rougeL"),
}

results = []
for row in map(json.loads, Path(rows).read_text().splitlines()):
    result = {"id": row["id"], "scores": {}, "seconds": {}}
    for name, estimator in ESTIMATORS.items():
        if name == "ten samples" and not row["sampled"]:
            continue
        began = time.monotonic()
        found = estimate_uncertainty(model, estimator, input_text=row["prompt"])
        result["seconds"][name] = time.monotonic() - began
        result["answer"] = found.generation_text
        uncertainty = float(found.uncertainty)
        result["scores"][name] = -uncertainty if name == "ten samples" else math.exp(-uncertainty)
    results.append(result)
Path(out).write_text("".join(json.dumps(result) + "\n" for result in results))
