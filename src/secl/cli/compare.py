"""Commands that compare confidences: check compares the methods on one model, and compare compares two runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from secl.cli.app import FURTHER_SETTINGS, AsJson, AskedSettings, app, console, print_json
from secl.cli.run import name_skipped, proceed
from secl.display import terminal_text
from secl.errors import ParameterError, RunError
from secl.evaluation.compare import Side
from secl.evaluation.compare import compare as compare_sides
from secl.evaluation.json_values import json_value
from secl.evaluation.summary import load_score
from secl.own import is_own
from secl.records import Record
from secl.reports.comparison_report import check_sentences, comparison_table, remarks
from secl.reports.run_report import RunReport
from secl.reports.sections import Section, print_sections
from secl.reports.summary_table import main_table
from secl.reports.table import to_rich
from secl.runs.labelling import held_out_records
from secl.runs.manifest import Manifest
from secl.runs.runner import Run, scores_of, start_run
from secl.runs.settings import RunSettings
from secl.runs.store import Store
from secl.scores import Score, make_scores
from secl.settings.groups import FLAT, StreamSettings
from secl.settings.names import OF_QUESTIONS, given_by


class CheckedSettings(AskedSettings):
    """Settings of `secl check` that have flags."""

    stream: Annotated[StreamSettings, FLAT, OF_QUESTIONS] = StreamSettings()


@app.command(name="check", help_epilogue=FURTHER_SETTINGS)
def check_command(
    run: Path | None = None,
    /,
    *,
    flags: Annotated[CheckedSettings | None, FLAT] = None,
    estimator: list[str] | None = None,
    out: Path | None = None,
    as_json: AsJson = False,
) -> None:
    """Recommend a method for a model and questions, and say whether learning would help.

    With references or labels, secl compares the methods; otherwise it recommends the posterior.

    Args:
        run: Run of the method posterior or baselines; secl checks its records and asks no questions.
        estimator: Add your own confidence to the table: FILE.py:NAME, a function from a record to a number.
        out: Store the answers as a run in this folder.
    """
    settings, own = given_by(flags), [load_score(name) for name in estimator or ()]
    if run is None:
        # With P(True), secl can compare the method norm_p_true and judge whether learning would help.
        new = RunSettings.of({**settings, "method": "posterior", "evidence.extra_evidence": ("p_true",)})

        def finish(made: Run) -> None:
            if out is not None:
                made.finish()
            _print(made.store, own, as_json=as_json)

        proceed(lambda place: start_run(new, place), out, finish, quiet=True)
        return
    if settings or out is not None:
        raise ParameterError(
            f"secl check reads {run} and asks no questions; drop --out and the flags of model and questions."
        )
    with Store(run) as store:
        name_skipped(_print(store, own, as_json=as_json))


def _print(store: Store, own: Sequence[Score], *, as_json: bool) -> tuple[tuple[str, str], ...]:
    """Print the check of a run with the user's scores, and return the questions that the run skipped."""
    report = RunReport.of(store, own=own)
    if report.noun == "fact":
        raise RunError(f"{store.folder} has texts with facts, which have one method; name a run with short answers.")
    if report.check is None or store.is_server:
        raise RunError(
            f"{store.folder} is not a run in which the frozen model's answers have posteriors; name a run of the "
            "method posterior or baselines."
        )
    sentences = check_sentences(report.check)
    if as_json:
        model = report.manifest.settings.model.name
        print_json({"model": model, **json_value(report.check), "sentences": sentences})
    else:
        table = main_table(report)
        print_sections([Section("", sentences, [table] if table else [])], console())
    return report.manifest.skipped


@app.command
def compare(run_a: Path, run_b: Path, /, *, estimator: str | None = None, as_json: AsJson = False) -> None:
    """Compare two runs on their common questions, or two confidences of one run, and print differences with intervals.

    Args:
        run_a: A run folder.
        run_b: Another run folder, or the same one.
        estimator: Confidence to compare, or one for each run (stated:secl); FILE.py:NAME for a function of your own;
            by default the main one of each run.
    """
    names = _names(estimator)
    with Store(run_a) as store_a, Store(run_b) as store_b:
        of_a, of_b = Manifest.of(store_a), Manifest.of(store_b)
        a = _side(run_a, of_a, list(held_out_records(store_a)), names[0])
        b = _side(run_b, of_b, list(held_out_records(store_b)), names[-1])
    settings = of_a.settings.differences(of_b.settings, ("in A", "in B"))
    notes = ["The runs have different models: weights or files differ."] if of_a.model != of_b.model else []
    if run_a.resolve() == run_b.resolve() and a.estimator.name == b.estimator.name:
        raise ParameterError(f"{run_a} compared with itself needs two estimators, as in --estimator stated:secl.")
    comparison = compare_sides(a, b)
    if {*a.by_question} != {*b.by_question}:
        answered = f"A has answered {len(a.by_question)} questions, B {len(b.by_question)}"
        notes.insert(0, f"{answered}. Only the {comparison.shared} questions that both have answered are compared.")
    runs = {"a": (run_a, a), "b": (run_b, b)}
    if as_json:
        answer: dict[str, object] = {
            key: {"run": str(run), "estimator": side.estimator.name, "answered": len(side.records), "total": side.total}
            for key, (run, side) in runs.items()
        }
        answer |= {"settings": settings, "notes": notes}
        print_json(answer | json_value(comparison))
        return
    screen = console()
    for key, (run, side) in runs.items():
        screen.print(f"{key.upper()}: {side.estimator.title}, {run}", soft_wrap=True)
    screen.print(to_rich(comparison_table(comparison)))
    lines = [f"Settings that differ: {'; '.join(settings)}."] if settings else []
    for line in (*lines, *notes, *remarks(comparison)):
        screen.print(terminal_text(line))


def _side(run: Path, manifest: Manifest, records: Sequence[Record], name: str | None) -> Side:
    """Return one side of a comparison; without a name, it has the main estimator of the run's method."""
    if not records:
        raise RunError(
            f"{run} has no answers yet; continue a run with secl run --resume {run}, or ask the server questions."
        )
    own, scores = scores_of(manifest), make_scores(manifest.tau, manifest.settings.evidence.formula)
    if name is not None and is_own(name):
        return Side(records, manifest.total, load_score(name))
    sides = {each: Side(records, manifest.total, score) for each, score in scores.items()}
    if name is None:
        return sides[manifest.settings.named_method.foremost([each for each in own if len(sides[each].series)])]
    if name not in sides:
        raise ParameterError(f"there is no estimator {name!r}; take {', '.join(sides)}, or FILE.py:NAME for your own.")
    if not len(sides[name].series) or (scores[name].learned and "secl" not in own):
        present = ", ".join(each for each in own if len(sides[each].series)) or "none"
        raise RunError(f"{run} has no confidences of {name!r}; its estimators are {present}.")
    return sides[name]


def _names(estimator: str | None) -> list[str | None]:
    """Return the one or two names in the flag --estimator; the colon of FILE.py:NAME separates no names."""
    if estimator is None:
        return [None]
    names = re.findall(r"[^:]*\.py:[^:]*|[^:]+", estimator)
    if len(names) not in (1, 2):
        raise ParameterError(f"--estimator {estimator!r} has {len(names)} parts; give one or two, as in stated:secl.")
    return names
