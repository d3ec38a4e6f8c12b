"""The built-in quiz: four domains, one file each under `facts/`.

arithmetic       word problems of one to three steps, answered by a number
capitals         the capital of a country among cities of its continent
science          chemical elements, SI prefixes and units, conversions
misconceptions   popular beliefs against the facts
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from secl.data.official import round_robin
from secl.question import LETTERS, Form, Question


def quiz(domain: str, n: int | None = None, seed: int = 42) -> list[Question]:
    """Return the first `n` questions of a domain, in an order that the seed determines.

    Each question has a kind, such as "symbol of an element". Questions of different kinds alternate.
    """
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for line in files("secl.data").joinpath("facts", f"{domain}.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        kinds.setdefault(row["kind"], []).append(row)
    generator = random.Random(f"{domain}-{seed}")
    rows = round_robin(generator.sample(kind, len(kind)) for kind in kinds.values())
    return [_question(domain, number, row, seed) for number, row in enumerate(rows[:n])]


def _question(domain: str, number: int, row: Mapping[str, Any], seed: int) -> Question:
    text, reference = row["question"], row["answer"]
    options = list(row.get("options", ()))
    if options:
        # Seed with the text, so that the order of the options does not depend on the question's position.
        random.Random(f"quiz/{domain}-{seed}-{text}").shuffle(options)
        reference = LETTERS[options.index(reference)]
    form: Form = "choice" if options else "number"
    return Question(text, tuple(options), reference, f"quiz/{domain}", f"quiz-{domain}-{number:03d}", form)
