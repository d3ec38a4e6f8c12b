"""Models in memory for the tests of the torch room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from secl.backends.local.loading import wrap
from secl.backends.local.model import LocalModel
from secl.records import Question
from tests.tiny import tiny_model, tiny_tokenizer

MakeModel = Callable[..., LocalModel]


@pytest.fixture
def make_model(brief: None) -> MakeModel:
    """A tiny random model of a family, ready to ask; `changes` go to its configuration, settings to LocalModel."""

    def make(family: str = "llama", *, changes: dict[str, Any] | None = None, **settings: Any) -> LocalModel:
        loaded = wrap(family, tiny_model(family, **(changes or {})), tiny_tokenizer())
        return LocalModel(loaded, **{"layers": "last:2", **settings})

    return make


@pytest.fixture
def questions() -> list[Question]:
    """Two questions with options and one of each open form."""
    return [
        Question("What is the capital of France?", options=("Paris", "Rome", "Bern"), reference="A", id="a"),
        Question("Which is a metal?", options=("neon", "iron", "argon", "sulfur", "helium"), reference="B", id="b"),
        Question("Tom has 3 apples and buys 4. How many has he?", form="number", reference="7", id="c"),
        Question("Who wrote Hamlet?", reference="Shakespeare", id="d"),
        Question("Why is the sky blue?", form="sentence", id="e"),
    ]
