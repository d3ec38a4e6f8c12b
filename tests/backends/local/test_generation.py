"""Generation in batches against one text at a time and against transformers' own greedy search."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from secl.backends.local.generation import Draft, Generator
from secl.records import Question
from tests.backends.local.conftest import MakeModel
from tests.tiny import FAMILIES, tiny_model, tiny_tokenizer

PROMPTS = [list(range(40, 52)), list(range(60, 65)), list(range(80, 110))]


def endless(prompt: list[int], limit: int) -> Draft:
    """A draft that nothing but its limit or an end token finishes."""
    return Draft(prompt, "sentence", limit, lines=10**6)


@pytest.fixture(params=FAMILIES)
def generator(request: pytest.FixtureRequest) -> Generator:
    return Generator(tiny_model(request.param), tiny_tokenizer(), seed=1)


def test_a_batch_writes_what_transformers_writes_for_each_alone(generator: Generator) -> None:
    drafts = [endless(prompt, limit) for prompt, limit in zip(PROMPTS, (12, 5, 9), strict=True)]
    generator.write(drafts)
    for draft in drafts:
        ids = torch.tensor([draft.prompt])
        settings = {"do_sample": False, "max_new_tokens": draft.limit, "eos_token_id": list(generator.ends)}
        whole = generator.model.generate(ids, attention_mask=torch.ones_like(ids), pad_token_id=1, **settings)
        assert draft.written == whole[0, len(draft.prompt) :].tolist()


def test_every_token_that_goes_through_the_network_is_counted(generator: Generator) -> None:
    seen = 0

    def count(module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        nonlocal seen
        seen += int(kwargs["input_ids"].numel())

    generator.model.register_forward_pre_hook(count, with_kwargs=True)
    drafts = [endless(PROMPTS[0], 8), endless(PROMPTS[0][::-1], 3)]
    generator.write(drafts)
    # The last token of a text is never read by the network.
    assert sum(d.tokens for d in drafts) == seen == sum(len(d.prompt) + len(d.written) - 1 for d in drafts)


def test_a_text_that_was_begun_goes_on_as_if_it_never_stopped(generator: Generator) -> None:
    whole, begun = endless(PROMPTS[0], 10), endless(PROMPTS[0], 10)
    generator.write([whole])
    begun.written = whole.written[:4]
    generator.write([begun])
    assert begun.written == whole.written


def test_sampled_lists_depend_on_seed_and_question_alone(make_model: MakeModel) -> None:
    one, other = make_model(seed=3), make_model(seed=4)
    question = Question("Who wrote Hamlet?", id="x")
    prompt = PROMPTS[2]
    torch.manual_seed(1)
    first = one.generator.distractors(prompt, question, "nobody", [])
    torch.manual_seed(2)
    assert one.generator.distractors(prompt, question, "nobody", []) == first
    assert other.generator.distractors(prompt, question, "nobody", []) != first


def test_numbers_are_filled_up_with_near_misses(make_model: MakeModel) -> None:
    question = Question("How many?", form="number")
    others, strategy, tokens = make_model().generator.distractors(PROMPTS[0], question, "12", ["12.0", "13", "40"])
    assert (others, strategy, tokens) == (["13", "40", "11", "24"], "listed:2+numeric:2", 0.0)
