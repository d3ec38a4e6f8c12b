"""The files of a report: a self-contained HTML page, and pictures."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from secl.display import as_sentence, number
from secl.errors import ParameterError
from secl.explain import explain
from secl.grading.rules import reported_correct
from secl.records import Record
from secl.reports.answers import (
    answered,
    asked,
    flags_in,
    neediest,
    not_returned,
    options_of,
    own_cell,
    own_columns,
    remarks,
    right_answer,
)
from secl.reports.figures import write_picture
from secl.reports.formats import SUFFIXES, table_text
from secl.reports.html import TEMPLATES, html_templates
from secl.reports.result import ungraded
from secl.reports.run_report import RunReport
from secl.reports.sections import Section, sections_of
from secl.reports.summary_table import published_table
from secl.reports.texts import LEGEND, segments_of
from secl.runs.folder import ELSEWHERE, storage_errors

PAGE = "report.html"

MAX_ANSWERS = 2000
"""Maximum number of answers on the page, which limits its size to some megabytes."""


def check_folder(folder: Path) -> None:
    """Check that a report may be written to a folder: the folder does not exist, is empty, or holds a report."""
    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"{folder} is a file; name another folder with --out.")
    if folder.exists() and any(folder.iterdir()) and not (folder / PAGE).exists():
        raise ParameterError(f"{folder} is not empty and holds no report; name another folder with --out.")


def write_report(folder: Path, run: RunReport, *, of_run: bool = False, first: Sequence[Section] = ()) -> Path:
    """Write the report of a run into a new or existing folder, and return the path of the page.

    The files are `report.html`, which is self-contained, every picture as `.png`, `.svg` and `.pdf`, and the main table
    of a graded run as `.tex`, `.csv` and `.md`. The run's own folder (`of_run`) gets only the page. The sections
    `first` stand before those of the report.
    """
    sections = [*first, *sections_of(run)]
    with storage_errors(folder, ELSEWHERE):
        folder.mkdir(parents=True, exist_ok=True)
        pictures = {
            picture.name: write_picture(picture.draw(), None if of_run else folder / picture.name)
            for section in sections
            for picture in section.pictures
        }
        for form, suffix in SUFFIXES.items() if run.graded and not of_run else ():
            (folder / f"table{suffix}").write_text(table_text(published_table(run), form), "utf-8", "replace")
        (folder / PAGE).write_text(render(run, sections, pictures), encoding="utf-8", errors="replace")
    return folder / PAGE


def listed(records: Sequence[Record]) -> Sequence[Record]:
    """Return the answers on the page, in order: all answers, or the `MAX_ANSWERS` answers that most need a person."""
    return (
        records
        if len(records) <= MAX_ANSWERS
        else sorted(neediest(records, MAX_ANSWERS), key=lambda record: record.position)
    )


def data_uri(svg: str) -> str:
    """Return a picture as a data URI.

    >>> data_uri("<svg/>")
    'data:image/svg+xml;base64,PHN2Zy8+'
    """
    return f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"


def natural_width(svg: str) -> str:
    """Return the width of a picture in CSS.

    >>> natural_width('<svg width="720.5pt" height="9pt">')
    '720.5pt'
    """
    width = re.search(r'width="([\d.]+pt)"', svg)
    return width[1] if width else "100%"


def render(run: RunReport, sections: Sequence[Section], pictures: Mapping[str, str]) -> str:
    """Return the page of a run with its sections; `pictures` has the SVG of each picture by name."""
    from markupsafe import Markup

    environment = html_templates(TEMPLATES)
    given = (data_uri, natural_width, listed, asked, answered, not_returned, options_of, reported_correct, remarks)
    more = (flags_in, own_cell, own_columns, as_sentence, explain, number, right_answer, ungraded)
    shown = {function.__name__: function for function in (*given, *more)}
    environment.globals |= {**shown, "LEGEND": LEGEND, "segments_of": segments_of}
    # CDATA makes an XML parser accept the script.
    text = (TEMPLATES / "questions.js").read_text(encoding="utf-8")
    script = f"//<![CDATA[\n{text}//]]>"
    digest = b64encode(sha256(script.encode()).digest()).decode()
    # The browser may run only this script, and the page fetches nothing.
    policy = (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    )
    values = {"run": run, "sections": sections, "pictures": pictures, "script": Markup(script), "policy": policy}
    return environment.get_template("page.html").render(values).lstrip()
