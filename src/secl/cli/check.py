"""The command that says which method fits, and whether there is something to learn from: check."""

from __future__ import annotations

import shlex
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from secl.cli.app import AsJson, Full, Set, app, console, fail, print_json
from secl.cli.run import name_skipped
from secl.errors import ParameterError
from secl.settings.base import Settings
from secl.settings.groups import FLAT, EvidenceSettings, ModelSettings, Seed, StreamSettings
from secl.settings.tree import OF_MODEL, OF_QUESTIONS, with_set

if TYPE_CHECKING:
    from secl.evaluation.check import Check
    from secl.runs.manifest import Manifest


class CheckSettings(Settings):
    """The settings that a check can have."""

    model: Annotated[ModelSettings, FLAT, OF_MODEL] = ModelSettings()
    stream: Annotated[StreamSettings, FLAT, OF_QUESTIONS] = StreamSettings()
    seed: Seed = Field(42, description="Seed of everything random.")


@app.command(name="check")
def check_command(
    run: Path | None = None,
    /,
    *,
    flags: Annotated[CheckSettings | None, FLAT] = None,
    set_: Set = None,
    tau: float | None = None,
    out: Path | None = None,
    full: Full = False,
    as_json: AsJson = False,
) -> None:
    """Recommend a method, and check whether learning can help: is normalised P(True) better than what is stated?

    Both need right answers to be sure; without any, what can be seen in the model's own views is said.

    Args:
        run: A run of the method posterior or baselines, finished or not: it is read, and nothing is asked.
        tau: Temperature of normalised P(True); the model's own by default.
        out: Folder that keeps the answers as a run of the method posterior; they are kept nowhere by default.
    """
    from secl.evaluation.check import check
    from secl.reports.check_report import check_json
    from secl.runs.check_run import read

    tau = EvidenceSettings(tau=tau).tau
    settings = with_set(flags, set_)
    if run is not None and (settings or out is not None):
        raise ParameterError(f"{run} is checked as it is; leave away --out and all that says what to ask, and how.")
    lasting = run or out
    with TemporaryDirectory(prefix="secl-check-") as parent:
        folder = lasting or Path(parent) / "run"
        if run is None:
            _ask(settings, folder, keep=lasting is not None)
        records, manifest = read(folder)
    name_skipped(manifest.skipped)
    begun = manifest.settings
    result = check(records, tau or manifest.tau, begun.evidence.formula)
    if as_json:
        print_json({"model": begun.model.name, **check_json(result)})
        return
    _print(result, manifest, lasting, full=full)


def _ask(settings: dict[str, object], folder: Path, *, keep: bool) -> None:
    """Ask, with a progress bar on standard error."""
    from secl.cli.progress import follow
    from secl.runs.check_run import ask

    reached: tuple[int, int] | None = None
    try:
        with follow("loading model and questions", None, transient=True) as shown:

            def show(done: int, total: int, _record: object) -> None:
                nonlocal reached
                reached = done, total
                shown(done, total, "asking")

            ask(settings, folder, show)
    except KeyboardInterrupt:
        if reached is None:
            fail("stopped before the first question.")
        resume = f"all of them recorded; go on with: secl run --resume {shlex.quote(str(folder))}"
        hint = resume if keep else "nothing is kept without --out."
        fail(f"stopped after {reached[0]} of {reached[1]} questions, {hint}")


def _print(result: Check, manifest: Manifest, folder: Path | None, *, full: bool) -> None:
    """What to use and why, whether learning would help, and the confidences in numbers; in full all it rests on.

    Where the answers lie in a folder that was asked in the recommended way, what to type next.
    """
    from secl.reports.check_report import learning_sentence, notes, scores_table, signal_table, use_and_why
    from secl.reports.table import to_rich

    screen, run = console(), shlex.quote(str(folder)) if folder else None
    use, why = use_and_why(result)
    screen.print(use, soft_wrap=True, highlight=False)
    screen.print(why, highlight=False)
    answers_best = manifest.settings.loop.answer == "best"
    if run and manifest.settings.method == result.method and answers_best == bool(result.flags):
        step = "report" if result.questions == manifest.total else "run --resume"
        screen.print(f"It was asked that way: secl {step} {run}", soft_wrap=True, highlight=False)
    screen.print(f"Learning (--method secl): {learning_sentence(result)}", highlight=False)
    screen.print()
    screen.print(to_rich(scores_table(result, full=full)))
    screen.print()
    if not full:
        again = f"secl check {run} --full" if run else "the same with --full; --out FOLDER keeps the answers for it."
        screen.print(f"All tables: {again}", style="dim", soft_wrap=True)
        return
    if result.signal:
        screen.print(to_rich(signal_table(result)))
        screen.print()
    for line in notes(result):
        screen.print(line)
