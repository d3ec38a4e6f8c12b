"""The command that says which answers may be accepted: threshold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from secl.cli.app import AsJson, Full, app, console, echo, print_json
from secl.errors import ParameterError, RunError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from secl.evaluation.acceptance import Advice, Answers, CostAdvice


@app.command
def threshold(
    run: Annotated[Path, Parameter(help="A run folder, or the state folder of a server.")],
    /,
    *,
    risk: float | None = None,
    confidence: float = 0.9,
    cost_wrong: float | None = None,
    cost_review: float | None = None,
    full: Full = False,
    as_json: AsJson = False,
) -> None:
    """Find the confidence above which answers may be accepted, with a promise if there are labels.

    Args:
        risk: Largest share of wrong ones among the accepted answers, for example 0.05.
        confidence: With which that is to hold.
        cost_wrong: What an accepted wrong answer costs.
        cost_review: What it costs to have a person look at a rejected answer.
    """
    from secl.evaluation import acceptance

    if (cost_wrong is None) != (cost_review is None):
        raise ParameterError("a cost needs the other one to compare with; give both --cost-wrong and --cost-review.")
    if risk is None and cost_wrong is None:
        raise ParameterError("say what is allowed: --risk 0.05, or --cost-wrong 10 --cost-review 1.")
    answers = read_answers(run)
    advice = None if risk is None else acceptance.advise(answers, risk, confidence)
    domains = {} if risk is None else acceptance.advise_by_domain(answers, risk, confidence)
    cost = None
    if cost_wrong is not None and cost_review is not None:
        cost = acceptance.advise_on_cost(answers, cost_wrong, cost_review)
    if as_json:
        print_json(_json(run, answers, advice, domains, cost))
        return
    _print(answers, advice, domains, cost, full=full)


def read_answers(folder: Path) -> Answers:
    """The answers of a run or a server with their labels.

    Raises:
        RunError: the folder is neither, or nothing has been answered.
    """
    from secl.runs.labelling import stored_answers
    from secl.runs.store import Store

    with Store(folder) as store:
        answers = stored_answers(store)
    if not len(answers.confidence):
        raise RunError(f"{folder} has no questions answered yet, so there is nothing to accept.")
    return answers


def _json(
    run: Path, answers: Answers, advice: Advice | None, domains: Mapping[str, Advice], cost: CostAdvice | None
) -> dict[str, object]:
    from dataclasses import asdict

    from secl.reports.acceptance_report import advice_json

    values: dict[str, object] = {"run": str(run), "answers": len(answers.confidence)}
    if advice is not None:
        values |= advice_json(answers, advice)
        values["domains"] = {name: advice_json(answers.of(name), part) for name, part in domains.items()}
    if cost is not None:
        values["cost"] = asdict(cost)
    return values


def _print(
    answers: Answers, advice: Advice | None, domains: Mapping[str, Advice], cost: CostAdvice | None, *, full: bool
) -> None:
    """The conclusion first; the domains one by one only where all is wanted."""
    from secl.reports.acceptance_report import cost_sentence, domain_table, sentences
    from secl.reports.table import to_rich

    for line in sentences(answers, advice) if advice is not None else ():
        echo(line)
    if cost is not None:
        echo(cost_sentence(cost))
    advised = advice or cost
    threshold = advised.threshold if advised else None
    if threshold is not None and threshold.value:
        echo(f"Next: secl run ... --accept {threshold.value}, or secl serve ... --accept {threshold.value}")
    if domains and full:
        echo("\nBy domain")
        console().print(to_rich(domain_table(domains)))
    elif domains:
        echo("By domain: the same with --full.")
