"""The library against a short script in plain transformers and PEFT (`examples/secl_by_hand.py`)."""

import copy
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from examples.posterior_by_hand import PosteriorByHand
from examples.secl_by_hand import ByHand, PageHinkley, secl
from secl import gates
from secl.backends.chat_templates import render
from secl.backends.local.loading.loader import load
from secl.backends.local.model import LocalModel
from secl.calibrator import Calibrator
from secl.data.benchmarks import load_stream, quiz
from secl.flow.questions import Case, answer
from secl.flow.requests import Flow, FlowRun, Write
from secl.gates import Always
from secl.posterior.rule import PosteriorRule
from secl.prompts.templates import answer_prompt
from secl.question import Question
from secl.records import Record
from secl.runs.loading import build_calibrator
from secl.runs.settings import RunSettings
from secl.scores import make_signal
from secl.settings.groups import ModelSettings
from tests.backends.local.conftest import MakeModel
from tests.backends.local.paper_by_hand import OPEN, PaperByHand, secl_paper
from tests.conftest import ROOT
from tests.tiny import TEMPLATE, tiny_model, tiny_tokenizer

pytestmark = pytest.mark.heavy

FAMILIES = {"llama": ("q_proj", "v_proj"), "phi3": ("qkv_proj",)}


def agree(rows: list[dict[str, Any]], records: list[Record], tolerance: float) -> None:
    for row, record in zip(rows, records, strict=True):
        assert row["answer"] == record.reply.answer
        assert row["frozen_answer"] == record.frozen.answer
        assert row["confidence"] == pytest.approx(record.reply.stated, abs=tolerance)
        assert row["frozen_confidence"] == pytest.approx(record.frozen.stated, abs=tolerance)
        assert row["entropy"] == pytest.approx(record.reply.entropy, abs=10 * tolerance)
        assert row.get("norm_p_true") == (record.signal and pytest.approx(record.signal, abs=tolerance))
        assert (row.get("target") is None) == (record.update is None)
        if record.update is not None:
            assert row["target"] == pytest.approx(record.update.target, abs=tolerance)


def as_rows(questions: list[Question]) -> list[dict[str, Any]]:
    return [{"question": each.text, "options": each.options, "form": each.form} for each in questions]


def recorded(flow: Flow, written: dict[str, str]) -> Flow:
    """Pass on what a flow asks and gets, and note the first text of each kind."""
    requests = next(flow, ())
    while requests:
        results = yield requests
        for request, result in zip(requests, results, strict=True):
            if isinstance(request, Write):
                written.setdefault(request.what, result.text)
        try:
            requests = flow.send(results)
        except StopIteration:
            return


@pytest.mark.parametrize(("family", "bursts"), [("llama", False), ("phi3", False), ("llama", True)])
def test_the_library_gives_the_records_of_the_method_by_hand(family: str, bursts: bool, make_model: MakeModel) -> None:
    questions = [*quiz("capitals", 12, 5), *([] if bursts else quiz("misconceptions", 8, 5))]
    limits: dict[str, Any] = {"threshold": 0.001, "epsilon": 0.0, "warmup": 2, "burst": 3}
    gate = gates.PageHinkley(**limits, restart="all") if bursts else Always()
    by_hand: dict[str, Any] = {"gate": "page-hinkley", "detector": PageHinkley(**limits)} if bursts else {}
    hand = ByHand(tiny_model(family), tiny_tokenizer(), (2, 3), FAMILIES[family])
    asking = Calibrator(make_model(family), method="secl", gate=gate, signal=make_signal("norm_p_true", 0.7))
    records = list(asking.run(questions))
    agree(list(secl(hand, as_rows(questions), **by_hand)), records, 1e-5)
    if bursts:
        assert 0 < sum(record.decision.in_burst for record in records) < len(records)
    else:
        assert sum(record.outcome == "trained" for record in records) >= 5


@pytest.mark.parametrize(
    ("family", "beta", "gate"),
    [
        ("llama", 0.0, {"gate.name": "always"}),
        ("llama", 0.3, {"gate.name": "always"}),
        ("phi3", 0.3, {"gate.threshold": 0.001, "gate.epsilon": 0.0, "gate.warmup": 2, "gate.burst": 5}),
    ],
)
def test_the_papers_method_gives_the_records_of_the_paper_by_hand(
    family: str, beta: float, gate: dict[str, Any], make_model: MakeModel
) -> None:
    """Covers the paper's question for P(True), bins and gate, with and without a KL term, options and open answers."""
    opened = [Question(text, form=form) for text in ("Can pigs fly?", "How old is Rome?") for form in OPEN]  # type: ignore[arg-type]
    choices = [*quiz("capitals", 5, 5), *quiz("misconceptions", 3, 5)]
    questions = [*choices[:5], *opened[:2], *choices[5:], *opened[2:]]
    set_to = {"evidence.tau": 0.7, "loop.delta": 0.6, "adapter.beta": beta, **gate}
    settings = RunSettings.of({"stream.benchmarks": ["capitals"], "method": "secl-paper", **set_to})
    model = make_model(family, beta=settings.adapter.beta, paper=settings.paper, learning_rate=1e-3)
    records = list(build_calibrator(settings, model).run(questions))
    hand = PaperByHand(tiny_model(family), tiny_tokenizer(), (2, 3), FAMILIES[family], beta=beta)
    hand.optimizer.param_groups[0]["lr"] = 1e-3
    spaced: set[str] = set()
    for question in opened:
        written: dict[str, str] = {}
        model.driver.run([FlowRun(recorded(answer(Case(question, model.driver), {"p_true"}), written))])
        assert written["list"].splitlines() == hand.listed(*as_rows([question]))
        spaced |= {question.form} if written["answer"].startswith(" ") else set()
    assert spaced == {"short", "sentence"}  # the space after "Answer:" belongs to the answer
    parameters = {key.removeprefix("gate."): value for key, value in gate.items()}
    detector = None if "name" in parameters else PageHinkley(**parameters)
    judged = [record.evidence.p_true for record in records]
    rows = [(row, () if p is None else p.candidates) for row, p in zip(as_rows(questions), judged, strict=True)]
    agree(list(secl_paper(hand, rows, 0.7, 0.6, detector)), records, 1e-5)
    trained = {bool(record.question.options) for record in records if record.update is not None}
    assert trained == {True, False}
    rewritten = [record.reply.answer != record.frozen.answer for record in records if not record.question.options]
    assert family == "phi3" or any(rewritten)


def test_a_model_that_can_think_is_asked_for_its_answer_at_once() -> None:
    tokenizer = copy.deepcopy(tiny_tokenizer())
    at_once = "{% if add_generation_prompt and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}"
    tokenizer.chat_template = TEMPLATE + at_once
    hand = ByHand(tiny_model(), tokenizer, (2, 3), FAMILIES["llama"])
    (question,) = quiz("capitals", 1, 5)
    prompt = hand.prompt(as_rows([question])[0])
    assert prompt.endswith("<think>\n\n</think>\n\nAnswer:")
    assert prompt == render(tokenizer, answer_prompt(question))


@pytest.mark.slow
def test_smollm2_gives_the_records_of_the_method_by_hand_on_its_first_questions(
    smollm2: str, official_data: Path
) -> None:
    questions = load_stream(["mmlu"], 5, data=official_data)
    by_hand = load(ModelSettings(name=smollm2, dtype="fp32"))
    hand = ByHand(by_hand.model, by_hand.tokenizer, range(26, 30), FAMILIES["llama"])
    rows = list(secl(hand, as_rows(questions)))
    model = LocalModel(load(ModelSettings(name=smollm2, dtype="fp32")))
    records = list(
        Calibrator(model, method="secl", gate=Always(), signal=make_signal("norm_p_true", 0.7)).run(questions)
    )
    agree(rows, records, 1e-5)
    assert sum(record.update is not None for record in records) >= 2


def test_the_flat_script_runs_from_the_shell(
    tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in as_rows(quiz("capitals", 3, 1))), encoding="utf-8")
    script = ROOT / "examples" / "secl_by_hand.py"
    monkeypatch.setattr(
        sys, "argv", [str(script), str(tiny_llama), str(file), "--limit", "2", "--last", "2", "--gate", "always"]
    )
    runpy.run_path(str(script), run_name="__main__")
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [set(row) for row in rows] == [
        {"answer", "confidence", "entropy", "frozen_answer", "frozen_confidence", "norm_p_true", "target"}
    ] * 2


@pytest.mark.slow
def test_the_posterior_by_hand_is_that_of_the_library(smollm2: str) -> None:
    """Reliability and letters depend on the whole stream, and the script gets the library's samples."""
    loaded = load(ModelSettings(name=smollm2, dtype="fp32"))
    hand = PosteriorByHand(loaded.model, loaded.tokenizer)
    opened = ["What is the capital of France?", "Who wrote Hamlet?", "Which planet is the largest?"]
    rows = [
        Question(f"What kind of word is {word}?", options=("verb", "noun", "adjective")) for word in ("red", "tree")
    ]
    questions = [*quiz("capitals", 3, 5), *map(Question, opened), *quiz("misconceptions", 2, 5), *rows, rows[0]]
    calibrator = Calibrator(LocalModel(load(ModelSettings(name=smollm2, dtype="fp32"))), posterior=PosteriorRule())
    record: Any
    for record in calibrator.run(questions):
        question, posterior, compared = record.question, record.posterior, record.evidence.candidates
        if question.options:
            by_hand = hand.options(question.text, question.options)
        else:
            own = hand.write(question.text, do_sample=False, top_p=None, temperature=None)
            assert own[0] == record.reply.text
            assert own[1] == pytest.approx(record.reply.log_probability, abs=1e-4)
            texts = [*compared.candidates[:-1], ""]  # the library's rule for equal answers is finer
            samples = [
                (texts[-1 if drawn.candidate is None else drawn.candidate], drawn.log_p or 0.0)
                for drawn in compared.samples
            ]
            shares = hand.open(question.text, own, samples, compared.letters[0].order)
            assert tuple(shares) == posterior.candidates
            by_hand = [*shares.values()]
        assert by_hand == pytest.approx(posterior.probabilities, abs=1e-4), question.text


def test_the_flat_posterior_runs_from_the_shell(
    tiny_llama: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = str(ROOT / "examples" / "posterior_by_hand.py")
    for options in (["Lima", "Quito", "Bogota"], []):
        monkeypatch.setattr(sys, "argv", [script, str(tiny_llama), "Capital of Peru?", *options])
        runpy.run_path(script, run_name="__main__")
        shares = [float(line.split()[0]) for line in capsys.readouterr().out.splitlines()]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) == pytest.approx(1, abs=0.03)
