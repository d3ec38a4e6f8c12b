"""A run that rates answers from elsewhere: its settings, and the answers of its file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from secl.data.question_files import QuestionFile, QuestionRow
from secl.errors import DataError, ParameterError, QuestionError
from secl.question import GivenAnswer
from secl.runs.settings import RunSettings
from secl.setting_groups import merged

WITHOUT_USE = {
    "signal": "nothing is learned from given answers",
    "nli": "DINCO compares answers that the model wrote itself",
}
"""Settings that `secl score` refuses, and why."""

RATED = ("p_true", "candidates")
"""Kinds of evidence that can be gathered about a given answer."""


def score_settings(path: Path, values: Mapping[str, object]) -> RunSettings:
    """The settings of a run that rates the answers of a file: the method posterior, and what `values` change.

    Raises:
        ParameterError: a setting that has no use here, or evidence about answers that the model writes itself.
    """
    settings = RunSettings.of(merged({"method": "posterior"}, merged(values, {"questions": str(path)})))
    changed = settings.changed()
    for name, why in WITHOUT_USE.items():
        if name in changed:
            raise ParameterError(f"secl score has no use for {name}, because {why}; leave it out.")
    for kind in settings.evidence.extra_evidence:
        if kind not in RATED:
            raise ParameterError(
                f"secl score gathers no {kind!r}, which is about answers that the model writes itself; the extra "
                f"evidence can be {' or '.join(RATED)}."
            )
    return settings


def answers_of(file: QuestionFile, path: Path, skip_bad: bool) -> tuple[dict[str, GivenAnswer], list[tuple[str, str]]]:
    """The answers in a file by the ids of their questions.

    Returns:
        the answers, and where each row was that is left out, with what is wrong with it.

    Raises:
        DataError: a row has no answer that can be rated, or no row has one.
    """
    answers: dict[str, GivenAnswer] = {}
    skipped: list[tuple[str, str]] = []
    for row in file.rows:
        location = f"{path}, line {row.line}"
        try:
            if row.answer is None:
                raise DataError("has no 'answer' to rate; give one, or ask the model itself with secl run.")
            answers[row.question.id] = _given(row, row.answer)
        except DataError as problem:
            if not skip_bad:
                raise DataError(f"{location} {problem}") from problem
            skipped.append((location, str(problem)))
    if not answers:
        raise DataError(f"{path} holds no answer that can be rated: {skipped[0][0]} {skipped[0][1]}")
    return answers, skipped


def _given(row: QuestionRow, answer: str) -> GivenAnswer:
    try:
        return GivenAnswer(row.question, answer, row.rivals, row.correct)
    except QuestionError as problem:
        raise DataError(f"cannot be rated: {problem}") from problem
