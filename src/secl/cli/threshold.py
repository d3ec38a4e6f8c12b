"""The command that recommends a threshold: threshold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from secl.cli.app import AsJson, app, console, print_json


@app.command
def threshold(
    run: Annotated[Path, Parameter(help="A run folder, or the state folder of a server.")],
    /,
    *,
    risk: float,
    certainty: float = 0.9,
    as_json: AsJson = False,
) -> None:
    """Find the lowest confidence at which answers can be accepted. Labels turn the estimate into a guarantee.

    Args:
        risk: Largest share of wrong answers among the accepted ones, for example 0.05.
        certainty: Probability that the guarantee holds.
    """
    from secl.evaluation.acceptance import advise, answers_of
    from secl.reports.acceptance_report import advice_json, advice_step, advice_table
    from secl.reports.table import to_rich
    from secl.runs.store import Store

    with Store(run) as store:
        answers = answers_of(store.records(), store.label_log())
    advice = advise(answers, risk, certainty)
    if as_json:
        print_json({"run": str(run), "answers": len(answers.confidence), **advice_json(answers, advice)})
        return
    screen = console()
    screen.print(to_rich(advice_table(answers, advice)))
    if (step := advice_step(advice)) is not None:
        screen.print(f"next: {step}", soft_wrap=True)
