"""lm-evaluation-harness with the posterior in the place of likelihoods: its accuracy and its Brier score.

    pip install lm-eval                                        # beside secl
    python examples/with_lm_eval.py [MODEL [COUNT]]            # the built-in quiz, COUNT questions (20)

Its tasks with options ask a model for the log-likelihood of each. Here they get the log-probability that this option is
the right one, so that `acc` is that of the most probable option, and `brier_score`, a sum over all options, says what
the probabilities are worth. Any such task will do: lm_eval.simple_evaluate(PosteriorLM("smollm2"), tasks=["arc_easy"]).
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lm_eval
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

import secl


class PosteriorLM(LM):
    """A model of secl's; questions are asked in its own words, so tasks should give the bare question as their text."""

    def __init__(self, model: str = "smollm2") -> None:
        super().__init__()
        self.calibrator = secl.Calibrator.load(model, method="posterior")

    def loglikelihood(self, requests: Sequence[Instance], **_: Any) -> list[tuple[float, bool]]:
        """For each option its log-probability of being right, and whether it is the most probable one."""
        places: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
        for place, request in enumerate(requests):
            places[request.task_name, request.doc_id, request.args[0]].append(place)
        questions = [
            secl.Question(text.strip(), options=tuple(requests[place].args[1].strip() for place in group))
            for (_, _, text), group in places.items()
        ]
        found = [(-math.inf, False)] * len(requests)
        for group, record in zip(places.values(), self.calibrator.run(questions), strict=True):
            if record.posterior is None:
                raise ValueError(f"no posterior of {record.question.text!r}: its answer could not be read.")
            for number, (place, p) in enumerate(zip(group, record.posterior.probabilities, strict=True)):
                found[place] = (math.log(max(p, sys.float_info.min)), number == record.posterior.best)
        return found

    def generate_until(self, requests: Sequence[Instance], **_: Any) -> list[str]:
        """A few words for each question."""
        questions = [secl.Question(request.args[0].strip()) for request in requests]
        return [record.answer or "" for record in self.calibrator.run(questions)]

    def loglikelihood_rolling(self, requests: Sequence[Instance], **_: Any) -> list[float]:
        """Perplexity of texts, which has nothing to do with questions and answers."""
        raise NotImplementedError(
            "secl rates answers to questions; take lm-eval's own model for the perplexity of texts."
        )


def quiz(folder: Path, count: int) -> dict[str, Any]:
    """A task for lm-eval with questions of the built-in quiz, which are written to a folder."""
    questions = secl.load_stream(["capitals", "science"], -(-count // 2))[:count]
    rows = [
        {"question": each.text, "options": each.options, "right": each.letters.index(str(each.reference))}
        for each in questions
    ]
    file = folder / "quiz.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return {
        "task": "secl_quiz",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(file)}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "question",
        "doc_to_choice": "options",
        "doc_to_target": "right",
        "metric_list": [{"metric": "acc"}, {"metric": "brier_score"}],
    }


def main(model: str = "smollm2", count: str = "20") -> None:
    with tempfile.TemporaryDirectory() as folder:
        results = lm_eval.simple_evaluate(PosteriorLM(model), tasks=[quiz(Path(folder), int(count))])
    print(json.dumps(results["results"]["secl_quiz"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
