"""Answers of the frozen and the adapted model to a window of questions.

The frozen model never changes, so its answers and its P(True) can be computed for a whole window of questions at once
and never go stale. The adapted model reads the same token sequences: while its weights stand still for a whole window
too, else one question at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from secl.backends.base import Bundle, Position, Reading, TokenBackend
from secl.backends.candidates import CandidateProbe, Comparison, read_candidates
from secl.backends.generation import Draft
from secl.backends.prompting import Prompting
from secl.backends.readout import Readout, Verdicts
from secl.cost import Purpose
from secl.evidence import CandidateEvidence, EvidenceKind
from secl.prompts.orders import further_orders
from secl.prompts.parsing import is_brief, read_answer
from secl.question import Question
from secl.records import Reply

Job = Callable[[], None]


class _Costs(Protocol):
    @property
    def tokens(self) -> float: ...


@dataclass
class Answer:
    """The answer of one version of the model.

    Attributes:
        reading: the model as a reader of the answer.
        costs: everything whose tokens were spent on it.
        text: the answer as written; None for multiple choice.
        draft: how it was written; None for multiple choice, and for a text that was there already.
        reply: what is read off, once the jobs are done that `Answering` leaves to its backend.
    """

    reading: Reading
    costs: Sequence[_Costs]
    text: str | None = None
    draft: Draft | None = None
    reply: Reply = field(init=False)

    @property
    def tokens(self) -> float:
        """Tokens through the network."""
        return sum(cost.tokens for cost in self.costs)

    @property
    def counts(self) -> tuple[int, int]:
        """Tokens of the prompt, and of the answer: a letter is one, a text was written or stands in the reading."""
        positions = self.reading.bundle.positions
        if self.draft is not None:
            return len(self.draft.prompt), len(self.draft.written)
        return positions[0][1], 1 if self.text is None else len(positions) - 2


@dataclass
class Prefetched:
    """A question with what is known about it before its turn.

    Attributes:
        question: as asked.
        frozen: answer of the frozen model.
        tokens: what the frozen model spent on its answer, its share of a common pass.
        evidence_tokens: what it spent on evidence in the same passes, by purpose.
        verdicts: on each option; None where none were asked for.
        candidates: evidence about all candidates; None where none was asked for.
        comparison: of an open answer with others; None where none was asked for, or there is nothing to read.
        listing: a list of answers, for distractors; None where none was written.
        version: of the adapted answer; 0 while there is none.
        adapted: answer of the adapted model.
        adapted_tokens: what it took.
        used: whether a record has the adapted answer.
    """

    question: Question
    frozen: Answer
    tokens: float = 0.0
    evidence_tokens: dict[Purpose, float] = field(default_factory=dict)
    verdicts: Verdicts | None = None
    candidates: CandidateEvidence | None = None
    comparison: Comparison | None = None
    listing: Draft | None = None
    version: int = 0
    adapted: Answer | None = None
    adapted_tokens: float = 0.0
    used: bool = False

    def answer(self, version: int) -> Answer:
        """The answer of the adapted model, or the frozen one's for version 0."""
        return self.adapted if version and self.adapted is not None else self.frozen

    def digit_position(self, reading: Reading, reply: Reply) -> Position:
        """Where the confidence of a reply is stated."""
        positions = reading.bundle.positions
        return positions[1 + self.question.letters.index(reply.text)] if self.question.options else positions[-1]

    def split(self, times: int) -> None:
        """Share the tokens among several turns of the same question."""
        self.tokens /= times
        self.evidence_tokens = {purpose: tokens / times for purpose, tokens in self.evidence_tokens.items()}
        self.adapted_tokens /= times


class Answering:
    """Answers windows of questions.

    Args:
        backend: computes.
        prompting: builds the token sequences.
        readout: reads the replies.
        candidates: asks about all candidates, where that is wanted.
        rewrites: whether the adapted model answers anew; if not, it reads the frozen model's answer, and what it adds
            is its confidence.

    Attributes:
        stale_tokens: spent on adapted answers that no record has, because an update came first.
    """

    def __init__(
        self,
        backend: TokenBackend[Any],
        prompting: Prompting,
        readout: Readout,
        candidates: CandidateProbe,
        *,
        rewrites: bool = True,
    ) -> None:
        self.backend = backend
        self.prompting = prompting
        self.readout = readout
        self.candidates = candidates
        self.rewrites = rewrites
        self.stale_tokens = 0.0

    def prefetch(
        self,
        questions: Sequence[Question],
        evidence: Sequence[Collection[EvidenceKind]],
        version: int,
        written: Sequence[str | None] = (),
    ) -> list[Prefetched]:
        """Answer questions.

        Args:
            questions: to be answered.
            evidence: what is wanted beside each answer: about the options, or a list of answers to an open question.
            version: of the adapted model, whose answers are wanted beside those of the frozen one; 0 for none.
            written: for each an answer that was written already; None, or nothing at all, to write one.
        """
        given = written or [None] * len(questions)
        groups = (
            ([i for i, question in enumerate(questions) if question.options], self._choices),
            ([i for i, question in enumerate(questions) if not question.options and given[i] is None], self._open),
            ([i for i, question in enumerate(questions) if not question.options and given[i] is not None], self._given),
        )
        by_number: dict[int, Prefetched] = {}
        for numbers, prepare in groups:
            if numbers:
                asked = (
                    [questions[i] for i in numbers],
                    [evidence[i] for i in numbers],
                    [given[i] or "" for i in numbers],
                )
                by_number.update(zip(numbers, prepare(*asked, version), strict=True))
        window = [by_number[i] for i in range(len(questions))]
        jobs = [partial(self._read, item, item.frozen, 0) for item in window]
        jobs += [partial(self._read_evidence, item) for item in window]
        adapting = self._begin_adapting(window, version) if version else []
        self.backend.release()
        self.backend.together([*jobs, *adapting])
        for item in window:
            spent = item.frozen.reading.evidence_tokens
            item.tokens = item.frozen.tokens - spent.verdicts - spent.orders - spent.spans
            listed = item.listing.tokens if item.listing is not None else 0.0
            item.evidence_tokens = {
                "scoring": spent.verdicts + listed,
                "sampling": 0.0 if item.comparison is None else item.comparison.sampling,
                "reordering": spent.orders,
                "likelihood": spent.spans,
            }
            item.adapted_tokens = item.adapted.tokens if item.adapted is not None else 0.0
        return window

    def adapt(self, items: Sequence[Prefetched], version: int) -> None:
        """Add the answers of an adapted version, replacing those of an older one."""
        for item in items:
            # No record pays for what an update made stale, because a resumed run does not repeat it.
            self.stale_tokens += 0.0 if item.used else item.adapted_tokens
            item.used = False
        self.backend.together(self._begin_adapting(items, version))
        for item in items:
            item.adapted_tokens = item.answer(version).tokens

    def _choices(
        self,
        questions: Sequence[Question],
        evidence: Sequence[Collection[EvidenceKind]],
        _written: Sequence[str],
        _version: int,
    ) -> list[Prefetched]:
        """Multiple choice: a branch for every letter, so that letter and confidence come in one pass."""
        bundles = [
            self.prompting.choices(question, kinds, self._orders_of(question))
            for question, kinds in zip(questions, evidence, strict=True)
        ]
        readings = self.backend.read(bundles)
        return [Prefetched(q, Answer(reading, [reading])) for q, reading in zip(questions, readings, strict=True)]

    def _open(
        self,
        questions: Sequence[Question],
        evidence: Sequence[Collection[EvidenceKind]],
        _written: Sequence[str],
        version: int,
    ) -> list[Prefetched]:
        """Open questions: answers are written as one batch, then read again together."""
        drafts = [Draft.answer(self.prompting.answer(question), question.form) for question in questions]
        lists = {
            i: Draft.list(self.prompting.answer_list(question), question.form)
            for i, question in enumerate(questions)
            # A free answer may be longer than anything in a list: once it is there, `DistractorProbe` knows.
            if not question.free and "p_true" in evidence[i]
        }
        # Lists end later than answers, so they are a batch of their own.
        self.backend.write([drafts, list(lists.values())], rewriting=version if self.rewrites else 0)
        comparisons = self._compared(questions, [self.backend.rules.answer(draft) for draft in drafts], evidence)
        answers = self._read_again(questions, drafts, comparisons)
        return [
            Prefetched(question, answer, listing=lists.get(i), comparison=comparisons[i])
            for i, (question, answer) in enumerate(zip(questions, answers, strict=True))
        ]

    def _given(
        self,
        questions: Sequence[Question],
        evidence: Sequence[Collection[EvidenceKind]],
        written: Sequence[str],
        _version: int,
    ) -> list[Prefetched]:
        """Open questions whose answers are there already."""
        lists = {
            i: Draft.list(self.prompting.answer_list(question), question.form)
            for i, question in enumerate(questions)
            if "p_true" in evidence[i] and is_brief(written[i], question.form)
        }
        self.backend.write([list(lists.values())])
        comparisons = self._compared(questions, written, evidence)
        bundles = [
            _with_orders(self._continued(question, text), comparison)
            for question, text, comparison in zip(questions, written, comparisons, strict=True)
        ]
        return [
            Prefetched(question, Answer(reading, [reading], text), listing=lists.get(i), comparison=comparisons[i])
            for i, (question, text, reading) in enumerate(
                zip(questions, written, self.backend.read(bundles), strict=True)
            )
        ]

    def _continued(self, question: Question, text: str) -> Bundle:
        """An answer that is there already; that of a chat was most likely written by this model, behind its prompt."""
        bundle = self.prompting.written(question, text)
        return replace(bundle, begun=self.prompting.answer(question)) if question.form == "text" else bundle

    def _compared(
        self, questions: Sequence[Question], texts: Sequence[str], evidence: Sequence[Collection[EvidenceKind]]
    ) -> list[Comparison | None]:
        """What open answers are compared with, where that is wanted."""
        answers = [read_answer(text, question.form) for question, text in zip(questions, texts, strict=True)]
        wanted = {i: answer for i, answer in enumerate(answers) if answer is not None and "candidates" in evidence[i]}
        compared = self.candidates.among_answers([(questions[i], answer, ()) for i, answer in wanted.items()])
        by_number = dict(zip(wanted, compared, strict=True))
        return [by_number.get(i) for i in range(len(questions))]

    def _read_again(
        self,
        questions: Sequence[Question],
        drafts: Sequence[Draft],
        comparisons: Sequence[Comparison | None] | None = None,
    ) -> list[Answer]:
        """Written answers with the question for their confidence, as the frozen model reads them."""
        texts = [self.backend.rules.answer(draft) for draft in drafts]
        bundles = [
            _with_orders(self.prompting.written(question, text, draft), comparison)
            for question, text, draft, comparison in zip(
                questions, texts, drafts, comparisons or [None] * len(drafts), strict=True
            )
        ]
        readings = self.backend.read(bundles)
        return [
            Answer(reading, [draft, reading], text, draft)
            for reading, draft, text in zip(readings, drafts, texts, strict=True)
        ]

    def _begin_adapting(self, items: Sequence[Prefetched], version: int) -> list[Job]:
        """Write and read what is needed of the adapted answers; the jobs that are left read the replies off."""
        readings = self.backend.adapt([item.frozen.reading for item in items], version)
        for item, reading in zip(items, readings, strict=True):
            item.version = version
            item.adapted = Answer(reading, [reading], item.frozen.text, item.frozen.draft)
        if self.rewrites:
            self._rewrite([item for item in items if item.frozen.draft is not None], version)
        return [partial(self._read, item, item.answer(version), version) for item in items]

    def _rewrite(self, items: Sequence[Prefetched], version: int) -> None:
        """Replace the open answers where the adapted model writes another one: that is what it has confidence in."""
        same = [item.answer(version) for item in items]
        drafts = [answer.draft for answer in same if answer.draft is not None]
        rewritten = self.backend.rewrite(drafts, [answer.reading for answer in same], version)
        changed = [(item, draft) for item, draft in zip(items, rewritten, strict=True) if draft is not None]
        answers = self._read_again([item.question for item, _ in changed], [draft for _, draft in changed])
        readings = self.backend.adapt([answer.reading for answer in answers], version)
        for (item, draft), answer, reading in zip(changed, answers, readings, strict=True):
            costs = [item.answer(version).reading, *answer.costs, reading]
            item.adapted = Answer(reading, costs, answer.text, draft)

    def _read(self, item: Prefetched, answer: Answer, version: int) -> None:
        if answer.text is not None:
            reply = self.readout.open(item.question, answer.text, answer.reading, version)
        elif self.rewrites or not version:
            reply = self.readout.choice(item.question, answer.reading, version)
        else:
            frozen = self.readout.choice(item.question, item.frozen.reading, 0)
            reply = self.readout.choice(item.question, answer.reading, version, frozen.answer)
        prompt, written = answer.counts
        answer.reply = replace(reply, prompt_tokens=prompt, answer_tokens=written)

    def _read_evidence(self, item: Prefetched) -> None:
        reading, question = item.frozen.reading, item.question
        if reading.bundle.verdicts:
            item.verdicts = self.readout.verdicts(reading)
        if reading.bundle.spans:
            orders = self._orders_of(question)
            item.candidates = read_candidates(reading, self.readout, question.options, orders, "options")
        elif item.comparison is not None:
            item.candidates = item.comparison.read(reading, self.readout)

    def _orders_of(self, question: Question) -> list[tuple[int, ...]]:
        return further_orders(len(question.options), self.candidates.orders)


def _with_orders(bundle: Bundle, comparison: Comparison | None) -> Bundle:
    """A bundle, and behind it the choice between the answer and others."""
    return bundle if comparison is None else replace(bundle, orders=comparison.bundle.orders)
