"""The command that says which answers may be accepted: threshold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from secl.cli.app import AsJson, app, echo, print_json


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
    from secl.evaluation.acceptance import advise
    from secl.reports.acceptance_report import advice_json, sentences
    from secl.runs.labelling import stored_answers
    from secl.runs.store import Store

    with Store(run) as store:
        answers, labelled = stored_answers(store), bool(store.labels())
    advice = advise(answers, risk, certainty)
    if as_json:
        print_json({"run": str(run), "answers": len(answers.confidence), **advice_json(answers, advice)})
        return
    for line in sentences(answers, advice):
        echo(line)
    if advice.threshold is not None and advice.threshold.value:
        value = advice.threshold.value
        echo(f"Next: secl run ... --accept {value}, or secl serve ... --accept {value}")
        if labelled:
            echo("Labels change the confidences and not the threshold: --accept compares the confidence before labels.")
