"""Commands that ask one question or list names: ask, models, methods and benchmarks."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from secl.cli.app import AsJson, Full, Set, app, console, print_json
from secl.data.benchmarks import BENCHMARKS
from secl.errors import ParameterError
from secl.evaluation.json_values import json_value
from secl.evaluation.symptoms import seen_in_one
from secl.methods import METHODS
from secl.question import Question
from secl.reports.acceptance_report import accepted_line
from secl.reports.console import answer_details, answer_reasons, answer_table
from secl.reports.formatting import terminal_text
from secl.reports.table import listing, to_rich
from secl.reports.verdict import sentence_of
from secl.runs.encoding import to_export
from secl.runs.loading import load_for_asking
from secl.runs.settings import Recipe
from secl.settings.groups import FLAT
from secl.settings.names import with_set


@app.command
def ask(
    question: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    option: list[str] | None = None,
    context: Annotated[str, Parameter(show_default=False)] = "",
    system: Annotated[str, Parameter(show_default=False)] = "",
    version: Path | None = None,
    flags: Annotated[Recipe | None, FLAT] = None,
    set_: Set = None,
    full: Full = False,
    as_json: AsJson = False,
) -> None:
    """Ask one question: print the answer, the probability that it is correct, and the other candidates.

    Args:
        question: The question, or - for standard input.
        option: Answer to choose from; repeat the flag for each answer, at least two.
        context: Passage to answer from.
        system: System text; by default the model's own.
        version: Run whose learned weights answer.
    """
    if question.startswith("--") and len(question.split()) == 1:
        raise ParameterError(f"ask has no option {question}; secl ask --help lists its options.")
    text = sys.stdin.read() if question == "-" else question
    to_ask = Question(text.rstrip("\n"), tuple(option or ()), context=context, system=system)
    values = with_set(flags, set_)
    if full or as_json:  # P(True) of an open answer takes longer than the rest
        kinds = values.get("evidence.extra_evidence", ())
        values["evidence.extra_evidence"] = tuple(dict.fromkeys((*kinds, "p_true")))  # type: ignore[misc]
    calibrator, recipe = load_for_asking(values, version)
    gc.freeze()  # collecting garbage among the loaded objects would take as long as ten tokens
    record = calibrator.ask(to_ask)
    if as_json:
        reasons = [sentence_of(reason) for reason in seen_in_one(record)]
        print_json({**json_value(to_export(record)), "warnings": reasons})
        return
    screen = console()
    screen.print(to_rich(answer_table(record)))
    for line in answer_reasons(record):
        screen.print(terminal_text(line), highlight=False)
    if record.accept is not None:
        screen.print(accepted_line(record.answer, record.label_free, record.accept), soft_wrap=True)
    for table in answer_details(record, recipe.tau(calibrator.model.tau)) if full else ():
        screen.print()
        screen.print(table)
    if not full:
        screen.print("evidence: add --full", style="dim")


@app.command
def models() -> None:
    """List the models with measured settings."""
    from secl.backends.local.loading.presets import PRESETS

    rows = [
        (f"{name}\n", f"{p.source}\n{p.layers} {','.join(p.modules)}, tau {p.tau:g}", p.note)
        for name, p in PRESETS.items()
    ]
    console().print(listing(("name", "source, layers with an adapter, tau", ""), rows, names=2))
    console().print(
        "secl also takes any other chat model by hub id, folder or GGUF file, and inspects it (docs/engines.md).",
        soft_wrap=True,
    )


@app.command
def methods() -> None:
    """List the methods, each with its gate and a description."""
    rows = [(name, m.gate, m.note) for name, m in METHODS.items()]
    console().print(listing(("name", "gate", "description"), rows))


@app.command
def benchmarks() -> None:
    """List the benchmarks for secl run --benchmarks."""
    rows = [(b.name, b.form, b.split, b.licence, b.description) for b in BENCHMARKS.values()]
    console().print(listing(("name", "answers", "split", "licence", "description"), rows))
