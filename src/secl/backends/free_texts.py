"""Free texts of a model that reads and writes token ids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from secl.backends.generation import Draft, thoughts_apart
from secl.backends.token_driver import TokenDriver
from secl.evidence import Thought
from secl.question import Question
from secl.writing import Piece, Writing


def write_texts(driver: TokenDriver, question: Question, writing: Writing) -> Iterator[Piece]:
    """Write free answers with the frozen weights; see `secl.model.Model.write`."""
    prompting, engine = driver.prompting, driver.engine
    if driver.thinks:
        return thoughts_apart(_after_thoughts(driver, question, writing))
    writing = prompting.with_room(question, writing, engine.limit)
    return thoughts_apart(engine.write_texts(prompting.answer(question), writing))


def _after_thoughts(driver: TokenDriver, question: Question, writing: Writing) -> Iterator[Piece]:
    """Write free answers, each after a separate thought.

    Thoughts use the temperature, top_p and seeds of the answers. The model writes all thoughts first. If a thought
    leads to an empty answer, the model answers without the thought.
    """
    prompting, write, limit = driver.prompting, driver.engine.write_texts, driver.engine.limit
    draft, answering = prompting.with_thought(question, writing, limit)
    thinking = replace(writing, max_tokens=draft.limit, stop=draft.stop, top_logprobs=None, extra={})
    thoughts: dict[int, Thought] = {}
    for piece in write(draft.prompt, thinking, draft.ends):
        if isinstance(piece.draft, Draft):
            thoughts[piece.choice] = driver.rules.thought(piece.draft)
        yield Piece(choice=piece.choice, thought=piece.text or None)
    for number, thought in sorted(thoughts.items()):
        tokens, begun = thought.tokens, False
        for tried in (thought, replace(thought, text="")) if thought.text else (thought,):
            room = prompting.with_room(question, answering, limit, tried.text)
            for piece in write(prompting.answer(question, tried.text), replace(room, n=1, seed=writing.seed + number)):
                text = piece.text if begun else piece.text.lstrip()
                begun = begun or bool(text)
                last = piece
                if isinstance(piece.draft, Draft):
                    tokens += piece.completion_tokens
                    if not begun and tried.text:
                        break
                    last = replace(
                        piece,
                        prompt_tokens=len(draft.prompt),
                        completion_tokens=tokens,
                        whole_thought=tried,
                    )
                yield replace(last, choice=number, text=text)
            if begun:
                break
