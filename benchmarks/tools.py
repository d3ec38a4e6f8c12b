"""Evidence on confidences of tool calls for each request, and measures from this evidence.

    python -m benchmarks.tools collect MODEL EVIDENCE.jsonl [--minutes 60]
    python -m benchmarks.tools report EVIDENCE.jsonl

`collect` continues a stopped collection. Eight requests share forward passes: the model reads their tools, which come
first in the prompt, once. A JSON line has the correct calls, and the reply and its samples with their tokens'
probabilities. `report` prints Markdown.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

import secl
from benchmarks.fields_report import measures
from benchmarks.requests import TOOLS, Case, cases
from benchmarks.study import collect_lines, collect_or_report, heading, row
from secl import SeclError
from secl.backends.local.loading.loader import load
from secl.backends.local.model import LocalModel
from secl.fields.calls import Calls, WrittenReply, samples_wanted, weigh_calls
from secl.fields.extraction import Objects
from secl.fields.tools import CallRequest
from secl.fields.values import same_value, value_of
from secl.ledger import Ledger
from secl.settings.groups import ModelSettings
from secl.testing import ScriptedModel

REPLY = TypeAdapter(WrittenReply)
SYSTEM = "You are an assistant in an office. Today is Monday, 5 January 2026. Call a tool only if the user needs one."


def request_of(case: Case) -> CallRequest:
    """Return the request of a case in the form that models take."""
    return CallRequest.of(case.request, TOOLS, system=SYSTEM)


def collect(model: str, evidence: Path, minutes: float) -> None:
    """Write the evidence of the requests that have none yet."""
    local = LocalModel(load(ModelSettings(name=model)))

    def lines_of(window: Sequence[Case]) -> list[dict[str, Any]]:
        started = time.monotonic()
        found = local.write_calls([request_of(case) for case in window], samples_wanted)
        seconds = (time.monotonic() - started) / len(window)
        return [_line(case, each, seconds) for case, each in zip(window, found, strict=True)]

    collect_lines(evidence, cases(), minutes, lines_of)


def _line(case: Case, found: Any, seconds: float) -> dict[str, Any]:
    line: dict[str, Any] = {"request": case.request, "gold": case.gold, "kind": case.kind, "seconds": round(seconds, 2)}
    if isinstance(found, SeclError):
        return {**line, "error": str(found)}
    replies = [None if each is None else REPLY.dump_python(each) for each in (found.greedy, *found.samples)]
    tokens = [found.ledger.answering, found.ledger.sampling, found.plain_tokens]
    return {**line, "greedy": replies[0], "samples": replies[1:], "tokens": tokens}


@dataclass(frozen=True)
class Recorded:
    """A model that replays recorded replies, by the id of the request."""

    replies: Mapping[str, Objects[WrittenReply] | SeclError]

    def write_calls(self, requests: Sequence[CallRequest], samples: object) -> list[Any]:  # noqa: ARG002
        return [self.replies[request.question.id] for request in requests]


def read(evidence: Path) -> list[tuple[CallRequest, Case, Calls]]:
    """Return the recorded requests with their cases, and the replies with their confidences."""
    every, weigh = {case.request: case for case in cases()}, secl.load(ScriptedModel()).calibrator.weigh
    found = []
    for line in map(json.loads, evidence.read_text(encoding="utf-8").splitlines()):
        if "error" in line:
            continue
        case = every[line["request"]]
        request, (answering, sampling, plain) = request_of(case), line["tokens"]
        greedy, *samples = (
            None if each is None else REPLY.validate_python(each) for each in (line["greedy"], *line["samples"])
        )
        assert greedy is not None  # noqa: S101
        ledger = Ledger(answering=answering, sampling=sampling)
        objects = Objects(greedy=greedy, samples=(*samples,), ledger=ledger, plain_tokens=plain)
        (reply,) = weigh_calls(Recorded({request.question.id: objects}), [request], weigh)
        if isinstance(reply, SeclError):
            raise reply
        found.append((request, case, reply))
    return found


def rated(evidence: Path) -> dict[str, list[tuple[float, bool]]]:
    """Return confidences with their grades, of four kinds: choices of a tool or none, arguments, calls, and replies."""
    found: dict[str, list[tuple[float, bool]]] = {"tool, or none": [], "argument": [], "call": [], "reply": []}
    for request, case, reply in read(evidence):
        left, calls = [*case.gold], []
        for call in reply.calls:
            gold = next((each for each in left if each[0] == call.name), None)
            if call.tool is not None:
                found["tool, or none"].append((call.tool.confidence, gold is not None))
            right = []
            if gold is not None:
                left.remove(gold)
                (tool,) = (tool for tool in request.tools if tool.name == call.name)
                for leaf in tool.schema.leaves:
                    record, values = (
                        call.fields[leaf.name],
                        (value_of(leaf, each) for each in (call.arguments, gold[1])),
                    )
                    right.append(same_value(leaf, record.question, *values))
                    found["argument"].append((record.confidence, right[-1]))
            calls.append(gold is not None and all(right))
            found["call"].append((call.confidence, calls[-1]))
        if reply.ended is not None:
            found["tool, or none"].append((reply.ended.confidence, not left))
        found["reply"].append((reply.confidence, not left and all(calls)))
    return found


def report(evidence: Path) -> Iterator[str]:
    """Yield the table."""
    yield heading(
        "confidence of a", "number", "right", "mean", "AUROC", "Brier", "ECE (floor)", "accepted at 2, 5, 10 %"
    )
    for name, pairs in rated(evidence).items():
        confidence, correct = (np.array(each, float) for each in zip(*pairs, strict=True))
        yield row(name, len(pairs), f"{correct.mean():.0%}", f"{confidence.mean():.0%}", *measures(confidence, correct))


if __name__ == "__main__":
    collect_or_report(__doc__, collect, report, minutes=60.0)
