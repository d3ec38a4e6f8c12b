"""The loop: answer a question, let the gate decide, gather evidence, learn, and return a record.

record = calibrator.answer(question)     # reply -> gate -> evidence -> posterior -> record
record = calibrator.learn(record)        # evidence -> signal -> update -> record
record = calibrator.ask(question)        # both, in this order
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from secl.calibrator.stream import WINDOW, StreamState, predict_bursts
from secl.display import Shown
from secl.errors import QuestionError, RunError
from secl.evidence import Evidence, EvidenceKind, Posterior
from secl.gates import Gate, gate_class
from secl.grading.rules import grade
from secl.labels.label import Label
from secl.labels.state import LabelState
from secl.methods import Plan, method_to_follow
from secl.model import Model, Rating
from secl.posterior.rule import PosteriorRule
from secl.question import GivenAnswer, Question
from secl.records import UNTESTED, LearningOutcome, Record
from secl.settings.groups import LoopSettings, SignalName
from secl.signals import NormalisedPTrue, Signal, make_signal
from secl.writing import Piece


class Calibrator(Shown):
    """The loop over one stream of questions to one model, with the state of gate, posterior and labels.

    `secl.load` wraps a calibrator; runs and servers use calibrators directly. One thread uses a calibrator at a time.

    Args:
        model: anything that satisfies `secl.model.Model`.
        method: a name from `secl.methods.METHODS`. "posterior" compares all candidates and never changes a weight;
            "secl" learns in bursts.
        gate: decides when to learn, or its name ("always"); by default the method's gate.
        signal: the training signal, or its name ("self_consistency"); by default normalised P(True) at the model's tau.
        posterior: combines evidence about all candidates; by default `PosteriorRule`.
        evidence: further kinds of evidence, in addition to those that the method, the signal and the posterior need.
        learns: whether lessons may change the weights; by default the method decides.
        loop: settings of the learning rule, of the returned answer and of the threshold.
        plan: replaces all arguments from `method` to `loop` except the gate.
        calibration: labels of an earlier run of the same model and method, which calibrate the confidences.

    Attributes:
        learns: whether lessons may change the weights; may be set between questions.
        accept: lowest confidence of an accepted answer, in [0, 1], or None; may be set between questions.
        state: the position in the stream, and the state of gate, posterior and labels. An earlier state may be set
            again to take answers back.

    Raises:
        ParameterError: an unknown method or kind of evidence, or a method that also determines how the model is asked.

    >>> from secl.testing import ScriptedModel, toy_stream
    >>> calibrator = Calibrator(ScriptedModel(), method="secl", loop=LoopSettings(bin_gate=None))
    >>> records = list(calibrator.run(toy_stream(60)))
    >>> records[0].reply.stated == records[0].frozen.stated, records[-1].reply.version > 0
    (True, True)
    """

    def __init__(
        self,
        model: Model,
        *,
        method: str = "posterior",
        gate: Gate | str | None = None,
        signal: Signal | SignalName | None = None,
        posterior: PosteriorRule | None = None,
        evidence: Sequence[EvidenceKind] = (),
        learns: bool | None = None,
        loop: LoopSettings | None = None,
        plan: Plan | None = None,
        calibration: Sequence[Label] = (),
    ) -> None:
        if plan is None:
            chosen = method_to_follow(method)
            signal = make_signal(signal, model.tau) if isinstance(signal, str) else signal or NormalisedPTrue(model.tau)
            rule = posterior or PosteriorRule(letters=model.letters)
            plan = Plan.of(chosen, signal, rule, loop or LoopSettings(), evidence=evidence, learns=learns)
        gate = gate or plan.gate
        self.model, self.plan, self.calibration = model, plan, calibration
        self.gate: Gate = gate_class(gate)() if isinstance(gate, str) else gate
        self.learns, self.accept = plan.learns, plan.loop.accept
        self.state = self.start()
        self._latest: Record | None = None

    def _facts(self) -> dict[str, object]:
        learning = {"version": self.model.version} if self.learns else {"learns": False}
        facts = {"model": self.model.name, "gate": type(self.gate).__name__, "signal": type(self.plan.signal).__name__}
        return {**facts, "position": self.state.position, **learning}

    def start(self) -> StreamState:
        labels = LabelState.start(self.calibration)
        return StreamState(gate=self.gate.start(), posterior=self.plan.posterior.start(), labels=labels)

    def run(self, questions: Iterable[Question], done: Sequence[Record] = ()) -> Iterator[Record]:
        """Ask one question after the other; each record is ready before the next question is asked.

        A sequence of questions is prefetched in windows (`secl.calibrator.stream`). Windows are faster and change
        records by rounding alone. Any other iterable is read question by question, so it may wait for a user's input.

        Args:
            questions: the whole stream.
            done: records of the first questions, from a run that is resumed. They are replayed to restore gate and
                posterior; the caller must have restored the model and the labels.

        Raises:
            RunError: as for `replay`.
        """
        first = len(done)  # the caller may append to `done` during the run
        begun, answered = self.replay(done)
        if not isinstance(questions, Sequence):
            yield from map(self.ask, questions)
            return
        for index in range(first, len(questions)):
            if self.state.position % WINDOW == 0:
                self._prefetch(self.state, (), questions[index : index + WINDOW])
            elif index == first:  # in the middle of a window
                self._prefetch(begun, answered, questions[index : index + WINDOW])
            yield self.ask(questions[index])

    def _prefetch(self, begun: StreamState, answered: Sequence[Record], upcoming: Sequence[Question]) -> None:
        """Compute the evidence that the rest of a window will probably need; a wrong guess costs only tokens.

        After a resume, the pass includes the questions of the window that are `answered` already, so that the pass has
        the same shape as before the interruption.
        """
        bursts = predict_bursts(self.gate, begun.gate, begun.entropy, WINDOW)
        fixed = not (self.learns and any(bursts)) and all(record.update is None for record in answered)
        rest = upcoming[: WINDOW - self.state.position % WINDOW]
        window = [*(record.question for record in answered), *rest]
        evidence = [self.plan.wanted(in_burst) for in_burst in bursts[: len(window)]]
        self.model.prefetch(window, evidence, weights_fixed=fixed)

    def replay(self, done: Sequence[Record]) -> tuple[StreamState, list[Record]]:
        """Restore the state after the first records of a stream. Labels stay; without records, nothing changes.

        Returns:
            the state at the beginning of the last window, and the records of this window.

        Raises:
            RunError: the gate's decision about a record differs from the recorded one.
        """
        if done:
            self.state = replace(self.start(), labels=self.state.labels)
        begun, answered = self.state, list[Record]()
        for record in done:
            if self.state.position % WINDOW == 0:
                begun, answered = self.state, []
            self.state, now, _ = self.state.follow(record, self.gate, self.plan.posterior)
            answered.append(record)
            then = record.decision
            if now is not None and (now.alarm, now.in_burst) != (then.alarm, then.in_burst):
                raise RunError(
                    f"the gate's decision about the question at position {record.position} differs from the recorded "
                    "one; restore the gate's file, or start a new run."
                )
        return begun, answered

    def ask(self, question: Question) -> Record:
        """Answer a question, then learn from it: the confidence never depends on the lesson of the same question."""
        return self.learn(self.answer(question))

    def answer(self, question: Question, written: str | Piece | None = None) -> Record:
        """Answer a question and let the gate decide, without a lesson.

        Args:
            written: a text that the model wrote in answer to the question (`secl.model.Model.write`).

        Returns:
            a record with the evidence that its posterior needs. Its outcome is "waiting" if `learn` may change the
            weights, else "idle".

        Raises:
            QuestionError: the model cannot answer the question.
        """
        (in_burst,) = predict_bursts(self.gate, self.state.gate, self.state.entropy, 1)
        self.model.meter.take()
        answer = self.model.answer(question, evidence=self.plan.wanted(in_burst), written=written)
        state, decision = self.state.step(self.gate, answer.reply.entropy)
        # The posterior is part of the answer: its confidence is reported now, and a lesson may come much later.
        wanted, evidence = self.plan.weighed(decision.in_burst), Evidence()
        if "candidates" in wanted:
            evidence = replace(evidence, candidates=self.model.compare_candidates(question, answer.reply))
        if "p_true" in wanted:
            evidence = replace(evidence, p_true=self.model.score_p_true(question, answer.reply))
        record = Record(
            position=self.state.position,
            question=question,
            reply=answer.reply,
            frozen=answer.frozen,
            decision=decision,
            evidence=evidence,
            answers_best=self.plan.returns_best(question),
            accept=self.accept,
            outcome="waiting" if decision.in_burst and self.learns else "idle",
            correct=grade(question, answer.reply.answer),
            frozen_correct=grade(question, answer.frozen.answer),
            ledger=self.model.meter.take(),
            plain_tokens=answer.plain_tokens,
        )
        remembered, posterior = self.plan.posterior.follow(state.posterior, record)
        self.state = replace(state, posterior=remembered)
        self._latest = self._reported(record, posterior)
        return self._latest

    def _reported(self, record: Record, posterior: Posterior | None) -> Record:
        """Return a record with its posterior, and with its confidence calibrated by labels."""
        weighed = replace(record, posterior=posterior)
        return replace(weighed, labelled=self.state.labels.rate(record.question.domain, weighed.label_free))

    def answer_window(
        self, questions: Sequence[Question], written: Sequence[str | Piece | None] = ()
    ) -> list[Record | QuestionError]:
        """Answer questions in shared passes under one version of the weights; `learn` may follow for each record.

        A question that the model cannot answer gets its error in place of a record.
        """
        texts = written or [None] * len(questions)
        evidence = [self.plan.weighed(False)] * len(questions)
        self.model.prefetch(questions, evidence, weights_fixed=True, written=texts)
        outcomes: list[Record | QuestionError] = []
        for question, text in zip(questions, texts, strict=True):
            try:
                outcomes.append(self.answer(question, text))
            except QuestionError as refusal:
                outcomes.append(refusal)
        return outcomes

    def learn(self, record: Record) -> Record:
        """Gather evidence about an answer and, inside a burst, learn from it.

        An update moves the confidence that the present weights state. If this calibrator has returned a later record,
        the model first reads the answer again with the present weights. This happens on servers, which learn later than
        they answer.

        Returns:
            the record with its evidence, signal, outcome, update and cost; its reply and decision stay.
        """
        latest = record is self._latest  # by identity: equal questions may have been asked in between
        self.model.meter.take()
        reply = record.reply
        wanted = self.plan.wanted(record.decision.in_burst)
        if not latest:
            self._latest = None  # from now on the model's latest answer is the one of this record
            reply = self.model.answer(record.question, evidence=wanted, written=reply.written).reply
        evidence = self.plan.gather(self.model, record, reply)
        signal = self.plan.signal(record.question, reply, evidence)
        outcome: LearningOutcome = "idle"
        update = None
        if record.decision.in_burst and self.learns:
            outcome, update = self.plan.teach(self.model, record.question, reply, signal)
            if self.plan.loop.accumulate == "question":
                self.model.reset()
        cost = self.model.meter.take()
        if not latest:
            cost = replace(cost, answering=0.0, adapting=0.0, learning=round(cost.replies + cost.learning, 6))
        return replace(
            record, evidence=evidence, signal=signal, outcome=outcome, update=update, ledger=record.ledger + cost
        )

    # The views describe candidates, whoever wrote the answer. So a rated answer also takes a position in the stream,
    # and updates the state of the posterior. The frozen model rates answers, even if an adapted version answers
    # questions.

    def rate_stream(self, given: Sequence[GivenAnswer], done: Sequence[Record] = ()) -> Iterator[Record]:
        """Rate answers in windows; `done` are records of the first answers, from a run that is resumed."""
        self.replay(done)
        # The window that was interrupted is rated again as a whole: a pass of another shape may round differently.
        for first in range(len(done) - len(done) % WINDOW, len(given), WINDOW):
            window = given[first : first + WINDOW]
            ratings = self.model.rate_given(window, self.plan.rated)
            for answer, rating in list(zip(window, ratings, strict=True))[max(0, len(done) - first) :]:
                if isinstance(rating, QuestionError):
                    raise rating
                yield self._rated(answer, rating)  # one by one, because labels may come in between

    def rate_window(self, given: Sequence[GivenAnswer]) -> list[Record | QuestionError]:
        """Rate answers in shared passes; an answer that cannot be rated gets its error in place of a record."""
        pairs = zip(given, self.model.rate_given(given, self.plan.rated), strict=True)
        return [each if isinstance(each, QuestionError) else self._rated(answer, each) for answer, each in pairs]

    def weigh(self, question: Question, rating: Rating) -> Record:
        """Return the record of a rated answer that the model wrote itself, such as a field of a JSON object."""
        return replace(self._rated(GivenAnswer(question, rating.reply.text), rating), outcome="field")

    def _rated(self, given: GivenAnswer, rating: Rating) -> Record:
        question, reply = given.question, rating.reply
        correct = grade(question, reply.answer) if given.correct is None else given.correct
        record = Record(
            position=self.state.position,
            question=question,
            reply=reply,
            frozen=reply,
            decision=UNTESTED,
            evidence=rating.evidence,
            accept=self.accept,
            outcome="given",
            correct=correct,
            frozen_correct=correct,
            ledger=rating.ledger,
            plain_tokens=rating.plain_tokens,
        )
        self.state, _, posterior = self.state.follow(record, self.gate, self.plan.posterior)
        return self._reported(record, posterior)

    def take_labels(self, labels: Iterable[Label]) -> None:
        """Add the next entries of a log of labels."""
        self.state = replace(self.state, labels=self.state.labels.add(labels))
