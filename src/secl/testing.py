"""A model without a network, for tests, examples and the documentation.

`ScriptedModel` satisfies `secl.model.Model`, and is its own `secl.model.Learner`. It answers by rule, and is
overconfident by a fixed amount. Learning changes a single number, which is added to the stated confidence, so that
readers can follow the loop by hand.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from secl.display import Shown
from secl.evidence import (
    DINCO_SAMPLES,
    OPTIONS,
    CandidateEvidence,
    DincoEvidence,
    Evidence,
    EvidenceKind,
    FactEvidence,
    LetterOrder,
    Likelihood,
    PTrue,
    Sample,
    Source,
)
from secl.facts.tokens import place_tokens, read_facts
from secl.ledger import Meter
from secl.model import Learner, Model, ModelAnswer, Rating
from secl.prompts.parsing import is_brief
from secl.prompts.templates import NONE_OF_THESE
from secl.question import LETTERS, GivenAnswer, Question
from secl.records import Reply, Update
from secl.writing import Chunk, SamplingParameters, Token


def toy_stream(count: int, domains: int = 2) -> list[Question]:
    """Return `count` small questions with options, in `domains` consecutive domains of equal size."""
    return [
        Question(
            f"What is {i} plus {i + 1}?",
            options=(str(2 * i + 1), str(2 * i), str(2 * i + 2), str(3 * i + 7)),
            reference="A",
            domain=f"toy{i * domains // max(count, 1)}",
            id=f"toy-{i:04d}",
        )
        for i in range(count)
    ]


def unit(text: str) -> float:
    """Return a number in [0, 1) determined by a text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") / 2**48


class ScriptedModel(Shown, Model, Learner):
    """A model that answers, scores answers and learns by rule.

    Args:
        stated: stated confidence of the frozen model, in [0.05, 0.95].
        accuracy: share of questions answered correctly.
        entropy: function that returns the entropy of the reply to a question, in nats.
        rate: share of the distance to the target by which an update moves the stated confidence.
    """

    name = "scripted"
    fingerprint = ""
    version = 0

    def __init__(
        self,
        *,
        stated: float = 0.85,
        accuracy: float = 0.5,
        entropy: Callable[[Question], float] = lambda question: 1.0 + unit(f"h/{question.id}") / 5,
        rate: float = 0.5,
    ) -> None:
        self.fingerprint = f"scripted/{stated}/{accuracy}/{rate}"
        self.stated = stated
        self.accuracy = accuracy
        self.entropy = entropy
        self._learning_rate = rate
        self._shift = 0.0
        self._updates = 0
        self.meter = Meter()
        self._pause: Callable[[], None] = lambda: None

    def _facts(self) -> dict[str, object]:
        return {"name": self.name, "version": self.version}

    @property
    def learner(self) -> Self:
        return self

    @property
    def environment(self) -> dict[str, str | int]:
        return {"device": "none"}

    def write(self, question: Question, sampling: SamplingParameters) -> Iterator[Chunk]:
        """Yield some words, each a token. They depend on the question and, above temperature 0, on the seed."""
        for choice in range(sampling.n):
            self._pause()
            drawn = f"/{sampling.seed + choice}" if sampling.temperature else ""
            whole = f"I think that it is {int(1000 * unit(f'w/{question.text}{drawn}'))}, and nothing else."
            text = whole[: min([whole.find(stop) for stop in sampling.stop if stop in whole], default=len(whole))]
            words = re.findall(r"\s*\S+", text)
            written = words[: sampling.max_tokens]
            for number, word in enumerate(written, 1):
                top = tuple((other, -0.5 - i) for i, other in enumerate((word, " or"))) if sampling.top_logprobs else ()
                yield Chunk(
                    choice=choice,
                    text=word,
                    tokens=() if sampling.top_logprobs is None else (Token(word, -0.5, top[: sampling.top_logprobs]),),
                    finish=None if number < len(written) else "stop" if len(words) == len(written) else "length",
                    prompt_tokens=len(question.text.split()) if number == len(written) else 0,
                    completion_tokens=number if number == len(written) else 0,
                )

    def answer(
        self,
        question: Question,
        *,
        evidence: Collection[EvidenceKind] = (),  # noqa: ARG002
        written: str | Chunk | None = None,
    ) -> ModelAnswer:
        self._pause()
        right = unit(f"a/{question.id}") < self.accuracy
        if question.options:
            correct = question.reference if isinstance(question.reference, str) else "A"
            text = correct if right else next(letter for letter in question.letters if letter != correct)
        else:
            text = question.reference if right and isinstance(question.reference, str) else "no idea"
        text = text if written is None else str(written).strip()
        self.meter.spend("answering", 10)
        entropy = self.entropy(question)
        option_log_p = tuple(
            -1.0 if letter == text else -2 - unit(f"l/{question.id}/{letter}") for letter in question.letters
        )
        reply = Reply(
            text=text,
            answer=text,
            bins=bins_around(self.stated + self._shift),
            digit_mass=1.0,
            entropy=entropy,
            log_probability=-entropy,
            option_log_p=option_log_p,
            version=self.version,
        )
        return ModelAnswer(
            reply=reply, frozen=replace(reply, bins=bins_around(self.stated), version=0), plain_tokens=10.0
        )

    def gather(
        self, question: Question, reply: Reply, evidence: Collection[EvidenceKind], *, samples: int = 0
    ) -> Evidence:
        compared = "candidates" in evidence
        long = question.free and not is_brief(reply.answer or "", "text")
        return Evidence(
            candidates=self._compare(question, reply) if compared and not long else None,
            facts=_facts_in(reply.answer, question) if compared and question.free and reply.answer else None,
            p_true=self._p_true(question, reply) if {"p_true", "verdicts"} & {*evidence} else None,
            samples=self._samples(question, samples) if "samples" in evidence else None,
        )

    def rate(self, given: Sequence[GivenAnswer], evidence: Collection[EvidenceKind]) -> list[Rating]:
        """Rate given answers. P(True) depends on the given text; the stated confidence does not."""
        return [self._rate(answer, evidence) for answer in given]

    def _rate(self, given: GivenAnswer, evidence: Collection[EvidenceKind]) -> Rating:
        self._pause()
        question = given.question
        meter, self.meter = self.meter, Meter()
        answer = self.answer(question)
        reply = replace(answer.frozen, text=given.answer, answer=given.answer)
        gathered = self.gather(question, reply, {"p_true", *evidence})
        p_true = gathered.p_true
        if p_true is not None and not {"p_true", "verdicts"} & {*evidence}:
            p_true = replace(
                p_true,
                candidates=p_true.candidates[:1],
                probabilities=p_true.probabilities[:1],
                false_probabilities=p_true.false_probabilities[:1],
            )
            gathered = replace(gathered, p_true=p_true)
        ledger, self.meter = self.meter.take(), meter
        return Rating(reply=reply, evidence=gathered, ledger=ledger, plain_tokens=answer.plain_tokens)

    def _p_true(self, question: Question, reply: Reply) -> PTrue | None:
        if reply.answer is None:
            return None
        self.meter.spend("scoring", 20)
        others = [question.option(letter) for letter in question.letters if letter != reply.answer]
        candidates = (question.text_of(reply.answer), *(others or ["a", "b"]))
        return PTrue(
            candidates=candidates,
            probabilities=tuple(0.2 + 0.6 * unit(f"p/{question.id}/{c}") for c in candidates),
            source=OPTIONS,
        )

    def _compare(self, question: Question, reply: Reply) -> CandidateEvidence:
        """Return letters that slightly prefer the right option, and uninformative likelihoods."""
        candidates = question.options or (("" if reply.answer is None else reply.answer), "a", "b", NONE_OF_THESE)
        right = LETTERS.index(question.reference) if question.options and isinstance(question.reference, str) else 0
        self.meter.spend("reordering", 5)
        self.meter.spend("likelihood" if question.options else "sampling", 5)
        letters, likelihoods = ([unit(f"{view}/{question.id}/{i}") for i in range(len(candidates))] for view in "ol")
        log_p = tuple(noise - 3 + 2 * (i == right) for i, noise in enumerate(letters))
        return CandidateEvidence(
            candidates=candidates,
            letters=(LetterOrder(order=tuple(range(len(candidates)))[::-1], log_p=log_p),),
            likelihoods=tuple(
                Likelihood(given=noise - 8, alone=-8.0, tokens=2) if question.options else None for noise in likelihoods
            ),
            samples=() if question.options else tuple(self._draw(question, candidates, i) for i in range(3)),
            source=OPTIONS if question.options else Source("answers", sampled=2),
        )

    def _draw(self, question: Question, candidates: Sequence[str], number: int) -> Sample:
        """Return a further answer to an open question, with probability 0.5 the first candidate."""
        chance = unit(f"s{number}/{question.id}")
        candidate = None if chance > 0.9 else int(chance > 0.5) + int(chance > 0.8)
        return Sample(text=None if candidate is None else candidates[candidate], candidate=candidate, log_p=-chance)

    def _samples(self, question: Question, count: int) -> tuple[str | None, ...]:
        self.meter.spend("sampling", count)
        answers = question.letters or ("one", "two", "three")
        return tuple(answers[int(len(answers) * unit(f"s/{question.id}/{i}") ** 2)] for i in range(count))

    def dinco(self, question: Question, reply: Reply, samples: Sequence[str | None]) -> DincoEvidence | None:
        if reply.answer is None:
            return None
        self.meter.spend("comparing", 40)
        answers = question.letters or (reply.answer, "one", "two")
        texts = question.options or answers
        equal = np.eye(len(answers))
        rated = {0, answers.index(reply.answer)}
        agreement = tuple(
            tuple(float(sample == answer) for sample in samples[:DINCO_SAMPLES]) if i in rated else ()
            for i, answer in enumerate(answers)
        )
        return DincoEvidence(
            candidates=texts,
            answers=answers,
            beams=len(answers),
            p_yes=tuple(0.2 + 0.6 * unit(f"y/{question.id}/{answer}") for answer in answers),
            entails=tuple(map(tuple, equal.tolist())),
            contradicts=tuple(map(tuple, (1.0 - equal).tolist())),
            agreement=agreement,
            nli_name="scripted",
        )

    def learn(self, question: Question, reply: Reply, target: float) -> Update:  # noqa: ARG002
        before = reply.stated
        self._shift += self._learning_rate * (target - before)
        self._updates += 1
        self.version = self._updates
        self.meter.spend("learning", 30)
        after = sum(p * (k + 0.5) / 10 for k, p in enumerate(bins_around(self.stated + self._shift)))
        return Update(version=self.version, before=before, target=target, after=after, losses=((before - target) ** 2,))

    def reset(self) -> None:
        self._shift, self.version = 0.0, 0

    def snapshot(self) -> bytes:
        return json.dumps([self._shift.hex(), self.version, self._updates]).encode()

    def restore(self, snapshot: bytes) -> None:
        shift, self.version, self._updates = json.loads(snapshot)
        self._shift = float.fromhex(shift)

    def weights(self) -> bytes:
        return self.snapshot()

    def load_version(self, weights: bytes, version: int) -> None:
        updates = self._updates
        self.restore(weights)
        self.version, self._updates = version, max(version, updates)

    @property
    def relative_norm(self) -> float:
        return abs(self._shift)

    def set_pause_hook(self, hook: Callable[[], None]) -> None:
        """Call `hook` before every answer, text and rating."""
        self._pause = hook


def _facts_in(text: str, question: Question) -> tuple[FactEvidence, ...]:
    """Return the facts of a text whose tokens are its words, each with ln P = -0.5."""
    tokens = place_tokens([Token(word, -0.5) for word in re.findall(r"\s*\S+", text)], text)
    return read_facts(text, tokens, known=question.text)


def bins_around(confidence: float) -> tuple[float, ...]:
    """Return ten probabilities whose expected bin centre is `confidence`; only the two nearest bins have mass."""
    position = min(max(confidence * 10 - 0.5, 0.0), 9.0)
    low = min(int(position), 8)
    share = position - low
    return tuple(1 - share if k == low else share if k == low + 1 else 0.0 for k in range(10))
