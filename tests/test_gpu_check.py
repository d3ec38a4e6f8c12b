"""The check of a GPU runs to its end on a processor, so that it does not fail on its first day for a silly reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks import gpu


@pytest.mark.slow
def test_every_part_runs_with_tiny_models_on_a_processor(tmp_path: Path) -> None:
    allowed = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    code = gpu.main(["--device", "cpu", "--tiny", "--out", str(tmp_path / "gpu.json")])
    torch.backends.cuda.enable_cudnn_sdp(allowed)
    rows = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert [row["check"] for row in rows] == [*gpu.PARTS]
    assert not [row for row in rows if row["ok"] is False]
    assert code == 0


def test_a_part_that_fails_or_takes_too_long_is_a_row_and_a_machine_without_a_gpu_is_told_in_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_place: gpu.Place) -> gpu.Row:
        raise RuntimeError("no kernel\nfor this")

    assert gpu.checked(gpu.Place("cpu", "", tiny=True), fail, 5) == gpu.Row("RuntimeError: no kernel", ok=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main([]) == 0
    assert capsys.readouterr().out.startswith("There is no GPU here; ")
