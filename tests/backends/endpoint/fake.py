"""A fake server with OpenAI's API, whose answers follow a rule; it speaks HTTP in threads of the test's process."""

import copy
import json
import math
import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from secl.backends.endpoint.client import Endpoint
from secl.question import Question
from tests.backends.endpoint.listener import Handler, Listener

Distribution = Mapping[str, float]
"""Probabilities of the next token."""

Body = dict[str, Any]
LETTERS = re.compile(r"^([A-Z])\. (.*)$", re.MULTILINE)
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Lima"}'}}
"""The answer to every request with tools."""
LIMITS = ("max_tokens", "max_completion_tokens")
CHOICE = Question("Which?", options=("Rome", "Paris", "Lima!", "Bonn"), id="choice")
OPEN = Question("Which city?", id="open")
PLAIN: Distribution = {"Lima": 0.7, " Rio": 0.2, "I": 0.05}


def knowing(body: Body) -> list[Distribution]:
    """A model for which the option that ends in "!" is right: it chooses its letter, and calls it True."""
    asked = body["messages"][-1]["content"]
    if "one digit" in asked:
        sure = "!" in body["messages"][-3]["content"] if len(body["messages"]) > 2 else True
        return [{"8": 0.6, " 9": 0.2, "7": 0.1, "I": 0.05} if sure else {"3": 0.5, "2": 0.3, "Not": 0.1}]
    if "one word, True or False" in asked:
        right = re.search(r"Proposed answer: .*!", asked) is not None
        return [{"True": 0.8, "false": 0.1, "Yes": 0.05} if right else {"False": 0.6, " true": 0.3, "No": 0.05}]
    if "the letter of the correct option" in asked:
        options = LETTERS.findall(asked)
        p = {letter: 0.7 if text.endswith("!") else 0.05 for letter, text in options}
        return [{"**": 0.9}, {**p, "The": 0.02}, {"**": 0.9}]
    if "five different answers" in asked:
        return [{f"{number}. {text}\n": 1.0} for number, text in enumerate(("Rio", "Lima", "Quito", "Bogota"), 1)]
    return [PLAIN]


@dataclass(frozen=True)
class Form:
    """How a server reports thoughts."""

    field: str | None = None  # of the message with the thought; None: the thought is between marks in the content
    marks: tuple[str, str] = ("<think>", "</think>\n\n")  # without the first mark, the prompt opens the thought
    mixes: bool | str = True  # log-probabilities include those of the thought; "only": nothing else
    hides: bool = False  # the thought is left out
    end: str = ""  # token with log-probabilities that is no text
    mislabels: bool = False  # an answer without a thought is in the field for thoughts
    switched: Callable[[Body], bool] = lambda body: False  # whether a request switches thoughts off
    effortless: bool = False  # refuses log-probabilities together with a thought


class FakeServer(Listener):
    """A fake server; attributes switch its misbehaviour on."""

    def __init__(self, rule: Callable[[Body], list[Distribution]] = knowing) -> None:
        super().__init__()
        self.rule = rule  # gives the distribution of each token of an answer; the most probable one is written
        self.most = 20  # largest top_logprobs; a request for more is refused; 0 leaves log-probabilities out
        self.models = ["tiny"]
        self.strict = True  # refuses other names of models; else answers with its own model
        self.key: str | None = None  # that it wants
        self.statuses: list[int] = []  # statuses of the next refusals, in order; 0 closes the connection
        self.retry_after: str | None = None  # header of a refusal, in seconds
        self.delay = 0.0  # seconds before it answers
        self.broken: Callable[[bytes], bytes] = lambda body: body  # changes the body of an answer
        self.framed: Callable[[str], str] = str  # changes the text of a stream
        self.refuses: Callable[[Body], tuple[int, Any] | None] = lambda body: None  # status and error of a refusal
        self.edit: Callable[[Any], object] = lambda answer: answer  # changes the JSON of an answer or a chunk in place
        self.cut: int | None = None  # number of chunks after which the connection ends
        self.hushed = False  # a refused stream ends without a reason
        self.tells_usage = True  # a stream ends with the numbers of tokens
        self.formats = True  # accepts response_format
        self.several: bool | None = False  # writes `n` texts; False: writes one; None: refuses `n`
        self.thought: tuple[str, ...] = ()  # words of the thought before every answer
        self.form = Form()
        self.limit = "max_tokens"  # name of its field for the maximum number of tokens
        self.asked: list[Body] = []  # chat requests that it answered
        self.heard: list[Mapping[str, str]] = []  # headers of all requests

    def change(self, changes: Mapping[str, Any]) -> None:
        """Set some attributes; a name that does not exist is an error."""
        for name, value in changes.items():
            getattr(self, name)
            setattr(self, name, value)

    def serve(self, http: Handler, body: Body) -> None:
        self.heard.append(dict(http.headers))
        answer: Any = {"data": [{"id": name} for name in self.models]}
        status = 200
        if http.command == "POST":
            time.sleep(self.delay)
            status, answer = self.answer(body)
        if body.get("stream") and status == 200 and not self.statuses:
            http.stream([*map(json.dumps, self.chunks(answer)), "[DONE]"][: self.cut], self.framed)
        elif body.get("stream") and status != 200 and self.hushed:
            http.stream([])
        else:
            if self.key is not None and http.headers["authorization"] != f"Bearer {self.key}":
                status, answer = 401, {"error": {"message": "Incorrect API key."}}
            if self.statuses:
                status, answer = self.statuses.pop(0), {"error": {"message": "Not now."}}
            wait = {} if self.retry_after is None else {"retry-after": self.retry_after}
            if status == 200 and http.command == "POST":
                self.edit(answer)
            http.reply(status, json.dumps(answer).encode(), wait, self.broken)

    def answer(self, body: Body) -> tuple[int, Any]:
        """Status and body of the answer to a chat request."""
        if (refusal := self.refuses(body)) is not None:
            return refusal[0], {"error": refusal[1]}
        if self.strict and body.get("model") not in self.models:
            return 404, {"error": {"message": f"The model `{body.get('model')}` does not exist."}}
        if "messages" not in body or any(name in body for name in LIMITS if name != self.limit):
            return 400, {"error": {"message": f"Unsupported parameter: use {self.limit!r} instead."}}
        if self.form.effortless and self.thoughts(body) and body.get("logprobs"):
            return 400, {"error": {"message": "logprobs are not supported with reasoning models."}}
        if body.get("top_logprobs", 0) > self.most > 0:
            return 400, {"error": {"message": f"top_logprobs must be at most {self.most}."}}
        if 5000 < len(str(body.get("messages"))) < 2**20:
            return 400, {
                "error": {"message": "This model's maximum context length is 1024 tokens, but 1500 are asked."}
            }
        if ("response_format" in body and not self.formats) or ("n" in body and self.several is None):
            return 400, {"error": {"message": "Unsupported parameter."}}
        self.asked.append(body)
        count = body.get("n", 1) if self.several else 1
        choices = [{**self.choice({**body, "number": number}), "index": number} for number in range(count)]
        written = sum(choice.pop("length") for choice in choices)
        usage = {"prompt_tokens": 10, "completion_tokens": written, "total_tokens": 10 + written}
        return 200, {"choices": choices, "usage": usage}

    def chunks(self, answer: Any) -> list[Any]:
        """The chunks of a streamed answer."""
        chunks = chunks_of(answer, self.tells_usage)
        for chunk in chunks:
            self.edit(chunk)
        return chunks

    def thoughts(self, body: Body) -> list[Distribution]:
        """The tokens of the thought before an answer, with its marks."""
        if not self.thought or self.form.switched(body):
            return []
        return [{word: 0.9, "B": 0.05} for word in (self.form.marks[0], *self.thought, self.form.marks[1]) if word]

    def choice(self, body: Body) -> dict[str, Any]:
        """A text with its tokens."""
        form, most = self.form, body.get(self.limit)
        thoughts = self.thoughts(body)[:most]
        answer = self.rule(body)[: None if most is None else most - len(thoughts)]
        finish = "length" if len(thoughts) + len(answer) == most else "stop"
        listed = [*(thoughts if form.mixes else ()), *(() if form.mixes == "only" and thoughts else answer)]
        words = [*map(best, listed), *([form.end] if form.end else ())]
        content = [
            {
                "token": word,
                "logprob": math.log(step.get(word, 0.5)),
                "top_logprobs": top_of(step, body.get("top_logprobs", 20)),
            }
            for word, step in zip(words, [*listed, {form.end: 0.5}], strict=False)
            if body.get("logprobs") and self.most
        ]
        message = self.message("".join(map(best, thoughts)), "".join(map(best, answer)))
        if body.get("tools"):
            message, finish = {"role": "assistant", "content": None, "tool_calls": [CALL]}, "tool_calls"
        logprobs = {"content": content} if content else None
        length = len(thoughts) + len(answer)
        return {"message": message, "finish_reason": finish, "logprobs": logprobs, "length": length}

    def message(self, thought: str, answer: str) -> dict[str, Any]:
        """Thought and answer in the form of this server; the thought may be cut."""
        form = self.form
        if form.mislabels and not thought:
            thought, answer = answer, ""
        if form.field is None and not form.hides:
            return {"role": "assistant", "content": thought + answer}
        if form.hides:
            return {"role": "assistant", "content": answer}
        bare = thought.removeprefix(form.marks[0]).removesuffix(form.marks[1])
        return {"role": "assistant", "content": answer or None, str(form.field): bare or None}


def best(step: Distribution) -> str:
    """The most probable token."""
    return max(step, key=step.__getitem__)


def top_of(step: Distribution, count: int) -> list[dict[str, object]]:
    """The most probable tokens as the API lists them."""
    others = {f"other{number}": 1e-6 / (number + 1) for number in range(count)}
    best = sorted({**others, **step}.items(), key=lambda each: -each[1])[:count]
    return [{"token": token, "logprob": math.log(p), "bytes": None} for token, p in best]


def chunks_of(answer: Any, usage: bool) -> list[Any]:
    """A chat completion as chunks of a stream: first the thought, then each token of the answer."""
    (choice,) = answer["choices"]
    message, tokens = choice["message"], (choice["logprobs"] or {"content": ()})["content"]
    text = message["content"] or ""
    parts: list[Any] = [{"delta": {"role": "assistant"}, "finish_reason": None}]
    thought = {name: value for name, value in message.items() if name.startswith("reasoning") and value}
    if thought:
        rests = ("".join(token["token"] for token in tokens[count:]) for count in range(len(tokens)))
        count = next((n for n, rest in enumerate(rests) if text.strip() and rest.startswith(text)), len(tokens))
        parts.append({"delta": thought, "logprobs": {"content": tokens[:count]}, "finish_reason": None})
        tokens = tokens[count:]
    for token in tokens:
        delta = {"content": token["token"] if text.startswith(token["token"]) else ""}
        text = text.removeprefix(token["token"])
        parts.append({"delta": delta, "logprobs": {"content": [token]}, "finish_reason": None})
    if "tool_calls" in message:
        parts.append({"delta": {"tool_calls": [{"index": 0, **CALL}]}, "finish_reason": None})
    parts.append({"delta": {}, "finish_reason": choice["finish_reason"]})
    chunks: list[Any] = [{"choices": [part]} for part in parts]
    return [*chunks, {"choices": [], "usage": answer["usage"]}] if usage else chunks


def direct(server: FakeServer) -> type[Endpoint]:
    """A client that calls a server in this process."""

    class Direct(Endpoint):
        def models(self) -> list[dict[str, Any]]:
            return [{"id": name} for name in server.models]

        def post(self, route: str, body: Mapping[str, object]) -> Any:
            status, answer = server.answer(dict(body))
            if status != 200:
                raise self._refusal(route, status, answer["error"])
            answer = copy.deepcopy(answer)
            server.edit(answer)
            return answer

        def stream(self, route: str, body: Mapping[str, object]) -> Generator[Any, None, None]:
            status, answer = server.answer(dict(body))
            if status != 200:
                raise self._refusal(route, status, answer["error"])
            yield from server.chunks(copy.deepcopy(answer))

    return Direct


@contextmanager
def running(server: FakeServer) -> Iterator[FakeServer]:
    """The server at a free port."""
    server.start()
    try:
        yield server
    finally:
        server.kill()
