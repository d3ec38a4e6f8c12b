"""Your own model: write a class that implements `secl.Model`. Then `secl` can run and serve the model.

    python examples/third_party_model.py run FOLDER      # 60 questions; after a kill, the same command continues
    python examples/third_party_model.py serve FOLDER    # 20 questions through the server's service, with lessons

The "model" has no neural network. It prefers the option that shares most letters with the question, is always sure of
its answer, and has one weight that learning can move. The class has every method that a real engine needs.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import secl
from secl.errors import ModelError
from secl.evidence import OPTIONS, CandidateEvidence, Evidence, LetterOrder, PTrue
from secl.ledger import Meter
from secl.model import ModelAnswer, Rating
from secl.records import Reply, Update
from secl.server.online.factory import open_service, serving_settings
from secl.writing import Piece, Writing

BENCHMARKS = ("capitals:40", "science:20")


class LetterModel(secl.Model):
    """Scores options by shared letters; its only weight is added to the logit of the confidence that it states."""

    name = "letters"
    tau = 1.0
    fingerprint = "letters-1"
    version = 0
    answer_weights: Literal["adapted", "frozen"] = "frozen"
    environment: dict[str, str | int] = {"device": "cpu"}  # noqa: RUF012

    def __init__(self, seconds: float = 0.0) -> None:
        self.meter = Meter()
        self.weight = 0.0
        self.updates = 0
        self.seconds = seconds
        self.hook: Callable[[], None] = lambda: None

    # Answering: a reply of the adapted model and one of the frozen model.

    def check(self, question: secl.Question) -> None:
        if not question.options:
            raise secl.QuestionError(f"question {question.id!r} has no options; this model needs options.")

    def write(self, question: secl.Question, writing: Writing) -> Iterator[Piece]:
        raise secl.QuestionError("this model writes no free texts; ask it with options.")

    def answer(
        self, question: secl.Question, *, evidence: Collection[str] = (), written: str | Piece | None = None
    ) -> ModelAnswer:
        self.hook()
        time.sleep(self.seconds)
        shares = self.shares(question)
        letter = max(question.letters, key=lambda each: shares[question.letters.index(each)])
        entropy = -sum(share * math.log(share) for share in shares)
        self.meter.spend("answering", len(question.text))

        def reply(weight: float, version: int) -> Reply:
            return Reply(
                text=letter,
                answer=letter,
                bins=bins(sigmoid(2.0 + weight)),
                digit_mass=1.0,
                entropy=entropy,
                log_probability=math.log(max(shares)),
                option_log_p=tuple(math.log(share) for share in shares),
                version=version,
            )

        return ModelAnswer(
            reply=reply(self.weight, self.version), frozen=reply(0.0, 0), plain_tokens=float(len(question.text))
        )

    def shares(self, question: secl.Question) -> list[float]:
        common = [len(set(question.text.lower()) & set(option.lower())) for option in question.options]
        total = sum(math.exp(0.3 * count) for count in common)
        return [math.exp(0.3 * count) / total for count in common]

    def check_given(self, given: secl.GivenAnswer) -> None:
        self.check(given.question)

    def rate_given(self, given: Sequence[secl.GivenAnswer], evidence: Collection[str]) -> list[Rating]:
        """Rate answers from elsewhere. A model without this method works for everything except ratings."""
        return [self.rate_one(each, evidence) for each in given]

    def rate_one(self, given: secl.GivenAnswer, evidence: Collection[str]) -> Rating:
        answered = self.answer(given.question)
        share = answered.frozen.option_log_p[given.question.letters.index(given.answer)]
        reply = replace(answered.frozen, text=given.answer, answer=given.answer, log_probability=share)
        gathered = Evidence(
            p_true=self.score_p_true(given.question, reply),
            candidates=self.compare_candidates(given.question, reply) if "candidates" in evidence else None,
        )
        return Rating(reply=reply, evidence=gathered, ledger=self.meter.take(), plain_tokens=answered.plain_tokens)

    # Evidence of the frozen model. This model supports neither samples nor beams, which some baselines need.

    def score_p_true(self, question: secl.Question, reply: Reply) -> PTrue | None:
        if reply.answer is None:
            return None
        first = question.letters.index(reply.answer)
        order = [first, *(i for i in range(len(question.options)) if i != first)]
        shares = self.shares(question)
        self.meter.spend("scoring", sum(map(len, question.options)))
        return PTrue(
            candidates=tuple(question.options[i] for i in order),
            probabilities=tuple(shares[i] for i in order),
            source=OPTIONS,
        )

    def sample(self, question: secl.Question, count: int) -> tuple[str | None, ...]:
        raise ModelError(f"the model {self.name!r} draws no samples; choose another signal or method.")

    def compare_candidates(self, question: secl.Question, reply: Reply) -> CandidateEvidence | None:
        backwards = tuple(reversed(range(len(question.options))))
        log_p = tuple(math.log(share) for share in self.shares(question))
        self.meter.spend("reordering", sum(map(len, question.options)))
        return CandidateEvidence(
            candidates=question.options,
            letters=(LetterOrder(order=backwards, log_p=log_p),),
            likelihoods=tuple(None for _ in question.options),  # this model writes no texts
            source=OPTIONS,
        )

    def dinco(self, question: secl.Question, reply: Reply, samples: Sequence[str | None]) -> None:
        return None

    # Learning: one step on the squared error between stated confidence and target.

    def learn(self, question: secl.Question, reply: Reply, target: float) -> Update:
        before = reply.stated
        self.weight += 4.0 * (target - before)
        self.updates += 1
        self.version = self.updates
        self.meter.spend("learning", 3 * len(question.text))
        after = sum(p * (k + 0.5) / 10 for k, p in enumerate(bins(sigmoid(2.0 + self.weight))))
        return Update(version=self.version, before=before, target=target, after=after, losses=((before - target) ** 2,))

    @property
    def relative_norm(self) -> float:
        return abs(self.weight) / 100

    # Versions: secl stores a snapshot of the model, and restores it or an earlier version.

    def reset(self) -> None:
        self.weight, self.version = 0.0, 0

    def snapshot(self) -> bytes:
        return json.dumps([self.weight.hex(), self.version, self.updates]).encode()

    def restore(self, snapshot: bytes) -> None:
        weight, self.version, self.updates = json.loads(snapshot)
        self.weight = float.fromhex(weight)

    def weights(self) -> bytes:
        return self.weight.hex().encode()

    def load_version(self, weights: bytes, version: int) -> None:
        self.weight, self.version = float.fromhex(weights.decode()), version
        self.updates = max(self.updates, version)

    def set_pause_hook(self, hook: Callable[[], None]) -> None:
        self.hook = hook


def sigmoid(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))


def bins(confidence: float) -> tuple[float, ...]:
    """Return ten probabilities of digits whose expected bin centre is `confidence`, in [0.05, 0.95]."""
    position = min(max(confidence * 10 - 0.5, 0.0), 9.0)
    low = min(int(position), 8)
    return tuple(1 - position + low if k == low else position - low if k == low + 1 else 0.0 for k in range(10))


def run(folder: Path, seconds: float) -> None:
    """Start a run, or continue a killed run."""
    settings = secl.RunSettings.of({"stream.benchmarks": BENCHMARKS, "method": "secl", "gate.name": "always"})
    load = lambda _settings: LetterModel(seconds)  # noqa: E731
    opened = secl.resume_run(folder, load=load) if folder.exists() else secl.start_run(settings, folder, load=load)
    with opened.store:
        print(f"{len(opened.records)} of {len(opened.questions)} questions are recorded already", flush=True)
        opened.proceed()
        opened.finish()
        last = opened.records[-1]
    print(f"stated {last.frozen.stated:.2f} by the frozen model, {last.reply.stated:.2f} by the adapted one")


def serve(folder: Path, seconds: float) -> None:
    """Ask questions through the service of `secl serve`, without HTTP."""
    settings = serving_settings({"method": "secl", "gate.name": "always"})
    service = open_service(folder, settings, load=lambda _settings: LetterModel(seconds))
    service.start()
    try:
        print(f"{service.position} answers are recorded already", flush=True)
        for question in secl.load_stream(["capitals"], 20):
            answer = service.ask(question, timeout=60)
            print(answer.record.position, f"{answer.record.reply.stated:.3f}", flush=True)
    finally:
        service.stop()
        service.state.close()


if __name__ == "__main__":
    command, target = sys.argv[1], Path(sys.argv[2])
    pause = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0  # seconds per answer, to have time to kill it
    {"run": run, "serve": serve}[command](target, pause)
