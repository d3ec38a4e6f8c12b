"""Rollback, pause and resume at a running server, over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from secl.errors import ParameterError

if TYPE_CHECKING:
    import httpx

TIMEOUT = 60.0
"""Seconds that a server may take: it finishes the layer that a lesson is in."""

Command = Literal["rollback", "pause", "resume"]


def send_command(
    server: str, command: Command, values: Mapping[str, object], key_file: Path | None = None
) -> dict[str, Any]:
    """Have a running server change its learning; returns its reply.

    Args:
        server: its address, for example "http://127.0.0.1:8080".
        command: what it is to do.
        values: body of the request.
        key_file: holds an administrator's key; None for a server without keys.

    Raises:
        ParameterError: the address or the key cannot be used, or the server refuses.
    """
    if not server.startswith(("http://", "https://")):
        raise ParameterError(f"the server {server!r} has no address; write it like http://127.0.0.1:8080.")
    headers = {} if key_file is None else {"Authorization": f"Bearer {_read_key(key_file)}"}
    try:
        import httpx
    except ImportError as problem:
        raise ParameterError('talking to a server needs httpx; run: pip install "secl[server]".') from problem
    try:
        # The key is for this server alone, so it passes through no proxy of the environment.
        with httpx.Client(timeout=TIMEOUT, trust_env=False) as client:
            response = client.post(f"{server.rstrip('/')}/v1/{command}", json=values, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL) as problem:
        raise ParameterError(f"the server {server} cannot be reached: {problem}.") from problem
    if not response.is_success:
        raise ParameterError(f"the server {server} refuses ({response.status_code}): {_error_message(response)}")
    reply = response.json()
    return reply if isinstance(reply, dict) else {}


def _read_key(path: Path) -> str:
    try:
        key = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise ParameterError(f"the key file {path} cannot be read: {problem}.") from problem
    if not (key and key.isascii() and key.isprintable() and " " not in key):
        raise ParameterError(f"the key file {path} does not hold one key and nothing else.")
    return key


def _error_message(response: httpx.Response) -> str:
    """The sentence in an error response of OpenAI's shape; otherwise the name of its status."""
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"{response.reason_phrase}."
