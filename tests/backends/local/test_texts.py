"""Free texts equal those of transformers' own `generate`, and get confidences like any other answer."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from secl.backends.base import Bundle
from secl.backends.chat_templates import render
from secl.backends.generation import Generation
from secl.backends.local.fast import shared_network
from secl.backends.local.fast.batch import Batch
from secl.backends.local.loading import guard
from secl.backends.local.model import LocalModel
from secl.backends.token_ids import common_length
from secl.calibrator import Calibrator
from secl.conversation import Message
from secl.errors import ModelError, TooLongError
from secl.prompts.templates import answer_prompt
from secl.question import Question
from secl.records import Record
from secl.settings.groups import LoopSettings
from secl.writing import Chunk, SamplingParameters, joined
from tests.answers import in_window
from tests.backends.local.alone import generated, log_p
from tests.backends.local.conftest import MakeModel, alike, memory_ends, tokens_seen

ASKED = Question(
    "And of Italy?",
    form="text",
    system="Answer like a pirate.",
    history=(Message("user", "What is the capital of France?"), Message("assistant", "Paris, arr.")),
)
SAMPLED: dict[str, Any] = {"do_sample": True, "temperature": 0.8, "top_p": 0.9, "top_k": 0}


def written(model: LocalModel, question: Question, **how: Any) -> tuple[Any, ...]:
    return joined(model.write(question, SamplingParameters(**{"max_tokens": 30} | how)))


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_texts_are_those_of_generate(family: str, make_model: MakeModel) -> None:
    model = make_model(family)
    (greedy,) = written(model, ASKED)
    network = model.backend.model
    assert greedy.text == generated(network, model, ASKED, limit=30)
    drawn = written(model, ASKED, temperature=0.8, top_p=0.9, seed=5, n=3)
    expected = [generated(network, model, ASKED, limit=30, seed=5 + i, **SAMPLED) for i in range(3)]
    assert [each.text for each in drawn] == expected
    assert len({each.text for each in drawn}) == 3


def test_a_text_for_which_memory_ends_while_it_is_written_says_so_in_a_sentence(
    make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, steps = make_model(), itertools.count()
    memory_ends(monkeypatch, Batch, "step", lambda *_: next(steps) == 2)
    with pytest.raises(ModelError, match="needs more memory than the device has"):
        written(model, ASKED)
    assert written(model, ASKED)[0].text == generated(model.backend.model, model, ASKED, limit=30)


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_no_token_of_a_chat_goes_through_the_network_twice(family: str, make_model: MakeModel) -> None:
    """The last token of a text is new. All tokens are new from the first that the template splits differently."""
    model = make_model(family)
    seen, prompt = tokens_seen(model.backend.model), model.prompting.answer(ASKED)
    (text,) = written(model, ASKED)
    assert seen == [len(prompt), *([1] * (text.completion_tokens - 1))]
    seen.clear()
    model.answer(ASKED, written=text)
    whole = model.prompting.confidence(ASKED, text.text)
    assert seen == [len(whole) - common_length(whole, [*prompt, *text.generation.written[:-1]])]
    assert seen[0] < len(whole) - len(prompt)
    assert model.meter.take().answering == len(whole)


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_what_is_said_of_a_text_depends_on_what_was_kept_of_it_by_rounding_alone(
    family: str, make_model: MakeModel
) -> None:
    def answered(*, kept: bool, grows: bool = True) -> list[Any]:
        model = make_model(family, learning_rate=0.001, answer_weights="frozen")
        (text,) = written(model, ASKED)
        if not grows:
            model.backend.passes.shared = None
        first = model.answer(ASKED, written=text if kept else text.text)
        model.learner.learn(ASKED, first.reply, 0.05)
        second = model.answer(ASKED, written=text.text)
        return [first.reply, first.frozen, second.reply, second.frozen]

    whole, *others = answered(kept=True), answered(kept=False), answered(kept=False, grows=False)
    for other in others:
        alike(whole, other)


@pytest.mark.parametrize(("tokens", "kept"), [(8, 7), (40, 0)])
def test_a_text_that_a_window_let_go_of_is_read_behind_its_prompt(
    tokens: int, kept: int, make_model: MakeModel
) -> None:
    short = Question("Who?", form="text")
    prompt = len(make_model("gemma2").prompting.answer(short))
    model = make_model("gemma2", changes={"sliding_window": prompt + 20})
    (text,) = written(model, short, max_tokens=tokens)
    assert len(text.generation.begun.trie.tokens) == prompt + kept
    model.answer(short, written=text)


def test_a_long_prompt_is_read_in_chunks_between_which_others_may_go(
    make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, chunked = make_model(learning_rate=0.001), make_model(learning_rate=0.001)
    (text,) = written(whole, ASKED)
    expected = whole.answer(ASKED, written=text).reply
    monkeypatch.setattr(shared_network, "CHUNK", 16)
    prompt, seen = len(chunked.prompting.answer(ASKED)), tokens_seen(chunked.backend.model)
    chunks = chunked.write(ASKED, SamplingParameters(max_tokens=30))
    for number in range(-(-prompt // 16) - 1):
        assert next(chunks) == Chunk()
        assert seen == [16] * (number + 1)
    (same,) = joined(chunks)
    assert same == text
    found = chunked.answer(ASKED, written=same).reply
    assert found.bins == pytest.approx(expected.bins, abs=1e-5)
    assert found.entropy == pytest.approx(expected.entropy, abs=1e-5)
    assert chunked.learner.learn(ASKED, found, 0.3).after == pytest.approx(
        whole.learner.learn(ASKED, expected, 0.3).after, abs=1e-4
    )


def test_the_prompt_of_many_texts_goes_through_the_network_once_for_all_and_is_let_go(make_model: MakeModel) -> None:
    model = make_model()
    other = replace(ASKED, text="And of Spain?")
    drawn = written(model, ASKED, max_tokens=4, temperature=1.0, n=16)
    seen = tokens_seen(model.backend.model)
    generations = [text.generation for text in drawn if isinstance(text.generation, Generation)]
    assert all(generation.begun is not None for generation in generations)
    model.prefetch([ASKED] * 16, [()] * 16, weights_fixed=True, written=drawn)
    assert [generation.begun for generation in generations] == [
        None
    ] * 16  # keys and values of a long prompt are gigabytes
    assert len(seen) == len({text.text for text in drawn})
    assert len(model.prompting.answer(ASKED)) not in seen
    seen.clear()
    model.prefetch([other] * 3, [()] * 3, weights_fixed=True, written=[text.text for text in drawn[:3]])
    assert seen.count(len(model.prompting.answer(other))) == 1


@pytest.mark.parametrize("temperature", [1e-300, 1e-45, 1e-5])
def test_a_temperature_next_to_0_takes_the_most_probable_tokens(temperature: float, make_model: MakeModel) -> None:
    model = make_model()
    (greedy,) = written(model, ASKED)
    (cold,) = written(model, ASKED, temperature=temperature, top_p=0.5, seed=3)
    assert cold == greedy


def test_pieces_make_up_the_text_and_stop_before_a_stop_text(make_model: MakeModel) -> None:
    model = make_model()
    (whole,) = written(model, ASKED)
    assert (whole.finish, whole.completion_tokens) == ("length", 30)
    stop = whole.text[10:14]
    chunks = list(model.write(ASKED, SamplingParameters(max_tokens=30, stop=("never said", stop))))
    text = "".join(chunk.text for chunk in chunks)
    assert text == whole.text[: whole.text.index(stop)]
    assert [chunk.finish for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    prompt = model.backend.token_ids.tokenizer(
        render(model.backend.token_ids.tokenizer, answer_prompt(ASKED)), add_special_tokens=False
    )
    assert chunks[-1].prompt_tokens == len(prompt["input_ids"])
    assert chunks[-1].completion_tokens == len(chunks)


def test_log_probabilities_are_those_of_the_logits(make_model: MakeModel) -> None:
    model = make_model()
    (text,) = written(model, ASKED, max_tokens=5, top_logprobs=3, temperature=1.5, seed=1)
    tokenizer = model.backend.token_ids.tokenizer
    first, expected = text.tokens[0], log_p(model.backend.model, model.prompting.answer(ASKED))[-1]
    best = expected.topk(3)
    assert [word for word, _ in first.top] == [tokenizer.decode([i]) for i in best.indices]
    assert [log_p for _, log_p in first.top] == pytest.approx(best.values.tolist(), abs=1e-5)
    assert first.log_p in [pytest.approx(float(p), abs=1e-5) for p in expected]
    assert len(text.tokens) == 5


def test_what_is_too_long_is_refused_with_both_numbers(make_model: MakeModel) -> None:
    model = make_model(changes={"max_position_embeddings": 512})
    with pytest.raises(TooLongError, match=r"takes \d+ of the 512 .* \d+ remain, but the answer needs 500"):
        model.write(ASKED, SamplingParameters(max_tokens=500))
    with pytest.raises(TooLongError, match=r"takes \d+ of the 512 .* 0 remain, but the answer needs 1;"):
        model.write(replace(ASKED, text="word " * 600), SamplingParameters())
    (rest,) = written(model, ASKED, max_tokens=None)
    assert rest.prompt_tokens + rest.completion_tokens < 512
    half = rest.text[: len(rest.text) // 2]  # a random model's text has more tokens when it is tokenised again
    assert model.answer(ASKED, written=half).reply.answer == half.strip()


@pytest.mark.parametrize("family", ["llama", "gemma2", "phi3", "qwen2", "gpt2"])
def test_memory_for_texts_is_counted_in_tokens_of_their_keys_and_values(
    family: str, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model(family)
    cache = Batch.of(model.backend.model, [[5] * 10]).cache
    taken = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    monkeypatch.setattr(guard, "_free_memory", lambda _: 100 * taken)
    assert guard.room_for_texts(model.backend.model) == 500  # half of the memory for 1000
    model.backend.text_tokens = 400
    prompt = len(model.prompting.answer(ASKED))
    assert model.memory_share(ASKED, SamplingParameters(max_tokens=30, n=2)) == 2 * (prompt + 30) / 400
    with pytest.raises(
        TooLongError, match=r"n is 4 and each text has up to 300 tokens, so .* room for 400; ask for fewer"
    ):
        model.memory_share(ASKED, SamplingParameters(max_tokens=300, n=4))
    model.upstream = object()  # which writes instead
    assert model.memory_share(ASKED, SamplingParameters(max_tokens=300, n=4)) == 0


def test_a_container_has_as_much_memory_as_its_limit_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "CGROUP", tmp_path)
    cpu = torch.device("cpu")
    whole = guard._free_memory(cpu)
    assert whole > 10_000
    (tmp_path / "memory.stat").write_text("anon 4000\nfile 900000\n")
    for limit, free in (("max", None), ("10000", 6000), ("3000", 0)):
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        assert guard._free_memory(cpu) == free or (free is None and guard._free_memory(cpu) > 10_000)


def test_frozen_weights_write_the_same_answers_whatever_was_learned(
    make_model: MakeModel, questions: list[Question]
) -> None:
    model = make_model(learning_rate=0.5, answer_weights="frozen")
    (text,) = written(model, ASKED)
    before = [model.answer(question) for question in questions]
    model.learner.learn(questions[-1], before[-1].reply, 0.05)
    for question, earlier in zip(questions, before, strict=True):
        now = model.answer(question)
        assert now.reply.version == 1
        assert (now.reply.text, now.reply.answer) == (earlier.reply.text, earlier.reply.answer)
        assert now.frozen == earlier.frozen
        assert now.reply.stated != earlier.reply.stated
    assert written(model, ASKED) == (text,)


def test_a_brief_free_answer_is_compared_with_others_and_a_long_one_has_facts(make_model: MakeModel) -> None:
    asking = Calibrator(
        make_model(), method="secl", evidence=("candidates",), learns=False, loop=LoopSettings(evidence_on="always")
    )
    brief: Any
    long: Any
    brief, long = in_window(asking, [ASKED, ASKED], ["Rome, arr.", "Rome, arr.\nIt lies on the Tiber."])
    assert brief.posterior.candidates[0] == "Rome, arr."
    again = in_window(asking, [replace(ASKED, text=f"{ASKED.text} {i}") for i in range(48)], ["Rome, arr."] * 48)
    assert any(each.posterior and len(each.posterior.candidates) > 2 for each in again), "random texts are seldom brief"
    assert long.posterior is None
    assert [each.text for each in long.facts] == ["Tiber"]
    assert long.confidence == long.facts[0].confidence
    alone = asking.answer(ASKED, "Rome, arr.")
    assert alone.reply.stated == pytest.approx(brief.reply.stated, abs=1e-5)


def test_facts_have_the_probabilities_of_the_answering_pass_wherever_they_are_read(make_model: MakeModel) -> None:
    model = make_model()
    asking = Calibrator(model)
    text = "Rome, arr, since 1871.\nThe Tiber flows by, and 2.8 million people drink from it."
    (record,) = in_window(asking, [ASKED], [text])
    assert [each.text for each in record.facts or ()] == ["1871", "Tiber", "2.8 million people"]
    bundle = Bundle(spans=[model.prompting.span(ASKED, *_parts(text, each)) for each in record.facts or ()])
    (reading,) = model.driver.engine.read([bundle])
    for each, alone in zip(record.facts or (), reading.likelihoods(), strict=True):
        assert each.reply.log_probability == pytest.approx(alone, rel=1e-4)
    about = replace(ASKED, context="Rome has 2.8 million people.")
    (with_passage,) = in_window(asking, [about], [text])
    for fact, other in zip(record.facts or (), with_passage.facts or (), strict=True):
        assert other.support == pytest.approx(other.reply.log_probability - fact.reply.log_probability, abs=1e-3)


def _parts(text: str, fact: Record) -> tuple[str, str, str]:
    assert fact.span is not None
    start, end = fact.span
    return text[:start], text[start:end], text[end:]


@pytest.mark.parametrize("weights", ["adapted", "frozen"])
def test_tokens_of_prompt_and_answer_are_counted(
    weights: Any, make_model: MakeModel, questions: list[Question]
) -> None:
    model = make_model(learning_rate=0.5, answer_weights=weights)
    model.learner.learn(questions[-1], model.answer(questions[-1]).reply, 0.05)
    tokenizer = model.backend.token_ids.tokenizer
    for question in questions:
        answer = model.answer(question)
        prompt = tokenizer(render(tokenizer, answer_prompt(question)), add_special_tokens=False)["input_ids"]
        for reply in (answer.reply, answer.frozen):
            assert reply.prompt_tokens == len(prompt)
            assert reply.answer_tokens == 1 if question.options else 1 <= reply.answer_tokens <= 20
