"""The loop: answer a question, let the gate decide, gather evidence, learn, and keep a record.

record = calibrator.answer(question)     # reply -> gate -> evidence -> posterior -> record
record = calibrator.learn(record)        # evidence -> signal -> update -> record
record = calibrator.ask(question)        # both, in this order
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from secl.calibrator.lesson import gather, teach
from secl.calibrator.stream import WINDOW, StreamState, predict_bursts
from secl.display import Shown
from secl.errors import QuestionError, RunError
from secl.evidence import Evidence, EvidenceKind, Posterior
from secl.gates import Gate, gate_class
from secl.grading.rules import grade
from secl.labels.label import Label
from secl.labels.state import LabelState
from secl.methods import method_to_follow
from secl.model import Model, Rating
from secl.plan import Plan
from secl.posterior.rule import PosteriorRule
from secl.question import GivenAnswer, Question
from secl.records import Decision, LearningOutcome, Record
from secl.settings.groups import LoopSettings, SignalName
from secl.signals import NormalisedPTrue, Signal, make_signal
from secl.writing import Written

UNDECIDED = Decision(alarm=False, in_burst=False, remaining=0, statistic=None)
"""The decision about a given answer. No gate reads its entropy, because another model wrote the words."""


class Calibrator(Shown):
    """One stream of questions to one model: its gate, the posterior's weights and its labels follow the questions.

    `secl.load` wraps one for people; runs and servers use it directly. One thread uses a calibrator at a time.

    Args:
        model: anything that satisfies `secl.model.Model`.
        method: a name from `secl.methods.METHODS`. "posterior" compares all candidates and never changes a weight;
            "secl" learns in bursts.
        gate: decides when to learn, or its name ("always"); the method's unless given.
        signal: the training signal, or its name ("self_consistency"); normalised P(True) at the model's own tau unless
            given.
        posterior: combines evidence about all candidates; the default rule unless given.
        evidence: kinds of evidence to gather beyond those that the method, the signal and the posterior's views need.
        learns: False leaves the weights alone; the method's choice unless given.
        loop: the learning rule, which answer is returned, and the threshold.
        plan: a method with its settings, as recipes make it, in place of all these but the gate.
        calibration: labels of an earlier run of the same model and method, which move the confidences here.

    Attributes:
        learns: whether lessons may change the weights; may be set between questions.
        accept: lowest confidence of an accepted answer, in [0, 1]; None for no threshold. May be set between questions.
        state: where the stream stands; may be set back to an earlier value, to take answers back.

    Raises:
        ParameterError: an unknown method or kind of evidence, or a method that also says how the model is asked.

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
        """Return the state before the first question of a stream."""
        labels = LabelState.start(self.calibration)
        return StreamState(gate=self.gate.start(), posterior=self.plan.posterior.start(), labels=labels)

    def run(self, questions: Iterable[Question], done: Sequence[Record] = ()) -> Iterator[Record]:
        """Ask one question after the other; each record is ready before the next question is asked.

        A sequence of questions is prefetched in windows (`secl.calibrator.stream`), which is faster and, but for
        rounding, changes nothing. Any other iterable is consumed question by question, so it may wait for a person.

        Args:
            questions: the whole stream.
            done: records of its first questions, from a run that is resumed. Gate and posterior are replayed over them;
                the caller has restored the model and the labels.

        Raises:
            RunError: the gate decides otherwise about a record than it did.
        """
        first = len(done)  # a caller may append to `done` meanwhile
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
        """Compute ahead for the rest of a window, guessing what it needs; a wrong guess costs only tokens.

        After a resume the `answered` questions of the window go along: the pass must have the shape that it had before.
        """
        bursts = predict_bursts(self.gate, begun.gate, begun.entropy, WINDOW)
        fixed = not (self.learns and any(bursts)) and all(record.update is None for record in answered)
        rest = upcoming[: WINDOW - self.state.position % WINDOW]
        window = [*(record.question for record in answered), *rest]
        evidence = [self.plan.wanted(in_burst) for in_burst in bursts[: len(window)]]
        self.model.prefetch(window, evidence, weights_fixed=fixed)

    def replay(self, done: Sequence[Record]) -> tuple[StreamState, list[Record]]:
        """Move the state over the first records of a stream; labels stay, and without records nothing changes.

        Returns:
            the state at the beginning of the last window, and the records of this window.

        Raises:
            RunError: the gate decides otherwise about a record than it did.
        """
        if done:
            self.state = replace(self.start(), labels=self.state.labels)
        begun, answered = self.state, list[Record]()
        for record in done:
            if self.state.position % WINDOW == 0:
                begun, answered = self.state, []
            self._replay(record)
            answered.append(record)
        return begun, answered

    def _replay(self, record: Record) -> None:
        state, now, _ = self.state.follow(record, self.gate, self.plan.posterior)
        then = record.decision
        if now is not None and (now.alarm, now.in_burst) != (then.alarm, then.in_burst):
            raise RunError(
                f"the gate decides otherwise about the question at position {record.position} than it did when it "
                "was answered; bring the gate's file back as it was, or start a new run."
            )
        self.state = state

    def ask(self, question: Question) -> Record:
        """Answer first, learn after: a confidence never depends on its own question's lesson."""
        return self.learn(self.answer(question))

    def answer(self, question: Question, written: str | Written | None = None) -> Record:
        """Answer a question and let the gate decide; no lesson is held.

        Args:
            question: to answer.
            written: a text that the model wrote in answer to the question (`secl.model.Model.write`).

        Returns:
            a record with the evidence that its posterior needs and no other, whose outcome is "waiting" where `learn`
            may change the weights, else "idle".

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
            signal=None,
            outcome="waiting" if decision.in_burst and self.learns else "idle",
            update=None,
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
        """Return a record with its posterior, and with the confidence that labels make of it."""
        weighed = replace(record, posterior=posterior)
        return replace(weighed, labelled=self.state.labels.rate(record.question.domain, weighed.label_free))

    def answer_window(
        self, questions: Sequence[Question], written: Sequence[str | Written | None] = ()
    ) -> list[Record | QuestionError]:
        """Answer questions that share passes under one version, as `answer` does; `learn` may follow for each.

        A question that the model cannot answer has its error as the outcome.
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

        An update moves the confidence that the present weights state. They first read the record's answer again, unless
        the record is the latest of this calibrator: a server learns after it answered.

        Returns:
            the record with its evidence, signal, outcome, update and cost; its reply and decision stay.
        """
        latest = record is self._latest  # by identity: equal questions may have been asked in between
        self.model.meter.take()
        reply = record.reply
        wanted = self.plan.wanted(record.decision.in_burst)
        if not latest:
            self._latest = None  # the model's latest answer is this one from here on
            reply = self.model.answer(record.question, evidence=wanted, written=reply.text).reply
        evidence = gather(self.model, record, reply, wanted, self.plan.loop.samples)
        signal = self.plan.signal(record.question, reply, evidence)
        outcome: LearningOutcome = "idle"
        update = None
        if record.decision.in_burst and self.learns:
            outcome, update = teach(self.model, record.question, reply, signal, self.plan.loop, paper=self.plan.paper)
            if self.plan.loop.accumulate == "question":
                self.model.reset()
        cost = self.model.meter.take()
        if not latest:
            cost = replace(cost, answering=0.0, adapting=0.0, learning=round(cost.replies + cost.learning, 6))
        return replace(
            record, evidence=evidence, signal=signal, outcome=outcome, update=update, ledger=record.ledger + cost
        )

    # A rated answer from elsewhere takes a position of the stream, and its views teach the posterior, because they
    # are about the candidates and not about who answered. The frozen model rates, whatever version answers meanwhile.

    def rate_stream(self, given: Sequence[GivenAnswer], done: Sequence[Record] = ()) -> Iterator[Record]:
        """Rate answers in windows; `done` are records of the first of them, from a run that is resumed."""
        self.replay(done)
        # The window that was interrupted is rated again as a whole: a pass of another shape may round differently.
        for first in range(len(done) - len(done) % WINDOW, len(given), WINDOW):
            window = given[first : first + WINDOW]
            ratings = self.model.rate_given(window, self.plan.rated)
            for answer, rating in list(zip(window, ratings, strict=True))[max(0, len(done) - first) :]:
                if isinstance(rating, QuestionError):
                    raise rating
                yield self._rated(answer, rating)  # one by one: labels may come in between

    def rate_window(self, given: Sequence[GivenAnswer]) -> list[Record | QuestionError]:
        """Rate answers that share passes; the outcome for one that cannot be rated is its error."""
        ratings = self.model.rate_given(given, self.plan.rated)
        pairs = zip(given, ratings, strict=True)
        return [each if isinstance(each, QuestionError) else self._rated(answer, each) for answer, each in pairs]

    def weigh(self, question: Question, rating: Rating) -> Record:
        """Return the record of an answer that the model wrote with its evidence, such as a field of a JSON object."""
        return replace(self._rated(GivenAnswer(question, rating.reply.text), rating), outcome="field")

    def _rated(self, given: GivenAnswer, rating: Rating) -> Record:
        question, reply = given.question, rating.reply
        correct = grade(question, reply.answer) if given.correct is None else given.correct
        record = Record(
            position=self.state.position,
            question=question,
            reply=reply,
            frozen=reply,
            decision=UNDECIDED,
            evidence=rating.evidence,
            accept=self.accept,
            signal=None,
            outcome="given",
            update=None,
            correct=correct,
            frozen_correct=correct,
            ledger=rating.ledger,
            plain_tokens=rating.plain_tokens,
        )
        self.state, _, posterior = self.state.follow(record, self.gate, self.plan.posterior)
        return self._reported(record, posterior)

    def take_labels(self, labels: Iterable[Label]) -> None:
        """Take the next entries of a log of labels into account."""
        self.state = replace(self.state, labels=self.state.labels.add(labels))
