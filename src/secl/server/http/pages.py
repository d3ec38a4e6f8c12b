"""The pages of a server: the overview, the list of records, one record, and the review.

The server renders whole pages from templates; small scripts update the overview. Pages load nothing from other hosts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from statistics import fmean
from time import time
from typing import Annotated
from urllib.parse import urlencode

import jinja2
from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import FileResponse, HTMLResponse
from pydantic import ValidationError

from secl.display import as_sentence, counted, number
from secl.errors import ParameterError
from secl.facts.records import expected_wrong
from secl.metrics.measures import running_mean
from secl.records import Record
from secl.reports.html import TEMPLATES, html_templates
from secl.reports.texts import LEGEND, around_gap, segments_of, short
from secl.runs.labelling import RECENT, answer_of, labelled, review_queue, row_id
from secl.runs.store import Store
from secl.server.entries import JsonObject, StoredText, answer_text, moment
from secl.server.explain import PromptMessage, explain_served
from secl.server.http.api_keys import KeyRole, permits
from secl.server.http.health import ServerState, view
from secl.server.online.service import Service
from secl.server.records import Point, RecordList, Search, search
from secl.server.store import ServerStore, at_one_moment

WIDTH = 1000.0
"""Width of the chart in SVG units. Its height is 100 units for values from 0 to 1."""

AVERAGED = 20
"""Number of answers in a running mean."""

ASSETS = Path(__file__).parent / "assets"

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Vary": "Authorization",
}
"""Headers of a page."""

OpenStore = Callable[[], AbstractContextManager[Store]]
"""Function that opens a store for reading."""

Page = tuple[str, int]
"""HTML of a page, and its HTTP status."""

CHOICES = (
    ("label", "Label", (("right", "right"), ("wrong", "wrong"), ("none", "none yet"))),
    ("accepted", "Threshold", (("true", "accepted"), ("false", "not accepted"))),
)
"""Filters of the list: name, caption, and values with their captions."""


def page_router(service: Service) -> APIRouter:
    """Return the routes of the pages. Without the required role, a page only asks for a key."""
    folder = service.state.folder
    router = review_router(partial(at_one_moment, folder))

    @router.api_route("/", methods=["GET", "HEAD"])
    def now(request: Request) -> HTMLResponse:
        return _answer(request, lambda: (overview(view(service)), 200))

    @router.api_route("/records", methods=["GET", "HEAD"])
    def records(request: Request) -> HTMLResponse:
        thresholds = service.calibrator.accept is not None
        wanted = {name: value for name, value in request.query_params.items() if value}
        return _answer(request, lambda: records_page(folder, wanted, thresholds=thresholds))

    @router.api_route("/records/{name}", methods=["GET", "HEAD"])
    def record(request: Request, name: str) -> HTMLResponse:
        return _answer(request, lambda: record_page(folder, name), "../")

    return router


def review_router(reading: OpenStore, *, of_run: bool = False) -> APIRouter:
    """Return the routes /review and /static/{name}, for a server or a run; `reading` opens the store."""
    router = APIRouter(include_in_schema=False)
    files = {path.name: path for path in (*ASSETS.iterdir(), TEMPLATES / "shared.css") if path.suffix != ".html"}

    @router.api_route("/review", methods=["GET", "HEAD"])
    def review(
        request: Request,
        after: Annotated[int | None, Query(ge=0, lt=2**63)] = None,
        record: Annotated[StoredText, Query(max_length=30)] = "",
    ) -> HTMLResponse:
        return _answer(request, lambda: review_page(reading, after, record, of_run), needed="review", of_run=of_run)

    @router.get("/static/{name}")
    def static(name: str) -> FileResponse:
        if name not in files:
            raise HTTPException(404, f"there is no file {name!r}.")
        return FileResponse(files[name], headers={**HEADERS, "Cache-Control": "no-cache"})

    return router


def _answer(
    request: Request, page: Callable[[], Page], root: str = "", *, needed: KeyRole = "read", of_run: bool = False
) -> HTMLResponse:
    if not permits(request.scope.get("secl_role"), needed):
        return HTMLResponse(fill("index.html", "", root=root, locked=True), headers=HEADERS)
    try:
        text, status = page()
    except ParameterError as problem:
        said = as_sentence(str(problem))
        text, status = fill("record.html", "Records", root=root, of_run=of_run, id=None, problem=said), 404
    return HTMLResponse(text, status, headers=HEADERS)


def records_page(folder: Path, wanted: dict[str, str], *, thresholds: bool) -> Page:
    """Return the page of records that match `wanted`; `thresholds` adds a filter for accepted answers."""
    problem, query, page = "", Search(), RecordList(records=[], before=None)
    with at_one_moment(folder) as reader:
        try:
            query = Search.model_validate(wanted)
            page = search(reader, query)
        except ValidationError as error:
            first = error.errors()[0]
            problem = f"{'.'.join(map(str, first['loc']))}: {first['msg']}."
        except ParameterError as error:
            problem = str(error)
        keep_text = reader.keep_text
        pruned = f"Records before number {reader.first} were pruned." if page.before is None and reader.first else ""
    narrowed = {name: value for name, value in wanted.items() if name != "before"}
    count, newest = len(page.records), query.before is None
    noun = "record" if newest else "older record"
    found = f"{counted(count, noun) if count else f'No {noun}'} {'matches' if count < 2 else 'match'}"
    found = f"{found}; the next page has older records." if page.before is not None else f"{found}."
    if not count and query == Search(count=query.count):
        found = "No question yet."
    text = fill(
        "records.html",
        "Records",
        query=dict.fromkeys(Search.model_fields, "") | wanted,
        choices=[choice for choice in CHOICES if thresholds or choice[0] != "accepted"],
        rows=page.records,
        summary=problem or f"{found} {pruned}",
        problem=problem,
        narrowed=bool(narrowed),
        filtered=bool(narrowed.keys() - {"query", "count"}),
        keep_text=keep_text,
        newest=None if newest else f"records?{urlencode(narrowed)}",
        older=None if page.before is None else f"records?{urlencode({**narrowed, 'before': page.before})}",
    )
    return text, 400 if problem else 200


def record_page(folder: Path, name: str) -> Page:
    with at_one_moment(folder) as reader:
        served = reader.find(name)
        explanation = explain_served(reader, served)
        shown = card(reader, served.record, served.id)
        record, kept = served.record, range(reader.first, len(reader))
    older, newer = (p if p in kept else None for p in (record.position - 1, record.position + 1))
    text = fill(
        "record.html",
        "Records",
        root="../",
        **shown,
        wrong=expected_wrong(shown["facts"]),
        served=served,
        explanation=explanation,
        older=older,
        newer=newer,
    )
    return text, 200


def review_page(reading: OpenStore, after: int | None, name: str, of_run: bool) -> Page:
    """Return the page for rating record `name` (id or number); for "", the record after `after` in the review."""
    with reading() as reader:
        queue = review_queue(reader, after)
        shown = _reviewed(reader, name, queue.positions[:1])
        keep_text = reader.manifest.get("keep_text", "full")
    position = shown["record"].position if shown["id"] else None
    following = "review" if position is None else f"review?after={position}"
    latest = "" if of_run else "the latest "
    rated = f"{queue.rated:,} of {latest}{counted(queue.answers, 'answer')} are rated." if queue.answers else ""
    text = fill(
        "review.html",
        "Review",
        **shown,
        after=None if position is None and after is None else following,
        answers=queue.answers,
        drawn_from="all answers of the run" if of_run else f"the latest {RECENT:,} answers",
        of_run=of_run,
        keep_text=keep_text,
        progress=rated,
    )
    return text, 200


def _reviewed(reader: Store, name: str, waiting: Sequence[int]) -> JsonObject:
    """Return template values of record `name`, or else of the first waiting record: `card` with the present label."""
    if not name and not waiting:
        return {"id": None}
    if isinstance(reader, ServerStore):
        served = reader.find(name or str(waiting[0]))
        return card(reader, served.record, served.id)
    record = answer_of(reader, name) if name else reader.record(waiting[0])
    return card(reader, record, row_id(record))


def card(reader: Store, record: Record, name: str) -> JsonObject:
    """Return template values: a record, its id, its conversation up to the question, and its answer or None.

    `label`: whether the answer is labelled as right; None without a label. `facts`: the facts of a text with their
    labels. `segments`: the segments of this text; empty if the server keeps no texts.
    """
    record = labelled(record, reader.verdicts(record.position))
    question, facts = record.question, record.parts or ()
    kept = reader.manifest.get("keep_text", "full") == "full"
    turns = [("system", question.system)] if question.system else []
    turns += [(turn.role, turn.text) for turn in question.history]
    turns += [("passage", question.context)] if question.context else []
    turns.append(("user", "\n".join((question.text, *map(question.named, question.letters)))))
    return {
        "id": name,
        "record": record,
        "turns": [PromptMessage(role=role, content=text) for role, text in turns],
        "answer": answer_text(record) if record.answer is not None else None,
        "label": record.label,
        "facts": facts,
        "segments": segments_of(record) if facts and kept else [],
    }


def overview(state: ServerState) -> str:
    """Return the overview page."""
    points = state.timeline
    before = "frozen model" if state.learning else "stated"
    known = {
        name: [value for point in points if (value := getattr(point, name)) is not None]
        for name in ("frozen_confidence", "accepted")
    }
    known["confidence"] = [value for point in points for value in point.expected_grades]
    mean = {name: fmean(values) if values else None for name, values in known.items()}
    return fill(
        "index.html",
        "Overview",
        state=state,
        before=before,
        now=time(),
        mean=mean,
        timeline=timeline(points, before),
    )


def fill(
    template: str, here: str, *, root: str = "", locked: bool = False, of_run: bool = False, **values: object
) -> str:
    """Return a page from a template and its values; a `locked` page only asks for a key.

    `here`: name of the page in the navigation. `root`: relative path from the page to the overview. `of_run`: whether
    no other pages exist, as for a run.
    """
    return _templates().get_template(template).render(here=here, root=root, locked=locked, of_run=of_run, **values)


def _number(value: float | None, digits: int = 2) -> str:
    return number(value, digits, "z")


@cache
def _templates() -> jinja2.Environment:
    templates = html_templates(ASSETS)
    templates.filters |= {"number": _number, "moment": moment}
    templates.globals |= {"short": short, "around_gap": around_gap, "LEGEND": LEGEND}
    return templates


def timeline(points: Sequence[Point], before: str) -> JsonObject | None:
    """Return template values for the chart of the latest answers; None if no answer has a confidence.

    `before`: name of the line through `frozen_confidence`, "frozen model" or "stated".
    """
    points = [each for each in points if each.expected_grades]
    if not points:
        return None
    confidences = [each.expected_grades[0] for each in points]
    answers = [value for each in points for value in each.expected_grades]
    frozen = [math.nan if each.frozen_confidence is None else each.frozen_confidence for each in points]
    stated = [value for value in frozen if not math.isnan(value)]  # fields have no stated confidence
    step = WIDTH / len(points)

    def line(values: Sequence[float]) -> str:
        """Return SVG path data of a line through all values that are not nan."""
        known = [(index + 0.5, value) for index, value in enumerate(values) if not math.isnan(value)]
        places = "L".join(f"{x * step:.1f} {100.0 * (1.0 - value):.1f}" for x, value in known)
        return f"M{places}" if known else ""

    bursts = []
    for inside, run in groupby(enumerate(points), key=lambda item: item[1].in_burst):
        indices = [index for index, _ in run]
        if inside:
            bursts.append((round(indices[0] * step, 2), round(len(indices) * step, 2)))
    alarms = [round((index + 0.5) * step, 2) for index, point in enumerate(points) if point.alarm]
    in_bursts = counted(sum(point.in_burst for point in points), "answer")
    learned = f"; {counted(len(alarms), 'alarm')}, {in_bursts} in bursts" if bursts else ""
    first, last = points[0].position, points[-1].position
    of_facts = " (of the facts of a text)" if any(each.facts for each in points) else ""
    return {
        "confidences": f"{line(confidences).replace('L', 'h0M')}h0",  # lines of length 0 with round ends are dots
        "confidence_mean": line(running_mean(confidences, AVERAGED).tolist()),
        "frozen_mean": line(running_mean(frozen, AVERAGED).tolist()),
        "bursts": bursts,
        "alarms": alarms,
        "positions": [first, (first + last) // 2, last] if last - first > 1 else [first],
        "description": (
            f"Answers {first} to {last}: confidence {fmean(answers):.2f} on average{of_facts}"
            f"{f', {before} {fmean(stated):.2f}' if stated else ''}{learned}."
        ),
    }
