"""Prefetched windows and kept prompts change the speed alone: prompts go through the network once."""

from dataclasses import replace
from typing import Any

import pytest

from secl.backends.base import Bundle
from secl.backends.generation import Generation
from secl.backends.local import passes
from secl.backends.local.model import LocalModel
from secl.calibrator import WINDOW_SIZE, Calibrator
from secl.data.benchmarks import quiz
from secl.errors import QuestionError
from secl.gates import Always, EntropyShift
from secl.model import ModelAnswer
from secl.question import Question
from secl.records import Record
from secl.settings.groups import LoopSettings
from tests.backends.local.conftest import MakeModel, alike, numbers, tokens_seen

pytestmark = pytest.mark.heavy

GATES = {
    "always": Always(),
    "bursts": EntropyShift(warmup=3, threshold=1.5, burst=4),
    "late": EntropyShift(warmup=3, threshold=1.5, burst=5, opening=False),
}


def mixed_stream() -> list[Question]:
    """More than two windows of all forms, some questions twice."""
    choice = [*quiz("capitals", 12, 3), *quiz("misconceptions", 8, 3)]
    numbers = quiz("arithmetic", 6, 3)
    words = [Question(f"Who wrote book {i}?", id=f"w{i}") for i in range(6)]
    return [*choice[:14], *numbers[:3], *words, *choice[12:], *numbers, choice[0], choice[0], words[0]]


def agree(one: list[Record], other: list[Record]) -> None:
    for a, b in zip(one, other, strict=True):
        assert (a.question, a.outcome) == (b.question, b.outcome)
        assert (a.decision.alarm, a.decision.in_burst) == (b.decision.alarm, b.decision.in_burst)
        alike((a.reply, a.frozen), (b.reply, b.frozen), 1e-4, 1e-3)
        assert (a.signal is None) == (b.signal is None)
        if a.signal is not None:
            assert a.signal == pytest.approx(b.signal, abs=1e-4)
        mine, theirs = a.evidence.candidates, b.evidence.candidates
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None:
            assert (mine.candidates, mine.source) == (theirs.candidates, theirs.source)
            drawn = [[(each.text, each.candidate) for each in found.samples] for found in (mine, theirs)]
            assert drawn[0] == drawn[1]
            assert numbers(mine) == pytest.approx(numbers(theirs), abs=1e-3)


@pytest.mark.parametrize(("family", "gate"), [("llama", "always"), ("gemma2", "bursts"), ("llama", "late")])
def test_a_stream_looked_at_ahead_gives_the_records_of_one_question_at_a_time(
    family: str, gate: str, make_model: MakeModel
) -> None:
    questions = mixed_stream()
    assert len(questions) > 2 * WINDOW_SIZE
    settings: dict[str, Any] = {
        "gate": GATES[gate],
        "loop": LoopSettings(bin_gate=None),
        "evidence": ("candidates",) if gate == "late" else (),
    }
    windows = list(Calibrator(make_model(family, learning_rate=2e-3), method="secl", **settings).run(questions))
    single = list(Calibrator(make_model(family, learning_rate=2e-3), method="secl", **settings).run(iter(questions)))
    agree(windows, single)
    assert {record.outcome for record in windows} >= {"trained"}
    if gate == "bursts":
        assert any(record.reply.version and not record.decision.in_burst for record in windows)


def test_a_refused_question_ends_a_stream_where_it_stands_and_costs_its_window_nothing(make_model: MakeModel) -> None:
    short, long = quiz("capitals", 3, 3), Question("word " * 900, id="long")
    model, records = make_model(changes={"max_position_embeddings": 512}), list[Record]()
    with pytest.raises(QuestionError, match=r"'long' takes .* shorten the question"):
        records.extend(Calibrator(model).run([*short, long, *short]))
    whole = make_model(changes={"max_position_embeddings": 512})
    stated = [whole.answer(question).reply.stated for question in short]
    assert [record.reply.stated for record in records] == pytest.approx(stated, abs=1e-5)


def test_an_answer_that_the_frozen_model_would_have_continued_is_continued(make_model: MakeModel) -> None:
    """The untrained adapter stands for an adapted model that continues the frozen model's answer."""
    model = make_model()
    question = Question("Who wrote Hamlet?", id="h")
    prompt = model.prompting.answer(question)
    whole = Generation.answer(prompt, "short")
    model.backend.write([[whole]])
    short = Generation.answer(prompt, "short", whole.written[:3])
    text = model.backend.rules.answer(short)
    (reading,) = model.backend.adapt(model.backend.read([model.prompting.bundle_answer(question, text, short)]), 1)
    (rewritten,) = model.backend.rewrite([short], [reading], 1)
    assert model.backend.rules.answer(rewritten) == model.backend.rules.answer(whole) != text


@pytest.mark.parametrize("accumulate", ["stream", "question"])
def test_a_resumed_stream_has_the_same_records_and_costs_wherever_it_was_cut(
    accumulate: Any, make_model: MakeModel
) -> None:
    """Cuts lie inside windows that were read by adapted weights before a burst, and before repeated questions."""
    choice = quiz("capitals", 18, 3)
    stream = [*choice[:10], choice[8], *choice[10:], choice[12], *choice[3:9]]
    settings: dict[str, Any] = {
        "gate": EntropyShift(warmup=3, threshold=1, burst=4),
        "loop": LoopSettings(bin_gate=None, accumulate=accumulate),
    }
    whole, snapshots, model = list[Record](), dict[int, bytes](), make_model(learning_rate=0.01)
    for record in Calibrator(model, method="secl", **settings).run(stream):
        whole.append(record)
        if len(whole) in (4, 9, 11, 14, 19, 22, 24):
            snapshots[len(whole)] = model.learner.snapshot()
    assert sum(record.decision.alarm for record in whole) >= 2
    for cut, snapshot in snapshots.items():
        model = make_model(learning_rate=0.01)
        model.learner.restore(snapshot)
        resumed = Calibrator(model, method="secl", **settings)
        assert whole[:cut] + list(resumed.run(stream, whole[:cut])) == whole, cut


OPEN = [
    Question("Tom has 3 apples and buys 4. How many has he?", form="number", id="n"),
    Question("Who wrote Hamlet?", id="s"),
    Question("Why is the sky blue?", form="sentence", system="Be brief.", id="w"),
    Question("Who wrote Hamlet?", id="again"),
]


def answered(model: LocalModel, version: int) -> list[ModelAnswer]:
    model.prefetch(OPEN, [()] * len(OPEN), weights_fixed=version > 0)
    return [model.answer(question) for question in OPEN]


def taught(model: LocalModel) -> LocalModel:
    model.learner.learn(OPEN[1], model.answer(OPEN[1]).reply, 0.05)
    model.meter.take()
    return model


@pytest.mark.parametrize(("family", "group"), [("llama", 60), ("gemma2", 1000), ("phi3", 60)])
def test_answers_are_read_as_in_passes_of_their_own(
    family: str, group: int, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "GROUP_TOKENS", group)  # so that prompts are in one pass or in several
    kept, whole = taught(make_model(family, learning_rate=0.2)), taught(make_model(family, learning_rate=0.2))
    assert kept.backend.passes.shared is not None
    whole.backend.passes.shared = None
    seen, seen_whole = tokens_seen(kept.backend.model), tokens_seen(whole.backend.model)
    answers = answered(kept, 1)
    assert any(answer.reply.text != answer.frozen.text for answer in answers)  # the adapted model wrote on by itself
    for one, other in zip(answers, answered(whole, 1), strict=True):
        mine, theirs = (one.reply, one.frozen), (other.reply, other.frozen)
        alike(mine, theirs)
        assert [(a.prompt_tokens, a.answer_tokens) for a in mine] == [
            (b.prompt_tokens, b.answer_tokens) for b in theirs
        ]
    assert sum(seen) < sum(seen_whole)
    assert kept.meter.take() == whole.meter.take()
    assert kept.backend.network.run([[5, 6]]).cache is None


def test_a_question_costs_the_tokens_that_it_takes_alone_whoever_shares_its_passes(make_model: MakeModel) -> None:
    model = make_model()
    assert model.environment  # the trial of how short replies begin runs now, at no question's cost
    seen = tokens_seen(model.backend.model)
    alone = []
    for question in OPEN[:3]:
        model.answer(question)
        alone.append(model.meter.take())
        assert alone[-1].total == sum(seen)
        seen.clear()
    model.prefetch([*OPEN, OPEN[1]], [()] * 5, weights_fixed=True)
    for question, ledger in zip(OPEN, alone, strict=False):
        model.answer(question)
        assert model.meter.take() == ledger


@pytest.mark.parametrize("family", ["llama", "gemma2", "phi3"])
def test_kept_texts_of_a_batch_are_read_as_in_passes_of_their_own(family: str, make_model: MakeModel) -> None:
    """Greedy and sampled texts of different lengths after prompts of different lengths, frozen and adapted."""
    model, limits, seeds = taught(make_model(family, learning_rate=0.2)), (5, 9, 2), (None, 7, None)
    backend, digits = model.backend, model.backend.token_ids.digits
    generations = [
        Generation(model.prompting.answer(question), "text", limit, seed=seed, kept=True)
        for question, limit, seed in zip(OPEN, limits, seeds, strict=False)
    ]
    backend.write([generations])
    assert [len(generation.written) for generation in generations] == [*limits]
    sequences = [[*generation.prompt, *generation.written, 70, 71] for generation in generations]
    places = [[(0, length) for length in range(len(each) - 3, len(each) + 1)] for each in sequences]
    bundles = [
        Bundle([sequence], positions, generation=generation)
        for sequence, positions, generation in zip(sequences, places, generations, strict=True)
    ]
    seen = tokens_seen(backend.model)
    kept = backend.read(bundles)
    assert seen == [3 * len(generations)]  # the last token of each text, and two more
    whole = backend.read([replace(bundle, generation=None) for bundle in bundles])
    for one, other in ((kept, whole), (backend.adapt(kept, 1), backend.adapt(whole, 1))):
        for positions, mine, theirs in zip(places, one, other, strict=True):
            for row, expected in zip(mine.logits(positions, digits), theirs.logits(positions, digits), strict=True):
                assert row == pytest.approx(expected, abs=1e-3)
