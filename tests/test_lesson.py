"""What is learned from one answer."""

from __future__ import annotations

import pytest

from secl.calibrator.lesson import teach
from secl.question import Question
from secl.records import Reply
from secl.settings.groups import LoopSettings
from secl.testing import ScriptedModel

QUESTION = Question("Which?", options=("one", "two"))
REPLY = Reply(
    text="A", answer="A", bins=(0, 0, 1, 0, 0, 0, 0, 0, 0, 0), digit_mass=1.0, entropy=1.0, log_probability=-1.0
)


@pytest.mark.parametrize(
    ("rule", "signal", "target"),
    [
        (LoopSettings(), 0.72, 0.25 + 0.5 * 0.15),
        (LoopSettings(delta=1.0), 0.72, 0.25 + 0.5 * (0.72 - 0.25)),
        (LoopSettings(alpha=0.25, delta=0.02), 0.01, 0.25 - 0.25 * 0.02),
        (LoopSettings(delta=1.0, signal_bins="centre"), 0.72, 0.25 + 0.5 * (0.75 - 0.25)),
        (LoopSettings(loss="mse", signal_bins="centre"), 1.0, 0.95),
        (LoopSettings(loss="mse"), 1.0, 1.0),
    ],
)
def test_the_target_is_bounded_and_may_aim_at_the_centre_of_the_signals_bin(
    rule: LoopSettings, signal: float, target: float
) -> None:
    model = ScriptedModel()
    model.answer(QUESTION)
    outcome, update = teach(model, QUESTION, REPLY, signal, rule)
    assert outcome == "trained"
    assert update is not None
    assert update.target == pytest.approx(target)


def test_neighbouring_bins_agree_whatever_their_centres() -> None:
    assert teach(ScriptedModel(), QUESTION, REPLY, 0.39, LoopSettings(signal_bins="centre")) == ("agreed", None)
