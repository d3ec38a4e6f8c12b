"""The files that a report leaves for people."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from secl.errors import ParameterError, StorageError
from secl.reports.figures.drawing import write_picture
from secl.reports.formatting import markdown_text
from secl.reports.page import render
from secl.reports.run_report import RunReport
from secl.reports.sections import Section, sections_of, shared_sections
from secl.reports.summary_table import ranking_table, summary_csv, summary_table
from secl.reports.table import to_latex, to_markdown
from secl.reports.unlabelled import domains_table, levels_table, ungraded

PAGE = "report.html"

BESIDE_RUN = ("reliability.png", "timeline.png")
"""Pictures that stand in the folder of a run, beside the page, which holds them all."""

_PICTURES = re.compile(
    r"((\d+-)?(reliability|reliability-others|domains|timeline|scores|posterior|confidences|risk)|cost)\.(png|svg)"
)
_OURS = re.compile(rf"report\.html|summary\.(md|tex|csv)|{_PICTURES.pattern}")


def check_folder(folder: Path) -> None:
    """Check that a report may be written there: the folder does not exist, is empty, or holds a report alone.

    Raises:
        ParameterError: it holds something else, or is a file.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ParameterError(f"{folder} is a file; name another folder with --out.")
    others = [path.name for path in folder.iterdir() if not _OURS.fullmatch(path.name)]
    if others:
        raise ParameterError(f"{folder} holds {min(others)!r} and more than a report; name another folder with --out.")


def write_report(folder: Path, runs: Sequence[RunReport], *, of_run: bool = False) -> Path:
    """Write the report of one or several runs into a folder, which is made if need be.

    Files: `report.html`, which needs no other; `summary.md`, `.tex` and `.csv` for papers and tables; every picture as
    `.png` and `.svg`, with several runs `1-timeline.png` and so on. What an earlier report left is removed.

    Args:
        folder: where to.
        runs: one or several.
        of_run: whether it is the run's own folder, which gets the page and the pictures of `BESIDE_RUN` alone.

    Returns:
        the path of the page.

    Raises:
        StorageError: a file cannot be written.
    """
    several = len(runs) > 1
    shared = shared_sections(runs) if several else []
    each = {f"{n}-" if several else "": sections_of(run, several=several) for n, run in enumerate(runs, 1)}
    keep = BESIDE_RUN if of_run else None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pictures = _draw(shared, folder, "", keep)
        for prefix, sections in each.items():
            pictures |= _draw(sections, folder, prefix, keep)
        texts = {PAGE: render(runs, shared, each, pictures)}
        if not of_run:
            texts["summary.md"] = _markdown(runs, shared, list(each.values()))
            texts["summary.tex"] = latex_tables(runs)
            texts["summary.csv"] = summary_csv({run.name: run.summary for run in runs})
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", errors="replace")
        drawn = {f"{name}{suffix}" for name in pictures for suffix in (".png", ".svg")}
        _remove_others(folder, {*texts, *(drawn if keep is None else drawn & {*keep})})
    except OSError as problem:
        raise StorageError(f"cannot write {folder}: {problem.strerror or problem}.") from problem
    return folder / PAGE


def _draw(sections: Sequence[Section], folder: Path, prefix: str, keep: Collection[str] | None) -> dict[str, str]:
    """Write the pictures of sections; returns their SVGs by name."""
    return {
        f"{prefix}{picture.name}": write_picture(picture.draw(), folder / f"{prefix}{picture.name}", keep)
        for section in sections
        for picture in section.pictures
    }


def _remove_others(folder: Path, written: Collection[str]) -> None:
    """Remove what an earlier report left and this one did not write."""
    for path in list(folder.iterdir()):
        if _OURS.fullmatch(path.name) and path.name not in written:
            path.unlink(missing_ok=True)


def latex_tables(runs: Sequence[RunReport]) -> str:
    """The tables of all graded runs together, and of each other run what its confidences say."""
    graded = {run.name: run.summary for run in runs if run.graded}
    tables = [make(graded) for make in (summary_table, ranking_table)] if graded else []
    tables += [make(run) for run in runs if ungraded(run.rows) for make in (domains_table, levels_table)]
    return "\n".join(map(to_latex, tables))


def markdown(runs: Sequence[RunReport]) -> str:
    """The sections of all runs in Markdown, without the pictures."""
    several = len(runs) > 1
    each = [sections_of(run, several=several) for run in runs]
    return _markdown(runs, shared_sections(runs) if several else [], each)


def _markdown(runs: Sequence[RunReport], shared: Sequence[Section], each: Sequence[Sequence[Section]]) -> str:
    if not shared:
        return "\n\n".join(_paragraphs(each[0], "##")) + "\n"
    parts = _paragraphs(shared, "##")
    for run, sections in zip(runs, each, strict=True):
        parts += [f"## {markdown_text(run.name)}", *_paragraphs(sections, "###")]
    return "\n\n".join(parts) + "\n"


def _paragraphs(sections: Sequence[Section], level: str) -> list[str]:
    parts = []
    for section in sections:
        if section.sentences or section.tables:
            parts += [f"{level} {markdown_text(section.title)}", *map(markdown_text, section.sentences)]
            parts += [f"    {section.command}"] if section.command else []
            parts += [to_markdown(table).rstrip() for table in section.tables]
    return parts
