"""A chat model on a server with OpenAI's API, which gives each of its answers a confidence."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed

from secl.backends.endpoint.abilities import Abilities, find_out, only_model, unlisted
from secl.backends.endpoint.candidates import Findings
from secl.backends.endpoint.chat import CONCURRENT_CHATS, Requests
from secl.backends.endpoint.client import Endpoint, Upstream
from secl.backends.endpoint.cost import Cost, cost_of
from secl.backends.endpoint.objects import ObjectAsker
from secl.backends.endpoint.questions import EndpointAsker
from secl.backends.generation import question_seed
from secl.display import Shown
from secl.errors import QuestionError, SeclError
from secl.evidence import Evidence, EvidenceKind, Thought
from secl.fields.extraction import ObjectRequest, Objects
from secl.fields.schema import Schema
from secl.fields.values import WrittenObject
from secl.ledger import Ledger, Meter
from secl.model import ModelAnswer, Rating
from secl.prompts.parsing import read_answer, trim_answer
from secl.question import GivenAnswer, Question
from secl.records import Reply
from secl.settings.groups import NUCLEUS, Thinking, check_thinking
from secl.writing import Piece, Writing

Asked = tuple[Question, str | None, Thought | None]
"""A question, an existing answer to it, and the thought before this answer; None if missing."""


class EndpointModel(Shown):
    """A `secl.model.Model` on any server that has OpenAI's API and gives log-probabilities.

    The model does not learn: only the posterior and labels change confidences. Before the first question, a trial
    question finds out the server's abilities. secl warns of missing abilities.

    Args:
        url: base address of the server, such as "https://api.example.com/v1".
        name: name of the model on the server; "" for the server's only model.
        key: bearer token.
        distractors: number of distractors for an open answer, 1 to 9.
        thinking: whether the model thinks before an answer: "off", "auto" (no limit), or the maximum number of tokens.
        seed: seed of sampled answers and distractors.

    Raises:
        ParameterError: not a URL, an invalid `thinking`, or several models without a name.
        ModelError: the server does not answer or gives no log-probabilities, or its model does not think as asked.
    """

    tau = 1.0
    letters: float | None = None
    learner = None

    def __init__(
        self,
        url: str,
        name: str = "",
        *,
        key: str | None = None,
        distractors: int = 4,
        thinking: Thinking = "off",
        seed: int = 42,
    ) -> None:
        thinking = check_thinking(thinking)
        self.endpoint = Endpoint(url, key=key)
        try:
            self.name = name or only_model(self.endpoint)
            self.abilities: Abilities = find_out(self.endpoint, self.name, thinking)
        except BaseException:
            self.endpoint.close()
            raise
        for note in [*(unlisted(self.endpoint, name) if name else ()), *self.abilities.notes]:
            warnings.warn(note, stacklevel=2)
        self.upstream = Upstream(self.endpoint, self.name, takes_all=True)
        self.fingerprint = f"openai:{self.name}"
        self.seed = seed
        self.meter = Meter()
        self.requests = Requests(self.endpoint, self.abilities)
        self.asker = EndpointAsker(self.requests, distractors, seed)
        self._questions = ThreadPoolExecutor(CONCURRENT_CHATS, thread_name_prefix="secl-questions")
        self.objects = ObjectAsker(self.requests, seed)
        self._window: dict[Asked, Future[Findings]] = {}
        self._latest: Findings | None = None

    def _facts(self) -> dict[str, object]:
        return {"name": self.name, "endpoint": self.endpoint.url, "log_probabilities": self.abilities.top}

    @property
    def environment(self) -> dict[str, str | int]:
        """Engine, number of log-probabilities, and the control of thoughts: names of request fields, or "requested"."""
        switches = {*(self.abilities.off or ()), *(self.abilities.on or ())}
        thoughts = "requested" if self.abilities.request else ", ".join(sorted(switches))
        named = {"thoughts": thoughts} if thoughts else {}
        return {"engine": "openai", "log_probabilities": self.abilities.top, **named}

    def cost(
        self,
        asked: Sequence[Question | GivenAnswer],
        evidence: Collection[EvidenceKind] = frozenset({"candidates"}),
        samples: int = 10,
    ) -> Cost:
        """Estimate requests and tokens for questions, or for given answers, without asking the server."""
        distractors = self.asker.distractors
        return cost_of(self.abilities, asked, evidence, samples=samples, distractors=distractors)

    def check(self, question: Question, given: str | None = None) -> None:
        """Accept every question and answer. The server itself refuses a text that is too long."""

    def prefetch(
        self,
        questions: Sequence[Question],
        evidence: Sequence[Collection[EvidenceKind]],
        *,
        weights_fixed: bool,  # noqa: ARG002  (they always are)
        written: Sequence[str | Piece | None] = (),
    ) -> None:
        """Ask about a window of questions in parallel; see `secl.model.Model.prefetch`."""
        wanted: dict[Asked, tuple[str | Piece | None, set[EvidenceKind]]] = {}
        for question, kinds, text in zip(questions, evidence, written or [None] * len(questions), strict=True):
            wanted.setdefault(_asked(question, text), (text, set()))[1].update(kinds)
        self._window = {
            asked: self._questions.submit(self.asker.answer, asked[0], kinds, text)
            for asked, (text, kinds) in wanted.items()
        }
        self._wait(self._window.values())

    def _wait(self, pending: Collection[Future[Findings]]) -> None:
        """Wait for a window of questions.

        If the server refuses a question, the question's future keeps the error. Any other error cancels all waiting
        requests, and this method raises the error.
        """
        try:
            for future in as_completed(pending):
                if not isinstance(future.exception(), QuestionError):
                    future.result()
        except BaseException:
            self.requests.abandon()
            raise

    def write_objects(
        self, requests: Sequence[ObjectRequest], samples: Callable[[ObjectRequest, WrittenObject], int]
    ) -> list[Objects[WrittenObject] | SeclError]:
        """Write JSON objects in parallel; see `secl.fields.extraction.WritesObjects`."""

        def outcome(request: ObjectRequest) -> Objects[WrittenObject] | SeclError:
            try:
                return self.objects.write(request, samples)
            except QuestionError as refusal:
                return refusal

        return [*self._questions.map(outcome, requests)]

    def check_schema(self, schema: Schema) -> tuple[str, ...]:
        """Return a sentence for each keyword of a schema that no server applies."""
        return schema.remarks

    def memory_share(self, question: Question, writing: Writing) -> float:  # noqa: ARG002
        return 0.0

    def write(self, question: Question, writing: Writing) -> Iterator[Piece]:
        """Stream free answers; see `secl.model.Model.write`."""
        return self.requests.write(question, writing)

    def answer(
        self, question: Question, *, evidence: Collection[EvidenceKind] = (), written: str | Piece | None = None
    ) -> ModelAnswer:
        """Answer and state a confidence. Equal questions of one `prefetch` share an answer.

        Raises:
            QuestionError: the server refuses the question, for example because the question is too long.
            UnavailableError: the server does not answer now.
        """
        pending = self._window.get(_asked(question, written))
        findings = pending.result() if pending else self.asker.answer(question, {*evidence}, written)
        self._latest = findings
        self._pay(findings)
        return ModelAnswer(reply=findings.reply, frozen=findings.reply, plain_tokens=findings.plain_tokens)

    def rate(self, given: Sequence[GivenAnswer], evidence: Collection[EvidenceKind]) -> list[Rating | QuestionError]:
        """Rate answers from elsewhere in parallel; see `secl.model.Model.rate`."""
        pending = [self._questions.submit(self.asker.rate, each, {*evidence}) for each in given]
        self._wait(pending)
        return [_rating(future) for future in pending]

    def gather(
        self, question: Question, reply: Reply, evidence: Collection[EvidenceKind], *, samples: int = 0
    ) -> Evidence:
        """Return evidence about a reply, without kinds that cannot be read; see `secl.model.Model.gather`."""
        findings = self._latest
        if findings is None or findings.question != question or findings.reply != reply:
            findings = self._latest = Findings(question)
            findings.reply = reply
        self.asker.gather(findings, {*evidence})
        self._pay(findings)
        return Evidence(
            candidates=findings.candidates if "candidates" in evidence else None,
            p_true=findings.p_true if "p_true" in evidence else None,
            samples=self._sample(question, samples) if "samples" in evidence else None,
        )

    def _pay(self, findings: Findings) -> None:
        for purpose, tokens in findings.spent.items():
            self.meter.spend(purpose, tokens)
        findings.spent.clear()

    def _sample(self, question: Question, count: int) -> tuple[str | None, ...]:
        """Return further answers at temperature 1. secl draws option letters from the answer's probabilities."""
        if not question.options:
            drawn = self.asker.sample(question, range(count))
            self.meter.spend("sampling", sum(each.length for each in drawn))
            form, asked = question.form, question.text
            return tuple(read_answer(trim_answer(each.text, form), form, asked) for each in drawn)
        findings = self._latest
        if findings is None or findings.question != question:
            findings = self.asker.answer(question, frozenset())
            self._pay(findings)
        log_p = dict(zip(question.letters, findings.reply.option_log_p, strict=False))
        nucleus = _nucleus(log_p, NUCLEUS)
        draws = random.Random(question_seed(self.seed, question, "samples"))
        return tuple(draws.choices([*nucleus], [*nucleus.values()], k=count)) if nucleus else (None,) * count

    def close(self) -> None:
        """Wait for the running requests, then close the connections."""
        self._questions.shutdown(cancel_futures=True)
        self.requests.close()
        self.endpoint.close()


def _asked(question: Question, written: str | Piece | None) -> Asked:
    thought = written.whole_thought if isinstance(written, Piece) else None
    return question, None if written is None else str(written), thought


def _rating(rated: Future[Findings]) -> Rating | QuestionError:
    if isinstance(refusal := rated.exception(), QuestionError):
        return refusal
    found = rated.result()
    evidence, cost = Evidence(p_true=found.p_true, candidates=found.candidates), Ledger(**found.spent)
    return Rating(reply=found.reply, evidence=evidence, ledger=cost, plain_tokens=found.plain_tokens)


def _nucleus(log_p: Mapping[str, float], top_p: float) -> dict[str, float]:
    """Return the most probable letters that together have the probability `top_p`, with their probabilities."""
    p = {letter: math.exp(value) for letter, value in log_p.items()}
    total, before = sum(p.values()), 0.0
    nucleus = {}
    for letter in sorted(p, key=lambda each: -p[each]):
        if before < top_p * total:
            nucleus[letter] = p[letter]
        before += p[letter]
    return nucleus
