"""Rating answers from elsewhere, and labels: the part of a calibrator that neither answers nor learns.

Everything said about a given answer comes from the frozen model, whatever version answers questions meanwhile. The
stream stays where it is but for two things: a rated answer takes a position, and its views teach the posterior, because
they are about the candidates and not about who answered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from secl.calibrator.lesson import EvidencePlan
from secl.calibrator.lookahead import WINDOW, StreamState
from secl.data.question_files import QuestionFile, QuestionRow
from secl.errors import QuestionError
from secl.evidence import Evidence, Posterior
from secl.gates import Gate
from secl.grading import grade
from secl.labels import Label, LabelState, label_of
from secl.model import Model, Rating
from secl.posterior.rule import PosteriorRule
from secl.question import GivenAnswer, Question
from secl.records import Decision, Record, Reply
from secl.settings.groups import LoopSettings

UNDECIDED = Decision(alarm=False, in_burst=False, remaining=0, statistic=None)
"""Of a given answer: no gate looks at it, because its entropy says nothing about what is asked of this model."""


Scorable = GivenAnswer | QuestionRow | tuple[Question | str, str]
"""What can be rated: an answer with its question."""


def as_question(question: object) -> Question:
    """A question, or a text as one.

    Raises:
        QuestionError: it is neither.
    """
    if isinstance(question, Question):
        return question
    if isinstance(question, str):
        return Question(question)
    conversation = isinstance(question, list | tuple) and any(isinstance(part, dict) for part in question)
    remedy = (
        "give the last message as a text, and what comes before as Question(text, system=..., context=...)"
        if conversation
        else "give a text or a secl.Question"
    )
    raise QuestionError(f"{str(question)[:60]!r} ({type(question).__name__}) is no question; {remedy}.")


class Scoring:
    """Rates given answers, and takes labels; `secl.Calibrator` is one."""

    model: Model
    gate: Gate
    posterior: PosteriorRule
    plan: EvidencePlan
    loop: LoopSettings
    calibration: Sequence[Label]
    state: StreamState

    def start(self) -> StreamState:
        """The state before the first question of a stream."""
        labels = LabelState.start(self.calibration)
        return StreamState(gate=self.gate.start(), posterior=self.posterior.start(), labels=labels)

    def label(self, record: Record, correct: bool | None, *, chance: float | None = 1.0) -> Label:
        """Say whether the answer of a record is right, or take that back; later confidences follow.

        A record that is there already stays as it was reported: `state.labels` has what its confidence would be now.

        Args:
            record: as it was reported.
            correct: whether `record.answer` is right; None takes back what was said of it before.
            chance: probability that this answer was labelled, in [1e-4, 1]; equal for all that are drawn at random.
                None if unknown; volunteers label wrong answers more often.

        Raises:
            ParameterError: a chance outside [1e-4, 1].

        >>> from secl import Calibrator, ScriptedModel
        >>> calibrator = Calibrator(ScriptedModel())
        >>> record = calibrator.ask("Capital of Peru?")
        >>> label = calibrator.label(record, False)
        >>> now = calibrator.state.labels.confidence(record.question.domain, record.label_free)
        >>> round(record.confidence, 2), round(now, 2)
        (0.85, 0.77)
        """
        label = label_of(record, correct, number=self.state.labels.until + 1, chance=chance)
        self.take_labels([label])
        return label

    def take_labels(self, labels: Iterable[Label]) -> None:
        """Take the next entries of a log of labels into account."""
        self.state = replace(self.state, labels=self.state.labels.add(labels))

    def score(self, question: Question | str, answer: str, rivals: Sequence[str] = ()) -> Record:
        """Rate an answer, whoever gave it; nothing is learned, and the model's own answer is not asked for.

        Args:
            question: that it answers.
            answer: as given; of multiple choice the letter of an option, its text, or both.
            rivals: answers to an open question to compare it with, beside those that the model draws.

        Returns:
            a record of outcome "given": `reply` has the stated confidence for this very answer, `evidence` P(True) and
            what it is compared with, `confidence` its posterior.

        Raises:
            QuestionError: the answer is empty, too long, or none of the options.
        """
        question = as_question(question)
        (record,) = self.score_all([GivenAnswer(question, answer, tuple(rivals))])
        return record

    def score_many(self, given: QuestionFile | Iterable[Scorable], done: Sequence[Record] = ()) -> Iterator[Record]:
        """Rate answers, one record for each. The posterior's weight of letters follows the answers before, unlabelled.

        Args:
            given: answers with their questions, also those of a file or a table (`secl.read_rows`). A
                sequence is rated in windows, which is faster; any other iterable one by one.
            done: records of the first of them, from an earlier call that was interrupted.

        Raises:
            QuestionError: see `score`.

        >>> from secl import Calibrator, ScriptedModel
        >>> calibrator = Calibrator(ScriptedModel())
        >>> [record.given for record in calibrator.score_many([("Capital of Peru?", "Lima"), ("And of Chile?", "Rio")])]
        [True, True]
        """
        if done:
            self.state = replace(self.start(), labels=self.state.labels)
            for record in done:
                self._weigh_given(record)
        given = given.rows if isinstance(given, QuestionFile) else given
        if not isinstance(given, Sequence):
            for each in given:
                yield from self._score_window([given_of(each)])
            return
        answers = [given_of(each) for each in given]  # all of them, so that a bad one is found before any is rated
        # The window that was interrupted is rated again as a whole: a pass of another shape may round differently.
        for first in range(len(done) - len(done) % WINDOW, len(answers), WINDOW):
            yield from self._score_window(answers[first : first + WINDOW], max(0, len(done) - first))

    def score_all(self, answers: Sequence[GivenAnswer]) -> list[Record]:
        """Rate answers that share passes."""
        return list(self._score_window(answers))

    def _score_window(self, answers: Sequence[GivenAnswer], skip: int = 0) -> Iterator[Record]:
        """Rate answers that share passes; the first `skip` of them have their records already."""
        ratings = self.model.rate_given(answers, self.plan.rated)
        for each, rating in list(zip(answers, ratings, strict=True))[skip:]:
            yield self._record(each, rating)  # one by one: labels may come in between

    def _record(self, rated: GivenAnswer, rating: Rating) -> Record:
        question, reply = rated.question, rating.reply
        correct = grade(question, reply.answer) if rated.correct is None else rated.correct
        record = self._weigh_given(
            Record(
                position=self.state.position,
                question=question,
                reply=reply,
                frozen=reply,
                decision=UNDECIDED,
                evidence=rating.evidence,
                accept=self.loop.accept,
                signal=None,
                outcome="given",
                update=None,
                correct=correct,
                frozen_correct=correct,
                ledger=rating.ledger,
                plain_tokens=rating.plain_tokens,
            )
        )
        labelled = self.state.labels.rate(question.domain, record.label_free)
        return replace(record, labelled=labelled)

    def _weigh_given(self, record: Record) -> Record:
        """The record with its posterior; the state moves on by it."""
        state, posterior = self._weigh(self.state, record.question, record.reply, record.frozen, record.evidence)
        self.state = replace(state, position=state.position + 1)
        return replace(record, posterior=posterior)

    def _weigh(
        self, state: StreamState, question: Question, reply: Reply, frozen: Reply, evidence: Evidence
    ) -> tuple[StreamState, Posterior | None]:
        """The posterior of a question, and the state with what it teaches."""
        views = self.posterior.read(question, reply, frozen, evidence)
        after, posterior = self.posterior.step(state.posterior, views)
        return replace(state, posterior=after), posterior


def given_of(each: Scorable) -> GivenAnswer:
    """An answer with its question, whatever holds the two.

    Raises:
        QuestionError: there is no answer, or it cannot be one.
    """
    if isinstance(each, GivenAnswer):
        return each
    if isinstance(each, tuple):
        question, answer = each
        return GivenAnswer(Question(question) if isinstance(question, str) else question, answer)
    if each.answer is None:
        raise QuestionError(f"{each.question.mention} has no answer to rate; give one.")
    return GivenAnswer(each.question, each.answer, each.rivals, each.correct)


def given_by(record: Record) -> GivenAnswer:
    """The given answer that a record is about, with the rivals that were given to it."""
    question, reply = record.question, record.reply
    if question.options:
        return GivenAnswer(question, question.named(reply.text), correct=record.correct)
    compared, p_true = record.evidence.candidates, record.evidence.p_true
    rivals: tuple[str, ...] = ()
    if compared is not None and compared.source.startswith("given"):
        rivals = compared.candidates[1 : 1 + int(re.findall(r"\d+", compared.source)[0])]
    elif p_true is not None and p_true.distractor_source.startswith("given"):
        rivals = p_true.candidates[1:]
    return GivenAnswer(question, reply.text, rivals, record.correct)
