"""From what servers say to replies and probabilities: the read-out of `secl.backends.local.readout`, over HTTP."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from secl.backends.vllm.endpoint import CompletionRequest, Step
from secl.backends.vllm.entropy import entropy_of
from secl.backends.vllm.pool import Fleet
from secl.backends.vllm.token_prompts import Prompting, distinct_tokens
from secl.prompts.parsing import read_answer, trim_answer
from secl.records import Question, Reply
from secl.settings import PTrueKind

STOPS = ("\n", "Confidence:")
"""An answer can only be complete behind one of these (`secl.prompts.parsing.is_complete`), so it is written piece by
piece up to the next one."""

NUCLEUS = 0.95

NEGLIGIBLE = math.log(1e-7)
"""Where the last of the most probable tokens has less, nobody needs to know exactly how much the others have."""


@dataclass(frozen=True, slots=True)
class Place:
    """What may come at one place of a text.

    Attributes:
        log_p: natural logarithms of probabilities by token id, of some tokens.
        entropy: over the whole vocabulary, in nats; see `secl.backends.vllm.entropy`.
    """

    log_p: Mapping[int, float]
    entropy: float


@dataclass(frozen=True, slots=True)
class FleetReply:
    """A reply with what it took.

    Attributes:
        reply: as read.
        sequence: token ids up to the confidence digit.
        sequences: all that the servers were given for it.
        shares: probabilities of the option letters, renormalised to sum to 1; empty for an open question.
    """

    reply: Reply
    sequence: tuple[int, ...]
    sequences: tuple[tuple[int, ...], ...]
    shares: tuple[float, ...] = ()

    @property
    def tokens(self) -> float:
        """Tokens through the network, with a prefix cache that forgets nothing."""
        return float(distinct_tokens(self.sequences))


class FleetReader:
    """Reads answers, confidences and P(True) off a fleet.

    Args:
        fleet: the servers.
        prompting: builds the token ids.
        generator: knows when a text has ended, and reads tokens (`secl.backends.local.generation.Generator`).
        p_true: the probability of True over the full vocabulary, or against False alone ("pair").
        top: most probable tokens to ask for where an entropy is wanted; at most the servers' --max-logprobs.
    """

    def __init__(self, fleet: Fleet, prompting: Prompting, generator: Any, p_true: PTrueKind, top: int) -> None:
        self.fleet = fleet
        self.prompting = prompting
        self.generator = generator
        self.kind = p_true
        self.top = top
        self.words = prompting.words
        self.vocabulary = len(self.words.tokenizer)

    def reply(self, question: Question, version: int) -> FleetReply:
        """Answer and stated confidence of a version; 0 is the frozen model.

        Raises:
            ModelError: no endpoint answers.
        """
        return self._choice(question, version) if question.options else self._open(question, version)

    def _choice(self, question: Question, version: int) -> FleetReply:
        ids = self.words.letters[: len(question.options)]
        before = self.prompting.letter(question)
        (place,) = self._look(version, [before], ids)
        log_p = [place.log_p[i] for i in ids]
        chosen = log_p.index(max(log_p))
        letter = question.letters[chosen]
        sequence = self.prompting.digit(question, letter)
        reply = self._finish(letter, letter, [place], [ids[chosen]], sequence, version)
        return FleetReply(reply, tuple(sequence), (tuple(before), tuple(sequence)), _shares(log_p))

    def _open(self, question: Question, version: int) -> FleetReply:
        from secl.backends.local.generation import Draft

        draft = Draft.answer(self.prompting.answer(question), question.form)
        steps = self.write(draft, version, CompletionRequest(top=self.top))
        text = trim_answer(self.generator.text(draft), question.form)
        sequence = self.prompting.digit(question, text)
        own = self.prompting.written(question, text, sequence)
        tokens = [sequence[i] for i in own]
        if sequence[: own.start] == draft.prompt and tokens == draft.written[: len(tokens)]:
            places = [Place(step.log_p, self._entropy(step)) for step in steps[: len(tokens)]]
        else:
            # A trimmed text may be cut into other tokens than those that were generated.
            places = [self._look(version, [sequence[:i]], [sequence[i]])[0] for i in own]
        reply = self._finish(text.strip(), read_answer(text, question.form), places, tokens, sequence, version)
        return FleetReply(reply, tuple(sequence), ((*draft.prompt, *draft.written), tuple(sequence)))

    def _finish(
        self,
        text: str,
        answer: str | None,
        places: Sequence[Place],
        written: Sequence[int],
        sequence: Sequence[int],
        version: int,
    ) -> Reply:
        """The reply whose tokens `written` stand at `places`, with the confidence that is read behind `sequence`."""
        (digit,) = self._look(version, [sequence], self.words.digits)
        log_p = [digit.log_p[i] for i in self.words.digits]
        entropies = [place.entropy for place in (*places, digit)]
        log_probability = sum(place.log_p[token] for place, token in zip(places, written, strict=True))
        return Reply(
            text=text,
            answer=answer,
            bins=_shares(log_p),
            digit_mass=min(1.0, sum(map(math.exp, log_p))),
            entropy=sum(entropies) / len(entropies),
            log_probability=min(0.0, log_probability),
            version=version,
        )

    def write(self, draft: Any, version: int, wish: CompletionRequest) -> list[Step]:
        """Finish a `Draft` with a version; it ends exactly where the model in this process would end it.

        Returns:
            the steps of what was written.
        """
        steps: list[Step] = []
        pieces = 0
        while not self.generator.ended(draft):
            asked = CompletionRequest(
                tokens=draft.limit - len(draft.written),
                top=wish.top,
                stop=STOPS,
                ends=tuple(sorted(self.generator.ends)),
                temperature=wish.temperature,
                top_p=wish.top_p,
                # A server starts its random numbers anew with every request.
                seed=None if wish.seed is None else wish.seed + pieces,
            )
            (piece,) = self.fleet.ask(version, [[*draft.prompt, *draft.written]], asked)
            draft.written.extend(step.token for step in piece)
            steps.extend(piece)
            pieces += 1
            if not piece:
                break
        draft.tokens += len(draft.prompt) + len(draft.written)
        return steps

    def listing(self, question: Question) -> tuple[list[str], list[int]]:
        """Answers that the frozen model lists, and all token ids of that."""
        from secl.backends.local.generation import Draft

        draft = Draft.list(self.prompting.listing(question), question.form)
        self.write(draft, 0, CompletionRequest(top=0))
        return self.generator.items(draft), [*draft.prompt, *draft.written]

    def sample(self, question: Question, seed: int) -> tuple[str | None, list[int]]:
        """An answer of the frozen model to an open question, drawn at temperature 1, and all token ids of that."""
        from secl.backends.local.generation import Draft

        draft = Draft.answer(self.prompting.answer(question), question.form)
        self.write(draft, 0, CompletionRequest(top=0, temperature=1.0, top_p=NUCLEUS, seed=seed))
        text = trim_answer(self.generator.text(draft), question.form)
        return read_answer(text, question.form), [*draft.prompt, *draft.written]

    def p_true(self, verdicts: Sequence[Sequence[int]]) -> tuple[float, ...]:
        """P(True) behind each sequence, from the frozen model."""
        false = self.words.false if self.kind == "pair" else ()
        return tuple(self._p_true(place.log_p) for place in self._look(0, verdicts, (*self.words.true, *false)))

    def _p_true(self, log_p: Mapping[int, float]) -> float:
        true = sum(math.exp(log_p[i]) for i in self.words.true)
        if self.kind == "vocabulary":
            return min(1.0, true)
        return true / max(true + sum(math.exp(log_p[i]) for i in self.words.false), 1e-300)

    def _look(self, version: int, prompts: Sequence[Sequence[int]], ids: Sequence[int]) -> list[Place]:
        """What comes behind each prompt: the entropy, and the probabilities of at least `ids`."""
        steps = [step for (step,) in self.fleet.ask(version, prompts, CompletionRequest(top=self.top))]
        found = [dict(step.log_p) for step in steps]
        edges = [min(step.log_p.values()) for step in steps]
        for token in ids:
            lacking = [row for row, log_p in enumerate(found) if token not in log_p]
            for row in lacking:
                found[row][token] = edges[row]  # it has at most this
            unsure = [row for row in lacking if edges[row] > NEGLIGIBLE]
            if unsure:
                answered = self.fleet.ask(
                    version, [prompts[row] for row in unsure], CompletionRequest(top=0, only=token)
                )
                for row, (step,) in zip(unsure, answered, strict=True):
                    found[row][token] = step.log_p[token]
        return [Place(log_p, self._entropy(step)) for log_p, step in zip(found, steps, strict=True)]

    def _entropy(self, step: Step) -> float:
        return entropy_of(step.log_p.values(), self.vocabulary).value


def _shares(log_p: Sequence[float]) -> tuple[float, ...]:
    """Probabilities renormalised to sum to 1."""
    largest = max(log_p)
    parts = [math.exp(value - largest) for value in log_p]
    return tuple(part / sum(parts) for part in parts)
