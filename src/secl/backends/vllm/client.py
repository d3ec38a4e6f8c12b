"""One vLLM server over HTTP: token ids go there, log-probabilities come back, adapters are loaded and unloaded."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from secl.errors import ModelError, NotLoadedError, ParameterError, UnavailableError

TOKEN = "token_id:"
"""How vLLM spells a token where it is asked for numbers instead of texts."""

CONNECT_SECONDS, HEALTH_SECONDS = 3.0, 10.0

TRIES = 8
"""How often a spoiled answer is asked for."""

# A server adds the defaults of its model's generation_config.json to what a request leaves out.
_PLAIN = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0}


@dataclass(frozen=True, slots=True)
class Step:
    """One generated token and the next-token distribution it came from.

    Attributes:
        token: its id.
        log_p: natural logarithms of full-vocabulary probabilities, by token id: of the most probable tokens and of the
            generated one.
    """

    token: int
    log_p: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """What to generate behind each prompt.

    Attributes:
        tokens: at most that many.
        top: report that many of the most probable tokens at each step; not more than the server's --max-logprobs.
        only: generate this token, however improbable it is: its log-probability is what matters.
        stop: texts that end the generation; the token that completes one is the last.
        ends: ids that end it.
        temperature: 0 takes the most probable token each time.
        top_p: nucleus that is drawn from.
        seed: of what is drawn.
    """

    tokens: int = 1
    top: int = 1
    only: int | None = None
    stop: tuple[str, ...] = ()
    ends: tuple[int, ...] = ()
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None

    def body(self) -> dict[str, Any]:
        """The fields of a completion request."""
        fields = {
            **_PLAIN,
            "max_tokens": self.tokens,
            "logprobs": self.top,
            "stop": list(self.stop),
            "stop_token_ids": list(self.ends),
            "temperature": self.temperature,
            "top_p": self.top_p,
            "return_tokens_as_token_ids": True,
        }
        # Not logprob_token_ids: in vLLM's first model runner one such request spoils the most probable tokens of all
        # other requests of its batch without a word (pull request 51789), also those of other clients.
        if self.only is not None:
            fields["allowed_token_ids"] = [self.only]
        if self.seed is not None:
            fields["seed"] = self.seed
        return fields


class Endpoint:
    """A vLLM server.

    Args:
        url: where it listens, for example "http://10.0.0.7:8000".
        key: its --api-key, if it has one.
        timeout: seconds that one answer may take.

    Attributes:
        url: without a slash at the end.
        base: the name of its base model; empty before the first `refresh`.
        window: tokens that a prompt with its answer may have; 0 where the server does not say.
        loaded: adapters that it has, as far as is known here: folder by name.
        spoiled: answers that another client's request had spoiled, and that were asked for again.
        lock: for those who change `loaded`.

    Raises:
        ParameterError: the address is none.
        ModelError: the package httpx is missing.
    """

    def __init__(self, url: str, *, key: str | None = None, timeout: float = 120.0) -> None:
        if not url.startswith(("http://", "https://")):
            raise ParameterError(f"the endpoint {url!r} is not a web address; write http://HOST:PORT.")
        try:
            import httpx
        except ImportError as missing:
            raise ModelError('a vLLM fleet needs httpx; run: pip install "secl[vllm]".') from missing
        self.url = url.rstrip("/").removesuffix("/v1")
        self.base = ""
        self.window = 0
        self.loaded: dict[str, str] = {}
        self.spoiled = 0
        self.lock = threading.Lock()
        self._trouble = (httpx.TransportError, httpx.DecodingError)
        self._times = {
            "GET": httpx.Timeout(min(timeout, HEALTH_SECONDS), connect=CONNECT_SECONDS, pool=None),
            "POST": httpx.Timeout(timeout, connect=CONNECT_SECONDS, pool=None),
        }
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        # No limit of connections: how many requests are under way is decided by those who ask. Idle ones are closed
        # before the server closes them after five seconds; a request that meets such an end would look like a failure.
        self._http = httpx.Client(
            base_url=self.url,
            headers=headers,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=2.0),
        )

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def refresh(self) -> None:
        """Ask the server whether it is well and what it has loaded.

        Raises:
            UnavailableError: it is not there, or not ready.
        """
        self._call("GET", "/health")
        cards = self._json("GET", "/v1/models")
        try:
            (base, *_) = [card for card in cards["data"] if not card.get("parent")]
            loaded = {str(card["id"]): str(card["root"]) for card in cards["data"] if card.get("parent")}
            self.base, self.window = str(base["id"]), int(base.get("max_model_len") or 0)
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise UnavailableError(f"{self.url} lists its models in a way that no vLLM server does.") from problem
        with self.lock:
            self.loaded = loaded

    def complete(
        self, model: str, prompts: Sequence[Sequence[int]], request: CompletionRequest
    ) -> list[tuple[Step, ...]]:
        """Generate behind each prompt (token ids) with a model or adapter.

        Raises:
            UnavailableError: no answer; another server may give one.
            NotLoadedError: the server does not know `model`.
            ModelError: the server refuses the request.
        """
        body = {"model": model, "prompt": [list(prompt) for prompt in prompts], **request.body()}
        for _ in range(TRIES):
            completions = self._read(self._json("POST", "/v1/completions", body))
            if len(completions) != len(prompts):
                raise ModelError(f"{self.url} answered {len(completions)} of {len(prompts)} prompts.")
            if all(len(step.log_p) >= request.top for steps in completions for step in steps):
                return completions
            self.spoiled += 1
        raise UnavailableError(
            f"{self.url} reports fewer probable tokens than it was asked for, {TRIES} times; another client asks it "
            "for logprob_token_ids, which spoils the answers to others."
        )

    def _read(self, answer: Any) -> list[tuple[Step, ...]]:
        try:
            choices = sorted(answer["choices"], key=lambda choice: int(choice["index"]))
            return [_steps(choice["logprobs"]) for choice in choices]
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise ModelError(f"{self.url} answers without the log-probabilities of a vLLM server.") from problem

    def load(self, name: str, folder: str) -> None:
        """Load the PEFT folder under a name; the same folder under the same name is loaded once.

        Another folder under a known name replaces it. The folder must be one that the server has never read before: it
        finds cached values again by name and folder, and does not look at the weights.

        Raises:
            UnavailableError: it did not work; the message says why.
            ModelError: the server refuses the request.
        """
        with self.lock:
            if self.loaded.get(name) == folder:
                return
            if name in self.loaded:
                self._unload(name)
            try:
                self._call("POST", "/v1/load_lora_adapter", {"lora_name": name, "lora_path": folder})
            except NotLoadedError as problem:
                raise UnavailableError(
                    f"{self.url} does not load adapters while it runs, or does not see the folder {folder}; start it "
                    "with VLLM_ALLOW_RUNTIME_LORA_UPDATING=True and --enable-lora, on a file system that it shares."
                ) from problem
            self.loaded[name] = folder

    def unload(self, name: str) -> None:
        """Forget an adapter.

        Raises:
            UnavailableError, ModelError: it did not work.
        """
        with self.lock:
            if name in self.loaded:
                self._unload(name)

    def _unload(self, name: str) -> None:
        with contextlib.suppress(NotLoadedError):  # it is gone already
            self._call("POST", "/v1/unload_lora_adapter", {"lora_name": name})
        self.loaded.pop(name, None)

    def _json(self, method: str, route: str, body: Mapping[str, Any] | None = None) -> Any:
        try:
            return self._call(method, route, body).json()
        except ValueError as problem:
            raise UnavailableError(f"{self.url}{route} does not answer in JSON.") from problem

    def _call(self, method: str, route: str, body: Mapping[str, Any] | None = None) -> Any:
        try:
            answer = self._http.request(method, route, json=body, timeout=self._times[method])
        except self._trouble as problem:
            raise UnavailableError(f"{self.url} does not answer ({type(problem).__name__}).") from problem
        status = answer.status_code
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS:
            raise UnavailableError(f"{self.url}{route} answers with status {status}: {_message(answer)}")
        if status == HTTPStatus.NOT_FOUND:
            raise NotLoadedError(f"{self.url}{route} does not know what was asked for: {_message(answer)}")
        if status != HTTPStatus.OK:
            raise ModelError(f"{self.url}{route} refuses with status {status}: {_message(answer)}")
        return answer


def _steps(logprobs: Mapping[str, Any]) -> tuple[Step, ...]:
    steps = []
    for token, log_p, top in zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True):
        chosen = _id(token)
        steps.append(Step(chosen, {**{_id(other): float(value) for other, value in top.items()}, chosen: float(log_p)}))
    return tuple(steps)


def _id(token: str) -> int:
    return int(token.removeprefix(TOKEN))


def _message(answer: Any) -> str:
    """What a server says about a refusal, in one line."""
    try:
        body = answer.json()
        text = str(body.get("error", body).get("message", body))
    except (ValueError, AttributeError):
        text = answer.text
    return " ".join(text.split())[:300] or "no reason given"
