"""The files that a report leaves for people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from secl.errors import ParameterError, StorageError
from secl.reports.acceptance_section import RISKS, accepted_sentence, risk_panels, risk_table
from secl.reports.acceptance_section import TITLE as ACCEPTED
from secl.reports.answers import neediest
from secl.reports.figures.confidences import confidence_figure, confidence_groups
from secl.reports.figures.cost import cost_figure, cost_points
from secl.reports.figures.drawing import write_picture
from secl.reports.figures.posterior import groups_of, posterior_figure
from secl.reports.figures.reliability import reliability_figure
from secl.reports.figures.risk_coverage import risk_coverage_figure
from secl.reports.figures.scores import score_figure
from secl.reports.figures.timeline import timeline_figure
from secl.reports.formatting import markdown_text
from secl.reports.graders_section import TITLE as DISPUTED
from secl.reports.graders_section import disputed_table, graders_line
from secl.reports.page import render
from secl.reports.posterior_section import TITLE
from secl.reports.question_table import questions_csv, questions_markdown, questions_table
from secl.reports.run_report import RunReport, domain_panels, panels
from secl.reports.side_by_side import TITLE as SIDE_BY_SIDE
from secl.reports.side_by_side import side_by_side
from secl.reports.summary_table import RANKING, ranking_table, summary_csv, summary_table
from secl.reports.table import to_latex, to_markdown
from secl.reports.unlabelled import NEEDY, domains_table, headline, levels_table, share_notes, ungraded
from secl.reports.unlabelled import TITLE as UNLABELLED

PAGE = "report.html"

MAIN = (
    "stated",
    "secl",
    "posterior",
    "posterior_best",
    "norm_p_true",
    "p_true",
    "self_consistency",
    "dinco",
    "label_free_temperature",
    "answer_probability",
)
"""Estimators whose distributions are drawn."""

_PICTURES = re.compile(r"((\d+-)?(reliability|domains|timeline|scores|posterior|confidences|risk)|cost)\.(png|svg)")
_OURS = re.compile(rf"report\.html|summary\.(md|tex|csv)|(\d+-)?questions\.(md|csv)|{_PICTURES.pattern}")


def check_folder(folder: Path) -> None:
    """Check that a report may be written there: the folder does not exist, is empty, or holds a report alone.

    Raises:
        ParameterError: it holds something else, or is a file.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ParameterError(f"{folder} is a file; name another folder with --out.")
    own = _OURS if (folder / PAGE).exists() else _PICTURES  # without a page a questions.csv is somebody's questions
    others = [path.name for path in folder.iterdir() if not own.fullmatch(path.name)]
    if others:
        raise ParameterError(f"{folder} holds {min(others)!r} and more than a report; name another folder with --out.")


def write_report(folder: Path, runs: Sequence[RunReport]) -> Path:
    """Write page, tables and pictures of one or several runs into a folder, which is made if need be.

    Files: `report.html`; `summary.md`, `.tex` and `.csv`; `questions.csv` and `.md` with every answer; `reliability`,
    `domains`, `scores`, `posterior`, `confidences`, `risk`, `timeline` and `cost` as `.png` and `.svg`. With several
    runs there are questions and all pictures but the last for each, as `1-timeline.png`. Pictures of an earlier report
    that are not drawn again are removed: without any right answer there are no reliability and scores.

    Returns:
        the path of the page.

    Raises:
        StorageError: a file cannot be written.
    """
    prefixes = [""] if len(runs) == 1 else [f"{number}-" for number in range(1, len(runs) + 1)]
    drawn = cost_points([run.summary for run in runs])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pictures = [draw(run, folder, prefix) for run, prefix in zip(runs, prefixes, strict=True)]
        cost = write_picture(cost_figure(drawn, [run.name for run in runs]), folder / "cost") if drawn else None
        summaries = {run.name: run.summary for run in runs}
        texts = {
            "summary.md": markdown(runs),
            "summary.tex": latex_tables(runs),
            "summary.csv": summary_csv(summaries),
            PAGE: render(runs, pictures, cost),
        }
        for run, prefix in zip(runs, prefixes, strict=True):
            texts[f"{prefix}questions.csv"] = questions_csv(run.rows)
            texts[f"{prefix}questions.md"] = questions_markdown(run.rows)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", errors="replace")
        stems = {f"{prefix}{name}" for svgs, prefix in zip(pictures, prefixes, strict=True) for name in svgs}
        stems |= {"cost"} if cost else set()
        _remove_others(folder, {*texts, *(f"{stem}{end}" for stem in stems for end in (".png", ".svg"))})
    except OSError as problem:
        raise StorageError(f"cannot write {folder}: {problem.strerror or problem}.") from problem
    return folder / PAGE


def _remove_others(folder: Path, written: set[str]) -> None:
    """Remove what an earlier report left and this one did not write."""
    for path in folder.iterdir():
        if _OURS.fullmatch(path.name) and path.name not in written:
            path.unlink(missing_ok=True)


def draw(run: RunReport, folder: Path, prefix: str = "") -> dict[str, str]:
    """Write the pictures of one run; returns their SVGs by name, of those that can be drawn."""
    graded = panels(run)
    figures = {"timeline": timeline_figure(run.records, window=max(20, len(run.records) // 40), adapted=run.learned)}
    blank = ungraded(run.rows)
    figures["risk"] = risk_coverage_figure(risk_panels(run.acceptance), RISKS)
    if blank:
        domains, confidences = [row.question.domain for row in blank], [row.confidence for row in blank]
        figures["confidences"] = confidence_figure(confidence_groups(domains, confidences))
    if graded:
        figures["reliability"] = reliability_figure(list(graded.values()))
    by_domain = domain_panels(run)
    if by_domain:
        figures["domains"] = reliability_figure(by_domain)
    groups = groups_of(run.records)
    if groups:
        figures["posterior"] = posterior_figure(groups)
    main = [panel for key, panel in graded.items() if key in MAIN]  # in the order of the reliability diagrams
    if main:
        figures["scores"] = score_figure(main)
    return {name: write_picture(figure, folder / f"{prefix}{name}") for name, figure in figures.items()}


def latex_tables(runs: Sequence[RunReport]) -> str:
    """The tables of all graded runs together, and of each other run what its confidences say."""
    graded = {run.name: run.summary for run in runs if run.graded}
    tables = [make(graded) for make in (summary_table, ranking_table)] if graded else []
    tables += [make(run) for run in runs if ungraded(run.rows) for make in (domains_table, levels_table)]
    return "\n".join(map(to_latex, tables))


def markdown(runs: Sequence[RunReport]) -> str:
    """The tables of each run one after the other, with headings where there are several runs."""
    texts = []
    for run in runs:
        level = "##" if len(runs) == 1 else "###"
        parts = [_graded(run, level)] if run.graded else []
        parts += [_ungraded(run, level)] if ungraded(run.rows) else []
        accepted = accepted_sentence(run.records)
        said = [accepted] if accepted else []
        parts.append("\n\n".join([f"{level} {ACCEPTED}", *said, to_markdown(risk_table(run.acceptance))]))
        notes = run.posterior_notes
        if notes:
            parts.append(f"{level} {TITLE}\n\n" + "\n\n".join(notes))
        disputed = disputed_table(run)
        if disputed is not None:
            parts.append(f"{level} {DISPUTED}\n\n{graders_line(run.summary.graders)}\n\n{to_markdown(disputed)}")
        text = "\n".join(parts)
        texts.append(text if len(runs) == 1 else f"## {markdown_text(run.name)}\n\n{text}")
    return "\n".join([*texts, *([_pairs(runs)] if len(runs) > 1 else [])])


def _pairs(runs: Sequence[RunReport]) -> str:
    """Several runs on the questions that they share."""
    parts = [f"## {SIDE_BY_SIDE}"]
    for pair in side_by_side(runs):
        parts += [f"### {markdown_text(pair.heading)}", *pair.notes]
        parts += [to_markdown(table) for table in (pair.differences, pair.changed) if table]
    return "\n\n".join(parts) + "\n"


def _graded(run: RunReport, level: str) -> str:
    """What comparing with right answers showed."""
    summaries = {run.name: run.summary}
    return f"{to_markdown(summary_table(summaries))}\n{level} {RANKING}\n\n{to_markdown(ranking_table(summaries))}"


def _ungraded(run: RunReport, level: str) -> str:
    """What can be said where there was nothing to compare with."""
    tables = [to_markdown(domains_table(run)), to_markdown(levels_table(run))]
    needy = neediest(ungraded(run.rows), NEEDY)
    worst = f"\n{level} Answers that most need a person\n\n{to_markdown(questions_table(needy, signs=True))}"
    head = [headline(run)] if run.mostly_ungraded else []
    text = "\n\n".join([f"{level} {UNLABELLED}", *head, *share_notes(run), *tables])
    return text + (worst if needy else "")
