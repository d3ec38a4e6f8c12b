"""`secl score`, `check` and `compare` from the shell, on models that follow a script."""

import csv
import io
import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from secl import Question
from secl.evidence import OPTIONS, Evidence, EvidenceKind, Posterior, PTrue
from secl.metrics.measures import MEASURES
from secl.records import Reply
from secl.reports.run_report import command
from secl.reports.table import Cell, Column, Table, to_rich
from secl.runs.settings import score_settings
from secl.testing import ScriptedModel, toy_stream, unit
from tests.answers import give_labels, stored
from tests.cli.conftest import Interrupt, Shell, ask_file, scripted_run
from tests.runs.conftest import setting


class Knowing(ScriptedModel):
    """Overconfident, but P(True) knows what is right."""

    def gather(self, question: Question, reply: Reply, evidence: Collection[EvidenceKind], **how: Any) -> Evidence:
        found = super().gather(question, reply, evidence, **how)
        if found.p_true is None:
            return found
        right = reply.answer == question.reference
        mine = (0.5 if right else 0.2) + 0.2 * unit(f"k/{question.id}")
        p_true = PTrue(candidates=("it", "that", "this"), probabilities=(mine, 0.2, 0.3), source=OPTIONS)
        return replace(found, p_true=p_true)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A question file with eighty right answers."""
    return ask_file(tmp_path / "mine.jsonl", toy_stream(80))


STATED_AND_SECL = ("--estimator", "stated", "--estimator", "secl")


def found_by(shell: Shell, command: str, *arguments: object) -> dict[str, Any]:
    """The JSON of a check or a comparison."""
    ended = shell(command, *arguments, "--json").fine
    found: dict[str, Any] = json.loads(ended.out)
    return found


def test_a_check_is_a_screen_and_no_file(shell: Shell, use: Any, mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(mine.parent))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("COLUMNS", "80")
    use(Knowing(stated=0.9))
    ended = shell("check", "--questions", mine, "--evidence.tau=0.25").fine
    lines = ended.out.splitlines()
    assert lines[0].startswith("Use: secl run --method ")
    assert lines[1].startswith("Why: ")
    assert "Learning (--method secl): adapt: " in " ".join(lines)
    assert any(line.startswith("Stated (frozen)") for line in lines)
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 80
    assert [path.name for path in sorted(mine.parent.rglob("*")) if path.is_file()] == [mine.name]


AS_CHECKED = ("--method", "posterior", "--evidence.extra_evidence=p_true")
"""Settings that give an ordinary run the records of a check."""


def test_a_run_is_checked_as_it_is(shell: Shell, use: Any, mine: Path, tmp_path: Path, interrupt_at: Interrupt) -> None:
    use(Knowing())
    whole, out = found_by(shell, "check", "--questions", mine), tmp_path / "run"
    assert shell("run", "--questions", mine, *AS_CHECKED, "--answer", "own", "--out", out).code == 0
    interrupt_at(31)
    part = tmp_path / "part"
    assert shell("run", "--questions", mine, "--method", "posterior", "--out", part).code == 2
    use(AssertionError("the model is not needed"))
    assert found_by(shell, "check", out) == whole
    assert any(line.startswith("Learning") for line in whole["sentences"])
    assert "Which method fits?" in shell("report", out, "--full").out
    without = found_by(shell, "check", part)
    assert (without["questions"], without["rated"], without["verdict"]) == (30, 0, "cannot tell")
    assert "no graded answer has normalised P(True)" in without["sentences"][2]
    give_labels(out, lambda _position: True)
    assert found_by(shell, "check", out)["right"] == whole["rated"]


def test_a_stopped_check_can_go_on(shell: Shell, use: Any, mine: Path, tmp_path: Path, interrupt_at: Interrupt) -> None:
    use(Knowing())
    out = tmp_path / "run"
    interrupt_at(31)
    ended = shell("check", "--questions", mine)
    assert ended.err == "secl: stopped after 30 of 80 questions; nothing is kept without --out.\n"
    interrupt_at(31)
    ended = shell("check", "--questions", mine, "--out", out)
    assert (ended.code, ended.out) == (2, "")
    kept = f"secl: stopped after 30 of 80 questions; all are recorded; continue with: secl run --resume {out}\n"
    assert ended.err == kept
    assert shell("run", "--resume", out).code == 0
    assert len(stored(out)) == 80
    use(KeyboardInterrupt())
    assert shell("check", "--questions", mine).err == "secl: stopped before the first question.\n"


def test_bad_input_is_refused(refused: Any, use: Any, mine: Path, pair: tuple[Path, Path], tmp_path: Path) -> None:
    use(AssertionError("all of these are found before the model is loaded"))
    learned, asked, missing = pair[0], ("--questions", mine), tmp_path / "missing"
    empty = scripted_run(tmp_path / "empty", method="posterior", asked=0)
    bare = scripted_run(tmp_path / "bare", questions=[Question(f"Why {i}?", id=str(i)) for i in range(5)])
    for arguments, *words in (
        ((), "name --benchmarks or a file"),
        (("--questions", tmp_path / "no.jsonl"), "no.jsonl", "does not exist"),
        ((*asked, "--out", tmp_path), tmp_path, "not empty"),
        ((learned,), learned, "method posterior or baselines"),
        ((learned, *asked), learned, "asks no questions"),
        ((*asked, "--out", learned), learned, "not empty"),
        ((empty,), f"secl run --resume {empty}"),
    ):
        refused(("check", *arguments), *words)
    for sides, *words in (
        ((*pair, "--estimator", "nope"), "'nope'", "stated, ", "secl"),
        ((*pair, "--estimator", ""), "''"),
        ((*pair, *STATED_AND_SECL, "--estimator", "secl"), "2 runs and 3 estimators", "one --estimator"),
        ((learned, *STATED_AND_SECL, "--estimator", "secl"), "needs two estimators"),
        ((*pair, "--json", "--table", "csv"), "--table and --json"),
        ((*pair, "--estimator", "secl"), pair[1], "'secl'", "its estimators are stated, "),
        ((*pair, "--estimator", "dinco"), learned, "'dinco'"),
        ((learned, learned), learned, "two estimators"),
        ((learned, empty), empty, "no answers yet"),
        ((bare, bare, *STATED_AND_SECL), "none of the 5 questions"),
        ((learned, missing), missing, "not a run folder"),
    ):
        refused(("compare", *sides), *words)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A run that learned and one that did not, over the same questions."""
    return scripted_run(tmp_path / "secl"), scripted_run(tmp_path / "plain", method="norm_p_true")


def test_a_comparison_marks_differences(shell: Shell, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ended = shell("compare", pair[0], pair[0], *STATED_AND_SECL).fine
    lines = [line.rstrip() for line in ended.out.splitlines()]
    assert lines[:2] == [f"A: Stated (frozen), {pair[0]}", f"B: SECL, {pair[0]}"]
    assert max(map(len, lines[2:])) <= 80
    assert next(line for line in lines if line.startswith("Mean confidence ")).endswith("*")
    assert not next(line for line in lines if line.startswith("Accuracy ")).endswith("*")
    for row in (*MEASURES.values(), "toy0", "toy1"):
        assert any(line.startswith(f"{row} ") for line in lines), row
    assert lines[-1] == "0 of 60 answers differ."


def test_a_comparison_says_what_sets_the_runs_apart(shell: Shell, pair: tuple[Path, Path], tmp_path: Path) -> None:
    found = found_by(shell, "compare", *pair)
    assert found["comparisons"][0]["settings"] == ["method: secl in A, norm_p_true in B"]
    assert found["notes"] == []
    assert "Settings that differ: method: secl in A, norm_p_true in B." in shell("compare", *pair).out
    assert "Settings" not in shell("compare", pair[0], pair[0], *STATED_AND_SECL).out
    one = scripted_run(tmp_path / "one", manifest={"model": "a" * 64})
    other = scripted_run(tmp_path / "other", model="llama-3.2-3b", manifest={"model": "b" * 64})
    found = found_by(shell, "compare", one, other)
    assert found["comparisons"][0]["settings"] == ["model.name: smollm2 in A, llama-3.2-3b in B"]
    assert found["notes"] == ["A and B have different models: weights or files differ."]
    found = found_by(shell, "compare", pair[0], scripted_run(tmp_path / "later", questions=toy_stream(63)[3:]))
    assert found["notes"][0].startswith("A has answered 60 questions, B 60. Only the 57 questions")


def test_all_confidences_of_one_run_or_several_runs_are_compared_with_the_first(
    shell: Shell, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    found = found_by(shell, "compare", pair[0])["comparisons"]
    names = [one["b"]["estimator"] for one in found]
    assert {one["a"]["estimator"] for one in found} == {"stated"}
    assert {"secl", "constant"} <= {*names}
    alone = found_by(shell, "compare", pair[0], *STATED_AND_SECL)["comparisons"]
    assert alone == [found[names.index("secl")]]
    chosen = ("compare", pair[0], *STATED_AND_SECL, "--estimator", "constant", "--table")
    stated, secl, constant = csv.DictReader(io.StringIO(shell(*chosen, "csv").fine.out))
    brier = alone[0]["measures"]["brier"]
    shown = [float(secl[f"Brier{end}"]) for end in ("", " difference", " low", " high")]
    assert shown == [brier["b"], brier["difference"], *brier["interval"]]
    assert (float(stated["Brier"]), stated["Brier low"], constant["AUROC"]) == (brier["a"], "", "")
    row = next(line for line in shell(*chosen, "latex").fine.out.splitlines() if line.startswith("SECL &"))
    assert f"& $-${-brier['difference']:.3f} {{\\scriptsize [$-$" in row
    third = scripted_run(tmp_path / "third", method="norm_p_true", asked=50)
    rows = shell("compare", *pair, third, "--estimator", "stated", "--table", "markdown").fine.out
    assert [line.split(" | ")[0] for line in rows.splitlines()[2:5]] == ["| secl", "| plain", "| third"]
    assert "Only the 50 questions that all have answered are compared." in rows


def test_names_of_all_confidences_break_at_blanks_in_80_columns() -> None:
    titles = ("Self-consistency", "Normalised P(True) + temperature*", "Label-free temperature")
    cell = Cell("+0.000", "[-0.123, -0.234]")
    columns = [Column("Confidence", text=True, wraps=True), *map(Column, ("Accuracy", "Brier", "ECE", "AUROC"))]
    table = Table(columns, {"": [[Cell(title), *[cell] * 4] for title in titles]})
    screen = Console(width=80, file=io.StringIO())
    screen.print(to_rich(table))
    lines = screen.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, lines)) <= 80
    words = {word for line in lines for word in line.split()}
    assert {word for title in titles for word in title.split()} <= words
    assert sum("-0.123,-0.234" in line for line in lines) == 3


PAIRS = """question,A,B,C,answer,rivals,correct
Which planet is closest to the sun?,Venus,Mercury,Mars,mercury,,
Which one is next?,Venus,Mercury,Mars,C. Mars,,false
What is the capital of Peru?,,,,Lima,Cusco | Quito,true
Who wrote Hamlet?,,,,[red]Elvis[/red],,no
"""


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.csv"
    path.write_text(PAIRS)
    return path


@pytest.mark.usefixtures("scripted")
def test_table_json_and_run_agree(shell: Shell, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = shell("score", pairs).fine
    lines = ended.out.splitlines()
    assert lines[1].split() == ["Question", "Answer", "Confidence", "(frozen)", "P(True)", "PMI", "Grade"]
    answers = ("B. Mercury", "C. Mars", "Lima", "[red]Elvis[/red]")
    for line, answer, verdict in zip(lines[3:], answers, ("", "wrong", "right", "wrong"), strict=False):
        assert answer in line
        assert line.rstrip().endswith(verdict)
    assert "Confidence: the posterior of the answer among its rivals, for " in ended.out
    assert "verdict: unproven (" in ended.out
    rows = json.loads(shell("score", pairs, "--json").out)["answers"]
    assert [row["answer"] for row in rows] == ["B", "C", "Lima", "[red]Elvis[/red]"]
    assert [row["correct"] for row in rows] == [None, False, True, False]
    assert shell("score", pairs, "--out", tmp_path / "run").code == 0
    for row, record in zip(rows, stored(tmp_path / "run"), strict=True):
        assert (row["confidence"], row["reply"]["stated"]) == (record.confidence, record.reply.stated)
        compared = record.evidence.candidates
        assert compared is not None
        own = record.question.letters.index(row["answer"]) if record.question.options else 0
        likelihood = compared.likelihoods[own]
        assert (likelihood is None) is (not record.question.options)  # an open answer is compared with further ones
        assert row["pmi"] == (None if likelihood is None else likelihood.given - likelihood.alone)
    assert "unlisted" not in ended.out
    monkeypatch.setattr(Posterior, "unlisted", True)
    assert "For 4 answers, the most probable answer is unlisted: the model itself would" in shell("score", pairs).out


@pytest.mark.usefixtures("scripted")
def test_columns_may_have_other_names_and_bad_rows_may_be_left_out(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "gpt.jsonl"
    rows: list[dict[str, Any]] = [
        {"prompt": "Capital of Peru?", "gpt": "Lima"},
        {"prompt": "Capital of Chile?", "gpt": ""},
        {"prompt": "Capital of Italy?", "choices": ["Rome", "Pisa"], "gpt": "Oslo"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    ended = shell("score", path, "--columns", "answer=gpt", "--skip-bad", "--json")
    assert ended.code == 0
    found = json.loads(ended.out)
    assert [row["text"] for row in found["answers"]] == ["Lima"]
    assert [each["where"] for each in found["skipped"]] == [f"{path}, line 2", f"{path}, line 3"]
    assert ended.err.count("skipped: ") == 2
    assert "A. Rome, B. Pisa" in ended.err


@pytest.mark.usefixtures("scripted")
def test_flags_reach_the_posterior_and_equal_options_are_equally_probable(shell: Shell, tmp_path: Path) -> None:
    equal = Question("2+2?", ("5", "4", "4"), "B")
    mine, folder = ask_file(tmp_path / "mine.jsonl", [*toy_stream(60), equal]), tmp_path / "out"
    flags = ("--posterior.views=letters,likelihood,p_true", "--answer", "best")
    ended = shell("run", "--questions", mine, "--method", "posterior", "--out", folder, *flags)
    assert ended.code == 0
    assert (
        ended.err
        == f"warning: {mine}: question 'mine-0061' has the same option twice; secl counts equal options as one.\n"
    )
    records = stored(folder)
    posteriors = [record.posterior for record in records if record.posterior is not None]
    assert posteriors[60].probabilities[1] == posteriors[60].probabilities[2]
    # The scripted P(True) has no P(False), so it is asked but gives no view.
    assert [view for view, _ in posteriors[59].weights] == ["letters", "likelihood"]
    assert all(record.best_returned and record.evidence.p_true is not None for record in records)
    assert json.loads((folder / "summary.json").read_text())["answered_best"] == 61
    assert any(record.best_answer != record.reply.answer for record in records)


def test_useless_settings_are_left_out_and_others_reach_the_run(shell: Shell, begun: list[Any], pairs: Path) -> None:
    useless = {"loop.answer": "best", "model.answer_weights": "frozen", "loop.accept": 0.8}  # of an older run
    recipe = score_settings(Path("a.csv"), useless)
    assert command(recipe, "score") == "secl score a.csv --model smollm2 --accept 0.8 --out NEW"
    for flag, pair in (("seed", "seed=3"), ("order", "stream.order=reversed"), ("accept", "loop.accept=0.9")):
        shell("score", pairs, f"--{flag}", pair.partition("=")[2], "--out", "NEW")
        settings, _ = begun.pop()
        assert settings == score_settings(pairs, setting(pair))
        assert settings != score_settings(pairs, {})


def test_flags_that_do_not_go_together_are_refused(pairs: Path, tmp_path: Path, refused: Any) -> None:
    for arguments, *words in (
        (("--json", "--out", tmp_path / "run"), "--json", "--out"),
        (("--evidence.extra_evidence=dinco",), "dinco"),
        (("--loop.answer=best",), "leave loop.answer out"),
    ):
        refused(("score", pairs, *arguments), *words)
    refused(("score", tmp_path / "nothing.csv"), "nothing.csv")

    pairs.write_text("question,A,B,answer\nCapital of France?,Rome,Paris,Paris\nCapital of Italy?,Rome,Pisa,Oslo\n")
    refused(("score", pairs), "line 3 cannot be rated", "none of its options")
