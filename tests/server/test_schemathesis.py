"""Requests that the API's description allows, and many that it forbids, get a described reply.

SECL_REQUESTS=10000 python -m pytest tests/server/test_schemathesis.py        # about so many requests
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.server.conftest import Make, opened

REQUESTS = int(os.environ.get("SECL_REQUESTS", "0"))
"""Number of requests, if it allows more than `FEWEST` of each kind for each route."""

FEWEST = 5

SENSIBLE = {"model": "scripted", "role": "user"}
"""Texts in place of random ones, which the server would refuse."""


@pytest.fixture
def operations(make_service: Make) -> Iterator[list[Any]]:
    """All operations in the description of a running server."""
    schemathesis = pytest.importorskip("schemathesis")  # here, because it takes seconds to import
    with opened(make_service()) as address:
        schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
        yield [found.ok() for found in schema.get_all_operations()]


def sensible(body: Any) -> Any:
    """A body with `SENSIBLE` texts, at every depth."""
    if isinstance(body, dict):
        return {key: SENSIBLE.get(key, sensible(value)) for key, value in body.items()}
    return [sensible(value) for value in body] if isinstance(body, list) else body


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["POSITIVE", "NEGATIVE"])
def test_no_request_breaks_the_server_and_every_reply_is_as_described(operations: list[Any], kind: str) -> None:
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    examples = max(FEWEST, REQUESTS // (2 * len(operations)))
    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
    seen: dict[str, set[int]] = {}

    def check(operation: Any) -> None:
        @settings(
            max_examples=examples,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=GenerationMode[kind]))
        def ask(case: Any) -> None:
            if kind == "POSITIVE":
                case.body = sensible(case.body)
            reply = case.call()
            seen.setdefault(operation.label, set()).add(reply.status_code)
            case.validate_response(reply, checks=checks)

        ask()

    assert len(operations) >= 13
    for operation in operations:
        if kind == "POSITIVE" or operation.body or operation.query or operation.path_parameters:
            check(operation)
    wanted = {200} if kind == "POSITIVE" else {400}
    for label in ("POST /v1/ask", "POST /v1/pause"):
        assert wanted <= seen[label], (label, seen[label])
