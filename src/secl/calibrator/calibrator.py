"""The loop: answer a question, let the gate decide, gather evidence, learn, and return a record.

record = calibrator.answer(question)     # reply -> gate -> evidence -> posterior -> record
record = calibrator.learn(record)        # evidence -> signal -> update -> record
record = calibrator.ask(question)        # both, in this order
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from secl.calibrator.stream import WINDOW_SIZE, StreamState, predict_bursts
from secl.display import Shown
from secl.errors import QuestionError, RunError
from secl.evidence import EvidenceKind, Posterior
from secl.facts.records import facts_of
from secl.gates import Gate, Never, gate_class
from secl.grading.rules import grade
from secl.labels.label import Label
from secl.labels.state import LabelState
from secl.methods import Plan, method_to_follow
from secl.model import Model, Rating, learner_of
from secl.posterior.rule import PosteriorRule
from secl.question import GivenAnswer, Question
from secl.records import Learning, Record, RecordKind
from secl.scores import Score, make_signal
from secl.settings.groups import LoopSettings
from secl.writing import Chunk


class Calibrator(Shown):
    """The loop over one stream of questions to one model, with the state of gate, posterior and labels.

    `secl.load` wraps a calibrator; runs and servers use calibrators directly. One thread uses a calibrator at a time.

    Args:
        model: anything that satisfies `secl.model.Model`.
        method: a name from `secl.methods.METHODS`. "posterior" compares all candidates and never changes a weight;
            "secl" learns in bursts.
        gate: a gate or its name, such as "always"; by default the method's gate.
        signal: the training signal, a score or its name; by default normalised P(True) at the model's tau.
        posterior: combines evidence about all candidates; by default `PosteriorRule`.
        evidence: kinds of evidence to gather in addition to those that method, signal and posterior need.
        learns: whether lessons may change the weights; by default the method decides.
        loop: settings of the learning rule, of the returned answer and of the threshold.
        plan: replaces all arguments from `method` to `loop` except the gate.
        calibration: labels of an earlier run of the same model and method, which calibrate the confidences.

    Attributes:
        learns: whether lessons may change the weights; may be set between questions.
        threshold: lowest accepted label-free confidence, or None; may be set between questions.
        state: the position in the stream, and the state of gate, posterior and labels. Setting an earlier state undoes
            later answers and labels, but not updates of the weights.

    Raises:
        ParameterError: an unknown method or kind of evidence; "secl-paper", which also changes prompts and training;
            or the method learns or uses DINCO, and the model cannot.

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
        signal: Score | str = "norm_p_true",
        posterior: PosteriorRule | None = None,
        evidence: Sequence[EvidenceKind] = (),
        learns: bool | None = None,
        loop: LoopSettings | None = None,
        plan: Plan | None = None,
        calibration: Sequence[Label] = (),
    ) -> None:
        if plan is None:
            chosen = method_to_follow(method)
            signal = make_signal(signal, model.tau) if isinstance(signal, str) else signal
            rule = posterior or PosteriorRule(letters=model.letters)
            plan = Plan.of(chosen, signal, rule, loop or LoopSettings(), evidence=evidence, learns=learns)
        plan.check(model)
        gate = gate or plan.gate
        self.model, self.plan, self.calibration = model, plan, calibration
        self.gate: Gate = gate_class(gate)() if isinstance(gate, str) else gate
        self.learns = plan.learns
        self.state = self.start()
        self.threshold: float | None = None
        self.accept = plan.loop.accept
        self._latest: Record | None = None

    def _facts(self) -> dict[str, object]:
        learning = {"version": learner_of(self.model).version} if self.learns else {"learns": False}
        facts = {"model": self.model.name, "gate": type(self.gate).__name__, "signal": self.plan.signal.name}
        return {**facts, "position": self.state.position, **learning}

    @property
    def accept(self) -> float | None:
        """Lowest accepted confidence, in [0, 1], or None; may be set between questions.

        secl translates a value once, when it is set: later labels move the confidences and `accept` together, so that
        they change no decision. In a domain with a shift of its own, `Record.accept` differs.
        """
        return None if self.threshold is None else self.state.labels.accept(self.threshold)

    @accept.setter
    def accept(self, accept: float | None) -> None:
        self.threshold = None if accept is None else self.state.labels.uncalibrated(accept)

    def start(self) -> StreamState:
        labels = LabelState.start(self.calibration)
        return StreamState(gate=self.gate.start(), posterior=self.plan.posterior.start(), labels=labels)

    def run(self, questions: Iterable[Question], done: Sequence[Record] = ()) -> Iterator[Record]:
        """Ask questions in order, and yield the record of each question before asking the next question.

        The model reads a sequence of questions in windows (`secl.calibrator.stream`). Windows are faster and change
        records by rounding alone. From any other iterable, `run` takes a question only after it has yielded the
        previous record. The iterable may therefore wait for a user's input.

        Args:
            questions: the whole stream.
            done: when a run is resumed, the records of its first questions. `run` replays these records to restore gate
                and posterior. The caller must restore the model and the labels before.

        Raises:
            RunError: as for `replay`.
        """
        first = len(done)  # the caller may append to `done` during the run
        begun, answered = self.replay(done)
        if not isinstance(questions, Sequence):
            yield from map(self.ask, questions)
            return
        for index in range(first, len(questions)):
            if self.state.position % WINDOW_SIZE == 0:
                self._prefetch(self.state, (), questions[index : index + WINDOW_SIZE])
            elif index == first:  # in the middle of a window
                self._prefetch(begun, answered, questions[index : index + WINDOW_SIZE])
            yield self.ask(questions[index])

    def _prefetch(self, begun: StreamState, answered: Sequence[Record], upcoming: Sequence[Question]) -> None:
        """Compute the evidence that the remaining questions of a window will probably need.

        A wrong prediction costs only tokens. After a resume, the pass repeats the `answered` questions of the window,
        so that the pass has the same shape as before the interruption. `begun` is the state before the window.
        """
        bursts = predict_bursts(self.gate, begun.gate, begun.entropy, WINDOW_SIZE)
        fixed = not (self.learns and any(bursts)) and all(record.update is None for record in answered)
        rest = upcoming[: WINDOW_SIZE - self.state.position % WINDOW_SIZE]
        window = [*(record.question for record in answered), *rest]
        evidence = [self.plan.wanted(in_burst) for in_burst in bursts[: len(window)]]
        self.model.prefetch(window, evidence, weights_fixed=fixed)

    def replay(self, done: Sequence[Record]) -> tuple[StreamState, list[Record]]:
        """Restore gate, posterior and position from the first records of a stream, and keep the labels.

        Returns:
            the state at the beginning of the last window, and the records of this window.

        Raises:
            RunError: the gate's decision about a record differs from the recorded one.
        """
        if done:
            self.state = replace(self.start(), labels=self.state.labels)
        begun, answered = self.state, list[Record]()
        for record in done:
            if self.state.position % WINDOW_SIZE == 0:
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
        """Answer a question and compute its confidence, then learn from the question."""
        return self.learn(self.answer(question))

    def answer(self, question: Question, written: str | Chunk | None = None) -> Record:
        """Answer a question and let the gate decide, without a lesson.

        Args:
            written: the answer, if the model has already written the answer with `secl.model.Model.write`.

        Returns:
            a record with the evidence that its posterior needs. The outcome of its learning is "waiting" if `learn` may
            change the weights.

        Raises:
            QuestionError: the model cannot answer the question.
        """
        (in_burst,) = predict_bursts(self.gate, self.state.gate, self.state.entropy, 1)
        self.model.meter.take()
        answer = self.model.answer(question, evidence=self.plan.wanted(in_burst), written=written)
        state, decision = self.state.step(self.gate, answer.reply.entropy)
        # Gather the evidence of the posterior now, because the caller may report the confidence long before a lesson.
        evidence = self.model.gather(question, answer.reply, self.plan.weighed(decision.in_burst))
        learning = None
        if answer.reply.version or not isinstance(self.gate, Never):
            learning = Learning(
                frozen=answer.frozen,
                frozen_correct=grade(question, answer.frozen.answer),
                decision=decision,
                outcome="waiting" if decision.in_burst and self.learns else "idle",
            )
        record = Record(
            position=self.state.position,
            question=question,
            reply=answer.reply,
            evidence=evidence,
            best_returned=self.plan.returns_best(question),
            threshold=self.threshold,
            learning=learning,
            correct=grade(question, answer.reply.answer),
            ledger=self.model.meter.take(),
            plain_tokens=answer.plain_tokens,
        )
        remembered, posterior = self.plan.posterior.follow(state.posterior, record)
        self.state = replace(state, posterior=remembered)
        self._latest = self._reported(record, posterior)
        return self._latest

    def _reported(self, record: Record, posterior: Posterior | None) -> Record:
        """Return a record with its posterior and its facts, and with its confidence calibrated by labels."""
        if record.evidence.facts is not None:
            # Facts have no letters and no options, so their posteriors do not depend on the state of the stream.
            rule, state = self.plan.posterior, self.state.posterior
            facts = tuple(replace(fact, posterior=rule.follow(state, fact)[1]) for fact in facts_of(record))
            record = replace(record, facts=facts, evidence=replace(record.evidence, facts=None))
        return self.state.labels.apply(replace(record, posterior=posterior))

    def answer_window(
        self, questions: Sequence[Question], written: Sequence[str | Chunk | None] = ()
    ) -> list[Record | QuestionError]:
        """Answer questions in shared passes with one version of the weights.

        Each record may afterwards be given to `learn`.

        For a question that the model cannot answer, the list has the error.
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
            the record with its evidence, signal, learning and cost; its reply and the gate's decision stay.
        """
        latest = record is self._latest  # by identity: equal questions may have been asked in between
        self.model.meter.take()
        reply = record.reply
        wanted = self.plan.wanted(record.decision.in_burst)
        if not latest:
            # The model learns only from the question that it answered last. So the next line asks this question again.
            self._latest = None
            reply = self.model.answer(record.question, evidence=wanted, written=reply.written).reply
        evidence = self.plan.gather(self.model, record, reply)
        signal = self.plan.signal.of(replace(record, reply=reply, evidence=evidence))
        learning = record.learning and replace(record.learning, outcome="idle")
        if learning is not None and learning.decision.in_burst and self.learns:
            outcome, update = self.plan.teach(self.model, record.question, reply, signal)
            learning = replace(learning, outcome=outcome, update=update)
            if self.plan.loop.accumulate == "question":
                learner_of(self.model).reset()
        cost = self.model.meter.take()
        if not latest:
            cost = replace(cost, answering=0.0, adapting=0.0, learning=round(cost.replies + cost.learning, 6))
        return replace(record, evidence=evidence, signal=signal, learning=learning, ledger=record.ledger + cost)

    # Given answers take positions in the stream and update the state of the posterior like the model's own answers,
    # because the views of a candidate do not depend on who wrote it. The frozen model rates given answers, even if an
    # adapted version answers questions.

    def rate_stream(self, given: Sequence[GivenAnswer], done: Sequence[Record] = ()) -> Iterator[Record]:
        """Rate answers in windows. When a run is resumed, `done` has the records of its first answers."""
        self.replay(done)
        # After a resume, the model rates the whole interrupted window again: a smaller pass may round differently.
        for first in range(len(done) - len(done) % WINDOW_SIZE, len(given), WINDOW_SIZE):
            window = given[first : first + WINDOW_SIZE]
            ratings = self.model.rate(window, self.plan.rated)
            for answer, rating in list(zip(window, ratings, strict=True))[max(0, len(done) - first) :]:
                if isinstance(rating, QuestionError):
                    raise rating
                yield self._record_rating(
                    answer, rating
                )  # one at a time, because the caller may add labels between records

    def rate_window(self, given: Sequence[GivenAnswer]) -> list[Record | QuestionError]:
        """Rate answers in shared passes. For an answer that the model cannot rate, the list has the error."""
        pairs = zip(given, self.model.rate(given, self.plan.rated), strict=True)
        return [
            each if isinstance(each, QuestionError) else self._record_rating(answer, each) for answer, each in pairs
        ]

    def weigh(self, question: Question, rating: Rating, *, counts: bool = True) -> Record:
        """Return the record of a field of a JSON object or of a part of a tool call, from the model's rating.

        `counts`: whether the field takes a position in the stream and changes the calibrator's state.
        """
        return self._record_rating(GivenAnswer(question, rating.reply.text), rating, "field", counts=counts)

    def _record_rating(
        self, given: GivenAnswer, rating: Rating, kind: RecordKind = "given", *, counts: bool = True
    ) -> Record:
        question, reply = given.question, rating.reply
        correct = grade(question, reply.answer) if given.correct is None else given.correct
        record = Record(
            position=self.state.position,
            kind=kind,
            question=question,
            reply=reply,
            evidence=rating.evidence,
            threshold=self.threshold,
            correct=correct,
            ledger=rating.ledger,
            plain_tokens=rating.plain_tokens,
        )
        after, _, posterior = self.state.follow(record, self.gate, self.plan.posterior)
        if counts:
            self.state = after
        return self._reported(record, posterior)

    def take_labels(self, labels: Iterable[Label]) -> None:
        """Add the next entries of a log of labels."""
        self.state = replace(self.state, labels=self.state.labels.add(labels))
