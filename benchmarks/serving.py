"""Waits of eight clients of one server, with and without learning, compared with the waits of a single client.

Each server is a separate process (`secl serve`) with its own state folder; the clients are threads of this process. The
servers are measured in turns, so that other load of the machine affects all equally.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.setting import Say, Setting
from secl.question import Question
from secl.server.store import ServerStore

CLIENTS = 8
REQUESTS = 400


def measure(setting: Setting, say: Say) -> dict[str, Any]:
    """Return median and 95th percentile of the seconds until a reply, and replies per second."""
    questions = setting.choices(max(3, min(REQUESTS, setting.stream_questions)))
    servers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, clients, learns in (
            ("learning", CLIENTS, True),
            ("frozen", CLIENTS, False),
            ("one_at_a_time", 1, False),
        ):
            requests = questions if clients > 1 else questions[: max(2, len(questions) // 4)]
            servers[name] = serve(setting, Path(folder) / name, requests, clients, learns=learns)
            say(f"{name}: {', '.join(f'{key} {value:.3g}' for key, value in servers[name].items())}")
    more = servers["learning"]["p95"] / servers["frozen"]["p95"]
    return {
        "serving": {
            **servers,
            "p95_learning_vs_frozen": more,
            "p50_learning_vs_frozen": servers["learning"]["p50"] / servers["frozen"]["p50"],
            "replies_vs_one_at_a_time": servers["frozen"]["replies_a_second"]
            / servers["one_at_a_time"]["replies_a_second"],
        }
    }


def serve(
    setting: Setting, folder: Path, questions: Sequence[Question], clients: int, *, learns: bool
) -> dict[str, float]:
    """Start a server, and measure it while `clients` threads ask it all questions."""
    command = [str(Path(sys.executable).with_name("secl")), "serve", str(folder)]
    recipe = folder.with_suffix(".toml")
    gate = "always" if learns else "never"
    recipe.write_text(f'method = "secl"\ngate.name = "{gate}"\nloop.bin_gate = "off"\n', encoding="utf-8")
    command += [str(recipe), "--port", "0", "--model", setting.model, "--dtype", setting.dtype]
    command += ["--device", setting.device]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            url = address(process)
            ask(url, questions[0])
            began = time.perf_counter()
            with ThreadPoolExecutor(clients) as pool:
                waits = list(pool.map(lambda question: ask(url, question), questions))
            took = time.perf_counter() - began
            with ServerStore(folder) as state:
                lessons = state.counts()
        finally:
            process.terminate()
            process.wait(120)
    with ServerStore(folder) as state:
        if len(state) != len(questions) + 1:
            raise RuntimeError(f"{len(questions) + 1} questions were asked, but {len(state)} are on record.")
    return {
        "requests": len(questions),
        "p50": statistics.median(waits),
        "p95": statistics.quantiles(waits, n=20)[-1],
        "replies_a_second": len(questions) / took,
        "lessons_meanwhile": sum(lessons.get(kind, 0) for kind in ("trained", "agreed", "no_signal")),
    }


def address(process: subprocess.Popen[str]) -> str:
    """Wait until a server is ready, and return the URL that it prints."""
    for line in process.stdout or ():
        if "http://" in line:
            return "http://" + line.partition("http://")[2].split()[0].rstrip("/")
    raise RuntimeError(f"the server ended with code {process.wait()}.")


def ask(url: str, question: Question) -> float:
    """Ask a question, and return the seconds until the reply."""
    body = json.dumps({"question": question.text, "options": list(question.options)}).encode()
    request = urllib.request.Request(f"{url}/v1/ask", body, {"Content-Type": "application/json"})
    began = time.perf_counter()
    with urllib.request.urlopen(request, timeout=120) as reply:
        json.load(reply)
    return time.perf_counter() - began
