"""The application: the doorkeeper, the routes behind it, and the one shape of all errors."""

from __future__ import annotations

import logging
from importlib.metadata import version

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.responses import Response

from secl.errors import RequestError, SeclError
from secl.server.http.api_keys import Keys
from secl.server.http.dashboard.page import page_router
from secl.server.http.errors import error_response, to_request_error
from secl.server.http.metrics import Metrics, health_router
from secl.server.http.middleware import Guard, Settings
from secl.server.http.routes_admin import control_router
from secl.server.http.routes_chat import answers_router
from secl.server.online.service import Service

log = logging.getLogger("secl.server")


def create_app(service: Service, keys: Keys | None = None, settings: Settings | None = None) -> FastAPI:
    """A service behind HTTP.

    Args:
        service: started by the caller, and stopped by the caller after the application.
        keys: who may come in; None takes the file in the service's state folder.
        settings: of the doors.
    """
    keys, settings = keys or Keys(service.state.folder), settings or Settings()
    metrics = Metrics(service)
    app = FastAPI(
        title="secl",
        version=version("secl"),
        summary="Answers with a confidence that means what it says.",
        docs_url=None,  # they would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.add_middleware(Guard, keys=keys, settings=settings, metrics=metrics)
    app.exception_handler(SeclError)(_refused)
    app.exception_handler(RequestValidationError)(_invalid)
    app.exception_handler(HTTPException)(_not_served)
    app.include_router(health_router(service, metrics))
    # The guard checks keys; this says in the description that there are any.
    described = [Depends(HTTPBearer(auto_error=False, description="Made by secl keys add."))]
    app.include_router(answers_router(service, settings, metrics), dependencies=described)
    app.include_router(control_router(service, metrics), dependencies=described)
    app.include_router(page_router(service, may_see))
    return app


def may_see(request: Request) -> bool:
    """Whether the one who asks has a role here."""
    return request.scope.get("secl_role") is not None


async def _refused(_request: Request, problem: SeclError) -> Response:
    refused = to_request_error(problem)
    if refused.status == 500:
        log.error("%s", problem)  # one sentence about the server, not about what was asked
    return error_response(refused)


async def _invalid(_request: Request, problem: RequestValidationError) -> Response:
    """A body or a query that has not the described shape; what was sent is not quoted back."""
    first = problem.errors()[0]
    param = ".".join(str(part) for part in first["loc"][1:])
    message = f"{param or 'the body'}: {first['msg'].rstrip('.')}."
    return error_response(RequestError(400, message, "invalid_value", param or None))


async def _not_served(_request: Request, problem: HTTPException) -> Response:
    sentence = {
        400: "the body cannot be read as JSON.",
        404: "there is nothing at this address.",
        405: "this address does not take this method.",
    }
    message = sentence.get(problem.status_code, f"{problem.detail}.")
    headers = dict(problem.headers or {})
    return error_response(RequestError(problem.status_code, message, f"http_{problem.status_code}", headers=headers))
