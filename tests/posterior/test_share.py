"""A share of the questions scored: which they are, what the others get, and that it all follows from the records."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import pytest

from secl.calibrator import Calibrator
from secl.errors import ParameterError
from secl.evaluation.estimators import ESTIMATORS
from secl.evaluation.posterior import replayed
from secl.evaluation.summary import summarise
from secl.evidence import EvidenceKind, LetterOrder, Posterior
from secl.gates import Never
from secl.metrics.probability import softmax
from secl.model import ModelAnswer
from secl.posterior.letters import PRIOR_QUESTIONS, RELIABILITY
from secl.posterior.rule import PosteriorRule
from secl.posterior.share import DOUBTS, FIRST, PRIOR_MAP, ScoreShare, Seen, ShareState, fit_map
from secl.posterior.views import Views
from secl.question import Question
from secl.records import Record, Reply
from secl.reports.posterior_section import posterior_notes, weights_table
from secl.runs.encoding import from_plain, to_plain, to_row
from secl.settings import LoopSettings, PosteriorSettings
from secl.signals import PosteriorSignal
from secl.stream_state import StreamState
from secl.testing import ScriptedModel, toy_stream, unit

EVIDENCE: tuple[EvidenceKind, ...] = ("candidates",)
ALWAYS = LoopSettings(evidence_on="always")
SHORT = PosteriorSettings(window=60, refit=15)


class Watched(ScriptedModel):
    """Notes for which questions evidence was asked together with the answer, and which were compared at all."""

    def __init__(self, *, same: bool = False) -> None:
        super().__init__()
        self.ahead: list[str] = []
        self.compared: list[str] = []
        self.same = same

    def answer(
        self, question: Question, *, evidence: Collection[EvidenceKind] = (), written: str | None = None
    ) -> ModelAnswer:
        if "candidates" in evidence:
            self.ahead.append(question.id)
        said = super().answer(question, evidence=evidence, written=written)
        spread = 1.0 if self.same else 6 * unit(f"sure/{question.id}")
        log_p = tuple(spread * value for value in said.reply.option_log_p)
        return replace(said, frozen=replace(said.frozen, option_log_p=log_p))

    def compare_candidates(self, question: Question, reply: Reply) -> Any:
        self.compared.append(question.id)
        return super().compare_candidates(question, reply)


def calibrator(
    share: float | None, model: ScriptedModel | None = None, *, seed: int = 3, **settings: Any
) -> Calibrator:
    fixed: dict[str, Any] = {"gate": Never(), "learns": False, "loop": ALWAYS, "evidence": EVIDENCE}
    scored = None if share is None else ScoreShare(share, seed, SHORT)
    return Calibrator(model or Watched(), posterior=PosteriorRule(SHORT), share=scored, **(fixed | settings))


def run(share: float | None, questions: Sequence[Question], model: ScriptedModel | None = None) -> list[Record]:
    return list(calibrator(share, model).run(questions))


def stored(records: Sequence[Record]) -> list[Record]:
    return [from_plain(json.loads(json.dumps(to_plain(record)))) for record in records]


def mixed(count: int) -> list[Question]:
    """Questions with four options and with three, of which two may be equal, and open ones."""
    questions = toy_stream(count)
    for i in range(0, count, 5):
        questions[i] = Question(f"What is {i}?", reference=str(i), id=f"open-{i}")
    for i in range(3, count, 7):
        questions[i] = Question(f"Is it {i}?", ("yes", "no", "yes"), reference="A", id=f"equal-{i}")
    return questions


def letters(log_p: Sequence[float], own: int = 0) -> Views:
    order = LetterOrder(order=tuple(range(len(log_p))), log_p=tuple(log_p))
    return Views(tuple("abcdef"[: len(log_p)]), own, ("letters",), ((0.0,) * len(log_p),), (order,))


def test_a_share_of_one_changes_nothing() -> None:
    plain, whole = calibrator(None), calibrator(1.0)
    records = list(plain.run(mixed(60)))
    assert list(whole.run(mixed(60))) == records
    assert whole.state == plain.state
    assert whole.state.share == ShareState()
    assert all(record.posterior is not None and record.posterior.scored for record in records)


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_the_share_comes_out_also_where_all_answers_are_as_certain(share: float, same: bool) -> None:
    model = Watched(same=same)
    scored = [record.posterior.scored for record in run(share, toy_stream(400), model) if record.posterior]
    assert len(scored) == 400
    assert all(scored[:FIRST])
    rest = scored[FIRST:]
    assert sum(rest) / len(rest) == pytest.approx(share, abs=0.06)
    assert len(model.compared) == sum(scored)
    ahead = len(model.ahead) - FIRST
    assert ahead / len(rest) == pytest.approx(share / 2, abs=0.06)
    assert set(model.ahead) < set(model.compared)


def test_what_is_scored_after_the_answer_is_what_the_map_is_least_certain_about() -> None:
    made = calibrator(0.25)
    late: list[float] = []
    never: list[float] = []
    for question in toy_stream(300):
        before = made.state
        record = made.ask(question)
        said = made.share.read(question, record.reply, record.frozen)
        assert record.posterior is not None
        assert said is not None
        p = before.share.map.probabilities(said)[0 if said.own is None else said.own]
        if not made.share.expects(question, before.position):
            (late if record.posterior.scored else never).append(p * (1 - p))
    assert len(late) > 20
    # The map moves along the stream, and with it the quantile that decides.
    assert statistics.median(late) > statistics.quantiles(never, n=10)[-1]


def test_the_random_half_does_not_depend_on_the_answers_and_is_known_in_advance() -> None:
    one, other, third = Watched(), Watched(same=True), Watched()
    run(0.5, toy_stream(80), one)
    run(0.5, toy_stream(80), other)
    list(calibrator(0.5, third, seed=4).run(toy_stream(80)))
    assert one.ahead == other.ahead != third.ahead
    share = ScoreShare(0.5, 3)
    assert one.ahead == [q.id for i, q in enumerate(toy_stream(80)) if share.expects(q, i)]


def test_windows_are_prefetched_with_evidence_for_the_random_half_alone() -> None:
    class Prefetched(Watched):
        windows: list[list[str]]

        def prefetch(
            self,
            questions: Sequence[Question],
            evidence: Sequence[Collection[EvidenceKind]],
            *,
            weights_fixed: bool,  # noqa: ARG002
            written: Sequence[str | None] = (),  # noqa: ARG002
        ) -> None:
            self.windows.append([q.id for q, kinds in zip(questions, evidence, strict=True) if "candidates" in kinds])

    model = Prefetched()
    model.windows = []
    records = run(0.25, mixed(100), model)
    assert [name for window in model.windows for name in window] == model.ahead
    # Taken up in the middle of a window, the whole window goes through the same pass again.
    again = Prefetched()
    again.windows = []
    list(calibrator(0.25, again).run(mixed(100), records[:40]))
    assert again.windows == model.windows[2:]


def test_open_questions_are_all_scored_and_questions_without_an_answer_have_no_posterior() -> None:
    class Mute(Watched):
        def answer(
            self, question: Question, *, evidence: Collection[EvidenceKind] = (), written: str | None = None
        ) -> ModelAnswer:
            said = super().answer(question, evidence=evidence, written=written)
            if question.id.endswith("7"):
                mute = replace(said.reply, answer=None)
                return replace(said, reply=mute, frozen=replace(said.frozen, answer=None))
            return said

        def compare_candidates(self, question: Question, reply: Reply) -> Any:
            return super().compare_candidates(question, reply) if reply.answer is not None else None

    records = run(0.1, mixed(150), Mute())
    for record in records:
        if record.reply.answer is None:
            assert record.posterior is None
        elif not record.question.options:
            assert record.posterior is not None
            assert record.posterior.scored
    assert replayed(PosteriorRule(SHORT), records, ScoreShare(0.1, 3, SHORT)) == [r.posterior for r in records]


def test_a_question_that_is_not_scored_gets_its_letters_as_a_posterior_and_teaches_nothing() -> None:
    share, made = ScoreShare(0.25, 3, SHORT), calibrator(0.25)
    before: dict[int, StreamState] = {}
    records: list[Record] = []
    for question in toy_stream(200):
        before[len(records)] = made.state
        records.append(made.ask(question))
    for record in records:
        posterior, state = record.posterior, before[record.position]
        assert posterior is not None
        assert posterior.scored == (record.evidence.candidates is not None)
        if not posterior.scored:
            said = share.read(record.question, record.reply, record.frozen)
            assert said is not None
            assert posterior.candidates == record.question.options
            assert posterior.probabilities == state.share.map.probabilities(said)
            assert posterior.weights == (("letters", state.share.map.weights[0]),)
            assert posterior.confidence == record.confidence
            assert record.ledger.reordering == record.ledger.likelihood == 0
            assert PosteriorSignal.of(posterior, record.question, record.reply) is None
    after = made.state
    (group,) = after.posterior.groups.values()
    assert group.count == after.share.scored == sum(record.evidence.candidates is not None for record in records)
    assert len(after.share.doubts) <= DOUBTS
    assert len(after.share.seen) == SHORT.window


def test_equal_options_are_equally_probable_also_without_evidence() -> None:
    mapped = [r.posterior for r in run(0.1, mixed(200)) if r.posterior and not r.posterior.scored]
    equal = [p.probabilities for p in mapped if p.candidates == ("yes", "no", "yes")]
    assert equal
    assert all(p[0] == p[2] for p in equal)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_records_give_the_posteriors_again_and_a_stream_can_be_taken_up(share: float) -> None:
    questions = mixed(90)
    whole = calibrator(share)
    records = list(whole.run(questions))
    again = stored(records)
    assert again == records
    assert replayed(whole.posterior, again, whole.share) == [record.posterior for record in records]
    for cut in (1, 21, 70):
        second = calibrator(share)
        done = stored(records[:cut])
        assert [*done, *second.run(questions, done)] == records
        assert second.state == whole.state


def test_the_map_is_the_weight_that_comes_nearest_to_the_posteriors() -> None:
    """Two candidates: the letters differ by 2 x, and the posterior of the first is p."""
    x, p = 0.5, 0.8
    one = Seen(letters((x, -x)), (p, 1 - p))
    # Place effects: the mean over questions, drawn to 0 by 5; here two questions that cancel, so that there are none.
    other = Seen(letters((-x, x)), (1 - p, p))
    fitted = fit_map([one, other])
    weight = fitted.weights[0]
    assert fitted.places == {(2, 0): (0.0, 0.0)}
    assert fitted.questions == 2
    # 2 questions at p and PRIOR_QUESTIONS at what RELIABILITY gives: the mean of the targets is met.
    drawn = 1 / (1 + math.exp(-RELIABILITY * 2 * x))
    target = (2 * p + PRIOR_QUESTIONS * drawn) / (2 + PRIOR_QUESTIONS)
    assert 1 / (1 + math.exp(-weight * 2 * x)) == pytest.approx(target, abs=1e-8)


def test_the_map_forgets_its_prior_is_never_negative_and_never_boundless() -> None:
    def fitted(weight: float, count: int) -> float:
        seen = []
        for i in range(count):
            log_p = [math.sin(7 * i + k) for k in range(4)]
            centred = [value - sum(log_p) / 4 for value in log_p]
            target = softmax([weight * value for value in centred])
            seen.append(Seen(letters(centred), tuple(target)))
        return fit_map(seen).weights[0]

    assert fitted(1.5, 400) == pytest.approx(1.5, abs=0.1)
    assert abs(fitted(1.5, 10) - 1.5) > abs(fitted(1.5, 400) - 1.5)
    assert fitted(RELIABILITY, 10) == pytest.approx(RELIABILITY, abs=0.05)
    assert fitted(-3.0, 100) == 0.0
    assert fitted(1000.0, 1000) <= 10.0


def test_questions_that_were_not_scored_move_the_places_of_the_map_and_nothing_else() -> None:
    scored = [Seen(letters((0.5, -0.5)), (0.7, 0.3)), Seen(letters((-0.5, 0.5)), (0.3, 0.7))]
    fitted = fit_map([*scored, Seen(letters((1.0, -1.0)), None)])
    assert fitted.places == {(2, 0): (1 / 8, -1 / 8)}
    assert fitted.questions == 2


def test_a_guarded_posterior_that_knows_nothing_guards_the_map() -> None:
    settings = PosteriorSettings(guard=True)
    share = ScoreShare(0.5, 0, settings)
    known = Posterior(
        candidates=("a", "b"),
        probabilities=(0.5, 0.5),
        own=0,
        weights=(),
        reliability=None,
        agreement=None,
        informed=False,
        questions=40,
    )
    state, given = share.step(share.start(), letters((1.0, -1.0)), known)
    assert given is known
    assert state.map == replace(PRIOR_MAP, informed=False)
    _, guessed = share.step(state, letters((1.0, -1.0)), None)
    assert guessed is not None
    assert (guessed.probabilities, guessed.informed, guessed.scored) == ((0.5, 0.5), False, False)


def test_a_step_changes_nothing_and_a_share_of_one_remembers_nothing() -> None:
    share, state = ScoreShare(0.5), ShareState()
    after, guessed = share.step(state, letters((1.0, -1.0)), None)
    assert share.step(state, letters((1.0, -1.0)), None) == (after, guessed)
    assert state == ShareState() != after
    assert ScoreShare(1.0).step(state, letters((1.0, -1.0)), None) == (state, None)
    assert share.step(state, None, None) == (state, None)


def test_summary_rows_and_report_tell_the_scored_from_the_others() -> None:
    records = run(0.25, toy_stream(100))
    count = sum(record.evidence.candidates is not None for record in records)
    names = ("posterior", "likelihood", "order_averaged")
    summary = summarise(records, {name: ESTIMATORS[name] for name in names}, intervals=False)
    assert (summary.scored, summary.without_posterior) == (count, 0)
    assert summary.estimators["posterior"].n == 100
    assert summary.estimators["likelihood"].n == summary.estimators["order_averaged"].n == count
    assert [to_row(record)["scored"] for record in records] == [r.evidence.candidates is not None for r in records]
    assert f"{100 - count} questions of 100 were not scored: their letters alone" in " ".join(posterior_notes(records))
    assert len(weights_table(records).sections) == 1


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5, math.nan, math.inf])
def test_a_share_lies_above_0_and_not_above_1(share: float) -> None:
    with pytest.raises(ParameterError, match="the score_share must lie above 0 and not above 1 and be finite, not"):
        ScoreShare(share)


def test_a_share_needs_candidates_that_are_always_compared() -> None:
    settings: dict[str, Any]
    for settings in ({"evidence": ()}, {"loop": LoopSettings()}):
        with pytest.raises(
            ParameterError, match=r"a score_share of 0.5 needs a method that compares candidates always"
        ):
            calibrator(0.5, **settings)
    with pytest.raises(ParameterError, match="does not go with the view p_true"):
        ScoreShare(0.5, 0, PosteriorSettings(views=("letters", "p_true"))).check(EVIDENCE, always=True)
    ScoreShare(1.0, 0, PosteriorSettings(views=("letters", "p_true"))).check((), always=False)
