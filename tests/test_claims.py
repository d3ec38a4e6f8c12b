"""A long answer, sentence by sentence."""

from __future__ import annotations

import pytest

from secl.claims import MOST, claims_in, rate_claims
from secl.errors import TooLongError
from secl.question import Question, Turn
from secl.testing import ScriptedModel

RIVERS = Question("Tell me about rivers.", form="text", history=(Turn("user", "Hello"), Turn("assistant", "Hi")))


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("Paris is the capital of France.", ["Paris is the capital of France."]),
        ("It has 3.5 million people (approx. 2.1 in the city). Rome has more!", None),
        (
            'Sure! Here are two:\n- Go is fast.\n2) Rust is "safe." It compiles',
            ["Go is fast.", 'Rust is "safe."', "It compiles"],
        ),
        ("東京は首都です。人口は多い。", ["東京は首都です。", "人口は多い。"]),
        ("```python\nprint(1. )\n```\nIt prints one. Does it?", ["It prints one."]),
        ("", []),
        ("Yes.", []),
    ],
)
def test_claims_are_the_sentences_that_can_be_wrong(text: str, claims: list[str] | None) -> None:
    found = [text[start:end] for start, end in claims_in(text)]
    expected = ["It has 3.5 million people (approx. 2.1 in the city).", "Rome has more!"] if claims is None else claims
    assert found == expected


def test_each_claim_is_asked_about_behind_the_conversation() -> None:
    asked: list[Question] = []

    class Listening(ScriptedModel):
        def check(self, question: Question) -> None:
            asked.append(question)

        def answer(self, question, **how):  # type: ignore[no-untyped-def]
            asked.append(question)
            return super().answer(question, **how)

    text = "The Nile is long. The Po is short."
    claims = rate_claims(Listening(), RIVERS, text)
    assert [claim.text for claim in claims] == ["The Nile is long.", "The Po is short."]
    assert [text[claim.start : claim.end] for claim in claims] == [claim.text for claim in claims]
    assert all(claim.confidence is not None and 0 < claim.confidence < 1 for claim in claims)
    for question, claim in zip(asked, claims, strict=True):
        assert question.text == f"{RIVERS.text}\nStatement: {claim.text}\nIs the statement true?"
        assert question.history == RIVERS.history  # and not the answer: a model says yes to what it has said


def test_what_the_model_cannot_read_has_no_confidence() -> None:
    class Short(ScriptedModel):
        def prefetch(self, *_: object, **__: object) -> None:
            raise TooLongError("too long")

    (claim,) = rate_claims(Short(), RIVERS, "The Nile is long.")
    assert claim.confidence is None
    assert len(rate_claims(ScriptedModel(), RIVERS, "The Nile is long. " * 100)) == MOST
