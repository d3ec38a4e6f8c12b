"""A report as one HTML page that needs nothing else: no network, no files beside it, and a script of its own alone."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from secl.reports.answers import AnswerRow, neediest
from secl.reports.formatting import html_templates
from secl.reports.run_report import RunReport
from secl.reports.sections import Section

MOST = 2000
"""Answers that the page lists, some megabytes; of more, those that most need a person."""


def listed(rows: Sequence[AnswerRow]) -> Sequence[AnswerRow]:
    """The answers that the page lists, in the order of the stream."""
    return rows if len(rows) <= MOST else sorted(neediest(rows, MOST), key=lambda row: row.record.position)


def data_uri(svg: str) -> str:
    """A picture as the address of an image that needs no file.

    >>> data_uri("<svg/>")
    'data:image/svg+xml;base64,PHN2Zy8+'
    """
    return f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"


def natural_width(svg: str) -> str:
    """How wide a picture is where there is room, in CSS.

    >>> natural_width('<svg width="720.5pt" height="9pt">')
    '720.5pt'
    """
    width = re.search(r'width="([\d.]+pt)"', svg)
    return width[1] if width else "100%"


def render(run: RunReport, sections: Sequence[Section], pictures: Mapping[str, str]) -> str:
    """The page of a run with these sections, and with the SVGs of their pictures by name."""
    from markupsafe import Markup

    environment = html_templates(Path(__file__).parent / "templates")
    environment.globals |= {"data_uri": data_uri, "natural": natural_width, "listed": listed}
    script = _script()
    values = {
        "run": run,
        "sections": sections,
        "pictures": pictures,
        "script": Markup(script),
        "policy": policy(script),
    }
    return environment.get_template("page.html").render(values).lstrip()


def _script() -> str:
    """The page's script, wrapped so that a page read as XML has it whole."""
    text = (Path(__file__).parent / "templates" / "questions.js").read_text(encoding="utf-8")
    return f"//<![CDATA[\n{text}//]]>"


def policy(script: str) -> str:
    """A content security policy under which this script alone runs and nothing is fetched from anywhere."""
    digest = b64encode(sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    )
