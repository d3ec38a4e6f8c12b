"""The sections of a report in their order; terminal, Markdown and page walk through the same list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from secl.reports import unlabelled
from secl.reports.acceptance_section import RISKS, accepted_sentence, risk_panels, risk_table
from secl.reports.answers import neediest
from secl.reports.captions import timeline_caption, which_panels
from secl.reports.figures.confidences import confidence_figure, confidence_groups
from secl.reports.figures.cost import cost_figure, cost_points
from secl.reports.figures.posterior import groups_of, posterior_figure
from secl.reports.figures.reliability import reliability_figure
from secl.reports.figures.risk_coverage import risk_coverage_figure
from secl.reports.figures.scores import score_figure
from secl.reports.figures.timeline import timeline_figure
from secl.reports.graders_section import disputed_table, graders_line
from secl.reports.provenance import ledger_table, provenance_table
from secl.reports.question_table import questions_context, questions_table, wrong_table
from secl.reports.run_report import RunReport, domain_panels, panels
from secl.reports.run_rows import domain_table, overview_table
from secl.reports.side_by_side import alike, side_by_side
from secl.reports.summary_table import ranking_table, summary_table
from secl.reports.table import Table
from secl.reports.trust_section import ANSWERS
from secl.reports.words import words_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ANSWERS = 40
"""Questions of a run whose answers all stand in the terminal and in Markdown."""

LONGEST = 120
"""Characters of a question or an answer in a table."""

COST_NOTE = (
    "Cost in forward passes per question. Paper: as the paper counts, whatever the length. Ours: tokens that went "
    "through the network per token of plain answering."
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
        questions: makes what the page's table of questions shows in place of `tables`, from the prefix of its run.
    """

    title: str
    sentences: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    command: str = ""
    warning: bool = False
    folded: bool = False
    questions: Callable[[str], dict[str, Any]] | None = None


def sections_of(run: RunReport, *, several: bool = False) -> list[Section]:
    """The sections about one run; what `several` runs share is left out."""
    return list(_sections(run, several))


def _sections(run: RunReport, several: bool) -> Iterator[Section]:
    yield _trust(run)
    if run.mostly_ungraded:
        yield from _unlabelled(run)
        yield _questions(run)
    if run.graded:
        summary = summary_table({run.name: run.summary})
        yield Section("Summary", [COST_NOTE], [summary])
        yield from _reliability(run)
    yield _acceptance(run)
    if run.posterior_notes:
        yield _posterior(run)
    if run.graded:
        if len(run.summary.domains) > 1:
            yield Section("By domain", tables=[domain_table(run)])
        yield Section("Most confident wrong answers", *_wrong(run))
        if (disputed := disputed_table(run)) is not None:
            yield Section("Answers that graders dispute", [graders_line(run.summary.graders) or ""], [disputed])
    if not run.mostly_ungraded:
        if unlabelled.ungraded(run.rows):
            yield from _unlabelled(run)
        yield _questions(run)
    yield _timeline(run)
    if run.graded:
        ranking = ranking_table({run.name: run.summary})
        yield Section("Ranking and selective prediction", tables=[ranking], pictures=_scores(run), folded=True)
    if run.graded and not several:
        yield _cost([run])
    yield Section(
        "How the run was made",
        ["Repeat it with:"],
        [provenance_table(run), ledger_table(run.records)],
        command=run.command,
        folded=True,
    )


def shared_sections(runs: Sequence[RunReport]) -> list[Section]:
    """What a report of several runs says about all of them, before it comes to each."""
    same = alike(runs)
    notes = [] if same else ["The runs have not answered the same questions, so their numbers cannot be compared."]
    return [
        Section("All runs", [*notes, COST_NOTE], [overview_table(runs)]),
        *pair_sections(runs),
        _cost(runs, same),
    ]


def pair_sections(runs: Sequence[RunReport], *, changed: bool = True) -> list[Section]:
    """Every run but the first beside the first, on the questions that both share; also the `changed` answers."""
    tables = [(pair, (pair.differences, pair.changed if changed else None)) for pair in side_by_side(runs)]
    return [Section(pair.heading, pair.notes, [table for table in both if table]) for pair, both in tables]


def words_section(runs: Sequence[RunReport]) -> Section:
    """The words of a page."""
    return Section("The words of this page", tables=[words_table(runs)], folded=True)


def _trust(run: RunReport) -> Section:
    verdict = run.trust
    answer = ANSWERS[verdict.level].format(source=verdict.source)
    return Section(
        "May these confidences be acted on?",
        [answer, *(reason.sentence for reason in verdict.reasons)],
        warning=verdict.level != "fine",
    )


def _reliability(run: RunReport) -> Iterator[Section]:
    shown, rest = panels(run)
    if not shown:
        return
    description = "Reliability diagrams: accuracy against confidence, with bin counts"
    pictures = [Picture("reliability", lambda: reliability_figure(shown), description, which_panels(run))]
    if by_domain := domain_panels(run):
        pictures.append(
            Picture("domains", lambda: reliability_figure(by_domain), "Reliability diagrams by domain", "By domain.")
        )
    yield Section("Reliability: does 70% mean 70%?", pictures=pictures)
    if rest:
        other = Picture("reliability-others", lambda: reliability_figure(rest), description, "Read as above.")
        yield Section("Reliability of the other confidences", pictures=[other], folded=True)


def _acceptance(run: RunReport) -> Section:
    accepted = accepted_sentence(run.records)
    picture = Picture(
        "risk",
        lambda: risk_coverage_figure(risk_panels(run.acceptance), RISKS),
        "Share of wrong answers among the accepted ones, over the share of accepted answers",
        "Accepted from the most confident answer on. Dashed: the share of wrong ones that the confidences expect among "
        "them; solid: the share among those with a label. To the left of a place the confidence is higher.",
    )
    sentences = [accepted] if accepted else []
    return Section("Which answers may be accepted?", sentences, [risk_table(run.acceptance)], [picture])


def _posterior(run: RunReport) -> Section:
    groups = groups_of(run.records)
    picture = Picture(
        "posterior",
        lambda: posterior_figure(groups),
        "Accuracy of own and of best answers, with their mean confidences, by domain",
        "A bar is the accuracy of the model's own answers, or of the most probable candidates, with its 95% interval. "
        "A confidence is right on average where its marker stands at the end of its bar.",
    )
    title = "Posterior: how probable each candidate is"
    return Section(title, run.posterior_notes, pictures=[picture] if groups else [])


def _scores(run: RunReport) -> list[Picture]:
    graded, _ = panels(run)
    caption = (
        "Right answers stand above the line, wrong ones hang below it. A confidence discriminates where the two lie "
        "apart, whatever its numbers mean. All panels have one scale."
    )
    description = "Histograms of the confidence of right and of wrong answers"
    return [Picture("scores", lambda: score_figure(graded), description, caption)] if graded else []


def _timeline(run: RunReport) -> Section:
    title = "The gate over the stream" if run.watched else "Along the stream"
    window = max(20, len(run.records) // 40)
    statistic = "gate statistic, bursts, " if run.tested else ""
    picture = Picture(
        "timeline",
        lambda: timeline_figure(run.records, window=window, adapted=run.learned),
        f"Entropy, {statistic}confidence and accuracy over the stream",
        timeline_caption(run),
    )
    return Section(title, pictures=[picture], folded=not run.watched)


def _cost(runs: Sequence[RunReport], same: bool = True) -> Section:
    title, points = "Cost against Brier score", cost_points([run.summary for run in runs])
    if not points:
        return Section(title, ["No confidence could be graded, so there is no error to set against the cost."])
    caption = (
        "Lower left is better. A marker stands at the measured cost: tokens through the network per token of plain "
        "answering. The thin line leads to the cost as the paper counts it: 1 for an answer, 15 for a question that "
        "trained, 6 for P(True) of an answer and its distractors, 10 for methods that sample, 1 more for each further "
        "order of the options and 2 for the likelihood of each candidate. Hollow markers needed right answers. A name "
        "with n was measured on fewer questions than the others."
    )
    if not same:
        caption += " The runs have not answered the same questions: compare markers of one colour alone."
    names = [run.name for run in runs]
    description = "Cost in forward passes per question against Brier score"
    picture = Picture("cost", lambda: cost_figure(points, names), description, caption)
    return Section(title, pictures=[picture], folded=len(runs) == 1)


def _wrong(run: RunReport) -> tuple[Sequence[str], Sequence[Table]]:
    table = wrong_table(run.rows)
    if table is None:
        return ["No graded answer was wrong."], []
    note = "Worth reading: here the model was surest and wrong. Sometimes it is the reference that is wrong."
    return [note], [table]


def _unlabelled(run: RunReport) -> Iterator[Section]:
    """What can be said about answers that nothing was compared with."""
    rows = unlabelled.ungraded(run.rows)
    domains, confidences = [row.question.domain for row in rows], [row.confidence for row in rows]
    picture = Picture(
        "confidences",
        lambda: confidence_figure(confidence_groups(domains, confidences)),
        "Histograms of the reported confidence by domain",
        "Reported confidences, in shares of the answers of each domain, all to one scale. The line stands at the mean: "
        "the estimated share of right answers.",
    )
    yield Section(
        "Without right answers: what the confidences say",
        [*([unlabelled.headline(run)] if run.mostly_ungraded else []), *unlabelled.share_notes(run)],
        [unlabelled.domains_table(run), unlabelled.levels_table(run)],
        [picture],
    )
    needy = neediest(rows, unlabelled.NEEDY)
    yield Section("Answers that most need a person", tables=[questions_table(needy, signs=True, longest=LONGEST)])


def _questions(run: RunReport) -> Section:
    few = len(run.rows) <= MOST_ANSWERS
    return Section(
        "Every question",
        [] if few else ["All of them stand on the page, and in what secl export writes."],
        [questions_table(run.rows, longest=LONGEST)] if few else [],
        questions=lambda prefix: questions_context(run.rows, prefix),
    )
