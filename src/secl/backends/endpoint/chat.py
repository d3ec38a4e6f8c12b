"""Chat requests to a server, with their retries and streams."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from typing import TypeVar

from secl.backends.endpoint.abilities import OFF, ON, ROUTE, WORD_TOKENS, Abilities, messages_of
from secl.backends.endpoint.client import Endpoint
from secl.backends.endpoint.reading import Said, Usage, read_chat, said_in
from secl.backends.generation import thoughts_apart
from secl.conversation import Prompt
from secl.errors import ModelError, QuestionError, UnavailableError
from secl.evidence import Thought
from secl.prompts.parsing import bare_thought
from secl.prompts.templates import THOUGHT_END, answer_prompt, behind_thought_prompt, thinking_prompt
from secl.question import Question
from secl.writing import Finish, Piece, Token, Writing

CONCURRENT_CHATS = 16
"""Maximum number of parallel requests, and of questions in progress."""

FINISHES: Mapping[str, Finish] = {"stop": "stop", "length": "length"}

Pending = Future[Piece]

P = TypeVar("P", bound=Piece)


class Requests:
    """Sends chat requests. Instances are thread-safe. The requests raise the errors of `Endpoint.post`."""

    def __init__(self, endpoint: Endpoint, abilities: Abilities) -> None:
        self.endpoint, self.abilities = endpoint, abilities
        self._pool = ThreadPoolExecutor(CONCURRENT_CHATS, thread_name_prefix="secl-requests")
        self._waiting: set[Pending] = set()

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

        def ask(prompt: Prompt, *, think: bool = False) -> Piece:
            body = self.abilities.chat(prompt, tokens, think=think) | drawn
            return read_chat(self.endpoint.post(ROUTE, body), thinking=self.abilities.thinks(think))

        def answer() -> Piece:
            if think is not None and self.abilities.request:
                further, written = reasoned(self.endpoint, self.abilities, think, drawn)
                written = written if further is None else _after(written, ask(further))
            else:
                written = ask(prompt, think=think is not None)
            if think is None or written.thought is None or written.text.strip() or self.abilities.off is None:
                return written
            return _after(written, ask(prompt))

        pending = self._pool.submit(answer)
        self._waiting.add(pending)
        pending.add_done_callback(self._waiting.discard)
        return pending

    def write(self, question: Question, writing: Writing) -> Iterator[Piece]:
        """Yield the pieces of all texts in turn; see `secl.model.Model.write`.

        Each text is a request of its own, because some servers write only one text per request. The draft in a last
        piece is the tuple of the text's tokens. Raises QuestionError: the server gives fewer log-probabilities than
        requested.
        """
        if (writing.top_logprobs or 0) > self.abilities.top:
            raise QuestionError(
                f"top_logprobs is {writing.top_logprobs}, but the endpoint gives at most {self.abilities.top}."
            )
        coming = (self._write(question, writing, number) for number in range(writing.n))
        texts = [thoughts_apart(text, unopened=self.abilities.unopened) for text in coming]
        try:
            while texts:
                for text in [*texts]:
                    piece = next(text, None)
                    if piece is None:
                        texts.remove(text)
                    else:
                        yield piece
        finally:
            for text in texts:
                text.close()

    def _write(self, question: Question, writing: Writing, number: int) -> Generator[Piece, None, None]:
        """Yield the pieces of a text. If no text follows the thought, request a text without a thought."""
        able, begun = self.abilities.thinks_first and self.abilities.off is not None, False
        with closing(self._stream(question, writing, number)) as pieces:
            for piece in pieces:
                begun = begun or bool(piece.text.strip())
                if piece.finish is None or begun or not able or piece.whole_thought is None:
                    yield piece
                    continue
                with closing(self._stream(question, writing, number, think=False)) as further:
                    yield from (each if each.finish is None else _after(piece, each) for each in further)

    def _stream(
        self, question: Question, writing: Writing, number: int, *, think: bool = True
    ) -> Generator[Piece, None, None]:
        body, thinks = self._body(question, writing, number, think=think), self.abilities.thinks(think)
        thought: Piece | None = None
        if think and self.abilities.request:
            drawn = {name: body[name] for name in ("temperature", "top_p", "seed")}
            further, thought = reasoned(self.endpoint, self.abilities, question, drawn)
            yield Piece(choice=number, thought=thought.thought)
            body |= {} if further is None else {"messages": messages_of(further)}
        parts: list[Said] = []
        held = ""
        usage: Usage = {}
        try:
            with closing(self.endpoint.stream(ROUTE, body | {"stream_options": {"include_usage": True}})) as chunks:
                for chunk in chunks:
                    texts, used = said_in(chunk)
                    usage = used or usage
                    for piece in texts:
                        parts.append(piece)
                        held += piece.thought or ""
                        tokens = () if piece.thought else _shown(piece.tokens, writing.top_logprobs)
                        # If secl expects no thought, the text in the field for thoughts may be the answer
                        # (`Said.alone`), so secl holds this text back until the content begins.
                        shown = held if piece.text.strip() or thinks else ""
                        if piece.text or tokens or shown:
                            held = held.removeprefix(shown)
                            yield Piece(choice=number, text=piece.text, tokens=tokens, thought=shown or None)
            said = Said.joined(parts)
            if not said.finish:
                raise self.endpoint.broke_off()
        except UnavailableError:
            if not parts:  # llama.cpp closes the stream if it refuses a prompt; an unstreamed request gets the reason
                with suppress(UnavailableError):
                    self._prompt_tokens(body)
            raise
        if said.finish not in FINISHES:
            raise QuestionError(
                f"the endpoint ended the answer with finish_reason {said.finish!r}, but secl rates only answers that "
                f"end with {' or '.join(FINISHES)}; change the question."
            )
        alone = said.alone(thinking=thinks, stop=writing.stop)
        length = usage.get("completion_tokens") or len(said.tokens)
        last = Piece(
            choice=number,
            text="" if said.text.strip() else alone.text,
            tokens=() if said.text.strip() else _shown(alone.tokens, writing.top_logprobs),
            finish=FINISHES[said.finish],
            prompt_tokens=usage.get("prompt_tokens") or self._prompt_tokens(body),
            completion_tokens=length,
            draft=alone.tokens,
            thought=None if alone.thought is None else held,
            whole_thought=alone.whole_thought(length),
        )
        yield last if thought is None else replace(_after(thought, last), thought=None)

    def _body(self, question: Question, writing: Writing, number: int, *, think: bool) -> dict[str, object]:
        """Return the body of a request. With `Writing.or_fewer`, the body has no token limit."""
        most = None if writing.or_fewer else writing.max_tokens
        body = self.abilities.chat(answer_prompt(question), most, think=think)
        body |= {"temperature": writing.temperature, "top_p": writing.top_p, "seed": writing.seed + number}
        stop = {"stop": list(writing.stop)} if writing.stop else {}
        switches = {name for each in (*OFF, *ON) for name in each}
        wished = {name: value for name, value in writing.extra.items() if name in switches}
        return {**writing.extra, **body, **stop, **wished}

    def _prompt_tokens(self, body: Mapping[str, object]) -> int:
        """Request the length of a prompt from a server that omits usage in a stream."""
        tokens = read_chat(self.endpoint.post(ROUTE, {**body, self.abilities.limit: 1})).prompt_tokens
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


def reasoned(
    endpoint: Endpoint, abilities: Abilities, question: Question, drawn: Mapping[str, object]
) -> tuple[Prompt | None, Piece]:
    """Request a thought about a question; `drawn` are the sampling parameters.

    Return the conversation that asks for the answer after the thought (None if the thought is empty), and the thought.
    """
    body = abilities.chat(thinking_prompt(question, abilities.request), abilities.budget)
    del body["logprobs"], body["top_logprobs"]
    written = read_chat(endpoint.post(ROUTE, {**body, "stop": [THOUGHT_END], **drawn}))
    text, end, _ = written.text.partition(THOUGHT_END)
    text, cut = bare_thought(text), written.finish == "length" and not end
    further = behind_thought_prompt(question, abilities.request, text) if text else None
    thought = Thought(text=text or None, tokens=written.completion_tokens, cut=cut)
    return further, replace(written, text="", thought=text, whole_thought=thought)


def _after(thought: Piece, reply: P) -> P:
    """Return a reply with the thought of an earlier request, and with the token counts of both requests."""
    return replace(
        reply,
        prompt_tokens=thought.prompt_tokens + reply.prompt_tokens,
        completion_tokens=thought.completion_tokens + reply.completion_tokens,
        thought=thought.thought,
        whole_thought=thought.whole_thought,
    )


def _shown(tokens: Sequence[Token], top: int | None) -> tuple[Token, ...]:
    return () if top is None else tuple(replace(token, top=token.top[:top]) for token in tokens)
