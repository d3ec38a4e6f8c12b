"""A chat model that reads and writes token ids: in this process, or through vLLM's token API; and its free texts."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from secl.backends.base import Engine
from secl.backends.generation import Generation, TextRules, split_thoughts
from secl.backends.local.loading.loader import ModelFacts
from secl.backends.local.loading.thinking import with_budget
from secl.backends.prompting import Prompting
from secl.backends.readout import Readout, prefers_prefill
from secl.backends.token_driver import TokenDriver
from secl.backends.token_ids import TokenIds
from secl.evidence import Thought
from secl.flow.model import FlowModel
from secl.question import Question
from secl.settings.groups import Thinking
from secl.writing import Chunk, SamplingParameters


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


class TokenModel(FlowModel):
    """A `secl.model.Model` on an engine that reads and writes token ids, without its learning.

    Args:
        paper: whether all prompts follow the paper (docs/paper.md lists our choices and the differences of secl's own
            prompts).
        distractors: number of distractors for an open answer, 1 to 9.
        thinking: whether the model thinks before it answers: "off", "auto", or the maximum number of tokens.
        seed: seed of sampled answers and distractors.

    Raises:
        ModelError: the model always thinks, but `thinking` is "off".
    """

    driver: TokenDriver

    def __init__(
        self,
        facts: ModelFacts,
        engine: Engine,
        token_ids: TokenIds,
        *,
        rules: TextRules,
        paper: bool = False,
        distractors: int = 4,
        thinking: Thinking = "off",
        seed: int = 42,
        shared: dict[Hashable, Any] | None = None,
    ) -> None:
        self.name, self.fingerprint = facts.name, facts.fingerprint
        self.tau, self.letters = facts.preset.tau, facts.preset.letters
        known = True if token_ids.plain else facts.preset.prefilled
        prefers = partial(prefers_prefill, engine, token_ids) if known is None else lambda: known
        thinking_format = with_budget(facts.name, facts.thinking_format, thinking)
        self.prompting = Prompting(
            token_ids, prefers, paper=paper, distractors=distractors, thinking_format=thinking_format
        )
        super().__init__(TokenDriver(engine, self.prompting, Readout(token_ids, paper=paper), rules, seed), shared)

    @property
    def environment(self) -> dict[str, str | int]:
        """Device, precision, threads and other facts that can change probabilities, for records of runs."""
        short = "prefilled" if self.prompting.prefilled else "plain"
        found = {**self.driver.engine.environment, "short_replies": short}
        if self.prompting.thinks:
            found["thoughts"] = "requested" if self.prompting.thinking_format.request else "trained"
        return found

    def check(self, question: Question, given: str | None = None) -> None:
        """Check that the model can answer a question, or read a given answer.

        Raises:
            QuestionError: more options than letters, or a prompt longer than the model can read.
        """
        self.prompting.check_length(question, self.driver.engine.limit, given)

    def write(self, question: Question, sampling: SamplingParameters) -> Iterator[Chunk]:
        """Write free answers with the frozen weights; see `secl.model.Model.write`."""
        prompting, engine = self.prompting, self.driver.engine
        if self.driver.thinks:
            return split_thoughts(_write_after_thoughts(self.driver, question, sampling))
        sampling = prompting.with_room(question, sampling, engine.limit)
        return split_thoughts(engine.write_texts(prompting.answer(question), sampling))

    def close(self) -> None:
        """End connections and threads."""
        self.driver.engine.close()
