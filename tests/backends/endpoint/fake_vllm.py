"""A fake vLLM server with the routes that secl uses, whose logits follow a rule; in threads of the test's process."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.backends.endpoint.listener import Handler, Listener

Rule = Callable[[bytes, list[int]], NDArray[np.float64]]
"""Logits after a prompt, from the weights of an adapter (empty for the base model)."""

VOCABULARY = 40


def hashed(weights: bytes, prompt: list[int], vocabulary: int = VOCABULARY) -> NDArray[np.float64]:
    """Pseudo-random logits that depend on weights and prompt."""
    digest = hashlib.sha256(weights + repr(prompt).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big")).normal(size=vocabulary) * 3


class FakeVllm(Listener):
    """A vLLM server, which listens from the start."""

    def __init__(
        self,
        rule: Rule = hashed,
        *,
        decode: Callable[[list[int]], str] = str,
        encode: Callable[[str], list[int]] = lambda text: [*text.encode()],
    ) -> None:
        super().__init__()
        self.rule = rule
        self.decode, self.encode = decode, encode
        self.base = "base"
        self.root = "somewhere"
        self.adapters: Path | None = None  # folder of adapters by name
        self.window = 2048
        self.most = 20
        self.loaded: list[str] = []  # adapters loaded since the start
        self.asked: list[dict[str, Any]] = []  # completion requests that it answered
        self.spoiled = False  # reports as if another request of the batch had logprob_token_ids
        self.old = False  # ignores logprob_token_ids
        self.before: Callable[[], object] = lambda: None  # called before every completion
        self.breaks_off = False  # breaks off streams in the middle
        self._weights: dict[str, bytes] = {}  # by name; survives a restart, like a cache
        self.start()

    def start(self) -> None:
        """Begin to listen, with no adapter loaded."""
        self.loaded = []
        super().start()

    def models(self) -> list[str]:
        """Name of the model or adapter in each completion request."""
        return [body["model"] for body in self.asked]

    def answer(self, method: str, route: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Status and JSON for a request."""
        if (method, route) == ("GET", "/v1/models"):
            base = {"id": self.base, "root": self.root, "parent": None, "max_model_len": self.window}
            return 200, {"data": [base, *({"id": name, "parent": self.base} for name in self.loaded)]}
        return self._complete(body) if (method, route) == ("POST", "/v1/completions") else (404, {})

    def serve(self, http: Handler, body: dict[str, Any]) -> None:
        status, answer = self.answer(http.command, http.path, body)
        streams = status == 200 and body.get("stream")
        data = _events(answer["choices"]) if streams else json.dumps(answer).encode()
        http.reply(status, data, {}, lambda sent: sent[: len(sent) // 2] if streams and self.breaks_off else sent)

    def _find(self, name: str) -> bool:
        """Look for an adapter of this base model, as vLLM's lora_filesystem_resolver does."""
        folder = (self.adapters or Path("/nowhere")) / name
        if name not in self.loaded:
            if not (folder / "adapter_config.json").is_file():
                return False
            config = json.loads((folder / "adapter_config.json").read_text())
            if config.get("base_model_name_or_path") != self.root:
                return False
            self._weights.setdefault(name, (folder / "adapter_model.safetensors").read_bytes())
            self.loaded.append(name)
        # A real server exits if the folder of a loaded adapter is missing.
        assert folder.is_dir(), f"the folder of {name} is gone"
        return True

    def _complete(self, body: dict[str, Any]) -> tuple[int, Any]:
        self.before()
        if body["model"] not in ("", self.base) and not self._find(body["model"]):
            return 404, _error(f"The model `{body['model']}` does not exist.")
        if body["logprobs"] > self.most:
            return 400, _error(f"Requested sample logprobs of {body['logprobs']}, which is greater than max allowed")
        weights = self._weights.get(body["model"], b"")
        choices = []
        # With `n`, one prompt gets several texts, each with its own seed.
        asked = (
            [(body["prompt"], i) for i in range(body["n"])] if "n" in body else [(each, 0) for each in body["prompt"]]
        )
        for index, (given, offset) in enumerate(asked):
            prompt = self.encode(given) if isinstance(given, str) else given
            tokens, logs, tops = self._generate(weights, prompt, {**body, "seed": body.get("seed", 0) + offset})
            if self.spoiled and "logprob_token_ids" not in body:
                tops = [{f"token_id:{t}": p, "token_id:0": -9999.0} for t, p in zip(tokens, logs, strict=True)]
            logprobs = {"tokens": [f"token_id:{t}" for t in tokens], "token_logprobs": logs, "top_logprobs": tops}
            finish = "length" if len(tokens) == body["max_tokens"] else "stop"
            inside = {"prompt_logprobs": self._inside(weights, prompt, body)} if "prompt_logprobs" in body else {}
            choices.append({"index": index, "logprobs": logprobs, "finish_reason": finish, **inside})
        self.asked.append(body)
        return 200, {"choices": choices[::-1]}  # in no special order

    def _inside(
        self, weights: bytes, text: list[int], body: Mapping[str, Any]
    ) -> list[dict[str, dict[str, float]] | None]:
        """Reported log-probabilities of the tokens of a prompt."""
        reported: list[dict[str, dict[str, float]] | None] = [None]
        for i, token in enumerate(text[1:], 1):
            log_p = _log_softmax(self.rule(weights, text[:i]))
            best = np.argsort(-log_p, kind="stable")[: body["prompt_logprobs"]]
            reported.append({str(each): {"logprob": float(log_p[each])} for each in [token, *map(int, best)]})
        return reported

    def _generate(
        self, weights: bytes, prompt: list[int], body: Mapping[str, Any]
    ) -> tuple[list[int], list[float], list[dict[str, float]]]:
        tokens: list[int] = []
        logs: list[float] = []
        tops: list[dict[str, float]] = []
        chance = np.random.default_rng(body.get("seed"))
        while len(tokens) < body["max_tokens"]:
            log_p = _log_softmax(self.rule(weights, [*prompt, *tokens]))
            token = int(log_p.argmax())
            if body["temperature"] > 0:
                token = int(chance.choice(len(log_p), p=np.exp(log_p)))
            best = list(np.argsort(-log_p, kind="stable")[: body["logprobs"]])
            if "logprob_token_ids" in body and not self.old:
                best = body["logprob_token_ids"]
            tokens.append(token)
            logs.append(float(log_p[token]))
            tops.append({f"token_id:{i}": float(log_p[i]) for i in dict.fromkeys([token, *map(int, best)])})
            text = self.decode(tokens)
            if token in body["stop_token_ids"] or any(stop in text for stop in body["stop"]):
                break
        return tokens, logs, tops


def _events(choices: list[dict[str, Any]]) -> bytes:
    """Choices as server-sent events, in turns, with one token in each event."""
    longest = max(len(choice["logprobs"]["tokens"]) for choice in choices)
    lines = []
    for step in range(longest):
        for choice in choices:
            parts = {name: values[step : step + 1] for name, values in choice["logprobs"].items()}
            if parts["tokens"]:
                last = step + 1 == len(choice["logprobs"]["tokens"])
                event = {**choice, "logprobs": parts, "finish_reason": choice["finish_reason"] if last else None}
                lines.append(f"data: {json.dumps({'choices': [event]})}\n\n")
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


def _log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    shifted = logits - logits.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "BadRequestError", "code": 400}}
