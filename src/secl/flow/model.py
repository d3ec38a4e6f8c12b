"""A model whose answers and evidence come from flows, through a driver."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

from secl.display import Shown
from secl.errors import QuestionError
from secl.evidence import Evidence, EvidenceKind, Thought
from secl.flow.questions import Case, answer, gather, rate, sample
from secl.flow.requests import Driver, FlowRun
from secl.ledger import Ledger, Meter
from secl.model import Model, ModelAnswer, Rating, check_given
from secl.question import GivenAnswer, Question
from secl.records import Reply
from secl.writing import Chunk

Written = str | Chunk | None

AnswerKey = tuple[Question, str | None, Thought | None]
"""A question, an existing open answer to it, and the thought before this answer; None if missing."""


@dataclass
class Answered:
    """The frozen model's answer to a question.

    Attributes:
        window: what the passes of the answer depend on: the window of questions, and the evidence for each.
        adapted: what a model that learns keeps of its own answer.
    """

    case: Case
    run: FlowRun
    window: Hashable
    adapted: Any = None


class SharedAnswers:
    """A cache of the frozen model's answers for runs in lockstep, which clear the cache after each window."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, dict[Hashable, Any]] = {}

    def to(self, *key: Hashable) -> dict[Hashable, Any]:
        """Return the cached answers of models with an equal `key` (weights, precision, prompts, seed)."""
        return self._answers.setdefault(key, {})

    def clear(self) -> None:
        """Delete all answers; models keep references to the emptied dictionaries."""
        for answers in self._answers.values():
            answers.clear()


class FlowModel(Shown, Model):
    """A model on a driver, without its learning.

    Args:
        shared: cache of frozen answers and evidence; None if not shared.
    """

    fingerprint = ""

    def __init__(self, driver: Driver, shared: dict[Hashable, Any] | None = None) -> None:
        self.driver, self.meter = driver, Meter()
        self._shared = shared
        self._window: dict[AnswerKey, Answered] = {}
        self._latest: Answered | None = None

    def prefetch(
        self,
        questions: Sequence[Question],
        evidence: Sequence[Collection[EvidenceKind]],
        *,
        weights_fixed: bool,
        written: Sequence[Written] = (),
    ) -> None:
        """Answer a window of upcoming questions together; see `secl.model.Model.prefetch`."""
        asked: dict[AnswerKey, tuple[Written, set[EvidenceKind]]] = {}
        for question, kinds, text in zip(questions, evidence, written or repeat(None), strict=False):
            try:
                self.check(question, None if text is None else str(text))
            except QuestionError:  # `answer` raises this error for that question alone
                continue
            asked.setdefault(key_of(question, text), (text, set()))[1].update(kinds)
        self._window = self._ask(asked, weights_fixed=weights_fixed)
        self._adapt([*self._window.values()], weights_fixed=weights_fixed)

    def answer(
        self, question: Question, *, evidence: Collection[EvidenceKind] = (), written: Written = None
    ) -> ModelAnswer:
        """Answer a question and state a confidence; see `secl.model.Model.answer`.

        Raises:
            QuestionError: the model cannot answer the question.
            UnavailableError: the server does not answer now.
        """
        key = key_of(question, written)
        known = self._window.get(key)
        if known is None:
            self.check(question, None if written is None else str(written))
            (known,) = self._ask({key: (written, {*evidence})}).values()
        if known.run.refusal is not None:
            raise known.run.refusal
        self._latest = known
        self._pay(known.run)
        frozen = known.case.reply
        reply = self._present(known, None if written is None or not question.options else str(written))
        return ModelAnswer(reply=reply, frozen=frozen, plain_tokens=_plain_tokens(known.case))

    def gather(
        self, question: Question, reply: Reply, evidence: Collection[EvidenceKind], *, samples: int = 0
    ) -> Evidence:
        """Gather evidence about a reply; see `secl.model.Model.gather`."""
        kinds, shared = frozenset(evidence), self._shared
        window = None if self._latest is None else self._latest.window
        key = ("gather", question, reply.answer, reply.thought, kinds, samples, window)
        if shared is not None and key in shared:
            case, runs = shared[key]
        else:
            case = self._case_about(question, reply)
            runs = [FlowRun(gather(case, kinds), thought=reply.thought)]
            self.driver.run(runs)
            if "samples" in kinds:
                runs.append(FlowRun(sample(case, samples)))
                self.driver.run(runs[1:])
                runs[1].spent = {"sampling": sum(runs[1].spent.values())}
            if shared is not None:
                shared[key] = case, runs
        for run in runs:
            if run.refusal is not None:
                raise run.refusal
            self._pay(run)
        found: Evidence = case.evidence(kinds)
        return found

    def rate(self, given: Sequence[GivenAnswer], evidence: Collection[EvidenceKind]) -> list[Rating | QuestionError]:
        """Rate answers from elsewhere; see `secl.model.Model.rate`."""
        outcomes: list[tuple[Case, FlowRun] | QuestionError] = []
        for each in given:
            try:
                check_given(self, each)
                case = Case(each.question, self.driver)
                outcomes.append((case, FlowRun(rate(case, each, frozenset(evidence)))))
            except QuestionError as refusal:
                outcomes.append(refusal)
        self.driver.run([each[1] for each in outcomes if isinstance(each, tuple)])
        return [each if isinstance(each, QuestionError) else _rating(*each) for each in outcomes]

    def _ask(
        self, asked: dict[AnswerKey, tuple[Written, set[EvidenceKind]]], *, weights_fixed: bool = True
    ) -> dict[AnswerKey, Answered]:
        """Answer distinct questions with the frozen model."""
        judged = not self._rewrites(weights_fixed)
        window = (judged, *((key, frozenset(kinds)) for key, (_, kinds) in asked.items()))
        known = None if self._shared is None else self._shared.get(window)
        if known is None:
            known = []
            for (question, *_), (written, kinds) in asked.items():
                case, text = Case(question, self.driver), None
                if written is not None and not question.options:
                    text = self.driver.text_of(question, written)
                flow = answer(case, frozenset(kinds), text, judge=judged)
                known.append(Answered(case, FlowRun(flow, text=text), window))
            self.driver.run([each.run for each in known])
            if self._shared is not None:
                self._shared[window] = known
        return {key: replace(each) for key, each in zip(asked, known, strict=True)}

    def _rewrites(self, weights_fixed: bool) -> bool:  # noqa: ARG002
        """Return whether adapted weights may write other open answers than the frozen weights."""
        return False

    def _adapt(self, answered: Sequence[Answered], *, weights_fixed: bool) -> None:
        """Answer with adapted weights too; a model that cannot learn has none."""

    def _present(self, known: Answered, letter: str | None) -> Reply:  # noqa: ARG002
        """Return the reply of the present weights, which states the confidence in `letter`, if given."""
        return known.case.reply

    def _case_about(self, question: Question, reply: Reply) -> Case:
        latest = self._latest
        if latest is not None and latest.case.question == question:
            return latest.case.about(reply)
        case = Case(question, self.driver)
        case.reply = reply
        return case

    def _pay(self, run: FlowRun) -> None:
        self.meter.spend("answering", 0.0, run.steps)
        for purpose, tokens in run.spent.items():
            self.meter.spend(purpose, tokens)


def key_of(question: Question, written: Written) -> AnswerKey:
    """Return what tells answers of one window apart. With options, all answers of a question share a reading."""
    if written is None or question.options:
        return question, None, None
    return question, str(written), written.whole_thought if isinstance(written, Chunk) else None


def _plain_tokens(case: Case) -> float:
    return 0.0 if case.stated is None else case.stated.plain_tokens


def _rating(case: Case, run: FlowRun) -> Rating | QuestionError:
    if run.refusal is not None:
        return run.refusal
    return Rating(
        reply=replace(case.reply, prompt_tokens=None, answer_tokens=None),
        evidence=Evidence(p_true=case.p_true, candidates=case.compared, facts=case.facts),
        ledger=Ledger(**run.spent, steps=run.steps),
        plain_tokens=_plain_tokens(case),
    )
