"""A confidence that a user sees compares with a threshold that a user sees, at every exit, whatever labels moved."""

import contextlib
import csv
import io
import json
import math
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from secl import CalibratedModel, Record
from secl.cli.label import threshold as threshold_command
from secl.cli.report import export
from secl.data.tables import open_table
from secl.errors import RunError
from secl.evaluation.acceptance import Advice
from secl.evidence import Posterior
from secl.labels.label import Label
from secl.labels.state import FLATTEST, LabelState, log_odds
from secl.learning import Calibrator
from secl.reports.folder import render
from secl.reports.run_report import RunReport
from secl.reports.sections import Section
from secl.runs import RunSettings, Store
from secl.runs.labelling import advice_of, calibration_of, current_records
from secl.runs.runner import resume_run, start_run
from secl.server.http.replies import secl_of
from secl.server.online.queue import ServedAnswer
from secl.server.online.service import Service, open_service, serving_settings
from secl.testing import ScriptedModel, toy_stream
from tests.answers import answered, run_folder
from tests.server.conftest import http_of, scripted_services

(BASE,) = answered([0.5], [None])

CLOSE = [0.0, 5e-324, 1e-15, 1e-12, 0.5, math.nextafter(0.5, 1), 0.5 + 1e-13, 0.5 + 1e-12, 1 - 1e-12, 1 - 1e-15, 1.0]
CONFIDENCES = st.one_of(st.sampled_from(CLOSE), st.sampled_from([0.1, 0.3, 0.6, 0.9]), st.floats(0, 1))
DOMAINS = st.sampled_from(["", "a", "b"])


@dataclass(frozen=True)
class World:
    """Answers (label-free confidence, or None if unreadable; domain), labels by position, and labels of another run."""

    answers: tuple[tuple[float | None, str], ...]
    labels: Mapping[int, bool]
    chance: float | None
    carried: tuple[tuple[float, str, bool], ...]
    risk: float
    certainty: float


@st.composite
def worlds(draw: st.DrawFn) -> World:
    answers = draw(
        st.lists(st.tuples(st.one_of(CONFIDENCES, CONFIDENCES, st.none()), DOMAINS), min_size=2, max_size=24)
    )
    positions = st.integers(0, len(answers) - 1)
    return World(
        answers=tuple(answers),
        labels=draw(st.dictionaries(positions, st.sampled_from([True, True, False]), max_size=20)),
        chance=draw(st.sampled_from([1.0, 1.0, None])),
        carried=tuple(draw(st.lists(st.tuples(CONFIDENCES, DOMAINS, st.booleans()), max_size=12))),
        risk=draw(st.sampled_from([0.2, 0.5, 0.8])),
        certainty=draw(st.sampled_from([0.5, 0.9])),
    )


def record_of(position: int, confidence: float | None, domain: str) -> Record:
    """A record with any label-free confidence; None makes the answer unreadable."""
    question = replace(BASE.question, text=f"Question {position}?", id=f"q{position}", domain=domain)
    chance = 0.5 if confidence is None else confidence
    weighed = Posterior(
        candidates=("yes", "no"), probabilities=(chance, 1 - chance), own=0, weights=(), reliability=None, questions=0
    )
    reply = replace(BASE.reply, answer=None if confidence is None else "A")
    return replace(BASE, position=position, question=question, posterior=weighed, reply=reply)


def label_at(number: int, position: int, confidence: float, domain: str, correct: bool, chance: float | None) -> Label:
    return Label(
        number=number,
        position=position,
        correct=correct,
        confidence=confidence,
        domain=domain,
        reported=confidence or 0.5,
        time=float(number),
        source="review" if chance is not None else "feedback",
        chance=chance,
    )


def made(folder: Path, world: World) -> Path:
    """A run of these answers and labels, calibrated by the labels of another run."""
    carried = [label_at(n, n, *each, 1.0) for n, each in enumerate(world.carried, start=1)]
    start = LabelState.start(carried)
    records = [start.apply(record_of(n, *each)) for n, each in enumerate(world.answers)]
    run_folder(folder, records, calibration=[asdict(label) for label in carried])
    with Store(folder, writable=True) as store:
        for position, correct in world.labels.items():
            store.add_feedback(position, correct, world.chance, drawn=world.chance is not None)
    return folder


def printed(command: Callable[[], object]) -> str:
    """What a command prints to standard output."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        command()
    return out.getvalue()


def filtered(rows: Iterator[tuple[int, str, float | None]], values: Mapping[str, Any]) -> set[int]:
    """Positions of the rows (position, domain, confidence) that a user keeps who filters at the printed values."""
    return {n for n, domain, c in rows if c is not None and c >= values["domains"].get(domain, values["value"])}


def number(text: str) -> float | None:
    return float(text) if text else None


def sets_of_user(run: Path, advice: Advice, world: World) -> Iterator[tuple[str, set[int]]]:
    """Yield the accepted positions by each exit: by the confidence that it shows, and by what it says is accepted."""
    command: Callable[[], object] = partial(
        threshold_command, run, risk=world.risk, certainty=world.certainty, as_json=True
    )
    values = json.loads(printed(command))["threshold"]
    assert (values["value"], values["domains"]) == (advice.value, advice.domains)
    chosen: tuple[dict[str, Any], ...] = (
        {"risk": world.risk, "certainty": world.certainty},
        {"accept": values["value"]},
    )
    for choice in chosen:
        command = partial(export, run, format="csv", out=Path("-"), **choice)
        rows = list(csv.DictReader(io.StringIO(printed(command))))
        confidences = ((n, row.get("domain", ""), number(row["confidence"])) for n, row in enumerate(rows))
        yield f"csv, filtered, {choice}", filtered(confidences, values)
        yield f"csv, {choice}", {n for n, row in enumerate(rows) if row["accepted"] == "True"}
        own = ((n, number(row["confidence"]), float(row["accept"])) for n, row in enumerate(rows))
        yield f"csv, own threshold, {choice}", {n for n, c, accept in own if c is not None and c >= accept}
    book = run.with_suffix(".xlsx")
    printed(lambda: export(run, out=book, **chosen[0]))
    cells: list[dict[str, Any]] = [dict(row.values) for row in open_table(book)]  # type: ignore[arg-type]
    yield (
        "workbook, filtered",
        filtered(((n, row.get("domain") or "", row["confidence"]) for n, row in enumerate(cells)), values),
    )
    yield "workbook", {n for n, row in enumerate(cells) if row["accepted"]}
    lines = [*map(json.loads, printed(lambda: export(run, out=Path("-"), **chosen[1])).splitlines())]
    yield (
        "json lines, filtered",
        filtered(((row["position"], row["question"]["domain"], row["confidence"]) for row in lines), values),
    )
    yield "json lines", {row["position"] for row in lines if row["accepted"]}
    with Store(run) as store:
        plain, log, start = list(store.records()), store.label_log(), calibration_of(store, ())
        page = render(report := RunReport.of(store), [Section("Every question", answers=report.records)], {})
    lines = re.findall(r"<tr><td class=\"p\".*?</tr>", page, re.DOTALL)
    sorted_by = [re.findall(r'<td class="c" data-sort="([^"]*)"', line) for line in lines]
    domains = [re.findall(r'<td class="d"[^>]*>([^<]*)</td>', line) for line in lines]  # of one domain, no column
    numbered = enumerate(zip(sorted_by, domains, strict=True))
    shown = ((n, (domain or [plain[n].question.domain])[0], float(c)) for n, ((c,), domain) in numbered)
    yield "page, filtered", filtered((each for each in shown if plain[each[0]].answer is not None), values)
    for accept in (advice, advice.value):
        model = CalibratedModel(Calibrator(ScriptedModel(), calibration=start.carried))
        model.calibrator.take_labels(log)
        model.accept = accept
        for name, records in (("now", model.recalibrate(plain)), ("later", later(model, plain))):
            replies = [
                secl_of(ServedAnswer(record=record, record_id="", stored=True), full=False) for record in records
            ]
            for exit_, pairs in (
                ("record", [(each.confidence, each.accept, each.accepted) for each in records]),
                ("reply", [(each["confidence"], each["accept"], each["accepted"]) for each in replies]),
            ):
                where = f"{exit_} {name}, accept = {'advice' if accept is advice else 'value'}"
                rows_of_exit = list(enumerate(pairs))
                yield where, {n for n, (_, _, accepted) in rows_of_exit if accepted}
                yield (
                    f"{where}, compared",
                    {n for n, (c, a, _) in rows_of_exit if c is not None and a is not None and c >= a},
                )
            if name == "now":
                yield (
                    "records, filtered",
                    filtered(((r.position, r.question.domain, r.confidence) for r in records), values),
                )
            yield f"advice.accepts {name}", {r.position for r in records if advice.accepts(r)}


def later(model: CalibratedModel, records: list[Record]) -> list[Record]:
    """Records after more labels, which move the confidences but not what is accepted."""
    model.calibrator.take_labels(label_at(1000 + n, 1000 + n, 0.7, "ab"[n % 2], n % 3 > 0, 1.0) for n in range(9))
    return model.recalibrate(records)


OF_ONE_DOMAIN = World(tuple((n / 40, "a") for n in range(40)), {n: n > 25 for n in range(0, 40, 2)}, 1.0, (), 0.2, 0.9)
OF_SEVERAL = replace(
    OF_ONE_DOMAIN,
    answers=tuple((n / 40, "ab"[n % 3 == 0] if n % 7 else "") for n in range(40)),
    labels={n: n % 3 == 0 or n > 30 for n in range(0, 40, 2)},
    risk=0.5,
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(worlds())
@example(OF_ONE_DOMAIN)
@example(OF_SEVERAL)
@example(replace(OF_SEVERAL, labels={}, carried=tuple((n / 9, "ab"[n % 2], n % 2 == 0) for n in range(10))))
def test_the_promised_answers_are_the_accepted_answers_at_every_exit(world: World) -> None:
    with tempfile.TemporaryDirectory() as place:
        run = made(Path(place) / "run", world)
        with Store(run) as store:
            _, advice = advice_of(store, world.risk, world.certainty)
            records = list(current_records(store))
        promised = {record.position for record in records if advice.accepts(record)}
        if advice.threshold is None:
            with pytest.raises(RunError, match="no confidence keeps a risk of"):
                export(run, risk=world.risk, certainty=world.certainty, out=Path("-"))
            return
        readable = [record for record in records if record.answer is not None]
        lowest = min(record.confidences.uncalibrated for record in readable if record.position in promised)
        assert all(record.confidences.uncalibrated < lowest for record in readable if record.position not in promised)
        assert len(promised) == round(advice.threshold.coverage * len(records))
        for where, accepted in sets_of_user(run, advice, world):
            assert accepted == promised, where


@given(st.lists(st.tuples(CONFIDENCES, DOMAINS, st.booleans()), max_size=30), CONFIDENCES, CONFIDENCES, DOMAINS)
def test_every_map_of_labels_is_increasing_and_every_threshold_has_an_exact_value_on_it(
    labels: list[tuple[float, str, bool]], one: float, other: float, domain: str
) -> None:
    state = LabelState.start().add(label_at(n, n, *each, 1.0) for n, each in enumerate(labels, start=1))
    low, high = sorted((one, other))
    assert state.calibrated(domain, low) <= state.calibrated(domain, high)
    if high - low > 1e-9:
        assert state.calibrated(domain, low) < state.calibrated(domain, high)
    typed = state.uncalibrated(one)
    for threshold in (one, typed):
        rated = state.rate(domain, other, threshold)
        assert rated.accept is not None
        assert (rated.calibrated >= rated.accept) == (other >= threshold)
    reached = state.rate("of no label", other, typed)
    assert (reached.calibrated >= one) == (other >= typed)


def test_labels_against_the_ranking_flatten_a_map_but_never_turn_it() -> None:
    confidences = enumerate([0.9, 0.1] * 200, start=1)
    log = [label_at(n, n, confidence, "d", confidence < 0.5, 1.0) for n, confidence in confidences]
    state = LabelState.start().add(log)
    assert min(scaling.mean[0] for scaling in state.scalings) == pytest.approx(FLATTEST)
    rated = [state.calibrated("d", n / 100) for n in range(101)]
    assert rated == sorted(set(rated))
    assert rated[0] == pytest.approx(0.5, abs=0.1)
    assert [log_odds(each) for each in (0.0, 1.0)] == pytest.approx([-7.9078, 7.9078], abs=1e-4)


def test_a_run_and_a_server_with_the_calibration_of_a_run_accept_what_the_run_promises(tmp_path: Path) -> None:
    values = {"stream.benchmarks": ["capitals:12", "science:12"], "method": "posterior", "loop.answer": "best"}
    run = start_run(RunSettings.of(values), tmp_path / "run", lambda _settings: ScriptedModel())
    run.proceed()
    run.store.close()
    with Store(tmp_path / "run", writable=True) as store:
        for position in range(0, 24, 2):
            store.add_feedback(position, store.record(position).correct, drawn=True)
        _, advice = advice_of(store, 0.4)
        promised = {r.question.text: advice.accepts(r) for r in current_records(store)}
    assert set(promised.values()) == {True, False}
    assert len(set(advice.domains.values())) == 2
    given = {"model.calibration": str(tmp_path / "run"), "loop.accept": advice.value}
    following = start_run(RunSettings.of({**values, **given}), tmp_path / "next", lambda _settings: ScriptedModel())
    following.proceed()
    following.store.close()
    assert {record.question.text: record.accepted for record in following.records} == promised
    recipe = serving_settings({"method": "posterior", **given})
    service = open_service(tmp_path / "state", recipe, load=lambda _settings: ScriptedModel())
    service.start()
    with closing(service.state), http_of(service) as client:
        for record in following.records:
            question = record.question
            asked = {"question": question.text, "options": question.options, "domain": question.domain}
            reply = client.post("/v1/ask", json=asked).json()
            assert reply["accept"] == record.accept
            assert reply["accepted"] == (reply["confidence"] >= reply["accept"])
            assert reply["accepted"] == (reply["confidence"] >= advice.domains[question.domain])
        assert client.get("/v1/state").json()["accept"] == advice.value
        service.stop()


@pytest.mark.parametrize("typed", [{}, {"loop.accept": 0.6}], ids=["as before", "typed again"])
def test_a_resumed_run_keeps_its_threshold_unless_one_is_typed_after_new_labels(
    tmp_path: Path, typed: dict[str, object]
) -> None:
    chosen = RunSettings.of({"stream.benchmarks": ["capitals:20"], "method": "posterior", "loop.accept": 0.6})
    run = start_run(chosen, tmp_path / "run", lambda _settings: ScriptedModel())
    steps = run.steps()
    assert {next(steps).threshold for _ in range(10)} == {0.6}
    run.store.close()
    with Store(tmp_path / "run", writable=True) as store:
        for position in range(10):
            store.add_feedback(position, False, drawn=True)
        labels = calibration_of(store)
    resumed = resume_run(tmp_path / "run", typed, load=lambda _settings: ScriptedModel())
    later = list(resumed.steps())
    resumed.store.close()
    assert {record.threshold for record in later} == {labels.uncalibrated(0.6) if typed else 0.6}
    assert labels.uncalibrated(0.6) > 0.6
    for record in later:
        assert record.accept is not None
        assert record.accepted == (record.confidence >= record.accept)
        assert record.accept == (0.6 if typed else pytest.approx(labels.calibrated(record.question.domain, 0.6)))


def test_labels_of_a_server_move_its_confidences_and_thresholds_together_and_its_export_has_one_scale(
    tmp_path: Path,
) -> None:
    with scripted_services(tmp_path) as make:
        check_server(make(settings={"method": "posterior", "loop.accept": 0.4}))


def check_server(service: Service) -> None:
    questions = toy_stream(24)
    before = [service.ask(question, 60) for question in questions]
    for number, answer in enumerate(before):
        service.state.add_feedback(answer.record.position, number % 4 > 0, drawn=True)
    after = [service.ask(question, 60) for question in questions]
    for early, late in zip(before, after, strict=True):
        replies = [secl_of(each, full=False) for each in (early, late)]
        assert replies[0]["accepted"] == replies[1]["accepted"]
        assert replies[0]["confidence"] != replies[1]["confidence"]
        for reply in replies:
            assert reply["confidence"] is not None
            assert reply["accept"] is not None
            assert reply["accepted"] == (reply["confidence"] >= reply["accept"])
    world = World((), {}, None, (), 0.8, 0.9)
    folder = service.state.folder
    with Store(folder) as store:
        _, advice = advice_of(store, world.risk, world.certainty)
        promised = {record.position for record in current_records(store) if advice.accepts(record)}
    assert advice.threshold is not None
    for where, accepted in sets_of_user(folder, advice, world):
        assert accepted == promised, where
