"""The notes under a table: differences from the paper, and facts that its numbers do not show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

from secl.data.benchmarks import find_benchmark
from secl.display import UNDEFINED
from secl.evaluation.symptoms import true_masses
from secl.methods import method
from secl.metrics.recalibration import T_MAX, T_MIN
from secl_paper.compare import FinishedRun, Line
from secl_paper.layout import Column, Run, Table
from secl_paper.paper import Counterpart, PaperTable, read_paper
from secl_paper.setup import OPEN_FORM, PAPER_GATE, STREAM, Setup, benchmarks_of


def differences(table: Table, setup: Setup, compared: Counterpart, runs: Mapping[Run, FinishedRun]) -> list[str]:
    """Return the differences from the paper that a reader must know before comparing numbers."""
    paper = read_paper().table(table)
    return [
        *_column(paper, setup, compared),
        *_questions(table, paper, setup, compared),
        *_settings(table, setup, compared, runs),
        *_judge(table, setup),
        *_precision(runs),
        *_true_mass(runs),
    ]


def _column(paper: PaperTable | None, setup: Setup, compared: Counterpart) -> list[str]:
    """Name the column of the paper that the table shows, and the reason."""
    if paper is None:
        return []
    models = read_paper().models
    if compared.name is not None and compared.name in paper.numbers:
        return [f"The paper's column is {models[compared.name]}: {compared.why}."]
    whom = f"{models[compared.name]} in this table" if compared.name else f"{setup.model_name} ({compared.why})"
    return [
        f"The paper has no column for {whom}; to compare with a model of the paper, add --against "
        f"{'|'.join(paper.numbers)}."
    ]


def _questions(table: Table, paper: PaperTable | None, setup: Setup, compared: Counterpart) -> list[str]:
    """Compare the questions with those of the paper: which, and how many."""
    counts = _counts(benchmarks_of(min(table.runs, key=lambda run: run.scale, default=Run("none")), setup))
    ours, quiz = setup.model_name, [name for name in setup.names if find_benchmark(name).read is None]
    stream = ", ".join(setup.names) + (f" ({', '.join(quiz)}: the built-in quiz)" if quiz else "")
    if paper is None or compared.name is None or compared.name not in paper.numbers:
        return [f"These numbers are of {ours}, with {counts} questions per domain of {stream}."] if table.runs else []
    if paper.per_domain is None:
        return []
    notes = [
        f"The paper ran {read_paper().models[compared.name]} with {paper.per_domain:,} questions per domain; "
        f"these numbers are of {ours}, with {counts}."
    ]
    if setup.names != STREAM:
        notes.append(f"The stream is {stream} in place of the paper's {', '.join(STREAM)}.")
    if any(run.open_ended for run in table.runs) and not set(setup.names) & set(OPEN_FORM):
        notes.append("No benchmark of this stream has an open-ended form, so its questions are not open-ended here.")
    return notes


def _settings(table: Table, setup: Setup, compared: Counterpart, runs: Mapping[Run, FinishedRun]) -> list[str]:
    """Name the settings that differ from the paper's, each with the paper's value in brackets."""
    unlike = [f"quantize {setup.quantize} (default)"] if setup.quantize and table.runs else []
    learning = [run.changes for run in table.runs if method(run.changes.get("method", "secl")).learns]
    if setup.gate != PAPER_GATE and any("gate.name" not in changes for changes in learning):
        unlike.append(f"gate {setup.gate} ({PAPER_GATE})")
    taus, papers_tau = {run.manifest.tau for run in runs.values()}, read_paper().tau.get(compared.name or "")
    if taus - {papers_tau}:
        own = " and ".join(f"{tau:g}" for tau in sorted(taus))
        unlike.append(f"tau {own} ({'none given' if papers_tau is None else f'{papers_tau:g}'})")
    sentence = f"Settings that differ from the paper's (the paper's values in brackets): {', '.join(unlike)}."
    return [sentence] if unlike else []


def _judge(table: Table, setup: Setup) -> list[str]:
    """Name the model that judged entailment for DINCO."""
    if not any(row.estimator in ("dinco", "dinco_greedy") for row in table.rows):
        return []
    if setup.nli is None:
        return ["For DINCO, the answering model itself judged entailment; the paper used an NLI model (--nli NAME)."]
    return [f"For DINCO, the NLI model {setup.nli} judged entailment; the paper does not name its NLI model."]


def _precision(runs: Mapping[Run, FinishedRun]) -> list[str]:
    """Name precision and device of the network, which the paper does not give."""
    environments = [run.manifest.environment for run in runs.values()]
    bodies = dict.fromkeys(f"{each['dtype']} on {each['device']}" for each in environments if "dtype" in each)
    return [f"The network computed in {' and in '.join(bodies)}; the paper names no precision."] if bodies else []


def _true_mass(runs: Mapping[Run, FinishedRun]) -> list[str]:
    """Name the probability that P(True), which is that of one token, leaves to tokens other than True and False."""
    masses = [mass for run in runs.values() for mass in true_masses(run.records)]
    if not masses:
        return []
    mass = f"together they have a median probability of {median(masses):.2f}"
    return [f"P(True) and P(False) are the probabilities of one token each; {mass}, and other tokens have the rest."]


def _counts(stream: Sequence[str]) -> str:
    """Return the number of questions per domain in words.

    >>> _counts(("arc:20", "mmlu:20")), _counts(("arc:20", "truthfulqa:17"))
    ('20', '20 (arc), 17 (truthfulqa)')
    """
    parts = [name.partition(":") for name in stream]
    counts = {count for _, _, count in parts}
    return f"{int(counts.pop()):,}" if len(counts) == 1 else ", ".join(f"{count} ({name})" for name, _, count in parts)


def remarks(
    table: Table, lines: Sequence[Line], columns: Mapping[str, Column], untrained: Mapping[str, bool]
) -> list[str]:
    """Return notes on the number of answers, runs that never learned, equal rows, and dashes."""
    notes = []
    counts = {line.name: line.ours["n"] for line in lines if line.ours.get("n") is not None}
    if counts:
        usual = Counter(counts.values()).most_common(1)[0][0]
        others = ", ".join(f"{name} {n:,}" for name, n in counts.items() if n != usual)
        notes.append(f"n = {usual:,} graded answers{f' ({others})' if others else ''}.")
    for opened, why in ((False, "the gate never opened"), (True, "the bin gate stopped every update")):
        names = ", ".join(name for name, was_open in untrained.items() if was_open is opened)
        if names:
            notes.append(
                f"{names}: no training, because {why}. The numbers are those of the frozen model, up to rounding."
            )
    bounded = [line.name for line in lines if line.ours.get("temperature") in (T_MIN, T_MAX)]
    if bounded:
        notes.append(f"T of {', '.join(bounded)} is a limit of the search ({T_MIN:g} to {T_MAX:g}), so no T fits well.")
    notes += _same(table, [line for line in lines if line.name not in untrained], columns)
    if any(line.ours.get(name) is None for line in lines for name in columns):
        notes.append(f"{UNDEFINED}: the number is undefined or does not apply (AUROC needs right and wrong answers).")
    return notes


def _same(table: Table, lines: Sequence[Line], columns: Mapping[str, Column]) -> list[str]:
    """Return the rows of different runs or estimators that show the same numbers."""
    rows = {row.name: (row.runs, row.estimator, row.tau, row.formula) for row in table.rows if not row.each_domain}
    alike: dict[tuple[object, ...], list[str]] = {}
    for line in lines:
        shown = tuple(_shown(line, name, column) for name, column in columns.items())
        if line.name in rows and line.ours.get("n") and any(shown):
            alike.setdefault((line.ours["n"], *shown), []).append(line.name)
    return [
        f"No visible effect at n = {n:,}: {', '.join(names)} show the same numbers."
        for (n, *_), names in alike.items()
        if len({rows[name] for name in names}) > 1
    ]


def _shown(line: Line, name: str, column: Column) -> tuple[str, ...]:
    """Return one of our numbers with its interval, as in a table; empty if undefined."""
    value = line.ours.get(name)
    return () if value is None else tuple(format(each, column.form) for each in (value, *line.intervals.get(name, ())))
