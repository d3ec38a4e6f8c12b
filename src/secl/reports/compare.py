"""Two confidences over the same questions, side by side: two runs, or before against after in one (`secl compare`)."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from secl.data.grading import answer_key
from secl.errors import RunError
from secl.metrics.paired_bootstrap import FEWEST, FEWEST_OF_A_KIND, Difference, paired_differences
from secl.records import Record
from secl.reports.estimators import Reading
from secl.reports.tables import UNDEFINED
from secl.signals import DincoSignal, SelfConsistency, Signal

if TYPE_CHECKING:
    from rich.table import Table

Key = tuple[str, str]
"""What makes two questions the same one: id and text."""

LABELS = {
    "ece": "ECE",
    "ada_ece": "AdaECE",
    "brier": "Brier",
    "auroc": "AUROC",
    "accuracy": "Accuracy",
    "mean_confidence": "Mean confidence",
}
"""What people call the measures."""

NOTE = (
    "Differences have 95% paired bootstrap intervals over questions; * excludes 0. They reach equally far to both "
    "sides, because the ECE of few answers is biased, and end at -1 and 1. Fewer than "
    f"{FEWEST} questions have none, nor has AUROC with fewer than {FEWEST_OF_A_KIND} right or wrong answers."
)
"""What a reader must know about a table of differences."""

_FROZEN = ("stated", "answer_probability", "token_entropy", "label_free")
"""How the names of readings begin that are about the frozen model's answer."""

_OWN: Mapping[str, Signal] = {"self_consistency": SelfConsistency("mode"), "dinco": DincoSignal("beam")}
"""Readings that answer for themselves."""


@dataclass(frozen=True)
class Side:
    """One of the two confidences.

    Attributes:
        records: of its run, in order.
        total: questions of the whole run; more than the records where it is unfinished.
        name: of the reading, for example "secl".
        reading: how the confidence is read off the records.
    """

    records: Sequence[Record]
    total: int
    name: str
    reading: Reading

    def by_question(self) -> dict[Key, Record]:
        """The records, found by their question."""
        return {(record.question.id, record.question.text): record for record in self.records}

    def answer(self, record: Record) -> object:
        """The answer that the confidence is about, equal for answers that count as the same; None if unreadable."""
        reply = record.frozen if self.name.startswith(_FROZEN) else record.reply
        signal = _OWN.get(self.name)
        answer = reply.answer if signal is None else signal.answer(record.question, reply, record.evidence)
        if answer is None:
            return None
        # The options of a question can stand in another order in the other run.
        return record.question.option(answer) if record.question.options else answer_key(answer, record.question.form)


@dataclass(frozen=True, slots=True)
class Comparison:
    """How the confidence of side b differs from that of side a.

    Attributes:
        shared: questions answered in both runs.
        unfinished: whether a run has questions left, so that there will be more.
        graded: shared questions with a graded confidence on both sides: those that the measures are about.
        answers_differ: shared questions whose answers are not the same.
        measures: {measure: difference}, over all graded questions.
        domains: {domain: (graded questions, difference in ECE)}, in order of appearance.
    """

    shared: int
    unfinished: bool
    graded: int
    answers_differ: int
    measures: dict[str, Difference]
    domains: dict[str, tuple[int, Difference]]


def compare(a: Side, b: Side, *, resamples: int = 1000, seed: int = 0) -> Comparison:
    """Paired differences of two confidences over the questions that both runs have answered.

    Questions are matched by id and text, so the runs may have asked them in different orders.

    Args:
        a, b: the sides; differences are b - a.
        resamples: bootstrap draws of the intervals.
        seed: of the bootstrap.

    Raises:
        RunError: the runs do not ask the same questions, have none in common so far, or no question that they share
            is graded on both sides.
    """
    of_a, of_b = a.by_question(), b.by_question()
    shared = _shared(a, b)
    pairs = [_graded(a, of_a), _graded(b, of_b)]
    graded = [key for key in shared if all(key in found for found in pairs)]
    if not graded:
        raise RunError(
            f"none of the {len(shared)} questions that both runs have answered is graded on both sides, so there is "
            "nothing to measure; compare runs over questions with right answers."
        )

    def measures(keys: Sequence[Key]) -> dict[str, Difference]:
        (confidence_a, correct_a), (confidence_b, correct_b) = (
            zip(*(found[key] for key in keys), strict=True) for found in pairs
        )
        return paired_differences(confidence_a, correct_a, confidence_b, correct_b, resamples=resamples, seed=seed)

    domains: dict[str, list[Key]] = {}
    for key in graded:
        domains.setdefault(of_a[key].question.domain, []).append(key)
    return Comparison(
        shared=len(shared),
        unfinished=len(a.records) < a.total or len(b.records) < b.total,
        graded=len(graded),
        answers_differ=sum(a.answer(of_a[key]) != b.answer(of_b[key]) for key in shared),
        measures=measures(graded),
        domains={domain: (len(keys), measures(keys)["ece"]) for domain, keys in domains.items()},
    )


def _shared(a: Side, b: Side) -> list[Key]:
    """The questions answered by both, in the order of a; one that only one has must still be ahead in the other."""
    if a.total != b.total:
        raise RunError(
            f"the runs do not ask the same questions: the first asks {a.total} and the second {b.total}; compare runs "
            "over one stream."
        )
    of_a, of_b = a.by_question(), b.by_question()
    only_a = [key for key in of_a if key not in of_b] if len(b.records) >= b.total else []
    only_b = [key for key in of_b if key not in of_a] if len(a.records) >= a.total else []
    if only_a or only_b:
        counts = [
            f"{len(only)} of the {len(side.records)} that the {which} has answered are not in the {other}"
            for only, side, which, other in ((only_a, a, "first", "second"), (only_b, b, "second", "first"))
            if only
        ]
        raise RunError(f"the runs do not ask the same questions: {' and '.join(counts)}; compare runs over one stream.")
    shared = [key for key in of_a if key in of_b]
    if not shared:
        raise RunError("the runs have no answered question in common so far; finish them with secl run --resume.")
    return shared


def _graded(side: Side, records: Mapping[Key, Record]) -> dict[Key, tuple[float, bool]]:
    """Confidence and grade of the questions that have both."""
    series = side.reading.read(side.records)
    rows = zip(series.places, series.confidence, series.correct, strict=True)
    found = {place: (confidence, correct) for place, confidence, correct in rows if correct is not None}
    return {key: found[record.position] for key, record in records.items() if record.position in found}


def comparison_json(found: Comparison) -> dict[str, Any]:
    """A comparison as JSON values; whatever is undefined is None."""
    return {
        "shared": found.shared,
        "unfinished": found.unfinished,
        "graded": found.graded,
        "answers_differ": found.answers_differ,
        "measures": {name: difference_json(each) for name, each in found.measures.items()},
        "domains": {domain: {"n": n, "ece": difference_json(each)} for domain, (n, each) in found.domains.items()},
    }


def difference_json(found: Difference) -> dict[str, Any]:
    """A difference as JSON values; whatever is undefined is None.

    >>> from secl.metrics.bootstrap import Interval
    >>> difference_json(Difference(0.25, 0.5, Interval(math.nan, math.nan)))
    {'a': 0.25, 'b': 0.5, 'difference': 0.25, 'interval': None}
    """
    values = {"a": found.a, "b": found.b, "difference": found.difference}
    interval = None if math.isnan(found.interval.low) else [found.interval.low, found.interval.high]
    return {name: None if math.isnan(value) else value for name, value in values.items()} | {"interval": interval}


def comparison_table(found: Comparison) -> Table:
    """The table of a comparison: all measures, then the ECE of each domain where there are several."""
    sections = {"": {LABELS[measure]: each for measure, each in found.measures.items()}}
    if len(found.domains) > 1:
        sections["ECE by domain"] = {f"{domain} ({n})": each for domain, (n, each) in found.domains.items()}
    return difference_table(("A", "B"), sections, NOTE)


def remarks(found: Comparison) -> list[str]:
    """What a reader must know beside the table, a sentence each."""
    lines = [f"{found.answers_differ} of {found.shared} answers differ."]
    if found.unfinished:
        lines.insert(0, f"Unfinished: these are the {found.shared} questions that both runs have answered so far.")
    if found.graded < found.shared:
        lines.append(f"{found.shared - found.graded} of {found.shared} questions are not graded on both sides.")
    if math.isnan(found.measures["auroc"].difference):
        lines.append(f"AUROC is undefined ({UNDEFINED}) where all answers are right or all are wrong.")
    return lines


def plain_text(text: str) -> str:
    """Text of questions and answers that a terminal shows and does not obey: control characters are written out.

    >>> print(plain_text("bio\x1b[2Jlogy\\n"))
    bio\\x1b[2Jlogy\\n
    """
    return "".join(_written_out(each) if _commands(each) else each for each in text)


def _commands(character: str) -> bool:
    """Whether it is a control, half of a surrogate pair, a line end, or turns the direction of writing."""
    if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
        return True
    return unicodedata.bidirectional(character) in {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}


def _written_out(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def difference_table(headings: tuple[str, str], sections: Mapping[str, Mapping[str, Difference]], note: str) -> Table:
    """A rich table of differences that fits 80 columns, a row each; what is undefined is a dash.

    Names and intervals take several lines where it is narrow, and no number is cut down to 52 columns.

    Args:
        headings: of a and of b.
        sections: {heading of a group of rows: {name of a row: difference}}; an empty heading is left out.
        note: stands below the table.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.caption, table.caption_justify = note, "left"
    for place, heading in enumerate(("", *headings, "Difference", "95% interval", "")):
        # Were only the names to wrap, they would be squeezed to nothing.
        wraps = place in (0, 4)
        table.add_column(heading, justify="right" if 0 < place < 5 else "left", no_wrap=not wraps, overflow="fold")
    for section, rows in sections.items():
        if section:
            table.add_row(Text(plain_text(section), style="bold"))
        for name, found in rows.items():
            low, high = found.interval.low, found.interval.high
            table.add_row(
                Text(plain_text(name)),
                _number(found.a),
                _number(found.b),
                _number(found.difference, "+"),
                UNDEFINED if math.isnan(low) else f"{low:+.3f} to {high:+.3f}",
                "*" if found.rises or found.falls else "",
            )
    return table


def _number(value: float, sign: str = "") -> str:
    return UNDEFINED if math.isnan(value) else f"{value:{sign}.3f}"
