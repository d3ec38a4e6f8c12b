"""Whether a model that no preset knows begins its short replies with "Answer:"."""

from __future__ import annotations

from statistics import fmean

from secl.backends.base import Bundle
from secl.backends.local.backend import LocalBackend
from secl.data.quiz import quiz
from secl.prompts.templates import answer_prompt
from secl.question import Question

DOMAINS, FACTS = ("capitals", "science"), 12
"""Domains of the built-in quiz, and the questions of each that a model is asked without their options."""

MARGIN = 0.3
"""Nats of ln P that a reply without "Answer:" has to gain. Our constants were measured with it, so doubt keeps it."""


def prefers_prefill(backend: LocalBackend) -> bool:
    """Compare how sure the frozen model is of its first token with and without "Answer:", in one pass over 24 facts.

    No right answer is looked at. The mean ln P of the most probable first token is -2.1 and -.9 on SmolLM2, whose
    answers are better without, and -.63 and -.66 on Qwen2.5-Coder-1.5B, whose answers are better with
    (docs/lab/log.md).
    """
    facts = [Question(each.text) for domain in DOMAINS for each in quiz(domain, FACTS)]
    ids = backend.token_ids
    prompts = [answer_prompt(fact, prefilled=prefilled) for prefilled in (True, False) for fact in facts]
    (reading,) = backend.read([Bundle(verdicts=[ids.encode(ids.render(prompt)) for prompt in prompts])])
    positions = reading.bundle.ends("scoring")
    rows = reading.log_p(positions, reading.most_likely(positions))
    log_p = [row[i] for i, row in enumerate(rows)]
    return fmean(log_p[len(facts) :]) - fmean(log_p[: len(facts)]) < MARGIN
