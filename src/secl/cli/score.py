"""Rating answers from elsewhere: secl score."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from secl.cli.app import AsJson, Flag, Set, app, console, echo, fail, print_json
from secl.errors import ParameterError, StorageError
from secl.question import Grader
from secl.settings.groups import FLAT, ModelSettings, Order
from secl.settings.tree import merged, with_set

if TYPE_CHECKING:
    from secl.records import Record
    from secl.runs.settings import RunSettings


@app.command
def score(
    file: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    out: Path | None = None,
    as_json: AsJson = False,
    columns: list[str] | None = None,
    option: list[str] | None = None,
    template: str | None = None,
    skip_bad: Annotated[bool, Flag] = False,
    per_domain: int | None = None,
    order: Order = "forward",
    grader: Grader = "auto",
    seed: int = 42,
    accept: float | None = None,
    model: Annotated[ModelSettings | None, FLAT] = None,
    set_: Set = None,
) -> None:
    """Rate the answers in a file, whoever gave them: print the probability that each is correct.

    Args:
        file: Questions with a column "answer"; "rivals" and "correct" are optional.
        out: Keep a run in this folder, to report, label and export; by default the answers are only printed.
        columns: Columns of the file, for example question=prompt,answer=gpt.
        option: An option of all questions; repeat it for each.
        template: Make the question from columns, for example "Which team? {subject}: {body}".
        skip_bad: Skip rows that cannot be read or rated, and list them.
        per_domain: At most this many answers per domain; all by default.
        order: Order of the domains.
        grader: Rule that compares open answers with references.
        seed: Seed of everything random.
        accept: Lowest confidence of an accepted answer.
    """
    from secl.runs.export import to_row
    from secl.runs.runner import start_run
    from secl.runs.settings import score_settings

    if out is not None and as_json:
        raise ParameterError("--json prints the answers and --out keeps them for secl export; leave one of them out.")
    flags: dict[str, object] = {"model": model.model_dump(exclude_unset=True)} if model else {}
    flags |= {"columns": tuple(columns or ()), "skip_bad": skip_bad, "per_domain": per_domain, "seed": seed}
    flags |= {"options": tuple(option or ()), "template": template, "accept": accept, "order": order, "grader": grader}
    settings = score_settings(file, merged(flags, with_set(None, set_)))
    if out is not None:
        from secl.cli.run import print_result, proceed

        proceed(lambda: start_run(settings, out, mode="score"), out, print_result())
        return
    records, skipped = _rated(settings)
    if as_json:
        left_out = [{"where": where, "why": why} for where, why in skipped]
        print_json({"answers": [to_row(record) for record in records], "skipped": left_out})
    else:
        _print(records)


def _rated(settings: RunSettings) -> tuple[list[Record], Sequence[tuple[str, str]]]:
    """The records of the answers in a file and what was left out, with a progress bar; nothing is kept."""
    from secl.cli.progress import follow
    from secl.cli.run import name_skipped
    from secl.runs.runner import start_run

    try:
        with TemporaryDirectory(prefix="secl-score-") as parent:
            with console(stderr=True).status("loading the model"):
                run = start_run(settings, Path(parent) / "run", mode="score")
            for note in run.notes:
                echo(f"warning: {note}", error=True)
            name_skipped(run.manifest.skipped)
            with run.store, follow("rating", len(run.questions), transient=True) as show:
                run.proceed(lambda done, total, _: show(done, total, "rating"))
            return run.records, run.manifest.skipped
    except StorageError:
        fail("the folder of temporary files cannot be written; give --out a folder on a disk with space.")
    except KeyboardInterrupt:
        fail("stopped, and none of the answers is kept; with --out they are, and the run can be resumed.")


def _print(records: list[Record]) -> None:
    from secl.evaluation.trust import assess
    from secl.reports.acceptance_report import accepted_sentence
    from secl.reports.answers import answer_rows
    from secl.reports.formatting import counted
    from secl.reports.question_table import questions_table
    from secl.reports.result import trust_line
    from secl.reports.table import to_rich

    screen = console()
    rows = answer_rows(records)
    screen.print(
        to_rich(questions_table(rows, "question", "answer", "confidence", "stated", "P(True)", "PMI", "grade"))
    )
    weighed = sum(record.posterior is not None for record in records)
    others = "" if weighed == len(records) else "; of the others, as stated"
    screen.print(
        f"Confidence: the posterior of the answer among its rivals, for {weighed} of {counted(len(records), 'answer')}"
        f"{others}. PMI: nats by which the question makes the answer more probable.",
        soft_wrap=True,
    )
    if (accepted := accepted_sentence(records)) is not None:
        echo(accepted)
    echo(trust_line(assess(records)))
