"""Examples run as their docstrings say. Benchmarks name bad input, and the verdicts of docs/lab/log.md rarely err."""

import csv
import os
import re
import runpy
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import secl
from benchmarks.sentences import WORLDS, said
from examples import agent
from examples.facts import correct, main, rewrite, uncertain
from secl.runs.store import Store
from secl.server.store import ServerStore
from tests.conftest import ROOT
from tests.fields.scribe import CallScribe, Scribe, call, reply, written
from tests.texts import POEM, Writer, asked_about


@pytest.mark.slow
def test_a_morning_ends_with_a_table_of_accepted_answers_and_a_picture(
    tmp_path: Path, smollm2: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the embedded model: passages, aliases, twenty labels, a threshold."""
    script, file, out = ROOT / "examples" / "morning.py", tmp_path / "tickets.csv", tmp_path / "morning"
    lines = script.with_suffix(".csv").read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join([lines[0], *lines[-22:]]), encoding="utf-8")  # two more than are labelled
    monkeypatch.setattr(sys, "argv", [str(script), smollm2, str(file), str(out)])
    runpy.run_path(str(script), run_name="__main__")
    said = capsys.readouterr().out
    assert "22 answers, mean confidence 0." in said
    with (out / "answers.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len({row["ticket"] for row in rows}) == 22
    confidences = [float(row["confidence"]) for row in rows]
    assert confidences == sorted(confidences, reverse=True)
    assert all(float(row["low"]) < float(row["confidence"]) < float(row["high"]) for row in rows)
    accepted = [row["accepted"] for row in rows]
    assert accepted == sorted(accepted, reverse=True)  # "yes" first
    assert f"of {accepted.count('yes')} accepted ones" in said
    assert (out / "threshold.png").read_bytes().startswith(b"\x89PNG")
    assert sum("Deurle" in row["answer"] for row in rows) == 1  # it read the passage


def test_uncertain_facts_are_left_out_of_a_text_or_corrected_by_a_person(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`facts.py`, with a model whose facts have known confidences."""
    model = secl.load(Writer())
    text = model.ask(asked_about(3), form="text")
    assert [fact.text for fact in uncertain(text)] == ["1687"]
    assert correct(model, text, lambda _: "1535") == str(text.text).replace("1687", "1535")
    assert correct(model, text, lambda _: "") == text.text
    assert "- 1687\n\nThe text:\nThe town" in rewrite(model, text).question.text
    monkeypatch.setattr(secl, "load", lambda *_: model)
    monkeypatch.setattr("builtins.input", lambda _: "1700")
    main(asked_about(3), "--person")
    said = capsys.readouterr().out
    assert "of 4 facts are uncertain" in said
    assert "founded in 1700" in said
    main(asked_about(3), "smollm2")
    assert "The town was founded" in capsys.readouterr().out
    main(POEM)
    assert "0 of 0 facts" in capsys.readouterr().out


COUNTED = """
import runpy, sys
import secl.testing
bins_around = secl.testing.bins_around
secl.testing.bins_around = lambda stated: sys.stderr.write(".") and sys.stderr.flush() or bins_around(stated)
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""
"""Program that runs an example whose model writes two dots for each answer to stderr."""


def third_party(*arguments: object, answers: int | None = None) -> str:
    """Run the example in a process; with `answers`, kill it after so many answers of its model."""
    counted = [] if answers is None else ["-c", COUNTED]
    command = [sys.executable, *counted, str(ROOT / "examples" / "third_party_model.py"), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])}
    stderr = None if answers is None else subprocess.PIPE
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment)
    if process.stderr is not None and answers is not None:
        process.stderr.read(2 * answers)
        process.kill()
        return process.communicate()[0]
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return output


@pytest.mark.heavy
@pytest.mark.smoke
def test_a_model_from_outside_runs_is_killed_and_goes_on_with_the_same_records(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    third_party("run", whole)
    third_party("run", killed, answers=15)
    with Store(killed) as store:
        assert 0 < len(store) < 60
    assert not third_party("run", killed).startswith("0 questions")
    with Store(whole) as one, Store(killed) as other:
        records = list(one.records())
        assert len(records) == 60
        assert records == list(other.records())
        assert one.snapshot() == other.snapshot()


@pytest.mark.heavy
@pytest.mark.smoke
def test_a_model_from_outside_serves_is_killed_and_goes_on(tmp_path: Path) -> None:
    state = tmp_path / "state"
    before = third_party("serve", state, answers=8)
    answered = len(before.splitlines()) - 1
    assert 0 < answered < 20
    after = third_party("serve", state).splitlines()
    assert int(after[0].split()[0]) >= answered
    with ServerStore(state) as store:
        records = list(store.records())
        assert [record.position for record in records] == list(range(len(records)))
        updates = [record.update.version for record in records if record.update is not None]
        assert updates == list(range(1, len(updates) + 1))


@pytest.mark.smoke
def test_invoices_of_a_folder_become_a_table_and_a_list_of_values_to_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = '{"number": "BH-2291", "vendor": "Acme", "total": 306.0, "currency": "EUR", "due": null}'
    model, load = Scribe(written(text, unsure="306", p=0.999), *[text.replace("306.0", "290.5")] * 5), secl.load
    monkeypatch.setattr(secl, "load", lambda _name: load(model))
    for name in ("b.txt", "a.txt", "notes.md"):
        (tmp_path / name).write_text("Acme Ltd, invoice BH-2291.")
    script = ROOT / "examples" / "invoices.py"
    monkeypatch.setattr(sys, "argv", [str(script), str(tmp_path), "any", str(tmp_path)])
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out.strip().endswith("2 invoices, 10 values, 2 to check")
    tables = []
    for name in ("invoices.csv", "review.csv"):
        with (tmp_path / name).open(encoding="utf-8", newline="") as stream:
            tables.append(list(csv.DictReader(stream)))
    invoices, review = tables
    assert [row["file"] for row in invoices] == ["a.txt", "b.txt"]
    assert (invoices[0]["number"], invoices[0]["total"], invoices[0]["due"]) == ("BH-2291", "306.0", "")
    assert 0 < float(invoices[0]["confidence"]) < 0.9
    checked = [(row["file"], row["field"], row["value"]) for row in review]
    assert checked == [("a.txt", "total", "306.0"), ("b.txt", "total", "306.0")]
    assert review[0]["others"] == "290.5"


def test_every_example_has_a_test() -> None:
    tests = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py"))
    examples = [file for file in (ROOT / "examples").glob("*.py") if file.name != "__init__.py"]
    assert [f.name for f in examples if not re.search(rf"{f.name}|examples(.| import .*\b){f.stem}\b", tests)] == []


@pytest.mark.parametrize("name", ["labels", "posterior", "sentences"])
def test_a_missing_run_is_named(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [name, "nowhere"])
    monkeypatch.delitem(sys.modules, f"benchmarks.{name}", raising=False)
    with pytest.raises(SystemExit) as end:
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")
    assert end.value.code == 2
    said = "nowhere is not a run folder (it has no run.sqlite); name the folder of a run."
    assert capsys.readouterr().err == f"error: {said}\n"


@pytest.mark.parametrize(
    ("world", "sentence", "least", "most"),
    [
        ("calibrated, AUROC .72", "overconfident", 0.0, 0.1),
        ("calibrated, AUROC .72", "underconfident", 0.0, 0.1),
        ("calibrated, AUROC .72", "miscalibrated", 0.0, 0.15),
        ("calibrated, AUROC .72", "do not act", 0.0, 0.05),
        ("20 points too high", "overconfident", 0.85, 1.0),
        ("20 points too low", "underconfident", 0.85, 1.0),
        ("AUROC .50, mean right", "separate", 0.0, 0.1),
    ],
)
def test_a_hundred_answers_show_what_is_there_alone(world: str, sentence: str, least: float, most: float) -> None:
    counts = Counter(each for seed in range(40) for each in said(WORLDS[world], 100, seed))
    assert least <= counts[sentence] / 40 <= most


def test_an_agent_runs_sure_calls_and_asks_a_person_about_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    find = reply(call("find_rooms", '{"date": "2026-05-03", "people": 5}'))
    book = reply(call("book_room", '{"room": "Green", "date": "2026-05-03", "start": "14:00"}', unsure="14"))
    model, asked = CallScribe(find, book, find, reply(text="Sorry.")), list[str]()

    def refuse(text: str) -> bool:
        asked.append(text)
        return False

    with secl.load(model, accept=0.6) as calibrated:
        said = agent.run(calibrated, "A room?", (agent.find_rooms, agent.book_room), refuse)
    assert said == "Sorry."
    assert [text.partition("(")[0] for text in asked] == ["book_room"]
    assert capsys.readouterr().out.count("find_rooms(") == 2
    results = [turn.text for turn in model.asked[-1].since if turn.role == "tool"]
    assert results[0] == '["Green on 2026-05-03"]'
    assert results[1].startswith("The user does not want this call.")
