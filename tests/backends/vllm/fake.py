"""A vLLM server by rule: just the routes that a fleet uses, in threads of the test's own process."""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rule = Callable[[bytes, list[int]], NDArray[np.float64]]
"""Logits behind a prompt, from the weights of an adapter (empty for the base model)."""

VOCABULARY = 40


def hashed(weights: bytes, prompt: list[int]) -> NDArray[np.float64]:
    """Logits that depend on everything and mean nothing."""
    digest = hashlib.sha256(weights + repr(prompt).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big")).normal(size=VOCABULARY) * 3


class FakeVllm:
    """A server that can be killed, started again on its port, slowed down and made to fail.

    Attributes:
        loaded: adapters that it has, folder by name.
        paths: every folder that it ever loaded, in order; it survives a restart, like a cache on disk.
        asked: bodies of all completion requests that it answered.
        fail: gives the status that a route answers with instead of the right one, or None.
        spoil: how many of the next completions are spoiled as by another client's logprob_token_ids.
        before: called before every completion.
    """

    def __init__(
        self, rule: Rule = hashed, *, decode: Callable[[list[int]], str] = str, key: str | None = None
    ) -> None:
        self.rule = rule
        self.decode = decode
        self.key = key
        self.base = "base"
        self.window = 2048
        self.most = 20
        self.loaded: dict[str, str] = {}
        self.paths: list[str] = []
        self.asked: list[dict[str, Any]] = []
        self.fail: Callable[[str], int | None] = lambda route: None
        self.spoil = 0
        self.before: Callable[[], object] = lambda: None
        self._weights: dict[str, bytes] = {}
        self._open: set[socket.socket] = set()
        self._port = 0
        self._ending = threading.Lock()
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Begin to listen, with no adapter loaded."""
        self.loaded = {}
        self._server = _Server(("127.0.0.1", self._port), _Handler, self)
        self._port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def kill(self) -> None:
        """End at once: requests that are under way get no answer."""
        with self._ending:
            if self._thread.is_alive():
                self._kill()

    def _kill(self) -> None:
        self._server.shutdown()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()
        self._thread.join()

    def models(self) -> list[str]:
        """Which model or adapter each completion named."""
        return [body["model"] for body in self.asked]

    def answer(self, method: str, route: str, body: dict[str, Any], key: str | None) -> tuple[int, Any]:
        """Status and JSON for a request."""
        status = self.fail(route)
        if status is not None:
            return status, _error("out of order")
        if self.key is not None and key != f"Bearer {self.key}":
            return 401, {"error": "Unauthorized"}
        if (method, route) == ("GET", "/health"):
            return 200, None
        if (method, route) == ("GET", "/v1/models"):
            base = {"id": self.base, "root": "somewhere", "parent": None, "max_model_len": self.window}
            own = [{"id": name, "root": path, "parent": self.base} for name, path in self.loaded.items()]
            return 200, {"data": [base, *own]}
        routes = {
            "/v1/load_lora_adapter": self._load,
            "/v1/unload_lora_adapter": self._unload,
            "/v1/completions": self._complete,
        }
        return routes[route](body) if method == "POST" and route in routes else (404, {"detail": "Not Found"})

    def _load(self, body: Mapping[str, Any]) -> tuple[int, Any]:
        name, path = body["lora_name"], body["lora_path"]
        if name in self.loaded:
            return 400, _error(f"The lora adapter '{name}' has already been loaded.")
        file = Path(path) / "adapter_model.safetensors"
        if not file.is_file():
            return 404, _error(f"No adapter found for {path}")
        # Like the prefix cache, which does not look at the weights behind a path that it knows.
        self._weights.setdefault(path, file.read_bytes())
        self.loaded[name] = path
        self.paths.append(path)
        return 200, "Success"

    def _unload(self, body: Mapping[str, Any]) -> tuple[int, Any]:
        if self.loaded.pop(body["lora_name"], None) is None:
            return 404, _error("cannot be found")
        return 200, "Success"

    def _complete(self, body: dict[str, Any]) -> tuple[int, Any]:
        self.before()
        if body["model"] != self.base and body["model"] not in self.loaded:
            return 404, _error(f"The model `{body['model']}` does not exist.")
        if body["logprobs"] > self.most or "logprob_token_ids" in body:
            return 400, _error(f"Requested sample logprobs of {body['logprobs']}, which is greater than max allowed")
        weights = self._weights[self.loaded[body["model"]]] if body["model"] != self.base else b""
        spoiled, self.spoil = self.spoil > 0, max(0, self.spoil - 1)
        choices = []
        for index, prompt in enumerate(body["prompt"]):
            tokens, logs, tops = self._generate(weights, prompt, body)
            if spoiled:
                tops = [{f"token_id:{t}": p, "token_id:0": -9999.0} for t, p in zip(tokens, logs, strict=True)]
            logprobs = {"tokens": [f"token_id:{t}" for t in tokens], "token_logprobs": logs, "top_logprobs": tops}
            choices.append({"index": index, "logprobs": logprobs})
        self.asked.append(body)
        return 200, {"choices": choices[::-1]}  # in no special order

    def _generate(
        self, weights: bytes, prompt: list[int], body: Mapping[str, Any]
    ) -> tuple[list[int], list[float], list[dict[str, float]]]:
        tokens: list[int] = []
        logs: list[float] = []
        tops: list[dict[str, float]] = []
        chance = np.random.default_rng(body.get("seed"))
        while len(tokens) < body["max_tokens"]:
            logits = self.rule(weights, [*prompt, *tokens])
            log_p = logits - logits.max()
            log_p = log_p - np.log(np.exp(log_p).sum())
            token = int(log_p.argmax())
            if body["temperature"] > 0:
                token = int(chance.choice(len(log_p), p=np.exp(log_p)))
            if "allowed_token_ids" in body:
                (token,) = body["allowed_token_ids"]
            best = np.argsort(-log_p, kind="stable")[: body["logprobs"]]
            tokens.append(token)
            logs.append(float(log_p[token]))
            tops.append({f"token_id:{i}": float(log_p[i]) for i in dict.fromkeys([token, *map(int, best)])})
            text = self.decode(tokens)
            if token in body["stop_token_ids"] or any(stop in text for stop in body["stop"]):
                break
        return tokens, logs, tops


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], fake: FakeVllm) -> None:
        self.fake = fake
        super().__init__(address, handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A killed server says nothing."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.fake._open.add(self.connection)

    def finish(self) -> None:
        self.server.fake._open.discard(self.connection)
        super().finish()

    def do_GET(self) -> None:
        self._reply("GET", {})

    def do_POST(self) -> None:
        self._reply("POST", json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _reply(self, method: str, body: dict[str, Any]) -> None:
        status, answer = self.server.fake.answer(method, self.path, body, self.headers.get("Authorization"))
        data = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "BadRequestError", "code": 400}}
