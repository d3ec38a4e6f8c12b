"""Seeds that depend on a question alone."""

from __future__ import annotations

import hashlib

from secl.question import Question


def question_seed(seed: int, question: Question, purpose: object) -> int:
    """A seed for one purpose of one question, so that a resumed run draws what an uninterrupted one drew."""
    digest = hashlib.sha256(f"{seed}/{purpose}/{question.id}/{question.text}".encode()).digest()
    return int.from_bytes(digest[:7], "big")
