"""The command that says whether there is something to learn from, and which method fits: check."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from secl.cli.app import AsJson, Full, Set, app, console, fail, print_json
from secl.cli.run import name_skipped
from secl.setting_groups import OF_MODEL, OF_QUESTIONS, with_set
from secl.settings import FLAT, EvidenceSettings, ModelSettings, Seed, StreamSettings
from secl.settings_base import Settings

if TYPE_CHECKING:
    from secl.evaluation.adaptation_check import Gap
    from secl.evaluation.recommendation import Recommendation
    from secl.runs.check_run import CheckRun

NOTHING = 4
"""Exit code where no method can be recommended; 2 is a mistake, as everywhere."""


class CheckSettings(Settings):
    """The settings that a check can have."""

    model: Annotated[ModelSettings, FLAT, OF_MODEL] = ModelSettings()
    stream: Annotated[StreamSettings, FLAT, OF_QUESTIONS] = StreamSettings()
    seed: Seed = Field(42, description="Seed of everything random.")


@app.command
def check(
    *,
    flags: Annotated[CheckSettings | None, FLAT] = None,
    set_: Set = None,
    tau: float | None = None,
    out: Path | None = None,
    full: Full = False,
    as_json: AsJson = False,
) -> int:
    """Check whether adapting can help (is normalised P(True) better than what is stated?), and recommend a method.

    Both need right answers to be sure; without any, what can be seen in the model's own views is said.
    Exit codes: 0 a method is recommended, 4 none can be, 2 a mistake.

    Args:
        tau: Temperature of normalised P(True); the model's own by default.
        out: Folder that keeps the answers as a run, to continue or to reuse it; they are kept nowhere by default.
    """
    from secl.evaluation.adaptation_check import measure_gap
    from secl.evaluation.recommendation import recommend

    tau = EvidenceSettings(tau=tau).tau
    settings = with_set(flags, set_)
    if out is None:
        with TemporaryDirectory(prefix="secl-check-") as parent:
            answers = _ask(settings, Path(parent) / "run", "nothing is kept without --out.")
    else:
        answers = _ask(settings, out, f"all of them recorded; go on with: secl check --out {out}")
    name_skipped(answers.manifest.skipped)
    run = answers.manifest.settings
    records, tau, formula = answers.records, tau or answers.manifest.tau, run.evidence.formula
    labelled = any(record.frozen_correct is not None for record in records)
    gap = measure_gap(records, tau, formula, seed=run.seed) if labelled else None
    found = recommend(records, tau, formula, seed=run.seed)
    code = NOTHING if found.method is None else 0
    if as_json:
        _print_json(gap, found, run.model.name, len(records), code)
    else:
        _print(gap, found, len(records), full=full)
    return code


def _ask(settings: dict[str, Any], folder: Path, hint: str) -> CheckRun:
    """Get the answers, with a progress bar on standard error."""
    from secl.cli.progress import follow
    from secl.runs.check_run import ask

    reached: tuple[int, int] | None = None
    try:
        with follow("loading model and questions", None, transient=True) as shown:

            def show(done: int, total: int, _record: object) -> None:
                nonlocal reached
                reached = done, total
                shown(done, total, "asking")

            return ask(settings, folder, show)
    except KeyboardInterrupt:
        if reached is None:
            fail("stopped before the first question.")
        fail(f"stopped after {reached[0]} of {reached[1]} questions, {hint}")


def _print(gap: Gap | None, found: Recommendation, questions: int, *, full: bool) -> None:
    """What to use and why, whether learning would help, and the confidences in numbers; in full all it rests on."""
    from secl.reports.adaptation_report import gap_table, notes, sentence, sweep_table, without_references
    from secl.reports.recommendation_report import scores_table, use_and_why, views_lines
    from secl.reports.table import to_rich

    screen = console()
    use, why = use_and_why(found)
    screen.print(use, soft_wrap=True, highlight=False)
    screen.print(why, highlight=False)
    verdict = sentence(gap) if gap else without_references(questions)
    screen.print(f"Learning (--method secl): {verdict}", highlight=False)
    screen.print()
    screen.print(to_rich(scores_table(found, full=full)))
    screen.print()
    if not full:
        screen.print("All tables: the same with --full; --out FOLDER keeps the answers for it.", style="dim")
        return
    for table in (sweep_table(gap), gap_table(gap)) if gap and gap.n else ():
        screen.print(to_rich(table))
        screen.print()
    for line in (*views_lines(found.views), *(notes(gap) if gap else ())):
        screen.print(line)


def _print_json(gap: Gap | None, found: Recommendation, model: str, questions: int, code: int) -> None:
    from secl.reports.adaptation_report import gap_json, without_references
    from secl.reports.recommendation_report import recommendation_json

    without = {"verdict": "cannot tell", "questions": questions, "sentence": without_references(questions)}
    verdict = gap_json(gap) if gap else without
    print_json({"model": model, **verdict, "recommendation": recommendation_json(found), "exit_code": code})
