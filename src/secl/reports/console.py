"""What the shell prints besides the summary: plain lists, and one answered question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from secl.evidence import Evidence, Posterior, PTrue
from secl.model import ModelAnswer
from secl.question import Question
from secl.reports.formatting import counted, terminal_lines
from secl.signals import NormalisedPTrue

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

BAR = 30
"""Width of a full bar in characters."""


def listing(headings: Sequence[str], rows: Iterable[Sequence[str]], *, names: int = 1) -> Table:
    """A plain table of text; its first columns, so many, hold names, which are never broken."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for index, heading in enumerate(headings):
        table.add_column(heading, header_style="bold", overflow="fold", no_wrap=index < names)
    for row in rows:
        table.add_row(*(Text(terminal_lines(cell)) for cell in row))
    return table


def answer_panel(
    question: Question,
    answered: ModelAnswer,
    p_true: PTrue | None,
    normalise: NormalisedPTrue,
    posterior: Posterior | None = None,
) -> Group:
    """An answer, how sure the model says it is, the ten bins behind that, and what it thinks of the alternatives."""
    from rich.console import Group
    from rich.text import Text

    reply, frozen = answered.reply, answered.frozen
    answer = "no readable answer" if reply.answer is None else reply.answer
    if question.options and reply.answer is not None:
        answer = f"{reply.answer}. {question.option(reply.answer)}"
    parts: list[Text | Table] = [
        Text(terminal_lines(answer), style="bold"),
        Text(f"stated confidence  {reply.confidence:.3f}  (adapter version {reply.version})"),
    ]
    if reply.version:
        parts.append(Text(f"before adapting    {frozen.confidence:.3f}", style="dim"))
    normalised = normalise(question, reply, Evidence(p_true))
    if normalised is not None:
        formula = "" if normalise.formula == "log" else f", formula {normalise.formula}"
        parts.append(Text(f"normalised P(True) {normalised:.3f}  (tau {normalise.tau:g}{formula})"))
    if posterior is None or posterior.confidence is None:
        parts.append(Text("posterior          none: there are no two different candidates to compare", style="dim"))
    else:
        parts.append(Text(f"posterior          {posterior.confidence:.3f}  ({_origin(posterior)})"))
    bins = [(f"{k}", f"{p:.3f}", "█" * round(BAR * p)) for k, p in enumerate(reply.bins)]
    parts.append(listing(("digit", "probability", ""), bins))
    if p_true is not None:
        pairs = zip(p_true.candidates, p_true.probabilities, strict=True)
        rows = [(f"{p:.3f}", candidate) for candidate, p in pairs]
        parts.append(listing(("P(True)", f"candidate ({p_true.distractor_source})"), rows))
    if posterior is not None:
        parts.append(listing(("posterior", "candidate", ""), _candidates(question, posterior)))
    return Group(*parts)


def answer_json(
    question: Question,
    answered: ModelAnswer,
    p_true: PTrue | None,
    normalise: NormalisedPTrue,
    posterior: Posterior | None,
) -> dict[str, Any]:
    """The same as JSON values; what there is none of is None."""
    reply = answered.reply
    rated = posterior is not None and posterior.confidence is not None
    return {
        "question": question.text,
        "options": list(question.options),
        "answer": reply.answer,
        "answer_text": question.option(reply.answer) if question.options and reply.answer else reply.answer,
        "confidence": posterior.confidence if posterior is not None and rated else reply.confidence,
        "source": "posterior" if rated else "stated",
        "stated_confidence": reply.confidence,
        "frozen_confidence": answered.frozen.confidence,
        "bins": list(reply.bins),
        "digit_mass": reply.digit_mass,
        "version": reply.version,
        "normalised_p_true": normalise(question, reply, Evidence(p_true)),
        "p_true": None if p_true is None else _pairs(p_true.candidates, p_true.probabilities),
        "posterior": None if posterior is None else _pairs(posterior.candidates, posterior.probabilities),
    }


def _pairs(candidates: Sequence[str], probabilities: Sequence[float]) -> list[dict[str, Any]]:
    return [{"text": text, "probability": p} for text, p in zip(candidates, probabilities, strict=True)]


def _origin(posterior: Posterior) -> str:
    """Where the weights of a posterior come from."""
    if posterior.questions:
        return f"weights fitted to {counted(posterior.questions, 'question')}"
    return "prior weights, as there is no stream yet"


def _candidates(question: Question, posterior: Posterior) -> list[tuple[str, str, str]]:
    """Probability, text and role of each candidate, the most probable first."""
    rows = []
    for number in sorted(range(len(posterior.candidates)), key=lambda number: -posterior.probabilities[number]):
        letter = f"{question.letters[number]}. " if question.options else ""
        roles = [word for word, role in (("own answer", posterior.own), ("best", posterior.best)) if role == number]
        rows.append((f"{posterior.probabilities[number]:.3f}", letter + posterior.candidates[number], ", ".join(roles)))
    return rows
