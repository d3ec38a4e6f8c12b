"""The command that recommends a method: check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from secl.cli.app import AsJson, AskedSettings, Set, app, console, print_json
from secl.cli.run import name_skipped, proceed
from secl.errors import ParameterError, RunError
from secl.runs.settings import RunSettings
from secl.settings.groups import FLAT, PromptSettings
from secl.settings.names import OF_MODEL, with_set

if TYPE_CHECKING:
    from secl.runs.runner import Run
    from secl.runs.store import Store


class CheckedSettings(AskedSettings):
    """The settings of a check."""

    prompts: Annotated[PromptSettings, FLAT, OF_MODEL] = PromptSettings()


@app.command(name="check")
def check_command(
    run: Path | None = None,
    /,
    *,
    flags: Annotated[CheckedSettings | None, FLAT] = None,
    set_: Set = None,
    out: Path | None = None,
    as_json: AsJson = False,
) -> None:
    """Recommend a method for a model and questions, and say whether learning would help.

    With right answers or labels secl compares the methods; without them it recommends the posterior.

    Args:
        run: Read this run of the method posterior or baselines, finished or not, and ask nothing.
        out: Keep the answers as a run in this folder; by default they are not kept.
    """
    from secl.runs.runner import start_run
    from secl.runs.store import Store

    settings = with_set(flags, set_)
    if run is None:
        # The evidence of all methods that can be recommended, and of learning.
        new = RunSettings.of({**settings, "method": "posterior", "evidence.extra_evidence": ("p_true",)})

        def finish(made: Run) -> None:
            if out is not None:
                made.finish()
            _print(made.store, as_json=as_json)

        proceed(lambda place: start_run(new, place), out, finish, quiet=True)
        return
    if settings or out is not None:
        raise ParameterError(f"{run} is checked as it is; drop --out and every flag that chooses model or questions.")
    with Store(run) as store:
        name_skipped(_print(store, as_json=as_json))


def _print(store: Store, *, as_json: bool) -> tuple[tuple[str, str], ...]:
    """Print the check of an open run, and return its skipped questions."""
    from secl.evaluation.json_values import json_value
    from secl.reports.check_section import check_sentences
    from secl.reports.run_report import RunReport
    from secl.reports.sections import Section, print_sections
    from secl.reports.summary_table import main_table
    from secl.runs.labelling import current_records

    report = RunReport.of(store, list(current_records(store)))
    if report.check is None or store.is_server:
        raise RunError(
            f"{store.folder} has no posterior for every answer of the untouched model; secl check reads runs of the "
            "methods posterior and baselines."
        )
    sentences = check_sentences(report.check)
    if as_json:
        model = report.manifest.settings.model.name
        print_json({"model": model, **json_value(report.check), "sentences": sentences})
    else:
        table = main_table(report)
        print_sections([Section("", sentences, [table] if table else [])], console())
    return report.manifest.skipped
