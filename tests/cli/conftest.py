"""The command `secl` in this process, with its output and exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from secl import Question, Record, cli
from secl.gates import Never
from secl.learning import Calibrator, EntropyShift, LoopSettings
from secl.runs import RunSettings, Store, loading, runner
from secl.testing import ScriptedModel, toy_stream
from tests.answers import run_folder, stored


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def fine(self) -> Ended:
        """This object, after a check that there is no error and no warning."""
        assert (self.code, self.err) == (0, ""), self
        return self


Shell = Callable[..., Ended]


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Run `secl` with arguments."""

    def run(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["secl", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return Ended(ended.value.code or 0, printed.out, printed.err)  # type: ignore[arg-type]

    return run


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, few_draws: None, sketched: None) -> None:
    """Commands write only into the test's folder, and find no data of this machine.

    Even on a slow machine, commands print no lines of progress. Intervals and pictures are rough.
    """
    monkeypatch.setenv("SECL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SECL_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("secl.cli.run.EVERY", float("inf"))


@pytest.fixture
def refused(shell: Shell, tmp_path: Path) -> Any:
    """Check that a command is refused in one sentence with all `words`, and writes no new file."""

    def check(arguments: tuple[object, ...], *words: object) -> str:
        before = listing(tmp_path)
        ended = shell(*arguments)
        assert (ended.code, ended.err[:6], ended.err.count("\n")) == (2, "secl: ", 1), ended
        assert [word for word in words if str(word) not in ended.err] == [], ended.err
        assert listing(tmp_path) == before
        return ended.err

    return check


def listing(folder: Path) -> list[Path]:
    """Return all files and folders, without the cache's own empty folders and empty lock files."""
    return sorted(
        path
        for path in folder.rglob("*")
        if not path.is_relative_to(folder / "cache") or (path.is_file() and path.name != "lock")
    )


Interrupt = Callable[[int], None]


@pytest.fixture
def interrupt_at(monkeypatch: pytest.MonkeyPatch) -> Interrupt:
    """Raise Ctrl-C in place of the record with this number, counted from 1."""

    def interrupt(count: int) -> None:
        add, left = Store.add, [count]

        def interrupted(store: Store, *arguments: Any, **settings: Any) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
            add(store, *arguments, **settings)

        monkeypatch.setattr(Store, "add", interrupted)

    return interrupt


@pytest.fixture
def run_of(tmp_path: Path) -> Any:
    """The arguments of a new run with a model."""
    return lambda model, *more: ("run", "--out", tmp_path / "out", "--model", model, *more)


SETTINGS = (
    *("gate.burst=4", "gate.warmup=3", "gate.threshold=2", "loop.bin_gate=off", "loop.evidence_on=always"),
    "adapter.learning_rate=0.01",
)


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def run(shell: Shell, place: Path, tiny_llama: Path) -> Path:
    """A finished run of two domains, made once. Its name and domains look like markup of rich."""
    folder = place / "[red]run[/b]"
    if not folder.exists():
        changes = [part for setting in SETTINGS for part in (f"--{setting}",)]
        source = ("--model", tiny_llama, "--benchmarks", "capitals:9,science:9", "--seed", 7, "--method", "secl")
        ended = shell("run", *source, *changes, "--out", folder, "--full").fine
        (place / "said").write_text(ended.out)
    return folder


@pytest.fixture
def records(run: Path) -> list[Record]:
    return stored(run)


def ask_file(path: Path, questions: Sequence[Question]) -> Path:
    """A question file with these questions."""
    rows = [{"question": q.text, "options": q.options, "reference": q.reference, "domain": q.domain} for q in questions]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


Use = Callable[[Any], None]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Let runs and questions load this model instead of a real one, or fail with this exception."""

    def using(model: Any) -> None:
        def load(_settings: object) -> Any:
            if isinstance(model, BaseException):
                raise model
            return model

        for module in (runner, loading):
            monkeypatch.setattr(module, "load_model", load)

    return using


@pytest.fixture
def scripted(use: Use) -> None:
    use(ScriptedModel(stated=0.75))


def scripted_run(
    folder: Path,
    *,
    method: str = "secl",
    asked: int | None = None,
    questions: list[Question] | None = None,
    manifest: dict[str, Any] | None = None,
    model: str = "smollm2",
) -> Path:
    """Make a run folder of a scripted model, complete or cut short; with SECL the model learns in bursts."""
    stream = questions or toy_stream(60)
    how: dict[str, Any] = (
        {"gate": EntropyShift(burst=20), "loop": LoopSettings(bin_gate=None)}
        if method == "secl"
        else {"gate": Never(), "loop": LoopSettings(evidence_on="always"), "evidence": ("p_true",)}
    )
    records = list(Calibrator(ScriptedModel(stated=0.9), method="secl", **how).run(stream))[:asked]
    recipe = RunSettings.of({"stream.benchmarks": ("capitals",), "method": method, "model.name": model}).to_json()
    return run_folder(folder, records, total=len(stream), settings=recipe, **{"tau": 1.0, **(manifest or {})})


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[RunSettings, str]]:
    """The settings and modes of runs, each of which stops at once."""
    seen: list[tuple[RunSettings, str]] = []

    def start_run(settings: RunSettings, _folder: Path, *, mode: str = "ask", **_: object) -> None:
        seen.append((settings, mode))
        raise KeyboardInterrupt

    for command in ("run", "ask"):
        monkeypatch.setattr(f"secl.cli.{command}.start_run", start_run)
    return seen
