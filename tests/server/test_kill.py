"""A server that is killed at random moments under load, again and again, with one state folder.

SECL_KILLS=50 python -m pytest tests/server/test_kill.py

SECL_KILL_MODEL=smollm2 takes the real model, SECL_KILL_SECONDS=6 lets each process live long enough for its lessons.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from secl.gates import replay
from secl.runs.manifest import Manifest
from secl.server.entries import position_of
from secl.server.store import ServerStore
from tests import processes
from tests.server.waiting import examined

pytestmark = pytest.mark.heavy

KILLS = int(os.environ.get("SECL_KILLS", "2"))
SECONDS = float(os.environ.get("SECL_KILL_SECONDS", "1.5"))
"""Most that a process lives after its first reply."""
CLIENTS = 4

LEARNING = 'gate = "entropy-shift"\nwarmup = 5\nburst = 30\nbin_gate = "off"\n'
WEIGHING = 'method = "posterior"\n'


class Server:
    """`secl serve` in a process of its own."""

    def __init__(self, state: Path, model: str, log: Path, settings: str = LEARNING, *flags: object) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        recipe = log.with_suffix(".toml")
        recipe.write_text(settings, encoding="utf-8")
        self.process: BaseProcess = processes.start(
            log,
            "serve",
            "--model",
            model,
            "--state",
            state,
            "--port",
            self.port,
            "--recipe",
            recipe,
            "--served-model-name",
            "served",
            *flags,
        )
        end = time.monotonic() + 120
        while not self._ready():
            assert self.process.is_alive(), log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.05)

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5) as reply:
                return bool(reply.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def ask(self, text: str) -> dict[str, Any]:
        return self._post("/v1/ask", {"question": text, "options": ["yes", "no", "perhaps"]})

    def chat(self, text: str) -> dict[str, Any]:
        messages = [{"role": "user", "content": text}]
        return self._post("/v1/chat/completions", {"model": "served", "messages": messages, "max_tokens": 4})

    def say(self, record: str, *, correct: bool) -> None:
        self._post("/v1/feedback", {"record_id": record, "correct": correct})

    def _post(self, route: str, content: dict[str, Any]) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{route}", json.dumps(content).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as reply:
            answer: dict[str, Any] = json.load(reply)
            return answer


@dataclass
class Said:
    """What clients were told.

    Attributes:
        replies: by the number of their records.
        labels: what was said of records and acknowledged.
        lock: for both.
    """

    replies: dict[int, dict[str, Any]] = field(default_factory=dict)
    labels: dict[int, bool] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


def load(server: Server, number: int, said: Said) -> None:
    """Ask, chat and rate until the server dies; every reply is remembered."""
    count = 0
    while True:
        text = f"Is {number} times {count} an even number?"
        count += 1
        try:
            answer = server.chat(text) if count % 4 == 0 else server.ask(text)
            position = position_of(answer["secl"]["record_id"])
            with said.lock:
                assert position not in said.replies, "one record for two replies"
                said.replies[position] = answer
            if count % 3 == 0:
                server.say(answer["secl"]["record_id"], correct=number * count % 2 == 0)
                with said.lock:
                    said.labels[position] = number * count % 2 == 0
        except (OSError, http.client.HTTPException, json.JSONDecodeError):  # it was killed
            return


def grows(replies: dict[int, dict[str, Any]]) -> None:
    """Wait for another reply."""
    count, end = len(replies), time.monotonic() + 60
    while len(replies) == count:
        assert time.monotonic() < end, "nobody was answered"
        time.sleep(0.01)


def test_nothing_that_was_said_is_lost_or_doubled(tiny_llama: Path, tmp_path: Path) -> None:
    model = os.environ.get("SECL_KILL_MODEL") or str(tiny_llama)
    chance = random.Random(4)
    state, log = tmp_path / "state", tmp_path / "log"
    said, before = Said(), 0
    for _ in range(KILLS):
        server = Server(state, model, log, LEARNING)
        clients = [threading.Thread(target=load, args=(server, i, said)) for i in range(CLIENTS)]
        for client in clients:
            client.start()
        grows(said.replies)  # on a busy machine the first reply takes a while
        time.sleep(chance.uniform(0, SECONDS))
        server.process.kill()
        assert processes.finish(server.process) == -signal.SIGKILL
        for client in clients:
            client.join(120)
        before = check(state, said, before)
    last = Server(state, model, log)
    last.process.terminate()  # and a polite end
    assert processes.finish(last.process) == 0, log.read_text()
    assert len(said.replies) > KILLS
    print(f"{KILLS} kills: {len(said.replies)} replies, {len(said.labels)} labels, {before} lessons")  # noqa: T201


def check(folder: Path, said: Said, before: int) -> int:
    """The state after a death: all that was said is on record, decisions follow from entropies, versions are kept."""
    with ServerStore(folder) as state:
        records = list(state.store.records())
        assert [record.position for record in records] == list(range(len(records)))
        for position, answer in said.replies.items():
            reply = records[position].reply
            assert answer["secl"]["bins"] == list(reply.bins)
            assert answer["secl"]["adapter_version"] == reply.version
        labels = {label.position: label.correct for label in state.store.labels()}
        assert {position: labels.get(position) for position in said.labels} == said.labels
        gate = Manifest.of(state.store).settings.build_gate()
        assert [r.decision for r in records] == replay(gate, [r.reply.entropy for r in records])
        stored_versions = {0, *state.store.versions()}
        assert {record.reply.version for record in records} <= stored_versions
        updates = [record.update.version for record in records if record.update is not None]
        assert sorted(updates) == list(range(1, len(updates) + 1))
        assert len(updates) >= before, "an update was lost"
        assert not examined(state)[1]
        return len(updates)
