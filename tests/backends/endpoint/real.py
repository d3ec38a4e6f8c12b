"""Real servers in processes of their own, for tests that have their environment."""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest


def free_port() -> int:
    """A free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path, seconds: float) -> None:
    """Wait until an address answers with status 200; the test fails if it does not."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        try:
            if httpx.get(url, timeout=2).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    pytest.fail(f"no answer from {url}:\n{log.read_text(errors='replace')[-3000:]}")


@contextmanager
def running(command: list[str], ready: str, log: Path, seconds: float) -> Iterator[subprocess.Popen[bytes]]:
    """A server's process, once its address answers; the process ends with the block."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        wait_for(ready, process, log, seconds)
        yield process
    finally:
        process.terminate()
        process.wait(60)
