"""Recipes, refused by name before anything is loaded; and sweeps: which runs they have, each done once, in lockstep."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from secl import Question, Record
from secl.backends.local.loading.loader import load
from secl.backends.local.model import LocalModel
from secl.backends.token_driver import TokenDriver
from secl.errors import ParameterError, RunError, StorageError
from secl.flow.model import SharedAnswers
from secl.flow.requests import FlowRun as FlowRun
from secl.gates import Always, EntropyShift, Never, PageHinkley
from secl.runs import RunSettings, Store, runner
from secl.runs.loading import read_stream
from secl.runs.runner import SUMMARY
from secl.runs.settings import read_toml, with_absolute_paths
from secl.runs.sweep import (
    Job,
    groups,
    is_finished,
    plan,
    progress_of,
    read_files,
    read_sweep,
    run_here,
    run_job,
    write_files,
)
from secl.scores import most_frequent, own_answer
from secl.settings.groups import ModelSettings
from secl.settings.names import dotted
from tests.answers import stored
from tests.runs.conftest import LEARNING, setting, stop_after

QUESTIONS = 12
STREAM = ["capitals:6", "science:6"]


def job_of(model: Path, out: Path) -> Job:
    """Return a job that learns."""
    return plan([RunSettings.of({"model.name": str(model), "stream.benchmarks": STREAM, **LEARNING})], out)[0]


def test_a_sweep_is_every_variant_at_every_point_of_its_grid(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(
        'stream = {benchmarks = ["mmlu", "arc"], per_domain = 20}\n'
        '[grid]\nseed = [42, 43]\nstream.order = ["forward", "reversed"]\n'
        '[[runs]]\nmethod = "baselines"\n'
        '[[runs]]\nmethod = "secl"\ngate = {name = "page-hinkley", burst = 9}\nstream.per_domain = 30\n'
    )
    common = {"stream.benchmarks": ["mmlu", "arc"], "stream.per_domain": 20}
    points = [{"seed": seed, "stream.order": order} for seed in (42, 43) for order in ("forward", "reversed")]
    assert read_sweep(path) == [
        RunSettings.of({**common, **point, **variant})
        for variant in (
            {"method": "baselines"},
            {"method": "secl", "gate.name": "page-hinkley", "gate.burst": 9, "stream.per_domain": 30},
        )
        for point in points
    ]


QUIZ = {"stream.benchmarks": ["capitals:12"], "paper": True}


def test_equal_settings_are_one_job_and_a_run_is_found_again_when_the_grid_grows(tmp_path: Path) -> None:
    def planned(*changes: dict[str, Any]) -> list[Job]:
        return plan([RunSettings.of({**QUIZ, **each}) for each in changes], tmp_path)

    jobs = planned({}, {"seed": 42}, {"adapter.rank": 8}, {"seed": 43}, {"seed": 42})
    assert [job.settings.seed for job in jobs] == [42, 43]
    assert [job.folder for job in jobs] == [tmp_path / job.name for job in jobs]
    first, second = planned(*({"evidence.tau": 0.4, "seed": seed} for seed in (1, 2)))
    Store.create(first.folder, {"settings": first.settings.to_json(), "total": 12}).close()
    jobs = planned(*({"evidence.tau": tau, "seed": seed} for tau in (0.4, 0.5) for seed in (1, 2)))
    assert (jobs[0].folder, progress_of(jobs[0])) == (first.folder, (0, 12))
    assert (jobs[1].folder, progress_of(jobs[1])) == (second.folder, None)


def test_a_folder_is_named_after_its_settings_and_a_job_tells_what_differs(tmp_path: Path) -> None:
    changes: tuple[dict[str, Any], ...] = (
        {},
        {"method": "baselines", "model.name": "x/Other 1B"},
        {"adapter.modules": ["q_proj"], "stream.data": "d"},
    )
    jobs = plan([RunSettings.of({**QUIZ, **each}) for each in changes], tmp_path)
    names = [re.fullmatch(r"(.*)-[0-9a-f]{8}", job.name)[1] for job in jobs]  # type: ignore[index]
    assert names == ["smollm2-posterior", "Other-1B-baselines", "smollm2-posterior"]
    assert len({job.name for job in jobs}) == 3
    assert jobs[2].apart == "model.name smollm2, method posterior, adapter.modules q_proj"


@pytest.fixture(scope="module")
def done(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A finished job."""
    job = job_of(tiny_llama, tmp_path_factory.mktemp("sweep"))
    run_job(job)
    return job


def test_a_finished_or_foreign_folder_is_not_touched(done: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "load_model", lambda recipe: pytest.fail("a model was loaded"))
    before = read_files(done.folder)
    run_job(done)
    assert read_files(done.folder) == before
    settings = RunSettings.of({"model.name": done.settings.model.name, "stream.benchmarks": ("capitals:2",), "seed": 7})
    other = Job(done.name, settings, done.folder)
    for call in (is_finished, run_job):
        with pytest.raises(RunError, match=r"holds a run with other settings \(.*seed: 42 there, 7 here"):
            call(other)
    assert read_files(done.folder) == before


def test_a_finished_run_from_elsewhere_replaces_an_unfinished_one(done: Job, tmp_path: Path, tiny_llama: Path) -> None:
    job, other = job_of(tiny_llama, tmp_path / "a"), job_of(tiny_llama, tmp_path / "b")
    assert (progress_of(job), is_finished(job)) == (None, False)
    with pytest.raises(KeyboardInterrupt):
        run_job(job, stop_after(3))
    assert (progress_of(job), is_finished(job)) == ((3, QUESTIONS), False)
    with pytest.raises(RunError, match="has come back unfinished"):
        write_files(other, read_files(job.folder))
    assert not other.folder.exists()
    write_files(job, read_files(done.folder))
    assert is_finished(job)
    assert read_files(job.folder) == read_files(done.folder)
    assert [path.name for path in (tmp_path / "a").iterdir()] == [job.name]
    assert progress_of(job) == (QUESTIONS, QUESTIONS)
    (job.folder / SUMMARY).write_text("{")  # a summary is made from the records, so it is made again
    assert not is_finished(job)
    run_job(job)
    assert is_finished(job)


def recipe(settings: Mapping[str, object] | None = None) -> RunSettings:
    return RunSettings.of({"stream.benchmarks": ("capitals",), "method": "secl", **(settings or {})})


def test_a_recipe_sets_what_it_names_and_survives_a_trip_through_json(tmp_path: Path) -> None:
    text = 'seed = 3\nloop.delta = 0.2\n[stream]\nbenchmarks = ["capitals:5", "science"]\n'
    (tmp_path / "recipe.toml").write_text(text, encoding="utf-8")
    expected = {"stream.benchmarks": ("capitals:5", "science"), "seed": 3, "loop.delta": 0.2}
    assert RunSettings.of(read_toml(tmp_path / "recipe.toml")) == RunSettings.of(expected)
    changes = {"evidence.tau": 0.7, "loop.bin_gate": "off", "adapter.modules": ["q_proj"], "gate.burst": 7}
    made = recipe({"stream.benchmarks": ["capitals:3", "science"], "adapter.beta": 0.1, **changes})
    assert made.loop.bin_gate is None
    assert RunSettings.of(json.loads(json.dumps(made.to_json()))) == made
    assert set(made.to_json()) == set(RunSettings.model_fields)


BOUNDS = (
    "evidence.tau=inf stream.per_domain=0 loop.alpha=0 loop.samples=0 adapter.rank=0 "
    "adapter.learning_rate=nan adapter.epochs=0 adapter.lora_alpha=0 adapter.beta=-0.1 evidence.distractors=10 "
    "paper=most evidence.extra_evidence=luck "
    "loop.answer=first gate.burst=many"
)
"""A value of each kind of setting that is out of its range."""

REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"method": "stated", "gate.burst": 5}, "the gate 'never' has no burst"),
    ({"method": "stated", "gate.name": "always"}, "method 'stated' has no use for a gate; leave the gate 'always'"),
    ({"gate.ema": 0.1}, "the gate 'entropy-shift' has no ema"),
    ({"gate.name": "page-hinkley", "gate.ema": 0}, "gate's ema must lie in \\(0, 1\\]"),
    ({"loop.delta": 2}, "loop.delta is 2; it must be a finite number above 0 and at most 1"),
    ({"loop.bin_gate": 10}, "loop.bin_gate is 10; it must be a whole number from 0 to 9, or off"),
    ({"posterior.views": []}, "posterior.views is .*; it must be a list of one or more of letters"),
    ({"posterior.views": ["letters", "luck"]}, "posterior.views is .*luck.*; it must be a list of one or more of"),
    ({"posterior.views": ["value"]}, "posterior.views is .*; it must be a list of one or more of letters"),
    ({"evidence.signal": "luck"}, "there is no signal 'luck'; the signals are p_true, norm_p_true, self_consistency"),
    ({"loop.answer": "best"}, "the method 'secl' compares no candidates, so there is no best answer"),
    ({"seed": -1}, "seed is -1; it must be a whole number of at least 0 and below 9223372036854775808"),
    ({"stream": ["capitals"]}, r"stream is \['capitals'\]; it must be a table of the settings"),
    ({"gate": {"nam": "always"}}, "there is no setting 'gate.nam'; the nearest is gate.name"),
    ({"gate": "always"}, "gate is 'always'; it must be a table of the settings gate.name, gate.burst"),
    ({"benchmarks": ["arc"]}, "there is no setting 'benchmarks'; the nearest is stream.benchmarks"),
    ({"prompts.top_p": 0.9}, "there is no setting 'prompts.top_p'; docs/reference/settings.md lists all settings"),
)


def test_a_setting_that_makes_no_sense_is_named_when_the_recipe_is_made() -> None:
    for settings, message in REFUSED:
        with pytest.raises(ParameterError, match=message):
            recipe(settings)
    for pair in BOUNDS.split():
        with pytest.raises(ParameterError, match=f"^{pair.partition('=')[0]} is .*; it must be "):
            setting(pair)


def test_a_setting_of_the_shell_is_checked_like_one_of_a_recipe_and_wins_over_it() -> None:
    made = recipe({"evidence.tau": 1.0, "gate.burst": 9})
    found = setting("evidence.tau=0.7 loop.bin_gate=off stream.skip_bad=true adapter.modules=q_proj,v_proj")
    assert found["stream.skip_bad"] is True
    assert found["adapter.modules"] == ("q_proj", "v_proj")
    settings = RunSettings.of({**made.dotted(), **found})
    assert (settings.evidence.tau, settings.loop.bin_gate, settings.gate.burst) == (0.7, None, 9)
    for columns in ({"question": "Frage", "domain": "Thema"}, ["question=Frage,domain=Thema"]):
        stream = RunSettings.of({"stream.questions": "q.csv", "stream.columns": columns}).stream
        assert stream.named_columns == {"question": "Frage", "domain": "Thema"}


def test_differences_name_the_settings_that_differ_on_both_sides() -> None:
    there = recipe({"evidence.tau": 0.7, "stream.data": "here"})
    here = recipe({"evidence.tau": 1.0, "stream.data": "there", "model.device": "cpu", "seed": 1})
    assert there.differences(here) == ["evidence.tau: 0.7 there, 1.0 here", "seed: 42 there, 1 here"]
    assert there.differences(recipe({"evidence.tau": 0.7})) == []


def test_the_gate_is_the_methods_unless_one_is_named_and_takes_the_recipes_parameters() -> None:
    assert recipe().build_gate() == EntropyShift()
    assert recipe({"method": "secl-paper"}).build_gate() == PageHinkley(restart="all")
    assert recipe({"method": "secl-paper", "paper": False}).build_gate() == PageHinkley()
    assert recipe({"method": "secl-paper", "gate.name": "always"}).build_gate() == Always()
    assert recipe({"method": "stated"}).build_gate() == Never()
    assert recipe({"gate.name": "always"}).build_gate() == Always()
    changed = recipe({"gate.burst": 7, "gate.warmup": 4, "gate.threshold": 2}).build_gate()
    assert changed == EntropyShift(burst=7, warmup=4, threshold=2)
    paper = recipe({"gate.name": "page-hinkley", "gate.ema": 0.1, "gate.epsilon": 0.2}).build_gate()
    assert paper == PageHinkley(ema=0.1, epsilon=0.2)


def test_the_papers_method_is_the_paper_to_the_letter_unless_something_else_is_said() -> None:
    ours, paper = recipe(), recipe({"method": "secl-paper"})
    named = [recipe({"paper": True}), recipe({"method": "secl-paper", "paper": False})]
    assert [each.paper for each in (ours, paper, *named)] == [False, True, True, False]
    assert [each.plan().paper for each in (ours, paper, *named)] == [False, True, True, False]
    assert RunSettings.of(paper.to_json()) == paper
    for name, answer in (("secl", own_answer), ("secl-paper", most_frequent)):
        assert recipe({"method": name, "evidence.signal": "self_consistency"}).plan().signal.answer is answer


def test_paths_are_made_absolute_and_names_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tiny", "smollm2"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    given = {"stream.questions": "sub/../mine.jsonl", "stream.data": "data", "model.name": "tiny", "evidence.tau": 0.7}
    files = {"stream.questions": "mine.jsonl", "stream.data": "data", "model.name": "tiny"}
    there = {"evidence.tau": 0.7, **{name: f"{tmp_path}/{file}" for name, file in files.items()}}
    assert with_absolute_paths(given) == with_absolute_paths(there) == dotted(there)
    for model in ("smollm2", "nobody/nothing", 3, None):  # a preset, a hub id, and what settings refuse
        named = {"model.name": model, "stream.data": None}
        assert with_absolute_paths(named) == dotted(named)


def test_questions_of_a_file_are_limited_by_domain_and_then_put_in_order(tmp_path: Path) -> None:
    lines = [{"question": f"{domain}{i}?", "domain": domain} for domain in "ab" for i in range(3)]
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    limited = {"stream.questions": str(path), "stream.per_domain": 2, "stream.order": "reversed"}
    asked = read_stream(RunSettings.of(limited)).questions
    assert [question.text for question in asked] == ["b0?", "b1?", "a0?", "a1?"]
    assert len(read_stream(RunSettings.of({"stream.questions": str(path)})).questions) == 6


VARIANTS: list[dict[str, Any]] = [
    {},
    {"loop.alpha": 0.9},  # its answers change between bursts, too, behind prompts that were read for another
    {"adapter.layers": "last:2"},  # its trunk is another
    {"gate.name": "always", "gate.warmup": None, "gate.threshold": None, "gate.burst": None, "loop.alpha": 0.9},
    {"paper": True},
]


def jobs_of(model: Path, out: Path, variants: Sequence[dict[str, Any]] = VARIANTS) -> list[Job]:
    """Return jobs over more than a window of questions, with and without options."""
    questions, choice = out.parent / "questions.jsonl", {"options": ["a number", "a name", "a letter"]}
    rows = [
        {"question": f"What is {n} called?", "reference": "a number", **({} if n in (1, 3, 16) else choice)}
        for n in range(17)
    ]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    common = {"model.name": str(model), "stream.questions": str(questions), **LEARNING}
    weights = {"model.answer_weights": "adapted", "adapter.layers": "last:1"}
    return plan([RunSettings.of({**common, **weights, **each}) for each in variants], out)


@pytest.fixture(scope="module")
def alone(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> list[list[Record]]:
    """The records of each run, done by itself."""
    jobs = jobs_of(tiny_llama, tmp_path_factory.mktemp("alone"))
    for job in jobs:
        run_job(job)
    records = [stored(job.folder) for job in jobs]
    assert all(any(record.update for record in own) for own in records)
    texts = [record for own in records for record in own if not record.question.options]
    assert any(record.reply.text != record.frozen.text for record in texts)  # written anew, behind a shared prompt
    return records


def test_lockstep_gives_the_records_of_each_alone(alone: list[list[Record]], tiny_llama: Path, tmp_path: Path) -> None:
    jobs = jobs_of(tiny_llama, tmp_path)
    run_here(jobs)
    assert [stored(job.folder) for job in jobs] == alone
    assert all(map(is_finished, jobs))


@pytest.mark.slow
def test_lockstep_goes_on_after_an_interruption(alone: list[list[Record]], tiny_llama: Path, tmp_path: Path) -> None:
    jobs = jobs_of(tiny_llama, tmp_path)[:3]

    def interrupt(job: Job, done: int, _total: int) -> None:
        if job == jobs[1] and done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_here(jobs, interrupt)
    assert [len(stored(job.folder)) for job in jobs[:2]] == [16, 7]
    run_here(jobs)
    assert [stored(job.folder) for job in jobs] == alone[:3]


def test_the_frozen_model_answers_a_window_once_and_models_of_another_precision_share_nothing(
    tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = SharedAnswers()
    for dtype in ("fp32", "bf16"):
        models = [
            LocalModel(load(ModelSettings(name=str(tiny_llama), dtype=dtype)), shared=each)
            for each in (None, shared, shared)
        ]
        question = Question(text="Which is a planet?", options=("Mars", "the Moon"))
        alone, *others = [model.answer(question, evidence=["p_true"]) for model in models]
        assert others == [alone, alone]
    asked: list[int] = []
    original = TokenDriver.run

    def counted(self: TokenDriver, runs: Sequence[FlowRun]) -> None:
        asked.append(len(runs))
        original(self, runs)

    monkeypatch.setattr(TokenDriver, "run", counted)
    run_here(jobs_of(tiny_llama, tmp_path, [{"loop.alpha": alpha} for alpha in (0.2, 0.3, 0.4)]))
    assert asked.count(16) == 1


@pytest.mark.slow
def test_one_that_fails_in_lockstep_is_named_and_the_others_end(
    alone: list[list[Record]], tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = jobs_of(tiny_llama, tmp_path, [*VARIANTS[:3], {"adapter.layers": "99"}])
    original = Store.add

    def refuse(self: Store, record: Record, *arguments: Any, **named: Any) -> None:
        if self.folder == jobs[1].folder and record.position == 5:
            raise StorageError("the disk is full.")
        original(self, record, *arguments, **named)

    monkeypatch.setattr(Store, "add", refuse)
    with pytest.raises(ParameterError, match=r"^the run .*layers is '99'; .* \(1 more failed.\)"):
        run_here(jobs)
    assert [is_finished(job) for job in jobs] == [True, False, True, False]
    monkeypatch.undo()
    with pytest.raises(ParameterError, match="layers is '99'"):
        run_here(jobs)
    assert [stored(job.folder) for job in jobs[:3]] == alone[:3]


def test_runs_of_one_model_and_stream_go_together_in_the_order_of_the_models(tmp_path: Path) -> None:
    shared: dict[str, object] = {"stream.benchmarks": ["capitals:2"]}
    here = [
        {**shared, "seed": seed, "model.name": model, "loop.alpha": alpha}
        for seed in (1, 2)
        for model in ("x/b", "x/a")
        for alpha in (0.2, 0.3)
    ]
    endpoint = {"method": "stated", "model.engine": "openai", "model.endpoint": "http://x", "model.name": "c"}
    behind = [{**shared, **endpoint, "seed": seed} for seed in (1, 2)]
    jobs = plan([RunSettings.of(each) for each in (*here, *behind)], tmp_path)
    shown = [[(job.settings.model.name, job.settings.seed) for job in group] for group in groups(jobs)]
    together = [[(model, seed)] * 2 for model in ("x/b", "x/a") for seed in (1, 2)]
    assert shown == [*together, [("c", 1)], [("c", 2)]]
