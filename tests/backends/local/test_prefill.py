"""Prompts go through the network once: answers are those of `generate`, and are read as if nothing had been kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from secl.backends.base import Bundle
from secl.backends.generation import Draft
from secl.backends.local import passes
from secl.backends.local.model import LocalModel
from secl.model import ModelAnswer
from secl.question import Question
from tests.backends.local.conftest import MakeModel, alike, tokens_seen

pytestmark = pytest.mark.heavy

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
    model.learn(OPEN[1], model.answer(OPEN[1]).reply, 0.05)
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
    assert model.environment  # how short replies begin is tried now, at no question's cost
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
    """Texts of different lengths, greedy and drawn, behind prompts of different lengths; frozen and adapted."""
    model, limits, seeds = taught(make_model(family, learning_rate=0.2)), (5, 9, 2), (None, 7, None)
    backend, digits = model.backend, model.backend.token_ids.digits
    drafts = [
        Draft(model.prompting.answer(question), "text", limit, seed=seed, kept=True)
        for question, limit, seed in zip(OPEN, limits, seeds, strict=False)
    ]
    backend.write([drafts])
    assert [len(draft.written) for draft in drafts] == [*limits]
    sequences = [[*draft.prompt, *draft.written, 70, 71] for draft in drafts]
    places = [[(0, length) for length in range(len(each) - 3, len(each) + 1)] for each in sequences]
    bundles = [
        Bundle([sequence], positions, draft=draft)
        for sequence, positions, draft in zip(sequences, places, drafts, strict=True)
    ]
    seen = tokens_seen(backend.model)
    kept = backend.read(bundles)
    assert seen == [3 * len(drafts)]  # the last token of each text, and two more
    whole = backend.read([replace(bundle, draft=None) for bundle in bundles])
    for one, other in ((kept, whole), (backend.adapt(kept, 1), backend.adapt(whole, 1))):
        for positions, mine, theirs in zip(places, one, other, strict=True):
            for row, expected in zip(mine.logits(positions, digits), theirs.logits(positions, digits), strict=True):
                assert row == pytest.approx(expected, abs=1e-3)
