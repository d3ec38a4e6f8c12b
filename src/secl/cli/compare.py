"""The command that puts two runs side by side: compare."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from secl.cli.app import AsJson, Full, app, console, print_json
from secl.errors import ParameterError, RunError

if TYPE_CHECKING:
    from secl.evaluation.compare import Side
    from secl.records import Record
    from secl.runs.store import Store


@app.command
def compare(
    run_a: Path, run_b: Path, /, *, estimator: str | None = None, full: Full = False, as_json: AsJson = False
) -> None:
    """Compare two runs on the questions that both answered, or two confidences of one run: differences with intervals.

    Args:
        run_a: A run folder.
        run_b: Another, or the same.
        estimator: Confidence to compare, or one for each run, as in stated:secl; by default that of each run's method.
    """
    from secl.evaluation.compare import compare as compare_sides
    from secl.evaluation.compare import comparison_json
    from secl.reports.comparison_report import changed_table, comparison_table, remarks
    from secl.reports.formatting import terminal_text
    from secl.reports.table import to_rich
    from secl.runs.store import Store

    names = (estimator or "").split(":") if estimator is not None else [None]
    if len(names) > 2:
        raise ParameterError(
            f"the estimator {estimator!r} has {len(names)} parts; give one name, or two as in stated:secl."
        )
    with Store(run_a) as store_a, Store(run_b) as store_b:
        records = list(store_a.records())
        a = _side(store_a, records, names[0])
        b = _side(store_b, records if run_a.resolve() == run_b.resolve() else list(store_b.records()), names[-1])
        settings, notes = _settings(store_a, store_b), _notes(store_a, store_b)
    if run_a.resolve() == run_b.resolve() and a.estimator.name == b.estimator.name:
        raise ParameterError(
            f"{run_a} compared with itself needs two estimators; add for example --estimator stated:secl."
        )
    comparison = compare_sides(a, b)
    if {*a.by_question} != {*b.by_question}:
        answered = f"A has answered {len(a.by_question)} questions and B {len(b.by_question)}"
        notes.insert(0, f"{answered}, {comparison.shared} of them the same; all this is about these alone.")
    runs = {"a": (run_a, a), "b": (run_b, b)}
    if as_json:
        answer: dict[str, object] = {
            key: {"run": str(run), "estimator": side.estimator.name, "answered": len(side.records), "total": side.total}
            for key, (run, side) in runs.items()
        }
        answer |= {"settings": settings, "notes": notes}
        print_json(answer | comparison_json(comparison))
        return
    screen = console()
    for key, (run, side) in runs.items():
        screen.print(f"{key.upper()}: {side.estimator.title}, {run}", soft_wrap=True)
    screen.print(to_rich(comparison_table(comparison)))
    lines = [f"Settings that differ: {'; '.join(settings)}."] if settings else []
    for line in (*lines, *notes, *remarks(comparison)):
        screen.print(terminal_text(line))
    if full and comparison.answers_differ:
        screen.print()
        screen.print(to_rich(changed_table(a, b)))


def _settings(a: Store, b: Store) -> list[str]:
    """What the recipes of two runs set differently, the model first."""
    from secl.runs.manifest import Manifest

    return Manifest.of(a).settings.differences(Manifest.of(b).settings, ("in A", "in B"))


def _notes(a: Store, b: Store) -> list[str]:
    """What else sets two runs apart, a sentence each."""
    from secl.runs.manifest import Manifest

    manifests = [Manifest.of(a), Manifest.of(b)]
    models = [each.model for each in manifests]
    notes = []
    if models[0] != models[1]:
        notes.append("The models are not the same one: their weights or files differ.")
    # Which passes are made depends on these, and with them what is computed together.
    keys = ("method", "evidence_on", "signal", "p_true", "nli")
    choices = [[each.settings.flat()[key] for key in keys] for each in manifests]
    types = {str(each.environment.get("dtype", "float32")) for each in manifests} - {"float32"}
    if choices[0] != choices[1] and models[0] == models[1] and types:
        notes.append(
            f"In {' and '.join(sorted(types))} even the frozen model's numbers can differ a little between runs that "
            "ask for different things, because their passes have other shapes; --dtype fp32 compares exactly."
        )
    return notes


def _side(store: Store, records: Sequence[Record], name: str | None) -> Side:
    """One side of a comparison: the records of a run and the estimator over them, by default what its method is for."""
    from secl.evaluation.compare import Side
    from secl.evaluation.estimators import foremost, make_estimators
    from secl.runs.manifest import Manifest
    from secl.runs.runner import estimators_of

    manifest = Manifest.of(store)
    estimators = make_estimators(manifest.tau, manifest.settings.evidence.formula)
    if not records:
        raise RunError(f"{store.folder} has no questions answered yet; continue it with secl run --resume.")
    sides = {each: Side(records, manifest.total, estimator) for each, estimator in estimators.items()}
    if name is None:
        name = foremost(manifest.method, [each for each in estimators_of(manifest) if len(sides[each].series)])
    elif name not in sides:
        raise ParameterError(f"there is no estimator {name!r}; the estimators are {', '.join(sides)}.")
    elif estimators[name].learned and not any(each.learned for each in estimators_of(manifest).values()):
        raise RunError(f"{store.folder} has no {name!r}: its method {manifest.settings.method!r} does not learn.")
    elif not len(sides[name].series):
        raise RunError(
            f"{store.folder} has no {name!r}: its method {manifest.settings.method!r} did not ask for what that needs."
        )
    return sides[name]
