"""How well rated sentences tell true from false: `python -m benchmarks.claims [MODEL] [--questions 60] [--data DIR]`.

The first right and the first wrong answer to questions of TruthfulQA, each as if it were a sentence of a free answer.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from sklearn.metrics import brier_score_loss, roc_auc_score

import secl
from secl.claims import rate_claims
from secl.question import References


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", default="smollm2")
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--data", type=Path)
    chosen = parser.parse_args()
    model = secl.LocalModel.load(chosen.model)
    rated: list[tuple[float, bool]] = []
    for question in secl.load_benchmark("truthfulqa_gen", chosen.questions, data=chosen.data):
        if not isinstance(question.reference, References):
            continue
        asked = replace(question, form="text", reference=None)
        for answers, true in ((question.reference.correct, True), (question.reference.incorrect, False)):
            sentence = f"{answers[0].rstrip('.')}."
            rated += [(claim.confidence, true) for claim in rate_claims(model, asked, sentence) if claim.confidence]
    confidences, truths = zip(*rated, strict=True)
    print(
        f"{len(rated)} claims, {sum(truths)} true: mean confidence {sum(confidences) / len(rated):.3f}, "
        f"AUROC {roc_auc_score(truths, confidences):.3f}, Brier {brier_score_loss(truths, confidences):.3f}"
    )


if __name__ == "__main__":
    main()
