"""Chat requests in the way that a server understands; one trial request at the start finds out its abilities."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import product

from secl.backends.endpoint.client import Endpoint
from secl.backends.endpoint.reading import (
    DIGITS,
    OTHERWISE,
    Said,
    Usage,
    bins_of,
    read_chat,
    read_names,
    said_in,
    split_thought,
)
from secl.conversation import Turn
from secl.errors import ModelError, ParameterError, QuestionError, UnavailableError
from secl.prompts.templates import Prompt, answer_prompt, digit_prompt
from secl.question import Question
from secl.writing import Finish, Piece, Token, Writing, Written

TOPS = (20, 10, 5)
"""Most probable tokens to ask for; the first number counts that a server accepts."""

LIMITS = ("max_tokens", "max_completion_tokens")
"""Names of the field with the most tokens to write."""

CONCURRENT_CHATS = 16
"""Most requests, and most questions, that are under way together."""

OFF: Sequence[Mapping[str, object]] = (
    {},
    {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}},
    {"reasoning_effort": "none"},
)
"""Fields that switch thoughts off, tried in order. The model may not think. vLLM, SGLang and llama.cpp pass the second
row to the chat template (Qwen and most others know the first name, DeepSeek and Granite the second). Ollama and OpenAI
take the third; Ollama's own "think" has no effect on this route."""

ROUTE = "/chat/completions"

FINISHES: Mapping[str, Finish] = {"stop": "stop", "length": "length"}

WORD_TOKENS = 12
"""Tokens for a letter, a digit or a verdict, and for what a model may say before it."""

MUSING_TOKENS = 400
"""Tokens for a second trial reply, where the first did not end and began with another word than a digit: some models
begin a thought without a mark, and only end it with one."""

TRIAL = digit_prompt(Prompt(("Question: What is 2 + 2?",)), "4")

Pending = Future[Written]

ALL_DIGITS = 10
"""Fewest log-probabilities that can show every digit."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """Abilities of a server.

    Attributes:
        model: name of the model there.
        top: number of the most probable tokens that it reports.
        limit: its field for the most tokens to write, one of `LIMITS`.
        switch: fields of every request that switch thoughts off.
        digit_mass: probability of all digits together in its answer to the trial request, which asks for one.
    """

    model: str
    top: int
    limit: str
    switch: Mapping[str, object] = field(default_factory=dict)
    digit_mass: float = 0.0

    def chat(self, prompt: Prompt, tokens: int | None = WORD_TOKENS) -> dict[str, object]:
        """Return the body of a greedy request with log-probabilities; None leaves the most `tokens` to the server."""
        body = {
            **self.switch,
            "model": self.model,
            "messages": messages_of(prompt),
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": self.top,
        }
        return body if tokens is None else {**body, self.limit: tokens}

    @property
    def notes(self) -> list[str]:
        """Sentences about missing abilities."""
        notes = []
        if self.top < ALL_DIGITS:
            notes.append(
                f"this endpoint gives {self.top} log-probabilities: the confidence is read over the digits among them, "
                f"mass {self.digit_mass:.2f} in a sample"
            )
        if self.digit_mass < 0.5:
            notes.append(
                f"asked for its confidence in a sample, the model hardly says a digit (mass {self.digit_mass:.2f}), so "
                "its stated confidence means little; the posterior does not use it"
            )
        return notes


def messages_of(prompt: Prompt) -> list[dict[str, str]]:
    """Return a prompt as the messages of a request, without its prefill: few servers let a client begin a reply."""
    before = [Turn("system", prompt.system)] if prompt.system else []
    turns = [Turn("assistant" if number % 2 else "user", text) for number, text in enumerate(prompt.turns)]
    return [{"role": turn.role, "content": turn.text} for turn in (*before, *prompt.history, *turns)]


def only_model(endpoint: Endpoint) -> str:
    """Return the name of the only model that a server has.

    Raises:
        ParameterError: it has several.
        ModelError: it has none, or does not answer.
    """
    names = [card["id"] for card in endpoint.models()]
    if not names:
        raise ModelError(f"{endpoint.url} has no model.")
    if len(names) > 1:
        raise ParameterError(f"{endpoint.url} has several models ({_listed(names)}); name one with --model.")
    return str(names[0])


def unlisted(endpoint: Endpoint, model: str) -> list[str]:
    """Return a note if a server does not list a model: some servers answer every name with the model that they have."""
    with suppress(ModelError):  # other servers list no models at all
        names = [card["id"] for card in endpoint.models()]
        if model not in names:
            return [f"{endpoint.url} does not list a model {model!r} but {_listed(names)}; another one may answer."]
    return []


def _listed(names: list[str]) -> str:
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")


def find_out(endpoint: Endpoint, model: str) -> Abilities:
    """Return the abilities of a server, from its answers to one small question.

    Raises:
        ModelError: the server gives no log-probabilities or those of other tokens, its model cannot be kept from
            thinking, or it does not answer.
    """
    refusals: list[str] = []
    thinks = False
    for switch in OFF:
        for top, limit in product(TOPS, LIMITS):
            abilities = Abilities(model, top, limit, switch)
            try:
                said = _ask_on_trial(endpoint, abilities)
            except QuestionError as refusal:
                refusals.append(str(refusal))
                continue
            if not (thinks := said.alone().thought is not None):
                return _checked(endpoint, abilities, said)
            break
    if thinks:
        raise ModelError(
            f"{model} thinks before it answers, and {endpoint.url} does not keep it from that when asked to "
            "(chat_template_kwargs, reasoning_effort); switch thoughts off at the server, or choose another model."
        )
    said_last = " ".join(dict.fromkeys(refusals[-len(LIMITS) :]))
    raise ModelError(f"{model} cannot be asked with log-probabilities, which a confidence is read off: {said_last}")


def _ask_on_trial(endpoint: Endpoint, abilities: Abilities) -> Said:
    """Return what a server says on trial; a thought that begins without a mark is found by its end."""

    def ask(tokens: int) -> Said:
        texts, _ = said_in(endpoint.post(ROUTE, abilities.chat(TRIAL, tokens)))
        if not texts:
            raise ModelError(OTHERWISE)
        return texts[0]

    said = ask(WORD_TOKENS)
    if said.finish == "length" and said.alone().thought is None and said.text.strip()[:1] not in DIGITS:
        thought, _ = split_thought(ask(MUSING_TOKENS).text, unopened=True)
        return replace(said, thought=thought)
    return said


def _checked(endpoint: Endpoint, abilities: Abilities, said: Said) -> Abilities:
    """Return the abilities with what the reply on trial shows.

    Raises:
        ModelError: there are no log-probabilities, or those of other tokens.
    """
    reported = max((len(token.top) for token in said.tokens), default=0)
    if reported < 2:
        raise ModelError(
            f"{endpoint.url} answers without the log-probabilities of the most probable tokens, which a "
            "confidence is read off; choose a server or a model that gives them."
        )
    alone = said.alone()
    if alone.text.strip() and not alone.tokens:
        reported_text = "".join(token.text for token in said.tokens)
        raise ModelError(
            f"{endpoint.url} gives log-probabilities of other tokens than those of its answer ({reported_text!r} for "
            f"{alone.text!r}), so no confidence can be read off them; choose another server, or another version of it."
        )
    # Two tokens of the same text may be reported as one, so a few less than were asked for mean nothing.
    most = abilities.top if reported >= ALL_DIGITS else min(reported, abilities.top)
    return replace(abilities, top=most, digit_mass=bins_of(read_names(alone.tokens, DIGITS))[1])


class Requests:
    """Sends requests. Several threads may use it at once.

    A server that refuses a request is a `QuestionError`, and one that does not answer now an `UnavailableError`.
    """

    def __init__(self, endpoint: Endpoint, abilities: Abilities) -> None:
        self.endpoint, self.abilities = endpoint, abilities
        self._pool = ThreadPoolExecutor(CONCURRENT_CHATS, thread_name_prefix="secl-requests")
        self._waiting: set[Pending] = set()

    def send(self, prompt: Prompt, tokens: int = WORD_TOKENS, *, seed: int | None = None, top_p: float = 1) -> Pending:
        """Send a request for the greedy answer; with a seed, for a draw at temperature 1 with this `top_p`."""
        body = self.abilities.chat(prompt, tokens)
        if seed is not None:
            body |= {"temperature": 1, "top_p": top_p, "seed": seed % 2**31}
        pending = self._pool.submit(lambda: read_chat(self.endpoint.post(ROUTE, body)))
        self._waiting.add(pending)
        pending.add_done_callback(self._waiting.discard)
        return pending

    def write(self, question: Question, writing: Writing) -> Iterator[Piece]:
        """Yield the pieces of all texts, of several in turn; see `secl.model.Model.write`.

        Every text is a request of its own, because not every server writes several. The draft in a last piece is the
        tuple of the text's tokens. A server that gives fewer log-probabilities than are wanted is a `QuestionError`.
        """
        if (writing.top_logprobs or 0) > self.abilities.top:
            raise QuestionError(
                f"top_logprobs is {writing.top_logprobs}, but the endpoint gives {self.abilities.top} of them."
            )
        texts = [self._write(question, writing, number) for number in range(writing.n)]
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
        body = self._body(question, writing, number)
        said = Said("", None, (), (), "")
        begun = False
        usage: Usage = {}
        try:
            with closing(self.endpoint.stream(ROUTE, body | {"stream_options": {"include_usage": True}})) as chunks:
                for chunk in chunks:
                    texts, used = said_in(chunk)
                    usage = used or usage
                    for piece in texts:
                        said = said.then(piece)
                        if piece.text or (piece.tokens and not piece.thought):
                            begun = True
                            yield Piece(
                                choice=number, text=piece.text, tokens=_shown(piece.tokens, writing.top_logprobs)
                            )
            if not said.finish:
                raise self.endpoint.broke_off()
        except UnavailableError:
            if not begun:  # llama.cpp closes a stream where it refuses a prompt, and says why only without one
                with suppress(UnavailableError):
                    self._prompt_tokens(body)
            raise
        if said.finish not in FINISHES:
            raise QuestionError(f"the endpoint ended the answer with the reason {said.finish!r}.")
        alone = said.alone(stop=writing.stop)
        yield Piece(
            choice=number,
            text="" if said.text else alone.text,
            finish=FINISHES[said.finish],
            prompt_tokens=usage.get("prompt_tokens") or self._prompt_tokens(body),
            completion_tokens=usage.get("completion_tokens") or len(said.tokens),
            draft=alone.tokens,
        )

    def _body(self, question: Question, writing: Writing, number: int) -> dict[str, object]:
        """Return the body of a request; without a limit in `writing`, the server's own limit holds."""
        body = self.abilities.chat(answer_prompt(question), None if writing.or_fewer else writing.max_tokens)
        body |= {"temperature": writing.temperature, "top_p": writing.top_p, "seed": writing.seed + number}
        stop = {"stop": list(writing.stop)} if writing.stop else {}
        wished = {name: value for name, value in writing.extra.items() if name in self.abilities.switch}
        return {**writing.extra, **body, **stop, **wished}

    def _prompt_tokens(self, body: Mapping[str, object]) -> int:
        """Ask for the length of a prompt, as some servers omit usage in a stream."""
        tokens = read_chat(self.endpoint.post(ROUTE, {**body, self.abilities.limit: 1})).prompt_tokens
        if not tokens:
            raise ModelError(f"{self.endpoint.url} does not say how many tokens a prompt has.")
        return tokens

    def abandon(self) -> None:
        """Cancel the requests that wait; their futures raise `CancelledError`."""
        for pending in [*self._waiting]:
            pending.cancel()

    def close(self) -> None:
        """Cancel the requests that wait, and let the others end."""
        self._pool.shutdown(cancel_futures=True)


def _shown(tokens: Sequence[Token], top: int | None) -> tuple[Token, ...]:
    return () if top is None else tuple(replace(token, top=token.top[:top]) for token in tokens)
