"""Every command of the shell, end to end on a tiny model; and without the extra `local`."""

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers

from secl.backends.chat_templates import render
from secl.backends.local.loading.presets import PRESETS
from secl.data.benchmarks import BENCHMARKS
from secl.errors import needs
from secl.prompts.templates import confidence_prompt
from secl.records import Record
from secl.runs.folder import FILE
from secl.runs.loading import load_for_asking
from secl.runs.store import Store
from tests.backends.endpoint.fake import FakeServer, running
from tests.cli.conftest import Shell

pytestmark = pytest.mark.heavy


def test_a_run_leaves_everything_that_people_read(run: Path, place: Path) -> None:
    names = {path.name for path in run.iterdir()}
    assert names == {FILE, "lock", "adapter", "summary.json", "report.html"}
    said = (place / "said").read_text()
    assert said.splitlines()[-1] == f"page: {run / 'report.html'}"
    assert "by inspection; fast path; LoRA on q_proj, v_proj of layers last:1, tau 1 by default" in said
    for name in ("Stated (frozen)", "P(True)", "Normalised P(True)", "SECL"):
        assert name in said


def test_plain_transformers_and_peft_load_the_adapter(run: Path, records: list[Record], tiny_llama: Path) -> None:
    adapted = load_for_asking({"model.dtype": "fp32"}, run)[0].model
    question = records[-1].question
    reply = adapted.answer(question).reply
    base = transformers.AutoModelForCausalLM.from_pretrained(tiny_llama, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_llama)
    text = render(tokenizer, confidence_prompt(question, reply.answer or ""))

    def stated(model: Any) -> float:
        ids = tokenizer(text + "0", add_special_tokens=False, return_tensors="pt")["input_ids"][:, :-1]
        digits = [tokenizer(text + str(k), add_special_tokens=False)["input_ids"][-1] for k in range(10)]
        with torch.no_grad():
            shares = model(input_ids=ids).logits[0, -1, digits].double().softmax(-1)
        return float((shares * (torch.arange(10) + 0.5) / 10).sum())

    frozen = stated(base)
    wrapped = peft.PeftModel.from_pretrained(base, str(run / "adapter")).eval()
    assert stated(wrapped) == pytest.approx(reply.stated, abs=1e-4)
    assert abs(frozen - reply.stated) > 1e-3


def test_ask_shows_bins_rivals_and_lessons(shell: Shell, run: Path, records: list[Record], tiny_llama: Path) -> None:
    def ask(question: str, options: Sequence[str], *arguments: object) -> str:
        flags = [part for option in options for part in ("--option", option)]
        ended = shell("ask", question, *flags, *arguments, "--full").fine
        assert len(re.findall(r"^\d +0\.\d{3}", ended.out, re.MULTILINE)) == 10
        return ended.out

    said = ask("Capital of Italy?", ["[red]Rome", "[/b]", "Bern"], "--model", tiny_llama)
    for line in (
        r"^stated confidence +0\.\d{3}",
        r"^normalised P\(True\), tau 1 +0\.\d{3}",
        r"^weight of the view letters +0\.53",
        r"^weight of the view likelihood +0\.28",
        "^Asked for its confidence, the model rarely says a digit",  # its weights are random numbers
    ):
        assert re.search(line, said, re.MULTILINE), line
    assert "before adapting" not in said
    candidates = said[said.index("posterior  candidate") :].splitlines()[2:]
    shares = [float(line.split()[0]) for line in candidates]
    assert sum(shares) == pytest.approx(1, abs=2e-3)
    assert shares == sorted(shares, reverse=True)
    assert ("best" in candidates[0], sum("own answer" in line for line in candidates)) == (True, 1)
    shown = {re.split(r" {2,}", line.strip())[1] for line in candidates}
    assert shown == {"A. [red]Rome", "B. [/b]", "C. Bern"}

    question = records[-1].question
    said = ask(question.text, question.options, "--version", run)
    adapted = load_for_asking({}, run)[0].model.answer(question)
    version = max(record.update.version for record in records if record.update)
    assert re.search(rf"^stated confidence +{adapted.reply.stated:.4f}", said, re.MULTILINE)
    assert re.search(rf"^before adapting +{adapted.frozen.stated:.4f}", said, re.MULTILINE)
    assert re.search(rf"^version of the weights +{version}", said, re.MULTILINE)


def test_all_is_listed_with_a_text_and_help_fits_two_screens(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    models, benchmarks, said = shell("models"), shell("benchmarks"), shell("--help")
    assert (models.code, benchmarks.code, said.code) == (0, 0, 0)
    for name, preset in PRESETS.items():
        assert re.search(rf"^{re.escape(name)} +{preset.source} .*\n +{preset.layers} ", models.out, re.MULTILINE)
    for name, benchmark in BENCHMARKS.items():
        row = f"{name} +{benchmark.form} +{benchmark.split} +{benchmark.licence} +{benchmark.description}"
        assert re.search(rf"^{row}", benchmarks.out, re.MULTILINE)
    commands = re.findall(r"^│ ([a-z]+) +\S", said.out, re.MULTILINE)
    assert {"run", "ask", "serve", "methods"} < {*commands}
    for command in commands:
        detail = shell(command, "--help")
        assert (detail.code, f"secl {command}" in detail.out) == (0, True)
        for line in re.findall(r"^│ +(--[a-z-]+.*)│$", detail.out, re.MULTILINE):
            assert re.search(r"  \S.*", line), line
    monkeypatch.setenv("COLUMNS", "80")
    for command, most, lines in (("run", 33, 54), ("serve", 34, 52)):
        out = shell(command, "--help").out
        assert len(re.findall(r"^\W+--[a-z-]+", out, re.MULTILINE)) <= most
        assert len(out.splitlines()) <= lines


@pytest.mark.slow
def test_a_reader_that_has_had_enough_ends_a_command_quietly(run: Path) -> None:
    """As `secl export RUN --out - | head -1` does."""
    command = [sys.executable, "-c", "from secl.cli import main; main()", "export", str(run), "--out", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(1) == b"{"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode in (0, 128 + signal.SIGPIPE)  # 0 if all of it fitted into the pipe


WITHOUT = """
import contextlib, io, json, sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        hidden = {"torch", "transformers", "accelerate", "peft", "gguf"}
        return None if name.partition(".")[0] in hidden else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without
from secl.cli import main

ended = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["secl", *arguments]
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as end:
            ended.append((end.code or 0, said.getvalue()))
print(json.dumps(ended))
"""
"""Runs commands without the packages of the extra, and prints their exit codes and errors."""


def secl(*commands: tuple[object, ...]) -> list[tuple[int, str]]:
    """Exit code and error of each command, all of them in one process without the extra."""
    command = [sys.executable, "-c", WITHOUT, json.dumps([list(map(str, each)) for each in commands])]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return [(code, said) for code, said in json.loads(done.stdout)]


def test_what_needs_no_model_works_and_the_rest_says_what_to_install(run: Path, tmp_path: Path) -> None:
    folder, benchmark = shutil.copytree(run, tmp_path / "run"), ("--benchmarks", "capitals:2", "--out")
    with running(FakeServer()) as server:
        works: list[tuple[object, ...]] = [
            ("report", folder),
            ("compare", folder, folder, "--estimator", "stated", "--estimator", "secl"),
            ("threshold", folder, "--risk", 0.5),
            ("export", folder, "--format", "csv"),
            ("label", folder),
            ("methods",),
            ("benchmarks",),
            ("run", "--help"),
            ("run", "--engine", "openai", "--endpoint", server.url, *benchmark, tmp_path / "elsewhere"),
        ]
        needs_a_model: list[tuple[object, ...]] = [
            ("ask", "Who wrote Hamlet?"),
            ("run", *benchmark, tmp_path / "out"),
            ("check", *benchmark[:2]),
            ("models",),
            ("serve", tmp_path / "state", "--port", 0),
        ]
        ended = secl(*works, *needs_a_model)
    for command, (code, said) in zip(works, ended, strict=False):
        assert code == 0, (command, said)
    assert (folder / "report.html").is_file()
    with Store(tmp_path / "elsewhere") as store:
        assert len(store) == 2
    sentence = f"secl: {needs('a model in this process', 'torch', 'local')}\n"
    assert ended[len(works) :] == [(2, sentence)] * len(needs_a_model)
