"""The data of a report, and the choice of its main confidence."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from secl.data.columns import Template
from secl.errors import ParameterError, RunError
from secl.evaluation.acceptance import Answers, answers_of, units_of
from secl.evaluation.compare import Check, check
from secl.evaluation.summary import Summary
from secl.evaluation.trust import Verdict, assess
from secl.grading.rules import regrade
from secl.records import Record, answers_in, noun_of
from secl.reports.figures import Panel
from secl.runs.labelling import calibration_of, current_records, held_out_records
from secl.runs.manifest import Manifest, Mode
from secl.runs.runner import summary_of
from secl.runs.settings import RunSettings, used_by_score
from secl.runs.store import Store
from secl.scores import Score
from secl.settings.names import flag_of, shown


@dataclass(frozen=True)
class RunReport:
    """The data of one run's report.

    Attributes:
        records: records of the questions answered so far, in order, as people see them: without the text of the
            template, which all questions share.
        measured: the same with the confidences that measures of calibration use (`held_out_records`).
        seconds: time spent on these questions.
        answers: confidences and labels, for thresholds.
        own: names of the user's scores.
    """

    name: str
    records: Sequence[Record]
    measured: Sequence[Record]
    manifest: Manifest
    seconds: float
    summary: Summary
    answers: Answers
    own: tuple[str, ...] = ()

    @classmethod
    def of(cls, store: Store, grader: str | None = None, own: Sequence[Score] = ()) -> Self:
        """Evaluate the records of an open run.

        Args:
            grader: grades open answers again.
            own: further scores, of the user.

        Raises:
            RunError: the run has no records.
            ParameterError: `grader` is given, but the run has no open answer with a reference.
        """
        records = list(current_records(store))
        if not records:
            folder = store.folder
            raise RunError(
                f"{folder} has no answers yet; continue a run with secl run --resume {folder}, or ask the server "
                "questions."
            )
        measured = list(held_out_records(store))
        if grader is not None:
            kept = (r.question.options or r.question.reference is None or r.kind == "field" for r in records)
            if all(kept):
                raise ParameterError(f"{store.folder} has no open answer to grade by a reference; leave --grader out.")
            records, measured = regrade(records, grader), regrade(measured, grader)
        manifest, name = Manifest.of(store), store.folder.resolve().name
        answers = answers_of(records, store.label_log(), calibration_of(store))
        summary, names = summary_of(manifest, measured, own), tuple(score.name for score in own)
        records = _without_template(records, manifest.settings.stream.template)
        return cls(name, records, measured, manifest, store.seconds, summary, answers, names)

    @cached_property
    def rated(self) -> Sequence[Record]:
        """What can be right or wrong: the answers, and the facts of texts."""
        return answers_in(self.records)

    @property
    def noun(self) -> str:
        return noun_of(self.rated)

    @cached_property
    def trust(self) -> Verdict:
        """The verdict on the reported confidences."""
        return assess(self.measured)

    @cached_property
    def check(self) -> Check | None:
        """The comparison of methods, and the verdict on learning.

        None if the run learned, has no posterior, has a mode other than "ask", or has texts with facts only.
        """
        of_answers = self.manifest.mode == "ask" and self.noun == "answer"
        fits = of_answers and not self.learned and "posterior" in self.summary.series
        if not fits or not len(self.summary.series["posterior"]):
            return None
        return check(self.summary.series, units_of(answers_in(self.measured)).tolist())

    @property
    def graded(self) -> bool:
        return self.summary.unlabelled < self.summary.answers

    @property
    def learned(self) -> bool:
        """Whether the run has an adapted model."""
        return "secl" in self.summary.estimators

    @cached_property
    def main(self) -> str:
        """Name of the method's most important estimator, for the answers that the run returned."""
        graded = [name for name, row in self.summary.estimators.items() if not math.isnan(row.brier)]
        name = self.manifest.settings.named_method.foremost(graded)
        if name == "posterior" and self.summary.answered_best:
            name = "posterior_best"
        return name

    @property
    def template(self) -> str | None:
        """The template of the questions; None without one."""
        return self.manifest.settings.stream.template

    @property
    def foremost(self) -> tuple[str, ...]:
        """Names of the estimators to show first: "stated", `main`, both posteriors, and the user's."""
        return tuple(dict.fromkeys(("stated", self.main, "posterior", "posterior_best", *self.own)))

    @property
    def watched(self) -> bool:
        """Whether the gate tested an entropy or opened a burst."""
        return any(r.decision.in_burst or r.decision.statistic is not None for r in self.records)

    @property
    def complete(self) -> bool:
        return len(self.records) >= self.manifest.total


def _without_template(records: Sequence[Record], template: str | None) -> list[Record]:
    """Return records whose questions lack the text around the columns of a template."""
    if template is None:
        return list(records)
    before, after = Template(template).frame
    questions = [record.question for record in records]
    texts = [question.text.removeprefix(before).removesuffix(after).strip() or question.text for question in questions]
    return [
        replace(record, question=replace(record.question, text=text))
        for record, text in zip(records, texts, strict=True)
    ]


def panels(run: RunReport) -> tuple[list[Panel], list[Panel]]:
    """Return panels for the stated confidence, the main one and the user's, and for the others that have grades."""
    drawn, units = dict[str, Panel](), units_of(answers_in(run.measured))
    for name, row in run.summary.estimators.items():
        series = run.summary.series[name]
        series = series.where(series.has_grade)
        if len(series):
            drawn[name] = Panel(row.title, series.confidence, series.correct, units[series.rows].tolist())
    foremost = dict.fromkeys(("stated", run.main, *run.own))
    first = [drawn[name] for name in foremost if name in drawn]
    return first, [panel for name, panel in drawn.items() if name not in foremost]


def command(settings: RunSettings, mode: Mode = "ask") -> str:
    """Return the command that repeats a run in a new folder.

    >>> from secl.runs.settings import RunSettings
    >>> command(RunSettings.of({"stream.benchmarks": ["capitals:9"], "method": "secl", "gate.burst": 20}))
    'secl run --model smollm2 --benchmarks capitals:9 --method secl --gate.burst 20 --out NEW'
    """
    changed = {"model.name": settings.model.name, **settings.changed()}
    changed |= {} if settings.method == type(settings).model_fields["method"].default else {"method": settings.method}
    parts = ["secl", "run"]
    if mode == "score":
        parts = ["secl", "score", str(changed.pop("stream.questions"))]
        changed = {name: value for name, value in changed.items() if used_by_score(name)}
    first = ("model.", "stream.", "method")
    for name in sorted(changed, key=lambda name: [not name.startswith(each) for each in first]):
        value, flag = changed[name], flag_of(name)
        if isinstance(value, bool):
            parts.append(flag if value else f"{flag}=false")
        else:
            parts += [flag, shown(name, value)]
    return shlex.join([*parts, "--out", "NEW"])
