"""Confidences on open answers by this library and by hand: what a second buys.

    python -m benchmarks.open_questions capitals QUESTIONS.jsonl
    python -m benchmarks.peers QUESTIONS.jsonl [--model smollm2] [--count 60]

Both sides load the same folder of weights and answer the same questions; "by hand" is `generate` of plain transformers
with our prompts. Each side's answers are graded by the same rule. Prints Markdown: seconds a question, AUROC and PRR of
each score over that side's own answers.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import torch
from scipy.stats import rankdata
from transformers import AutoModelForCausalLM, AutoTokenizer

import secl
from benchmarks.plain import Plain
from benchmarks.study import heading, in_a_sentence, row
from secl.backends.local.loading.conversion import convert_gguf
from secl.backends.local.loading.loader import choose_dtype, locate
from secl.data.question_files import read_questions
from secl.grading import grade
from secl.grading.same import same_answer
from secl.metrics.discrimination import auroc, prr
from secl.prompts.parsing import read_answer
from secl.prompts.templates import MAX_ANSWER_TOKENS
from secl.question import Question
from secl.records import Record
from secl.signals import SelfConsistency


@dataclass(frozen=True)
class Score:
    """A confidence on the answers of one side.

    Attributes:
        name: what it is, and whose.
        seconds: a question, with writing the answer.
        confidences: the higher, the surer; None where there is none.
        right: whether each answer is right.
    """

    name: str
    seconds: float
    confidences: Sequence[float | None]
    right: Sequence[bool]

    def row(self) -> str:
        """As a row of Markdown."""
        known = [
            (c, r) for c, r in zip(self.confidences, self.right, strict=True) if c is not None and math.isfinite(c)
        ]
        right = [r for _, r in known]
        confidences = rankdata([c for c, _ in known]) / max(1, len(known))  # not all are probabilities
        cells = [f"{len(known)}", f"{sum(self.right) / len(self.right):.1%}", f"{self.seconds:.2f}"]
        cells += [f"{measure(confidences, right):.3f}" for measure in (auroc, prr)]
        return row(self.name, *cells)


SCORES: dict[str, dict[str, Callable[[Record], float | None]]] = {
    "stated": {
        "stated": lambda record: record.reply.stated,
        "exp(ln P)": lambda record: math.exp(record.reply.log_probability),
    },
    "self_consistency": {
        "self-consistency, 10 samples": lambda r: SelfConsistency()(r.question, r.reply, r.evidence),
    },
    "posterior": {"posterior": lambda record: record.posterior.confidence if record.posterior else None},
}
"""Our scores by the method that gives them."""


def of_library(folder: str, questions: Sequence[Question]) -> Iterator[Score]:
    """Scores of this library: of plain answers, of ten samples, and the posterior, in windows as a run asks them."""
    for method, scores in SCORES.items():
        calibrator = secl.load(folder, method=method, device="cpu").calibrator
        list(calibrator.run(questions[:1]))
        calibrator = secl.Calibrator(calibrator.model, method=method)
        start = time.perf_counter()
        records = list(calibrator.run(questions))
        seconds = (time.perf_counter() - start) / len(questions)
        right = [bool(record.correct) for record in records]
        for name, score in scores.items():
            yield Score(f"secl: {name}", seconds, [score(record) for record in records], right)


def by_hand(folder: str, questions: Sequence[Question]) -> Iterator[Score]:
    """What plain transformers gives: an answer and its probability, and with ten samples the share that says the same.

    One question at a time, with our prompts.
    """
    network = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval()
    plain = Plain(network, AutoTokenizer.from_pretrained(folder))
    torch.manual_seed(0)

    def write(question: Question, samples: int) -> tuple[list[str], float]:
        """Replies to a question, and the log-probability of the first."""
        (prompt,) = prompts = plain.prompts([question])
        drawn = {"do_sample": True, "top_k": 0, "num_return_sequences": samples} if samples else {"do_sample": False}
        outputs = plain.generate(
            prompts, **drawn, max_new_tokens=MAX_ANSWER_TOKENS["short"], stop_strings=["\n"],
            tokenizer=plain.tokenizer, pad_token_id=plain.tokenizer.eos_token_id,
            return_dict_in_generate=True, output_logits=True,
        )  # fmt: skip
        written = outputs.sequences[:, len(prompt) :]
        first = torch.stack([logits[0] for logits in outputs.logits]).float().log_softmax(-1)
        texts = [text.split("\n")[0] for text in plain.decode(written)]
        return texts, first.gather(1, written[0][:, None]).sum().item()

    write(questions[0], 0)
    start = time.perf_counter()
    written = [write(question, 0) for question in questions]
    middle = time.perf_counter()
    samples = [write(question, 10)[0] for question in questions]
    end = time.perf_counter()
    answers, right = _graded([texts[0] for texts, _ in written], questions)
    agreement = [
        sum(same_answer(question, answer or "", other) for other in others) / len(others)
        for question, answer, others in zip(questions, answers, samples, strict=True)
    ]
    probabilities = [math.exp(log_probability) for _, log_probability in written]
    yield Score("by hand: exp(ln P)", (middle - start) / len(questions), probabilities, right)
    yield Score("by hand: ten samples", (end - start) / len(questions), agreement, right)


def _graded(texts: Sequence[str], questions: Sequence[Question]) -> tuple[list[str | None], list[bool]]:
    """The answers in replies, and whether each is right."""
    answers = [read_answer(text, question.form) for text, question in zip(texts, questions, strict=True)]
    return answers, [bool(grade(question, answer)) for question, answer in zip(questions, answers, strict=True)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("questions", type=Path, help="open questions with references")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--count", type=int, default=60, help="of the first questions")
    chosen = parser.parse_args(arguments)
    questions = read_questions(chosen.questions)[: chosen.count]
    source = locate(chosen.model)
    if isinstance(source, Path) and source.suffix == ".gguf":
        source = convert_gguf(source, choose_dtype("auto", torch.device("cpu")))
    print(heading("score", "answers", "right", "seconds a question", "AUROC", "PRR"))
    folder = str(source)
    for score in chain(of_library(folder, questions), by_hand(folder, questions)):
        print(score.row(), flush=True)
    print(
        f"\n{len(questions)} questions, {torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}",
        file=sys.stderr,
    )


if __name__ == "__main__":
    with in_a_sentence():
        main()
