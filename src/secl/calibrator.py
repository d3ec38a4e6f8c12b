"""The loop: ask one question, let the gate decide, learn from the frozen model's p_true, keep a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar, get_args

from secl.data.grading import grade
from secl.errors import ParameterError
from secl.gates import EntropyShift, Gate
from secl.metrics.probability import bin_index, directional_target
from secl.model import Model
from secl.records import Evidence, EvidenceKind, LearningOutcome, Ledger, Question, Record, Reply, Update
from secl.signals import NormalisedPTrue, Signal

WINDOW = 16
"""Questions of a stream that are looked at together. Windows begin at multiples of it, also after a resume, because a
pass over other questions may round differently."""

SAMPLES = 10
"""Answers drawn where samples are gathered (N of self-consistency)."""

Accumulate = Literal["stream", "burst", "question"]
Loss = Literal["directional", "mse"]
EvidenceOn = Literal["burst", "always"]
T = TypeVar("T")


class Calibrator:
    """Asks questions of a model and makes its stated confidence mean what it says, without labels.

    Args:
        model: anything that satisfies `secl.model.Model`.
        gate: decides when to learn; a new `EntropyShift` unless given.
        signal: what to learn from; normalised P(True) at the model's own tau unless given.
        judge: "burst" gathers evidence only where it is learned from, "always" on every question (to compare with).
        evidence: kinds of evidence to gather there beyond the one that the signal needs.
        learns: False leaves the weights alone and only watches.
        alpha: share of the way to the signal that the target goes, in (0, 1] (alpha_step of Eq. target).
        delta: largest move considered, in (0, 1] (delta of Eq. target).
        bin_gate: no update where the bins of stated confidence and signal differ by at most this; None for always.
        loss: "directional" pulls towards Eq. target, "mse" towards the signal itself.
        accumulate: updates add up over the "stream", start anew with each "burst" (its first question, still answered
            by the old weights, teaches nothing then), or are dropped after each "question" (so that every question is
            answered by the untouched model, and `Update.after` tells what the isolated update did).

    Raises:
        ParameterError: a number or name outside its range.

    >>> from secl.testing import ScriptedModel, toy_stream
    >>> calibrator = Calibrator(ScriptedModel(), bin_gate=None)
    >>> records = list(calibrator.stream(toy_stream(60)))
    >>> records[0].reply.confidence == records[0].frozen.confidence, records[-1].reply.version > 0
    (True, True)
    """

    def __init__(
        self,
        model: Model,
        *,
        gate: Gate | None = None,
        signal: Signal | None = None,
        evidence_on: EvidenceOn = "burst",
        evidence: Sequence[EvidenceKind] = (),
        learns: bool = True,
        alpha: float = 0.5,
        delta: float = 0.15,
        bin_gate: int | None = 1,
        loss: Loss = "directional",
        accumulate: Accumulate = "stream",
    ) -> None:
        for kind in evidence:
            _one_of("evidence", kind, get_args(EvidenceKind))
        check_settings(
            evidence_on=evidence_on, alpha=alpha, delta=delta, bin_gate=bin_gate, loss=loss, accumulate=accumulate
        )
        self.model = model
        self.gate: Gate = gate if gate is not None else EntropyShift()
        self.signal: Signal = signal if signal is not None else NormalisedPTrue(model.tau)
        self.evidence_on = evidence_on
        self.evidence = frozenset((*evidence, *([self.signal.needs] if learns and self.signal.needs else [])))
        self.learns = learns
        self.alpha = alpha
        self.delta = delta
        self.bin_gate = bin_gate
        self.loss = loss
        self.accumulate = accumulate
        self.position = 0
        self._state: Any = self.gate.start()
        self._last_entropy = 1.0
        self._was_in_burst = False
        self._window: list[Question] = []
        self._judged: list[bool] = []
        self._stands_still = True

    @classmethod
    def load(cls, name: str = "smollm2", **settings: Any) -> Calibrator:
        """Load a model by name, hub id, folder or GGUF file and wrap it; the settings are this class's."""
        from secl.backends.local.model import LocalModel  # torch takes seconds to import

        return cls(LocalModel.load(name), **settings)

    def stream(self, questions: Iterable[Question]) -> Iterator[Record]:
        """Ask one question after the other; each record is ready before the next question is asked.

        A list (any sequence) of questions is looked at `WINDOW` questions at a time, which is faster and gives the same
        records; an iterator is asked question by question, so it may wait for a person.
        """
        if not isinstance(questions, Sequence):
            for question in questions:
                yield self.ask(question)
            return
        for place, question in enumerate(questions):
            self._enter_window()
            if self.position % WINDOW == 0 or place == 0:
                rest = WINDOW - self.position % WINDOW
                window = [*self._window, *questions[place : place + rest]]
                self.model.prefetch(window, self._judged[: len(window)], weights_fixed=self._stands_still)
            yield self.ask(question)

    def _enter_window(self) -> None:
        """At its first question foresee a window: which of its questions would be in a burst if nothing changed."""
        if self.position % WINDOW:
            return
        state = self._state
        foreseen = []
        for _ in range(WINDOW):
            state, decision = self.gate.step(state, self._last_entropy)
            foreseen.append(decision.in_burst)
        judges = "p_true" in self.evidence
        self._judged = [judges and (self.evidence_on == "always" or in_burst) for in_burst in foreseen]
        self._stands_still = not (self.learns and any(foreseen))
        self._window = []

    def ask(self, question: Question | str) -> Record:
        """Answer first, learn after: the record's confidence was stated before this question changed anything."""
        question = Question(question) if isinstance(question, str) else question
        self._enter_window()
        expects_burst = self.gate.step(self._state, self._last_entropy)[1].in_burst
        foreseen = "p_true" in self.evidence and (self.evidence_on == "always" or expects_burst)
        answered, spent = self._counted(lambda: self.model.answer(question, score_next=foreseen))
        reply = answered.reply
        self._state, decision = self.gate.step(self._state, reply.entropy)

        starts_burst = decision.in_burst and not self._was_in_burst
        self._was_in_burst, self._last_entropy = decision.in_burst, reply.entropy
        adapting, scoring = round(answered.adapting, 6), round(answered.scoring, 6)
        evidence, ledger = (
            Evidence(),
            Ledger(answering=round(spent - adapting - scoring, 6), adapting=adapting, scoring=scoring),
        )
        if self.evidence_on == "always" or decision.in_burst:
            evidence, ledger = self._gather(question, reply, ledger)
        signal = self.signal(question, reply, evidence)
        lesson: LearningOutcome = "idle"
        update = None
        if decision.in_burst and self.learns:
            fresh_start = self.accumulate == "burst" and (starts_burst or decision.alarm) and self.model.version > 0
            if fresh_start:
                # This reply came from the weights that are dropped here, so there is nothing to learn from it.
                self.model.reset()
            else:
                learned, learning = self._counted(lambda: self._learn(question, reply, signal))
                lesson, update = learned
                ledger = replace(ledger, learning=learning)
            if self.accumulate == "question":
                self.model.reset()

        record = Record(
            position=self.position,
            question=question,
            reply=reply,
            frozen=answered.frozen,
            decision=decision,
            evidence=evidence,
            signal=signal,
            outcome=lesson,
            update=update,
            correct=grade(question, reply.answer),
            frozen_correct=grade(question, answered.frozen.answer),
            ledger=ledger,
            plain_tokens=answered.plain_tokens,
        )
        self._pass(record)
        return record

    def _gather(self, question: Question, reply: Reply, ledger: Ledger) -> tuple[Evidence, Ledger]:
        """Ask the frozen model for all kinds of evidence that this calibrator wants."""
        evidence = Evidence()
        if "p_true" in self.evidence:
            p_true, spent = self._counted(lambda: self.model.score_p_true(question, reply))
            evidence, ledger = replace(evidence, p_true=p_true), replace(ledger, scoring=ledger.scoring + spent)
        if "samples" in self.evidence or "dinco" in self.evidence:
            samples, spent = self._counted(lambda: self.model.sample(question, SAMPLES))
            evidence, ledger = replace(evidence, samples=samples), replace(ledger, sampling=spent)
        if "dinco" in self.evidence:
            dinco, spent = self._counted(lambda: self.model.dinco(question, reply, evidence.samples or ()))
            evidence, ledger = replace(evidence, dinco=dinco), replace(ledger, comparing=spent)
        return evidence, ledger

    def _counted(self, ask: Callable[[], T]) -> tuple[T, float]:
        """What the model says, and the tokens that it took."""
        before = self.model.tokens
        said = ask()
        # Rounded, so that the last digit does not depend on what was counted before (a resumed run starts at 0).
        return said, round(self.model.tokens - before, 6)

    def _pass(self, record: Record) -> None:
        """Leave a question behind."""
        self._window.append(record.question)
        self._stands_still = self._stands_still and record.update is None
        self.position += 1

    def _learn(self, question: Question, reply: Reply, signal: float | None) -> tuple[LearningOutcome, Update | None]:
        """One lesson: skipped without a signal or where the bins agree, else an update towards the target."""
        if signal is None:
            return "no_signal", None
        stated = reply.confidence
        if self.bin_gate is not None and abs(bin_index(stated) - bin_index(signal)) <= self.bin_gate:
            return "agreed", None
        target = signal if self.loss == "mse" else directional_target(stated, signal, self.alpha, self.delta)
        return "trained", self.model.learn(question, reply, target)

    def fast_forward(self, records: Sequence[Record]) -> None:
        """Take the place after `records` of the same stream, without asking anything again.

        The gate's state is replayed from the recorded entropies; the model's state is the caller's to restore.
        """
        for record in records:
            self._enter_window()
            self._state, decision = self.gate.step(self._state, record.reply.entropy)
            self._was_in_burst, self._last_entropy = decision.in_burst, record.reply.entropy
            self._pass(record)


def check_settings(
    *, evidence_on: str, alpha: float, delta: float, bin_gate: int | None, loss: str, accumulate: str
) -> None:
    """Let settings of a `Calibrator` pass that make sense; also for a recipe, before any model is loaded.

    Raises:
        ParameterError: a number or name outside its range.
    """
    _within("alpha", alpha)
    _within("delta", delta)
    _one_of("loss", loss, get_args(Loss))
    _one_of("accumulate", accumulate, get_args(Accumulate))
    _one_of("evidence_on", evidence_on, get_args(EvidenceOn))
    if bin_gate is not None and not 0 <= bin_gate <= 9:
        raise ParameterError(f"bin_gate is {bin_gate}; it is a number of bins from 0 to 9, or off.")


def _within(name: str, value: float) -> None:
    if not 0 < value <= 1:
        raise ParameterError(f"{name} is {value}; it must be above 0 and at most 1.")


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ParameterError(f"{name} is {value!r}; it is one of {', '.join(known)}.")
