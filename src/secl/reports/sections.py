"""The sections of a report in order, for the terminal and for the HTML page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.console import Console

from secl.display import amount, counted, excerpt, percent, terminal_text
from secl.evaluation.trust import Level
from secl.explain import weights_sentence
from secl.facts.records import expected_wrong
from secl.grading.rules import grade, grader_of
from secl.records import Record
from secl.reports.acceptance_report import RISKS, risk_tables
from secl.reports.answers import neediest, questions_table, wrong_table
from secl.reports.comparison_report import check_sentences
from secl.reports.console import marked_text
from secl.reports.figures import histogram_figure, reliability_figure, risk_coverage_figure, timeline_figure
from secl.reports.result import (
    NEEDY,
    UNTESTED,
    VERDICT_TEXTS,
    bins_table,
    domains_table,
    result_sentences,
    share_notes,
    ungraded,
)
from secl.reports.run_report import RunReport, command, panels
from secl.reports.summary_table import domain_table, main_table, summary_table
from secl.reports.table import Table, plain_table, to_rich

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST_NOTE = (
    "Costs are in forward passes per question. 'Cost paper' counts each pass as 1, whatever its length, as in the "
    "paper. 'Cost ours' is the number of tokens through the network, divided by the tokens of a plain answer."
)

SHADED = (
    "The texts in which most facts are expected to be wrong come first. A number stands behind each fact that is "
    "probably wrong, or that the threshold rejects."
)

SHOWN, PRINTED = 20, 3
"""Maximum number of texts on the page and in the terminal."""

RELIABILITY = "Reliability diagrams: accuracy against confidence, with bin counts"

DIAGRAMS = (
    "A bar that ends on the dashed line is calibrated. A bar that ends below this line is overconfident. Whiskers are "
    "95% intervals. The strips count the answers of each bin; bars of few answers are paler."
)


Tone = Literal["", "warning"] | Level


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of a section. `name` is the stem of its files, such as "risk" for "risk.png"."""

    name: str
    draw: Callable[[], Figure]
    description: str
    caption: str


@dataclass(frozen=True, slots=True)
class Section:
    """A titled section of a report.

    Attributes:
        sentences: paragraphs of plain text.
        pictures: pictures on the page; the terminal shows none.
        command: a command of the shell; may be empty.
        tone: "warning", or the level of a verdict, for the first sentence; may be empty.
        folded: whether the page shows only the title until the reader opens the section.
        answers: records for the page's searchable table. Unless empty, this table replaces `tables`.
        texts: records whose texts are shown with the shades of their facts.
        short: title in the navigation of the page; by default the title.
    """

    title: str
    sentences: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    command: str = ""
    tone: Tone = ""
    folded: bool = False
    answers: Sequence[Record] = ()
    texts: Sequence[Record] = ()
    short: str = ""

    @property
    def name(self) -> str:
        return self.short or self.title

    @property
    def anchor(self) -> str:
        """Name of the section in links, such as "every-question"."""
        return self.name.lower().replace(" ", "-")


def print_sections(sections: Sequence[Section], screen: Console) -> None:
    """Print titles, sentences and tables of sections."""
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
        for record in section.texts[:PRINTED]:
            screen.print(f"\n{terminal_text(excerpt(record.question.text))}", style="bold", highlight=False)
            screen.print(marked_text(record))
        screen.print()


def sections_of(run: RunReport) -> Iterator[Section]:
    """Yield the sections of a report, the result first."""
    verdict = run.trust
    reasons = [reason.sentence for reason in verdict.reasons]
    answer = VERDICT_TEXTS[verdict.level] if verdict.graded or not run.rated else UNTESTED
    answers = [answer.format(source=verdict.source), *reasons]
    yield Section("Can you act on these confidences?", answers, tone=verdict.level, short="Verdict")
    yield _result(run)
    if run.graded:
        disputed = graders_line(run.records)
        notes = [COST_NOTE, disputed] if disputed else [COST_NOTE]
        yield Section("Summary", notes, [summary_table(run.summary)])
        if rest := panels(run)[1]:
            others = Picture("reliability-others", lambda: reliability_figure(rest), RELIABILITY, DIAGRAMS)
            yield Section("Reliability of the other confidences", pictures=[others], folded=True, short="Diagrams")
    if run.check is not None:
        yield Section("Which method fits?", check_sentences(run.check), short="Method")
    if unknown := ungraded(run.rated):
        title, table = f"Ungraded {run.noun}s: what the confidences say", domains_table(unknown)
        yield Section(title, share_notes(unknown), [table], short="Ungraded")
        needy = questions_table(neediest(unknown, NEEDY), "question", "answer", "confidence", "why")
        yield Section(f"{run.noun.capitalize()}s that most need a person", tables=[needy], short="Look first")
    if texts := [record for record in run.records if record.parts]:
        yield Section("Texts with their facts", [SHADED], texts=sorted(texts, key=_doubt)[:SHOWN], short="Texts")
    yield _acceptance(run)
    if notes := posterior_notes(run.records):
        yield Section("Posterior: how probable each candidate is", notes, short="Posterior")
    if run.graded:
        if len(run.summary.domains) > 1:
            yield Section("By domain", tables=[domain_table(run)], short="Domains")
        wrong = wrong_table(run.rated)
        note = f"The model was most confident in these wrong {run.noun}s. Sometimes the reference is wrong."
        tables = [wrong] if wrong else []
        none = f"No graded {run.noun} was wrong."
        yield Section(f"Most confident wrong {run.noun}s", [note] if wrong else [none], tables, short="Wrong")
    yield Section("Every question", ["See the page, or the table that secl export writes."], answers=run.records)
    yield _timeline(run)
    tables = [provenance_table(run), ledger_table(run.records)]
    yield Section(
        "How the run was made",
        ["Repeat it with:"],
        tables,
        command=command(run.manifest.settings, run.manifest.mode),
        folded=True,
        short="Settings",
    )


def _doubt(record: Record) -> tuple[float, int]:
    """Return the key that sorts texts with more wrong facts first, and texts with unknown confidences last."""
    wrong = expected_wrong(record.parts or ())
    return math.inf if math.isnan(wrong) else -wrong, record.position


def _result(run: RunReport) -> Section:
    """Return the section with the main table and one picture: reliability diagrams, or else a histogram."""
    table, shown = main_table(run) or bins_table(run.rated), panels(run)[0]
    picture = Picture("reliability", lambda: reliability_figure(shown), RELIABILITY, DIAGRAMS)
    if not shown:
        confidences = [record.confidences.expected_grade for record in run.rated]
        told = f"Number of {run.noun}s in each tenth of the confidence"
        picture = Picture("confidences", lambda: histogram_figure(confidences, run.noun), told, f"{told}.")
    tables, pictures = ([table], [picture]) if run.rated else ([], [])
    return Section("Result", result_sentences(run), tables, pictures, tone="" if run.complete else "warning")


def _acceptance(run: RunReport) -> Section:
    picture = Picture(
        "risk",
        lambda: risk_coverage_figure(run.answers.curve, RISKS),
        "Share of wrong answers among accepted answers, over the share of accepted answers",
        "A threshold accepts the most confident answers; further left, a higher threshold accepts fewer answers. "
        "Dashed: share of wrong answers among accepted answers, as expected from the confidences. Solid: measured "
        "share of wrong answers among labelled accepted answers.",
    )
    return Section(f"Which {run.noun}s may be accepted?", (), risk_tables(run.answers), [picture], short="Accept")


def _timeline(run: RunReport) -> Section:
    window = max(20, len(run.records) // 40)
    summary = run.summary
    caption = "Every answer's entropy, and running means along the stream. "
    if run.watched:
        caption += (
            f"{counted(summary.alarms, 'alarm')}, {counted(summary.burst, 'question')} inside bursts (shaded); "
            f"{summary.trained} of them trained the adapter, and for {summary.agreed} the bin gate stopped the update. "
        )
    picture = Picture(
        "timeline",
        lambda: timeline_figure(run.records, window=window, adapted=run.learned),
        "Entropy, gate, confidence and accuracy over the stream",
        f"{caption}Domains end at dotted lines.",
    )
    title = "The gate over the stream" if run.watched else "Along the stream"
    return Section(title, pictures=[picture], folded=not run.watched, short="Stream")


def posterior_notes(records: Sequence[Record]) -> list[str]:
    """Return sentences about the posteriors of a run; empty without posteriors."""
    posteriors = [record.posterior for record in records if record.posterior is not None]
    if not posteriors:
        return []
    # Open questions and questions with options have different weights. Report the weights of the more frequent kind.
    forms = [[each for each in posteriors if each.none_last is last] for last in (False, True)]
    last = max(forms, key=len)[-1]
    return [f"After the last question: {weights_sentence(last)}", _changed_by_best(records)]


def _changed_by_best(records: Sequence[Record]) -> str:
    """Return a sentence on how often the most probable candidate differs from the model's own answer."""
    changed = sum(record.best_answer != record.reply.answer for record in records)
    if not all(record.kind == "asked" for record in records):
        returned = "given answer" if any(record.kind == "given" for record in records) else "value in the object"
        return f"For {counted(changed, 'question')} the most probable candidate is not the {returned}."
    asked = any(record.best_returned for record in records)
    how = "secl returned this candidate" if asked else "--answer best would return this candidate"
    return f"For {counted(changed, 'question')} the most probable candidate is not the model's own answer; {how}."


COMPARED = ("exact", "contains", "auto")
"""Graders that `graders_line` compares."""

MAX_DISAGREEMENT = 0.03
"""Maximum share of answers on which graders disagree without a note in the report."""


def graders_line(records: Sequence[Record]) -> str | None:
    """Return a note on answers that the `COMPARED` graders grade differently; None if these answers are rare."""
    open_ones = [record for record in records if _comparable(record)]
    grades = {
        name: [bool(grade(replace(record.question, grader=name), record.answer)) for record in open_ones]
        for name in COMPARED
    }
    disputed = sum(len({*each}) > 1 for each in zip(*grades.values(), strict=True))
    if disputed <= MAX_DISAGREEMENT * len(open_ones):
        return None
    shares = ", ".join(f"{name} {percent(sum(each) / len(each))}" for name, each in grades.items())
    used = ", ".join(dict.fromkeys(grader_of(record.question) for record in open_ones))
    return (
        f"{len(COMPARED)} graders disagree on {disputed} of {counted(len(open_ones), 'answer')} (graded as right: "
        f"{shares}); this report uses {used}."
    )


def _comparable(record: Record) -> bool:
    """Return whether the answer has its grade from one of the `COMPARED` graders, not from a label."""
    question = record.question
    is_open = not question.options and record.kind != "field"
    graded = is_open and question.reference is not None and record.label is None
    return graded and grader_of(question) in COMPARED


PURPOSES = {
    "answering": "answering, frozen model",
    "adapting": "answering, adapted model",
    "scoring": "P(True) and distractors",
    "reordering": "letters in other orders of the options",
    "likelihood": "likelihoods of candidates",
    "sampling": "further answers",
    "comparing": "beams and entailment",
    "learning": "updates",
}
"""Names in reports for the fields of `secl.ledger.Ledger`, which are purposes of tokens."""


def provenance_table(run: RunReport) -> Table:
    """Return a table of the run's model, stream, settings and environment."""
    manifest, settings, adapter = run.manifest, run.manifest.settings, run.manifest.adapter
    changed = ", ".join(f"{key} = {_joined(value)}" for key, value in settings.changed().items())
    weights = str(adapter.get("base_model_name_or_path") or "")
    facts = {
        "Model": settings.model.name,
        "Weights": Path(weights).name if Path(weights).is_absolute() else weights,
        "Fingerprint of the model": manifest.model[:12],
        "Stream": _joined(settings.stream.benchmarks or settings.stream.questions or ""),
        "Fingerprint of the stream": manifest.stream[:12],
        "Questions": f"{amount(len(run.records))} of {amount(manifest.total)}",
        "Answers": "given with the questions, and rated by the model" if manifest.mode == "score" else "",
        "Questions left out": len(manifest.skipped) or "",
        "Method": settings.method,
        "Temperature of normalised P(True)": manifest.tau,
        "Seed": settings.seed,
        "Settings other than the defaults": changed or "none",
        "Adapter": f"LoRA of rank {adapter.get('r')} on {_joined(adapter.get('target_modules') or [])}, "
        f"layers {_joined(adapter.get('layers_to_transform') or 'all')}"
        if adapter and run.learned
        else "",
        "Environment": ", ".join(f"{key} {value}" for key, value in manifest.environment.items()),
        "Begun": manifest.created,
        "Time": f"{run.seconds:,.0f} s on the questions, {run.seconds / max(len(run.records), 1):.2f} s each",
    }
    rows = [(term, str(value)) for term, value in facts.items() if value not in (None, "")]
    return plain_table(("", "of this run"), rows, texts=2)


def _joined(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def ledger_table(records: Sequence[Record]) -> Table:
    """Return a table of the tokens through the network for each purpose: in total, per question, and as a share."""
    by_purpose = {name: sum(getattr(each.ledger, purpose) for each in records) for purpose, name in PURPOSES.items()}
    total, questions = sum(by_purpose.values()), max(len(records), 1)
    lines = [*((name, tokens) for name, tokens in by_purpose.items() if tokens), ("all purposes", total)]
    rows = [(name, f"{n:,.0f}", f"{n / questions:,.1f}", percent(n / total if total else None, 1)) for name, n in lines]
    note = (
        "A token that goes through a fraction of the layers counts as this fraction of a token. A backward pass counts "
        "as two forward passes."
    )
    headings = ("Tokens through the network for", "in total", "per question", "share")
    return plain_table(headings, rows, (note,), texts=1)
