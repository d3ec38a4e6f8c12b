"""The command that puts two runs side by side: compare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secl.cli.app import app, console, flag
from secl.errors import ParameterError, RunError

if TYPE_CHECKING:
    from secl.reports.differences import Side
    from secl.runs.store import Store


@app.command()
def compare(
    run_a: Annotated[Path, typer.Argument(help="A run folder.", metavar="RUN_A", show_default=False)],
    run_b: Annotated[Path, typer.Argument(help="Another, or the same.", metavar="RUN_B", show_default=False)],
    reading: Annotated[
        str | None, flag("Confidence to compare, or one for each run: stated:secl.", "each method's own")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Compare two runs over the same questions, or two confidences of one run: differences with 95% intervals."""
    from secl.reports import differences
    from secl.runs.store import Store

    names = (reading or "").split(":") if reading is not None else [None]
    if len(names) > 2:
        raise ParameterError(
            f"the reading {reading!r} has {len(names)} parts; give one name, or two as in stated:secl."
        )
    with Store(run_a) as store_a, Store(run_b) as store_b:
        a, b = _side(store_a, names[0]), _side(store_b, names[-1])
    if run_a.resolve() == run_b.resolve() and a.name == b.name:
        raise ParameterError(f"{run_a} compared with itself needs two readings; add for example --reading stated:secl.")
    found = differences.compare(a, b)
    runs = {"a": (run_a, a), "b": (run_b, b)}
    if as_json:
        told = {
            key: {"run": str(run), "reading": side.name, "answered": len(side.records), "total": side.total}
            for key, (run, side) in runs.items()
        }
        typer.echo(json.dumps(told | differences.comparison_json(found), allow_nan=False, ensure_ascii=False, indent=2))
        return
    screen = console()
    for key, (run, side) in runs.items():
        screen.print(f"{key.upper()}: {side.reading.label}, {run}", soft_wrap=True)
    screen.print(differences.comparison_table(found))
    for line in differences.remarks(found):
        screen.print(line)


def _side(store: Store, name: str | None) -> Side:
    """One side of a comparison: the records of a run and how a confidence is read off them.

    Args:
        store: an open run.
        name: of the reading; None for the foremost of the run's method that is there.
    """
    from secl.methods import method
    from secl.reports.differences import Side
    from secl.reports.readings import readings
    from secl.runs.recipe import Recipe
    from secl.runs.runner import readings_of

    recipe = Recipe.from_json(store.manifest["recipe"])
    known = readings(recipe.tau or store.manifest["tau"], recipe.formula)
    records = list(store.records())
    if not records:
        raise RunError(f"{store.folder} has no questions answered yet; continue it with secl run --resume.")
    if name is None:
        usual = readings_of(store)
        ranked = [each for each in reversed(method(recipe.method).reports or ("stated",)) if each in usual]
        name = next((each for each in ranked if known[each].read(records).places), "stated")
    elif name not in known:
        raise ParameterError(f"there is no reading {name!r}; the readings are {', '.join(known)}.")
    elif name.startswith("secl") and "secl" not in readings_of(store):
        raise RunError(f"{store.folder} has no {name!r}: its method {recipe.method!r} does not learn.")
    elif not known[name].read(records).places:
        raise RunError(f"{store.folder} has no {name!r}: its method {recipe.method!r} did not ask for what that needs.")
    return Side(records, store.manifest["total"], name, known[name])
