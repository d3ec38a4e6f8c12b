"""A report as one HTML page that needs nothing else: no network, no files beside it, and a script of its own alone."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from secl.metrics.bootstrap import MEASURES
from secl.reports import unlabelled
from secl.reports.acceptance_section import TITLE as ACCEPTED
from secl.reports.acceptance_section import accepted_sentence, risk_table
from secl.reports.answers import NO_SIGN, neediest
from secl.reports.formatting import counted, xml_text
from secl.reports.graders_section import TITLE as DISPUTED
from secl.reports.graders_section import disputed_table, graders_line
from secl.reports.headline import verdict
from secl.reports.posterior_section import TITLE
from secl.reports.provenance import ledger, provenance
from secl.reports.question_table import page_rows, questions_context, script_json
from secl.reports.run_report import RunReport, best_alternative, comes_closer, reported
from secl.reports.run_rows import domain_rows, overview
from secl.reports.side_by_side import TITLE as SIDE_BY_SIDE
from secl.reports.side_by_side import alike, side_by_side
from secl.reports.summary_table import RANKING, counts_caption, ranking_table, summary_table
from secl.reports.trust_section import trust_html
from secl.reports.words import words_of
from secl.reports.wrong_answers import wrong_answers


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


def render(runs: Sequence[RunReport], pictures: Sequence[Mapping[str, str]], cost: str | None) -> str:
    """The page.

    Args:
        runs: one or several; several get a table of all of them first.
        pictures: SVGs of each run: any of "reliability", "scores", "posterior", "confidences" and "timeline".
        cost: the SVG of cost against error over all runs; None where nothing could be measured.
    """
    import jinja2
    from markupsafe import Markup

    def clean(value: Any) -> Any:
        return xml_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=clean,
    )
    environment.globals |= {"data_uri": data_uri, "natural": natural_width, "ranking": RANKING, "counted": counted}
    environment.filters["script_json"] = lambda value: Markup(script_json(value))
    environment.globals |= {"accepted_title": ACCEPTED, "disputed_title": DISPUTED}
    environment.globals |= {
        "posterior_title": TITLE,
        "unlabelled_title": unlabelled.TITLE,
        "no_sign": NO_SIGN,
        "trust_html": trust_html,
    }
    prefixes = [f"{index}-" if len(runs) > 1 else "" for index in range(1, len(runs) + 1)]
    sections = [
        _section(run, svgs) | questions_context(run.rows, prefix) | {"cost": cost}
        for run, svgs, prefix in zip(runs, pictures, prefixes, strict=True)
    ]
    script = _script()
    pairs = side_by_side(runs) if len(runs) > 1 else []
    values = {
        "pairs": pairs,
        "pairs_title": SIDE_BY_SIDE,
        "sections": sections,
        "cost": cost,
        "alike": alike(runs),
        "words": words_of(runs),
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


def _section(run: RunReport, pictures: Mapping[str, str]) -> dict[str, Any]:
    """What the template shows of one run."""
    table = summary_table({run.name: run.summary}, intervals_of=MEASURES)
    after = best_alternative(run.summary)
    return {
        "run": run,
        "verdict": unlabelled.headline(run) if run.mostly_ungraded else verdict(run.summary),
        "unlabelled": _unlabelled(run) if unlabelled.ungraded(run.rows) else None,
        "after": after.estimator.title if after else None,
        "closer": comes_closer(run.summary),
        "table": table,
        "ranking": ranking_table({run.name: run.summary}, intervals_of=MEASURES),
        "pictures": pictures,
        "accepted": accepted_sentence(run.records),
        "risks": risk_table(run.acceptance),
        "posterior": run.posterior_notes,
        "chosen": reported(run.summary) is not None,
        "domains": domain_rows(run),
        "graders": graders_line(run.summary.graders),
        "disputed": disputed_table(run),
        "wrong": wrong_answers(run.records, adapted=run.learned),
        "line": overview(run),
        "provenance": provenance(run),
        "ledger": ledger(run.records),
    }


def _unlabelled(run: RunReport) -> dict[str, Any]:
    """What the template shows of answers that nothing was compared with."""
    return {
        "notes": unlabelled.share_notes(run),
        "domains": unlabelled.domains_table(run),
        "levels": unlabelled.levels_table(run),
        "needy": page_rows(neediest(unlabelled.ungraded(run.rows), unlabelled.NEEDY)),
        "caption": counts_caption(run.summary),
    }
