"""What the hub refuses is one sentence that says what to do, in whatever transformers wraps it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from huggingface_hub import set_client_factory
from huggingface_hub.utils._http import default_client_factory

from secl.backends.local.loading.guard import as_model_error
from secl.backends.local.loading.loader import load
from secl.errors import ModelError

Answer = Callable[[httpx2.Request], httpx2.Response]


@pytest.fixture
def answer_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[Answer], None]]:
    """Makes the hub answer every request in one way; nothing is in its cache."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    yield lambda answer: set_client_factory(lambda: httpx2.Client(transport=httpx2.MockTransport(answer)))
    set_client_factory(default_client_factory)


def gated(request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(403, headers={"X-Error-Code": "GatedRepo"}, request=request)


def missing(request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(401, headers={"X-Error-Code": "RepoNotFound"}, request=request)


def unreachable(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("no route to host", request=request)


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        (
            "llama-3.2-3b",
            gated,
            "its repository is gated; accept the licence at https://huggingface.co/meta-llama/Llama-3.2-3B-Instruct, "
            "run hf auth login or set HF_TOKEN, and try again.",
        ),
        (
            "someone/misspelt",
            missing,
            "the hub has no repository someone/misspelt, or it is private; check the name, or run hf auth login or set "
            "HF_TOKEN.",
        ),
        (
            "someone/model",
            unreachable,
            "someone/model is not on this machine and the hub cannot be reached; check the network and HF_HUB_OFFLINE, "
            "or name a folder that holds the model.",
        ),
    ],
    ids=["gated", "missing", "unreachable"],
)
def test_what_the_hub_refuses_is_one_sentence(
    answer_with: Callable[[Answer], None], name: str, answer: Answer, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)  # between the client's own tries, half a minute in all
    answer_with(answer)
    with pytest.raises(ModelError) as refused:
        load(name)
    assert str(refused.value) == f"the model {name!r} cannot be loaded: {words}"


@pytest.mark.parametrize(
    ("problem", "words"), [(ValueError("half a file\nand more"), "half a file"), (OSError(), "OSError")]
)
def test_of_other_exceptions_the_first_line_is_said(problem: Exception, words: str) -> None:
    with pytest.raises(ModelError, match=f"^the model 'a/b' cannot be loaded: {words}$"), as_model_error("a/b"):
        raise problem
