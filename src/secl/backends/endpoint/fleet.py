"""One or several vLLM servers of the same model: a request that one of them fails goes to another."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from secl.backends.endpoint.token_server import CompletionRequest, Step, TokenServer
from secl.backends.entropy import entropy_of
from secl.backends.generation import TextRules
from secl.backends.text_stream import FreeText
from secl.errors import NotLoadedError, ParameterError, UnavailableError
from secl.writing import Piece, Token, Writing

ROUNDS, WAIT = 3, 0.5
"""A request that fails that often on each server is given up; seconds between the rounds."""

PAUSE = 5.0
"""Seconds for which a server that failed is asked only where the others have failed, too."""

NEGLIGIBLE = math.log(1e-7)
"""Where the last of the most probable tokens has less, nobody needs to know exactly how much the others have."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Distribution:
    """What may come next at one position of a text.

    Attributes:
        log_p: natural logarithms of probabilities by token id, of some tokens.
        entropy: over the whole vocabulary, in nats; see `secl.backends.entropy`.
    """

    log_p: Mapping[int, float]
    entropy: float

    @classmethod
    def of(cls, step: Step, vocabulary: int) -> Distribution:
        """What a server reports at one position, with the entropy that follows from it."""
        return cls(step.log_p, entropy_of(step.log_p.values(), vocabulary).value)


class Fleet:
    """Sends each request to the server with the fewest under way; several behind a load balancer are one.

    Args:
        servers: of which it consists.

    Attributes:
        failures: requests that had to be sent again.

    Raises:
        ParameterError: no endpoint, or one of them twice.
    """

    def __init__(self, servers: Sequence[TokenServer]) -> None:
        urls = [server.url for server in servers]
        if not urls or len(set(urls)) < len(urls):
            raise ParameterError("a fleet needs at least one endpoint, and each of them once.")
        self.servers = servers
        self.failures = 0
        self._busy = [0] * len(servers)
        self._failed = [-PAUSE] * len(servers)
        self._lock = threading.Lock()

    def meet(self) -> list[TokenServer]:
        """The servers that answer now.

        Raises:
            UnavailableError: none does.
        """
        met, problems = [], []
        for server in self.servers:
            try:
                server.refresh()
                met.append(server)
            except UnavailableError as problem:
                problems.append(str(problem))
        if not met:
            raise UnavailableError(f"no vLLM server can be used: {' '.join(problems)}")
        return met

    def ask(self, send: Callable[[TokenServer], T]) -> T:
        """What a server answers to a request that `send` sends to it.

        Raises:
            UnavailableError: none answers, or none finds the adapter.
            ModelError: the request is refused.
        """
        problems: dict[str, str] = {}
        for turn in range(ROUNDS):
            time.sleep(WAIT if turn else 0)  # for servers that start anew, and file systems that show a version late
            for _ in self.servers:
                with self._chosen() as number:
                    try:
                        return send(self.servers[number])
                    except (UnavailableError, NotLoadedError) as problem:
                        problems[self.servers[number].url] = str(problem)
                        with self._lock:
                            self.failures += 1
                            self._failed[number] = time.monotonic()
        raise UnavailableError(f"no vLLM server can be used: {' '.join(problems.values())}")

    def complete(
        self, model: str, prompts: Sequence[Sequence[int]], request: CompletionRequest
    ) -> list[tuple[Step, ...]]:
        """Generate behind each prompt; see `TokenServer.complete`."""
        return self.ask(lambda server: server.complete(model, prompts, request))

    def distributions(
        self, model: str, prompts: Sequence[Sequence[int]], ids: Sequence[Sequence[int]], top: int, vocabulary: int
    ) -> list[Distribution]:
        """What comes behind each prompt: the entropy, and the probabilities of at least `ids[i]` behind prompt i.

        Args:
            model: name of an adapter, or "" for the base model.
            prompts: token ids.
            ids: tokens of interest behind each.
            top: most probable tokens to ask for.
            vocabulary: tokens that the model has.
        """
        steps = [step for (step,) in self.complete(model, prompts, CompletionRequest(top=top))]
        log_p = [dict(step.log_p) for step in steps]
        smallest = [min(step.log_p.values()) for step in steps]
        for token in dict.fromkeys(token for wanted in ids for token in wanted):
            lacking = [row for row, wanted in enumerate(ids) if token in wanted and token not in log_p[row]]
            for row in lacking:
                log_p[row][token] = smallest[row]  # it has at most this
            unsure = [row for row in lacking if smallest[row] > NEGLIGIBLE]
            if unsure:
                request = CompletionRequest(top=0, only=token)
                answers = self.complete(model, [prompts[row] for row in unsure], request)
                for row, (step,) in zip(unsure, answers, strict=True):
                    log_p[row][token] = step.log_p[token]
        return [
            Distribution(values, Distribution.of(step, vocabulary).entropy)
            for values, step in zip(log_p, steps, strict=True)
        ]

    @contextmanager
    def _chosen(self) -> Iterator[int]:
        """The number of a server that has not failed lately, or longest ago, with the fewest requests under way."""
        with self._lock:
            well = time.monotonic() - PAUSE
            number = min(range(len(self.servers)), key=lambda i: (max(self._failed[i], well), self._busy[i]))
            self._busy[number] += 1
        try:
            yield number
        finally:
            with self._lock:
                self._busy[number] -= 1

    def close(self) -> None:
        """Close all connections."""
        for server in self.servers:
            server.endpoint.close()


def write_texts(fleet: Fleet, rules: TextRules, prompt: Sequence[int], writing: Writing) -> Iterator[Piece]:
    """Write texts behind a prompt with the base model, all of them by one server.

    What is drawn depends on the seed and on the server's own random numbers, which are not those of this machine.

    Args:
        fleet: one of its servers writes.
        rules: tell the tokens that end a text.
        prompt: token ids.
        writing: how; `max_tokens` is given.

    Raises:
        UnavailableError: no server answers, or one broke off in the middle.
        ModelError: the request is refused.
    """
    drawn = writing.temperature > 0
    request = CompletionRequest(
        tokens=writing.max_tokens or 1,
        top=writing.top_logprobs or 0,
        stop=writing.stop,
        ends=tuple(sorted(rules.end_ids)),
        temperature=writing.temperature,
        top_p=writing.top_p,
        seed=writing.seed if drawn else None,
    )
    texts = [FreeText(rules, prompt, writing, number) for number in range(writing.n)]
    # Where nothing is drawn all texts are the same, and are written once.
    for number, steps, finish in fleet.ask(lambda server: server.stream(prompt, request, writing.n if drawn else 1)):
        for text in [texts[number]] if drawn else texts:
            for step in steps:
                if not text.ended:
                    yield text.push(step.token, _report(text, step, writing.top_logprobs))
            if finish is not None and not text.ended:
                yield text.end("length" if finish == "length" else "stop")
    if not all(text.ended for text in texts):
        raise UnavailableError("a vLLM server broke off in the middle of a text; ask again.")


def _report(text: FreeText, step: Step, count: int | None) -> tuple[Token, ...]:
    if count is None:
        return ()
    best = sorted(step.log_p.items(), key=lambda item: -item[1])[:count]
    top = tuple((text.word(token), min(0.0, log_p)) for token, log_p in best)
    return (Token(text.word(step.token), min(0.0, step.log_p[step.token]), top),)
