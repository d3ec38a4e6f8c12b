"""The page of the records, from the dataclasses that they are made of."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args

from docstring_parser import parse_from_object

from reference.tables import code, prose, table
from secl.conversation import Turn
from secl.evidence import (
    CandidateEvidence,
    DincoEvidence,
    Evidence,
    EvidenceKind,
    Labelled,
    LetterOrder,
    Likelihood,
    Posterior,
    PTrue,
)
from secl.ledger import Ledger
from secl.question import Form, Question, References
from secl.records import Decision, LearningOutcome, Record, Reply, Update

NOUNS = (
    Record,
    Question,
    References,
    Turn,
    Reply,
    Decision,
    Evidence,
    PTrue,
    CandidateEvidence,
    LetterOrder,
    Likelihood,
    DincoEvidence,
    Posterior,
    Labelled,
    Update,
    Ledger,
)

INTRODUCTION = """# Records

A run keeps a record of every question; `secl export RUN` writes them as JSON lines, with these names, and
`/v1/records/ID` of a server gives one. Tuples are lists there, None is null. Beside the fields below an exported
record has what is computed from them: its `text`, `letter`, `confidence`, `low`, `high`, `candidates`, `accepted`,
`answer` and `best_answer`, and of both replies `stated` and `stated_hard`. CSV, Parquet and XLSX have one flat row for
each record. In Python `secl.Store(RUN).records()` gives the same objects.

Probabilities lie in [0, 1]; entropies and logarithms of probabilities are in nats.
"""


def page() -> str:
    """The page in Markdown."""
    names = f"""Forms of an answer: {_listed(Form)}. Kinds of evidence: {_listed(EvidenceKind)}. Outcomes of learning:
{_listed(LearningOutcome)}; `help(secl.Record)` and [the glossary](../glossary.md) say what they mean."""
    return "\n\n".join([INTRODUCTION, *map(_section, NOUNS), "## Names\n\n" + names]) + "\n"


def _section(noun: type[Any]) -> str:
    described = parse_from_object(noun)
    meaning = {name: each.description or "" for each in described.params for name in each.arg_name.split(", ")}
    rows = [(code(field.name), code(_type_of(field.type)), meaning.get(field.name, "")) for field in fields(noun)]
    about = [described.short_description, described.long_description]
    text = "\n\n".join(prose(part) for part in about if part and ">>>" not in part)
    return f"## {noun.__name__}\n\n{text}\n\n{table(('field', 'type', 'meaning'), rows)}"


def _type_of(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _listed(literal: Any) -> str:
    return ", ".join(code(str(name)) for name in get_args(literal))
