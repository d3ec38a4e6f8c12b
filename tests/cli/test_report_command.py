"""`secl report` of unfinished runs, labels and other graders; and `secl sweep` on a tiny model."""

import csv
import io
import json
import re
import shlex
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from secl import Question
from secl.reports.run_report import command
from secl.runs import RunSettings, start_run
from secl.runs.folder import FILE
from secl.runs.runner import SUMMARY
from secl.runs.settings import score_settings
from secl.runs.sweep import Job, is_finished, plan, read_sweep
from secl.scores import SCORES
from secl.testing import ScriptedModel, toy_stream
from tests.cli.conftest import Interrupt, Shell, Use, ask_file, scripted_run
from tests.rough import PNG
from tests.runs.conftest import setting

pytestmark = pytest.mark.heavy

DRAWN = ("reliability", "reliability-others", "risk", "timeline")
OF_RUN = {"report.html", "summary.json"}
TABLES = {"table.tex", "table.csv", "table.md"}
FILES = {f"{stem}.{end}" for stem in DRAWN for end in ("png", "svg", "pdf")} | TABLES | OF_RUN
NAME = '<b>"model" & co</b>'
BARE = [Question(f"Why {i}?", id=str(i)) for i in range(3)]


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Path]:
    """Make a run folder of sixteen questions, some of them answered."""
    return lambda name, answered=16: scripted_run(tmp_path / name, asked=answered, questions=toy_stream(16), model=NAME)


def own(run: Path) -> set[str]:
    return {path.name for path in run.iterdir()} - {FILE, "lock"}


def test_a_report_goes_into_its_run_or_elsewhere(shell: Shell, made: Callable[..., Path], tmp_path: Path) -> None:
    run, out = made("first"), tmp_path / "deep" / "out"
    ended = shell("report", run, "--out", out, "--full").fine
    assert own(run) == set()
    assert own(out) == FILES
    assert shell("report", made("another"), "--out", out).code == 0  # over an earlier report
    assert own(out) == FILES
    ended = shell("report", run, "--full").fine
    assert own(run) == OF_RUN
    assert ended.out.splitlines()[-1] == f"page: {run / 'report.html'}"
    page = ET.fromstring((run / "report.html").read_text(encoding="utf-8"))
    assert NAME in "".join(page.itertext())
    assert {picture.read_bytes()[:8] for picture in out.glob("*.png")} == {PNG}
    verdict = json.loads((run / "summary.json").read_text(encoding="utf-8"))["verdict"]
    assert f"verdict: {verdict['level']} ({verdict['source']} confidence). " in " ".join(ended.out.split())
    assert set(verdict["reasons"][0]) == {"code", "severity", "sentence", "values"}
    shell("report", run, "--out", f"{run}/../first")  # which is no other folder
    assert own(run) == OF_RUN


def test_the_main_table_is_printed_for_a_paper_and_the_summary_as_json(
    shell: Shell, refused: Any, made: Callable[..., Path]
) -> None:
    run = made("first")
    printed = json.loads(shell("report", run, "--json").fine.out)
    tables = {form: shell("report", run, "--table", form).fine.out for form in ("latex", "csv", "markdown")}
    assert own(run) == set()
    shell("report", run)
    assert printed == json.loads((run / SUMMARY).read_text(encoding="utf-8"))
    rows = {row["Confidence"]: row for row in csv.DictReader(io.StringIO(tables["csv"]))}
    assert {SCORES[name].title for name in printed["estimators"]} == {*rows}
    for name, row in printed["estimators"].items():
        shown, (low, high) = rows[SCORES[name].title], row["intervals"]["brier"]
        assert float(shown["Mean confidence"]) == row["mean_confidence"]
        assert [float(shown[f"Brier {end}"]) for end in ("low", "high")] == [low, high]
        cell = f"{row['brier']:.3f} [{low:.3f}, {high:.3f}]"
        assert cell in tables["markdown"]
        assert cell.replace("[", "{\\scriptsize [") + "}" in tables["latex"]
    refused(("report", run, "--json", "--full"), "--table and --json", "leave the other flags out")
    refused(("report", scripted_run(run.parent / "bare", questions=BARE), "--table", "csv"), "no graded answer")
    unfinished = shell("report", made("unfinished", answered=7), "--table", "markdown")
    assert "Unfinished: 7 of 16 questions answered." in unfinished.out
    assert "is unfinished; continue" in unfinished.err


def test_an_unfinished_run_is_reported_and_the_page_says_so(shell: Shell, made: Callable[..., Path]) -> None:
    run = made("first", answered=7)
    short = shell("report", run).out.splitlines()
    assert short[0] == "7 of 16 questions answered."
    assert short[-2:] == [f"all tables: secl report {run} --full", f"next: secl run --resume {run}"]
    assert '<p class="warning">7 of 16 questions answered.' in (run / "report.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("scripted", "sketched")
def test_the_users_columns_stand_beside_the_answer_and_the_template_stands_once(shell: Shell, tmp_path: Path) -> None:
    table = tmp_path / "tickets.csv"
    table.write_text("Ticket ID,Date,Subject,Team\nT-7,2026-03-01,Login fails,bug\nT-8,2026-03-02,Add a theme,wish\n")
    asked = ("--option", "bug", "--option", "wish", "--template", "Which team should answer this? {Subject} (ticket)")
    run = tmp_path / "run"
    ended = shell("run", "--questions", table, "--columns", "reference=Team", *asked, "--out", run)
    assert (ended.code, "Which team" in ended.out) == (0, False)
    page = ET.fromstring((run / "report.html").read_text(encoding="utf-8"))
    (section,) = (each for each in page.iter() if each.get("id") == "every-question")
    lines = [["".join(cell.itertext()).split() for cell in line] for line in section.iter() if line.tag.endswith("}tr")]
    titles, *rows = ([" ".join(words) for words in line] for line in lines)
    assert titles == ["#", "Question", "Answer", "Confidence", "Grade", "Ticket ID", "Date"]
    assert [row[5:7] for row in rows] == [["T-7", "2026-03-01"], ["T-8", "2026-03-02"]]
    assert [row[1].split(" A. ")[0] for row in rows] == ["Login fails Login fails", "Add a theme Add a theme"]
    text = "".join(page.itertext())
    assert text.count("Which team should answer this?") == 3  # above the table, in the settings, and in the command


def test_what_cannot_be_reported_is_refused(refused: Any, made: Callable[..., Path], tmp_path: Path) -> None:
    run, empty = made("first"), made("empty", answered=0)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    (tmp_path / "file").write_text("x")
    refused(("report", empty), empty, "has no answers yet", f"--resume {empty}")
    refused(("report", run, "--out", tmp_path / "full"), tmp_path / "full", "holds no report", "another folder")
    refused(("report", run, "--out", tmp_path / "file"), tmp_path / "file", "is a file")
    refused(("report", run, "--grader", "fuzzy"), "fuzzy")


def test_a_report_grades_anew_beside_the_run_and_leaves_its_summary_alone(shell: Shell, tmp_path: Path) -> None:
    """The scripted model answers open questions with their reference or with "no idea", which the pattern matches."""
    path, folder = tmp_path / "mine.jsonl", tmp_path / "run"
    asked = [Question(f"Question number {number}?", reference="no i.ea") for number in range(10)]
    ask_file(path, [*asked, Question("Which?", ("x", "y"), "A")])
    settings = RunSettings.of({"stream.questions": str(path), "method": "stated"})
    run = start_run(settings, folder, lambda _: ScriptedModel())
    with run.store:
        run.proceed()
        run.finish()
    before, choice = (folder / "summary.json").read_text(), run.records[-1].correct
    assert json.loads(before)["estimators"]["stated"]["accuracy"] < 0.9
    assert shell("report", folder, "--grader", "regex").fine
    again = json.loads((folder / "graded-regex" / "summary.json").read_text())["estimators"]["stated"]
    assert again["accuracy"] == pytest.approx((10 + bool(choice)) / 11, abs=1e-3)
    assert (folder / "summary.json").read_text() == before
    said = shell("report", folder, "--grader", "overlap")
    assert (said.code, "no wrong answers" in said.err) == (2, True)
    assert not (folder / "graded-overlap").exists()


CHOICE = setting(
    "method=secl stream.benchmarks=capitals:9,science gate.burst=20 evidence.tau=0.7 loop.answer=best loop.accept=0.8 "
    "evidence.extra_evidence=candidates,dinco loop.bin_gate=off adapter.learning_rate=1e-07"
) | {"model.name": "a b", "stream.data": "/some where"}
OPEN = {
    **{"method": "secl-paper", "paper": False, "stream.questions": "it's.jsonl", "stream.template": "{q}?"},
    **{"stream.columns": ("question=q",), "stream.options": ("a, b", "c")},
}
ELSEWHERE = setting("stream.benchmarks=capitals model.engine=openai model.endpoint=http://127.0.0.1:1 model.name=m")


RATED = setting(
    "model.dtype=fp32 model.device=cuda:1 stream.columns=question=prompt,answer=gpt stream.skip_bad=true "
    "stream.per_domain=3 stream.order=shuffled stream.grader=exact seed=7 loop.accept=0.8 paper=true "
    "evidence.tau=0.7 evidence.formula=exp evidence.extra_evidence=p_true,candidates "
    "posterior.views=letters,p_true evidence.distractors=3"
) | {"model.name": "a b", "model.calibration": "/labelled run"}
RATED_ELSEWHERE = setting("model.name=m model.engine=openai model.endpoint=http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("mode", "recipe"),
    [
        *(("ask", RunSettings.of(settings)) for settings in (CHOICE, OPEN, ELSEWHERE)),
        *(("score", score_settings(Path("it's.csv"), settings)) for settings in (RATED, RATED_ELSEWHERE)),
    ],
)
def test_the_command_on_a_page_repeats_a_run(shell: Shell, begun: list[Any], mode: Any, recipe: RunSettings) -> None:
    program, *arguments = shlex.split(command(recipe, mode))
    assert (program, arguments[-2:]) == ("secl", ["--out", "NEW"])
    assert shell(*arguments).err == "secl: stopped before the first question.\n"
    assert begun == [(recipe, mode)]


GRID = """
model.name = "{model}"
stream.benchmarks = ["capitals:5", "science:5"]
[grid]
seed = [42, 43]
[[runs]]
method = "secl"
gate = {{burst = 4, warmup = 3, threshold = 2.0}}
[[runs]]
method = "norm_p_true"
"""


SEEDS = """
model.name = "{model}"
stream.benchmarks = ["capitals:6"]
method = "norm_p_true"
[grid]
seed = [1, 2, 3]
stream.order = ["forward", "reversed"]
"""


@pytest.fixture
def recipe(tmp_path: Path, tiny_llama: Path) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(GRID.format(model=tiny_llama))
    return path


def jobs_of(recipe: Path, out: Path) -> list[Job]:
    return plan(read_sweep(recipe), out)


def test_a_sweep_shows_what_it_is_made_of_does_it_and_compares_the_runs(
    shell: Shell, use: Use, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "[red]runs[/b]"  # which rich would take for markup
    jobs, command = jobs_of(recipe, out), ("sweep", recipe, "--out", out)

    dry = shell(*command, "--dry-run").fine
    shown = [line.split(maxsplit=2) for line in dry.out.splitlines()[2:6]]
    assert [line[:2] for line in shown] == [[job.name, "waiting"] for job in jobs]
    assert all("method norm_p_true" in line[2] for line in shown[2:])
    assert f"4 runs, 0 of them finished, in {out}" in dry.out
    assert not out.exists()

    ended = shell(*command).fine
    assert all(map(is_finished, jobs))
    rows = ended.out[ended.out.index("Folder") :]
    for job in jobs:
        name = job.settings.method
        summary = json.loads((job.folder / SUMMARY).read_text())["estimators"][name]
        (row,) = (line for line in rows.splitlines() if line.startswith(job.folder.name))
        numbers = rf"{summary['brier']:.3f} +{summary['ece']:.3f} .* {summary['n']} *$"
        assert re.search(f"{re.escape(SCORES[name].title)} +{numbers}", row)
    assert rows.splitlines()[-1] == f"run folders: {out}/"

    use(AssertionError("a finished run was repeated"))
    monkeypatch.setenv("COLUMNS", "60")  # a narrow terminal breaks no folder name
    again = shell(*command).fine
    assert [line.split()[:2] for line in again.out.splitlines()[2:6]] == [[job.name, "finished"] for job in jobs]
    assert again.out[again.out.index("Folder") :] == rows
    assert shell("report", jobs[0].folder).fine


def test_runs_that_differ_in_their_seeds_share_a_row_with_mean_and_standard_deviation(
    shell: Shell, refused: Any, tiny_llama: Path, tmp_path: Path
) -> None:
    recipe, out = tmp_path / "sweep.toml", tmp_path / "out"
    recipe.write_text(SEEDS.format(model=tiny_llama))
    command = ("sweep", recipe, "--out", out)
    refused((*command, "--dry-run", "--table", "csv"), "--dry-run", "--table")
    shown = shell(*command, "--table", "csv")
    assert "6 runs, 0 of them finished" in shown.err
    rows = list(csv.DictReader(io.StringIO(shown.out)))
    assert {row["Model"] for row in rows} == {tiny_llama.name}
    assert {row["Settings"] for row in rows} == {"stream.order forward", "stream.order reversed"}
    for row in rows:
        jobs = [job for job in jobs_of(recipe, out) if f"stream.order {job.settings.stream.order}" == row["Settings"]]
        summaries = [json.loads((job.folder / SUMMARY).read_text())["estimators"] for job in jobs]
        (name,) = (name for name in summaries[0] if SCORES[name].title == row["Confidence"])
        briers = [found[name]["brier"] for found in summaries]
        assert (float(row["Brier"]), float(row["Brier sd"])) == pytest.approx((fmean(briers), stdev(briers)))
        assert row["Seeds"] == "3"
    assert "± " in shell(*command).fine.out
    assert r" {\scriptsize $\pm$ " in shell(*command, "--table", "latex").out


def test_a_sweep_without_grades_has_no_table_for_a_paper(shell: Shell, tiny_llama: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("question\n1 + 1?\n2 + 2?\n")
    recipe = tmp_path / "sweep.toml"
    recipe.write_text(
        f'[model]\nname = "{tiny_llama}"\n[stream]\nquestions = "{tmp_path}/rows.csv"\noptions = ["2", "4"]\n'
        "[grid]\nseed = [1, 2]\n"
    )
    command = ("sweep", recipe, "--out", tmp_path / "out")
    for form in ("csv", "latex", "markdown"):
        ended = shell(*command, "--table", form)
        assert (ended.code, ended.out) == (2, "")
        assert "have no graded answer, so their table has no numbers; add right answers." in ended.err
    assert "standard deviation" not in shell(*command).fine.out


def test_a_stopped_sweep_resumes(shell: Shell, recipe: Path, tmp_path: Path, interrupt_at: Interrupt) -> None:
    command = ("sweep", recipe, "--out", tmp_path / "out")
    interrupt_at(14)
    ended = shell(*command)
    assert (ended.code, ended.err) == (2, "secl: stopped with 1 of 4 runs finished; the same command continues.\n")
    states = [line.split()[1] for line in shell(*command, "--dry-run").out.splitlines()[2:6]]
    assert states == ["finished", "waiting", "3", "waiting"]  # one seed: the first and the third


def test_bad_input_is_refused_in_one_sentence(shell: Shell, refused: Any, recipe: Path, tmp_path: Path) -> None:
    out, path, stream = ("--out", tmp_path / "out"), tmp_path / "bad.toml", 'stream.benchmarks = ["capitals:2"]'
    refused(("sweep", path, *out), "bad.toml", "cannot be read")
    place = "bad.toml (a file of settings, [grid] and [[runs]]):"
    for text, more, *words in (
        (f"{stream}\nsede = 1", (), f"{place} there is no setting 'sede'", "seed"),
        (f"{stream}\n[grid]\nsede = [1]", (), f"{place} there is no setting 'sede'"),
        (f"{stream}\n[gird]\nseed = [1]", (), f"{place} there is no setting 'gird.seed'"),
        (f"{stream}\n[grid]\nseed = 1", (), f"{place} seed in [grid] is 1", "a list"),
        ("benchmarks = [", (), "not valid TOML"),
        (stream, ("--on", "moon"), "--on is 'moon'", "ray://HOST:PORT"),
        (stream, ("--workers", 3), "--workers", "--on ray"),
        (stream, ("--on", "ray", "--workers", 0), "number of workers", "not 0"),
    ):
        path.write_text(text)
        refused(("sweep", path, *out, *more), *words)
    folder = jobs_of(recipe, tmp_path / "out")[1].folder
    folder.mkdir(parents=True)
    (folder / "letter").touch()
    refused(("sweep", recipe, *out), folder, "not empty")
    shutil.rmtree(folder)
    assert shell("sweep", recipe, *out, "--dry-run").code == 0
