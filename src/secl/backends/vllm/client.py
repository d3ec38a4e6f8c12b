"""One vLLM server over HTTP: token ids go there, log-probabilities come back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
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
        root: what it was told to load, a folder or hub id; empty before the first `refresh`.
        window: tokens that a prompt with its answer may have; 0 where the server does not say.
        spoiled: answers that another client's request had spoiled, and that were asked for again.

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
        self.base = self.root = ""
        self.window = 0
        self.spoiled = 0
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
        """Ask the server whether it is well and what it serves.

        Raises:
            UnavailableError: it is not there, or not ready.
        """
        self._call("GET", "/health")
        cards = self._json("GET", "/v1/models")
        try:
            (base, *_) = [card for card in cards["data"] if not card.get("parent")]
            self.base, self.root = str(base["id"]), str(base["root"])
            self.window = int(base.get("max_model_len") or 0)
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise UnavailableError(f"{self.url} lists its models in a way that no vLLM server does.") from problem

    def complete(
        self, model: str, prompts: Sequence[Sequence[int]], request: CompletionRequest
    ) -> list[tuple[Step, ...]]:
        """Generate behind each prompt (token ids) with an adapter, or with the base model, whose name is empty here.

        Raises:
            UnavailableError: no answer; another server may give one.
            NotLoadedError: the server does not find the adapter.
            ModelError: the server refuses the request.
        """
        body = {"model": model or self.base, "prompt": [list(prompt) for prompt in prompts], **request.body()}
        for _ in range(TRIES):
            completions = self._read(self._json("POST", "/v1/completions", body))
            if len(completions) != len(prompts):
                raise ModelError(f"{self.url} answered {len(completions)} of {len(prompts)} prompts.")
            if all(len(step.log_p) >= request.top for steps in completions for step in steps):
                return completions
            self.spoiled += 1
        raise self._spoiled(TRIES)

    def _spoiled(self, times: int) -> UnavailableError:
        return UnavailableError(
            f"{self.url} reports fewer probable tokens than it was asked for, {times} times; another client asks it "
            "for logprob_token_ids, which spoils the answers to others."
        )

    def read(self, texts: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probabilities (nats) of the tokens of each text with the base model, from the second token on.

        Raises:
            UnavailableError, ModelError: as for `complete`.
        """
        body = {"model": self.base, "prompt": [list(text) for text in texts], "max_tokens": 1, "prompt_logprobs": 0}
        choices = self._choices(self._json("POST", "/v1/completions", body))
        try:
            return [
                [
                    float(at[str(token)]["logprob"])
                    for token, at in zip(text[1:], choice["prompt_logprobs"][1:], strict=True)
                ]
                for text, choice in zip(texts, choices, strict=True)
            ]
        except (KeyError, TypeError, ValueError) as problem:
            raise self._no_log_p() from problem

    def stream(
        self, prompt: Sequence[int], request: CompletionRequest, n: int
    ) -> Iterator[tuple[int, tuple[Step, ...], str | None]]:
        """Write `n` texts behind a prompt with the base model: the number of one, its next steps, and why it ended.

        Raises:
            UnavailableError: no answer, at once or while it comes.
            ModelError: the server refuses the request.
        """
        body = {"model": self.base, "prompt": list(prompt), **request.body(), "n": n, "stream": True}
        return self._events(self._call("POST", "/v1/completions", body, stream=True), request.top)

    def _events(self, answer: Any, top: int) -> Iterator[tuple[int, tuple[Step, ...], str | None]]:
        try:
            for line in answer.iter_lines():
                if not line.startswith("data: {"):
                    continue
                event = json.loads(line.removeprefix("data: "))
                if "error" in event:
                    raise UnavailableError(f"{self.url} broke off in the middle of a text: {event['error']}")
                for choice in event["choices"]:
                    steps = _steps(choice["logprobs"]) if choice["logprobs"] else ()
                    if any(len(step.log_p) < top for step in steps):
                        raise self._spoiled(1)
                    yield int(choice["index"]), steps, choice["finish_reason"]
        except self._trouble as problem:
            raise UnavailableError(
                f"{self.url} broke off in the middle of a text ({type(problem).__name__})."
            ) from problem
        except (KeyError, TypeError, ValueError) as problem:
            raise self._no_log_p() from problem
        finally:
            answer.close()

    def _read(self, answer: Any) -> list[tuple[Step, ...]]:
        try:
            return [_steps(choice["logprobs"]) for choice in self._choices(answer)]
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise self._no_log_p() from problem

    def _choices(self, answer: Any) -> list[Any]:
        """The choices of an answer in the order of the prompts."""
        try:
            return sorted(answer["choices"], key=lambda choice: int(choice["index"]))
        except (KeyError, TypeError, ValueError) as problem:
            raise self._no_log_p() from problem

    def _no_log_p(self) -> ModelError:
        return ModelError(f"{self.url} answers without the log-probabilities of a vLLM server.")

    def _json(self, method: str, route: str, body: Mapping[str, Any] | None = None) -> Any:
        try:
            return self._call(method, route, body).json()
        except ValueError as problem:
            raise UnavailableError(f"{self.url}{route} does not answer in JSON.") from problem

    def _call(self, method: str, route: str, body: Mapping[str, Any] | None = None, *, stream: bool = False) -> Any:
        request = self._http.build_request(method, route, json=body, timeout=self._times[method])
        try:
            answer = self._http.send(request, stream=stream)
            if answer.status_code != HTTPStatus.OK:
                answer.read()
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
