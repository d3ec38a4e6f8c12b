"""Evidence for the calibration of tool calls, one JSON line per request.

    python -m benchmarks.tools collect MODEL EVIDENCE.jsonl [--minutes 60]

`collect` continues a stopped collection. Eight requests share passes. The model reads the tools, which come first in
the prompt, once for the eight. A line has the correct calls, the reply and its samples with the probabilities of their
tokens.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from benchmarks.requests import TOOLS, Case, cases
from secl.backends.local.model import LocalModel
from secl.errors import SeclError
from secl.fields.calls import WrittenReply, samples_wanted
from secl.fields.extraction import WINDOW
from secl.fields.tools import CallRequest

REPLY = TypeAdapter(WrittenReply)
SYSTEM = "You are an assistant in an office. Today is Monday, 5 January 2026. Call a tool only if the user needs one."


def request_of(case: Case) -> CallRequest:
    """Return a case as a request."""
    return CallRequest.of(case.request, TOOLS, system=SYSTEM)


def collect(model: str, evidence: Path, minutes: float) -> None:
    """Write the evidence of the requests that have none yet."""
    began, local = time.monotonic(), LocalModel.load(model)
    done = len(evidence.read_text().splitlines()) if evidence.exists() else 0
    todo = cases()[done:]
    for first in range(0, len(todo), WINDOW):
        if time.monotonic() - began > 60 * minutes:
            break
        window, started = todo[first : first + WINDOW], time.monotonic()
        found = local.write_calls([request_of(case) for case in window], samples_wanted)
        seconds = (time.monotonic() - started) / len(window)
        lines = [_line(case, each, seconds) for case, each in zip(window, found, strict=True)]
        with evidence.open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(line)}\n" for line in lines)
        print(f"{done + first + len(window)} requests, {seconds:.1f} s each", flush=True)


def _line(case: Case, found: Any, seconds: float) -> dict[str, Any]:
    line: dict[str, Any] = {"request": case.request, "gold": case.gold, "kind": case.kind, "seconds": round(seconds, 2)}
    if isinstance(found, SeclError):
        return {**line, "error": str(found)}
    replies = [None if each is None else REPLY.dump_python(each) for each in (found.greedy, *found.samples)]
    tokens = [found.ledger.answering, found.ledger.sampling, found.plain_tokens]
    return {**line, "greedy": replies[0], "samples": replies[1:], "tokens": tokens}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    collecting = commands.add_parser("collect")
    collecting.add_argument("model")
    collecting.add_argument("evidence", type=Path)
    collecting.add_argument("--minutes", type=float, default=60.0)
    given = parser.parse_args(arguments)
    collect(given.model, given.evidence, given.minutes)


if __name__ == "__main__":
    main()
