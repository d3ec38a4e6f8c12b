"""vLLM beyond OpenAI's API: prompts of token ids, log-probabilities by token id, and adapters loaded from folders."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from secl.backends.endpoint.client import Endpoint
from secl.backends.endpoint.probabilities import DamagedError, alternatives, distribution, log_p_of, positions
from secl.backends.generation import Step
from secl.errors import ModelError, NotLoadedError, StorageError, UnavailableError
from secl.machine import publish_folder

TOKEN = "token_id:"
"""Prefix of the ids that vLLM reports instead of texts."""

ROUTE = "/completions"

READ_TIMEOUT = 120.0
"""Read timeout of a request in seconds."""

LATE, WAIT = 2, 0.5
"""Number of repeated requests for a missing adapter, and seconds before each: a shared file system may be slow."""

MALFORMED = (AttributeError, IndexError, KeyError, StopIteration, TypeError, ValueError)
"""Errors of a reply in another form. `DamagedError`, a ValueError, tells what is wrong."""

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "secl"
"""Beginning of the names of versions."""

MAX_FOLDERS = 100
"""Maximum number of version folders; secl removes the least recently used ones. The number is larger than any reply
needs, because vLLM 0.32 exits if a request names a loaded adapter whose folder is missing."""

# A server takes missing fields from its model's generation_config.json, so secl sends these fields.
_PLAIN = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0}


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """Settings of the text to generate after each prompt.

    Attributes:
        tokens: maximum number of tokens of the text.
        top: number of the most probable tokens to report at each step, at most the server's --max-logprobs.
        ids: tokens to report at each step instead of the most probable tokens.
        stop, ends: texts and token ids that end the text. The token that completes a stop text is the last token.
        inside: whether to return a step for each prompt token but the first, followed by the steps of the text. The
            server then reads the whole prompt, without its cache.
    """

    tokens: int = 1
    top: int = 1
    ids: tuple[int, ...] = ()
    stop: tuple[str, ...] = ()
    ends: tuple[int, ...] = ()
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    inside: bool = False

    def body(self) -> dict[str, object]:
        return {
            **_PLAIN,
            "max_tokens": self.tokens,
            "logprobs": self.top,
            "stop": list(self.stop),
            "stop_token_ids": list(self.ends),
            "temperature": self.temperature,
            "top_p": self.top_p,
            "return_tokens_as_token_ids": True,
            **({"logprob_token_ids": list(self.ids)} if self.ids else {}),
            **({} if self.seed is None else {"seed": self.seed}),
            **({"prompt_logprobs": self.top} if self.inside else {}),
        }


class TokenServer:
    """A vLLM server. Raises UnavailableError: no answer, or another kind of server.

    Attributes:
        url: base address of the API.
        base: name of the base model on the server.
        root: folder or hub id of the base model.
        window: maximum number of tokens of a prompt and its answer; 0 if unknown.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint, self.url = endpoint, endpoint.url
        try:
            (base, *_) = [card for card in endpoint.models() if not card.get("parent")]
            self.base, self.root = base["id"], str(base["root"])
            self.window = int(base.get("max_model_len") or 0)
        except (KeyError, TypeError, ValueError) as problem:
            raise UnavailableError(
                f"{self.url} does not list its models as vLLM does; check the address, or take --engine openai."
            ) from problem

    def complete(
        self, model: str, prompts: Sequence[Sequence[int]], request: CompletionRequest
    ) -> list[tuple[Step, ...]]:
        """Return the steps of the text after each prompt (token ids); `model` is an adapter, or "" for the base model.

        Raises:
            UnavailableError: the server does not answer now.
            NotLoadedError: the server does not find the adapter.
            QuestionError, ModelError: the server refuses the request, or reports other tokens than requested.
        """
        body = {"model": model or self.base, "prompt": [list(prompt) for prompt in prompts], **request.body()}
        answer = self._post(body)
        try:
            choices = sorted(answer["choices"], key=lambda choice: int(choice["index"]))
            texts = [_steps(choice["logprobs"]) for choice in choices]
            if len(texts) != len(prompts):
                raise ModelError(f"{self.url} answered {len(texts)} of {len(prompts)} prompts.")
            if request.inside:
                inside = [_inside(*each) for each in zip(prompts, choices, strict=True)]
                texts = [one + other for one, other in zip(inside, texts, strict=True)]
        except MALFORMED as problem:
            raise self._unusable(problem) from problem
        self._check_reported([step for steps in texts for step in steps], request)
        return texts

    def read(self, texts: Sequence[Sequence[int]]) -> list[list[float]]:
        """Return log-probabilities (nats) of each text's tokens from the second on. Raises the errors of `complete`."""
        completions = self.complete("", texts, CompletionRequest(top=0, inside=True))
        return [[step.log_p[step.token] for step in steps[:-1]] for steps in completions]

    def tokens_of(self, text: str) -> list[int]:
        """Return the ids of a text's tokens from the second on. Raises the errors of `complete`."""
        body = {"model": self.base, "prompt": [text], "add_special_tokens": False}
        answer = self._post({**body, **CompletionRequest(top=0, inside=True).body()})
        try:
            reported = answer["choices"][0]["prompt_logprobs"][1:]
            return [int(next(iter(each))) for each in reported]
        except MALFORMED as problem:
            raise self._unusable(problem) from problem

    def stream(
        self, prompt: Sequence[int], request: CompletionRequest, n: int
    ) -> Iterator[tuple[int, tuple[Step, ...], str | None]]:
        """Write `n` texts after a prompt with the base model. Raises the errors of `complete`.

        Yields the number of a text, its next steps, and, after the last step, the finish reason.
        """
        chunks = self.endpoint.stream(ROUTE, {"model": self.base, "prompt": list(prompt), **request.body(), "n": n})
        try:
            for chunk in chunks:
                for choice in chunk.get("choices") or ():
                    steps = _steps(choice.get("logprobs"))
                    self._check_reported(steps, request)
                    yield int(choice["index"]), steps, choice.get("finish_reason")
        except MALFORMED as problem:
            raise self._unusable(problem) from problem
        finally:
            chunks.close()

    def _post(self, body: Mapping[str, object]) -> Any:
        """Return the answer to a request; wait a moment for a missing adapter."""
        for _ in range(LATE):
            with suppress(NotLoadedError):
                return self.endpoint.post(ROUTE, body)
            time.sleep(WAIT)
        return self.endpoint.post(ROUTE, body)

    def _check_reported(self, steps: Sequence[Step], request: CompletionRequest) -> None:
        """Raise a `ModelError` unless the server reports the requested tokens."""
        if any(token not in step.log_p for step in steps for token in request.ids):
            raise ModelError(f"{self.url} does not report the tokens in logprob_token_ids; take vLLM 0.32 or newer.")
        if any(len(step.log_p) < request.top for step in steps):
            raise ModelError(
                f"{self.url} lists too few tokens, because another request of the same batch used logprob_token_ids; "
                "start the server with VLLM_USE_V2_MODEL_RUNNER=1, or with --max-num-seqs 1."
            )

    def _unusable(self, problem: Exception) -> ModelError:
        if isinstance(problem, DamagedError):
            return ModelError(f"{self.url} reports {problem}, so secl cannot read a confidence; restart the server.")
        return ModelError(
            f"{self.url} answers without the log-probabilities that a vLLM server gives; is it a vLLM server?"
        )


def _steps(logprobs: object) -> tuple[Step, ...]:
    """Return the written tokens with all reported tokens. Raises the errors of `MALFORMED`."""
    return tuple(
        _step(
            _id(entry["token"]), entry["logprob"], {_id(each["token"]): each["logprob"] for each in alternatives(entry)}
        )
        for entry in positions(logprobs)
    )


def _inside(prompt: Sequence[int], choice: Mapping[str, Any]) -> tuple[Step, ...]:
    """Return the tokens of a prompt, from the second on, as steps."""
    steps = []
    for token, reported in zip(prompt[1:], choice["prompt_logprobs"][1:], strict=True):
        log_p = {int(other): each["logprob"] for other, each in reported.items()}
        steps.append(_step(token, log_p[token], log_p))
    return tuple(steps)


def _step(token: int, log_p: object, listed: Mapping[int, object]) -> Step:
    pairs = ((other, log_p_of(reported)) for other, reported in listed.items())
    return Step(token, dict(distribution((token, log_p_of(log_p)), pairs)))


def _id(token: str) -> int:
    return int(token.removeprefix(TOKEN))


class Versions:
    """Folders for vLLM's `lora_filesystem_resolver`, named secl-<version>-<digest of configuration and weights>.

    Servers cache results by an adapter's name, and read the adapter's weights once. If an update is undone, the next
    update has the same version number. The digest makes the name unique to the weights.

    Args:
        folder: the servers' VLLM_LORA_RESOLVER_CACHE_DIR.
        config: PEFT configuration of the adapter (`LoraConfig.to_dict()`), with the servers' name of the base model.
    """

    def __init__(self, folder: Path, config: Mapping[str, object]) -> None:
        self.folder = folder.absolute()
        self._config = json.dumps(dict(config), default=sorted, indent=2, sort_keys=True) + "\n"

    def publish(self, version: int, weights: bytes) -> str:
        """Write a version, remove the least recently used folders, and return the version's name. Raises StorageError.

        `weights`: safetensors bytes with PEFT's names.
        """
        digest = hashlib.sha256(self._config.encode() + weights).hexdigest()[:12]
        name = f"{PREFIX}-{version}-{digest}"
        try:
            if not self.keep(name):
                self._write(name, weights)
        except OSError as problem:
            raise StorageError(
                f"version {version} cannot be written to {self.folder}: {problem.strerror}."
            ) from problem
        self._remove_old()
        return name

    def keep(self, name: str) -> bool:
        """Mark a version as just used; return False if its folder is missing."""
        with suppress(FileNotFoundError):
            os.utime(self.folder / name)
            return True
        return False

    def _write(self, name: str, weights: bytes) -> None:
        """Write a folder under a temporary name, and rename the complete folder."""
        draft = self.folder / f".{name}-{uuid.uuid4().hex}"
        try:
            draft.mkdir(parents=True)
            (draft / CONFIG).write_text(self._config, encoding="utf-8")
            (draft / WEIGHTS).write_bytes(weights)
            publish_folder(draft, self.folder / name)
        except OSError:
            if not (self.folder / name).is_dir():  # else another process published the same weights meanwhile
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _remove_old(self) -> None:
        ours = re.compile(PREFIX + r"-\d+-[0-9a-f]{12}")
        with suppress(FileNotFoundError):  # another learner may have removed a folder already
            folders = [path for path in self.folder.iterdir() if ours.fullmatch(path.name)]
            for folder in sorted(folders, key=lambda path: path.stat().st_mtime)[:-MAX_FOLDERS]:
                shutil.rmtree(folder, ignore_errors=True)
