"""The loop body, followed by hand on a scripted model."""

import math
from collections.abc import Collection
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

import secl
from secl import Question
from secl.calibrator import WINDOW_SIZE, Calibrator
from secl.errors import ParameterError
from secl.evidence import NO_OTHERS, Evidence, EvidenceKind, PTrue
from secl.gates import Always, EntropyShift, Never, PageHinkley
from secl.learning import LoopSettings
from secl.ledger import Ledger
from secl.methods import Plan, method
from secl.metrics.probability import bin_index
from secl.model import ModelAnswer
from secl.posterior.rule import PosteriorRule
from secl.records import Record, Reply, Update
from secl.scores import make_signal, p_true
from secl.testing import ScriptedModel, toy_stream
from tests.answers import make_reply

SMALL = EntropyShift(warmup=4, threshold=3.0, burst=5)


class Recording(ScriptedModel):
    """Notes every call in order, with the model's stated confidence at that moment."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.calls: list[tuple[str, str]] = []
        self.states: dict[str, float] = {}

    def answer(self, question: Question, *, evidence: Any = (), written: Any = None) -> ModelAnswer:
        self.calls.append(("answer", question.id))
        answered = super().answer(question, evidence=evidence, written=written)
        self.states[question.id] = answered.reply.stated
        return answered

    def gather(
        self, question: Question, reply: Reply, evidence: Collection[EvidenceKind], *, samples: int = 0
    ) -> Evidence:
        self.calls += [(kind, question.id) for kind in evidence]
        return super().gather(question, reply, evidence, samples=samples)

    def learn(self, question: Question, reply: Reply, target: float) -> Update:
        self.calls.append(("learn", question.id))
        return super().learn(question, reply, target)

    def reset(self) -> None:
        self.calls.append(("reset", ""))
        super().reset()


def shifting(question: Question) -> float:
    """Entropies that jump in the second half of a toy stream of 40, so that a gate fires there."""
    number = int(question.id.removeprefix("toy-"))
    return (1.0 if number < 20 else 2.0) + (number % 3) / 50


def run(model: ScriptedModel | None = None, count: int = 40, **settings: Any) -> list[Record]:
    return list(make(model or ScriptedModel(entropy=shifting), **settings).run(toy_stream(count)))


def make(model: ScriptedModel, **settings: Any) -> Calibrator:
    """Return a loop around a model, with some settings of the learning rule."""
    settings = {"gate": SMALL, "bin_gate": None, **settings}
    rule = {name: settings.pop(name) for name in LoopSettings.model_fields if name in settings}
    return Calibrator(model, method="secl", loop=LoopSettings(**rule), **settings)


def test_every_question_is_answered_then_judged_then_learned_from_and_recorded_as_before_its_own_update() -> None:
    model = Recording()
    records = run(model, 10, gate=Always())
    assert model.calls == [(step, f"toy-{i:04d}") for i in range(10) for step in ("answer", "p_true", "learn")]
    assert [record.reply.stated for record in records] == [model.states[r.question.id] for r in records]
    for record in records:
        assert record.update is not None
        assert record.update.before == record.reply.stated != record.update.after
    for earlier, later in pairwise(records):
        assert earlier.update is not None
        assert later.reply.version == earlier.update.version
        assert later.reply.stated == pytest.approx(earlier.update.after, abs=1e-12)


def test_lessons_in_any_order_each_move_the_answer_that_the_model_has_just_given() -> None:
    class Strict(ScriptedModel):
        """Like a network, learns only from the question that it answered last."""

        def answer(self, question: Question, **given: Any) -> ModelAnswer:
            self.latest = question
            return super().answer(question, **given)

        def learn(self, question: Question, reply: Reply, target: float) -> Update:
            assert question == self.latest
            return super().learn(question, reply, target)

    calibrator = make(Strict(), gate=Always())
    first, second = map(calibrator.answer, toy_stream(2))
    assert [calibrator.learn(record).outcome for record in (first, second)] == ["trained"] * 2


@pytest.mark.parametrize("width", [0, 1, 2])
def test_the_bin_gate_stops_lessons_whose_bins_differ_by_at_most_its_width(width: int) -> None:
    records = run(gate=Always(), bin_gate=width)
    for record in records:
        assert record.signal is not None
        apart = abs(bin_index(record.reply.stated) - bin_index(record.signal))
        assert record.outcome == ("trained" if apart > width else "agreed")
        assert (record.update is None) == (apart <= width)
    assert {record.outcome for record in records} == {"trained", "agreed"}


def test_every_question_of_a_burst_is_learned_from_and_none_outside_of_one_and_the_shadow_stays_frozen() -> None:
    model = Recording(entropy=shifting)
    records = run(model)
    assert [record.outcome for record in records if record.decision.in_burst] == ["trained"] * 10
    assert all(record.outcome == "idle" for record in records if not record.decision.in_burst)
    assert [record.position for record in records if record.decision.alarm] == [0, 20]
    assert [record.update.version for record in records if record.update] == list(range(1, 11))
    assert ("reset", "") not in model.calls
    closed = Recording(entropy=shifting)
    frozen = run(closed, gate=Never())
    assert {step for step, _ in closed.calls} == {"answer"}
    assert {(r.learning, r.evidence.p_true, r.signal) for r in frozen} == {(None, None, None)}
    assert [record.frozen for record in records] == [record.reply for record in frozen]
    assert {record.frozen.version for record in records} == {0}
    assert records[-1].reply.stated != records[-1].frozen.stated


def test_with_accumulation_over_a_question_every_question_is_answered_by_the_untouched_model() -> None:
    model = Recording(entropy=shifting)
    records = run(model, accumulate="question")
    lessons = [i for i, call in enumerate(model.calls) if call[0] == "learn"]
    assert len(lessons) == 10
    assert all(model.calls[i + 1] == ("reset", "") for i in lessons)
    updates = [record.update for record in records if record.update]
    assert [update.version for update in updates] == list(range(1, 11))
    assert all(record.reply == record.frozen for record in records)
    assert all(record.update.before == record.reply.stated for record in records if record.update)
    for update in updates:
        assert update.after == pytest.approx(update.before + 0.5 * (update.target - update.before), abs=1e-9)


def test_judging_every_question_or_those_of_bursts_alone_changes_nothing_that_is_learned() -> None:
    often, seldom = run(evidence_on="always"), run(evidence_on="burst")
    assert all(record.evidence.p_true is not None and record.signal is not None for record in often)
    for record in seldom:
        assert (record.evidence.p_true is not None) == (record.signal is not None) == record.decision.in_burst
    assert [(r.reply, r.decision, r.outcome, r.update) for r in often] == [
        (r.reply, r.decision, r.outcome, r.update) for r in seldom
    ]


def test_an_unreadable_reply_and_a_judgement_without_rivals_teach_nothing_and_the_run_goes_on() -> None:
    class Mumbling(ScriptedModel):
        """Gives no readable answer to every third question."""

        def answer(self, question: Question, **how: Any) -> ModelAnswer:
            answered = super().answer(question, **how)
            if int(question.id.removeprefix("toy-")) % 3:
                return answered
            reply = replace(answered.reply, text="hm", answer=None, option_log_p=())
            return ModelAnswer(reply=reply, frozen=reply, plain_tokens=10.0)

    records = run(Mumbling(entropy=shifting), gate=Always())
    for record in records:
        readable = record.reply.answer is not None
        assert record.outcome == ("trained" if readable else "no_signal")
        assert (record.evidence.p_true is not None) == readable
        assert math.isnan(record.confidence) is math.isnan(record.low) is math.isnan(record.high) is not readable
        if not readable:
            assert (record.correct, record.confidences.expected_grade, record.accepted) == (False, 0.0, None)
    assert len(records) == 40

    class Alone(ScriptedModel):
        def gather(self, *asked: Any, **how: Any) -> Evidence:  # noqa: ARG002
            return Evidence(p_true=PTrue(candidates=("it",), probabilities=(0.9,), source=NO_OTHERS))

    assert {record.outcome for record in run(Alone(), 4, gate=Always())} == {"no_signal"}
    assert {record.signal for record in run(Alone(), 4, gate=Always(), signal="p_true")} == {0.9}


@pytest.mark.parametrize("accumulate", ["stream", "question"])
def test_after_a_resume_the_later_records_are_those_of_an_uninterrupted_loop(accumulate: str) -> None:
    whole = run(accumulate=accumulate)
    for stop in (1, 3, 5, 12, 21, 23, 26):
        first, second = ScriptedModel(entropy=shifting), ScriptedModel(entropy=shifting)
        begun = list(make(first, accumulate=accumulate).run(toy_stream(40)[:stop]))
        second.restore(first.snapshot())
        assert begun + list(make(second, accumulate=accumulate).run(toy_stream(40), begun)) == whole


def test_what_is_said_wins_over_the_method_and_what_is_senseless_is_refused() -> None:
    model = ScriptedModel()
    model.tau = 1.7
    calibrator = Calibrator(model, method="secl")
    assert (calibrator.gate, calibrator.plan.signal.name) == (EntropyShift(), "norm_p_true")
    judged = calibrator.ask(QUESTION)
    assert judged.signal == make_signal("norm_p_true", 1.7).of(judged) != make_signal("norm_p_true").of(judged)
    burst = LoopSettings(evidence_on="burst")
    calibrator = Calibrator(model, method="posterior", gate="always", evidence=["p_true"], learns=True, loop=burst)
    assert (calibrator.gate, calibrator.learns) == (Always(), True)
    assert calibrator.plan.kinds == {"candidates", "p_true"}
    assert calibrator.plan.on == "burst"
    for evidence in ("samples", ("sample",)):
        said = r"evidence is .*; it must be one of p_true, samples, dinco, candidates"
        with pytest.raises(ParameterError, match=said):
            Calibrator(ScriptedModel(), method="secl", evidence=evidence)  # type: ignore[arg-type]
    calibrator = Calibrator(model, method="secl", gate="page-hinkley", signal="p_true")
    assert (calibrator.gate, calibrator.plan.signal.of) == (PageHinkley(), p_true)
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({"method": "secpl"}, "no method 'secpl'"),
        ({"method": "secl-paper"}, "--method secl-paper"),
        ({"gate": "allways"}, "there is no gate 'allways'; take always, never"),
        ({"signal": "ptrue"}, "there is no signal 'ptrue'; the signals are p_true, norm_p_true, self_consistency"),
    )
    for settings, said in refused:
        with pytest.raises(ParameterError, match=said):
            Calibrator(ScriptedModel(), **{"method": "secl", **settings})
    with pytest.raises(ParameterError, match="no method 'secpl'"):
        secl.load("no such model", method="secpl")  # said before a model is looked for


def test_the_signal_decides_what_is_gathered_for_learning_and_each_kind_is_paid_for_separately() -> None:
    (record,) = run(ScriptedModel(), 1, gate=Always(), evidence=("dinco",))
    assert record.evidence.p_true is not None
    assert record.evidence.dinco is not None
    assert len(record.evidence.samples or ()) == 10
    assert record.ledger == Ledger(answering=10, scoring=20, sampling=10, comparing=40, learning=30)
    assert record.ledger.total == 110
    records = run(ScriptedModel(), 20, gate=Always(), signal="self_consistency")
    for record in records:
        assert record.evidence.p_true is None
        assert record.signal == make_signal("self_consistency").of(record)
    assert {record.outcome for record in records} == {"trained"}
    model = ScriptedModel(entropy=shifting)
    records = run(model, learns=False, evidence=("p_true",))  # which watches its gate, and gathers what it is told to
    assert any(record.decision.in_burst for record in records)
    assert model.version == 0
    for record in records:
        assert record.outcome == "idle"
        assert (record.evidence.p_true is not None) == record.decision.in_burst


def test_a_long_stream_is_never_copied() -> None:
    class Stream(list[Question]):
        copied = 0

        def __getitem__(self, key: Any) -> Any:
            found = super().__getitem__(key)
            self.copied += len(found) if isinstance(key, slice) else 0
            return found

    stream = Stream(toy_stream(200))
    assert len(list(make(ScriptedModel(), learns=False).run(stream))) == 200
    assert stream.copied <= WINDOW_SIZE * len(stream)


QUESTION = Question("Which?", options=("one", "two"))
REPLY = make_reply(2)


@pytest.mark.parametrize(
    ("paper", "rule", "signal", "target"),
    [
        (False, LoopSettings(), 0.72, 0.25 + 0.5 * 0.15),
        (False, LoopSettings(delta=1.0), 0.72, 0.25 + 0.5 * (0.72 - 0.25)),
        (False, LoopSettings(alpha=0.25, delta=0.02), 0.01, 0.25 - 0.25 * 0.02),
        (False, LoopSettings(loss="mse"), 1.0, 1.0),
        (True, LoopSettings(delta=1.0), 0.72, 0.25 + 0.5 * (0.75 - 0.25)),
        (True, LoopSettings(loss="mse"), 1.0, 0.95),
        (True, LoopSettings(), 0.39, None),  # neighbouring bins agree, whatever their centres
    ],
)
def test_targets_are_bounded_or_of_a_bin(paper: bool, rule: LoopSettings, signal: float, target: float | None) -> None:
    plan = Plan.of(method("secl"), make_signal("norm_p_true"), PosteriorRule(), rule, paper=paper)
    outcome, update = plan.teach(ScriptedModel(), QUESTION, REPLY, signal)
    assert outcome == ("agreed" if target is None else "trained")
    assert (update and update.target) == (None if target is None else pytest.approx(target))
