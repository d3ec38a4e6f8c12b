"""Models in memory for the tests of the torch room."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from secl.backends.local.loading.loader import Loaded, wrap
from secl.backends.local.model import LocalModel
from secl.calibrator import Calibrator
from secl.data.quiz import quiz
from secl.gates import Always
from secl.question import Question
from secl.records import Record
from secl.settings.groups import AdapterSettings, LoopSettings
from tests.tiny import tiny_model, tiny_tokenizer

MakeModel = Callable[..., LocalModel]

QUESTIONS = (
    Question("What is the capital of France?", options=("Paris", "Rome", "Bern"), reference="A", id="a"),
    Question("Which is a metal?", options=("neon", "iron", "argon", "sulfur", "helium"), reference="B", id="b"),
    Question("Tom has 3 apples and buys 4. How many has he?", form="number", reference="7", id="c"),
    Question("Who wrote Hamlet?", reference="Shakespeare", id="d"),
    Question("Why is the sky blue?", form="sentence", id="e"),
)
STREAM = [*quiz("capitals", 3, 1), Question("Who wrote Hamlet?", reference="Shakespeare", id="hamlet")]


def taught(model: LocalModel) -> list[Record]:
    """Records of a short stream, each of which is learned from."""
    return list(Calibrator(model, method="secl", gate=Always(), loop=LoopSettings(bin_gate=None)).run(STREAM))


def tiny_local(loaded: Loaded, **settings: Any) -> LocalModel:
    """A model whose settings are told apart: those of the adapter, and the others."""
    adapter = {name: settings.pop(name) for name in AdapterSettings.model_fields if name in settings}
    return LocalModel(loaded, AdapterSettings(**{"layers": "last:2", **adapter}), **settings)


def tiny_of(family: str = "llama", *, changes: dict[str, Any] | None = None, **settings: Any) -> LocalModel:
    """A tiny random model of a family, ready to ask; `changes` go to its configuration, settings to `tiny_local`."""
    loaded = wrap(family, tiny_model(family, **(changes or {})), tiny_tokenizer())
    if family != "gpt2":
        return tiny_local(loaded, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the fast path does not fit its layout
        return tiny_local(loaded, **{"modules": ("c_attn",), **settings})


def tokens_seen(network: Any) -> list[int]:
    """Grows by the number of tokens of every pass through a network."""
    seen: list[int] = []
    network.get_input_embeddings().register_forward_pre_hook(lambda _module, args: seen.append(args[0].numel()))
    return seen


@pytest.fixture
def make_model(brief: None) -> MakeModel:
    """Makes tiny models, as `tiny_of` does."""
    return tiny_of


@pytest.fixture
def questions() -> list[Question]:
    """Two questions with options and one of each open form."""
    return list(QUESTIONS)
