"""Commands that ask a stream of questions: run and demo."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from secl.cli.app import Full, Set, app, console, echo, fail
from secl.errors import ParameterError
from secl.settings.groups import FLAT
from secl.settings.tree import OF_OUTPUT, SettingGroups, merged, with_set

if TYPE_CHECKING:
    from secl.model import Model
    from secl.records import Record
    from secl.runs.runner import Run

Finish = Callable[["Run"], None]
"""What is done with a run whose questions are all answered."""

DEMO: dict[str, object] = {
    "model": "smollm2",
    "benchmarks": ("capitals:60", "science:40", "misconceptions:20"),
    "evidence_on": "always",
    "extra_evidence": ("candidates",),
}
"""What `secl demo` runs: the built-in quiz, judged everywhere so that P(True) and posterior can be compared."""

DEMO_NEXT = (
    'next: secl ask "What is the capital of Kenya?" --option Lagos --option Nairobi\n'
    "your own questions: secl run --questions FILE --out RUN"
)


@app.command
def run(
    recipe: Path | None = None,
    /,
    *,
    flags: Annotated[SettingGroups | None, FLAT] = None,
    set_: Set = None,
    out: Annotated[Path | None, OF_OUTPUT] = None,
    resume: Annotated[Path | None, OF_OUTPUT] = None,
    full: Annotated[Full, OF_OUTPUT] = False,
) -> None:
    """Ask the questions of a file or benchmarks, and report how good the confidences are.

    Args:
        recipe: A TOML recipe; flags override its settings.
        out: Folder of the new run.
        resume: Continue this unfinished run; other flags are not needed.
    """
    from secl.runs.runner import resume_run, start_run
    from secl.runs.settings import RunSettings, read_toml

    settings = merged(read_toml(recipe) if recipe else {}, with_set(flags, set_))
    if resume is not None:
        if out is not None and out != resume:
            raise ParameterError("a resumed run stays in its folder; leave --out away.")
        proceed(lambda: resume_run(resume, settings), resume, print_result(full=full))
        return
    if out is None:
        raise ParameterError("a new run needs a folder; name it with --out.")
    new = RunSettings.of(settings)
    proceed(lambda: start_run(new, out), out, print_result(full=full))


@app.command
def demo(*, out: Path = Path("runs/demo")) -> None:
    """Show the posterior and SECL on the embedded model and the built-in quiz, in a few minutes.

    Args:
        out: Folder of the run; an unfinished run is continued.
    """
    from secl.runs.folder import FILE
    from secl.runs.runner import resume_run, start_run
    from secl.runs.settings import RunSettings

    settings = RunSettings.of(DEMO)
    proceed(lambda: resume_run(out) if (out / FILE).exists() else start_run(settings, out), out, print_result())
    echo(DEMO_NEXT)


def print_result(*, full: bool = False) -> Finish:
    """Prints the result of a run and writes its report into its folder."""
    from secl.cli.report import write_and_print
    from secl.runs.labelling import current_records

    return lambda run: write_and_print(run.store, list(current_records(run.store)), full=full)


def name_skipped(skipped: Sequence[tuple[str, str]]) -> None:
    """Say which questions are left out and why, at most ten of them; a run's summary counts them."""
    for where, reason in skipped[:10]:
        echo(f"skipped: {where} {reason}", error=True)
    if len(skipped) > 10:
        echo(f"skipped: {len(skipped) - 10} more, {len(skipped)} in all", error=True)


def proceed(open_run: Callable[[], Run], folder: Path, finish: Finish) -> None:
    """Open a run, ask what is left with a progress bar, and report with `finish`; Ctrl-C keeps what is done."""
    screen = console()
    try:
        with screen.status("loading model and questions"):
            run = open_run()
    except KeyboardInterrupt:
        fail("stopped before the first question.")
    describe(run.model)
    for note in run.notes:
        echo(f"warning: {note}", error=True)
    name_skipped(run.manifest.skipped)
    with run.store:
        try:
            _watch(run)
            run.keep()
            finish(run)
        except KeyboardInterrupt:
            fail(
                f"stopped after {len(run.records)} of {len(run.questions)} questions, all of them recorded; "
                f"go on with: secl run --resume {folder}"
            )


def describe(model: Model) -> None:
    """Say which settings a model was given and which path it takes; of one that is elsewhere nothing is known."""
    described = getattr(model, "described", None)
    if described is not None:
        echo(f"model {model.name}: {described}")


def _watch(run: Run) -> None:
    from secl.cli.progress import follow

    asking = "asking" if run.given is None else "rating"
    with follow(asking, len(run.questions), len(run.records)) as shown:

        def show(done: int, total: int, record: Record | None) -> None:
            text = asking
            if record is not None and run.given is None:
                text = f"{record.question.domain[:14]:14} {'learning' if record.decision.in_burst else 'watching'}"
            shown(done, total, text)

        run.proceed(show)
