"""All of a run in the terminal: its answers, if they are few, and its tables; without grades, what needs a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from secl.reports import unlabelled
from secl.reports.acceptance_section import accepted_sentence
from secl.reports.answers import neediest
from secl.reports.formatting import terminal_text
from secl.reports.graders_section import graders_line
from secl.reports.posterior_section import TITLE
from secl.reports.question_table import questions_table
from secl.reports.run_report import RunReport
from secl.reports.side_by_side import side_by_side
from secl.reports.summary_table import RANKING, counts_caption, ranking_table, summary_table
from secl.reports.table import to_rich
from secl.reports.trust_section import trust_line

if TYPE_CHECKING:
    from rich.console import Console

MOST_ANSWERS = 40
"""Questions of a run whose answers are all printed."""

LONGEST = 120
"""Characters of a question or an answer that are printed."""


def print_all(run: RunReport, screen: Console, name: str | None) -> None:
    """Print everything that a report says about a run: its tables, and the verdict; arguments as for `print_run`."""
    print_run(run, screen, name)
    if (accepted := accepted_sentence(run.records)) is not None:
        screen.print(accepted, soft_wrap=True)
    screen.print(trust_line(run.trust, name or ""), soft_wrap=True)
    if line := graders_line(run.summary.graders):
        screen.print(line if name is None else f"{name}: {line}", soft_wrap=True)


def print_run(run: RunReport, screen: Console, name: str | None) -> None:
    """Print the tables of a run.

    Args:
        run: the run.
        screen: where to.
        name: of the run among several; None if it is the only one.
    """
    few = len(run.rows) <= MOST_ANSWERS
    if few:
        screen.print(to_rich(questions_table(run.rows, longest=LONGEST), name))
        screen.print()
    parts = [_print_graded] if run.graded else []
    parts += [_print_ungraded] if run.summary.unlabelled else []
    for number, part in enumerate(reversed(parts) if run.mostly_ungraded else parts):
        if number:
            screen.print()
        part(run, screen, None if few or number else name)
    notes = run.posterior_notes
    if notes:
        screen.print()
        screen.print(TITLE, style="bold")
        for note in notes:
            screen.print(note)


def _print_graded(run: RunReport, screen: Console, name: str | None) -> None:
    """What comparing with right answers showed."""
    screen.print(to_rich(summary_table({run.name: run.summary}), name, padding=0))
    screen.print()
    screen.print(to_rich(ranking_table({run.name: run.summary}), RANKING, padding=0))


def _print_ungraded(run: RunReport, screen: Console, name: str | None) -> None:
    """What the confidences say, and of many answers those that most need a person."""
    if run.mostly_ungraded:
        screen.print(unlabelled.headline(run))
        screen.print()
    screen.print(to_rich(unlabelled.domains_table(run), name or unlabelled.TITLE))
    if len(run.rows) > MOST_ANSWERS:
        needy = neediest(unlabelled.ungraded(run.rows), unlabelled.NEEDY)
        if needy:
            screen.print()
            screen.print(
                to_rich(questions_table(needy, signs=True, longest=LONGEST), "Answers that most need a person")
            )
    screen.print()
    for note in unlabelled.share_notes(run):
        screen.print(note)
    if not run.graded:
        screen.print(counts_caption(run.summary), style="dim")


def print_pairs(runs: Sequence[RunReport], screen: Console) -> None:
    """Print several runs on the questions that they share; nothing for a single one."""
    for pair in side_by_side(runs):
        screen.print()
        screen.print(terminal_text(pair.heading), style="bold")
        for note in pair.notes:
            screen.print(terminal_text(note))
        if pair.differences:
            screen.print(to_rich(pair.differences))
