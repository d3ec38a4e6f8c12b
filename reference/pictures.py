"""Draws the pictures of the concepts that show what the library computes, into docs/pictures/.

    secl run --method posterior --benchmarks capitals:120 --out RUN
    python -m reference.pictures RUN POSITION      # the question of the posterior's picture

The two others that stand there are drawn by hand.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from secl.gates import EntropyShift, replay
from secl.metrics.probability import bin_index, directional_target
from secl.posterior.views import likelihood
from secl.records import Record
from secl.reports.figures.drawing import BLUE, GREY, ORANGE, SKY, VERMILLION, new_figure
from secl.runs.store import Store

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
BURST = "#fbe9c4"
SIGNAL, ALPHA, DELTA = 0.3, 0.5, 0.15


def gate() -> Figure:
    """Entropies that rise, the statistic of the default gate, and its bursts."""
    generator = np.random.default_rng(7)
    entropies = generator.normal(1.6, 0.12, 300)
    entropies[150:] += 0.24
    rule = EntropyShift()
    decisions = replay(rule, entropies.tolist())
    statistics = [np.nan if decision.statistic is None else decision.statistic for decision in decisions]
    figure = new_figure(9.2, 4.2)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for panel in (upper, lower):
        for alarm in (place for place, decision in enumerate(decisions) if decision.alarm):
            panel.axvspan(alarm, alarm + rule.burst, color=BURST)
            panel.text(alarm + 2, 0.98, "burst", transform=panel.get_xaxis_transform(), va="top", color="#b36b00")
    upper.plot(entropies, ".", color=BLUE, markersize=4)
    upper.axvline(150, color=GREY, linestyle=":")
    upper.text(148, 0.03, "the questions change", transform=upper.get_xaxis_transform(), ha="right", color="#59616b")
    upper.set_ylabel("entropy (nats)")
    lower.plot(statistics, color=BLUE)
    lower.axhline(rule.threshold, color=VERMILLION, linestyle="--")
    lower.text(299, rule.threshold + 0.3, "threshold", ha="right", color=VERMILLION)
    lower.set(ylabel="evidence (spreads)", xlabel="question", ylim=(0, rule.threshold + 2.5), xlim=(0, 300))
    return figure


def lesson() -> Figure:
    """Where a lesson pulls a stated confidence, and where several lessons take it."""
    stated = np.linspace(0.05, 0.95, 361)
    figure = new_figure(9.2, 3.6)
    left, right = figure.subplots(1, 2)
    targets = [_target(c) for c in stated]
    left.plot(stated, stated, color=GREY, linestyle=":")
    left.plot(stated, targets, color=BLUE)
    left.axhline(SIGNAL, color=ORANGE)
    left.text(0.94, SIGNAL + 0.02, "signal", ha="right", color="#b36b00")
    left.text(0.29, 0.56, "bin gate:\nnothing is learned", ha="center", color="#59616b")
    left.text(0.74, 0.8, "as stated", ha="right", color="#59616b")
    left.text(0.76, 0.6, "target", color=BLUE)
    left.set(xlabel="stated confidence", ylabel="target", xlim=(0.05, 0.95), ylim=(0.05, 0.95))
    path = [0.85]
    while _target(path[-1]) != path[-1]:
        path.append(_target(path[-1]))
    right.plot(path, "o-", color=BLUE)
    right.axhline(SIGNAL, color=ORANGE)
    right.text(0, SIGNAL + 0.02, "signal", color="#b36b00")
    right.text(len(path) - 1, path[-1] - 0.07, "agreed", ha="right", color=BLUE)
    right.set(xlabel="lessons", ylabel="stated confidence", ylim=(0.05, 0.95))
    return figure


def _target(stated: float) -> float:
    """The target of a stated confidence; itself where the bin gate holds it back."""
    held = abs(bin_index(stated) - bin_index(SIGNAL)) <= 1
    return stated if held else directional_target(stated, SIGNAL, ALPHA, DELTA)


def posterior(record: Record) -> Figure:
    """The letters of both orders, the likelihoods, and the posterior of a question's options."""
    question, evidence = record.question, record.evidence.candidates
    if evidence is None or record.posterior is None:
        raise SystemExit("this question has no posterior; take a run of the method posterior.")
    places = np.arange(len(question.options))
    figure = new_figure(9.2, 2.9)
    letters, texts, result = figure.subplots(1, 3, sharey=True)
    letters.barh(places - 0.2, np.exp(record.frozen.option_log_p), 0.38, color=BLUE, label="as asked")
    letters.barh(places + 0.2, np.exp(evidence.letters[0].log_p), 0.38, color=SKY, label="reversed")
    letters.set(title="probability of its letter", xlim=(0, 1))
    letters.legend(frameon=False)
    scores = np.array(likelihood(evidence, record.frozen, record.evidence), dtype=np.float64)
    texts.barh(places, scores - scores.mean(), 0.6, color=BLUE)
    texts.axvline(0, color=GREY)
    texts.set(title="likelihood (nats a token)")
    result.barh(places, record.posterior.probabilities, 0.6, color=BLUE)
    result.set(title="posterior", xlim=(0, 1))
    letters.invert_yaxis()
    letters.set_yticks(places, question.options)
    for letter, label in zip(question.letters, letters.get_yticklabels(), strict=True):
        label.set_fontweight("bold" if letter == question.reference else "normal")
    figure.suptitle(question.text)
    return figure


def write(name: str, figure: Figure) -> None:
    """Write a picture as NAME.svg, with its text as text and without a date."""
    text = io.StringIO()
    style: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "secl", "font.sans-serif": ["DejaVu Sans"]}
    with matplotlib.rc_context(style):
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    (FOLDER / f"{name}.svg").write_text(text.getvalue(), encoding="utf-8")


if __name__ == "__main__":
    write("gate", gate())
    write("lesson", lesson())
    with Store(Path(sys.argv[1])) as store:
        write("posterior", posterior(store.record(int(sys.argv[2]))))
