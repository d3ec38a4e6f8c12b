"""What a report is made of, and which of the confidences of a run it is about."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from secl.evaluation.acceptance import Answers
from secl.evaluation.estimators import foremost
from secl.evaluation.summary import EstimatorSummary, Evaluation, Summary
from secl.evaluation.trust import Verdict, assess
from secl.methods import method
from secl.records import Record
from secl.reports.answers import AnswerRow, answer_rows
from secl.reports.figures.drawing import Panel


@dataclass(frozen=True)
class RunReport:
    """What a report is made of, for one run.

    Attributes:
        records: of the questions answered so far, in order.
        total: questions of the whole stream.
        seconds: spent on the questions so far.
        manifest: manifest of the run folder: settings, model, tau, stream, environment, adapter, created.
        settings: those that differ from the defaults.
        command: shell command that repeats the run.
    """

    name: str
    records: Sequence[Record]
    evaluation: Evaluation
    total: int
    seconds: float
    manifest: Mapping[str, Any]
    settings: Mapping[str, Any]
    command: str
    answers: Answers

    @cached_property
    def trust(self) -> Verdict:
        """Whether the reported confidences may be acted on."""
        return assess(self.records)

    @property
    def summary(self) -> Summary:
        return self.evaluation.summary

    @cached_property
    def rows(self) -> list[AnswerRow]:
        return answer_rows(self.records)

    @property
    def graded(self) -> bool:
        """Whether any answer could be compared with a right one."""
        return self.summary.unlabelled < len(self.records)

    @property
    def mostly_ungraded(self) -> bool:
        """Whether most answers could not, so that the confidences say more than the grades."""
        return 2 * self.summary.unlabelled > len(self.records)

    @property
    def learned(self) -> bool:
        """Whether there is an adapted model beside the frozen one."""
        return "secl" in self.summary.estimators

    @cached_property
    def main(self) -> EstimatorSummary | None:
        """The confidence that the method is for, of the answers that were given; None for the stated one."""
        graded = {name: row for name, row in self.summary.estimators.items() if not math.isnan(row.brier)}
        name = foremost(method(self.manifest["settings"].get("method", "secl")), graded)
        if name == "posterior" and self.summary.answered_best:
            name = "posterior_best"
        return None if name == "stated" else graded[name]

    @property
    def watched(self) -> bool:
        """Whether a gate did anything."""
        return any(r.decision.in_burst or r.decision.statistic is not None for r in self.records)

    @property
    def complete(self) -> bool:
        return len(self.records) >= self.total


def panels(run: RunReport) -> tuple[list[Panel], list[Panel]]:
    """The graded confidences of a run: those that matter, and the others.

    The first are the stated one, what the method is for, and the posterior of own and of best answers, as far as there
    are any.
    """
    drawn: dict[str, Panel] = {}
    for name, row in run.summary.estimators.items():
        confidences, grades = run.evaluation.series[name].graded()
        if grades.size:
            drawn[name] = (row.estimator.title, confidences, grades)
    names = ("stated", run.main.estimator.name if run.main else "", "posterior", "posterior_best")
    first = [name for name in dict.fromkeys(names) if name in drawn]
    return [drawn[name] for name in first], [panel for name, panel in drawn.items() if name not in first]
