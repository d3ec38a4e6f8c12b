"""What stands under a table: what about it is not as in the paper, and what the numbers themselves do not say.

Settings are found by comparing those of every run with what the run has in the paper, so that none can be forgotten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from secl.data.benchmarks import QuizBenchmark, find_benchmark
from secl.reports.formatting import UNDEFINED
from secl.runs.settings import MACHINE_SETTINGS, RunSettings, as_compared
from secl.settings.tree import FLAT_NAMES
from secl_paper.compare import FinishedRun, Line
from secl_paper.layout import Column, Run, Table
from secl_paper.paper import Counterpart, PaperTable, read_paper
from secl_paper.setup import OPEN_FORM, STREAM, Setup, benchmarks_of, settings_of

APART = ("model", "benchmarks", "per_domain", "dtype", "tau", "nli", *MACHINE_SETTINGS)
"""Settings that have sentences of their own, or say where a run happens."""


def differences(
    table: Table,
    setup: Setup,
    compared: Counterpart,
    settings: Mapping[Run, RunSettings],
    runs: Mapping[Run, FinishedRun],
) -> list[str]:
    """Everything that a reader must know about a table before comparing it with the paper's."""
    paper = read_paper().table(table)
    return [
        *_column(paper, setup, compared),
        *_questions(table, paper, setup, compared),
        *_settings(table, setup, compared, settings, runs),
        *_judge(table, settings),
        *_precision(runs),
    ]


def _column(paper: PaperTable | None, setup: Setup, compared: Counterpart) -> list[str]:
    """Which column of the paper is shown, and why."""
    if paper is None:
        return []
    models = read_paper().models
    if compared.name is not None and compared.name in paper.numbers:
        return [f"The paper's column is {models[compared.name]}: {compared.why}."]
    whom = f"{models[compared.name]} here" if compared.name else f"{setup.model_name} ({compared.why})"
    return [
        f"The paper has no column for {whom}, so none is shown; --against compares with one that it has "
        f"({', '.join(paper.numbers)})."
    ]


def _questions(table: Table, paper: PaperTable | None, setup: Setup, compared: Counterpart) -> list[str]:
    """How many questions there are of what, and in the paper."""
    counts = _counts(benchmarks_of(min(table.runs, key=lambda run: run.scale, default=Run("none")), setup))
    ours, quiz = setup.model_name, [name for name in setup.names if isinstance(find_benchmark(name), QuizBenchmark)]
    stream = ", ".join(setup.names) + (f" ({', '.join(quiz)}: the built-in quiz)" if quiz else "")
    if paper is None or compared.name is None or compared.name not in paper.numbers:
        return [f"These numbers are {ours} with {counts} questions per domain of {stream}."] if table.runs else []
    if paper.per_domain is None:
        return []
    notes = [
        f"The paper ran {read_paper().models[compared.name]} with {paper.per_domain:,} questions per domain; "
        f"these numbers are {ours} with {counts}."
    ]
    if setup.names != STREAM:
        notes.append(f"The stream is {stream} in place of the paper's {', '.join(STREAM)}.")
    if any(run.open_ended for run in table.runs) and not set(setup.names) & set(OPEN_FORM):
        notes.append("No benchmark of this stream has an open-ended form, so it is asked as it is.")
    return notes


def _settings(
    table: Table,
    setup: Setup,
    compared: Counterpart,
    settings: Mapping[Run, RunSettings],
    runs: Mapping[Run, FinishedRun],
) -> list[str]:
    """Settings that the paper's run has otherwise."""
    papers = Setup.of({name: value for name, value in setup.given().items() if name in APART})
    unlike: dict[str, str] = {}
    for run in table.runs:
        theirs, ours = RunSettings.of(settings_of(run, papers)), settings[run]
        unlike |= _unlike(theirs.flat(), ours.flat())
    taus = {run.tau for run in runs.values()}
    papers_tau = read_paper().tau.get(compared.name or "")
    if taus - {papers_tau}:
        own = " and ".join(f"{tau:g}" for tau in sorted(taus))
        unlike["tau"] = f"tau {own} ({'none given' if papers_tau is None else f'{papers_tau:g}'})"
    if not unlike:
        return []
    return [f"Settings that are not the paper's, with its own in brackets: {', '.join(unlike.values())}."]


def _unlike(theirs: Mapping[str, object], ours: Mapping[str, object]) -> dict[str, str]:
    """The settings that differ, as "alpha 0.3 (0.5)"; of another gate its name, and what was set of it."""
    left_out = set(APART)
    if theirs["gate"] != ours["gate"]:
        left_out |= {name for name, path in FLAT_NAMES.items() if path[0] == "gate" and ours[name] is None}
    return {
        name: f"{name} {as_compared(name, ours[name])} ({as_compared(name, theirs[name])})"
        for name in ours
        if name not in left_out and ours[name] != theirs[name]
    }


def _judge(table: Table, settings: Mapping[Run, RunSettings]) -> list[str]:
    """What told DINCO which answers imply or exclude each other."""
    judges = {
        settings[run].evidence.nli
        for row in table.rows
        if row.estimator in ("dinco", "dinco_greedy")
        for run in row.runs
    }
    return [
        "DINCO was judged by the answering model itself; the paper used an NLI model (--nli NAME)."
        if judge is None
        else f"DINCO was judged by the NLI model {judge}; the paper does not name its own."
        for judge in judges
    ]


def _precision(runs: Mapping[Run, FinishedRun]) -> list[str]:
    """What the network computed in, about which the paper says nothing."""
    environments = [run.environment for run in runs.values() if "dtype" in run.environment]
    bodies = dict.fromkeys(f"{each['dtype']} on {each['device']}" for each in environments)
    return [f"The network computed in {' and in '.join(bodies)}; the paper does not say in what."] if bodies else []


def _counts(stream: Sequence[str]) -> str:
    """How many questions per domain, in words.

    >>> _counts(("arc:20", "mmlu:20")), _counts(("arc:20", "truthfulqa:17"))
    ('20', '20 (arc), 17 (truthfulqa)')
    """
    parts = [name.partition(":") for name in stream]
    counts = {count for _, _, count in parts}
    return f"{int(counts.pop()):,}" if len(counts) == 1 else ", ".join(f"{count} ({name})" for name, _, count in parts)


def remarks(
    table: Table, lines: Sequence[Line], columns: Mapping[str, Column], untrained: Mapping[str, bool]
) -> list[str]:
    """How many answers the numbers are of, what never learned, which rows are the same, and what dashes mean."""
    notes = []
    counts = {line.name: line.ours["n"] for line in lines if line.ours.get("n") is not None}
    if counts:
        usual = Counter(counts.values()).most_common(1)[0][0]
        others = ", ".join(f"{name} {n:,}" for name, n in counts.items() if n != usual)
        notes.append(f"n = {usual:,} graded answers{f' ({others})' if others else ''}.")
    for opened, why in ((False, "the gate never opened"), (True, "the bin gate stopped every update")):
        names = ", ".join(name for name, was_open in untrained.items() if was_open is opened)
        if names:
            notes.append(f"Nothing was trained in {names}, because {why}: this is the frozen model, up to rounding.")
    notes += _same(table, [line for line in lines if line.name not in untrained], columns)
    if any(line.ours.get(name) is None for line in lines for name in columns):
        notes.append(f"{UNDEFINED} is undefined or does not apply (AUROC needs right and wrong answers).")
    return notes


def _same(table: Table, lines: Sequence[Line], columns: Mapping[str, Column]) -> list[str]:
    """Rows of different runs or estimators that show the same numbers."""
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
    """A number of ours with its interval, as a table has them; empty where it is undefined."""
    value = line.ours.get(name)
    return () if value is None else tuple(format(each, column.form) for each in (value, *line.intervals.get(name, ())))
