"""A server whose confidence is the posterior: what it reports, what it stores, and that it goes on exactly."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from secl.posterior.rule import PosteriorRule
from secl.posterior.views import Views
from secl.records import CandidateEvidence, Posterior, Question, Reply
from secl.runs.folder import FILE
from secl.runs.runner import build_calibrator
from secl.server.audit.integrity import examine
from secl.server.audit.posteriors import posterior_counts
from secl.server.audit.redaction import KEEPS, Keep
from secl.server.audit.store import ServerStore
from secl.server.online.factory import open_state, serving_settings
from secl.server.online.limits import Limits
from secl.server.online.service import Service
from secl.settings import PosteriorSettings
from secl.testing import ScriptedModel, toy_stream
from tests.server.conftest import manifest

SMALL: dict[str, Any] = {"method": "posterior", "window": 12, "refit": 7}
"""A window that forgets soon."""

MakePosterior = Callable[..., Service]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakePosterior]:
    """Builds and starts services from settings; all of them are stopped in the end."""
    services: list[Service] = []

    def make(name: str = "state", *, keep: Keep = "full", model: Any = None, batch: int = 16, **settings: Any) -> Service:
        recipe, model = serving_settings(**(settings or SMALL)), model or ScriptedModel()
        state = open_state(tmp_path / name, manifest(recipe, model, keep))
        twin = build_calibrator(recipe, ScriptedModel())
        service = Service(build_calibrator(recipe, model), twin, state, Limits(batch=batch))
        services.append(service)
        service.start()
        return service

    yield make
    for service in services:
        service.stop()
        service.state.close()


def close(service: Service) -> Path:
    service.stop()
    service.state.close()
    return service.state.folder


def mixed_stream(count: int) -> list[Question]:
    """Questions of two kinds, whose views are weighed apart: every third one is open."""
    return [
        replace(question, options=(), form="short") if number % 3 == 2 else question
        for number, question in enumerate(toy_stream(count))
    ]


class Mixed(ScriptedModel):
    """Gives no letters for open questions."""

    def compare_candidates(self, question: Question, reply: Reply) -> CandidateEvidence | None:
        evidence = super().compare_candidates(question, reply)
        return evidence if question.options or evidence is None else replace(evidence, letters=())


def posteriors(service: Service) -> list[Posterior | None]:
    return [served.record.posterior for served in service.state.latest(10**6)]


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("stop", [3, 11, 40])
def test_a_server_that_comes_back_gives_the_posteriors_of_one_that_never_stopped(
    make: MakePosterior, keep: Keep, stop: int
) -> None:
    questions = mixed_stream(50)
    whole = make("whole", model=Mixed())
    answers = [whole.ask(question, 20).record.posterior for question in questions]
    first = make("broken", keep=keep, model=Mixed())
    for question in questions[:stop]:
        first.ask(question, 20)
    close(first)
    second = make("broken", keep=keep, model=Mixed())
    assert second.calibrator.state.posterior.groups.keys() == {("letters", "likelihood", 2), ("likelihood", 0)}
    again = [second.ask(question, 20).record.posterior for question in questions[stop:]]
    assert again == answers[stop:]
    assert any(each is not None and each.questions == 12 for each in again)
    assert examine(second.state) == (50, [])


def test_a_state_is_resumed_from_no_more_than_it_depends_on() -> None:
    def views(number: int) -> Views:
        values = tuple((7 * number + 3 * k) % 11 / 5 - 1 for k in range(3))
        names = ("likelihood",) if number % 5 else ("pmi",)
        return Views(("a", "b", "c"), 0, names, (values,))  # type: ignore[arg-type]

    for settings in ({"window": 6, "refit": 4}, {"window": 3, "refit": 20}, {"window": 400, "refit": 1}, {}):
        rule = PosteriorRule(PosteriorSettings(**settings))
        state, seen, counts = rule.start(), dict[Any, list[Views]](), dict[Any, int]()
        for number in range(60):
            each = views(number)
            state, _ = rule.step(state, each)
            counts[each.key] = counts.get(each.key, 0) + 1
            seen[each.key] = [*seen.get(each.key, []), each][-rule.memory :]
            assert rule.resume(counts, [one for group in seen.values() for one in group]) == state


@pytest.mark.parametrize("keep", ["hash", "none"])
def test_candidates_are_stored_without_their_texts_but_equal_ones_stay_equal(make: MakePosterior, keep: Keep) -> None:
    service = make(keep=keep)
    twice = Question("Which zebra?", options=("stripes", "dots", "stripes"))
    answer = service.ask(twice, 20).record
    stored = service.state.served(0).record
    text = json.dumps(list(service.state._read("SELECT body FROM records")))
    assert not any(word in text for word in ("stripes", "dots", "zebra"))
    assert stored.posterior is not None
    assert answer.posterior is not None
    one, other, same = stored.posterior.candidates
    assert one == same != other
    assert stored.posterior.probabilities == answer.posterior.probabilities
    assert stored.evidence.candidates is not None
    assert stored.evidence.candidates.candidates == stored.posterior.candidates
    assert examine(service.state) == (1, [])


def spoil(folder: Path, statement: str) -> None:
    with sqlite3.connect(folder / FILE) as db:
        db.execute(statement)
    db.close()


SPOILS = {
    "UPDATE records SET body = replace(body, '\"informed\": true', '\"informed\": false') WHERE position = 9": "posterior",
    "UPDATE records SET body = json_set(body, '$.posterior', NULL) WHERE position = 9": "posterior",
    "UPDATE records SET body = json_set(body, '$.posterior.probabilities[0]', 0.5) WHERE position = 9": "posterior",
    "UPDATE records SET body = json_set(body, '$.evidence.candidates.likelihoods[0].given', -3.5) WHERE position = 9": (
        "posterior"
    ),
    "UPDATE posteriors SET confidence = 0.5 WHERE position = 9": "integrity",
    "UPDATE posteriors SET views = 'other' WHERE position = 9": "integrity",
    "DELETE FROM posteriors WHERE position = 9": "integrity",
    "INSERT INTO posteriors VALUES (99, 'other', 0.5, 1, 0)": "integrity",
}


@pytest.mark.parametrize("statement", SPOILS)
def test_whatever_is_changed_in_evidence_or_posterior_is_found(make: MakePosterior, statement: str) -> None:
    service = make()
    for question in toy_stream(20):
        service.ask(question, 20)
    folder = close(service)
    with ServerStore(folder) as state:
        assert examine(state) == (20, [])
    spoil(folder, statement)
    with ServerStore(folder) as state:
        findings = examine(state)[1]
        assert findings
        assert SPOILS[statement] in {finding.check for finding in findings}
        assert findings[0].position in (9, 99)


def test_a_folder_of_an_earlier_version_is_read_and_served(make: MakePosterior) -> None:
    settings = {"gate": "never"}
    service = make(**settings)
    service.ask(toy_stream(1)[0], 20)
    service.state.add_feedback(0, True)
    folder = close(service)
    spoil(folder, "DROP TABLE posteriors")
    with ServerStore(folder) as state:
        assert examine(state) == (1, [])
        assert posterior_counts(state).answers == 0
        assert len(state.labelled()) == 1
    assert make(**settings).ask(toy_stream(1)[0], 20).record.position == 1
