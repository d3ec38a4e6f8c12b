"""The pages as texts: templates, and the sentences in them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from time import time
from typing import Any

import jinja2

from secl.reports.formatting import counted, xml_text
from secl.server.entries import Values, record_id
from secl.server.http.pages.charts import FEW, Kind, reliability_chart, timeline

EVENTS = {
    "start": "Started",
    "rollback": "Rolled back",
    "pause": "Paused",
    "resume": "Resumed",
    "alert": "Alert",
    "failed_update": "Update taken back",
}


def render(state: Values | None, *, now: float | None = None) -> str:
    """The overview.

    Args:
        state: from `secl.server.http.pages.view.view`; None for a caller who may not see it.
        now: seconds since 1970.
    """
    if state is None:
        return fill("index.html", "Overview", locked=True)
    points = state["timeline"]
    kind: Kind = "stated" if state["posterior"] is None else "reported"
    return fill(
        "index.html",
        "Overview",
        state=state,
        kind=kind,
        now=time() if now is None else now,
        headline=headline(state),
        mean=_means(points),
        timeline=timeline(points, kind) if points else None,
        reliability=reliability_chart(state["feedback"]) if state["feedback"]["n"] else None,
        latest=state["latest"],
    )


def fill(template: str, here: str, *, root: str = "", locked: bool = False, **values: Any) -> str:
    """A page.

    Args:
        template: its name.
        here: the page's name among the links to all pages.
        root: what leads from its address to that of the overview.
        locked: whether the caller may not see it, and is asked for a key instead.
        values: for the template.
    """
    return _environment().get_template(template).render(here=here, root=root, locked=locked, **values)


def headline(state: Values) -> str:
    """What the server does now, in one or two sentences."""
    learning = state["learning"]
    if not learning["on"]:
        return "It answers and says how sure it is; this server does not learn."
    if learning["paused"] is not None:
        return "It answers; learning is paused."
    lessons = f" {counted(learning['waiting'], 'lesson')} {'waits' if learning['waiting'] == 1 else 'wait'}."
    behind = lessons if learning["waiting"] else ""
    if state["in_burst"] and state["remaining"]:
        questions = "next question" if state["remaining"] == 1 else f"next {state['remaining']} questions"
        return f"The gate has fired: it learns from the {questions}, behind the answers.{behind}"
    if not state["answers"]:
        return "It is ready. Nobody has asked anything yet."
    latest = state["events"][-1] if state["events"] else None
    if latest is not None and latest["kind"] == "rollback" and latest["version"] == state["newest"]:
        return f"It was rolled back to version {latest['version']}, and learns again when the gate sees the next shift."
    return f"The gate is quiet: it answers, and watches its uncertainty.{behind}"


def moment(seconds: float) -> str:
    """A time as people read it, in UTC.

    >>> moment(0)
    '1970-01-01 00:00:00'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _means(points: Sequence[Values]) -> dict[str, float | None]:
    if not points:
        return {"confidence": None, "frozen_confidence": None}
    return {
        "confidence": sum(point["confidence"] for point in points) / len(points),
        "frozen_confidence": sum(point["frozen_confidence"] for point in points) / len(points),
    }


def _number(value: float | None, digits: int = 2, sign: str = "") -> str:
    return "–" if value is None else f"{value:{sign}z.{digits}f}".replace("-", "−")  # noqa: RUF001


def packaged(name: str) -> str:
    """A file beside the templates."""
    return files("secl.server.http.pages").joinpath("assets", name).read_text(encoding="utf-8")


@cache
def _environment() -> jinja2.Environment:
    def printable(value: object) -> object:
        return xml_text(value) if type(value) is str else value

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(packaged),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=printable,
    )
    environment.globals |= {"counted": counted, "event_names": EVENTS, "few": FEW}
    environment.filters |= {"number": _number, "moment": moment, "record_id": record_id}
    return environment
