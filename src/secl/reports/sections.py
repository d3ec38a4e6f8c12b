"""The sections of a report in their order; terminal and page walk through the same list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from secl.reports import unlabelled
from secl.reports.acceptance_report import RISKS, risk_table
from secl.reports.answers import AnswerRow, neediest
from secl.reports.figures.reliability import reliability_figure
from secl.reports.figures.risk_coverage import risk_coverage_figure
from secl.reports.figures.timeline import timeline_figure
from secl.reports.formatting import counted, terminal_text
from secl.reports.graders import graders_line
from secl.reports.posterior_section import posterior_notes
from secl.reports.provenance import ledger_table, provenance_table
from secl.reports.question_table import questions_table, wrong_table
from secl.reports.result import ANSWERS, bands_table, result_sentences
from secl.reports.run_report import RunReport, panels
from secl.reports.summary_table import domain_table, summary_table
from secl.reports.table import Table, to_rich

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

COST_NOTE = (
    "Cost in forward passes per question. Paper: as the paper counts, whatever the length. Ours: tokens that went "
    "through the network per token of plain answering."
)

DIAGRAMS = (
    "Bars that end on the dashed line are calibrated, bars below it overconfident. Whiskers are 95% intervals; a bar "
    "is paler the fewer its answers, which the strips count."
)


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of a section, drawn where it is wanted.

    Attributes:
        name: of its files, without suffix.
        draw: makes it.
        description: for people who cannot see it.
        caption: below it.
    """

    name: str
    draw: Callable[[], Figure]
    description: str
    caption: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report.

    Attributes:
        title: its heading.
        sentences: plain text, a paragraph each.
        tables: below them.
        pictures: for the page alone.
        command: for the shell; empty for none.
        warning: whether the first sentence is one.
        folded: whether the page shows the title alone until somebody opens it.
        answers: what the page lists in a table that can be searched, in place of `tables`; empty for none.
    """

    title: str
    sentences: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    command: str = ""
    warning: bool = False
    folded: bool = False
    answers: Sequence[AnswerRow] = ()


def print_sections(sections: Sequence[Section], screen: Console) -> None:
    """Print titles, sentences and tables of sections; pictures are left out."""
    for section in sections:
        if not (section.sentences or section.tables):
            continue
        if section.title:
            screen.print(terminal_text(section.title), style="bold")
        for sentence in section.sentences:
            screen.print(terminal_text(sentence), highlight=False)
        if section.command:
            screen.print(f"  {terminal_text(section.command)}", soft_wrap=True, highlight=False)
        for table in section.tables:
            screen.print()
            screen.print(to_rich(table))
        screen.print()


def sections_of(run: RunReport) -> Iterator[Section]:
    """The sections of a report, the result first."""
    yield Section("Result", result_sentences(run), [bands_table(run.rows)], warning=not run.complete)
    verdict = run.trust
    reasons = [reason.sentence for reason in verdict.reasons]
    answer = ANSWERS[verdict.level].format(source=verdict.source)
    yield Section("May these confidences be acted on?", [answer, *reasons], warning=verdict.level != "fine")
    if run.graded:
        disputed = graders_line(run.records)
        notes = [COST_NOTE, disputed] if disputed else [COST_NOTE]
        yield Section("Summary", notes, [summary_table(run.summary)])
        yield from _reliability(run)
    if rows := unlabelled.ungraded(run.rows):
        title, notes = "Without right answers: what the confidences say", unlabelled.share_notes(run)
        yield Section(title, notes, [unlabelled.domains_table(run)])
        needy = questions_table(neediest(rows, unlabelled.NEEDY), "question", "answer", "confidence", "why")
        yield Section("Answers that most need a person", tables=[needy])
    yield _acceptance(run)
    if notes := posterior_notes(run.records):
        yield Section("Posterior: how probable each candidate is", notes)
    if run.graded:
        if len(run.summary.domains) > 1:
            yield Section("By domain", tables=[domain_table(run)])
        wrong = wrong_table(run.rows)
        note = "Worth reading: here the model was surest and wrong. Sometimes it is the reference that is wrong."
        tables = [wrong] if wrong else []
        yield Section("Most confident wrong answers", [note] if wrong else ["No graded answer was wrong."], tables)
    yield Section("Every question", ["They stand on the page, and in what secl export writes."], answers=run.rows)
    yield _timeline(run)
    tables = [provenance_table(run), ledger_table(run.records)]
    yield Section("How the run was made", ["Repeat it with:"], tables, command=run.command, folded=True)


def _reliability(run: RunReport) -> Iterator[Section]:
    shown, rest = panels(run)
    description = "Reliability diagrams: accuracy against confidence, with bin counts"
    if shown:
        first = Picture("reliability", lambda: reliability_figure(shown), description, DIAGRAMS)
        yield Section("Reliability: does 70% mean 70%?", pictures=[first])
    if rest:
        others = Picture("reliability-others", lambda: reliability_figure(rest), description, DIAGRAMS)
        yield Section("Reliability of the other confidences", pictures=[others], folded=True)


def _acceptance(run: RunReport) -> Section:
    picture = Picture(
        "risk",
        lambda: risk_coverage_figure(run.answers.curve, RISKS),
        "Share of wrong answers among the accepted ones, over the share of accepted answers",
        "Accepted from the most confident answer on. Dashed: the share of wrong ones that the confidences expect among "
        "them; solid: the share among those with a label. To the left of a place the confidence is higher.",
    )
    return Section("Which answers may be accepted?", (), [risk_table(run.answers)], [picture])


def _timeline(run: RunReport) -> Section:
    window = max(20, len(run.records) // 40)
    summary = run.summary
    caption = "Every answer's entropy, and running means along the stream. "
    if run.watched:
        caption += (
            f"{counted(summary.alarms, 'alarm')}, {counted(summary.burst, 'question')} inside bursts (shaded), "
            f"{summary.trained} trained, {summary.agreed} stopped by the bin gate. "
        )
    picture = Picture(
        "timeline",
        lambda: timeline_figure(run.records, window=window, adapted=run.learned),
        "Entropy, gate, confidence and accuracy over the stream",
        f"{caption}Domains end at dotted lines.",
    )
    title = "The gate over the stream" if run.watched else "Along the stream"
    return Section(title, pictures=[picture], folded=not run.watched)
