"""The page of the records, from the dataclasses that they are made of."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args

from docstring_parser import parse_from_object

from reference.tables import code, prose, table
from secl.conversation import Message
from secl.evidence import (
    CalibratedConfidence,
    CandidateEvidence,
    DincoEvidence,
    Evidence,
    EvidenceKind,
    LetterOrder,
    Likelihood,
    Posterior,
    PTrue,
    Source,
    SourceKind,
    Thought,
)
from secl.ledger import Ledger
from secl.question import Form, Question, References
from secl.records import Decision, Learning, LearningOutcome, Record, RecordKind, Reply, Update

NOUNS = (
    Record,
    Question,
    References,
    Message,
    Reply,
    Evidence,
    Thought,
    PTrue,
    CandidateEvidence,
    Source,
    LetterOrder,
    Likelihood,
    DincoEvidence,
    Posterior,
    CalibratedConfidence,
    Learning,
    Decision,
    Update,
    Ledger,
)

INTRODUCTION = """# Records

A run stores one record for each question. In Python, `secl.runs.current_records(secl.runs.Store(RUN))` reads
them with labels and present confidences. `secl export RUN` writes them as JSON lines with the names below; tuples
become lists, and None becomes null. A server returns one at `/v1/records/ID`. CSV, Parquet and XLSX have one
flat row for each record.

An exported record also has the values that secl computes from these fields: `text`, `letter`, `confidence`, `low`,
`high`, `candidates`, `accepted`, `accept`, `answer` and `best_answer`, and for replies `stated` and `stated_hard`.

Probabilities lie in [0, 1]. Entropies and logarithms of probabilities are in nats.

**Versions of records.** The file of a run (`run.sqlite`) or of a server holds the number of its format. secl reads
exactly one format and refuses every other in one sentence. A release that changes a format raises the minor version
(0.1 to 0.2), and [the changelog](../../CHANGELOG.md) names the change. Before an upgrade, export the records that you
want to keep: JSON lines need no secl.
"""


def page() -> str:
    """Return the page in Markdown."""
    names = f"""Forms of an answer: {_listed(Form)}. Kinds of evidence: {_listed(EvidenceKind)}. Kinds of
sources: {_listed(SourceKind)}. Kinds of records: {_listed(RecordKind)}. Outcomes of learning:
{_listed(LearningOutcome)}. `help(secl.Record)` and
[How it works](../concepts.md#secl-when-and-what-the-model-learns) explain them."""
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
