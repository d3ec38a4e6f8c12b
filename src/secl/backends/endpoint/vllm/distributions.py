"""What may come next behind a text, as a vLLM server tells it: the most probable tokens, and those asked for."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from secl.backends.endpoint.vllm.server import CompletionRequest, TokenServer
from secl.backends.entropy import entropy_of
from secl.backends.generation import Step

NEGLIGIBLE = math.log(1e-7)
"""Where the last of the most probable tokens has less, nobody needs to know exactly how much the others have."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """What may come next at one position of a text.

    Attributes:
        log_p: natural logarithms of probabilities by token id, of some tokens.
        entropy: over the whole vocabulary, in nats; see `secl.backends.entropy`.
    """

    log_p: Mapping[int, float]
    entropy: float


@dataclass(frozen=True)
class Distributions:
    """Asks a server for next-token distributions: for the `top` most probable tokens of a `vocabulary`."""

    server: TokenServer
    top: int
    vocabulary: int

    def at(self, step: Step) -> Distribution:
        """What a server reports at one position, with the entropy that follows from it."""
        # A token that was drawn, or stands in a prompt, is reported beside the most probable ones.
        best = heapq.nlargest(self.top, step.log_p.values())
        return Distribution(step.log_p, entropy_of(best, self.vocabulary))

    def behind(self, model: str, prompts: Sequence[Sequence[int]], ids: Sequence[Sequence[int]]) -> list[Distribution]:
        """What comes behind each prompt under a version that the server knows by its name; "" for the base model.

        Returns:
            the entropy, and the probabilities of at least `ids[i]` behind prompt i.
        """
        steps = [step for (step,) in self.server.complete(model, prompts, CompletionRequest(top=self.top))]
        return self._with(model, prompts, ids, steps)

    def along(self, model: str, text: Sequence[int], lengths: Sequence[int], ids: Sequence[int]) -> list[Distribution]:
        """What comes behind the first tokens of a text, and behind all of it, from one request.

        Returns:
            for each of `lengths` the entropy, and the probability of at least the text's next token; and at last the
            entropy, and the probabilities of at least `ids`.
        """
        ((*inside, end),) = self.server.complete(model, [text], CompletionRequest(top=self.top, inside=True))
        return [*(self.at(inside[length - 1]) for length in lengths), *self._with(model, [text], [ids], [end])]

    def _with(
        self, model: str, prompts: Sequence[Sequence[int]], ids: Sequence[Sequence[int]], steps: Sequence[Step]
    ) -> list[Distribution]:
        """What steps say, with the probabilities that are lacking there."""
        log_p = [dict(step.log_p) for step in steps]
        smallest = [min(step.log_p.values()) for step in steps]
        for token in dict.fromkeys(token for wanted in ids for token in wanted):
            lacking = [row for row, wanted in enumerate(ids) if token in wanted and token not in log_p[row]]
            for row in lacking:
                log_p[row][token] = smallest[row]  # it has at most this
            unsure = [row for row in lacking if smallest[row] > NEGLIGIBLE]
            if unsure:
                request = CompletionRequest(top=0, only=token)
                answers = self.server.complete(model, [prompts[row] for row in unsure], request)
                for row, (step,) in zip(unsure, answers, strict=True):
                    log_p[row][token] = step.log_p[token]
        return [Distribution(known, self.at(step).entropy) for known, step in zip(log_p, steps, strict=True)]
