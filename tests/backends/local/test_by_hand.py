"""The library against the method written flat in plain transformers and PEFT (`examples/secl_by_hand.py`)."""

from __future__ import annotations

import copy
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from examples.secl_by_hand import ByHand, PageHinkley, secl
from secl import gates
from secl.backends.local.loading.loader import load
from secl.backends.local.model import LocalModel
from secl.backends.token_ids import render
from secl.calibrator import Calibrator
from secl.data.quiz import quiz
from secl.data.streams import load_stream
from secl.gates import Always
from secl.prompts.templates import answer_prompt
from secl.question import Question
from secl.records import Record
from secl.signals import NormalisedPTrue
from tests.backends.local.conftest import MakeModel
from tests.conftest import ROOT
from tests.tiny import TEMPLATE, tiny_model, tiny_tokenizer

pytestmark = pytest.mark.heavy

FAMILIES = {
    "llama": ("q_proj", "v_proj"),
    "gemma2": ("q_proj", "v_proj"),
    "qwen2": ("q_proj", "v_proj"),
    "phi3": ("qkv_proj",),
}


def agree(rows: list[dict[str, Any]], records: list[Record], tolerance: float) -> None:
    for row, record in zip(rows, records, strict=True):
        assert row["answer"] == record.reply.answer
        assert row["frozen_answer"] == record.frozen.answer
        assert row["confidence"] == pytest.approx(record.reply.confidence, abs=tolerance)
        assert row["frozen_confidence"] == pytest.approx(record.frozen.confidence, abs=tolerance)
        assert row["entropy"] == pytest.approx(record.reply.entropy, abs=10 * tolerance)
        assert row.get("norm_p_true") == (record.signal and pytest.approx(record.signal, abs=tolerance))
        assert (row.get("target") is None) == (record.update is None)
        if record.update is not None:
            assert row["target"] == pytest.approx(record.update.target, abs=tolerance)


def as_rows(questions: list[Question]) -> list[dict[str, Any]]:
    return [{"question": question.text, "options": question.options} for question in questions]


def test_bursts_by_hand_are_those_of_the_library(make_model: MakeModel) -> None:
    questions = quiz("capitals", 12, 5)
    gate = gates.PageHinkley(threshold=0.001, epsilon=0.0, warmup=2, burst=3, restart="all")
    hand = ByHand(tiny_model("llama"), tiny_tokenizer(), (2, 3), FAMILIES["llama"])
    records = list(Calibrator(make_model("llama"), gate=gate, signal=NormalisedPTrue(0.7)).run(questions))
    detector = PageHinkley(threshold=0.001, epsilon=0.0, warmup=2, burst=3)
    agree(list(secl(hand, as_rows(questions), gate="page-hinkley", detector=detector)), records, 1e-5)
    assert 0 < sum(record.decision.in_burst for record in records) < len(records)


@pytest.mark.parametrize("family", ["llama", "phi3"])
def test_the_library_gives_the_records_of_the_method_by_hand(family: str, make_model: MakeModel) -> None:
    questions = [*quiz("capitals", 12, 5), *quiz("misconceptions", 8, 5)]
    hand = ByHand(tiny_model(family), tiny_tokenizer(), (2, 3), FAMILIES[family])
    records = list(Calibrator(make_model(family), gate=Always(), signal=NormalisedPTrue(0.7)).run(questions))
    agree(list(secl(hand, as_rows(questions))), records, 1e-5)
    assert sum(record.outcome == "trained" for record in records) >= 5


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
    by_hand = load(smollm2, dtype="fp32")
    hand = ByHand(by_hand.model, by_hand.tokenizer, range(26, 30), FAMILIES["llama"])
    rows = list(secl(hand, as_rows(questions)))
    model = LocalModel.load(smollm2, dtype="fp32")
    records = list(Calibrator(model, gate=Always(), signal=NormalisedPTrue(0.7)).run(questions))
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
