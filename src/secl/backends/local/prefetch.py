"""What is computed for questions before their turn.

The frozen model never changes, so its answers, its P(True) and the trunk states that come with them can be computed
for a whole window of questions at once and never go stale. The adapted model is read off the same passes: while its
weights stand still for a window too, else for one question at a time. An open answer of the adapted model is the frozen
model's as far as both would write the same tokens, and goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from secl.backends.local.adapter import Adapter
from secl.backends.local.fast.batching import passes
from secl.backends.local.fast.shared_network import Network, Nodes, Pass
from secl.backends.local.generation import Draft, Generator
from secl.backends.local.readout import Reader
from secl.backends.local.token_ids import TokenIds, render
from secl.prompts.parsing import trim_answer
from secl.prompts.templates import (
    Prompt,
    answer_prompt,
    choice_with_confidence,
    confidence_prompt,
    distractor_prompt,
    p_true_prompt,
)
from secl.records import Question


@dataclass(frozen=True)
class Reading:
    """An answer inside a pass.

    Attributes:
        text: of an open answer; empty where the options' branches hold all answers.
        answering: the pass.
        nodes: before the letter and before each letter's digit; or before each token of an open answer, before what
            follows its last token, and before the digit.
        written: token ids of an open answer, one for each node but the last two.
        length: tokens of an open answer with its prompt and confidence.
    """

    text: str
    answering: Pass
    nodes: Nodes
    written: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    length: int = 0


@dataclass
class Prefetched:
    """A question with what is known about it before its turn.

    Attributes:
        frozen: answer of the frozen model.
        judge_nodes: before the verdict on each option; None where they were not scored.
        listed: answers that a list named, for distractors; None where none was asked for.
        tokens: that the frozen part took, its share of a common pass.
        scoring: how many of these went into P(True) and distractors.
        plain_tokens: of one plain answering pass.
        version: of the adapted part below; 0 while there is none.
        adapted: answer of the adapted model.
        states: its hidden states at the nodes of `adapted`.
        adapted_tokens: that the adapted part took.
        used: whether a record has it.
    """

    question: Question
    frozen: Reading
    tokens: float
    plain_tokens: float
    scoring: float = 0.0
    judge_nodes: Nodes | None = None
    listed: list[str] | None = None
    version: int = 0
    adapted: Reading | None = None
    states: Tensor | None = None
    adapted_tokens: float = 0.0
    used: bool = False

    @property
    def now(self) -> Reading:
        """The adapted model's answer, or the frozen one's while there is no other."""
        return self.adapted or self.frozen

    def split(self, times: int) -> None:
        """Share what was spent among several askings of the same question."""
        self.tokens /= times
        self.scoring /= times
        self.adapted_tokens /= times


class Prefetcher:
    """Looks at questions with the frozen model, and adapts what it saw to the adapter's present weights.

    Attributes:
        stale: tokens of readings that were never used, because an update came first.
    """

    def __init__(
        self, words: TokenIds, network: Network, reader: Reader, generator: Generator, adapter: Adapter
    ) -> None:
        self.words = words
        self.network = network
        self.reader = reader
        self.generator = generator
        self.adapter = adapter
        self.stale = 0.0

    @torch.no_grad()
    def look(self, questions: Sequence[Question], scored: Sequence[bool]) -> list[Prefetched]:
        """Frozen answers to all questions, and P(True) of the options (or a list of answers) where `scored`."""
        found: dict[int, Prefetched] = {}
        for kind, see in ((True, self._choices), (False, self._open)):
            places = [i for i, question in enumerate(questions) if bool(question.options) is kind]
            looks = see([questions[i] for i in places], [scored[i] for i in places])
            found.update(zip(places, looks, strict=True))
        return [found[i] for i in range(len(questions))]

    def _choices(self, questions: Sequence[Question], scored: Sequence[bool]) -> list[Prefetched]:
        """Multiple choice: a branch for every letter, so that letter and confidence come in one pass."""
        looks = []
        prompts = [self._render(answer_prompt(question)) for question in questions]
        own = [
            [self.words.before(prompt + choice_with_confidence(letter), "0") for letter in question.letters]
            for prompt, question in zip(prompts, questions, strict=True)
        ]
        scoring = [self.verdicts(q, q.options) if flag else [] for q, flag in zip(questions, scored, strict=True)]
        found = passes(self.network, [[*branches, *verdicts] for branches, verdicts in zip(own, scoring, strict=True)])
        for question, prompt, branches, (answering, paths, tokens) in zip(questions, prompts, own, found, strict=True):
            ends = [int(path[-1]) for path in paths]
            letter = int(paths[0][len(self.words.before(prompt, " A")) - 1])
            reading = Reading("", answering, np.array([letter, *ends[: len(branches)]]))
            look = Prefetched(question, reading, tokens, float(len(branches[0])))
            if len(ends) > len(branches):
                look.judge_nodes = np.array(ends[len(branches) :])
                look.scoring = len(np.unique(np.concatenate(paths))) - float(
                    len(np.unique(np.concatenate(paths[: len(branches)])))
                )
            looks.append(look)
        return looks

    def _open(self, questions: Sequence[Question], scored: Sequence[bool]) -> list[Prefetched]:
        """Open questions: answers written as one batch, then read again together."""
        drafts = [Draft.answer(self.answer_prompt(question), question.form) for question in questions]
        self.generator.write(drafts)
        readings = self._readings(questions, drafts)
        lists = [Draft.list(self.list_prompt(q), q.form) for q, flag in zip(questions, scored, strict=True) if flag]
        self.generator.write(lists)
        looks = []
        for question, flag, draft, (reading, tokens) in zip(questions, scored, drafts, readings, strict=True):
            look = Prefetched(question, reading, draft.tokens + tokens, float(reading.length))
            if flag:
                listing = lists.pop(0)
                look.tokens += listing.tokens
                look.scoring = listing.tokens
                look.listed = self.generator.items(listing)
            looks.append(look)
        return looks

    @torch.no_grad()
    def adapt(self, looks: Sequence[Prefetched]) -> None:
        """Read the looks off again with the adapter's present weights; those of one pass are replayed together."""
        for look in looks:
            # No record pays for what an update made stale, because a resumed run does not repeat it.
            self.stale += 0.0 if look.used else look.adapted_tokens
            look.version, look.adapted, look.adapted_tokens = self.adapter.version, look.frozen, 0.0
            look.used = False
        self._replay(looks)
        diverged: list[Prefetched] = []
        drafts: list[Draft] = []
        for look in looks:
            begun = self._divergence(look)
            if begun is not None:
                diverged.append(look)
                drafts.append(Draft.answer(self.answer_prompt(look.question), look.question.form, begun))
        if not diverged:
            return
        with self.adapter.on():
            self.generator.write(drafts, frozen=False)
        readings = self._readings([look.question for look in diverged], drafts)
        for look, draft, (reading, tokens) in zip(diverged, drafts, readings, strict=True):
            look.adapted, look.states = reading, None
            look.adapted_tokens += draft.tokens + tokens
        self._replay(diverged)

    def _divergence(self, look: Prefetched) -> list[int] | None:
        """An open answer up to the first token that the adapted model writes otherwise; None if it ends the same."""
        written = look.frozen.written
        if look.states is None or look.question.options:
            return None
        own = self.reader.most_likely(look.states[:-1])
        differs = np.flatnonzero(own[:-1] != written)
        agreed = int(differs[0]) if len(differs) else len(written)
        begun = [*map(int, written[:agreed]), int(own[agreed])]
        ends = agreed == len(written) and self.generator.ended(Draft.answer([], look.question.form, begun))
        return None if ends else begun

    def _replay(self, looks: Sequence[Prefetched]) -> None:
        """Hidden states of the adapted model at the nodes of each look, one replay for all that share a pass."""
        shared: dict[int, list[Prefetched]] = {}
        for look in looks:
            shared.setdefault(id(look.now.answering), []).append(look)
        for group in shared.values():
            replay = group[0].now.answering.adapted(np.concatenate([look.now.nodes for look in group]))
            states, place = replay(), 0
            for look in group:
                look.states = states[place : place + len(look.now.nodes)]
                place += len(look.now.nodes)
                look.adapted_tokens += replay.tokens / len(group)

    def verdicts(self, question: Question, candidates: Sequence[str]) -> list[list[int]]:
        """Token sequences that end before the verdict on each candidate."""
        prompts = (self._render(p_true_prompt(question, candidate)) for candidate in candidates)
        return [self.words.before(prompt, "True") for prompt in prompts]

    def list_prompt(self, question: Question) -> list[int]:
        """Token ids after which a list of answers to the question begins."""
        return self.words.encode(self._render(distractor_prompt(question)))

    def answer_prompt(self, question: Question) -> list[int]:
        """Token ids after which an answer to the question begins."""
        return self.words.encode(self._render(answer_prompt(question)))

    def _render(self, prompt: Prompt) -> str:
        return render(self.words.tokenizer, prompt)

    def _readings(self, questions: Sequence[Question], drafts: Sequence[Draft]) -> list[tuple[Reading, float]]:
        """Written answers read again, each with the tokens that this takes."""
        found = []
        texts = [trim_answer(self.generator.text(draft), q.form) for q, draft in zip(questions, drafts, strict=True)]
        sequences = [
            self.words.before(self._render(confidence_prompt(question, text)), "0")
            for question, text in zip(questions, texts, strict=True)
        ]
        read = passes(self.network, [[sequence] for sequence in sequences])
        for question, text, sequence, (answering, (path,), tokens) in zip(
            questions, texts, sequences, read, strict=True
        ):
            prompt = self._render(answer_prompt(question))
            start = _common(self.words.encode(prompt), sequence)
            end = max(start, _common(self.words.encode(prompt + text), sequence))
            nodes = np.array([*path[start - 1 : end], path[-1]])
            written = np.array(sequence[start:end], dtype=np.int64)
            found.append((Reading(text, answering, nodes, written, len(sequence)), tokens))
        return found


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the common beginning."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
