"""The view: true to the records, and plain enough for JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss

from secl.server.http.pages.view import feedback, view
from secl.testing import toy_stream
from tests.server.conftest import MakeService
from tests.server.waiting import settled

judgements = st.lists(st.tuples(st.floats(0.05, 0.95), st.booleans()), max_size=40)


@given(judgements)
def test_measures_of_feedback_are_those_of_an_independent_computation(labelled: list[tuple[float, bool]]) -> None:
    measures: Any = feedback(labelled)
    assert measures["n"] == len(labelled) == sum(each["count"] for each in measures["bins"])
    assert len(measures["bins"]) == 10
    if not labelled:
        assert measures["ece"] is measures["brier"] is measures["accuracy"] is None
        return
    stated, right = np.array([s for s, _ in labelled]), np.array([float(r) for _, r in labelled])
    assert measures["brier"] == pytest.approx(brier_score_loss(right, stated, pos_label=1))
    assert measures["accuracy"] == pytest.approx(right.mean())
    gaps = [abs(each["count"] * (each["confidence"] - each["accuracy"])) for each in measures["bins"] if each["count"]]
    assert measures["ece"] == pytest.approx(sum(gaps) / len(labelled))


def test_a_view_is_what_the_records_say_and_is_json_without_nan(make_service: MakeService) -> None:
    service = make_service()
    questions = toy_stream(40)
    answers = [service.ask(question, 20) for question in questions]
    settled(service)
    service.state.add_feedback(3, True)
    service.state.add_feedback(4, False)
    state = view(service, 25)
    assert json.loads(json.dumps(state, allow_nan=False)) == state
    assert (state["model"], state["answers"], state["problems"]) == ("scripted", 40, [])
    assert [point["position"] for point in state["timeline"]] == list(range(15, 40))
    for point in state["timeline"]:
        record = answers[point["position"]].record
        assert point["confidence"] == record.reply.confidence
        assert point["frozen_confidence"] == record.frozen.confidence
        assert (point["entropy"], point["version"]) == (record.reply.entropy, record.reply.version)
        assert (point["alarm"], point["in_burst"]) == (record.decision.alarm, record.decision.in_burst)
    assert state["lessons"] == service.state.counts()
    assert state["feedback"]["n"] == 2
    assert state["newest"] == service.learner.model.version == sum(s.record.outcome == "waiting" for s in answers)
    last = answers[-1].record.decision
    assert (state["in_burst"], state["remaining"], state["statistic"]) == (
        last.in_burst,
        last.remaining,
        last.statistic,
    )
    assert view(service, 25) == state


def test_after_a_rollback_the_view_names_the_version_of_the_next_answer(make_service: MakeService) -> None:
    service = make_service()
    for question in toy_stream(20):
        service.ask(question, 20)
    settled(service)
    version = service.state.store.versions()[0]
    service.learner.rollback(version)
    state = view(service)
    assert state["newest"] == version != state["version"]
    assert [each["version"] for each in state["versions"] if each["current"]] == [version]
    assert (state["events"][-1]["kind"], state["events"][-1]["version"]) == ("rollback", version)
    assert service.ask(toy_stream(1)[0], 20).record.reply.version == version
    service.learner.pause("a look first")
    assert view(service)["learning"] == {
        "on": True,
        "active": False,
        "paused": "a look first",
        "waiting": 0,
        "backlog": 1000,
    }
