"""One concept, one word: the public names, flags and JSON fields hold to the table of words."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any

import secl
from reference import http_api
from secl.cli.app import app
from secl.runs.encoding import to_export

FIRST = ("text", "letter", "confidence", "low", "high", "candidates", "accepted")
"""What an answer shows, in Python, on the command line and over HTTP."""

IN_USE = "abstained=accepted refusal=accepted hard_confidence=stated_hard stated_confidence=stated judgement=label "
IN_USE += "adapter_version=version best_confidence=confidence posterior_confidence=confidence option_text=text "
REPLACED = dict(pair.split("=") for pair in f"{IN_USE} answer_text=text thumb=label".split())
"""Words that were in use for a concept, and the word that stands for it."""

FLAGS = {"--confidence": "--certainty", "--adapter": "--version or --calibration", "--state": "a positional folder"}
"""Flags that would name a concept by another word than everywhere else."""

OF_OPENAI = {"AnswerMessage.refusal", "LogProbs.refusal"}
"""Fields that OpenAI's API prescribes."""


def python_names() -> Iterator[str]:
    for name in secl.__all__:
        thing = getattr(secl, name)
        yield name
        if inspect.isclass(thing):
            yield from (f"{name}.{member}" for member in dir(thing) if not member.startswith("_"))
            if dataclasses.is_dataclass(thing):
                yield from (f"{name}.{field.name}" for field in dataclasses.fields(thing))


def json_names() -> Iterator[str]:
    for name, schema in http_api.description()["components"]["schemas"].items():
        yield from (f"{name}.{field}" for field in schema.get("properties", {}))
    record = secl.load(secl.ScriptedModel()).ask("Is it?", options=["yes", "no"])
    yield from (f"export: {name}" for name in to_export(record))


def test_public_names_and_flags_use_one_word_for_each_concept_and_an_answer_has_the_same_first_names() -> None:
    for names in (python_names, json_names):
        words = {name: re.split(r"[.: ]", name)[-1] for name in names() if name not in OF_OPENAI}
        assert len(words) > 100
        assert {name: REPLACED[word] for name, word in words.items() if word in REPLACED} == {}
    seen = 0
    for name, command in commands(app):
        if command.default_command is None:
            continue
        # Groups of settings have names that show in no help.
        arguments = command.assemble_argument_collection(parse_docstring=False)
        flags = {flag for argument in arguments if argument.show for flag in argument.names}
        assert {flag: FLAGS[flag] for flag in flags if flag in FLAGS} == {}, name
        seen += len(flags)
    assert seen > 100
    record = secl.load(secl.ScriptedModel()).ask("Is it?", options=["yes", "no"])
    assert all(hasattr(record, name) for name in FIRST)
    assert tuple(to_export(record))[: len(FIRST)] == FIRST
    fields = http_api.description()["components"]["schemas"]
    assert set(FIRST) <= set(fields["AnswerReply"]["properties"])
    assert set(FIRST) - {"text", "letter"} <= set(fields["Secl"]["properties"])


def commands(parent: Any) -> Iterator[tuple[str, Any]]:
    for name in parent:
        if not name.startswith("-"):
            yield name, parent[name]
            yield from commands(parent[name])
