"""The FastAPI application: middleware, routes and error handlers."""

from __future__ import annotations

import logging
from importlib.metadata import version

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from secl.errors import RequestError, SeclError
from secl.server.http.errors import error_response, to_request_error, unknown_field
from secl.server.http.health import Metrics, health_router
from secl.server.http.middleware import BEARER, Boundary
from secl.server.http.pages import page_router
from secl.server.http.routes import answers_router
from secl.server.http.routes_state import control_router, records_router
from secl.server.online.service import Service

log = logging.getLogger("secl.server")


def create_app(service: Service, *, loopback: bool = True) -> FastAPI:
    """Return the HTTP application of a service; `loopback`: whether only this machine can reach its socket."""
    metrics = Metrics(service)
    app = FastAPI(
        title="secl",
        version=version("secl"),
        summary="Answers, each with the probability that it is correct.",
        docs_url=None,  # these pages would load scripts from other hosts
        redoc_url=None,
        redirect_slashes=False,
    )
    app.add_middleware(Boundary, metrics=metrics, loopback=loopback)
    app.exception_handler(SeclError)(_on_secl_error)
    app.exception_handler(RequestValidationError)(_on_invalid_request)
    app.exception_handler(HTTPException)(_on_http_exception)
    app.include_router(health_router(metrics))
    # The middleware checks the key before the body is read; this dependency adds the key to the API's description.
    described = [Depends(BEARER)]
    for router in (answers_router, records_router, control_router):
        app.include_router(router(service), dependencies=described)
    app.include_router(page_router(service))
    return app


async def _on_secl_error(_request: Request, error: SeclError) -> Response:
    refusal = to_request_error(error)
    if refusal.status == 500:
        log.error("%s", error)  # a sentence about the server, not about the question
    return error_response(refusal)


async def _on_invalid_request(request: Request, error: RequestValidationError) -> Response:
    """Refuse a body or query that does not fit its schema, without quoting values."""
    first = error.errors()[0]
    if first["loc"] == ("body",) and "json" not in request.headers.get("content-type", "").lower():
        sentence = "the body is not sent as JSON; send it with the header Content-Type: application/json."
        return error_response(RequestError(400, sentence, "invalid_content_type"))
    param = ".".join(str(part) for part in first["loc"][1:])
    if first["type"] == "extra_forbidden":
        return error_response(unknown_field(param))
    message = f"{param or 'the body'}: {first['msg'].removeprefix('Value error, ').rstrip('.')}."
    return error_response(RequestError(400, message, "invalid_value", param or None))


async def _on_http_exception(_request: Request, error: HTTPException) -> Response:
    messages = {
        400: "the body cannot be read as JSON.",
        404: "this address does not exist; the base URL of the API ends with /v1.",
        405: "this address does not take this method.",
    }
    message = messages.get(error.status_code, f"{error.detail}.")
    headers = dict(error.headers or {})
    return error_response(RequestError(error.status_code, message, f"http_{error.status_code}", headers=headers))
