"""Runs of any model that satisfies `secl.model.Model`, killed and resumed; their versions; ratings of given answers."""

import json
import random
import signal
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from secl.data.benchmarks import quiz
from secl.data.question_files import QuestionFile
from secl.errors import DataError, ParameterError, QuestionError, RunError
from secl.gates import Always, Gate
from secl.learning import Calibrator, LoopSettings
from secl.methods import METHODS
from secl.model import version_of
from secl.question import LETTERS, Question
from secl.records import Decision
from secl.runs import Store, loading
from secl.runs.folder import FILE
from secl.runs.loading import build_calibrator, load_for_asking
from secl.runs.manifest import Manifest
from secl.runs.runner import ADAPTER, SUMMARY, TOO_WEAK, Run, resume_run, scores_of, start_run, summary_of
from secl.runs.settings import Recipe, RunSettings, score_settings, used_by_score
from secl.runs.store import KEEP_EVERY
from secl.server.verify import examine
from secl.settings import names
from secl.settings.groups import GateSettings
from secl.testing import ScriptedModel, toy_stream
from tests.answers import give_labels, stored
from tests.processes import MOMENTS, finish, start
from tests.runs.conftest import setting, stop_after
from tests.tiny import tiny_folder

OUTSIDE = "model.name=scripted stream.benchmarks=capitals:9 method=secl gate.burst=4 gate.warmup=3 loop.bin_gate=off"
SETTINGS = RunSettings.of(setting(f"{OUTSIDE} evidence.tau=0.7"))


def load(_settings: object) -> ScriptedModel:
    return ScriptedModel()


def stopped(settings: RunSettings, folder: Path, count: int = 3, **how: Any) -> None:
    """Begin a run, and stop it after some questions."""
    run = start_run(settings, folder, load, **how)
    with run.store, pytest.raises(KeyboardInterrupt):
        run.proceed(stop_after(count))


def test_a_model_from_outside_runs_is_stopped_and_resumed_and_not_with_another_model_or_library(tmp_path: Path) -> None:
    whole = start_run(SETTINGS, tmp_path / "whole", load)
    with whole.store:
        whole.proceed()
        summary = whole.finish()
    assert (whole.manifest.settings, whole.manifest.tau, whole.manifest.settings.learns) == (SETTINGS, 0.7, True)
    stopped(SETTINGS, tmp_path / "run")
    with pytest.raises(RunError, match=r"the model 'scripted' has changed since .*fingerprint scripted/0\.8 then"):
        resume_run(tmp_path / "run", load=lambda _settings: ScriptedModel(stated=0.6))
    with pytest.raises(RunError, match=r"begun with other settings \(evidence.tau: 0\.7 there, 1\.0 here\)"):
        resume_run(tmp_path / "run", {"evidence.tau": 1.0}, load)
    resumed = resume_run(tmp_path / "run", load=load)
    assert len(resumed.records) == 3
    with resumed.store:
        resumed.proceed()
        resumed.finish()
        assert resumed.records == whole.records
    assert summary["complete"]
    assert json.loads((tmp_path / "run" / SUMMARY).read_text())["estimators"] == summary["estimators"]
    assert (tmp_path / "whole" / ADAPTER).exists() == bool(ScriptedModel().config)
    with Store(tmp_path / "run", writable=True) as store, store.db:
        store.db.execute("UPDATE manifest SET value = '{\"secl\": \"0.0.1\"}' WHERE key = 'environment'")
    with pytest.raises(RunError, match=r"begun with another version of secl \(secl: 0\.0\.1 there, .* here"):
        resume_run(tmp_path / "run", load=load)


def test_a_run_is_not_resumed_with_other_questions(tmp_path: Path) -> None:
    path, content = tmp_path / "mine.jsonl", "".join(f'{{"question": "Name word {n}."}}\n' for n in range(9))
    path.write_text(content)
    settings = {"model.name": "scripted", "stream.questions": str(path), "method": "stated"}
    stopped(RunSettings.of(settings), tmp_path / "run")
    for changed, said in (
        (content.replace("word 8", "thing 8"), r"the questions of .*run have changed \(9 then, 9 now; the"),
        (content.partition("\n")[2], r"\(9 then, 8 now; first difference at position 0: "),
        (content.replace("word 0", "thing 0"), "position 0: the question 'mine-0001' has changed"),
    ):
        path.write_text(changed)
        with pytest.raises(RunError, match=said):
            resume_run(tmp_path / "run", load=load)
    path.unlink()
    with pytest.raises(DataError, match=r"mine\.jsonl does not exist"):
        resume_run(tmp_path / "run", load=load)


@pytest.mark.parametrize(("chosen", "loaded"), [("auto", "bf16"), ("fp32", "fp32")])
def test_a_run_goes_on_as_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: str, loaded: str) -> None:
    same = {name: value for name, value in SETTINGS.dotted().items() if not name.startswith("gate.")}
    settings = RunSettings.of({**same, "gate.name": "always", "model.dtype": chosen, "evidence.formula": "exp"})
    stopped(settings, tmp_path / "run")
    with Store(tmp_path / "run", writable=True) as store, store.db:
        environment = json.dumps({**store.manifest["environment"], "dtype": "bfloat16"})
        store.db.execute("UPDATE manifest SET value = ? WHERE key = 'environment'", (environment,))
    seen: list[str] = []

    def noted(to_load: Recipe) -> ScriptedModel:
        seen.append(to_load.model.dtype)
        return ScriptedModel()

    resumed = resume_run(tmp_path / "run", load=noted)
    with resumed.store:
        assert (seen, resumed.manifest.settings) == ([loaded], settings)
    monkeypatch.setattr(loading, "load_model", noted)
    for asked, wanted in (({}, loaded), ({"model.dtype": "fp32"}, "fp32")):
        calibrator, recipe = load_for_asking(asked, tmp_path / "run")
        assert (seen[-1], version_of(calibrator.model)) == (wanted, 3)
        assert (recipe.evidence.tau, recipe.evidence.formula) == (0.7, "exp")


@pytest.mark.parametrize("name", METHODS)
def test_a_domain_has_intervals_for_what_the_page_shows_of_it_and_for_little_else(name: str) -> None:
    settings = RunSettings.of({"stream.benchmarks": ["capitals"], "method": name})
    records = list(build_calibrator(settings, ScriptedModel()).run(toy_stream(40)))
    summary = summary_of(Manifest(settings=settings), records)
    shown = {"stated", METHODS[name].foremost(summary.estimators)}
    assert len(summary.domains) == 2
    for part in summary.domains.values():
        with_intervals = {name for name, row in part.estimators.items() if row.intervals is not None}
        assert shown & set(part.estimators) <= with_intervals
        assert len(with_intervals) <= 3
    assert all(row.intervals is not None for row in summary.estimators.values())


@dataclass(frozen=True)
class Touching(Gate):
    """Bursts of three questions that touch each other."""

    def start(self) -> int:
        return 0

    def step(self, state: int, entropy: float) -> tuple[int, Decision]:  # noqa: ARG002
        return state + 1, Decision(alarm=state % 3 == 0, in_burst=True, remaining=2 - state % 3, statistic=None)


def kept(folder: Path, gate: Any, stops: tuple[int, ...]) -> list[tuple[int, int, bytes]]:
    """Return the kept versions of a run that is stopped and reopened after these numbers of questions."""
    questions = toy_stream(stops[-1])
    with Store.create(folder, {}) as store:
        for stop in stops:
            model = ScriptedModel(entropy=lambda question: 1.0 + int(question.id[-4:]) ** 2)
            if (snapshot := store.snapshot()) is not None:
                model.restore(snapshot)
            calibrator = Calibrator(model, method="secl", gate=gate, loop=LoopSettings(bin_gate=None))
            run = Run(store, calibrator, QuestionFile(tuple(questions[:stop])), list(store.records()))
            run.proceed()
        assert all(record.update for record in run.records if record.decision.in_burst)
        return list(store.db.execute("SELECT version, position, weights FROM versions ORDER BY version"))


def test_bursts_that_touch_keep_the_version_on_their_border_also_after_a_resume(tmp_path: Path) -> None:
    versions = kept(tmp_path / "whole", Touching(), (10,))
    assert [(number, position) for number, position, _ in versions] == [(3, 2), (6, 5), (9, 8)]
    assert kept(tmp_path / "resumed", Touching(), (2, 4, 10)) == versions
    model = ScriptedModel()
    list(Calibrator(model, method="secl", gate=Touching(), loop=LoopSettings(bin_gate=None)).run(toy_stream(3)))
    assert len({weights for *_, weights in versions}) == 3
    assert versions[0][2] == model.weights()
    endless = kept(tmp_path / "endless", Always(), (KEEP_EVERY + 5,))  # one burst keeps one every so many updates
    assert [number for number, *_ in endless] == [KEEP_EVERY]


def test_the_embedded_model_is_called_too_weak_to_classify(tmp_path: Path) -> None:
    path = tmp_path / "tickets.csv"
    path.write_text("question\nLogin fails.\nDark mode?\n")
    for name, notes in (("smollm2", (TOO_WEAK,)), ("another", ())):
        settings = {"stream.questions": str(path), "stream.options": ("bug", "feature"), "model.name": name}
        run = start_run(RunSettings.of(settings), tmp_path / name, lambda _: ScriptedModel())
        run.store.close()
        assert run.notes == notes


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """A file of forty questions with the letters A, B, C, D, A, ... for answers."""
    rows = [
        {"question": q.text, "options": q.options, "reference": q.reference, "id": q.id, "answer": LETTERS[i % 4]}
        for i, q in enumerate(toy_stream(40))
    ]
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_a_run_of_ratings_is_an_ordinary_run_folder_and_a_stopped_one_goes_on(pairs: Path, tmp_path: Path) -> None:
    settings = score_settings(pairs, {})
    whole = start_run(settings, tmp_path / "run", load, mode="score")
    with whole.store:
        whole.proceed()
        whole.finish()
    records, manifest = stored(tmp_path / "run"), whole.manifest
    assert (manifest.mode, manifest.total, manifest.settings.method) == ("score", 40, "posterior")
    assert [record.reply.answer for record in records] == [LETTERS[i % 4] for i in range(40)]
    assert [record.correct for record in records] == [i % 4 == 0 for i in range(40)]
    assert all(record.kind == "given" for record in records)
    assert {"p_true", "posterior", "stated"} <= set(scores_of(manifest))
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["questions"] == 40
    assert summary["estimators"]["posterior"]["auroc"] is not None
    stopped(settings, tmp_path / "part", 23, mode="score")
    run = resume_run(tmp_path / "part", load=load)
    with run.store:
        run.proceed()
    assert run.records == records


USELESS = setting(
    "loop.answer=best model.answer_weights=adapted loop.evidence_on=burst loop.alpha=0.1 loop.delta=0.1 "
    "loop.bin_gate=off loop.loss=mse loop.accumulate=question evidence.signal=p_true "
    "extract.schema_file=invoice.json extract.text=body extract.instruction=Short. "
    "adapter.rank=2 adapter.layers=last:1 adapter.modules=q_proj adapter.learning_rate=0.1 adapter.beta=0.1 "
    "adapter.epochs=2 adapter.lora_alpha=8 loop.samples=5 stream.data=elsewhere prompts.thinking=auto"
)
"""Settings that `RunSettings` takes with the method posterior, and a value that is not the default."""


def test_a_setting_without_an_effect_on_ratings_is_refused(pairs: Path, tmp_path: Path) -> None:
    refused: list[tuple[dict[str, object], str]] = [
        *(({name: value}, f"secl score .* leave {name} out") for name, value in USELESS.items()),
        ({"method": "baselines"}, "leave the method 'baselines' out"),
        ({"method": "secl"}, "leave the method 'secl' out"),
        ({"stream": {"questions": "other.csv"}}, "leave stream.questions out"),
    ]
    for values, said in refused:
        with pytest.raises(ParameterError, match=said):
            start_run(score_settings(pairs, values), tmp_path / "run", load, mode="score")
    assert not (tmp_path / "run").exists()
    by_gate = {f"gate.{key}" for key in GateSettings.model_fields}  # which no run of the method posterior takes
    assert {name for name in names.SETTINGS if not used_by_score(name)} == {*USELESS} | by_gate


def test_an_answer_that_the_model_cannot_read_is_refused_at_the_start(pairs: Path, tmp_path: Path) -> None:
    class Strict(ScriptedModel):
        def check(self, question: Question, given: str | None = None) -> None:
            if given == "D":
                raise QuestionError(f"question {question.id!r} takes 9 tokens.")

    with pytest.raises(QuestionError, match="takes 9 tokens"):
        start_run(score_settings(pairs, {}), tmp_path / "run", lambda _: Strict(), mode="score")
    assert not (tmp_path / "run").exists()
    settings = score_settings(pairs, {"stream.skip_bad": True})
    run = start_run(settings, tmp_path / "run", lambda _: Strict(), mode="score")
    run.store.close()
    assert len(run.questions) == 30
    again = resume_run(tmp_path / "run", load=lambda _: Strict())
    again.store.close()
    assert again.asked.given == run.asked.given


QUESTIONS = 28
PAIRS = ("method=secl", "gate.burst=6", "gate.warmup=4", "gate.threshold=1", "loop.bin_gate=off")
BURSTS = [f"--{pair}" for pair in PAIRS]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six layers with one adapted: a token through the top layer alone counts 1/6, which no float holds exactly."""
    return tiny_folder(tmp_path_factory.mktemp("models") / "tiny", num_hidden_layers=6)


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A question file of two domains with a few open questions among them."""
    path = tmp_path_factory.mktemp("questions") / "mine.jsonl"
    asked: list[dict[str, Any]] = []
    for domain in ("capitals", "science"):
        for question in quiz(domain, QUESTIONS // 2 - 1, 5):
            asked.append({"question": question.text, "options": question.options, "domain": domain})
        asked.append({"question": f"Name a word of {domain}.", "reference": "word", "domain": domain})
    path.write_text("\n".join(map(json.dumps, asked)))
    return path


class Case:
    """One recipe, run without interruption once."""

    def __init__(self, folder: Path, *settings: object) -> None:
        self.settings, self.folder = settings, folder
        self.log, self.whole = folder / "log", folder / "whole"

    def start_in(self, run: Path, **how: Any) -> Any:
        return start(self.log, "run", "--out", run, *self.settings, **how)

    def resume(self, run: Path, *changes: object, **how: Any) -> Any:
        return start(self.log, "run", "--resume", run, *changes, **how)

    def said(self) -> str:
        return self.log.read_text().strip().splitlines()[-1]


COMPARED = ("--evidence.extra_evidence=candidates", "--loop.evidence_on=always")
KINDS: dict[str, tuple[object, ...]] = {
    "stream": (),
    "calibration": (),
    "posterior": COMPARED,
    "thoughts": (*COMPARED, "--thinking", "3"),
}


@pytest.fixture(scope="module", params=KINDS)
def case(request: pytest.FixtureRequest, model: Path, mine: Path, tmp_path_factory: pytest.TempPathFactory) -> Case:
    open_too = request.param in ("posterior", "thoughts")
    source = ("--questions", mine) if open_too else ("--benchmarks", "capitals:14,science:14")
    folder, kind = tmp_path_factory.mktemp(request.param), KINDS[request.param]
    if request.param == "calibration":
        taught = Case(folder, "--model", model, "--benchmarks", "science:9", *BURSTS)
        assert finish(taught.start_in(folder / "taught")) == 0, taught.said()
        give_labels(folder / "taught", lambda position: position % 3 == 0)
        kind = ("--calibration", folder / "taught")
    made = Case(folder, "--model", model, *source, *BURSTS, *kind)
    assert finish(made.start_in(made.whole)) == 0, made.said()
    return made


def rows(run: Path) -> dict[str, list[Any]]:
    """Return all records of a run, without times."""
    db = sqlite3.connect(run / FILE)
    found = {
        table: db.execute(f"SELECT {columns} FROM {table} ORDER BY 1").fetchall()
        for table, columns in (("records", "position, body"), ("versions", "*"), ("learner", "*"))
    }
    said = "number, position, correct, confidence, domain, reported, source, chance"
    found["labels"] = db.execute(f"SELECT {said} FROM labels ORDER BY 1").fetchall()
    db.close()
    return found


def assert_same(run: Path, whole: Path) -> None:
    found, wanted_rows = rows(run), rows(whole)
    for table in found:
        assert found[table] == wanted_rows[table], table
    adapters = [{path.name: path.read_bytes() for path in (folder / "adapter").glob("*")} for folder in (run, whole)]
    assert adapters[0] == adapters[1]
    summaries = [json.loads((folder / SUMMARY).read_text()) for folder in (run, whole)]
    assert all(summary["complete"] for summary in summaries)
    assert {**summaries[0], "seconds": None} == {**summaries[1], "seconds": None}


@pytest.mark.heavy
@pytest.mark.slow
def test_a_run_that_dies_at_every_kind_of_moment_and_is_resumed_is_the_same_run(case: Case) -> None:
    run = case.folder / "dying"
    chance = random.Random(7)
    for moment in MOMENTS:
        go_on = case.resume if (run / FILE).exists() else case.start_in
        assert finish(go_on(run, die=(moment, chance.randrange(1, 6)))) == -signal.SIGKILL, case.said()
    assert finish(case.resume(run)) == 0, case.said()
    assert_same(run, case.whole)
    with Store(run) as store:
        found = examine(store)
    assert (found.findings, found.examined, {*found.largest.values()}) == ([], len(rows(run)["records"]), {0.0})


@pytest.mark.heavy
def test_ctrl_c_ends_in_one_sentence_and_the_run_goes_on_elsewhere(model: Path, mine: Path, tmp_path: Path) -> None:
    case, run = Case(tmp_path, "--model", model, "--questions", mine, *BURSTS), tmp_path / "begun"
    assert finish(case.start_in(run, die=("learned", 3), of=signal.SIGINT)) == 2
    sentence = f"secl: stopped after 3 of {QUESTIONS} questions; all are recorded; "
    assert case.said() == f"{sentence}continue with: secl run --resume {run}"
    with closing(sqlite3.connect(run / FILE)) as db, db:
        assert db.execute("SELECT COUNT(*) FROM records").fetchone() == (3,)
        other = "UPDATE manifest SET value = json_set(value, '$.processor', 'another') WHERE key = 'environment'"
        db.execute(other)
    assert finish(case.resume(run, *case.settings, "--device", "cpu")) == 0, case.said()
    said = case.log.read_text()
    assert said.count("was begun in another environment (processor: another there, ") == 1
    assert "the last digits of later records may differ" in said
    assert "Traceback" not in said
    before = rows(run)
    (run / SUMMARY).unlink()
    assert finish(case.resume(run)) == 0, case.said()  # a finished run is only reported
    assert rows(run) == before
    assert json.loads((run / SUMMARY).read_text())["complete"]
    assert case.said().startswith("next: ")
    assert str(run) in case.said()
    records = stored(run)
    assert [record.position for record in records] == list(range(QUESTIONS))
    assert "trained" in {record.outcome for record in records}
