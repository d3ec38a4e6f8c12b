"""A chat model on a vLLM server, whose token API gives everything but learning and beam searches."""

from __future__ import annotations

from typing import Any

from secl.backends.endpoint.client import Endpoint, Upstream
from secl.backends.endpoint.vllm.engine import VllmEngine
from secl.backends.endpoint.vllm.server import READ_TIMEOUT, CompletionRequest, TokenServer
from secl.backends.generation import TextRules
from secl.backends.local.loading.loader import ModelFacts, load_facts
from secl.backends.local.loading.thinking import FIRST_TOKENS
from secl.backends.token_ids import TokenIds, sample_text
from secl.backends.token_model import TokenModel
from secl.errors import ModelError


class VllmModel(TokenModel):
    """A `secl.model.Model` on a vLLM server. This process needs only the model's tokenizer and configuration.

    The model does not learn: `secl.backends.endpoint.vllm.connect.answer_by_vllm` connects a model that does.

    Args:
        url: address of the server, or of a load balancer in front of several.
        name: preset, hub id or folder with the model's tokenizer; "" for the server's own name of the model.
        key: the server's API key.
        settings: see `secl.backends.token_model.TokenModel`.

    Raises:
        ParameterError: `url` is not a URL, or a setting is invalid.
        ModelError: the server does not answer or gives no log-probabilities, the tokenizer cannot be loaded, or it is
            the tokenizer of another model.
    """

    def __init__(
        self,
        url: str,
        name: str = "",
        *,
        key: str | None = None,
        **settings: Any,
    ) -> None:
        endpoint = Endpoint(url, key=key, silence=READ_TIMEOUT)
        try:
            server = TokenServer(endpoint)
            facts = _facts_of(server, name)
            token_ids = TokenIds.of(facts.tokenizer, facts.name)
            _check_tokens(server, token_ids, facts.name)
            rules = TextRules(facts.tokenizer, facts.end_ids)
            engine = VllmEngine(server, rules, len(facts.tokenizer), facts.limit)
            super().__init__(facts, engine, token_ids, rules=rules, **settings)
        except BaseException:
            endpoint.close()
            raise
        self.fingerprint = f"vllm:{server.root}:{facts.fingerprint}"
        self.upstream = Upstream(endpoint, server.base, takes_all=False)

    def _facts(self) -> dict[str, object]:
        return {"name": self.name, "endpoint": self.upstream.endpoint.url, "tau": self.tau}


def _facts_of(server: TokenServer, name: str) -> ModelFacts:
    def begin(prompt: list[int]) -> list[int]:
        ((*steps,),) = server.complete("", [prompt], CompletionRequest(tokens=FIRST_TOKENS))
        return [step.token for step in steps]

    try:
        return load_facts(name or server.root, begin)
    except ModelError as problem:
        if name:
            raise
        raise ModelError(
            f"{server.url} runs {server.root}, whose tokenizer secl cannot load here; name the hub id or folder of the "
            f"tokenizer as the model ({problem})"
        ) from problem


def _check_tokens(server: TokenServer, token_ids: TokenIds, name: str) -> None:
    """Raise a `ModelError` if the server has another tokenizer, or does not report log-probabilities by token id."""
    text = sample_text(token_ids.tokenizer, name)
    ids = token_ids.encode(text)
    if server.tokens_of(text) != ids[1:]:
        raise ModelError(
            f"{server.url} runs {server.root}, which splits texts into other tokens than {name}; name the model of "
            "the server, or start the server with this model."
        )
    server.complete("", [ids], CompletionRequest(ids=token_ids.digits))
