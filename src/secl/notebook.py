"""Records as people look at them: a table in a notebook, a data frame, and a progress bar while they are made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex, overload

from secl.calibrator import Calibrator
from secl.display import excerpt, html_table
from secl.errors import ParameterError
from secl.evaluation.summary import Summary, summarise
from secl.grading import reported_correct
from secl.question import Question
from secl.records import Record
from secl.runs.encoding import to_row
from secl.scoring import as_question

MOST = 50
"""Records that a notebook shows."""


class Records(list[Record]):
    """Records in a list that a notebook shows as a table.

    >>> import secl
    >>> calibrator = secl.Calibrator(secl.ScriptedModel())
    >>> records = secl.Records(map(calibrator.ask, ["Why?", "How?"]))
    >>> records, records[:1]
    (Records(2 records, none graded), Records(1 record, none graded))
    """

    @overload
    def __getitem__(self, index: SupportsIndex) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Records: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Record | Records:
        """One record, or some of them."""
        return Records(super().__getitem__(index)) if isinstance(index, slice) else super().__getitem__(index)

    def __repr__(self) -> str:
        grades = [correct for correct in map(reported_correct, self) if correct is not None]
        graded = f"{sum(grades)} of {len(grades)} graded right" if grades else "none graded"
        return f"Records({len(self)} record{'' if len(self) == 1 else 's'}, {graded})"

    def _repr_html_(self) -> str:
        rows = [_cells(record) for record in self[:MOST]]
        note = f"The first {MOST} of {len(self)} records." if len(self) > MOST else ""
        return html_table(("", "question", "answer", "confidence", "correct"), rows, note)

    def summary(self) -> Summary:
        """Counts and measures; see `secl.summarise`."""
        return summarise(self)

    def to_frame(self) -> Any:
        """A data frame of pandas, else of polars: a row for each record, as in an exported CSV.

        Raises:
            ParameterError: neither is installed.
        """
        rows = [to_row(record) for record in self]
        try:
            import pandas

            return pandas.DataFrame(rows)
        except ImportError:
            pass
        try:
            import polars  # type: ignore[import-not-found, unused-ignore]
        except ImportError as problem:
            raise ParameterError("a data frame needs pandas or polars; run: pip install pandas.") from problem
        return polars.DataFrame(rows, infer_schema_length=None)


def ask_all(calibrator: Calibrator, questions: Iterable[Question | str], *, progress: bool = True) -> Records:
    """Ask questions one after the other, as `Calibrator.run` does, with a progress bar in a terminal or a notebook.

    Args:
        calibrator: asks.
        questions: the whole stream; a text is a question without options.
        progress: whether to show the bar.

    Raises:
        QuestionError: something is no question, before any is asked, or the model cannot answer one.
    """
    from rich.progress import track

    asked = [as_question(each) for each in questions]
    answers = calibrator.run(asked)
    return Records(track(answers, "asking", total=len(asked), disable=not progress))


def _cells(record: Record) -> tuple[str, ...]:
    question, answer, correct = record.question, record.answer, reported_correct(record)
    named = f"{answer}. {question.option(answer)}" if answer is not None and question.options else answer or ""
    grade = "" if correct is None else "right" if correct else "wrong"
    return (str(record.position), excerpt(question.text), excerpt(named), f"{record.confidence:.3f}", grade)
