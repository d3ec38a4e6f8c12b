"""What is stored of texts: everything, hashes, or nothing; numbers, option letters and domains are always stored."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from secl.evidence import Evidence
from secl.question import Question
from secl.records import Record, Reply
from secl.runs.folder import storage_errors

Keep = Literal["none", "hash", "full"]
"""What is stored of texts: nothing, a keyed hash that tells equal texts from others, or the texts themselves."""

KEEPS: tuple[Keep, ...] = ("none", "hash", "full")

NOT_KEPT = "(not kept)"

KEY = "texts.key"
"""File in a state folder with the secret of its hashes.

A plain hash of a short answer can be looked up in a list of all short answers. Without this file nobody can do that
with a keyed one, so it is in no backup.
"""


def secret_of(folder: Path) -> bytes:
    """The secret of a state folder's hashes: 32 random bytes, made where there are none.

    Raises:
        StorageError: it cannot be read or written.
    """
    path = folder / KEY
    with storage_errors(folder):
        if not path.exists():
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as stream:
                stream.write(secrets.token_bytes(32))
                stream.flush()
                os.fsync(stream.fileno())
        return path.read_bytes()


def redacted(record: Record, keep: Keep, secret: bytes = b"") -> Record:
    """A record without the texts that may not be stored.

    Candidates that are equal stay equal, and others stay different, so that the posterior can be replayed.

    Args:
        record: as answered.
        keep: what is stored of texts.
        secret: of the hashes (`secret_of`).
    """
    if keep == "full":
        return record

    def hidden(text: str) -> str:
        return NOT_KEPT if keep == "none" else f"hmac:{hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()}"

    question, posterior = record.question, record.posterior
    options = tuple(hidden(f"{i}. {option}") for i, option in enumerate(question.options))
    hide = _numbered(record) if keep == "none" else hidden
    if posterior is not None:
        posterior = replace(posterior, candidates=tuple(map(hide, posterior.candidates)))
    return replace(
        record,
        question=Question(
            hidden(question.text),
            options,
            domain=question.domain,
            form=question.form,
            id=question.id,
            context=question.context and hidden(question.context),
            system=question.system and hidden(question.system),
            history=tuple(replace(turn, text=hidden(turn.text)) for turn in question.history),
        ),
        reply=record.reply if question.options else _redacted_reply(record.reply, hidden),
        frozen=record.frozen if question.options else _redacted_reply(record.frozen, hidden),
        evidence=_redacted_evidence(record.evidence, hide),
        posterior=posterior,
    )


def _redacted_evidence(evidence: Evidence, hide: Callable[[str], str]) -> Evidence:
    p_true, candidates = evidence.p_true, evidence.candidates
    if p_true is not None:
        p_true = replace(p_true, candidates=tuple(map(hide, p_true.candidates)))
    if candidates is not None:
        candidates = replace(candidates, candidates=tuple(map(hide, candidates.candidates)))
    return Evidence(p_true=p_true, candidates=candidates)


def _numbered(record: Record) -> Callable[[str], str]:
    """Names the candidates of a record by numbers, which tell no more than which of them are equal."""
    compared = (record.evidence.candidates, record.evidence.p_true, record.posterior)
    texts = [text for each in compared if each is not None for text in each.candidates]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts), 1)}
    return lambda text: f"(candidate {numbers[text]}, not kept)"


def _redacted_reply(reply: Reply, hidden: Callable[[str], str]) -> Reply:
    answer = None if reply.answer is None else hidden(reply.answer)
    return replace(reply, text=hidden(reply.text), answer=answer)
