"""The command that rates answers from elsewhere: score."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from secl.cli.app import AsJson, AskedSettings, Set, app, console, echo, print_json
from secl.cli.run import print_result, proceed
from secl.errors import ParameterError
from secl.evaluation.json_values import json_value
from secl.evaluation.trust import assess
from secl.reports.acceptance_report import accepted_sentence
from secl.reports.answers import questions_table
from secl.reports.formatting import counted
from secl.reports.table import to_rich
from secl.reports.verdict import trust_line
from secl.runs.encoding import to_export
from secl.runs.recipes import score_settings
from secl.runs.runner import Run, start_run
from secl.settings.groups import FLAT, UNFLAGGED, Names, StreamSettings
from secl.settings.names import OF_QUESTIONS, with_set


class RatedStream(StreamSettings):
    """The answers to rate, without the settings that name questions."""

    benchmarks: Annotated[Names, UNFLAGGED] = ()
    questions: Annotated[str | None, UNFLAGGED] = None
    data: Annotated[str | None, UNFLAGGED] = None


class RatedSettings(AskedSettings):
    """The settings of a rating that have flags."""

    stream: Annotated[RatedStream, FLAT, OF_QUESTIONS] = RatedStream()


@app.command
def score(
    file: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    out: Path | None = None,
    as_json: AsJson = False,
    accept: float | None = None,
    flags: Annotated[RatedSettings | None, FLAT] = None,
    set_: Set = None,
) -> None:
    """Rate the given answers in a file: print for each the probability that it is correct.

    Args:
        file: Questions with a column "answer"; "rivals" and "correct" are optional.
        out: Keep a run in this folder, to report, label and export; by default secl only prints the answers.
        accept: Lowest confidence of an accepted answer.
    """
    if out is not None and as_json:
        raise ParameterError("--json prints the answers and --out keeps them for secl export; leave one of them out.")
    settings = score_settings(file, {"loop.accept": accept, **with_set(flags, set_)})
    finish = print_result() if out else _print_json if as_json else _print
    proceed(lambda place: start_run(settings, place, mode="score"), out, finish, quiet=out is None)


def _print_json(run: Run) -> None:
    left_out = [{"where": where, "why": why} for where, why in run.manifest.skipped]
    print_json({"answers": [json_value(to_export(record)) for record in run.records], "skipped": left_out})


def _print(run: Run) -> None:
    screen, records = console(), run.records
    columns = ("question", "answer", "confidence", "stated", "P(True)", "PMI", "grade")
    screen.print(to_rich(questions_table(records, *columns)))
    posteriors = [record.posterior for record in records if record.posterior is not None]
    weighed, unlisted = len(posteriors), sum(each.unlisted for each in posteriors)
    others = "" if weighed == len(records) else "; the others keep the stated confidence"
    screen.print(
        f"Confidence: the posterior of the answer among its rivals, for {weighed} of {counted(len(records), 'answer')}"
        f"{others}. PMI: nats by which the question makes the answer more probable.",
        soft_wrap=True,
    )
    if unlisted:
        echo(
            f"For {counted(unlisted, 'answer')} an unlisted answer is the most probable: the model would write "
            "something else. Without labels, use such a confidence to compare answers, not as a share of right ones."
        )
    if (accepted := accepted_sentence(records)) is not None:
        echo(accepted)
    echo(trust_line(assess(records)))
