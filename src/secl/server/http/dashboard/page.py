"""The page of a server: rendered here as a whole, and brought up to date by a small script that fetches it again.

Nothing comes from other hosts, and no script runs but the one beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from time import time

import jinja2
from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, Response

from secl.reports.formatting import counted, xml_text
from secl.server.audit.entries import record_id
from secl.server.http.dashboard.charts import UNIT, Kind, histogram, reliability_chart, timeline
from secl.server.http.dashboard.risk_chart import risk_chart
from secl.server.http.dashboard.shapes import Point, View
from secl.server.http.dashboard.view import view
from secl.server.online.service import Service

FILES = {"style.css": "text/css", "script.js": "text/javascript", "icon.svg": "image/svg+xml"}
"""Files that the page loads, with their types."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

EVENTS = {
    "start": "Started",
    "rollback": "Rolled back",
    "pause": "Paused",
    "resume": "Resumed",
    "alert": "Alert",
    "failed_update": "Update taken back",
}


def anybody(_request: Request) -> bool:
    """Every caller may see the page."""
    return True


def page_router(service: Service, may_see: Callable[[Request], bool] = anybody) -> APIRouter:
    """Routes of the page, `/`, and of the files beside it, `/static/{name}`.

    Args:
        service: that the page shows.
        may_see: whether a caller may see what the server does; others get a page that asks for a key.
    """
    router = APIRouter(include_in_schema=False)

    @router.api_route("/", methods=["GET", "HEAD"])
    def page(request: Request) -> HTMLResponse:
        text = render(view(service) if may_see(request) else None)
        return HTMLResponse(text, headers={**HEADERS, "Cache-Control": "no-store", "Vary": "Authorization"})

    @router.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in FILES:
            raise HTTPException(404, f"there is no file {name!r}.")
        headers = {**HEADERS, "Cache-Control": "no-cache"}
        return Response(_packaged(name), media_type=FILES[name], headers=headers)

    return router


def render(state: View | None, *, now: float | None = None) -> str:
    """The page.

    Args:
        state: from `secl.server.http.dashboard.view.view`; None for a caller who may not see it.
        now: seconds since 1970.
    """
    stamp = time() if now is None else now
    if state is None:
        return _template().render(state=None, now=stamp)
    points = state["timeline"]
    kind: Kind = "stated" if state["posterior"] is None else "reported"
    return _template().render(
        state=state,
        kind=kind,
        now=stamp,
        headline=headline(state),
        mean=_means(points),
        timeline=timeline(points, kind) if points else None,
        histogram=histogram(points, kind) if points else None,
        reliability=reliability_chart(state["feedback"]) if state["feedback"]["n"] else None,
        risk=risk_chart(points) if points else None,
        latest=state["latest"],
    )


def headline(state: View) -> str:
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


def _means(points: Sequence[Point]) -> dict[str, float | None]:
    if not points:
        return {"confidence": None, "frozen_confidence": None}
    return {
        "confidence": sum(point["confidence"] for point in points) / len(points),
        "frozen_confidence": sum(point["frozen_confidence"] for point in points) / len(points),
    }


def _number(value: float | None, digits: int = 2, sign: str = "") -> str:
    return "–" if value is None else f"{value:{sign}z.{digits}f}".replace("-", "−")  # noqa: RUF001


def _packaged(name: str) -> str:
    return files("secl.server.http.dashboard").joinpath("assets", name).read_text(encoding="utf-8")


@cache
def _template() -> jinja2.Template:
    def printable(value: object) -> object:
        return xml_text(value) if type(value) is str else value

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_packaged),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=printable,
    )
    environment.globals |= {"risk_axis": UNIT, "counted": counted, "event_names": EVENTS}
    environment.filters |= {"number": _number, "moment": moment, "record_id": record_id}
    return environment.get_template("index.html")
