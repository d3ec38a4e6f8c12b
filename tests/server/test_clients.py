"""Clients that know nothing of us get from `secl serve` what plain transformers writes: openai, LangChain, litellm.

`make test-integrations` installs LangChain and litellm; without them, their tests are skipped.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.processes import finish
from tests.server.test_process import served
from tests.tiny import tiny_folder

pytestmark = pytest.mark.heavy

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # otherwise litellm asks the network for prices

TALK = [
    ("system", "Answer like a pirate."),
    ("user", "What is the capital of France?"),
    ("assistant", "Paris, arr."),
    ("user", "And of Italy?"),
]
MESSAGES: list[Any] = [{"role": role, "content": text} for role, text in TALK]
TOKENS = 20


class Plain:
    """A model as transformers alone loads it and writes with it.

    Args:
        folder: of the model.
    """

    def __init__(self, folder: Path) -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.model: Any = AutoModelForCausalLM.from_pretrained(folder)

    def length(self, messages: list[Any]) -> int:
        """Tokens of a conversation."""
        return int(self._prompt(messages).shape[1])

    def _prompt(self, messages: list[Any]) -> Any:
        return self.tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )["input_ids"]

    def chat(self, messages: list[Any], *, tokens: int = TOKENS, seed: int = 0, **how: Any) -> str:
        """The text that `generate` writes next in a conversation."""
        prompt = self._prompt(messages)
        torch.manual_seed(seed)
        (ids,) = self.model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=tokens, **({"do_sample": False} | how)
        )
        return str(self.tokenizer.decode(ids[prompt.shape[1] :], skip_special_tokens=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that reads long conversations."""
    return tiny_folder(tmp_path_factory.mktemp("long"), max_position_embeddings=32768)


@pytest.fixture(scope="module")
def plain(folder: Path) -> Plain:
    return Plain(folder)


@pytest.fixture(scope="module")
def address(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of `secl serve` in its own process, which learns while it answers."""
    place = tmp_path_factory.mktemp("served")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = served(place / "log", folder, place / "state", listener, "--dtype", "fp32")
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        process.terminate()
        assert finish(process) == 0, (place / "log").read_text()


@pytest.fixture
def client(address: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=address, api_key="none", max_retries=0, timeout=300) as client:
        yield client


def test_every_client_reads_what_generate_writes(client: openai.OpenAI, plain: Plain) -> None:
    asked: dict[str, Any] = {"model": "served", "messages": MESSAGES, "max_tokens": TOKENS}
    expected = plain.chat(MESSAGES)
    whole: Any = client.chat.completions.create(**asked)
    assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == (expected, "length")
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (plain.length(MESSAGES), TOKENS)
    assert 0 < whole.secl["confidence"] < 1
    pieces: list[Any] = list(client.chat.completions.create(**asked, stream=True))
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == expected
    assert len(pieces) > TOKENS // 2
    assert pieces[-1].secl["record_id"]


def test_what_is_longer_than_the_model_reads_is_refused_with_both_numbers(client: openai.OpenAI) -> None:
    long: list[Any] = [{"role": "user", "content": "a " * 40_000}]
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError, match=r"takes 4\d+ of the .* the answer needs 5") as why:
            client.chat.completions.create(model="served", messages=long, max_tokens=5, stream=stream)
        assert why.value.code == "context_length_exceeded"


def with_langchain(url: str, model: str) -> dict[str, Any]:
    """What `ChatOpenAI` returns: whole, as a stream, and asynchronously."""
    package = pytest.importorskip("langchain_openai", reason="needs langchain-openai: make test-integrations")
    chat = package.ChatOpenAI(model=model, base_url=url, api_key="none", temperature=0, max_tokens=20, max_retries=0)
    whole = chat.invoke(TALK)
    return {
        "whole": whole.content,
        "tokens": dict(whole.usage_metadata)["total_tokens"],
        "stream": "".join(chunk.content for chunk in chat.stream(TALK, stream_usage=True)),
        "async": asyncio.run(chat.ainvoke(TALK)).content,
    }


def with_litellm(url: str, model: str) -> dict[str, Any]:
    """What `litellm.completion` returns: whole, as a stream, and asynchronously."""
    litellm = pytest.importorskip("litellm", reason="needs litellm: make test-integrations")
    messages = [{"role": role, "content": text} for role, text in TALK]
    request: dict[str, Any] = {"model": f"openai/{model}", "api_base": url, "api_key": "none", "max_tokens": 20}
    whole = litellm.completion(messages=messages, temperature=0, user="me", **request)
    chunks = list(litellm.completion(messages=messages, stream=True, **request))
    return {
        "whole": whole.choices[0].message.content,
        "tokens": whole.usage.total_tokens,
        "stream": "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices),
        "async": asyncio.run(litellm.acompletion(messages=messages, **request)).choices[0].message.content,
    }


@pytest.mark.parametrize("client", [with_langchain, with_litellm])
def test_langchain_and_litellm_work_unchanged(
    client: Callable[[str, str], dict[str, Any]], address: str, plain: Plain
) -> None:
    replies = client(address, "served")
    assert {replies[way] for way in ("whole", "stream", "async")} == {plain.chat(MESSAGES)}
    assert replies["tokens"] == plain.length(MESSAGES) + TOKENS
