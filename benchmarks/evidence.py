"""Cost of the posterior's evidence in the library, relative to answers without evidence, and to evidence by hand.

By hand means plain transformers: for every question a padded batch of each kind of prompt through all layers, and the
output head in float32. Both sides read the same token sequences, and their log-probabilities are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.setting import Say, Setting
from benchmarks.timing import Work, alternate, medians
from examples.secl_by_hand import ByHand
from secl.backends.local.model import LocalModel
from secl.backends.prompting import Prompting
from secl.calibrator import WINDOW_SIZE
from secl.evidence import CandidateEvidence, EvidenceKind
from secl.prompts.templates import other_order
from secl.question import Question

ANSWERED, POSTERIOR, BY_HAND = "answered", "posterior", "by_hand"
KINDS: dict[str, list[EvidenceKind]] = {
    ANSWERED: [],
    POSTERIOR: ["candidates"],
    "p_true": ["p_true"],
    "both": ["candidates", "p_true"],
}
"""Kinds of evidence to gather with each answer."""

PIECE = 6 * WINDOW_SIZE
"""Questions in one turn of a stream."""

LogP = list[float]
"""Log-probabilities of one question: letters in a further order; likelihoods of all options after the question and
alone."""


def measure(setting: Setting, say: Say) -> dict[str, Any]:
    """Measure each kind of evidence relative to answers without evidence, and a stream with the posterior's evidence
    relative to the same stream by hand."""
    model = setting.library()
    questions = setting.choices(setting.questions)
    model.meter.take()
    works = {name: partial(ask, model, questions, kinds) for name, kinds in KINDS.items()}
    seconds = medians(alternate(setting.rounds, works), len(questions))
    passes = {name: ask(model, questions, kinds) for name, kinds in KINDS.items()}
    for name in KINDS:
        say(f"{name}: {passes[name]:.2f} passes, {seconds[name] / seconds[ANSWERED]:.2f} times the seconds")
    streamed = stream(setting, model, say)
    return {
        "ratios": {
            "posterior_vs_answering": streamed[POSTERIOR] / streamed[ANSWERED],
            "posterior_vs_by_hand": streamed[BY_HAND] / streamed[POSTERIOR],
        },
        "fwd_equivalents": {POSTERIOR: passes[POSTERIOR]},
        "seconds": {"stream_posterior": streamed},
        "evidence": {
            "seconds": seconds,
            "over_answering": {name: took / seconds[ANSWERED] for name, took in seconds.items()},
            "passes": passes,
            "largest_difference_from_by_hand": largest_difference(setting, model, questions[: setting.rounds]),
        },
    }


def stream(setting: Setting, model: LocalModel, say: Say) -> dict[str, float]:
    """Return seconds per question: for answers, for answers with the posterior's evidence, and for these answers and
    this evidence by hand."""
    questions = setting.choices(setting.stream_questions)
    hand, prompting = setting.by_hand(), model.prompting
    seconds = dict.fromkeys((ANSWERED, POSTERIOR, BY_HAND), 0.0)
    for number, begin in enumerate(range(0, len(questions), PIECE)):
        piece = questions[begin : begin + PIECE]
        works: dict[str, Work] = {
            ANSWERED: partial(ask, model, piece, KINDS[ANSWERED]),
            POSTERIOR: partial(ask, model, piece, KINDS[POSTERIOR]),
            BY_HAND: partial(by_hand, hand, prompting, piece),
        }
        order = list(works)[:: -1 if number % 2 else 1]
        for name, (took,) in alternate(1, {name: works[name] for name in order}).items():
            seconds[name] += took
        told = ", ".join(f"{name.replace('_', ' ')} {took:.0f} s" for name, took in seconds.items())
        say(f"{begin + len(piece)} of {len(questions)} questions, {told}")
    return {name: took / len(questions) for name, took in seconds.items()}


def ask(model: LocalModel, questions: Sequence[Question], kinds: Sequence[EvidenceKind]) -> float:
    """Answer questions and gather evidence as a run does; return the cost in plain answering passes."""
    tokens = plain = 0.0
    for start in range(0, len(questions), WINDOW_SIZE):
        window = questions[start : start + WINDOW_SIZE]
        model.prefetch(window, [kinds] * len(window), weights_fixed=True)
        for question in window:
            answer = model.answer(question, evidence=kinds)
            model.gather(question, answer.reply, kinds)
            tokens += model.meter.take().total
            plain += answer.plain_tokens
    return tokens / plain


@torch.no_grad()
def by_hand(hand: ByHand, prompting: Prompting, questions: Sequence[Question]) -> list[LogP]:
    """Return answers and confidences of the untouched model, and the posterior's evidence about all options."""
    found: list[LogP] = []
    with hand.model.disable_adapter():
        for question in questions:
            hand.answer({"question": question.text, "options": question.options})
            orders = [other_order(len(question.options))]
            letters = list(prompting.token_ids.letters[: len(question.options)])
            rows = [list(row) for row in prompting.orders(question, orders)]
            (last,) = read_rows(hand, rows, [len(row) - 1 for row in rows])
            evidence: LogP = last[0, letters].tolist()
            spans = prompting.spans(question, question.options)
            count = len(question.options)
            for batch in (spans[:count], spans[count:]):  # after the question, and without a question
                parts = read_rows(hand, [list(span.tokens[:-1]) for span in batch], [span.start - 1 for span in batch])
                for span, log_p in zip(batch, parts, strict=True):
                    own = torch.tensor(span.tokens[span.start :], device=log_p.device)
                    evidence.append(log_p.gather(-1, own[:, None]).sum().item())
            found.append(evidence)
    return found


def read_rows(hand: ByHand, rows: Sequence[list[int]], starts: Sequence[int]) -> list[Tensor]:
    """Return log-probabilities (n, vocabulary) of the next token after each token of a row from `starts` on; one
    padded batch."""
    longest = max(map(len, rows))
    device = hand.head.device
    hidden = hand.model.get_base_model().model(
        input_ids=torch.tensor([row + [0] * (longest - len(row)) for row in rows], device=device),
        attention_mask=torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=device),
        use_cache=False,
    )[0]
    kept = [states[start : len(row)].float() for states, row, start in zip(hidden, rows, starts, strict=True)]
    logits = [states @ hand.head.T for states in kept]
    if hand.cap is not None:
        logits = [hand.cap * torch.tanh(each / hand.cap) for each in logits]
    return [each.log_softmax(-1) for each in logits]


def largest_difference(setting: Setting, model: LocalModel, questions: Sequence[Question]) -> float:
    """Return the largest difference between log-probabilities of the library and by hand; only rounding causes it."""
    theirs = by_hand(setting.by_hand(), model.prompting, questions)
    differences: list[float] = []
    for question, other in zip(questions, theirs, strict=True):
        model.prefetch([question], [KINDS[POSTERIOR]], weights_fixed=True)
        own = in_order(model.gather(question, model.answer(question).reply, ["candidates"]).candidates)
        differences += [abs(a - b) for a, b in zip(own, other, strict=True)]
    return max(differences)


def in_order(evidence: CandidateEvidence | None) -> LogP:
    """Return the library's evidence in the form of `by_hand`: letters sorted by their places in the further order."""
    if evidence is None:
        raise ValueError("there is no evidence about a question without a readable answer.")
    letters = [order.log_p[number] for order in evidence.letters for number in order.order]
    likelihoods = [each for each in evidence.likelihoods if each is not None]
    return [*letters, *(each.given for each in likelihoods), *(each.alone for each in likelihoods)]
