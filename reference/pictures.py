"""Draws two pictures of the first page as SVG: how a confidence comes about, and how reliable confidences are.

    python -m reference.pictures RUN    # the run of a reliability diagram; without one, only the first picture

The numbers of the first picture are SmolLM2's in float32; `examples/posterior_by_hand.py` repeats them.
"""

from __future__ import annotations

import sys
from xml.sax.saxutils import escape

import numpy as np

import secl
from reference.outside import ROOT
from secl.metrics.probability import bin_index

PICTURES = ROOT / "docs" / "pictures"

STYLE = """
  text { font: 15px system-ui, sans-serif; fill: #1a1a1a } .small { font-size: 13px } .bold { font-weight: 600 }
  .soft { fill: #5a5a5a } .card { fill: #ffffff } .box { fill: #f3f6f9; stroke: #c3ccd6 } .bar { fill: #0072b2 }
  .faint { fill: #9cc7e4 } .line { stroke: #8a949e; fill: none; stroke-width: 1.5 } .good { fill: #007a5a }
  .stated { fill: #d55e00 } .axis { stroke: #8a949e } .review { fill: #b36b00 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6e6e6 } .soft { fill: #a5adb5 } .card { fill: #15191e } .box { fill: #1f262d; stroke: #46525e }
    .bar { fill: #4da6dd } .faint { fill: #2b5673 } .good { fill: #35c79b } .stated { fill: #f08a4b }
    .review { fill: #eba63c }
  }
"""
"""Colours of both themes; the background keeps the text readable on a page with the other theme."""

SHOWN = ("Quito", "La Paz", "Lima", "Santiago")
PERU = {"Lima": 0.75, "La Paz": 0.09, "Santiago": 0.09, "Quito": 0.07}
LETTERS = {"Lima": 0.23, "La Paz": 0.37, "Santiago": 0.20, "Quito": 0.20}
PER_TOKEN = {"Lima": 4.68, "La Paz": 0.41, "Santiago": 0.34, "Quito": -0.08}


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" class="box"/>'


def arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    return f'<path d="M{x:g} {y:g} L{to_x:g} {to_y:g}" class="line" marker-end="url(#head)"/>'


def bars(x: float, y: float, shares: dict[str, float], width: float, kind: str = "bar") -> str:
    """Return a bar and its number for each name, 22 pixels apart; the largest bar has the length `width`."""
    largest, parts = max(shares.values()), []
    for row, (name, share) in enumerate(shares.items()):
        at, length = y + 22 * row, max(2.0, width * share / largest)
        parts += [
            text(x, at + 12, name, "small"),
            f'<rect x="{x + 66:g}" y="{at:g}" width="{length:.1f}" height="14" class="{"faint" if row else kind}"/>',
            text(x + 72 + length, at + 12, f"{share:.2f}", "small soft"),
        ]
    return "".join(parts)


def svg(width: int, height: int, title: str, parts: list[str]) -> str:
    head = '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img"><title>{escape(title)}</title><style>{STYLE}</style><defs>{head}'
        '<path d="M0 0L8 4L0 8z" class="soft"/></marker></defs>'
        f'<rect width="{width}" height="{height}" rx="10" class="card"/>{"".join(parts)}</svg>\n'
    )


def overview() -> str:
    """Draw the way from a question to its readings, a probability for each answer, and a decision."""
    options = [
        text(34, 118 + 24 * n, f"{letter}. {name}") for n, (letter, name) in enumerate(zip("ABCD", SHOWN, strict=True))
    ]
    parts = [
        *(
            text(x, 34, name, "bold")
            for x, name in ((20, "Question"), (236, "Readings"), (532, "Probability"), (790, "Decision"))
        ),
        box(20, 50, 176, 160),
        text(34, 76, "What is the capital"),
        text(34, 95, "of Peru?"),
        *options,
        box(236, 50, 256, 126),
        text(250, 72, "letters, first of two orders", "small bold"),
        bars(250, 84, LETTERS, 110, "faint"),
        box(236, 188, 256, 126),
        text(250, 210, "likelihood of each text", "small bold"),
        bars(250, 222, PER_TOKEN, 110, "faint"),
        box(236, 326, 256, 62),
        text(250, 350, "open: further answers", "small bold"),
        text(250, 371, "numbers: a program", "small"),
        box(532, 110, 220, 150),
        text(546, 134, "softmax of a weighted sum", "small bold"),
        bars(546, 150, PERU, 88),
        box(790, 82, 150, 84),
        text(804, 108, "accept", "bold good"),
        text(804, 130, "confidence", "small"),
        text(804, 148, "≥ threshold", "small"),
        box(790, 204, 150, 84),
        text(804, 230, "review", "bold review"),
        text(804, 252, "or retry, or ask a", "small"),
        text(804, 270, "larger model", "small"),
        arrow(196, 113, 234, 113),
        arrow(196, 160, 234, 240),
        arrow(196, 200, 234, 345),
        arrow(492, 113, 530, 160),
        arrow(492, 250, 530, 200),
        arrow(492, 350, 530, 240),
        arrow(752, 165, 788, 128),
        arrow(752, 205, 788, 242),
        text(20, 240, "The model picks La Paz", "small soft"),
        text(20, 258, "and states 74 %.", "small soft"),
        text(532, 290, "Lima 75 %: the letters get", "small soft"),
        text(532, 308, "weight 0 in this model.", "small soft"),
    ]
    return svg(960, 404, "A question, its readings, one probability for each answer, and a decision", parts)


def reliability(run: str) -> str:
    """Draw accuracy by confidence, stated and posterior, for the same answers of a run."""
    with secl.runs.Store(run) as store:
        records = [record for record in store.records() if record.correct is not None]
    right = np.array([bool(record.correct) for record in records], dtype=np.float64)
    series = {
        "stated": np.array([record.frozen.stated for record in records]),
        "posterior": np.array([record.confidences.uncalibrated for record in records]),
    }
    parts = []
    for left, (name, confidence) in zip((64, 404), series.items(), strict=True):
        bins = np.array([bin_index(c) for c in confidence])
        gap = sum(abs(float((confidence - right)[bins == n].sum())) for n in range(10)) / len(right)
        parts += [
            text(left, 30, name, "bold"),
            text(left + 280, 30, f"ECE {gap:.2f}", "small soft", "end"),
            f'<rect x="{left}" y="44" width="280" height="280" class="box"/>',
            f'<path d="M{left} 324L{left + 280} 44" class="line" stroke-dasharray="5 4"/>',
        ]
        for n in range(10):
            chosen = bins == n
            if chosen.sum() >= 5:
                x, y = left + 280 * confidence[chosen].mean(), 324 - 280 * right[chosen].mean()
                radius = 3 + 22 * float(np.sqrt(chosen.mean()))
                kind = "stated" if name == "stated" else "bar"
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" class="{kind}" fill-opacity=".85"/>')
        parts += [text(left + 280 * t, 342, f"{t:g}", "small soft", "middle") for t in (0, 0.5, 1)]
        parts.append(text(left + 140, 362, "confidence", "small", "middle"))
    parts += [text(56, 328 - 280 * t, f"{t:g}", "small soft", "end") for t in (0, 0.5, 1)]
    parts.append(
        '<text x="0" y="0" class="small" text-anchor="middle" transform="translate(24 184) rotate(-90)">accuracy</text>'
    )
    return svg(712, 376, "Accuracy by confidence: stated, and posterior", parts)


if __name__ == "__main__":
    (PICTURES / "overview.svg").write_text(overview(), encoding="utf-8")
    for run in sys.argv[1:]:
        (PICTURES / "reliability.svg").write_text(reliability(run), encoding="utf-8")
