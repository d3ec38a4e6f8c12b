"""Answers of the frozen and the adapted model to a window of questions.

The frozen model never changes, so its answers and its P(True) can be computed for a whole window of questions at once
and never go stale. The adapted model reads the same token sequences: while its weights stand still for a whole window
too, else one question at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from secl.backends.base import Position, Reading
from secl.backends.generation import Draft
from secl.backends.local.asking.asker import Asker
from secl.backends.local.asking.candidates import Comparison, among_answers, among_options, beside
from secl.backends.shared import Window
from secl.evidence import CandidateEvidence, EvidenceKind, PTrue
from secl.prompts.parsing import is_brief, read_answer
from secl.question import Question
from secl.records import Purpose, Reply

Job = Callable[[], None]

Turn = tuple[Question, str | None]
"""A question, and the answer that was written already; None to write one, and for multiple choice."""


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
    costs: Sequence[Reading | Draft]
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
        comparison: of all candidates; None where none was asked for, or there is nothing to read.
        listing: a list of answers, for distractors; None where none was written.
        spent: tokens of the frozen model on its answer and on evidence, its share of common passes.
        p_true: of each option; None where it was not asked for.
        candidates: what `comparison` says.
        version: of the adapted answer; 0 while there is none.
        adapted: answer of the adapted model.
        adapted_tokens: what it took.
    """

    question: Question
    frozen: Answer
    comparison: Comparison | None
    listing: Draft | None = None
    spent: dict[Purpose, float] = field(default_factory=dict)
    p_true: PTrue | None = None
    candidates: CandidateEvidence | None = None
    version: int = 0
    adapted: Answer | None = None
    adapted_tokens: float = 0.0

    def answer(self, version: int) -> Answer:
        """The answer of the adapted model, or the frozen one's for version 0."""
        return self.adapted if version and self.adapted is not None else self.frozen

    def digit_position(self, reading: Reading, reply: Reply) -> Position:
        """Where the confidence of a reply is stated."""
        positions = reading.bundle.positions
        return positions[1 + self.question.letters.index(reply.text)] if self.question.options else positions[-1]

    def split(self, times: int) -> None:
        """Share the tokens among several turns of the same question."""
        self.spent = {purpose: tokens / times for purpose, tokens in self.spent.items()}
        self.adapted_tokens /= times


class Answering:
    """Answers windows of questions.

    Args:
        asker: reads and writes.
        rewrites: whether the adapted model answers anew; if not, it reads the frozen model's answer, and what it adds
            is its confidence.
    """

    def __init__(self, asker: Asker, *, rewrites: bool) -> None:
        self.asker, self.rewrites = asker, rewrites

    def turn(self, question: Question, text: str | None) -> Turn:
        """A question with what was written in answer to it, as it stands in the conversation."""
        return question, None if text is None or question.options else self.asker.prompting.given(question, text)

    def prefetch(
        self, turns: Sequence[Turn], evidence: Sequence[Collection[EvidenceKind]], version: int
    ) -> dict[Turn, Prefetched]:
        """Answer questions; one that comes twice is looked at once, and each of its turns pays its part.

        Args:
            turns: to be answered.
            evidence: what is wanted beside each answer: about the options, or a list of answers to an open question.
            version: of the adapted model, whose answers are wanted beside those of the frozen one; 0 for none.
        """
        wanted: dict[Turn, list[Collection[EvidenceKind]]] = {}
        for turn, kinds in zip(turns, evidence, strict=True):
            wanted.setdefault(turn, []).append(kinds)
        kinds_of = {turn: frozenset[EvidenceKind]().union(*each) for turn, each in wanted.items()}
        window, jobs = self._frozen(kinds_of)
        items = dict(zip(wanted, window, strict=True))
        adapting = self._begin_adapting(window, version) if version else []
        self.asker.backend.release()
        self.asker.backend.together([*jobs, *adapting])
        for item in window:
            spent = item.frozen.reading.evidence_tokens
            item.spent = {
                "answering": item.frozen.tokens - spent.verdicts - spent.orders - spent.spans,
                "scoring": spent.verdicts + (0.0 if item.listing is None else item.listing.tokens),
                "sampling": 0.0 if item.comparison is None else item.comparison.sampling,
                "reordering": spent.orders,
                "likelihood": spent.spans,
            }
            item.adapted_tokens = item.adapted.tokens if item.adapted is not None else 0.0
        for turn, item in items.items():
            item.split(len(wanted[turn]))
        return items

    def _frozen(self, kinds_of: Mapping[Turn, frozenset[EvidenceKind]]) -> tuple[list[Prefetched], list[Job]]:
        """Answers of the frozen model, and the jobs that are left to do; none where they were shared."""
        shared, key = self.asker.shared, tuple(kinds_of.items())
        known = None if shared is None else shared.windows.get(key)
        prefill = self.asker.learner.prefill
        if known is not None:
            if prefill is not None:
                prefill.begun = known.prompts  # an adapter may write other answers behind them
            return [replace(item) for item in known.items], []
        choices = [turn for turn in kinds_of if turn[0].options]
        opened = [turn for turn in kinds_of if not turn[0].options]
        items: dict[Turn, Prefetched] = {}
        if choices:
            items |= zip(choices, self._choices([(turn[0], kinds_of[turn]) for turn in choices]), strict=True)
        if opened:
            items |= zip(opened, self._open([(turn[0], kinds_of[turn], turn[1]) for turn in opened]), strict=True)
        window = [items[turn] for turn in kinds_of]
        jobs: list[Job] = [partial(self._read, item, item.frozen, 0) for item in window]
        jobs += [partial(self._read_evidence, item) for item in window]
        if shared is None:
            return window, jobs
        self.asker.backend.together(jobs)
        shared.windows[key] = Window([replace(item) for item in window], {} if prefill is None else prefill.begun)
        return window, []

    def adapt(self, item: Prefetched, version: int) -> None:
        """Add the answer of an adapted version in the place of an older one's.

        No record pays for what an update made stale, because a resumed run does not repeat it.
        """
        self.asker.backend.together(self._begin_adapting([item], version))
        item.adapted_tokens = item.answer(version).tokens

    def reply(self, item: Prefetched, version: int, written: str | None) -> Reply:
        """The reply of a version; of multiple choice to the letter `written`, where one was given before."""
        answer = item.answer(version)
        if written is None or not item.question.options or written == answer.reply.text:
            return answer.reply
        named = self.asker.readout.choice(item.question, answer.reading, version, written)
        return replace(named, prompt_tokens=answer.reply.prompt_tokens, answer_tokens=answer.reply.answer_tokens)

    def _choices(self, turns: Sequence[tuple[Question, Collection[EvidenceKind]]]) -> list[Prefetched]:
        """Multiple choice: a branch for every letter, so that letter and confidence come in one pass."""
        compared = [among_options(self.asker, each) if "candidates" in kinds else None for each, kinds in turns]
        bundles = [
            beside(self.asker.prompting.choices(question, judged="p_true" in kinds), comparison)
            for (question, kinds), comparison in zip(turns, compared, strict=True)
        ]
        readings = self.asker.backend.read(bundles)
        return [
            Prefetched(question, Answer(reading, [reading]), comparison)
            for (question, _), reading, comparison in zip(turns, readings, compared, strict=True)
        ]

    def _open(self, turns: Sequence[tuple[Question, Collection[EvidenceKind], str | None]]) -> list[Prefetched]:
        """Open questions: answers that are not there yet are written as one batch, then all are read together, beside
        what they are compared with where that is wanted."""
        asker = self.asker
        drafts = [
            Draft.answer(asker.prompting.answer(question), question.form) if text is None else None
            for question, _, text in turns
        ]
        lists = {
            i: asker.list_of_answers(question)
            for i, (question, kinds, text) in enumerate(turns)
            # A free answer may be longer than anything in a list; whoever needs one writes it when the answer is there.
            if "p_true" in kinds and (not question.free if text is None else is_brief(text, question.form))
        }
        # Lists end later than answers, so they are a batch of their own.
        asker.backend.write([[draft for draft in drafts if draft is not None], list(lists.values())])
        texts = [
            (question, text or "" if draft is None else asker.answer_in(draft), draft)
            for (question, _, text), draft in zip(turns, drafts, strict=True)
        ]
        answers = {
            i: (question, answer, ())
            for i, ((question, text, _), (_, kinds, _)) in enumerate(zip(texts, turns, strict=True))
            if "candidates" in kinds and (answer := read_answer(text, question.form)) is not None
        }
        comparisons = dict(zip(answers, among_answers(asker, [*answers.values()]), strict=True))
        return [
            Prefetched(question, answer, comparisons.get(i), lists.get(i))
            for i, ((question, _, _), answer) in enumerate(
                zip(texts, self._read_texts(texts, comparisons), strict=True)
            )
        ]

    def _read_texts(
        self, texts: Sequence[tuple[Question, str, Draft | None]], comparisons: dict[int, Comparison | None]
    ) -> list[Answer]:
        """Written answers with the question for their confidence, as the frozen model reads them."""
        bundles = []
        for i, (question, text, draft) in enumerate(texts):
            bundle = self.asker.prompting.written(question, text, draft)
            if draft is None and question.free:  # most likely this model wrote it behind its prompt a moment ago
                bundle = replace(bundle, begun=self.asker.prompting.answer(question))
            bundles.append(beside(bundle, comparisons.get(i)))
        return [
            Answer(reading, [reading] if draft is None else [draft, reading], text, draft)
            for (_, text, draft), reading in zip(texts, self.asker.backend.read(bundles), strict=True)
        ]

    def _begin_adapting(self, items: Sequence[Prefetched], version: int) -> list[Job]:
        """Write and read what is needed of the adapted answers; the jobs that are left read the replies off."""
        readings = self.asker.backend.adapt([item.frozen.reading for item in items], version)
        for item, reading in zip(items, readings, strict=True):
            item.version = version
            item.adapted = Answer(reading, [reading], item.frozen.text, item.frozen.draft)
        if self.rewrites:
            self._rewrite([item for item in items if item.frozen.draft is not None], version)
        return [partial(self._read, item, item.answer(version), version) for item in items]

    def _rewrite(self, items: Sequence[Prefetched], version: int) -> None:
        """Replace the open answers where the adapted model writes another one: that is what it has confidence in."""
        backend, same = self.asker.backend, [item.answer(version) for item in items]
        drafts = [answer.draft for answer in same if answer.draft is not None]
        rewritten = backend.rewrite(drafts, [answer.reading for answer in same], version)
        changed = [(item, draft) for item, draft in zip(items, rewritten, strict=True) if draft is not None]
        answers = self._read_texts([(item.question, self.asker.answer_in(draft), draft) for item, draft in changed], {})
        readings = backend.adapt([answer.reading for answer in answers], version)
        for (item, draft), answer, reading in zip(changed, answers, readings, strict=True):
            costs = [item.answer(version).reading, *answer.costs, reading]
            item.adapted = Answer(reading, costs, answer.text, draft)

    def _read(self, item: Prefetched, answer: Answer, version: int) -> None:
        readout = self.asker.readout
        if answer.text is not None:
            reply = readout.open(item.question, answer.text, answer.reading, version)
        elif self.rewrites or not version:
            reply = readout.choice(item.question, answer.reading, version)
        else:
            frozen = readout.choice(item.question, item.frozen.reading, 0)
            reply = readout.choice(item.question, answer.reading, version, frozen.answer)
        prompt, written = answer.counts
        answer.reply = replace(reply, prompt_tokens=prompt, answer_tokens=written)

    def _read_evidence(self, item: Prefetched) -> None:
        reading = item.frozen.reading
        if reading.bundle.verdicts:
            item.p_true = self.asker.readout.p_true(reading, item.question.options, "options")
        if item.comparison is not None:
            item.candidates = item.comparison.read(reading, self.asker.readout)
