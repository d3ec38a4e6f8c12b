"""The words of a report's page, explained on the page itself: it stands alone, so it can link to no glossary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from secl.reports.run_report import RunReport
from secl.reports.table import Cell, Column, Table


@dataclass(frozen=True, slots=True)
class Word:
    """A word, or several that explain each other.

    Attributes:
        text: the word.
        meaning: a sentence or more.
        used: whether the page of a run has it.
    """

    text: str
    meaning: str
    used: Callable[[RunReport], bool]


def _has(*names: str) -> Callable[[RunReport], bool]:
    """Whether a run has one of these estimators."""
    return lambda run: any(name in run.summary.estimators for name in names)


WORDS = (
    Word(
        "Stated, frozen",
        "What the model says when it is asked how sure it is: the expected value of the ten digits that it could say. "
        "The frozen model is the one that was loaded, without anything learned.",
        _has("stated"),
    ),
    Word(
        "Adapted",
        "The same model with the small adapter (LoRA) that this run has trained.",
        lambda run: run.learned,
    ),
    Word(
        "P(True), normalised P(True)",
        "The probability of the word True where the frozen model is asked whether an answer is correct. Normalised: "
        "the share of the answer among all candidates.",
        lambda run: any(record.evidence.p_true is not None for record in run.records),
    ),
    Word(
        "Posterior, candidates, best answer",
        "The probability of each candidate (an option, or an answer that the model listed), by all that the frozen "
        "model says when it is asked in several ways, weighed without labels. The best answer is the most probable "
        "candidate; the model's own answer may be another.",
        lambda run: bool(run.posterior_notes),
    ),
    Word(
        "Gate, alarm, burst",
        "The gate watches how undecided the replies are (their entropy, in nats). Where that changes it raises an "
        "alarm, and a burst begins: the questions from which the model may learn.",
        lambda run: run.watched,
    ),
    Word(
        "Signal, target, bin gate, trained",
        "Inside a burst the stated confidence is moved towards the signal by a bounded step, to the target. Where both "
        "lie in the same tenth or in neighbouring ones, the bin gate lets nothing be learned. Trained are the "
        "questions that changed the weights.",
        lambda run: run.learned,
    ),
    Word(
        "Brier score",
        "The mean of (confidence - grade) squared, where a right answer has the grade 1 and a wrong one 0. Lower is "
        "better; saying 50% of everything gives 0.25.",
        lambda run: run.graded,
    ),
    Word(
        "ECE, floor",
        "Expected calibration error: how far confidence and share of right answers lie apart, over ten bins of the "
        "confidence. Its floor is what chance alone gives a perfectly calibrated confidence.",
        lambda run: run.graded,
    ),
    Word(
        "AUROC",
        "The probability that a right answer has a higher confidence than a wrong one: 0.5 is chance, 1 a perfect "
        "order.",
        lambda run: run.graded,
    ),
    Word(
        "Letter probability, likelihood",
        "The probability of the letter that was answered, under the order in which the options were asked or averaged "
        "over several orders; and how probable the option is as a text, compared with the others.",
        _has("letter_probability", "order_averaged", "likelihood"),
    ),
    Word(
        "Self-consistency, DINCO",
        "How many of ten further answers agree; and the model's belief in an answer against that in its rivals, which "
        "a search for probable answers finds.",
        _has("self_consistency", "dinco"),
    ),
    Word(
        "Constant, temperature and Platt scaling",
        "What costs nothing beside the stated confidence: one number for all questions, and maps of one or two numbers "
        "from confidence to confidence. With a star they are fitted to right answers; label-free maps are fitted to "
        "normalised P(True) along the stream.",
        _has("constant", "stated_platt", "label_free_platt"),
    ),
)
"""In the order in which the page has them."""


def words_table(runs: Sequence[RunReport]) -> Table:
    """The words that the page of some runs has, with their meanings."""
    rows = [[Cell(word.text), Cell(word.meaning)] for word in WORDS if any(map(word.used, runs))]
    return Table([Column("Word", text=True, wraps=True), Column("Meaning", text=True, wraps=True)], {"": rows})
