"""From messages to a question, without a server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secl.errors import RequestError
from secl.question import Question, Turn
from secl.server.http import requests
from secl.server.http.requests import ROLES, Message, Part, check_length, question_in

TEXT = st.text(min_size=1).filter(str.strip)


def user(text: str) -> Message:
    return Message(role="user", content=text)


@given(st.lists(st.tuples(st.sampled_from(sorted(ROLES)), st.text())), TEXT)
def test_every_turn_stays_in_its_role_and_its_place(earlier: list[tuple[str, str]], last: str) -> None:
    asked = question_in([*(Message(role=role, content=text) for role, text in earlier), user(last)])
    system = [Turn("system", asked.system)] if asked.system else []
    turns = [*system, *asked.history, Turn("user", asked.text)]
    assert turns == [*(Turn(ROLES[role], text) for role, text in earlier), Turn("user", last)]
    assert asked.context == ""


def test_a_system_text_at_the_start_is_the_question_s_own_and_a_second_one_is_a_turn() -> None:
    messages = [Message(role="developer", content="Be brief."), Message(role="system", content="Be kind."), user("a")]
    assert question_in(messages) == Question(
        "a", form="text", system="Be brief.", history=(Turn("system", "Be kind."),)
    )


def test_an_assistant_that_said_nothing_and_parts_of_a_text_stay_turns() -> None:
    parts: list[Part] = [Part(type="text", text="b"), Part(type="text", text="c")]
    messages = [user("a"), Message(role="assistant"), Message(role="user", content=parts)]
    assert question_in(messages) == Question("b\nc", form="text", history=(Turn("user", "a"), Turn("assistant", "")))


def test_a_prompt_that_is_longer_than_allowed_is_refused_with_both_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MAX_PROMPT_CHARS", 9)
    question = Question("ab", ("ef", "gh"), context="c", system="d", history=(Turn("user", "c"),))
    assert check_length(question) is question
    with pytest.raises(RequestError, match="10 characters, more than the 9") as refused:
        check_length(question, "x")
    assert refused.value.status == 413
