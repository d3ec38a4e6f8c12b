"""The files that a report leaves for people."""

from __future__ import annotations

from pathlib import Path

from secl.errors import ParameterError, StorageError
from secl.reports.figures.drawing import write_picture
from secl.reports.page import render
from secl.reports.run_report import RunReport
from secl.reports.sections import sections_of
from secl.reports.summary_table import summary_csv

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


def write_report(folder: Path, run: RunReport, *, of_run: bool = False) -> Path:
    """Write the report of a run into a folder, which is made if need be.

    Files: `report.html`, which needs no other; `summary.csv` with every number; every picture as `.png` and `.svg`.
    A run's own folder gets the page and the pictures of `BESIDE_RUN` alone.

    Returns:
        the path of the page.

    Raises:
        StorageError: a file cannot be written.
    """
    sections = list(sections_of(run))
    keep = BESIDE_RUN if of_run else None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pictures = {
            picture.name: write_picture(picture.draw(), folder / picture.name, keep)
            for section in sections
            for picture in section.pictures
        }
        texts = {PAGE: render(run, sections, pictures)}
        if not of_run:
            texts["summary.csv"] = summary_csv(run.name, run.summary)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", errors="replace")
    except OSError as problem:
        raise StorageError(f"cannot write {folder}: {problem.strerror or problem}.") from problem
    return folder / PAGE
