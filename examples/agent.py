"""An agent that runs tool calls of high confidence, and asks a person about all others.

python examples/agent.py Qwen/Qwen3-4B 0.8 "We are five. Get us a room on 3 May 2026 at two in the afternoon."
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import secl

STEPS = 5
"""Largest number of replies to one request."""


def find_rooms(date: str, people: int) -> list[str]:
    """Find meeting rooms that are free.

    Args:
        date: Day as YYYY-MM-DD.
        people: Number of people.
    """
    return [f"{name} on {date}" for name, seats in (("Blue", 4), ("Green", 8)) if seats >= people]


def book_room(room: str, date: str, start: str) -> str:
    """Book a meeting room.

    Args:
        room: Name of the room.
        date: Day as YYYY-MM-DD.
        start: Start as HH:MM, 24 hours.
    """
    return f"{room} is booked for {date}, {start}."


def run(
    model: secl.CalibratedModel, request: str, tools: Sequence[Callable[..., Any]], agree: Callable[[str], bool]
) -> str:
    """Answer a request with tools; `agree` asks a person about a reply whose calls are not accepted."""
    by_name = {tool.__name__: tool for tool in tools}
    turns = [secl.Message("user", request)]
    for _ in range(STEPS):
        reply = model.call(turns, tools)
        turns.append(reply.turn)
        if not reply.calls:
            return reply.text
        told = " and ".join(f"{call.name}({json.dumps(call.arguments)})" for call in reply.calls)
        if reply.accepted or agree(f"{told}: correct with a probability of {reply.confidence:.0%}. Run?"):
            print(told)
            results = [json.dumps(by_name[call.name](**call.arguments)) for call in reply.calls]
        else:
            results = ["The user does not want this call. Ask what else to do."] * len(reply.calls)
        turns += [secl.Message("tool", result) for result in results]
    return "I could not finish this."


def main(name: str, threshold: str, request: str) -> None:
    """Load a model and answer a request."""
    with secl.load(name, accept=float(threshold)) as model:
        print(run(model, request, (find_rooms, book_room), lambda asked: input(f"{asked} [y/n] ").startswith("y")))


if __name__ == "__main__":
    main(*sys.argv[1:])
