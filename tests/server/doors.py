"""Clients of a service, and a real server in this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient

from secl.server.http.app import create_app
from secl.server.online.service import Service


@contextmanager
def opened(app: FastAPI) -> Iterator[str]:
    """The address of a running server, without a slash at its end."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, access_log=False, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    for _ in range(1000):
        if server.started:
            break
        time.sleep(0.005)
    (port,) = {socket.getsockname()[1] for listener in server.servers for socket in listener.sockets}
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)


def client_of(service: Service) -> TestClient:
    """A client of a service, without a network."""
    return TestClient(create_app(service), base_url="http://127.0.0.1")


def metrics_of(client: TestClient) -> dict[str, float]:
    """What a server measures, by its name with its labels."""
    lines = [line for line in client.get("/metrics").text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}
