"""The recipes of the paper's tables: what they hold, which runs they share, and that every table comes out complete."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import transformers

from secl.backends.local import lora_sizes
from secl.backends.local.adapter import parse_layers
from secl.backends.local.presets import PRESETS
from secl.data.benchmarks import load
from secl.errors import DataError, ParameterError
from secl.methods import method
from secl.reports.estimators import READINGS
from secl.reports.paper import DOMAIN, ISOLATED, RUN, SIZES
from secl.runs import reproduce
from secl.runs.experiments import BUILT_IN, SCALE, Experiment, find, known, printed, read
from secl.runs.reproduce import STREAM, Reproduction, Setup, settings, stream_of
from secl.runs.runner import SUMMARY, build_calibrator, load_questions
from secl.runs.store import Store
from secl.runs.sweep import Job, finished
from secl.testing import ScriptedModel

QUIZ = Setup(stream=("capitals", "science"), per_domain=8, gate="entropy-shift")
PUBLISHED_LLAMA = transformers.LlamaConfig(
    hidden_size=3072,
    intermediate_size=8192,
    num_hidden_layers=28,
    num_attention_heads=24,
    num_key_value_heads=8,
    vocab_size=128256,
    tie_word_embeddings=True,
)

Performed = list[str]


@pytest.fixture
def performed(monkeypatch: pytest.MonkeyPatch) -> Performed:
    """Runs are done by a scripted model; the names of those that were."""
    names: Performed = []

    def scripted(jobs: Sequence[Job], watch: Callable[[Job, int, int], None] | None = None) -> None:
        for job in jobs:
            if finished(job):
                continue
            names.append(job.name)
            questions = load_questions(job.recipe)
            model: Any = ScriptedModel(stated=0.6 + job.recipe.seed % 3 / 10)
            layers = parse_layers(job.recipe.layers or "last:4", 28)
            manifest = {
                "recipe": job.recipe.to_json(),
                "total": len(questions),
                "tau": 0.7,
                "adapter": {"layers_to_transform": list(layers)},
            }
            with Store.create(job.folder, manifest) as store:
                for record in build_calibrator(job.recipe, model).stream(questions):
                    store.add(record, 0.1, snapshot=model.snapshot())
                    if watch is not None:
                        watch(job, len(store), len(questions))
            (job.folder / SUMMARY).write_text('{"complete": true}')

    monkeypatch.setattr(reproduce, "perform_all", scripted)
    monkeypatch.setattr(lora_sizes, "_config", lambda _name: PUBLISHED_LLAMA)
    return names


def filled(experiment: Experiment, domains: Sequence[str]) -> set[tuple[str, str]]:
    """Every (row, column) of a recipe."""
    suffixes = {DOMAIN: domains, RUN: [run for row in experiment.rows for run in row.runs] + ["mean", "std"]}
    columns = list(experiment.columns)
    for placeholder, values in suffixes.items():
        columns += [column.replace(placeholder, value) for column in experiment.columns for value in values]
    rows = [row.name.replace(DOMAIN, domain) for row in experiment.rows for domain in domains]
    return {(row, column) for row in rows for column in columns}


def test_every_number_of_the_paper_has_a_row_and_a_column_in_a_recipe() -> None:
    experiments = {experiment.key: experiment for experiment in find([])}
    models, tables = printed()
    checked = 0
    for key, table in tables.items():
        assert set(table.numbers) <= set(models)
        places = filled(experiments[key], STREAM)
        for rows in table.numbers.values():
            for row, numbers in rows.items():
                for column in numbers:
                    assert (row, column) in places, (key, row, column)
                    checked += 1
    assert checked > 700


def test_every_recipe_names_only_rows_that_the_paper_has() -> None:
    for experiment in find([]):
        if experiment.paper in printed()[1]:
            there = {row for rows in printed()[1][experiment.paper].numbers.values() for row in rows}
            for row in experiment.rows:
                assert row.name.replace(DOMAIN, "gsm8k") in there, (experiment.key, row.name)


def test_our_own_table_has_every_reading_and_three_gates() -> None:
    (methods,) = find(["methods"])
    assert {row.reading for row in methods.rows} == set(READINGS)
    assert {row.formula for row in methods.rows if row.reading == "norm_p_true"} == {None, "exp"}
    gates = {methods.runs[row.runs[0]].get("gate") for row in methods.rows if row.reading == "secl"}
    assert gates == {"entropy-shift", "page-hinkley", "always"}


def test_the_papers_own_setup_is_the_default() -> None:
    assert settings({}, Setup(model="llama-3.2-3b")) == {
        "model": "llama-3.2-3b",
        "stream": ("gsm8k:500", "mmlu:500", "arc:500", "truthfulqa:500"),
        "gate": "page-hinkley",
    }


def test_settings_go_only_where_they_belong() -> None:
    setup = Setup(stream=("capitals",), nli="some/nli", tau=0.5, gate="entropy-shift", dtype="fp32")
    base = {"model": "smollm2", "stream": ("capitals:500",), "tau": 0.5, "dtype": "fp32"}
    assert settings(BUILT_IN["baselines"], setup) == {**base, "method": "baselines", "nli": "some/nli"}
    assert settings({}, setup) == {**base, "gate": "entropy-shift"}
    assert settings({"gate": "always", "alpha": 0.2}, setup) == {**base, "gate": "always", "alpha": 0.2}
    assert settings({"method": "label_free"}, setup) == {**base, "method": "label_free"}


@pytest.mark.parametrize(
    ("model", "layers", "expected"),
    [
        ("llama-3.2-3b", "middle:4", "12-15"),
        ("llama-3.2-3b", "last:4", None),
        ("llama-3.2-3b", "last:8", "last:8"),
        ("gemma-2-2b", "last:8", None),
        ("gemma-2-2b", "last:4", "last:4"),
        ("smollm2", "middle:4", "13-16"),
        ("smollm2", "26-29", None),
    ],
)
def test_layers_are_named_for_the_model_and_left_out_where_they_are_its_own(
    model: str, layers: str, expected: str | None
) -> None:
    assert settings({"layers": layers}, Setup(model=model))["layers"] == expected


@pytest.mark.parametrize("layers", ["middle:0", "middle:99", "last:99", "upper"])
def test_layers_that_a_model_does_not_have_are_refused(layers: str) -> None:
    with pytest.raises(ParameterError, match="layers"):
        lora_sizes.concrete_layers("smollm2", layers)


def test_the_middle_of_a_model_that_no_preset_knows_is_read_off_its_configuration(tiny_llama: Path) -> None:
    assert lora_sizes.concrete_layers(str(tiny_llama), "middle:2") == "1-2"
    assert lora_sizes.concrete_layers(str(tiny_llama), "last:1") is None


def test_sizes_are_the_published_ones_and_those_of_a_loaded_model(
    monkeypatch: pytest.MonkeyPatch, tiny_llama: Path
) -> None:
    from secl.backends.local.model import LocalModel

    loaded = LocalModel.load(str(tiny_llama), layers="last:2")
    found = lora_sizes.lora_sizes(str(tiny_llama), layers="last:2")
    assert found.adapter_parameters == loaded.adapter.size
    base = [
        p for p in loaded.adapter.peft.parameters() if id(p) not in set(map(id, loaded.adapter.parameters.values()))
    ]
    assert found.model_parameters == sum(parameter.numel() for parameter in base)
    assert found.adapted_layers == 2
    monkeypatch.setattr(lora_sizes, "_config", lambda _name: PUBLISHED_LLAMA)
    published = lora_sizes.lora_sizes("llama-3.2-3b")
    paper = printed()[1]["lora"].numbers["llama-3.2-3b"]["LoRA"]
    assert published.adapter_parameters == paper["adapter_parameters"] == 327_680
    assert published.adapted_layers == paper["adapted_layers"]
    assert published.model_parameters == pytest.approx(paper["model_parameters"], rel=0.002)


@pytest.mark.parametrize(
    ("stream", "run", "expected"),
    [
        (("capitals", "science"), {}, ("capitals:8", "science:8")),
        (("capitals:5", "science"), {"scale": 2}, ("capitals:10", "science:16")),
        (("misconceptions:90", "arithmetic:90"), {"scale": 2}, ("misconceptions:98", "arithmetic:180")),
        (("capitals", "truthfulqa"), {"generated": True}, ("capitals:8", "truthfulqa_gen:8")),
        (("truthfulqa", "truthfulqa_gen"), {"generated": True}, ("truthfulqa:8", "truthfulqa_gen:8")),
    ],
)
def test_a_stream_is_lengthened_and_opened_but_never_beyond_a_benchmarks_questions(
    stream: tuple[str, ...], run: dict[str, Any], expected: tuple[str, ...]
) -> None:
    assert stream_of(run, Setup(stream=stream, per_domain=8)) == expected


def test_twice_the_papers_stream_ends_where_truthfulqa_ends(official_data: Path) -> None:
    setup = Setup(data=str(official_data))
    (extended,) = find(["extended"])
    assert extended.runs["long"][SCALE] == 2
    asked = stream_of({"scale": 2, "generated": True}, setup)
    assert asked == ("gsm8k:1000", "mmlu:1000", "arc:1000", "truthfulqa_gen:817")
    assert len(load("truthfulqa_gen", data=official_data)) == 817


def test_all_tables_together_need_each_run_once(tmp_path: Path) -> None:
    made = Reproduction.planned(find([]), Setup(model="llama-3.2-3b", stream=QUIZ.stream, per_domain=8), tmp_path)
    every = {job.name: job for jobs in made.jobs.values() for job in jobs.values()}
    assert (len(every), sum(method(job.recipe.method).learns for job in every.values())) == (25, 22)
    main, layers = made.jobs["main"], made.jobs["layers"]
    assert main["secl"] == layers["last-4"] == made.jobs["seeds"]["42"] == made.jobs["methods"]["paper"]
    assert made.jobs["gating"]["bin-1"] == made.jobs["hyperparameters"]["always"] == made.jobs["methods"]["always"]
    assert made.jobs["gating"]["always-mse"] == made.jobs["always_on"]["always"]
    assert made.jobs["control"]["baselines"] == made.jobs["tau"]["baselines"] == main["baselines"]
    assert made.jobs["generation"]["long"] == made.jobs["extended"]["long"]
    assert not list(tmp_path.iterdir())


def test_every_table_comes_out_complete(performed: Performed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    drawn: list[Path] = []
    monkeypatch.setattr(reproduce, "write_figure", lambda *arguments: drawn.append(arguments[-1]))
    setup = Setup(model="llama-3.2-3b", stream=QUIZ.stream, per_domain=8, gate="entropy-shift")
    made = Reproduction.planned(find([]), setup, tmp_path)
    assert sorted(made.missing().values()) == [16] * 24 + [32]
    tables = list(made.tables())
    assert [table.key for table in tables] == known()
    assert len(performed) == len(set(performed)) == 25
    for table in tables:
        for line in table.lines:
            for column in line.paper:
                ours = line.ours.get(column)
                assert column not in table.columns or ours is not None, (table.key, line.name, column)
        for suffix in ("md", "csv", "tex"):
            assert (tmp_path / "tables" / "llama-3.2-3b" / f"{table.key}.{suffix}").stat().st_size > 100
    assert drawn == [tmp_path / "tables" / "llama-3.2-3b" / made.key for made in find([]) if made.figure]
    index = (tmp_path / "README.md").read_text()
    assert all(f"* [{key}](tables/llama-3.2-3b/{key}.md): " in index for key in known())


def test_a_second_time_nothing_runs_and_the_same_is_written(performed: Performed, tmp_path: Path) -> None:
    made = Reproduction.planned(find(["main", "seeds", "gap"]), QUIZ, tmp_path)
    tables = list(made.tables())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.suffix in (".md", ".csv", ".tex", ".png")}
    assert tmp_path / "tables" / "smollm2" / "gap.png" in before
    performed.clear()
    assert made.missing() == {}
    assert list(made.tables()) == tables
    assert performed == []
    assert {path: path.read_bytes() for path in before} == before


def test_the_papers_column_and_ours_of_a_model_of_the_paper_agree_on_its_adapter(
    performed: Performed, tmp_path: Path
) -> None:
    made = Reproduction.planned(find(["lora"]), Setup(model="llama-3.2-3b"), tmp_path)
    (table,) = made.tables()
    assert performed == []
    (row,) = csv.DictReader((tmp_path / "tables" / "llama-3.2-3b" / "lora.csv").read_text().splitlines())
    assert (row["adapter_parameters difference"], row["adapted_layers difference"]) == ("0", "0")
    assert set(table.columns) == set(SIZES)


def test_a_reader_is_told_where_model_questions_stream_and_gate_differ(performed: Performed, tmp_path: Path) -> None:
    tables = {
        table.key: " ".join(table.notes)
        for table in Reproduction.planned(find(["main", "control", "extended", "generation"]), QUIZ, tmp_path).tables()
    }
    assert performed
    assert (
        "The paper ran Llama 3.2-3B with 500 questions per domain; these numbers are smollm2 with 8." in tables["main"]
    )
    assert "in place of the paper's gsm8k, mmlu, arc, truthfulqa." in tables["main"]
    assert "SECL's gate is entropy-shift in place of the paper's page-hinkley." in tables["main"]
    assert "The paper ran Qwen 2.5-3B" in tables["control"]
    assert "gate" not in tables["control"]
    assert "with 1,000 questions per domain; these numbers are smollm2 with 16." in tables["extended"]
    assert "open-ended" not in tables["extended"]
    assert "No benchmark of this stream has an open-ended form" in tables["generation"]
    assert "n = 16 graded answers (Verbalized forward 4k 32, SECL forward 4k 32)." in tables["generation"]


def test_a_run_that_never_trained_is_named_under_its_table(performed: Performed, tmp_path: Path) -> None:
    setup = Setup(stream=QUIZ.stream, per_domain=8)
    (table,) = Reproduction.planned(find(["main"]), setup, tmp_path).tables()
    assert any(note.startswith("Nothing was trained in SECL, because the gate never opened") for note in table.notes)


@pytest.mark.parametrize(
    ("model", "against", "table", "expected"),
    [
        ("smollm2", None, "main", "llama-3.2-3b"),
        ("gemma-2-2b", None, "main", "gemma-2-2b"),
        ("gemma-2-2b", "phi-3.5-mini", "main", "phi-3.5-mini"),
        ("gemma-2-2b", None, "gating", "llama-3.2-3b"),
        ("smollm2", None, "control", "qwen2.5-3b"),
        ("smollm2", "gemma-2-2b", "control", "qwen2.5-3b"),
        ("smollm2", None, "large", "llama-3.1-8b"),
    ],
)
def test_the_papers_column_is_of_the_model_asked_for_the_same_or_the_nearest(
    model: str, against: str | None, table: str, expected: str, tmp_path: Path
) -> None:
    made = Reproduction.planned([], Setup(model=model, against=against), tmp_path)
    assert made._reference(printed()[1][table]) == expected


RECIPE = {"title": '"x"', "columns": '["ece"]', "rows": '[{ name = "a", run = "secl", reading = "secl" }]'}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"titel": '"x"'}, "unknown key 'titel'; the keys are title"),
        ({"title": "3"}, "needs a title"),
        ({"columns": '["eze"]'}, "no column 'eze'; the columns are ece"),
        ({"columns": "[]"}, "needs columns"),
        ({"columns": '["cost_{domain}"]'}, "no column"),
        ({"note": "3"}, "note must be a text"),
        ({"paper": '"mian"'}, "the paper has no table 'mian'; its tables are main"),
        ({"figure": '"pie"'}, "no figure 'pie'; the figures are reliability"),
        ({"rows": "3"}, "needs rows"),
        ({"rows": "[]"}, "needs rows"),
        ({"rows": '[{ run = "secl" }]'}, "every row needs a name"),
        ({"rows": '[{ name = "a" }]'}, "the row 'a' needs either a run or a list of runs"),
        ({"rows": '[{ name = "a", run = "secl", runs = ["secl"] }]'}, "either a run or"),
        ({"rows": '[{ name = "a", run = "sekl" }]'}, "names the run 'sekl'; the runs are secl, baselines"),
        ({"rows": '[{ name = "a", run = "secl", raeding = "secl" }]'}, "unknown key 'raeding'"),
        ({"rows": '[{ name = "a", run = "secl", reading = "scel" }]'}, "reading 'scel'; the readings are stated"),
        ({"rows": '[{ name = "a", run = "secl", reading = "secl", tau = 0 }]'}, "tau must be above 0"),
        ({"rows": '[{ name = "a", run = "secl", reading = "secl", tau = "1" }]'}, "must be a number"),
        ({"rows": '[{ name = "a", run = "secl", reading = "secl", formula = "ln" }]'}, "formula 'ln'"),
        ({"runs": "3"}, "runs must be tables"),
        ({"runs": "{ b = { bata = 0.1 } }"}, "the run 'b' has the unknown key 'bata'; the keys are model"),
        ({"runs": "{ b = { beta = -1.0 } }"}, "beta"),
        ({"runs": '{ b = { loss = "hinge" } }'}, "loss is 'hinge'"),
        ({"runs": "{ b = { scale = 0 } }"}, "scale 0; it must be a whole number"),
        ({"runs": "{ b = { scale = true } }"}, "scale True"),
        ({"runs": "{ b = { generated = 1 } }"}, "generated 1; it must be true or false"),
    ],
    ids=str,
)
def test_a_recipe_with_a_mistake_is_refused_by_name(tmp_path: Path, changes: dict[str, str], words: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("\n".join(f"{key} = {value}" for key, value in {**RECIPE, **changes}.items()))
    with pytest.raises(ParameterError) as refused:
        read(path)
    assert str(refused.value).startswith(f"the recipe {path}: ")
    assert words in str(refused.value)


def test_a_recipe_of_ones_own_is_a_table_like_any_other(performed: Performed, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("\n".join(f"{key} = {value}" for key, value in RECIPE.items()))
    (table,) = Reproduction.planned(find([str(path)]), QUIZ, tmp_path / "out").tables()
    assert (table.key, table.printed, len(performed)) == ("mine", False, 1)
    assert "ece" in table.lines[0].intervals
    assert json.loads(json.dumps(table.notes))[0].startswith("These numbers are smollm2 with 8 questions per domain of")


def test_an_unknown_table_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ParameterError, match=r"no table 'mian'; the tables are main, full, .*methods"):
        find(["mian"])
    with pytest.raises(DataError, match=r"nowhere\.toml"):
        find(["nowhere.toml"])


def test_a_setup_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"the paper has no model 'gpt-2'; its models are llama-3\.2-3b"):
        Setup(against="gpt-2")
    with pytest.raises(ParameterError, match="questions per domain"):
        Setup(per_domain=0)
    with pytest.raises(ParameterError, match=r"the run 'secl' of the table 'main': there is no gate 'fence'"):
        Reproduction.planned(find(["main"]), Setup(stream=("capitals",), gate="fence"), tmp_path)


def test_every_model_of_the_paper_is_a_preset_and_every_reading_of_a_recipe_is_known() -> None:
    assert set(printed()[0]) <= set(PRESETS)
    used = {row.reading for experiment in find([]) for row in experiment.rows}
    assert used <= {None, ISOLATED, *READINGS}


def test_recipes_of_one_name_are_refused(tmp_path: Path) -> None:
    text = 'title = "t"\ncolumns = ["ece"]\nrows = [{ name = "a", run = "baselines", reading = "stated" }]\n'
    for name in ("main.toml", "one/mine.toml", "two/mine.toml"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    with pytest.raises(ParameterError, match="called like the table 'main'"):
        find([str(tmp_path / "main.toml")])
    with pytest.raises(ParameterError, match="two recipes are called 'mine'"):
        find([str(tmp_path / "one" / "mine.toml"), str(tmp_path / "two" / "mine.toml")])
