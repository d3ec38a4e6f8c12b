"""A server under load for long: `python -m benchmarks.soak [--minutes 10] [--clients 8] [--model smollm2]`.

First with learning paused, then with learning and feedback, over fresh state folders: every client sends questions with
options, chats and thumbs as fast as it gets answers. Printed are errors, waits, and the memory of the process minute by
minute. The second half stands in relation to the first.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from secl.data.quiz import quiz

QUESTIONS = [question for domain in ("capitals", "science") for question in quiz(domain, 100, 1)]


@dataclass
class Seen:
    """What the clients saw.

    Attributes:
        waits: seconds of each answer, by kind.
        errors: what went wrong, in a few words.
        memory: MiB of the server's process, once a minute.
        lessons: how many were held.
    """

    waits: dict[str, list[float]] = field(default_factory=lambda: {"options": [], "chat": [], "feedback": []})
    errors: list[str] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    lessons: int = 0

    def line(self, kind: str) -> str:
        waits = sorted(self.waits[kind])
        if len(waits) < 2:
            return f"{kind}: {len(waits)}"
        p95 = statistics.quantiles(waits, n=20)[-1]
        return f"{kind}: {len(waits)}, median {statistics.median(waits):.2f} s, p95 {p95:.2f} s"


def client(url: str, seed: int, end: float, seen: Seen, *, rates: bool) -> None:
    """One client until `end`."""
    draw = random.Random(seed)
    with httpx.Client(base_url=url, timeout=120) as http:
        while time.monotonic() < end:
            question = draw.choice(QUESTIONS)
            if draw.random() < 0.8:
                body: dict[str, Any] = {"question": question.text, "options": question.options}
                reply = _post(http, "/v1/ask", body, "options", seen)
                right = reply is not None and reply["answer"] == question.reference
            else:
                body = {"model": "served", "messages": [{"role": "user", "content": question.text}], "max_tokens": 16}
                reply = _post(http, "/v1/chat/completions", body, "chat", seen)
                right = draw.random() < 0.5
            if rates and reply is not None and draw.random() < 0.2:
                said = {"record_id": reply["secl"]["record_id"], "correct": right}
                _post(http, "/v1/feedback", said, "feedback", seen)


def _post(http: httpx.Client, route: str, body: dict[str, Any], kind: str, seen: Seen) -> dict[str, Any] | None:
    began = time.monotonic()
    try:
        reply = http.post(route, json=body)
    except httpx.HTTPError as problem:
        seen.errors.append(f"{kind}: {type(problem).__name__}")
        return None
    if reply.status_code != 200:
        seen.errors.append(f"{kind}: {reply.status_code} {reply.text[:120]}")
        return None
    seen.waits[kind].append(time.monotonic() - began)
    answer: dict[str, Any] = reply.json()
    return answer


def soak(model: str, clients: int, minutes: float, *, learns: bool) -> Seen:
    """Load a fresh server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url, seen = f"http://127.0.0.1:{port}", Seen()
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-c",
            "from secl.cli import main; main()",
            "serve",
            "--model",
            model,
            "--state",
            str(Path(folder) / "state"),
        ]
        command += ["--port", str(port), "--served-model-name", "served", "--log-level", "error"]
        server = subprocess.Popen(command)
        try:
            _wait(url)
            if not learns:
                httpx.post(f"{url}/v1/pause", json={"reason": "measured without"}).raise_for_status()
            end = time.monotonic() + 60 * minutes
            threads = [
                threading.Thread(target=client, args=(url, seed, end, seen), kwargs={"rates": learns})
                for seed in range(clients)
            ]
            for thread in threads:
                thread.start()
            while time.monotonic() < end:
                seen.memory.append(_memory(server.pid))
                time.sleep(min(60.0, max(0.1, end - time.monotonic())))
            for thread in threads:
                thread.join()
            seen.lessons = httpx.get(f"{url}/v1/history").json()["adapter_version"]
        finally:
            server.terminate()
            server.wait()
    return seen


def _memory(process: int) -> float:
    """Resident memory of a process, in MiB."""
    fields = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _wait(url: str) -> None:
    for _ in range(600):
        try:
            if httpx.get(f"{url}/readyz").status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.5)
    raise SystemExit("the server did not start.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--model", default="smollm2")
    chosen = parser.parse_args()
    both = [soak(chosen.model, chosen.clients, chosen.minutes, learns=learns) for learns in (False, True)]
    for name, seen in zip(("paused", "learning and feedback"), both, strict=True):
        print(f"{name}: {len(seen.errors)} errors, latest version {seen.lessons}")
        for kind in seen.waits:
            print(f"  {seen.line(kind)}")
        print("  memory in MiB:", " ".join(f"{value:.0f}" for value in seen.memory))
        for error in sorted(set(seen.errors))[:10]:
            print("  ", error)
    frozen, learning = ([wait for kind in ("options", "chat") for wait in seen.waits[kind]] for seen in both)
    ratio = statistics.quantiles(learning, n=20)[-1] / statistics.quantiles(frozen, n=20)[-1]
    print(f"p95 with learning and feedback over p95 without: {ratio:.2f}")


if __name__ == "__main__":
    main()
