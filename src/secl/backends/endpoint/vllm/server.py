"""What a vLLM server can do beyond OpenAI's API: token ids go there, their log-probabilities come back."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from secl.backends.endpoint.client import Endpoint
from secl.backends.generation import Step
from secl.errors import ModelError, NotLoadedError, UnavailableError

TOKEN = "token_id:"
"""How vLLM spells a token where it is asked for numbers instead of texts."""

ROUTE = "/completions"

TRIES = 8
"""How often a spoiled answer is asked for."""

LATE, WAIT = 2, 0.5
"""Further requests, and seconds before each, for an adapter that a file system shows late, or a server that starts."""

# A server adds the defaults of its model's generation_config.json to what a request leaves out.
_PLAIN = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0}


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
        inside: whether the tokens of the prompt from the second on are steps, too, before the generated ones. The
            server then reads the whole prompt, and takes nothing of it from its cache.
    """

    tokens: int = 1
    top: int = 1
    only: int | None = None
    stop: tuple[str, ...] = ()
    ends: tuple[int, ...] = ()
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    inside: bool = False

    def body(self) -> dict[str, object]:
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
        if self.inside:
            fields["prompt_logprobs"] = self.top
        return fields


class TokenServer:
    """A vLLM server.

    Args:
        url: where it listens, for example "http://10.0.0.7:8000".
        key: its --api-key, if it has one.
        timeout: seconds without a byte after which a request is given up.

    Attributes:
        url: base address of its API.
        base: the name of its base model; empty before the first `refresh`.
        root: what it was told to load, a folder or hub id; empty before the first `refresh`.
        window: tokens that a prompt with its answer may have; 0 where the server does not say.
        spoiled: answers that another client's request had spoiled, and that were asked for again.

    Raises:
        ParameterError: the address is none.
        ModelError: the package httpx is missing.
    """

    def __init__(self, url: str, *, key: str | None = None, timeout: float = 120.0) -> None:
        self.endpoint = Endpoint(url, key=key, timeout=timeout)
        self.url = self.endpoint.url
        self.base = self.root = ""
        self.window = 0
        self.spoiled = 0

    def refresh(self) -> None:
        """Ask the server what it serves.

        Raises:
            UnavailableError: it is not there, or not ready.
        """
        try:
            (base, *_) = [card for card in self.endpoint.models() if not card.get("parent")]
            self.base, self.root = base["id"], str(base["root"])
            self.window = int(base.get("max_model_len") or 0)
        except (KeyError, TypeError, ValueError) as problem:
            raise UnavailableError(f"{self.url} lists its models in a way that no vLLM server does.") from problem

    def complete(
        self, model: str, prompts: Sequence[Sequence[int]], request: CompletionRequest
    ) -> list[tuple[Step, ...]]:
        """Generate behind each prompt (token ids) with an adapter, or with the base model, whose name is empty here.

        Raises:
            UnavailableError: no answer now.
            NotLoadedError: the server does not find the adapter.
            QuestionError, ModelError: the server refuses the request.
        """
        body = {"model": model or self.base, "prompt": [list(prompt) for prompt in prompts], **request.body()}
        for _ in range(TRIES):
            choices = self._choices(self._post(body))
            try:
                completions = [_steps(choice["logprobs"]) for choice in choices]
                if len(completions) != len(prompts):
                    raise ModelError(f"{self.url} answered {len(completions)} of {len(prompts)} prompts.")
                if request.inside:
                    inside = [_inside(*each) for each in zip(prompts, choices, strict=True)]
                    completions = [one + other for one, other in zip(inside, completions, strict=True)]
            except (AttributeError, KeyError, TypeError, ValueError) as problem:
                raise self._no_log_p() from problem
            if all(len(step.log_p) >= request.top for steps in completions for step in steps):
                return completions
            self.spoiled += 1
        raise self._spoiled(TRIES)

    def read(self, texts: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probabilities (nats) of the tokens of each text with the base model, from the second token on.

        Raises:
            UnavailableError, QuestionError, ModelError: as for `complete`.
        """
        completions = self.complete("", texts, CompletionRequest(top=0, inside=True))
        return [[step.log_p[step.token] for step in steps[:-1]] for steps in completions]

    def stream(
        self, prompt: Sequence[int], request: CompletionRequest, n: int, needed: int
    ) -> Iterator[tuple[int, tuple[Step, ...], str | None]]:
        """Write `n` texts behind a prompt with the base model: the number of one, its next steps, and why it ended.

        A text goes on while at least `needed` of the most probable tokens are reported.

        Raises:
            UnavailableError: no answer, at once or while it comes.
            QuestionError, ModelError: the server refuses the request.
        """
        chunks = self.endpoint.stream(ROUTE, {"model": self.base, "prompt": list(prompt), **request.body(), "n": n})
        try:
            for chunk in chunks:
                for choice in chunk["choices"]:
                    steps = _steps(choice["logprobs"]) if choice["logprobs"] else ()
                    if any(len(step.log_p) < needed for step in steps):
                        raise self._spoiled(1)
                    yield int(choice["index"]), steps, choice["finish_reason"]
        except (KeyError, TypeError, ValueError) as problem:
            raise self._no_log_p() from problem
        finally:
            chunks.close()

    def _post(self, body: Mapping[str, object]) -> Any:
        """The answer to a request; an adapter that is not there yet is waited for a moment."""
        for _ in range(LATE):
            with suppress(NotLoadedError):
                return self.endpoint.post(ROUTE, body)
            time.sleep(WAIT)
        return self.endpoint.post(ROUTE, body)

    def _choices(self, answer: Any) -> list[Any]:
        """The choices of an answer in the order of the prompts."""
        try:
            return sorted(answer["choices"], key=lambda choice: int(choice["index"]))
        except (KeyError, TypeError, ValueError) as problem:
            raise self._no_log_p() from problem

    def _no_log_p(self) -> ModelError:
        return ModelError(f"{self.url} answers without the log-probabilities of a vLLM server.")

    def _spoiled(self, times: int) -> UnavailableError:
        return UnavailableError(
            f"{self.url} reports fewer probable tokens than it was asked for, {times} times; another client asks it "
            "for logprob_token_ids, which spoils the answers to others."
        )


def _steps(logprobs: Mapping[str, Any]) -> tuple[Step, ...]:
    steps = []
    for token, log_p, top in zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True):
        chosen = _id(token)
        steps.append(Step(chosen, {**{_id(other): float(value) for other, value in top.items()}, chosen: float(log_p)}))
    return tuple(steps)


def _inside(prompt: Sequence[int], choice: Mapping[str, Any]) -> tuple[Step, ...]:
    """The tokens of a prompt, from the second on, as steps."""
    steps = []
    for token, reported in zip(prompt[1:], choice["prompt_logprobs"][1:], strict=True):
        log_p = {int(other): float(each["logprob"]) for other, each in reported.items()}
        steps.append(Step(token, {**log_p, token: log_p[token]}))
    return tuple(steps)


def _id(token: str) -> int:
    return int(token.removeprefix(TOKEN))
