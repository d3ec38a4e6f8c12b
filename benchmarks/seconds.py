"""Seconds of a reply with its confidence, divided by the seconds of a reply without a confidence.

    python -m benchmarks.seconds [--pairs 8] [FLAG OF secl serve ...]     # such as --engine openai --endpoint URL

One server gets both requests in turns, so other load of the machine affects both. Questions with and without options go
to /v1/ask; without a confidence, the chat route answers the same question. Chats of one sentence and of 200 tokens
differ only in "secl": {"confidence": false}.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from benchmarks.serving import address
from benchmarks.setting import Say, Setting
from secl.data.benchmarks import quiz
from secl.ledger import Purpose
from secl.question import Question

Request = tuple[str, dict[str, Any]]
"""Route and body."""

Pair = tuple[Request, Request]
"""Requests of a reply with a confidence, and of one without."""

CHAT, LONG = "/v1/chat/completions", 200
PAIRS = 8


def chat(text: str, limit: int, **secl: object) -> Request:
    """Return the request for a chat of one message; its reply has at most `limit` tokens."""
    return CHAT, {"messages": [{"role": "user", "content": text}], "max_tokens": limit, "secl": secl}


def options(question: Question) -> Pair:
    listed = "\n".join(map(question.named, question.letters))
    plain = f"{question.text}\n{listed}\nAnswer with the letter of the correct option."
    asked = {"question": question.text, "options": list(question.options), "detail": "full"}
    return ("/v1/ask", asked), chat(plain, 2, confidence=False)


def open_question(question: Question) -> Pair:
    plain = f"{question.text}\nAnswer with a few words and no explanation."
    return ("/v1/ask", {"question": question.text, "detail": "full"}), chat(plain, 24, confidence=False)


def sentence(question: Question) -> Pair:
    return chat(question.text, 64, detail="full"), chat(question.text, 64, confidence=False)


def long_text(question: Question) -> Pair:
    text = f"{question.text} Describe its history, sights and food in detail."
    return chat(text, LONG, detail="full"), chat(text, LONG, confidence=False)


KINDS: dict[str, Callable[[Question], Pair]] = {
    "options": options,
    "open_question": open_question,
    "chat_of_a_sentence": sentence,
    "chat_of_200_tokens": long_text,
}


def measure(setting: Setting, say: Say) -> dict[str, Any]:
    """Return ratios, seconds, passes and decoding steps of each kind of reply by the setting's model."""
    flags = ("--model", setting.model, "--dtype", setting.dtype, "--device", setting.device)
    return {"with_a_confidence": compare(flags, quiz("capitals", PAIRS + 1, 1), say)}


def compare(flags: Sequence[str], questions: Sequence[Question], say: Say) -> dict[str, Any]:
    """Start `secl serve` with these flags, and measure a pair of each kind for every question but the first."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        command = [str(Path(sys.executable).with_name("secl")), "serve", f"{folder}/state", "--port", "0", *flags]
        command += ["--log-level", "warning"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                url = address(process)
                for kind, pair_of in KINDS.items():
                    found[kind] = alternate(url, [*map(pair_of, questions)])
                    say(f"{kind}: {', '.join(f'{name} {value:.3g}' for name, value in found[kind].items())}")
            finally:
                process.terminate()
                process.wait(120)
    return found


def alternate(url: str, pairs: Sequence[Pair]) -> dict[str, float]:
    """Return medians over the pairs: ratio and seconds, passes and decoding steps of the confidence, and the load.

    The first pair warms up. Every other pair is sent in reverse order.
    """
    rows = []
    model = post(url, "/v1/models", None)["data"][0]["id"]
    for number, pair in enumerate(pairs):
        took: dict[int, float] = {}
        replies: dict[int, Any] = {}
        for which in (0, 1) if number % 2 else (1, 0):
            route, body = pair[which]
            began = time.perf_counter()
            replies[which] = post(url, route, {**body, "model": model} if route == CHAT else body)
            took[which] = time.perf_counter() - began
        rows.append((took[0] / took[1], took[0], took[1], *cost_of(replies[0])))
    names = ("ratio", "seconds", "seconds_without", "passes", "steps")
    middle = map(statistics.median, zip(*rows[1:], strict=True))
    return {**dict(zip(names, middle, strict=True)), "load": os.getloadavg()[0]}


def cost_of(reply: Mapping[str, Any]) -> tuple[float, float]:
    """Return plain answering passes and decoding steps of the confidence in a reply; nan for unknown numbers."""
    chosen = reply["choices"][0] if "choices" in reply else reply
    record = chosen.get("secl", reply.get("secl", reply))["detail"]
    tokens = sum(record["ledger"][purpose] for purpose in get_args(Purpose))
    return tokens / (record["plain_tokens"] or math.nan), record["ledger"].get("steps", math.nan)


def post(url: str, route: str, body: Mapping[str, Any] | None) -> Any:
    """Return the JSON of a reply; without a body, of a GET."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + route, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        return json.load(reply)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=PAIRS, help="pairs of requests of each kind")
    chosen, flags = parser.parse_known_args()
    compare(flags or ["--model", Setting().model], quiz("capitals", chosen.pairs + 1, 1), print)


if __name__ == "__main__":
    main()
