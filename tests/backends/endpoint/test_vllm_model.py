"""A fleet answers, judges and learns as the model in this process does; the servers are tiny ones, run by PEFT."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from secl.backends.endpoint.vllm_model import VllmModel
from secl.backends.local.model import LocalModel
from secl.calibrator import Calibrator
from secl.errors import ModelError, ParameterError, QuestionError, UnavailableError
from secl.evidence import EvidenceKind, PTrue
from secl.gates import Always, Never
from secl.model import Model
from secl.question import Question, Turn
from secl.records import Record, Reply
from secl.settings import LoopSettings
from secl.writing import Writing, Written
from tests.backends.conftest import Fakes, MakeFleet, MakeLearner
from tests.backends.endpoint.fake_vllm import FakeVllm
from tests.tiny import tiny_tokenizer

pytestmark = pytest.mark.heavy


def alike(one: Reply, other: Reply, entropy: float = 0.4) -> None:
    """The same reply up to float32 rounding; the entropy up to what the most probable tokens of a random model tell."""
    assert (one.text, one.answer, one.version) == (other.text, other.answer, other.version)
    assert one.bins == pytest.approx(other.bins, abs=1e-5)
    assert one.digit_mass == pytest.approx(other.digit_mass, abs=1e-5)
    assert one.log_probability == pytest.approx(other.log_probability, abs=1e-3)
    assert one.entropy == pytest.approx(other.entropy, abs=entropy)


def run(model: Model, questions: list[Question], **settings: Any) -> list[Record]:
    return list(Calibrator(model, **{"gate": Always(), "loop": LoopSettings(bin_gate=None), **settings}).run(questions))


def same_p_true(mine: PTrue | None, theirs: PTrue | None) -> None:
    """The same P(True) of the same candidates; of those from sampled lists only the answer itself is the same."""
    assert (mine is None) == (theirs is None)
    if mine is not None and theirs is not None:
        same = slice(1) if "sampled" in theirs.distractor_source else slice(None)
        assert mine.candidates[same] == theirs.candidates[same]
        assert mine.probabilities[same] == pytest.approx(theirs.probabilities[same], abs=1e-5)


def agree(found: list[Record], expected: list[Record]) -> None:
    for one, other in zip(found, expected, strict=True):
        alike(one.reply, other.reply)
        alike(one.frozen, other.frozen)
        assert one.outcome == other.outcome
        same_p_true(one.evidence.p_true, other.evidence.p_true)
        if one.update is not None and other.update is not None:
            assert one.update.after == pytest.approx(other.update.after, abs=1e-4)


@pytest.fixture
def server(tiny_server: Fakes) -> FakeVllm:
    return tiny_server()


def test_a_whole_stream_is_recorded_as_by_the_model_in_this_process(
    make_learner: MakeLearner, make_fleet: MakeFleet, server: FakeVllm, questions: list[Question]
) -> None:
    fleet = make_fleet(make_learner(), server)
    found, expected = run(fleet, questions), run(make_learner(), questions)
    agree(found, expected)
    assert found[-1].reply.version > 0
    assert [record.outcome for record in found[:2]] == ["trained", "trained"]
    assert [name.split("-")[1] for name in server.loaded] == [str(version) for version in range(fleet.version)]
    assert all(record.ledger.total >= record.plain_tokens for record in found)


def test_candidates_are_compared_as_by_the_model_in_this_process(
    make_learner: MakeLearner, make_fleet: MakeFleet, server: FakeVllm, questions: list[Question]
) -> None:
    evidence: tuple[EvidenceKind, ...] = ("candidates", "p_true")
    settings: dict[str, Any] = {
        "gate": Never(),
        "evidence": evidence,
        "learns": False,
        "loop": LoopSettings(evidence_on="always"),
    }
    stream = [
        replace(question, text=f"{i}. {question.text}", id=f"{i}") for i in range(4) for question in questions[:2]
    ]
    fleet = make_fleet(make_learner(), server)
    found, expected = run(fleet, stream, **settings), run(make_learner(), stream, **settings)
    for one, other in zip(found, expected, strict=True):
        mine, theirs = one.evidence.candidates, other.evidence.candidates
        assert mine is not None
        assert theirs is not None
        for ours, its in zip(mine.letters, theirs.letters, strict=True):
            assert ours.order == its.order
            assert ours.log_p == pytest.approx(its.log_p, abs=1e-3)
        for likely, its_likelihood in zip(mine.likelihoods, theirs.likelihoods, strict=True):
            assert likely is not None
            assert its_likelihood is not None
            assert (likely.given, likely.alone) == pytest.approx((its_likelihood.given, its_likelihood.alone), abs=1e-3)
        assert one.posterior is not None
        assert other.posterior is not None
        assert one.posterior.probabilities == pytest.approx(other.posterior.probabilities, abs=1e-3)
        assert one.ledger.likelihood > 0
        assert one.ledger.reordering > 0
        assert one.ledger.scoring > 0


def test_a_learner_computes_lessons_and_nothing_else(
    make_learner: MakeLearner,
    make_fleet: MakeFleet,
    server: FakeVllm,
    questions: list[Question],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet = make_fleet(make_learner(), server)
    learner, lessons = fleet.backend.learner, []
    read = learner.read

    def note(bundles: Any) -> Any:
        lessons.append(bundles)
        return read(bundles)

    monkeypatch.setattr(learner, "read", note)
    monkeypatch.setattr(learner, "write", None)
    evidence: tuple[EvidenceKind, ...] = ("p_true", "candidates", "samples")
    records = run(fleet, questions, evidence=evidence, loop=LoopSettings(bin_gate=None, evidence_on="always"))
    assert [record.outcome for record in records].count("trained") == len(lessons) > 0
    assert all(record.evidence.candidates is not None for record in records)


def test_all_tokens_of_the_vocabulary_give_the_entropy_itself(
    make_learner: MakeLearner, make_fleet: MakeFleet, server: FakeVllm, questions: list[Question]
) -> None:
    server.most = len(tiny_tokenizer())
    model, local = make_fleet(make_learner(), server, top=server.most), make_learner()
    for question in questions:
        alike(model.answer(question).reply, local.answer(question).reply, entropy=1e-4)


def test_the_version_of_a_reply_is_the_one_that_its_requests_named(
    make_learner: MakeLearner, make_fleet: MakeFleet, server: FakeVllm, questions: list[Question]
) -> None:
    model = make_fleet(make_learner(), server)
    for question in questions[:3]:
        model.answer(question)
        server.asked.clear()
        answered = model.answer(question)
        version = answered.reply.version
        assert set(server.models()) == {"base", *([model.backend.published] if version else [])}
        assert answered.frozen.version == 0
        update = model.learn(question, answered.reply, 0.9)
        assert update.version == model.version == version + 1
    assert model.backend.published.startswith(f"secl-{model.version}-")


def test_a_server_that_dies_in_the_middle_of_a_stream_loses_nothing(
    make_learner: MakeLearner, make_fleet: MakeFleet, tiny_server: Fakes, questions: list[Question]
) -> None:
    servers = [tiny_server(), tiny_server()]
    model = make_fleet(make_learner(), *servers)
    dying: list[FakeVllm] = []
    counting = threading.Lock()

    def die(server: FakeVllm) -> None:
        with counting:
            if not dying and len(servers[0].asked) + len(servers[1].asked) >= 30:
                dying.append(server)
                threading.Thread(target=server.kill).start()

    for server in servers:
        server.before = lambda server=server: die(server)  # type: ignore[misc]
    agree(run(model, questions * 2), run(make_learner(), questions * 2))
    (dead,) = dying
    (alive,) = (server for server in servers if server is not dead)
    assert model.backend.fleet.failures > 0
    assert dead.asked
    dead.kill()
    dead.start()
    alive.kill()
    assert model.answer(questions[0]).reply.version == model.version
    assert dead.loaded == [model.backend.published]


def test_a_snapshot_is_published_when_it_is_restored(
    make_learner: MakeLearner, make_fleet: MakeFleet, server: FakeVllm, questions: list[Question]
) -> None:
    learner = make_learner()
    learner.learn(questions[0], learner.answer(questions[0]).reply, 0.9)
    one, expected = learner.snapshot(), learner.answer(questions[1])
    model = make_fleet(make_learner(), server)
    model.restore(one)
    alike(model.answer(questions[1]).reply, expected.reply)
    name = model.backend.published
    model.learn(questions[1], model.answer(questions[1]).reply, 0.1)
    assert model.backend.published != name
    model.restore(one)
    assert model.backend.published == name
    alike(model.answer(questions[1]).reply, expected.reply)
    assert model.weights() == learner.weights()
    model.reset()
    assert model.answer(questions[1]).reply == model.answer(questions[1]).frozen
    model.load_version(learner.weights(), 1)
    alike(model.answer(questions[1]).reply, expected.reply)
    assert model.relative_norm == pytest.approx(learner.relative_norm)


def test_a_server_of_another_model_is_refused(
    make_learner: MakeLearner, make_fleet: MakeFleet, tiny_server: Fakes
) -> None:
    right, wrong = tiny_server(), tiny_server(seed=1)
    for servers in ([wrong], [right, wrong]):
        with pytest.raises(ModelError, match=f"{wrong.url}/v1 does not serve the learner's model"):
            make_fleet(make_learner(), *servers)
    assert all("allowed_token_ids" in body for body in wrong.asked)


def test_a_server_that_finds_no_version_is_refused_with_what_to_do(
    make_learner: MakeLearner, tiny_server: Fakes, tmp_path: Path
) -> None:
    server = tiny_server()
    with pytest.raises(ModelError, match="VLLM_LORA_RESOLVER_CACHE_DIR") as refused:
        VllmModel(make_learner(), [server.url], tmp_path / "versions")
    assert str(tmp_path / "versions") in str(refused.value)


def test_a_server_that_is_away_at_the_start_is_used_when_it_is_back(
    make_learner: MakeLearner, make_fleet: MakeFleet, tiny_server: Fakes, questions: list[Question]
) -> None:
    away, well = tiny_server(), tiny_server()
    away.kill()
    model = make_fleet(make_learner(), away, well)
    away.start()
    well.kill()
    alike(model.answer(questions[0]).reply, make_learner().answer(questions[0]).reply)


def test_nonsense_settings_are_refused(make_learner: MakeLearner, server: FakeVllm, tmp_path: Path) -> None:
    learner: LocalModel = make_learner()
    for settings in ({"top": 0}, {"workers": 0}, {"tolerance": 0.0}, {"tolerance": 2.0}, {"name": "a b"}):
        with pytest.raises(ParameterError):
            VllmModel(learner, [server.url], tmp_path, **settings)
    with pytest.raises(ParameterError, match="at least one endpoint"):
        VllmModel(learner, [], tmp_path)


ASKED = Question(
    "And of Italy?",
    form="text",
    system="Answer like a pirate.",
    history=(Turn("user", "What is the capital of France?"), Turn("assistant", "Paris, arr.")),
)


def test_texts_are_those_of_the_model_in_this_process(
    make_learner: MakeLearner, make_fleet: MakeFleet, tiny_server: Fakes
) -> None:
    server = tiny_server()
    model, local = make_fleet(make_learner(), server), make_learner()
    (whole,) = Written.of(local.write(ASKED, Writing(max_tokens=30)))
    for question, writing in (
        (ASKED, Writing(max_tokens=30, n=3)),
        (ASKED, Writing(max_tokens=30, stop=("never said", whole.text[10:14]))),
        (ASKED, Writing(max_tokens=5, top_logprobs=2)),
        (ASKED, Writing(max_tokens=5, top_logprobs=0)),
    ):
        found = Written.of(model.write(question, writing))
        expected = Written.of(local.write(question, writing))
        for one, other in zip(found, expected, strict=True):
            assert (one.text, one.finish) == (other.text, other.finish)
            assert (one.prompt_tokens, one.completion_tokens) == (other.prompt_tokens, other.completion_tokens)
            assert [token.text for token in one.tokens] == [token.text for token in other.tokens]
            for mine, its in zip(one.tokens, other.tokens, strict=True):
                assert mine.log_p == pytest.approx(its.log_p, abs=1e-4)
                assert [text for text, _ in mine.top] == [text for text, _ in its.top]
    assert server.asked[-1]["model"] == "base"
    reply = model.answer(ASKED, written=whole.text).reply
    assert reply.bins == pytest.approx(local.answer(ASKED, written=whole.text).reply.bins, abs=1e-5)


def test_a_server_that_breaks_off_or_refuses_is_named(
    make_learner: MakeLearner, make_fleet: MakeFleet, tiny_server: Fakes
) -> None:
    server = tiny_server()
    model = make_fleet(make_learner(), server)
    server.breaks_off = True
    with pytest.raises(UnavailableError, match="broke off in the middle of an answer"):
        list(model.write(ASKED, Writing(max_tokens=20)))
    server.breaks_off, server.most = False, 5
    with pytest.raises(QuestionError, match="status 400"):
        list(model.write(ASKED, Writing(max_tokens=20, top_logprobs=20)))
