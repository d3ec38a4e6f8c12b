"""Chat requests to a server, with their retries and streams."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import TypeVar

from secl.backends.endpoint.abilities import ON, ROUTE, THOUGHTS_OFF, TRIAL, WORD_TOKENS, Abilities, messages_of
from secl.backends.endpoint.client import OTHERWISE, Body, Endpoint
from secl.backends.endpoint.probabilities import TEMPERED, TOO_FEW, fault_of
from secl.backends.endpoint.reading import OTHER_REPLIES, ReplyPart, SpelledText, TokenCounts, read_parts, read_reply
from secl.backends.generation import split_thoughts
from secl.conversation import Prompt
from secl.errors import FailedError, ModelError, QuestionError, UnavailableError
from secl.evidence import Thought
from secl.prompts.parsing import bare_thought
from secl.prompts.templates import THOUGHT_END, answer_prompt, behind_thought_prompt, thinking_prompt
from secl.question import Question
from secl.writing import Chunk, SamplingParameters, Token

CONCURRENT_CHATS = 16
"""Maximum number of parallel requests, and of questions in progress."""

FAILURES = 20
"""Maximum number of requests that fail in a row before a run stops. A question takes several requests."""

DAMAGED = "{} reports {}; secl leaves the log-probabilities of this reply out of the confidence."

Pending = Future[Chunk]

P = TypeVar("P", bound=Chunk)


class ChatClient:
    """Sends chat requests, and reads the replies. Instances are thread-safe.

    All requests raise the errors of `Endpoint.post`. They warn of damaged log-probabilities, which secl leaves out.
    """

    def __init__(self, endpoint: Endpoint, abilities: Abilities) -> None:
        self.endpoint, self.abilities = endpoint, abilities
        self._pool = ThreadPoolExecutor(CONCURRENT_CHATS, thread_name_prefix="secl-requests")
        self._waiting: set[Pending] = set()
        self._failed = 0

    def replies(self, body: Body, *, thinking: bool, schema: bool = False) -> tuple[list[SpelledText], TokenCounts]:
        """Return the texts that answer a request, and the usage. Raises QuestionError: the reply is no complete text.

        `schema`: whether the reply is an object of a schema.
        """
        with self._skipping():
            texts, usage = read_parts(self.endpoint.post(ROUTE, body), self.endpoint.url)
        if not texts:
            raise ModelError(OTHERWISE.format(self.endpoint.url))
        usage = {"completion_tokens": sum(len(said.listed) for said in texts), **usage}
        least = 0 if schema else self._least
        return [self._spell(said, thinking=thinking, least=least) for said in texts], usage

    @property
    def _least(self) -> int:
        """Minimum number of tokens in a list. Servers that merge tokens of equal texts list fewer than requested."""
        return max(2, self.abilities.top // 2)

    def _spell(self, said: ReplyPart, *, thinking: bool, least: int, stop: Sequence[str] = ()) -> SpelledText:
        if said.finish in OTHER_REPLIES:
            raise QuestionError(
                f"{self.endpoint.url} ended the reply with finish_reason {said.finish!r}, so the reply is no complete "
                "text; change the question."
            )
        written = said.spell(thinking=thinking, stop=stop, least=least)
        if written.damage:
            warnings.warn(DAMAGED.format(self.endpoint.url, written.damage), stacklevel=2)
        return written

    @contextmanager
    def _skipping(self) -> Iterator[None]:
        """Raise a QuestionError if a request fails (status 500) on a server that still answers a trial question.

        Raises FailedError (`UnavailableError`): the trial fails too, or too many requests fail in a row.
        """
        try:
            yield
        except FailedError as failure:
            self._failed += 1
            if self._failed > FAILURES:
                raise
            try:
                self.endpoint.post(ROUTE, self.abilities.chat(TRIAL))
            except ModelError:
                raise failure from None
            raise QuestionError(str(failure)) from failure
        self._failed = 0

    def reasoned(self, question: Question, drawn: Body) -> tuple[Prompt | None, Chunk]:
        """Request a thought about a question; `drawn` are the sampling parameters.

        Return the conversation that asks for the answer after the thought (None if the thought is empty), and the
        thought.
        """
        request = self.abilities.request
        body = self.abilities.chat(thinking_prompt(question, request), self.abilities.budget)
        del body["logprobs"], body["top_logprobs"]
        with self._skipping():
            answer = self.endpoint.post(ROUTE, {**body, "stop": [THOUGHT_END], **drawn})
        said, usage = read_reply(answer, self.endpoint.url)
        written = said.spell().chunk(usage)
        text, end, _ = written.text.partition(THOUGHT_END)
        text, cut = bare_thought(text), written.finish == "length" and not end
        further = behind_thought_prompt(question, request, text) if text else None
        thought = Thought(text=text or None, tokens=written.completion_tokens, cut=cut)
        return further, replace(written, text="", tokens=(), thought=text, whole_thought=thought)

    def send(
        self,
        prompt: Prompt,
        tokens: int = WORD_TOKENS,
        *,
        seed: int | None = None,
        top_p: float = 1,
        think: Question | None = None,
    ) -> Pending:
        """Request the greedy answer; with a seed, request a draw at temperature 1 with `top_p`.

        `think`: the question about which the model may think before the answer; None for no thought. If no answer
        follows the thought, for example because of the token limit, secl requests an answer without a thought, unless
        the model always thinks.
        """
        drawn = {} if seed is None else {"temperature": 1, "top_p": top_p, "seed": seed % 2**31}

        def ask(prompt: Prompt, *, think: bool = False) -> Chunk:
            body = self.abilities.chat(prompt, tokens, think=think) | drawn
            (written, *_), usage = self.replies(body, thinking=self.abilities.thinks(think))
            return written.chunk(usage)

        def answer() -> Chunk:
            if think is not None and self.abilities.request:
                further, written = self.reasoned(think, drawn)
                written = written if further is None else _prepend_thought(written, ask(further))
            else:
                written = ask(prompt, think=think is not None)
            if think is None or written.thought is None or written.text.strip() or self.abilities.off is None:
                return written
            return _prepend_thought(written, ask(prompt))

        pending = self._pool.submit(answer)
        self._waiting.add(pending)
        pending.add_done_callback(self._waiting.discard)
        return pending

    def write(self, question: Question, sampling: SamplingParameters) -> Iterator[Chunk]:
        """Yield the chunks of all texts in turn; see `secl.model.Model.write`.

        Each text is a request of its own, because some servers write only one text per request. The generation in a
        last chunk is the tuple of the text's tokens. Raises QuestionError: the server gives fewer log-probabilities
        than requested.
        """
        if (sampling.top_logprobs or 0) > self.abilities.top:
            raise QuestionError(
                f"top_logprobs is {sampling.top_logprobs}, but the endpoint gives at most {self.abilities.top}."
            )
        coming = (self._write(question, sampling, number) for number in range(sampling.n))
        texts = [split_thoughts(text, unopened=self.abilities.unopened) for text in coming]
        try:
            while texts:
                for text in [*texts]:
                    chunk = next(text, None)
                    if chunk is None:
                        texts.remove(text)
                    else:
                        yield chunk
        finally:
            for text in texts:
                text.close()

    def _write(self, question: Question, sampling: SamplingParameters, number: int) -> Generator[Chunk, None, None]:
        """Yield the chunks of a text. If no text follows the thought, request a text without a thought."""
        able, begun = self.abilities.thinks_first and self.abilities.off is not None, False
        with closing(self._stream(question, sampling, number)) as chunks:
            for chunk in chunks:
                begun = begun or bool(chunk.text.strip())
                if chunk.finish is None or begun or not able or chunk.whole_thought is None:
                    yield chunk
                    continue
                with closing(self._stream(question, sampling, number, think=False)) as further:
                    yield from (each if each.finish is None else _prepend_thought(chunk, each) for each in further)

    def _stream(
        self, question: Question, sampling: SamplingParameters, number: int, *, think: bool = True
    ) -> Generator[Chunk, None, None]:
        body, thinks = self._body(question, sampling, number, think=think), self.abilities.thinks(think)
        thought: Chunk | None = None
        if think and self.abilities.request:
            drawn = {name: body[name] for name in ("temperature", "top_p", "seed")}
            further, thought = self.reasoned(question, drawn)
            yield Chunk(choice=number, thought=thought.thought)
            body |= {} if further is None else {"messages": messages_of(further)}
        held = StreamBuffer(number, sampling.top_logprobs, thinks)
        usage: TokenCounts = {}
        try:
            streamed = self.endpoint.stream(ROUTE, body | {"stream_options": {"include_usage": True}})
            with self._skipping(), closing(streamed) as chunks:
                for chunk in chunks:
                    texts, used = read_parts(chunk, self.endpoint.url)
                    usage = used or usage
                    yield from held.take(texts)
        except UnavailableError:
            if not held.parts:  # llama.cpp closes the stream if it refuses a prompt; a whole reply has the reason
                with suppress(UnavailableError):
                    self._prompt_tokens(body)
            raise
        said = ReplyPart.joined(held.parts)
        if self.abilities.tempered and sampling.temperature not in (0, 1):
            said = replace(said, damage=TEMPERED)
        written = self._spell(said, thinking=thinks, least=self._least, stop=sampling.stop)
        usage = {
            "prompt_tokens": usage.get("prompt_tokens") or self._prompt_tokens(body),
            "completion_tokens": usage.get("completion_tokens") or sum(len(each.listed) for each in held.parts),
        }
        last = held.last(written, usage)
        yield last if thought is None else replace(_prepend_thought(thought, last), thought=None)

    def _body(self, question: Question, sampling: SamplingParameters, number: int, *, think: bool) -> dict[str, object]:
        """Return the body of a request. With `SamplingParameters.or_fewer`, the body has no token limit."""
        most = None if sampling.or_fewer else sampling.max_tokens
        body = self.abilities.chat(answer_prompt(question), most, think=think)
        body |= {"temperature": sampling.temperature, "top_p": sampling.top_p, "seed": sampling.seed + number}
        body |= {} if sampling.temperature else self.abilities.greedy
        stop = {"stop": list(sampling.stop)} if sampling.stop else {}
        switches = {name for each in (*THOUGHTS_OFF, *ON) for name in each}
        wished = {name: value for name, value in sampling.extra.items() if name in switches}
        return {**sampling.extra, **body, **stop, **wished}

    def _prompt_tokens(self, body: Mapping[str, object]) -> int:
        """Request the length of a prompt from a server that omits usage in a stream."""
        _, usage = read_reply(self.endpoint.post(ROUTE, {**body, self.abilities.limit: 1}), self.endpoint.url)
        tokens = usage.get("prompt_tokens", 0)
        if not tokens:
            raise ModelError(
                f"{self.endpoint.url} does not report the number of prompt tokens; choose a server that does."
            )
        return tokens

    def abandon(self) -> None:
        """Cancel the waiting requests; their futures raise `CancelledError`."""
        for pending in [*self._waiting]:
            pending.cancel()

    def close(self) -> None:
        """Cancel the waiting requests, and let the running requests end."""
        self._pool.shutdown(cancel_futures=True)


class StreamBuffer:
    """The parts of a streamed text, as chunks.

    If secl expects no thought (`thinks` is False), the text in the field for thoughts may be the answer
    (`ReplyPart.spell`), so the chunks hold this text back until the content begins.
    """

    def __init__(self, number: int, top: int | None, thinks: bool) -> None:
        self.number, self.top, self.thinks = number, top, thinks
        self.parts: list[ReplyPart] = []
        self._thought, self._begun = "", False

    def take(self, texts: Sequence[ReplyPart]) -> Iterator[Chunk]:
        """Yield the chunks that can be shown after an event of the stream."""
        for part in texts:
            self.parts.append(part)
            self._begun = self._begun or bool(part.text.strip())
            self._thought += part.thought or ""
            tokens = () if part.thought or self.top is None else self._report(part.tokens)
            thought = self._flush() if self.thinks or self._begun else ""
            if part.text or tokens or thought:
                yield Chunk(choice=self.number, text=part.text, tokens=tokens, thought=thought or None)

    def last(self, written: SpelledText, usage: TokenCounts) -> Chunk:
        """Return the last chunk, with the text if it was held back."""
        chunk, rest = written.chunk(usage), self._flush()
        text, tokens = ("", ()) if self._begun else (written.text, self._report(written.tokens))
        thought = None if written.thought is None else rest
        return replace(chunk, choice=self.number, text=text, tokens=tokens, thought=thought, generation=written.tokens)

    def _flush(self) -> str:
        thought, self._thought = self._thought, ""
        return thought

    def _report(self, tokens: Sequence[Token]) -> tuple[Token, ...]:
        """Return the tokens with as many alternatives as the request asks for, without damaged tokens."""
        if self.top is None:
            return ()
        sound = [each for each in tokens if each.top and fault_of(each.top) in ("", TOO_FEW)]
        return tuple(replace(each, top=each.top[: self.top]) for each in sound)


def _prepend_thought(thought: Chunk, reply: P) -> P:
    """Return a reply with the thought of an earlier request, and with the token counts of both requests."""
    return replace(
        reply,
        prompt_tokens=thought.prompt_tokens + reply.prompt_tokens,
        completion_tokens=thought.completion_tokens + reply.completion_tokens,
        thought=thought.thought,
        whole_thought=thought.whole_thought,
    )
