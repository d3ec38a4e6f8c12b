"""Replies to chats, whole and as streams of server-sent events, with an object `secl` in every choice.

A stream: role of each choice -> pieces, as they are written -> for each choice why it ended, and its `secl` -> usage ->
[DONE]. An object comes in one piece.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Literal, NotRequired

from typing_extensions import TypedDict

from secl.conversation import ToolCall
from secl.errors import SeclError
from secl.server.entries import Values
from secl.server.http.confidence import LATER, UNWANTED, Secl, secl_of, unrated
from secl.server.http.errors import ascii_json, describe_failure, error_json, to_request_error
from secl.server.http.waiting import TextEvents, of_service
from secl.server.online.texts import Ended
from secl.writing import Finish, Piece, Token

if TYPE_CHECKING:
    from secl.backends.endpoint.client import Upstream

LEAST = -9999.0
"""Logarithm of a probability of 0, as at OpenAI's."""

GRACE = 0.5
"""Seconds that the end of a stream waits for the confidence; clients take a longer silence for a fault."""

log = logging.getLogger("secl.server")


class Usage(TypedDict):
    """Tokens of the prompt, counted once, and of all texts. `secl.records` has the tokens for the confidence."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class TopLogProb(TypedDict):
    """A token with its log-probability. bytes: null if the token is only part of a character."""

    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogProb(TopLogProb):
    """A token of a text, with the most probable tokens in its place."""

    top_logprobs: list[TopLogProb]


class LogProbs(TypedDict):
    """Log-probabilities of a text's tokens, before temperature and top_p."""

    content: list[TokenLogProb]
    refusal: None


class CalledFunction(TypedDict):
    """The called function, with its arguments as the text of a JSON object."""

    name: str
    arguments: str


class AnsweredCall(TypedDict):
    """A call of a tool."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class AnswerMessage(TypedDict):
    """The visible answer. tool_calls: absent for a text. reasoning_content: the thought before the answer, if any."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    tool_calls: NotRequired[list[AnsweredCall]]
    reasoning_content: NotRequired[str]


class Choice(TypedDict):
    """An answer with its confidence."""

    index: int
    message: AnswerMessage
    finish_reason: Finish | Literal["tool_calls"]
    logprobs: LogProbs | None
    secl: Secl


class Completion(TypedDict):
    """OpenAI's chat completion. `secl` belongs to the first choice; `warnings` name fields without effect."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    secl: Secl
    warnings: list[str]


class ModelCard(TypedDict):
    """A model that answers requests."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(TypedDict):
    """The list of models, which has one entry."""

    object: Literal["list"]
    data: list[ModelCard]


def usage_of(prompt: int, written: int) -> Usage:
    return {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}


def log_probs(tokens: Sequence[Token]) -> LogProbs | None:
    """Return the log-probabilities of a text, or of a piece of it; None without tokens."""
    content: list[TokenLogProb] = [
        {**_log_prob(token.text, token.log_p), "top_logprobs": [_log_prob(*top) for top in token.top]}
        for token in tokens
    ]
    return {"content": content, "refusal": None} if content else None


def _log_prob(text: str, log_p: float) -> TopLogProb:
    """UTF-8 bytes of a token. A decoder turns half a character into U+FFFD, so its original bytes are unknown."""
    return {"token": text, "logprob": max(LEAST, log_p), "bytes": None if "\ufffd" in text else list(text.encode())}


def choice_of(
    text: str,
    finish: Finish,
    secl: Secl,
    *,
    tokens: Sequence[Token] = (),
    index: int = 0,
    thought: str | None = None,
    calls: Sequence[ToolCall] = (),
) -> Choice:
    """Return a text, calls or both with their confidence, and the thought before them."""
    message: AnswerMessage = {"role": "assistant", "content": text, "refusal": None}
    if thought:
        message["reasoning_content"] = thought  # the name that vLLM, llama-server and DeepSeek use
    if calls:
        message["content"] = text or None
        message["tool_calls"] = [
            {
                "id": f"call_{secrets.token_hex(12)}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in calls
        ]
    reason: Finish | Literal["tool_calls"] = "tool_calls" if calls else finish
    return {"index": index, "message": message, "finish_reason": reason, "logprobs": log_probs(tokens), "secl": secl}


class ChatReply:
    """Builds the reply to one chat, whole or in chunks.

    Attributes:
        model: the model's name for clients.
        full: whether `secl` has every detail.
        with_usage: whether a stream ends with the numbers of tokens.
        warnings: names of fields without effect, in sentences.
    """

    def __init__(self, model: str, *, full: bool, with_usage: bool) -> None:
        self.model, self.full, self.with_usage = model, full, with_usage
        self.warnings: list[str] = []
        self.id, self.created = f"chatcmpl-{secrets.token_hex(16)}", int(time.time())

    def whole(self, choices: list[Choice], usage: Usage) -> Completion:
        return {
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": choices,
            "usage": usage,
            "secl": choices[0]["secl"],
            "warnings": self.warnings,
        }

    def texts(self, ended: Ended, missing: Sequence[Secl] = ()) -> Completion:
        """Return the whole reply with texts; `missing`: what the choices have in place of confidences."""
        rated = [secl_of(answer, full=self.full) for answer in ended.answers or ()]
        pairs = zip(ended.texts, rated or missing or [UNWANTED] * len(ended.texts), strict=True)
        choices = [
            choice_of(text.text, text.finish or "length", secl, tokens=text.tokens, index=index, thought=text.thought)
            for index, (text, secl) in enumerate(pairs)
        ]
        usage = usage_of(ended.texts[0].prompt_tokens, sum(text.completion_tokens for text in ended.texts))
        return self.whole(choices, usage)

    async def chunks_of(self, texts: TextEvents, first: Piece | Ended) -> AsyncIterator[Values]:
        """Yield the chunks of the reply while its texts are written.

        If the server computes a confidence too late, only the record has this confidence.
        """
        for index in range(texts.writing.n):
            yield self._chunk(index, {"role": "assistant", "content": ""})
        event = first
        while isinstance(event, Piece):
            if event.thought:
                yield self._chunk(event.choice, {"reasoning_content": event.thought})
            if event.text or event.tokens:
                yield self._chunk(event.choice, {"content": event.text}, logprobs=log_probs(event.tokens))
            event = await texts.next()
        rated = await texts.next_within(GRACE)
        late = [unrated(LATER.format(name), name) for name in texts.record_ids]
        for chunk in self._last_chunks(self.texts(rated if isinstance(rated, Ended) else event, late)):
            yield chunk

    async def chunks_at_once(self, reply: Completion) -> AsyncIterator[Values]:
        """Yield the chunks of a reply that is already complete."""
        (choice,) = reply["choices"]
        delta: Values = {**choice["message"]}
        if "tool_calls" in delta:
            delta["tool_calls"] = [{**call, "index": number} for number, call in enumerate(delta["tool_calls"])]
        yield self._chunk(0, delta)
        for chunk in self._last_chunks(reply):
            yield chunk

    async def passed(self, upstream: Upstream, body: Values, secl: Secl) -> AsyncGenerator[Values]:
        """Yield the chunks of another server's answer, with `secl` at the end of each choice.

        Raises the errors of `wait_for`.
        """
        chunks, loop = upstream.chat(body), asyncio.get_running_loop()
        thread = ThreadPoolExecutor(1, thread_name_prefix="secl-passing")
        try:
            while (chunk := await loop.run_in_executor(thread, next, chunks, None)) is not None:
                choices = [dict(choice) for choice in chunk.get("choices") or ()]
                ended = [choice for choice in choices if choice.get("finish_reason") is not None]
                for choice in ended:
                    choice["secl"] = secl
                marks = {"secl": secl, "warnings": self.warnings} if ended else {}
                yield {**chunk, "model": self.model, "choices": choices, **marks}
        except Exception as problem:
            raise of_service(problem) from None
        finally:
            thread.submit(chunks.close)  # after a chunk that is still awaited
            thread.shutdown(wait=False)

    def _headed(self, chunk: Values) -> Values:
        head = {"id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model}
        return {**head, **({"usage": None} if self.with_usage else {}), **chunk}

    def _chunk(self, index: int, delta: Values, **more: object) -> Values:
        """Return a chunk of one choice."""
        choice = {"index": index, "delta": delta, "finish_reason": None, "logprobs": None, **more}
        return self._headed({"choices": [choice]})

    def _last_chunks(self, reply: Completion) -> Iterator[Values]:
        for choice in reply["choices"]:
            secl = choice["secl"]
            chunk = self._chunk(choice["index"], {}, finish_reason=choice["finish_reason"], secl=secl)
            yield chunk | {"secl": secl, "warnings": self.warnings}
        if self.with_usage:
            yield self._headed({"choices": [], "usage": reply["usage"]})


async def sent(chunks: AsyncIterator[Values], cancel: Callable[[], None]) -> AsyncIterator[str]:
    """Chunks as server-sent events, then the end of the stream; a failure becomes the last event before the end."""
    try:
        async for chunk in chunks:
            yield f"data: {ascii_json(chunk)}\n\n"
    except Exception as problem:
        if not isinstance(problem, SeclError):
            log.error("a stream failed: %s", describe_failure(problem))
            problem = SeclError()
        yield f"data: {ascii_json(error_json(to_request_error(problem)))}\n\n"
    finally:
        cancel()  # the client may have gone
    yield "data: [DONE]\n\n"
