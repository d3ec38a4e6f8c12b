"""A report as one HTML page that needs nothing else: no network, no scripts, no files beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from secl.metrics.bootstrap import MEASURES
from secl.reports.figures.drawing import BLACK, BLUE, GREEN, VERMILLION, WHITE
from secl.reports.formatting import counted, xml_text
from secl.reports.run_report import (
    RunReport,
    best_alternative,
    comes_closer,
    domain_rows,
    ledger,
    overview,
    provenance,
    verdict,
    wrong_answers,
)
from secl.reports.summary_table import COLUMNS, summary_table

# Colours of a picture that follow the page's light or dark theme.
THEMED = {
    BLACK: "currentColor",
    WHITE: "var(--paper)",
    BLUE: "var(--blue)",
    GREEN: "var(--green)",
    VERMILLION: "var(--red)",
}


def inline(svg: str, name: str, description: str) -> str:
    """A picture of `secl.reports.figures.write_picture` as part of a page.

    Args:
        svg: the file's text.
        name: a word that no other picture of the page has; it keeps their identifiers apart.
        description: what it shows, for people who cannot see it.
    """
    from markupsafe import escape

    text = svg[svg.index("<svg") :]
    text = re.sub(r"<style.*?</style>", "", text, count=1, flags=re.DOTALL)  # the page has these rules too
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", text)
    for colour, themed in THEMED.items():
        text = text.replace(colour, themed)
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(description)}" ', 1)


def natural_width(svg: str) -> str:
    """How wide a picture is where there is room, in CSS.

    >>> natural_width('<svg width="720.5pt" height="9pt">')
    '720.5pt'
    """
    width = re.search(r'width="([\d.]+pt)"', svg)
    return width[1] if width else "100%"


def render(runs: Sequence[RunReport], pictures: Sequence[Mapping[str, str]], cost: str | None) -> str:
    """The page.

    Args:
        runs: one or several; several get a table of all of them first.
        pictures: SVGs of each run: any of "reliability", "scores" and "timeline".
        cost: the SVG of cost against error over all runs; None where nothing could be measured.
    """
    import jinja2
    from markupsafe import Markup

    def picture(svg: str, name: str, description: str) -> Markup:
        return Markup(inline(svg, name, description))  # drawn here, and escaped where it holds text

    def clean(value: Any) -> Any:
        return xml_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=clean,
    )
    environment.globals |= {"picture": picture, "natural": natural_width, "columns": COLUMNS, "counted": counted}
    sections = [_section(run, svgs) | {"cost": cost} for run, svgs in zip(runs, pictures, strict=True)]
    return environment.get_template("page.html").render(sections=sections, cost=cost).lstrip()


def _section(run: RunReport, pictures: Mapping[str, str]) -> dict[str, Any]:
    """What the template shows of one run."""
    table = summary_table({run.name: run.summary}, intervals_of=MEASURES)
    after = best_alternative(run.summary)
    return {
        "run": run,
        "verdict": verdict(run.summary),
        "after": after.estimator.title if after else None,
        "closer": comes_closer(run.summary),
        "rows": table.sections[""],
        "notes": table.notes,
        "pictures": pictures,
        "domains": domain_rows(run),
        "wrong": wrong_answers(run),
        "line": overview(run),
        "provenance": provenance(run),
        "ledger": ledger(run.records),
    }
