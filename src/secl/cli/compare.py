"""Commands that compare confidences: check compares the methods on one model, and compare compares runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from secl.cli.app import FURTHER_SETTINGS, AsJson, AskedSettings, AsTable, RunFolder, app, console, echo, print_json
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
from secl.reports.formats import table_text
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
    if not report.check.questions:
        raise RunError(
            f"{store.folder} has no stated confidences, because its answers are from elsewhere; to measure the "
            f"confidences it has: secl report {store.folder}"
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
def compare(
    run: RunFolder,
    /,
    *others: Path,
    estimator: list[str] | None = None,
    table: AsTable = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs on their common questions, or confidences of one run: paired differences with intervals.

    Of one run alone, secl compares all confidences that rate the same answers as the first, the stated confidence.

    Args:
        others: Further runs; each is compared with the first.
        estimator: Confidence to compare, one for all runs or one for each (repeat the flag); several for one run.
            FILE.py:NAME for a function of your own. By default the main one of each run.
    """
    if table is not None and as_json:
        raise ParameterError("--table and --json both choose what is printed; leave one of them out.")
    opened = {path: _read(path) for path in dict.fromkeys([run, *others])}
    paths, sides = _sides([run, *others], opened, estimator)
    names, comparisons = _names(paths, sides), compare_sides(*sides)
    of_first, notes = opened[run][0], []
    for name, path, side in list(zip(names, paths, sides, strict=True))[1:]:
        if {*side.by_question} != {*sides[0].by_question}:
            counts = f"{len(sides[0].by_question)} questions, {name} {len(side.by_question)}"
            shared = f"Only the {comparisons[0].shared} questions that all have answered are compared."
            notes.append(f"{names[0]} has answered {counts}. {shared}")
        if opened[path][0].model != of_first.model:
            notes.append(f"{names[0]} and {name} have different models: weights or files differ.")
    settings = [
        of_first.settings.differences(opened[path][0].settings, (f"in {names[0]}", f"in {name}"))
        for name, path in zip(names[1:], paths[1:], strict=True)
    ]
    if as_json:
        described = [
            {"run": str(path), "estimator": side.estimator.name, "answered": len(side.records), "total": side.total}
            for path, side in zip(paths, sides, strict=True)
        ]
        found = [
            {"a": described[0], "b": b, "settings": differing, **json_value(comparison)}
            for b, differing, comparison in zip(described[1:], settings, comparisons, strict=True)
        ]
        print_json({"notes": notes, "comparisons": found})
        return
    about = [f"{name}: {side.estimator.title}, {path}" for name, path, side in zip(names, paths, sides, strict=True)]
    about = about if others or len(sides) == 2 else [f"Confidences of {run}"]
    differing = [f"Settings that differ: {'; '.join(each)}." for each in settings if each]
    lines, shown = [*differing, *notes, *remarks(names, comparisons)], comparison_table(names, comparisons)
    if table is not None:
        echo(table_text(replace(shown, notes=[*about, *shown.notes, *lines]), table), end="")
        return
    screen = console()
    for line in about:
        screen.print(terminal_text(line), soft_wrap=True)
    screen.print(to_rich(shown))
    for line in lines:
        screen.print(terminal_text(line))


def _sides(
    runs: Sequence[Path], opened: Mapping[Path, tuple[Manifest, list[Record]]], estimators: Sequence[str] | None
) -> tuple[list[Path], list[Side]]:
    """Return the run and the confidence of each side: one estimator for all runs, several for one run, or pairs."""
    names: Sequence[str | None] = estimators or ([None] if len(runs) > 1 else _comparable(runs[0], *opened[runs[0]]))
    count = max(len(runs), len(names))
    if {len(runs), len(names)} - {1, count}:
        raise ParameterError(
            f"{len(runs)} runs and {len(names)} estimators make no pairs; give one run, one --estimator, or one "
            "--estimator for each run."
        )
    paths, chosen = [*runs] * (count // len(runs)), [*names] * (count // len(names))
    sides = [_side(path, *opened[path], name) for path, name in zip(paths, chosen, strict=True)]
    if len({(path.resolve(), side.estimator.name) for path, side in zip(paths, sides, strict=True)}) < max(count, 2):
        raise ParameterError(
            f"{runs[0]} compared with itself needs two estimators, as in --estimator stated --estimator posterior."
        )
    return paths, sides


def _read(run: Path) -> tuple[Manifest, list[Record]]:
    """Return the manifest and the records of a run with answers."""
    with Store(run) as store:
        manifest, records = Manifest.of(store), list(held_out_records(store))
    if not records:
        raise RunError(
            f"{run} has no answers yet; continue a run with secl run --resume {run}, or ask the server questions."
        )
    return manifest, records


def _comparable(run: Path, manifest: Manifest, records: Sequence[Record]) -> list[str]:
    """Return the names of a run's confidences: the first with grades, and those that rate the same answers or more."""
    sides = {name: Side(records, manifest.total, score) for name, score in scores_of(manifest).items()}
    rated = {name: side.graded.keys() for name, side in sides.items() if side.graded}
    names = [name for name, keys in rated.items() if keys >= next(iter(rated.values()))]
    if len(names) < 2:
        raise RunError(f"{run} has no two confidences of the same graded answers; name another run, or label answers.")
    return names


def _names(paths: Sequence[Path], sides: Sequence[Side]) -> Sequence[str]:
    """Return a name for each side: A and B, or the titles or folders if these differ."""
    titles, folders = [side.estimator.title for side in sides], [path.resolve().name for path in paths]
    whole = [f"{i}. {title}, {path}" for i, (title, path) in enumerate(zip(titles, paths, strict=True), 1)]
    return "AB" if len(sides) == 2 else next(each for each in (titles, folders, whole) if len({*each}) == len(each))


def _side(run: Path, manifest: Manifest, records: Sequence[Record], name: str | None) -> Side:
    """Return one side of a comparison; without a name, it has the main estimator of the run's method."""
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
