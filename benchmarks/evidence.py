"""What evidence costs on top of an answer with its stated confidence: seconds and passes, in windows of 16."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from benchmarks.setting import Say, Setting
from benchmarks.timing import alternate, medians
from secl.backends.local.model import LocalModel
from secl.evidence import EvidenceKind
from secl.lookahead import WINDOW
from secl.question import Question

ANSWERED = "answered"
KINDS: dict[str, list[EvidenceKind]] = {
    ANSWERED: [],
    "posterior": ["candidates"],
    "p_true": ["p_true"],
    "both": ["candidates", "p_true"],
}
"""What is asked beside each answer."""


def measure(setting: Setting, say: Say) -> dict[str, Any]:
    """Seconds and passes a question for each kind of evidence, and their ratio to answering alone."""
    model = setting.library()
    questions = setting.choices(setting.questions)
    model.meter.take()
    works = {name: partial(ask, model, questions, kinds) for name, kinds in KINDS.items()}
    seconds = medians(alternate(setting.rounds, works), len(questions))
    passes = {name: ask(model, questions, kinds) for name, kinds in KINDS.items()}
    for name in KINDS:
        say(f"{name}: {passes[name]:.2f} passes, {seconds[name] / seconds[ANSWERED]:.2f} times the seconds")
    return {
        "ratios": {"posterior_vs_answering": seconds["posterior"] / seconds[ANSWERED]},
        "evidence": {
            "seconds": seconds,
            "over_answering": {name: took / seconds[ANSWERED] for name, took in seconds.items()},
            "passes": passes,
        },
    }


def ask(model: LocalModel, questions: Sequence[Question], kinds: Sequence[EvidenceKind]) -> float:
    """Answer questions and ask for evidence as a run does; the tokens spent, in plain answering passes."""
    tokens = plain = 0.0
    for start in range(0, len(questions), WINDOW):
        window = questions[start : start + WINDOW]
        model.prefetch(window, [kinds] * len(window), weights_fixed=True)
        for question in window:
            answer = model.answer(question, evidence=kinds)
            if "candidates" in kinds:
                model.compare_candidates(question, answer.reply)
            if "p_true" in kinds:
                model.score_p_true(question, answer.reply)
            tokens += model.meter.take().total
            plain += answer.plain_tokens
    return tokens / plain
