"""Thumbs as people give them: through the package `openai` and curl, against a server that is killed among them."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import pytest

from secl.evidence import Labelled
from secl.labels import LabelRule
from secl.server.entries import position_of
from secl.server.store import ServerStore
from tests import processes
from tests.server.test_kill import WEIGHING, Server
from tests.server.waiting import examined

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")]

THUMBS = 30


def ask(client: openai.OpenAI, number: int) -> dict[str, Any]:
    """The object `secl` of an answer."""
    model = client.models.list().data[0].id
    reply = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": f"Is {number} an even number?"}],
        extra_body={"secl": {"options": ["yes", "no", "perhaps"]}},
    )
    found: dict[str, Any] = reply.model_dump()["secl"]
    return found


def say(client: openai.OpenAI, port: int, record: str, correct: bool | None, *, by_curl: bool) -> int:
    """Rate an answer; returns how many labels stand."""
    body = {"record_id": record, "correct": correct, "chance": 1}
    if not by_curl:
        told: Any = client.post("/feedback", body=body, cast_to=object)
        return int(told["labels"])
    command = ["curl", "-sS", "--fail", f"http://127.0.0.1:{port}/v1/feedback", "-d", json.dumps(body)]
    done = subprocess.run([*command, "-H", "Content-Type: application/json"], capture_output=True, check=True)
    return int(json.loads(done.stdout)["labels"])


def test_thirty_thumbs_move_the_confidence_as_the_formula_says_also_over_a_kill(
    tiny_llama: Path, tmp_path: Path
) -> None:
    state, log = tmp_path / "state", tmp_path / "log"
    names: list[str] = []
    for thumbs in (range(17), range(17, THUMBS)):
        server = Server(state, str(tiny_llama), log, WEIGHING)
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0)
        for number in thumbs:
            names.append(ask(client, number)["record_id"])
            assert say(client, server.port, names[-1], number % 6 == 0, by_curl=number % 2 == 0) == number + 1
        if thumbs.stop < THUMBS:
            server.process.kill()
            assert processes.finish(server.process) == -signal.SIGKILL
    after = ask(client, 99)
    say(client, server.port, after["record_id"], False, by_curl=True)
    between = ask(client, 99)
    say(client, server.port, after["record_id"], None, by_curl=False)
    back = ask(client, 99)
    server.process.terminate()
    assert processes.finish(server.process) == 0, log.read_text()
    client.close()

    with ServerStore(state) as store:
        entries, records = store.label_log(), list(store.store.records())
        assert examined(store) == (len(records), [])
    assert [label.position for label in entries[:THUMBS]] == list(map(position_of, names))
    rule, formula = LabelRule(), dict[str, Labelled]()
    for name, reply, count in (("after", after, 30), ("between", between, 31), ("back", back, 32)):
        record = records[position_of(reply["record_id"])]
        known = rule.add(rule.start(), entries[:count])
        formula[name] = rule.rate(known, record.question.domain, record.label_free)
        assert record.labelled == formula[name]
        assert reply["confidence"] == formula[name].confidence
    assert abs(after["confidence"] - after["label_free"]) > 0.02
    assert between["confidence"] != after["confidence"]
    same = rule.rate(rule.add(rule.start(), entries[:30]), "default", back["label_free"])
    assert replace(formula["back"], until=same.until) == same
