"""What the shell prints besides the summary: plain lists, and one answered question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from secl.evidence import Evidence, Posterior, PTrue
from secl.model import ModelAnswer
from secl.records import Question
from secl.reports.formatting import counted
from secl.signals import NormalisedPTrue

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

BAR = 30
"""Width of a full bar in characters."""


def listing(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A plain table of text."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, header_style="bold", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
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
        Text(answer, style="bold"),
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
