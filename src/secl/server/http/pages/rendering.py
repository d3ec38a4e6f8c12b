"""The pages as texts: templates, and the sentences in them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from time import time

import jinja2

from secl.reports.formatting import html_templates
from secl.server.entries import moment
from secl.server.http.pages.charts import timeline
from secl.server.http.pages.view import State

ASSETS = Path(__file__).parent / "assets"

EVENTS = {
    "start": "Started",
    "rollback": "Rolled back",
    "pause": "Paused",
    "resume": "Resumed",
    "failed_update": "Update taken back",
}


def overview(state: State, *, now: float | None = None) -> str:
    """The overview; `now` is in seconds since 1970."""
    points = state.timeline
    before = "frozen model" if state.learning else "stated"
    return fill(
        "index.html",
        "Overview",
        state=state,
        before=before,
        now=time() if now is None else now,
        mean={
            name: _mean([value for point in points if (value := getattr(point, name)) is not None])
            for name in ("confidence", "frozen_confidence", "accepted")
        },
        timeline=timeline(points, before),
    )


def fill(template: str, here: str, *, root: str = "", locked: bool = False, **values: object) -> str:
    """A page from a template and its values.

    Args:
        here: the page's name among the links to all pages.
        root: what leads from its address to that of the overview.
        locked: whether the caller may not see it, and is asked for a key instead.
    """
    return _templates().get_template(template).render(here=here, root=root, locked=locked, **values)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:z.{digits}f}"  # noqa: RUF001


@cache
def _templates() -> jinja2.Environment:
    templates = html_templates(ASSETS)
    templates.globals["event_names"] = EVENTS
    templates.filters |= {"number": _number, "moment": moment}
    return templates
