"""The pages of a server: rendered here as a whole; small scripts keep the overview up to date and send ratings.

Nothing comes from other hosts, and no script runs but those beside the pages.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, Response

from secl.server.entries import Text, Values
from secl.server.http.pages import record_pages
from secl.server.http.pages.rendering import fill, packaged, render
from secl.server.http.pages.view import now_of, view
from secl.server.online.service import Service

FILES = {
    "style.css": "text/css",
    "records.css": "text/css",
    "main.js": "text/javascript",
    "shell.js": "text/javascript",
    "ask.js": "text/javascript",
    "records.js": "text/javascript",
    "rating.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
"""Files that the pages load, with their types."""

POLICY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

HEADERS = {**POLICY, "Cache-Control": "no-store", "Vary": "Authorization"}
"""Headers of a page."""


class Snapshot:
    """The latest overview of a service.

    Args:
        service: that it shows.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self._lock = threading.Lock()
        self._known: tuple[int, Values] | None = None
        self._tag, self._text = "", ""

    def now(self) -> tuple[str, str]:
        """The overview and its entity tag, which changes with it."""
        with self._lock:
            known = (self.service.state.changes, now_of(self.service))
            if known != self._known:
                self._text = render(view(self.service, now=known[1]))
                self._tag = f'"{hashlib.sha256(self._text.encode()).hexdigest()[:32]}"'
                self._known = known
            return self._tag, self._text


def page_router(service: Service, may_see: Callable[[Request], bool] = lambda _: True) -> APIRouter:
    """Routes of the pages, and of the files beside them, `/static/{name}`.

    Args:
        service: that the pages show.
        may_see: whether a caller may see what the server does; others get a page that asks for a key.
    """
    router = APIRouter(include_in_schema=False)
    folder, snapshot = service.state.folder, Snapshot(service)

    def answer(request: Request, page: Callable[[], tuple[str, int]], root: str = "") -> HTMLResponse:
        if not may_see(request):
            return HTMLResponse(fill("index.html", "", root=root, locked=True), headers=HEADERS)
        text, status = page()
        return HTMLResponse(text, status, headers=HEADERS)

    @router.api_route("/", methods=["GET", "HEAD"])
    def overview(request: Request) -> Response:
        if not may_see(request):
            return answer(request, lambda: ("", 200))
        tag, text = snapshot.now()
        headers = {**HEADERS, "ETag": tag}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return HTMLResponse(text, headers=headers)

    @router.api_route("/records", methods=["GET", "HEAD"])
    def records(request: Request) -> HTMLResponse:
        thresholds = service.calibrator.loop.accept is not None
        wanted = {name: value for name, value in request.query_params.items() if value}
        return answer(request, lambda: record_pages.records_page(folder, wanted, thresholds=thresholds))

    @router.api_route("/records/{name}", methods=["GET", "HEAD"])
    def record(request: Request, name: str, labels: bool = False) -> HTMLResponse:
        return answer(request, lambda: record_pages.record_page(folder, name, with_labels=labels), "../")

    @router.api_route("/review", methods=["GET", "HEAD"])
    def review(
        request: Request,
        order: Annotated[Text, Query(max_length=30)] = "random",
        after: Annotated[Text, Query(max_length=30)] = "",
        record: Annotated[Text, Query(max_length=30)] = "",
    ) -> HTMLResponse:
        accept = service.calibrator.loop.accept
        return answer(request, lambda: record_pages.review_page(folder, order, after, record, accept))

    @router.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in FILES:
            raise HTTPException(404, f"there is no file {name!r}.")
        return Response(packaged(name), media_type=FILES[name], headers={**POLICY, "Cache-Control": "no-cache"})

    return router
