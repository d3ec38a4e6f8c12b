"""Chat requests in the way that a server understands; one trial request at the start finds out its abilities."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

from secl.backends.endpoint.client import Endpoint
from secl.backends.endpoint.reading import DIGITS, bins_of, read_chat, read_names
from secl.errors import ModelError, ParameterError, QuestionError
from secl.prompts.templates import Prompt, digit_prompt
from secl.question import Turn
from secl.writing import Written

TOPS = (20, 10, 5)
"""Most probable tokens to ask for; the first number counts that a server accepts."""

LIMITS = ("max_tokens", "max_completion_tokens")
"""Names of the field with the most tokens to write."""

CONCURRENT_CHATS = 16
"""Most requests, and most questions, that are under way together."""

ROUTE = "/chat/completions"

WORD_TOKENS = 12
"""Tokens for a letter, a digit or a verdict, and for what a model may say before it."""

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
        digit_mass: probability of all digits together in its answer to the trial request, which asks for one.
    """

    model: str
    top: int
    limit: str
    digit_mass: float

    def chat(self, prompt: Prompt, tokens: int | None = WORD_TOKENS) -> dict[str, object]:
        """Return the body of a greedy request with log-probabilities; None leaves the most `tokens` to the server."""
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
                "what it states means little; the posterior does not need it"
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
        ModelError: it gives no log-probabilities, or does not answer.
    """
    refusals: dict[str, None] = {}
    for top in TOPS:
        for limit in LIMITS:
            abilities = Abilities(model, top, limit, 0.0)
            try:
                trial = read_chat(endpoint.post(ROUTE, abilities.chat(TRIAL)))
            except QuestionError as refusal:
                refusals[str(refusal)] = None
                continue
            return _seen(endpoint, abilities, trial)
    said_last = " ".join([*refusals][-len(LIMITS) :])
    raise ModelError(f"{model} cannot be asked with log-probabilities, which a confidence is read off: {said_last}")


def _seen(endpoint: Endpoint, abilities: Abilities, trial: Written) -> Abilities:
    reported = max((len(token.top) for token in trial.tokens), default=0)
    if reported < 2:
        raise ModelError(
            f"{endpoint.url} answers without the log-probabilities of the most probable tokens, which a confidence is "
            "read off; choose a server or a model that gives them."
        )
    _, mass = bins_of(read_names(trial.tokens, DIGITS))
    # Two tokens of the same text may be reported as one, so a few less than were asked for mean nothing.
    top = abilities.top if reported >= ALL_DIGITS else min(reported, abilities.top)
    return replace(abilities, top=top, digit_mass=mass)


class Requests:
    """Sends requests. Several threads may use it at once.

    A future raises `QuestionError` where the server refuses the request, and `UnavailableError` where it does not
    answer now.
    """

    def __init__(self, endpoint: Endpoint, abilities: Abilities) -> None:
        self.endpoint, self.abilities = endpoint, abilities
        self._pool = ThreadPoolExecutor(CONCURRENT_CHATS, thread_name_prefix="secl-requests")

    def send(self, prompt: Prompt, tokens: int = WORD_TOKENS, *, seed: int | None = None, top_p: float = 1) -> Pending:
        """Send a request for the greedy answer; with a seed, for a draw at temperature 1 with this `top_p`."""
        body = self.abilities.chat(prompt, tokens)
        if seed is not None:
            body |= {"temperature": 1, "top_p": top_p, "seed": seed % 2**31}
        return self._pool.submit(lambda: read_chat(self.endpoint.post(ROUTE, body)))

    def abandon(self) -> None:
        """Cancel the requests that wait; their futures raise `CancelledError`."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = ThreadPoolExecutor(CONCURRENT_CHATS, thread_name_prefix="secl-requests")

    def close(self) -> None:
        """Cancel the requests that wait, and let the others end."""
        self._pool.shutdown(cancel_futures=True)
