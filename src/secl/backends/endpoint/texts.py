"""Free answers, streamed as the server writes them for any client."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace

from secl.backends.endpoint.chat import ROUTE, Abilities
from secl.backends.endpoint.client import Endpoint
from secl.backends.endpoint.reading import Usage, parts_of, read_chat
from secl.errors import ModelError, QuestionError, UnavailableError
from secl.prompts.templates import answer_prompt
from secl.question import Question
from secl.writing import Finish, Piece, Token, Writing

FINISHES: Mapping[str, Finish] = {"stop": "stop", "length": "length"}


class ChatWriter:
    """Streams texts. Several threads may use it at once."""

    def __init__(self, endpoint: Endpoint, abilities: Abilities) -> None:
        self.endpoint, self.abilities = endpoint, abilities

    def write(self, question: Question, writing: Writing) -> Iterator[Piece]:
        """Yield the pieces of all texts, of several in turn; see `secl.model.Model.write`.

        Every text is a request of its own, because not every server writes several. The draft in a last piece is the
        tuple of the text's tokens.

        Raises:
            QuestionError: the server refuses the request, or gives fewer log-probabilities than are wanted.
            UnavailableError: no answer, or half a stream.
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
        body = self._request(question, replace(writing, seed=writing.seed + number))
        written: list[Token] = []
        begun = False
        finish = ""
        usage: Usage = {}
        try:
            with closing(self.endpoint.stream(ROUTE, body | {"stream_options": {"include_usage": True}})) as chunks:
                for chunk in chunks:
                    text, tokens, ended, used = parts_of(chunk)
                    finish, usage = ended or finish, used or usage
                    written += tokens
                    if text or tokens:
                        begun = True
                        yield Piece(choice=number, text=text, tokens=_shown(tokens, writing.top_logprobs))
            if not finish:
                raise self.endpoint.broke_off()
        except UnavailableError:
            if not begun:  # llama.cpp closes a stream where it refuses a prompt, and says why only without one
                with suppress(UnavailableError):
                    self._prompt_tokens(body)
            raise
        if finish not in FINISHES:
            raise QuestionError(f"the endpoint ended the answer with the reason {finish!r}.")
        yield Piece(
            choice=number,
            finish=FINISHES[finish],
            prompt_tokens=usage.get("prompt_tokens") or self._prompt_tokens(body),
            completion_tokens=usage.get("completion_tokens") or len(written),
            draft=tuple(written),
        )

    def _request(self, question: Question, writing: Writing) -> dict[str, object]:
        """Return the body of a request; without a limit in `writing`, the server's own limit holds."""
        body = self.abilities.chat(answer_prompt(question), None if writing.or_fewer else writing.max_tokens)
        body |= {"temperature": writing.temperature, "top_p": writing.top_p, "seed": writing.seed}
        stop = {"stop": list(writing.stop)} if writing.stop else {}
        return {**writing.extra, **body, **stop}

    def _prompt_tokens(self, body: Mapping[str, object]) -> int:
        """Ask for the length of a prompt, as some servers omit usage in a stream."""
        tokens = read_chat(self.endpoint.post(ROUTE, {**body, self.abilities.limit: 1})).prompt_tokens
        if not tokens:
            raise ModelError(f"{self.endpoint.url} does not say how many tokens a prompt has.")
        return tokens


def _shown(tokens: Sequence[Token], top: int | None) -> tuple[Token, ...]:
    return () if top is None else tuple(replace(token, top=token.top[:top]) for token in tokens)
