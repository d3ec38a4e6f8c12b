"""False-positive and true-positive rates of the sentences in reports about confidences.

    python -m benchmarks.sentences [--streams 100] [RUN ...]

Streams of answers are simulated, or drawn from the graded answers of runs. The library's own functions make the
sentences. docs/lab/log.md has a summary.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.stats import beta

import secl
from benchmarks.study import heading, in_a_sentence, row
from secl import Record
from secl.evaluation.compare import decide
from secl.evaluation.symptoms import seen, seen_in_one
from secl.evaluation.trust import from_grades
from secl.gates import Never
from secl.grading.rules import reported_correct
from secl.metrics.intervals import paired_differences
from secl.metrics.measures import auroc
from secl.metrics.risk_control import guaranteed, labels_needed, nearest_risk, risk_coverage
from secl.reports.result import estimate_share
from secl.runs import Store
from secl.testing import ScriptedModel

Vector = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], tuple[Vector, Vector]]
Say = Callable[[int, int], set[str]]

SIZES = (20, 30, 100, 300)
CODES = ("overconfident", "underconfident", "miscalibrated", "weak", "chance", "inverted")
LINES = (*CODES, "separate", "not told", "fine", "do not act", "share within")


def world(right: Callable[[Vector], Vector], first: float = 3.0, second: float = 2.0) -> Draw:
    """Return a draw of Beta confidences; `right` maps them to the answers' probabilities of being right."""

    def draw(generator: np.random.Generator, count: int) -> tuple[Vector, Vector]:
        confidence = generator.beta(first, second, count)
        return confidence, (generator.random(count) < right(confidence)).astype(np.float64)

    return draw


def moved(points: float) -> Callable[[Vector], Vector]:
    """Return a `right` for confidences that are `points` percentage points too high; probabilities stay in [0, 1]."""
    return lambda confidence: np.clip(confidence - points / 100, 0.0, 1.0)


WORLDS: dict[str, Draw] = {
    "calibrated, AUROC .72": world(moved(0)),
    "calibrated, AUROC .60": world(moved(0), 15, 10),
    "10 points too high": world(moved(10)),
    "20 points too high": world(moved(20)),
    "30 points too high": world(moved(30)),
    "10 points too low": world(moved(-10), 2, 3),
    "20 points too low": world(moved(-20), 2, 3),
    "twice too sure, mean right": world(lambda c: 0.6 + (c - 0.6) / 2, 1.2, 0.8),
    "AUROC .50, mean right": world(lambda c: np.full(len(c), 0.6)),
}


def of_run(folder: Path, confidence: Callable[[Record], float]) -> Draw:
    """Return a draw from the graded answers of a run, without replacement."""
    with Store(folder) as store:
        known = [(confidence(r), right) for r in store.records() if (right := reported_correct(r)) is not None]
    answers = np.array(known, dtype=np.float64)

    def draw(generator: np.random.Generator, count: int) -> tuple[Vector, Vector]:
        chosen = answers[generator.permutation(len(answers))[:count]]
        return chosen[:, 0], chosen[:, 1]

    return draw


def said(draw: Draw, size: int, seed: int) -> set[str]:
    """Return codes of the sentences in the verdict and in the report about `size` graded answers."""
    confidence, correct = draw(np.random.default_rng(seed), size)
    verdict = from_grades(list(zip(confidence.tolist(), (correct > 0).tolist(), strict=True)))
    found = {str(reason.code) for reason in verdict.reasons} & {*CODES}
    if any(each.code == "few_labels" and "more" not in each.values for each in verdict.reasons):
        found.add("not told")
    elif not found & {"chance", "inverted"}:
        found.add("separate")
    found |= {"do not act"} if verdict.level == "do not act on it" else {"fine"} if verdict.level == "fine" else set()
    _, low, high = estimate_share(confidence.tolist())
    return found | ({"share within"} if low <= correct.mean() <= high else set())


def said_of_texts(count: int, seed: int, *, together: bool, by_text: bool) -> set[str]:
    """Return codes of the verdict about calibrated facts of `count` texts, each of 1 to 20 facts.

    Args:
        together: whether the facts of a text are wrong together, up to a chance that the text draws once.
        by_text: whether the verdict knows the text of each fact.
    """
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, 21, count)
    texts = np.repeat(np.arange(count), sizes)
    confidence = generator.beta(3, 2, len(texts))
    chance = np.repeat(generator.random(count), sizes) if together else generator.random(len(texts))
    graded = list(zip(confidence.tolist(), (chance < confidence).tolist(), strict=True))
    verdict = from_grades(graded, units=texts.tolist() if by_text else None, noun="fact")
    found = {str(reason.code) for reason in verdict.reasons} & {*CODES}
    return found | ({"do not act"} if verdict.level == "do not act on it" else set())


def orders(folder: Path) -> str:
    """Return the accuracies of own answers that the model gives in all orders of the options, and of other answers."""
    grades: dict[bool, list[bool]] = {True: [], False: []}
    with Store(folder) as store:
        for record in store.records():
            codes = {each.code for each in seen_in_one(record)}
            if record.correct is not None:
                grades["same_letter" not in codes].append(record.correct)
    same, other = (f"{sum(grades[each])} of {len(grades[each])}" for each in (True, False))
    return f"{folder.name}: right {same} own answers that all orders choose, {other} of the rest"


def table(title: str, lines: Sequence[str], cases: Mapping[str, Say], streams: int, sizes: Sequence[int]) -> None:
    """Print the percentage of streams with each sentence; a case maps size and number of a stream to its sentences."""
    print(f"\n{title}, % of the streams\n\n{heading('world', 'n', *lines)}")
    for name, say in cases.items():
        for size in sizes:
            counts = Counter(sentence for stream in range(streams) for sentence in say(size, stream))
            print(row(name, size, *(f"{100 * counts[line] / streams:.0f}" for line in lines)), flush=True)


PAIRS: dict[str, tuple[float, float]] = {"equally good": (0.6, 0.6), "B better": (1.0, 0.5), "B worse": (0.5, 1.0)}
"""Standard deviations of the confidences A and B around the probability of being right, in logits."""
TEXT_SIZES = (30, 100)
"""Numbers of texts."""
COMPARED = ("Brier falls *", "Brier rises *", "AUROC *", "adapt", "do not adapt", "cannot tell")


def compared(noise: tuple[float, float], size: int, seed: int) -> set[str]:
    """Return the stars of `secl compare` and the recommendation of `secl check`, for two confidences of the same
    answers."""
    generator = np.random.default_rng(seed)
    logit = generator.normal(0.3, 1.2, size)
    correct = (generator.random(size) < 1 / (1 + np.exp(-logit))).astype(np.float64)
    a, b = (1 / (1 + np.exp(-logit - sd * generator.normal(size=size))) for sd in noise)
    found = paired_differences(a, correct, b, correct)
    stars = (found["brier"].falls, found["brier"].rises, found["auroc"].falls or found["auroc"].rises)
    return {name for name, star in zip(COMPARED, stars, strict=False) if star} | {decide(found)}


PROMISED = ("lowest promise", "broken", "labels needed", "enough")


def promised(size: int, seed: int) -> set[str]:
    """Return the entries of `PROMISED` that are true of the lowest risk that `secl threshold` guarantees, and of its
    number of labels for a risk of 20%."""
    generator, found = np.random.default_rng(seed), set()
    curve = risk_coverage(*WORLDS["calibrated, AUROC .72"](generator, size))
    lowest = nearest_risk(curve, 0.9)
    if lowest is not None and (threshold := guaranteed(curve, lowest, 0.9)) is not None:
        # The true risk above the threshold, for calibrated confidences from Beta(3, 2).
        true = 1 - 0.6 * beta.sf(threshold.value, 4, 2) / beta.sf(threshold.value, 3, 2)
        found |= {"lowest promise"} | ({"broken"} if true > lowest else set())
    needed = labels_needed(curve, 0.2, 0.9)
    if needed is not None and size < needed < 5000:
        more = risk_coverage(*WORLDS["calibrated, AUROC .72"](generator, needed))
        found |= {"labels needed"} | ({"enough"} if guaranteed(more, 0.2, 0.9) else set())
    return found


def over_time(draw: Draw, labels: int, seed: int) -> set[str]:
    """Return what a server says at some look: it looks at the latest 100 labels after every 10 labels."""
    confidence, correct = draw(np.random.default_rng(seed), labels)
    pairs = [(float(each), bool(right)) for each, right in zip(confidence, correct, strict=True)]
    verdicts = [from_grades(pairs[end - 100 : end]) for end in range(100, labels + 1, 10)]
    said = {"do not act" for verdict in verdicts if verdict.level == "do not act on it"}
    return said | {"doubt" for verdict in verdicts if {*verdict.codes} - {"unlabelled", "few_labels"}}


LETTERS = {
    "options decide": (0.0, 0.25),
    "keys skewed": (0.0, 0.4),
    "B on half": (0.5, 0.25),
    "B on 3 of 4": (0.75, 0.25),
}
"""Share of questions that the model answers with B whatever the options; share of B among its other answers."""


def letters(template: Record, always: float, among: float, size: int, seed: int) -> set[str]:
    """Return codes of the symptoms that `secl.evaluation.symptoms.seen` finds in a stream of letters."""
    generator, rest, records = np.random.default_rng(seed), (1 - among) / 3, []
    for place in range(size):
        letter = "B" if generator.random() < always else generator.choice(list("BACD"), p=(among, rest, rest, rest))
        question = secl.Question("Which?", options=tuple(f"{text} {place}" for text in "abcd"), id=str(place))
        reply = replace(template.reply, answer=str(letter))
        records.append(replace(template, position=place, question=question, reply=reply, learning=None))
    return {reason.code for reason in seen(records)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN")
    parser.add_argument("--streams", type=int, default=100)
    chosen = parser.parse_args()
    worlds = {} if chosen.runs else dict(WORLDS)
    for run in chosen.runs:
        worlds |= {f"{run.name}, stated": of_run(run, lambda record: record.reply.stated)}
        worlds |= {f"{run.name}, reported": of_run(run, lambda record: record.confidence)}
    for name, draw in worlds.items():
        confidence, correct = draw(np.random.default_rng(0), 20_000)
        means = f"mean {confidence.mean():.3f}, right {correct.mean():.3f}, AUROC {auroc(confidence, correct):.2f}"
        print(f"{name}: {len(correct)}, {means}")
    sizes = SIZES[:3] if chosen.runs else SIZES
    table("Verdicts", LINES, {name: partial(said, draw) for name, draw in worlds.items()}, chosen.streams, sizes)
    if chosen.runs:
        print("", *map(orders, chosen.runs), sep="\n")
        return
    kinds = {"independent": False, "wrong together": True}
    of_texts = {
        f"facts {name}, {'one of each text' if by_text else 'all facts'}": partial(
            said_of_texts, together=together, by_text=by_text
        )
        for name, together in kinds.items()
        for by_text in (False, True)
    }
    table("Calibrated facts of texts", (*CODES, "do not act"), of_texts, chosen.streams, TEXT_SIZES)
    pairs = {name: partial(compared, noise) for name, noise in PAIRS.items()}
    table("Two confidences of the same answers", COMPARED, pairs, chosen.streams, SIZES[1:])
    table("Thresholds", PROMISED, {"calibrated": promised}, chosen.streams, SIZES[1:])
    calibrated = partial(over_time, WORLDS["calibrated, AUROC .72"])
    table(
        "A server's verdict over time", ("doubt", "do not act"), {"calibrated": calibrated}, chosen.streams, (100, 1000)
    )
    calibrator = secl.learning.Calibrator(ScriptedModel(), method="secl", gate=Never(), learns=False)
    template = calibrator.answer(secl.Question("What?"))
    worded = {name: partial(letters, template, *shares) for name, shares in LETTERS.items()}
    table("One letter for all", ("same_letter",), worded, chosen.streams, SIZES[1:])


if __name__ == "__main__":
    with in_a_sentence():
        main()
