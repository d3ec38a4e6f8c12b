"""Confidences of the user: functions from a record to a number, in Python or named as FILE.py:NAME."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from numbers import Real

from secl.errors import ParameterError
from secl.own import is_own, load_own
from secl.records import Record
from secl.scores import Of, Score


def as_scores(items: Iterable[Score | Of]) -> list[Score]:
    """Return scores; a function of the user becomes a score of the returned answer, named like the function.

    Raises:
        ParameterError: two scores have the same name.
    """
    scores = [each if isinstance(each, Score) else own_score(each, getattr(each, "__name__", "own")) for each in items]
    names = [score.name for score in scores]
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"two estimators are called {name!r}; rename your function.")
    return scores


def own_score(function: Of, name: str) -> Score:
    """Return the score of the user's function from a record to a probability that the returned answer is correct."""
    return Score(name, name, checked(function, name), answer=lambda record: record.answer, passes=math.nan)


def checked(function: Of, name: str) -> Of:
    """Return a function of the user that raises a ParameterError in place of an error or of any other value."""

    def of(record: Record) -> float | None:
        mention = f"the estimator {name!r} "
        try:
            value: object = function(record)  # a user's function may return anything
        except Exception as problem:
            reason = f"{type(problem).__name__}: {problem}"
            raise ParameterError(f"{mention}failed for {record.question.mention}: {reason}.") from problem
        if value is None:
            return None
        number = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
        if 0 <= number <= 1:
            return number
        raise ParameterError(
            f"{mention}returned {value!r} for {record.question.mention}; it must return a number from 0 to 1, or None."
        )

    return of


def load_score(name: str) -> Score:
    """Return the score of a function, or a `Score`, in a Python file ("FILE.py:NAME"), which secl executes.

    Raises:
        ParameterError: a name of another form, a file that cannot be executed, or an object that is neither.
    """
    if not is_own(name):
        raise ParameterError(f"the estimator {name!r} names no function in a file; write FILE.py:NAME.")
    own = load_own(name, "estimator")
    if isinstance(own, Score):
        return replace(own, of=checked(own.of, own.name))
    if not callable(own) or isinstance(own, type):
        raise ParameterError(
            f"the estimator {name!r} has the type {type(own).__name__}; it must be a function of a record."
        )
    return own_score(own, name.rpartition(":")[2])
