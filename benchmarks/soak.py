"""Long load on a server: `python -m benchmarks.soak [--minutes 10] [--clients 8] [--model smollm2] [--learn]`.

Each client sends its next request as soon as it has a reply. Some requests are invalid, and clients abandon some
streams. The output has the number and the waits of each kind of request, unexpected replies, the server's memory, and
the findings of `secl verify` at the end.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]

from benchmarks.serving import address
from secl.data.benchmarks import quiz

QUESTIONS = [question for domain in ("capitals", "science") for question in quiz(domain, 100, 1)]
SECL = str(Path(sys.executable).with_name("secl"))
SAMPLES = 10
"""Memory measurements in each half of the load."""


class Client(threading.Thread):
    """A client that sends requests until `end`; all clients share the waits and the list of unexpected replies."""

    def __init__(self, url: str, seed: int, end: float, waits: dict[str, list[float]], errors: list[str]) -> None:
        super().__init__()
        self.http = httpx.Client(base_url=url, timeout=300)
        self.draw, self.end, self.waits, self.errors = random.Random(seed), end, waits, errors
        self.known: list[str] = []

    def run(self) -> None:
        kinds = (self.ask, self.ask, self.open, self.chat, self.stream, self.leave, self.score, self.label, self.pages)
        while time.monotonic() < self.end:
            work = self.draw.choice((*kinds, self.bad))
            began = time.monotonic()
            try:
                work(self.draw.choice(QUESTIONS))
            except Exception as problem:
                self.errors.append(f"{work.__name__}: {type(problem).__name__} {str(problem)[:100]}")
            self.waits[work.__name__].append(time.monotonic() - began)

    def post(self, route: str, status: int = 200, **body: Any) -> Any:
        reply = self.http.post(route, json=body)
        if reply.status_code != status:
            raise RuntimeError(f"{reply.status_code} {reply.text}")
        self.known += [name] if (name := reply.json().get("record_id")) else []
        return reply.json()

    def ask(self, question: Any) -> None:
        self.post("/v1/ask", question=question.text, options=question.options)

    def open(self, question: Any) -> None:
        self.post("/v1/ask", question=question.text)

    def score(self, question: Any) -> None:
        self.post("/v1/score", question=question.text, options=question.options, answer=question.options[0])

    def label(self, _: Any) -> None:
        if self.known:
            self.post("/v1/feedback", record_id=self.draw.choice(self.known), correct=self.draw.random() < 0.5)

    def body(self, question: Any, **more: Any) -> dict[str, Any]:
        return {"model": "served", "messages": [{"role": "user", "content": question.text}], "max_tokens": 24, **more}

    def chat(self, question: Any) -> None:
        self.post("/v1/chat/completions", **self.body(question, n=self.draw.choice((1, 3)), temperature=1))

    def stream(self, question: Any, last: str = "data: [DONE]") -> None:
        with self.http.stream("POST", "/v1/chat/completions", json=self.body(question, stream=True)) as reply:
            lines = [line for line in reply.iter_lines() if line]
        if reply.status_code != 200 or lines[-1] != last:
            raise RuntimeError(f"{reply.status_code} {lines[-1]}")

    def leave(self, question: Any) -> None:
        with self.http.stream("POST", "/v1/chat/completions", json=self.body(question, stream=True)) as reply:
            next(reply.iter_raw())

    def pages(self, _: Any) -> None:
        for route in ("/", "/records?query=capital", "/review", "/v1/state", "/v1/records", "/metrics"):
            self.http.get(route).raise_for_status()

    def bad(self, question: Any) -> None:
        self.post("/v1/ask", 400, question=question.text, options=["a"])
        self.post("/v1/chat/completions", 400, **self.body(question, top_logprobs=3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--learn", action="store_true", help="SECL, which learns from every question")
    chosen = parser.parse_args()
    waits: dict[str, list[float]] = defaultdict(list)
    errors: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        command = [SECL, "serve", f"{folder}/state", "--model", chosen.model, "--port", "0"]
        command += ["--served-model-name", "served", "--log-level", "error"]
        command += ["--method", "secl", "--gate", "always"] if chosen.learn else []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            url, process, memory = address(server), psutil.Process(server.pid), []
            began = time.monotonic()
            end = began + 60 * chosen.minutes
            clients = [Client(url, seed, end, waits, errors) for seed in range(chosen.clients)]
            for client in clients:
                client.start()
            for number in range(2 * SAMPLES):
                time.sleep(max(0.0, began + (number + 1) * 30 * chosen.minutes / SAMPLES - time.monotonic()))
                memory.append(process.memory_info().rss / 2**20)
            for client in clients:
                client.join()
            server.terminate()
        print(
            f"ended with code {server.returncode}; {sum(map(len, waits.values()))} requests, {len(errors)} unexpected"
        )
        for kind, seconds in sorted(waits.items()):
            p95 = statistics.quantiles(seconds, n=20)[-1] if len(seconds) > 1 else seconds[0]
            print(f"  {kind}: {len(seconds)}, median {statistics.median(seconds):.2f} s, p95 {p95:.2f} s")
        halves = [statistics.fmean(half) for half in (memory[:SAMPLES], memory[SAMPLES:])]
        print(f"memory in MiB: {' '.join(f'{value:.0f}' for value in memory)}; halves {halves[0]:.0f}, {halves[1]:.0f}")
        for error, count in sorted({error: errors.count(error) for error in errors}.items())[:20]:
            print(f"  {count} x {error}")
        sys.stdout.flush()
        subprocess.run([SECL, "verify", f"{folder}/state"], check=False)


if __name__ == "__main__":
    main()
