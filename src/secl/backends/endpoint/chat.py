"""Chat requests to a server with OpenAI's API, in the way that it understands.

What a server can do is found out by asking it once; all differences between servers are here.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from secl.backends.endpoint.client import Endpoint
from secl.backends.endpoint.reading import DIGITS, Completion, bins_of, read_choice, read_completion
from secl.errors import ModelError, ParameterError, QuestionError
from secl.prompts.templates import Prompt, digit_prompt
from secl.question import Turn

TOPS = (20, 10, 5)
"""Most probable tokens to ask for; the first number counts that a server accepts."""

LIMITS = ("max_tokens", "max_completion_tokens")
"""What servers call the most tokens that they may write."""

WORKERS = 16
"""Requests that are under way together."""

WORD_TOKENS = 12
"""Tokens for a letter, a digit or a verdict, and for what a model may say before it."""

SAMPLE = digit_prompt(Prompt(("Question: What is 2 + 2?",)), "4")

Pending = Future[Completion]
"""What a request will give."""

FEW = 10
"""Log-probabilities below which not every digit can be seen."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a server can do.

    Attributes:
        model: the name of the model that is asked.
        top: how many of the most probable tokens it reports.
        limit: what it calls the most tokens to write, one of `LIMITS`.
        digit_mass: probability of all digits together that it reported when it was asked for one.
    """

    model: str
    top: int
    limit: str
    digit_mass: float

    def chat(self, prompt: Prompt, tokens: int | None = WORD_TOKENS) -> dict[str, object]:
        """The body of a greedy request with log-probabilities; as many `tokens` as the server likes for None."""
        body = {
            "model": self.model,
            "messages": messages_of(prompt),
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": self.top,
        }
        return body if tokens is None else {**body, self.limit: tokens}

    @property
    def notes(self) -> list[str]:
        """What is missing, in sentences."""
        notes = []
        if self.top < FEW:
            notes.append(
                f"this endpoint gives {self.top} log-probabilities: the confidence is read over the digits among them, "
                f"mass {self.digit_mass:.2f} in a sample"
            )
        if self.digit_mass < 0.5:
            notes.append(
                f"asked for its confidence in a sample, the model hardly says a digit (mass {self.digit_mass:.2f}), so "
                "what it states means little; the posterior does not need it"
            )
        return notes


def messages_of(prompt: Prompt) -> list[dict[str, str]]:
    """A prompt as the messages of a request. Its prefill is left out: few servers let us begin a reply."""
    before = [Turn("system", prompt.system)] if prompt.system else []
    turns = [Turn("assistant" if number % 2 else "user", text) for number, text in enumerate(prompt.turns)]
    return [{"role": turn.role, "content": turn.text} for turn in (*before, *prompt.history, *turns)]


def only_model(endpoint: Endpoint) -> str:
    """The name of the only model that a server has.

    Raises:
        ParameterError: it has several.
        ModelError: it has none, or does not answer.
    """
    names = [str(card["id"]) for card in endpoint.models()]
    if not names:
        raise ModelError(f"{endpoint.url} has no model.")
    if len(names) > 1:
        listed = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
        raise ParameterError(f"{endpoint.url} has several models ({listed}); name one with --model.")
    return names[0]


def find_out(endpoint: Endpoint, model: str) -> Abilities:
    """What a server can do, from the answers to one small question.

    Raises:
        ModelError: it gives no log-probabilities, or does not answer.
    """
    refusals: dict[str, None] = {}
    for top in TOPS:
        for limit in LIMITS:
            abilities = Abilities(model, top, limit, 0.0)
            try:
                completion = read_completion(endpoint.post("/chat/completions", abilities.chat(SAMPLE)))
            except QuestionError as refusal:
                refusals[str(refusal)] = None
                continue
            return _seen(endpoint, abilities, completion)
    said_last = " ".join([*refusals][-len(LIMITS) :])
    raise ModelError(f"{model} cannot be asked with log-probabilities, which a confidence is read off: {said_last}")


def _seen(endpoint: Endpoint, abilities: Abilities, completion: Completion) -> Abilities:
    reported = max((len(token.top) for token in completion.tokens), default=0)
    if reported < 2:
        raise ModelError(
            f"{endpoint.url} answers without the log-probabilities of the most probable tokens, which a confidence is "
            "read off; choose a server or a model that gives them."
        )
    _, mass = bins_of(read_choice(completion.tokens, DIGITS))
    # Two tokens of the same text may be reported as one, so a few less than were asked for mean nothing.
    return Abilities(
        abilities.model, abilities.top if reported >= FEW else min(reported, abilities.top), abilities.limit, mass
    )


class Requests:
    """Sends requests. Several threads may use it at once.

    What a request gives may be a `QuestionError` where the server refuses what is in it, and an `UnavailableError`
    where it does not answer now.
    """

    def __init__(self, endpoint: Endpoint, abilities: Abilities) -> None:
        self.endpoint, self.abilities = endpoint, abilities
        self._pool = self._new_pool()

    def _new_pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(WORKERS, thread_name_prefix="secl-requests")

    def send(self, prompt: Prompt, tokens: int = WORD_TOKENS, *, seed: int | None = None, top_p: float = 1) -> Pending:
        """Send a request for the greedy answer; with a seed, for a draw at temperature 1 with this `top_p`."""
        body = self.abilities.chat(prompt, tokens)
        if seed is not None:
            body |= {"temperature": 1, "top_p": top_p, "seed": seed % 2**31}
        return self._pool.submit(lambda: read_completion(self.endpoint.post("/chat/completions", body)))

    def abandon(self) -> None:
        """Send no more of the requests that wait; whoever waits for one of them gets a `CancelledError`."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._new_pool()

    def close(self) -> None:
        """Drop what is not under way yet, and wait for the rest."""
        self._pool.shutdown(cancel_futures=True)
