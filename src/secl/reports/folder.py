"""The files that a report leaves for people."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from secl.errors import ParameterError, StorageError
from secl.reports.figures.drawing import write_picture
from secl.reports.page import render
from secl.reports.run_report import RunReport
from secl.reports.sections import Section, sections_of, shared_sections
from secl.reports.summary_table import ranking_table, summary_csv, summary_table
from secl.reports.table import to_latex

PAGE = "report.html"

BESIDE_RUN = ("reliability.png", "timeline.png")
"""Pictures that stand in the folder of a run, beside the page, which holds them all."""


def check_folder(folder: Path) -> None:
    """Check that a report may be written there: the folder does not exist, is empty, or holds a report.

    Raises:
        ParameterError: it holds something else, or is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"{folder} is a file; name another folder with --out.")
    if folder.exists() and any(folder.iterdir()) and not (folder / PAGE).exists():
        raise ParameterError(f"{folder} is not empty and holds no report; name another folder with --out.")


def write_report(folder: Path, runs: Sequence[RunReport], *, of_run: bool = False) -> Path:
    """Write the report of one or several runs into a folder, which is made if need be.

    Files: `report.html`, which needs no other; `summary.csv` with every number and `summary.tex` with the tables of
    graded runs; every picture as `.png` and `.svg`, with several runs `1-timeline.png` and so on.

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
            summaries = {run.name: run.summary for run in runs}
            graded = {run.name: run.summary for run in runs if run.graded}
            texts["summary.csv"] = summary_csv(summaries)
            if graded:
                texts["summary.tex"] = "\n".join(to_latex(make(graded)) for make in (summary_table, ranking_table))
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", errors="replace")
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
