"""From messages to a question, without a server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secl.errors import QuestionError, RequestError
from secl.server.http.conversation import SPEAKERS, Asked, Turn, asked_in, make_question, turns_of
from secl.server.http.schemas import Message

TEXT = st.text(min_size=1).filter(str.strip)


@given(TEXT)
def test_a_single_turn_is_the_question_without_space_around_it(text: str) -> None:
    assert asked_in(turns_of([Message(role="user", content=text)])) == Asked(text.strip())


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "system"]), TEXT), min_size=1), TEXT)
def test_every_earlier_turn_stands_in_order_before_the_question(earlier: list[tuple[str, str]], last: str) -> None:
    messages = [Message(role=role, content=text) for role, text in earlier]
    asked = asked_in(turns_of([*messages, Message(role="user", content=last)]))
    roles = [role for role, _ in earlier]
    leading = next((at for at, role in enumerate(roles) if role != "system"), len(roles))
    assert asked.system == "\n\n".join(said.strip() for _, said in earlier[:leading])
    assert asked.context == "\n".join(f"{SPEAKERS[role]}: {said.strip()}" for role, said in earlier[leading:])
    assert asked.text == last.strip()


def test_an_assistant_that_said_nothing_leaves_no_line() -> None:
    messages = [Message(role="user", content="a"), Message(role="assistant"), Message(role="user", content="b")]
    assert asked_in(turns_of(messages)) == Asked("b", "User: a")


def test_a_tool_call_of_the_assistant_is_refused() -> None:
    messages = [Message(role="assistant", tool_calls=[{"id": "1"}]), Message(role="user", content="b")]
    with pytest.raises(RequestError) as refused:
        turns_of(messages)
    assert refused.value.param == "messages.0.role"


def test_a_context_of_nothing_changes_nothing() -> None:
    assert asked_in([Turn("assistant", ""), Turn("user", "b")]) == Asked("b")


def test_a_prompt_that_is_longer_than_allowed_is_refused_with_both_numbers() -> None:
    assert make_question(Asked("ab", "c", "d"), ["ef", "gh"], None, "short", 8).form == "choice"
    with pytest.raises(RequestError, match="9 characters, more than the 8") as refused:
        make_question(Asked("ab", "cd", "e"), ["ef", "gh"], None, "short", 8)
    assert refused.value.status == 413


def test_options_and_an_open_form_do_not_go_together() -> None:
    with pytest.raises(QuestionError, match="has options but asks for the form 'number'"):
        make_question(Asked("a"), ["b", "c"], "number", "short", 100)
