"""The paper's tables: what they hold, which runs they share, and that every table comes out complete."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
import transformers

from secl.backends.local.loading.presets import PRESETS, parse_layers
from secl.errors import ParameterError
from secl.methods import method
from secl.runs import RunSettings
from secl.runs.loading import build_calibrator, read_stream
from secl.runs.runner import SUMMARY
from secl.runs.sweep import Job, question_counts
from secl.scores import SCORES
from secl.testing import ScriptedModel
from secl_paper import lora_sizes, reproduce
from secl_paper.compare import columns_of
from secl_paper.layout import Row, Run, Table
from secl_paper.paper import counterpart, read_paper
from secl_paper.reproduce import Reproduction, find
from secl_paper.setup import STREAM, PaperModel, Setup, benchmarks_of, settings_of
from secl_paper.tables import BASELINES, LABEL_FREE, SECL, TABLES
from tests.answers import run_folder

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("few_draws")]

LLAMA = {"model": "llama-3.2-3b"}
SHORT = {"benchmarks": ("capitals", "science"), "per_domain": 8}
QUIZ = Setup(benchmarks=("capitals", "science"), per_domain=8, gate="entropy-shift")
SIZES = {"hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 28, "vocab_size": 128256}
SIZES |= {"num_attention_heads": 24, "num_key_value_heads": 8, "max_position_embeddings": 131072}
PUBLISHED_LLAMA = transformers.LlamaConfig(**SIZES, tie_word_embeddings=True)


class Scripted:
    """Does runs with a scripted model, and notes their names."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self.names.append(job.name)
            questions = read_stream(job.settings).questions
            model: Any = ScriptedModel(stated=0.6 + job.settings.seed % 3 / 10)
            layers = parse_layers(job.settings.adapter.layers or "last:4", 28)
            records = list(build_calibrator(job.settings, model).run(questions))
            adapter = {"layers_to_transform": list(layers)}
            run_folder(job.folder, records, settings=job.settings.to_json(), tau=0.7, adapter=adapter)
            (job.folder / SUMMARY).write_text('{"complete": true}')


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    monkeypatch.setattr(lora_sizes, "_config", lambda _name: PUBLISHED_LLAMA)
    return Scripted()


def positions(table: Table) -> set[tuple[str, str]]:
    """Every (row, column) of a table under the paper's stream."""
    columns = [*columns_of(table, STREAM), *(f"{name}_std" for name in table.columns)]
    rows = [name for row in table.rows for name in names(row)]
    return {(row, column) for row in rows for column in columns}


def names(row: Row) -> list[str]:
    return [f"{row.name}/{domain}" for domain in STREAM] if row.each_domain else [row.name]


def test_every_number_of_the_paper_has_a_row_and_a_column_in_a_table() -> None:
    tables = {table.key: table for table in TABLES}
    checked = 0
    for key, printed in read_paper().tables.items():
        assert set(printed.numbers) <= set(read_paper().models)
        expected = positions(tables[key])
        for rows in printed.numbers.values():
            for row, numbers in rows.items():
                for column in numbers:
                    assert (row, column) in expected, (key, row, column)
                    checked += 1
    assert checked > 700


def test_our_own_table_has_every_estimator_and_three_gates() -> None:
    (methods,) = find(["methods"])
    elsewhere = {"stated_with_labels", "posterior_with_labels"}  # of runs that people labelled
    elsewhere |= {"at_once", "thoughts"}  # of runs that think
    assert {row.estimator for row in methods.rows} == set(SCORES) - elsewhere
    assert {row.formula for row in methods.rows if row.estimator == "norm_p_true"} == {None, "exp"}
    gates = {row.runs[0].changes.get("gate.name") for row in methods.rows if row.estimator == "secl"}
    assert gates == {"entropy-shift", "page-hinkley", "always"}


def changed(run: Run, setup: Setup) -> dict[str, Any]:
    """The settings of a run that differ from the defaults."""
    return RunSettings.of(settings_of(run, setup)).changed()


def test_settings_go_only_where_they_belong() -> None:
    setup = Setup(benchmarks=("capitals",), nli="some/nli", tau=0.5, gate="entropy-shift", dtype="fp32")
    common = {"stream.benchmarks": ("capitals:500",), "evidence.tau": 0.5, "model.dtype": "fp32", "paper": True}
    assert changed(BASELINES, setup) == {**common, "method": "baselines", "evidence.nli": "some/nli"}
    assert changed(SECL, setup) == {**common, "method": "secl", "gate.name": "entropy-shift"}
    assert changed(Run("x", {"gate.name": "always", "loop.alpha": 0.2}), setup) == {
        **common,
        "method": "secl",
        "gate.name": "always",
        "loop.alpha": 0.2,
    }
    assert changed(LABEL_FREE, setup) == {**common, "method": "label_free"}


def test_a_stream_is_lengthened_and_opened_but_never_beyond_a_benchmarks_questions() -> None:
    for stream, run, expected in (
        (("capitals", "science"), Run("x"), ("capitals:8", "science:8")),
        (("capitals:5", "science"), Run("x", scale=2), ("capitals:10", "science:16")),
        (("misconceptions:90", "arithmetic:90"), Run("x", scale=2), ("misconceptions:98", "arithmetic:180")),
        (("capitals", "truthfulqa"), Run("x", open_ended=True), ("capitals:8", "truthfulqa_gen:8")),
        (("truthfulqa", "truthfulqa_gen"), Run("x", open_ended=True), ("truthfulqa:8", "truthfulqa_gen:8")),
    ):
        assert benchmarks_of(run, Setup(benchmarks=stream, per_domain=8)) == expected


def test_all_tables_together_need_each_run_once(tmp_path: Path) -> None:
    reproduction = Reproduction.plan(TABLES, Setup.model_validate({**LLAMA, **SHORT}), tmp_path)
    assert (len(reproduction.runs), sum(method(job.settings.method).learns for job in reproduction.runs)) == (25, 22)
    jobs = {(table.key, row.name): reproduction.jobs[row.runs[0]] for table in TABLES for row in table.rows if row.runs}
    secl, always = jobs["main", "SECL"], jobs["gating", "Bin-gate 1"]
    for same in (("layers", "Last 4"), ("seeds", "SECL"), ("methods", "SECL, paper's gate")):
        assert jobs[same] == secl
    assert always == jobs["hyperparameters", "alpha 0.5"] == jobs["methods", "SECL, always on"]
    assert jobs["gating", "Always-on MSE"] == jobs["always_on", "Always-train"] != always
    assert jobs["generation", "SECL forward 4k"] == jobs["extended", "SECL"] != secl
    assert not list(tmp_path.iterdir())


def test_every_table_comes_out_complete(scripted: Scripted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    drawn: list[Path] = []
    monkeypatch.setattr(reproduce, "write_figure", lambda *arguments: drawn.append(arguments[-1]))
    setup = Setup.model_validate({**LLAMA, **SHORT, "gate": "entropy-shift"})
    reproduction = Reproduction.plan(find([]), setup, tmp_path)
    assert sorted(question_counts(reproduction.missing).values()) == [16] * 24 + [32]
    tables = list(reproduction.fill(scripted))
    assert [table.key for table in tables] == [table.key for table in TABLES]
    assert len(scripted.names) == len(set(scripted.names)) == 25
    for table in tables:
        for line in table.lines:
            for column in line.paper:
                ours = line.ours.get(column)
                assert column not in table.columns or ours is not None, (table.key, line.name, column)
        for suffix in ("md", "csv", "tex"):
            assert (tmp_path / "tables" / "llama-3.2-3b" / f"{table.key}.{suffix}").stat().st_size > 100
    assert drawn == [tmp_path / "tables" / "llama-3.2-3b" / table.key for table in TABLES if table.figure]
    index = (tmp_path / "README.md").read_text()
    assert all(f"* [{key}](tables/llama-3.2-3b/{key}.md): " in index for key in (table.key for table in TABLES))


def notes_of(setup: Setup, folder: Path, scripted: Scripted, *names: str) -> dict[str, str]:
    """Return the notes under tables."""
    tables = Reproduction.plan(find(names), setup, folder).fill(scripted)
    return {table.key: " ".join(table.notes) for table in tables}


def test_a_reader_is_told_where_model_questions_stream_and_gate_differ(scripted: Scripted, tmp_path: Path) -> None:
    setup = QUIZ.model_copy(update={"against": "llama-3.2-3b"})
    notes = notes_of(setup, tmp_path, scripted, "main", "control", "extended", "generation")
    for table, words in (
        ("main", "The paper's column is Llama 3.2-3B: --against names it."),
        ("main", "The paper ran Llama 3.2-3B with 500 questions per domain; these numbers are of smollm2, with 8."),
        (
            "main",
            "The stream is capitals, science (capitals, science: the built-in quiz) in place of the paper's gsm8k, ",
        ),
        ("main", "(the paper's values in brackets): gate entropy-shift (page-hinkley)."),
        ("main", "For DINCO, the answering model itself judged entailment; the paper used an NLI model"),
        ("control", "no column for Llama 3.2-3B in this table"),
        ("control", "add --against qwen2.5-3b."),
        ("extended", "with 1,000 questions per domain; these numbers are of smollm2, with 16."),
        ("generation", "No benchmark of this stream has an open-ended form"),
        ("generation", "n = 16 graded answers (Verbalized forward 4k 32, SECL forward 4k 32)."),
    ):
        assert words in notes[table]
    assert "gate" not in notes["control"]
    assert "open-ended" not in notes["extended"]


def test_every_setting_that_is_not_the_papers_is_named(scripted: Scripted, tmp_path: Path) -> None:
    setup = Setup.model_validate({**LLAMA, **SHORT, "tau": 0.2, "gate": "always", "quantize": "8bit"})
    notes = notes_of(setup, tmp_path, scripted, "main", "tau", "always_on")
    ours = "Settings that differ from the paper's (the paper's values in brackets): quantize 8bit (default)"
    assert f"{ours}, gate always (page-hinkley), tau 0.2 (0.7)." in notes["main"]
    assert f"{ours}, tau 0.2 (0.7)." in notes["tau"]  # nothing learns there


def test_the_papers_column_is_of_the_model_asked_for_or_the_same() -> None:
    for model, against, expected, why in (
        ("gemma-2-2b", None, "gemma-2-2b", "--model names its preset"),
        ("google/GEMMA-2-2b-it", None, "gemma-2-2b", "--model names its hub id"),
        ("meta-llama/Llama-3.1-8B-Instruct", None, "llama-3.1-8b", "--model names its hub id"),
        ("/models/Llama-3.1-8B-Instruct/", None, "llama-3.1-8b", "--model names a copy of it"),
        ("phi-3.5-mini-instruct.Q4_K_M.gguf", None, "phi-3.5-mini", "--model names a copy of it"),
        ("someone/Llama-3.1-8B-Instruct-medical", None, None, "--model names no model of the paper"),
        ("gemma-2-2b", "phi-3.5-mini", "phi-3.5-mini", "--against names it"),
        ("smollm2", None, None, "--model names no model of the paper"),
    ):
        found = counterpart(model, against)
        assert (found.name, found.why[: len(why)]) == (expected, why)


def test_ones_own_gate_gates_every_run(scripted: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "from secl.gates import Always\nclass MyGate(Always):\n    burst = 20\nclass Asks:\n    pass\n"
    )
    monkeypatch.chdir(tmp_path)
    setup = Setup.model_validate({**SHORT, "gate": "mine.py:MyGate"})
    run = Run("burst 20", {"gate.burst": 20})
    assert settings_of(run, setup)["gate.burst"] is None  # the gate's own, as with those of the package
    reproduction = Reproduction.plan(find(["main", "always_on"]), setup, tmp_path / "out")
    gates = {method(job.settings.method).learns: job.settings.gate.name for job in reproduction.runs[:2]}
    assert gates == {True: str(tmp_path / "mine.py:MyGate"), False: None}
    assert [table.key for table in reproduction.fill(scripted)] == ["main", "always_on"]
    with pytest.raises(ParameterError, match=r"^the run 'secl' of the table 'main': the gate .*Asks' cannot be loaded"):
        Reproduction.plan(find(["main"]), Setup.model_validate({**SHORT, "gate": "mine.py:Asks"}), tmp_path / "out")


def test_every_model_of_the_paper_is_a_preset_and_can_be_compared_with() -> None:
    assert set(read_paper().models) <= set(PRESETS)
    assert list(get_args(PaperModel)) == list(read_paper().models)
    assert {name: PRESETS[name].tau for name in read_paper().tau} == read_paper().tau
