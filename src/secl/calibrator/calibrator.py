"""The loop: answer a question, let the gate decide, gather evidence, learn, and keep a record.

record = calibrator.answer(question)     # reply, gate decision
record = calibrator.learn(record)        # evidence, signal, update
record = calibrator.ask(question)        # both, in this order
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from secl.calibrator.lesson import EvidencePlan, gather, teach
from secl.calibrator.lookahead import WINDOW, Lookahead, predict_bursts
from secl.calibrator.scoring import Scoring, as_question
from secl.display import Shown
from secl.errors import RunError
from secl.evidence import Evidence, EvidenceKind
from secl.gates import Gate, gate_class
from secl.grading import grade
from secl.labels import Label
from secl.machine import uncollected
from secl.methods import Method, method_to_follow
from secl.model import Model
from secl.posterior.rule import PosteriorRule
from secl.question import Question
from secl.records import LearningOutcome, Record
from secl.settings.groups import AdapterSettings, AnswerWeights, Device, Dtype, LoopSettings, Quantize, SignalName
from secl.signals import NormalisedPTrue, Signal, make_signal


class Calibrator(Shown, Scoring):
    """Asks questions of a model and makes its stated confidence mean what it says, without labels.

    Args:
        model: anything that satisfies `secl.model.Model`.
        method: "secl", which learns in bursts, "posterior", which asks about every candidate and learns nothing,
            another of `secl.methods.METHODS`, or a `Method` itself: it chooses the gate, the evidence, and whether to
            learn, where the arguments below do not.
        gate: decides when to learn, or its name ("always"); the method's unless given.
        signal: the training signal, or its name ("self_consistency"); normalised P(True) at the model's own tau unless
            given.
        posterior: combines evidence about all candidates, where that kind is gathered; the default rule unless given.
        evidence: kinds of evidence to gather beyond those that the method, the signal and the posterior's views need.
        learns: False leaves the weights alone; the method's choice unless given.
        loop: the learning rule.
        calibration: labels of an earlier run of the same model and method, which move the confidences here.

    Attributes:
        state: where the stream stands; may be set back to an earlier value, to take answers back.

    Raises:
        ParameterError: an unknown method or kind of evidence, or a method that also says how the model is asked.

    >>> from secl.testing import ScriptedModel, toy_stream
    >>> calibrator = Calibrator(ScriptedModel(), loop=LoopSettings(bin_gate=None))
    >>> records = list(calibrator.run(toy_stream(60)))
    >>> records[0].reply.stated == records[0].frozen.stated, records[-1].reply.version > 0
    (True, True)
    """

    def __init__(
        self,
        model: Model,
        *,
        method: str | Method = "secl",
        gate: Gate | str | None = None,
        signal: Signal | SignalName | None = None,
        posterior: PosteriorRule | None = None,
        evidence: Sequence[EvidenceKind] = (),
        learns: bool | None = None,
        loop: LoopSettings | None = None,
        calibration: Sequence[Label] = (),
    ) -> None:
        chosen = method_to_follow(method) if isinstance(method, str) else method
        gate = gate or chosen.gate
        self.model = model
        self.gate: Gate = gate_class(gate)() if isinstance(gate, str) else gate
        self.signal: Signal = (
            make_signal(signal, model.tau) if isinstance(signal, str) else signal or NormalisedPTrue(model.tau)
        )
        self.posterior = posterior or PosteriorRule(letters=model.letters)
        self.learns = chosen.learns if learns is None else learns
        self.loop = loop or LoopSettings()
        wanted = (*evidence, self.signal.needs) if self.learns else evidence
        self.plan = EvidencePlan.of(chosen, self.loop, self.posterior.settings.views, wanted)
        self.calibration = calibration
        self.state = self.start()
        self._latest: Record | None = None

    @classmethod
    def load(
        cls,
        name: str = "smollm2",
        *,
        method: str = "secl",
        dtype: Dtype = "auto",
        device: Device = "auto",
        device_map: str | None = None,
        quantize: Quantize | None = None,
        adapter: AdapterSettings | None = None,
        answer_weights: AnswerWeights = "frozen",
        seed: int = 42,
        **arguments: Any,
    ) -> Calibrator:
        """Load a model, and calibrate it.

        With the default method the first 50 questions are a burst: asking them trains the adapter. `learns=False`
        leaves the weights alone, so that what the model says never depends on what was asked before.

        Args:
            name: preset, hub id, folder or GGUF file.
            method: as for the class.
            dtype: precision of the network's body: auto, bf16, fp16 or fp32.
            device: auto, cpu, cuda, one of several GPUs such as cuda:1, or mps.
            device_map: "auto" spreads the model over this machine's devices; or a JSON file of modules and devices.
            quantize: "8bit" or "4bit" quantises the linear layers of the network's body (bitsandbytes).
            adapter: size and training of the adapter: rank, lora_alpha, layers, modules, learning_rate, epochs, beta.
            answer_weights: whose weights write the answers: "frozen", so that learning moves confidences and never an
                answer, or "adapted", as in the paper.
            seed: of the adapter's initial weights, and of sampled answers.
            arguments: others of the class: gate, signal, posterior, evidence, learns and loop.

        Raises:
            ModelError: the model cannot be used.
            ParameterError: as for the class.
        """
        method_to_follow(method)  # before a large model is loaded for nothing
        with uncollected():
            from secl.backends.local.model import LocalModel  # torch takes seconds to import

            model = LocalModel.load(
                name,
                dtype=dtype,
                device=device,
                device_map=device_map,
                quantize=quantize,
                adapter=adapter,
                answer_weights=answer_weights,
                seed=seed,
            )
        return cls(model, method=method, **arguments)

    def _facts(self) -> dict[str, object]:
        learning = {"version": self.model.version} if self.learns else {"learns": False}
        facts = {"model": self.model.name, "gate": type(self.gate).__name__, "signal": type(self.signal).__name__}
        return {**facts, "position": self.state.position, **learning}

    def run(self, questions: Iterable[Question], done: Sequence[Record] = ()) -> Iterator[Record]:
        """Ask one question after the other; each record is ready before the next question is asked.

        A sequence of questions is prefetched in windows (`secl.calibrator.lookahead`), which is faster and, but for
        rounding, changes nothing; any other iterable is consumed question by question, so it may wait for a person.

        Args:
            questions: the whole stream.
            done: records of its first questions, from a run that is resumed. Gate and posterior are replayed over them;
                model and labels are as the caller has restored them.
        """
        if done:
            self.state = replace(self.start(), labels=self.state.labels)
        for record in done:
            state, decision = self.state.step(self.gate, record.reply.entropy)
            if (decision.alarm, decision.in_burst) != (record.decision.alarm, record.decision.in_burst):
                raise RunError(
                    f"the gate decides otherwise about the question at position {record.position} than it did when it "
                    "was answered; bring the gate's file back as it was, or start a new run."
                )
            self.state, _ = self._weigh(state, record.question, record.reply, record.frozen, record.evidence)
        if not isinstance(questions, Sequence):
            for question in questions:
                yield self.ask(question)
            return
        begun = self.start() if done else self.state
        lookahead = Lookahead(self.model, self.gate, self.plan, begun, learns=self.learns, done=done)
        for index in range(len(done), len(questions)):
            lookahead.prefetch(self.state, questions[index : index + WINDOW])
            record = self.ask(questions[index])
            lookahead.advance(record)
            yield record

    def ask(self, question: Question | str) -> Record:
        """Answer first, learn after: the stated confidence never depends on this question's own update."""
        return self.learn(self.answer(question))

    def answer(self, question: Question | str, written: str | None = None) -> Record:
        """Answer a question and let the gate decide; nothing is learned.

        Args:
            question: to answer.
            written: what the model has written already in answer to it (`secl.model.Model.write`).

        Returns:
            a record with the evidence that its posterior needs and no other, whose outcome is "waiting" where `learn`
            may change the weights, else "idle".

        Raises:
            QuestionError: the model cannot answer the question.
        """
        question = as_question(question)
        (in_burst,) = predict_bursts(self.gate, self.state.gate, self.state.entropy, 1)
        self.model.meter.take()
        answer = self.model.answer(question, evidence=self.plan.wanted(in_burst), written=written)
        state, decision = self.state.step(self.gate, answer.reply.entropy)
        # The posterior is part of the answer: its confidence is what is reported, and learning may come much later.
        wanted, evidence = self.plan.weighed(decision.in_burst), Evidence()
        if "candidates" in wanted:
            evidence = replace(evidence, candidates=self.model.compare_candidates(question, answer.reply))
        if "p_true" in wanted:
            evidence = replace(evidence, p_true=self.model.score_p_true(question, answer.reply))
        state, posterior = self._weigh(state, question, answer.reply, answer.frozen, evidence)
        record = Record(
            position=self.state.position,
            question=question,
            reply=answer.reply,
            frozen=answer.frozen,
            decision=decision,
            evidence=evidence,
            posterior=posterior,
            answers_best=self.loop.answer == "best" and not question.free,  # a text is what was written
            accept=self.loop.accept,
            signal=None,
            outcome="waiting" if decision.in_burst and self.learns else "idle",
            update=None,
            correct=grade(question, answer.reply.answer),
            frozen_correct=grade(question, answer.frozen.answer),
            ledger=self.model.meter.take(),
            plain_tokens=answer.plain_tokens,
        )
        labelled = state.labels.rate(question.domain, record.label_free)
        self._latest = replace(record, labelled=labelled)
        self.state = state
        return self._latest

    def answer_all(self, questions: Sequence[Question], written: Sequence[str | None] = ()) -> list[Record]:
        """Answer questions that share passes under one version; `learn` may follow for each. As for `answer`."""
        texts = written or [None] * len(questions)
        evidence = [self.plan.weighed(False)] * len(questions)
        self.model.prefetch(questions, evidence, weights_fixed=True, written=texts)
        return [self.answer(question, text) for question, text in zip(questions, texts, strict=True)]

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
        evidence = gather(self.model, record, reply, wanted, self.loop.samples)
        signal = self.signal(record.question, reply, evidence)
        outcome: LearningOutcome = "idle"
        update = None
        if record.decision.in_burst and self.learns:
            outcome, update = teach(self.model, record.question, reply, signal, self.loop)
            if self.loop.accumulate == "question":
                self.model.reset()
        cost = self.model.meter.take()
        if not latest:
            cost = replace(cost, answering=0.0, adapting=0.0, learning=round(cost.replies + cost.learning, 6))
        return replace(
            record, evidence=evidence, signal=signal, outcome=outcome, update=update, ledger=record.ledger + cost
        )
