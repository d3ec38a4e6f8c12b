"""The pages of a server: rendered here as a whole; small scripts beside them keep the overview up to date.

Nothing comes from other hosts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, Response

from secl.server.entries import Text
from secl.server.http.api_keys import Role, permits
from secl.server.http.pages import record_pages
from secl.server.http.pages.rendering import ASSETS, fill, overview
from secl.server.http.pages.view import view
from secl.server.online.service import Service

FILES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
"""Endings of the files that the pages load, with their types."""

POLICY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}

HEADERS = {**POLICY, "Vary": "Authorization"}
"""Headers of a page."""


def page_router(service: Service) -> APIRouter:
    """Routes of the pages, which ask for a key where the caller's does not permit them, and of `/static/{name}`."""
    router = APIRouter(include_in_schema=False)
    folder = service.state.folder
    files = {path.name: path for path in ASSETS.iterdir() if path.suffix[1:] in FILES}

    def answer(
        request: Request, page: Callable[[], tuple[str, int]], root: str = "", needed: Role = "read"
    ) -> HTMLResponse:
        if not permits(request.scope.get("secl_role"), needed):
            return HTMLResponse(fill("index.html", "", root=root, locked=True), headers=HEADERS)
        text, status = page()
        return HTMLResponse(text, status, headers=HEADERS)

    @router.api_route("/", methods=["GET", "HEAD"])
    def now(request: Request) -> HTMLResponse:
        return answer(request, lambda: (overview(view(service)), 200))

    @router.api_route("/records", methods=["GET", "HEAD"])
    def records(request: Request) -> HTMLResponse:
        thresholds = service.calibrator.accept is not None
        wanted = {name: value for name, value in request.query_params.items() if value}
        return answer(request, lambda: record_pages.records_page(folder, wanted, thresholds=thresholds))

    @router.api_route("/records/{name}", methods=["GET", "HEAD"])
    def record(request: Request, name: str) -> HTMLResponse:
        return answer(request, lambda: record_pages.record_page(folder, name), "../")

    @router.api_route("/review", methods=["GET", "HEAD"])
    def review(
        request: Request,
        after: Annotated[int | None, Query(ge=0, lt=2**63)] = None,
        record: Annotated[Text, Query(max_length=30)] = "",
    ) -> HTMLResponse:
        return answer(request, lambda: record_pages.review_page(folder, after, record), needed="review")

    @router.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in files:
            raise HTTPException(404, f"there is no file {name!r}.")
        headers = {**POLICY, "Cache-Control": "no-cache"}
        return Response(files[name].read_bytes(), media_type=FILES[files[name].suffix[1:]], headers=headers)

    return router
