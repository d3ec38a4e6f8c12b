"""Free texts of a model that reads and writes token ids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from secl.backends.generation import Generation, split_thoughts
from secl.backends.token_driver import TokenDriver
from secl.evidence import Thought
from secl.question import Question
from secl.writing import Chunk, SamplingParameters


def write_texts(driver: TokenDriver, question: Question, sampling: SamplingParameters) -> Iterator[Chunk]:
    """Write free answers with the frozen weights; see `secl.model.Model.write`."""
    prompting, engine = driver.prompting, driver.engine
    if driver.thinks:
        return split_thoughts(_write_after_thoughts(driver, question, sampling))
    sampling = prompting.with_room(question, sampling, engine.limit)
    return split_thoughts(engine.write_texts(prompting.answer(question), sampling))


def _write_after_thoughts(driver: TokenDriver, question: Question, sampling: SamplingParameters) -> Iterator[Chunk]:
    """Write free answers, each after a separate thought.

    Thoughts use the temperature, top_p and seeds of the answers. The model writes all thoughts first. If a thought
    leads to an empty answer, the model answers without the thought.
    """
    prompting, write, limit = driver.prompting, driver.engine.write_texts, driver.engine.limit
    generation, answering = prompting.with_thought(question, sampling, limit)
    thinking = replace(sampling, max_tokens=generation.limit, stop=generation.stop, top_logprobs=None, extra={})
    thoughts: dict[int, Thought] = {}
    for chunk in write(generation.prompt, thinking, generation.ends):
        if isinstance(chunk.generation, Generation):
            thoughts[chunk.choice] = driver.rules.thought(chunk.generation)
        yield Chunk(choice=chunk.choice, thought=chunk.text or None)
    for number, thought in sorted(thoughts.items()):
        tokens, begun = thought.tokens, False
        for tried in (thought, replace(thought, text="")) if thought.text else (thought,):
            room = prompting.with_room(question, answering, limit, tried.text)
            for chunk in write(prompting.answer(question, tried.text), replace(room, n=1, seed=sampling.seed + number)):
                text = chunk.text if begun else chunk.text.lstrip()
                begun = begun or bool(text)
                last = chunk
                if isinstance(chunk.generation, Generation):
                    tokens += chunk.completion_tokens
                    if not begun and tried.text:
                        break
                    last = replace(
                        chunk,
                        prompt_tokens=len(generation.prompt),
                        completion_tokens=tokens,
                        whole_thought=tried,
                    )
                yield replace(last, choice=number, text=text)
            if begun:
                break
