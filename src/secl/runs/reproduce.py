"""From the paper's recipes to finished runs and written tables; runs are shared, and finished ones never repeated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from secl.data.benchmarks import load
from secl.data.quiz import DOMAINS, available
from secl.errors import ParameterError
from secl.methods import method
from secl.reports.paper import PaperTable, Recorded, compare, untrained
from secl.reports.paper_tables import remarks, write_figure, write_index, write_table
from secl.runs.experiments import GENERATED, SCALE, Experiment, Printed, printed
from secl.runs.settings import RunSettings
from secl.runs.store import Store
from secl.runs.sweep import Job, Watch, finished, perform_all, plan, sizes
from secl.validation import check_whole

STREAM = ("gsm8k", "mmlu", "arc", "truthfulqa")
"""The paper's benchmarks in its order."""

OPEN_FORM = {"truthfulqa": "truthfulqa_gen"}
"""Benchmarks that are also asked as open questions."""

PAPER_MODEL, PAPER_GATE = "llama-3.2-3b", "page-hinkley"
RUNS, TABLES = "runs", "tables"


@dataclass(frozen=True, slots=True)
class Setup:
    """What a reproduction runs on.

    Attributes:
        model, data, dtype, device, tau, nli: as in `secl.runs.settings.RunSettings`; None for the recipe's default.
        per_domain: questions of each benchmark that does not say how many.
        stream: benchmarks in forward order.
        gate: in place of the paper's gate, for runs that learn and name none.
        against: the paper's model to compare with; None for the same model, or the nearest there is.

    Raises:
        ParameterError: no question per domain, or a model to compare with that the paper does not have.
    """

    model: str = "smollm2"
    per_domain: int = 500
    stream: tuple[str, ...] = STREAM
    data: str | None = None
    dtype: str | None = None
    device: str | None = None
    tau: float | None = None
    nli: str | None = None
    gate: str | None = None
    against: str | None = None

    def __post_init__(self) -> None:
        check_whole("number of questions per domain", self.per_domain, 1)
        models = printed()[0]
        if self.against is not None and self.against not in models:
            raise ParameterError(f"the paper has no model {self.against!r}; its models are {', '.join(models)}.")

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """The names in the stream, without numbers of questions."""
        return tuple(name.partition(":")[0] for name in self.stream)


def settings(run: Mapping[str, Any], setup: Setup) -> dict[str, Any]:
    """The settings of a recipe's run under a setup, for `secl.runs.sweep.plan`.

    >>> settings({"burst": 20}, Setup(stream=("capitals",), per_domain=6))
    {'model': 'smollm2', 'stream': ('capitals:6',), 'gate': 'page-hinkley', 'burst': 20}
    """
    found: dict[str, Any] = {"model": setup.model, "stream": stream_of(run, setup)}
    found |= {key: getattr(setup, key) for key in ("data", "dtype", "device", "tau") if getattr(setup, key) is not None}
    chosen = method(run.get("method", "secl"))
    if chosen.learns:
        found["gate"] = setup.gate or PAPER_GATE
    if setup.nli is not None and "dinco" in chosen.evidence:
        found["nli"] = setup.nli
    found |= {key: value for key, value in run.items() if key not in (SCALE, GENERATED)}
    if "layers" in run:
        from secl.backends.local.lora_sizes import concrete_layers  # imports torch

        found["layers"] = concrete_layers(found["model"], run["layers"])
    return found


def stream_of(run: Mapping[str, Any], setup: Setup) -> tuple[str, ...]:
    """The benchmarks of a run, each with its number of questions: the setup's stream, longer or open-ended.

    Every benchmark says how many questions, so that equal runs of different tables are one. A longer stream asks no
    benchmark for more questions than it has.

    >>> stream_of({"scale": 2, "generated": True}, Setup(stream=("capitals:5", "misconceptions"), per_domain=90))
    ('capitals:10', 'misconceptions:98')
    """
    scale, found = run.get(SCALE, 1), []
    for name, given in zip(setup.benchmarks, setup.stream, strict=True):
        opened = OPEN_FORM.get(name, name) if run.get(GENERATED) else name
        asked = name if opened in setup.benchmarks else opened
        count = given.partition(":")[2] or str(setup.per_domain)
        if scale > 1 and count.isdecimal():
            count = str(max(int(count), min(scale * int(count), _size(asked, setup))))
        found.append(f"{asked}:{count}")
    return tuple(found)


def _size(name: str, setup: Setup) -> int:
    """How many questions a benchmark has."""
    if name in DOMAINS:
        return available(name)
    return len(load(name, data=Path(setup.data) if setup.data else None))


@dataclass(frozen=True)
class Reproduction:
    """Experiments with the runs that they share.

    Attributes:
        experiments: in order.
        setup: what they run on.
        out: folder of the runs, the tables and their index.
        jobs: of each experiment (by key), the job of each of its runs, by name.
    """

    experiments: Sequence[Experiment]
    setup: Setup
    out: Path
    jobs: Mapping[str, Mapping[str, Job]]

    @classmethod
    def planned(cls, experiments: Sequence[Experiment], setup: Setup, out: Path) -> Reproduction:
        """Check all runs and name their folders; nothing is asked or written.

        Raises:
            ParameterError: a setting that makes no sense.
            DataError: a benchmark whose size must be known cannot be read.
        """
        jobs: dict[str, dict[str, Job]] = {}
        for experiment in experiments:
            jobs[experiment.key] = {}
            for run in experiment.needed:
                try:
                    (jobs[experiment.key][run],) = plan([settings(experiment.runs[run], setup)], out / RUNS)
                except ParameterError as problem:
                    raise ParameterError(f"the run {run!r} of the table {experiment.key!r}: {problem}") from problem
        return cls(experiments, setup, out, jobs)

    def missing(self) -> dict[str, int]:
        """The names of the jobs that are not finished, and how many questions each has; reads all their streams.

        Raises:
            SeclError: a stream that cannot be read, or a folder that holds something else.
        """
        every = {job.name: job for jobs in self.jobs.values() for job in jobs.values()}
        return sizes([job for job in every.values() if not finished(job)])

    def tables(self, watch: Watch | None = None) -> Iterator[PaperTable]:
        """Do what is missing for one experiment after the other; each table is written when it is ready.

        Raises:
            SeclError: of the first run that cannot be done; what is done stays.
        """
        read = lru_cache(maxsize=8)(_recorded)
        for experiment in self.experiments:
            jobs = self.jobs[experiment.key]
            perform_all(list(jobs.values()), watch)
            yield self._write(experiment, {name: read(job) for name, job in jobs.items()})

    def _write(self, experiment: Experiment, runs: Mapping[str, Recorded]) -> PaperTable:
        """A table of finished runs, written with its figure, and named in the index."""
        paper = printed()[1].get(experiment.paper)
        numbers = paper.numbers[self._reference(paper)] if paper else None
        columns, lines = compare(experiment.rows, experiment.columns, runs, numbers, self._sizes(experiment))
        differences = self.differences(experiment)
        notes = [*differences, *remarks(lines, columns, untrained(experiment.rows, runs))]
        notes += [experiment.note] if experiment.note else []
        table = PaperTable(experiment.key, experiment.title, columns, tuple(lines), paper is not None, tuple(notes))
        place = f"{TABLES}/{Path(self.setup.model).name}"  # every model has its own
        write_table(table, self.out / place)
        if experiment.figure:
            write_figure(experiment.figure, experiment.rows, lines, runs, self.out / place / experiment.key)
        names = [job.name for job in self.jobs[experiment.key].values()]
        write_index(self.out, table, place, [f"{RUNS}/{name}" for name in names], differences)
        return table

    def _reference(self, paper: Printed) -> str:
        """The model of the paper's column: the one asked for, the same as ours, Llama 3.2-3B, or the table's first."""
        candidates = (self.setup.against or "", self.setup.model, PAPER_MODEL, *paper.numbers)
        return next(name for name in candidates if name in paper.numbers)

    def differences(self, experiment: Experiment) -> list[str]:
        """Where model, questions, stream and gate are not those of the paper, in whole sentences."""
        setup, paper = self.setup, printed()[1].get(experiment.paper)
        runs = [experiment.runs[name] for name in experiment.needed]
        shortest = min(runs, key=lambda run: int(run.get(SCALE, 1)), default={})
        ours, counts = Path(setup.model).name, _counts(stream_of(shortest, setup))
        if paper is None:
            return [f"These numbers are {ours} with {counts} questions per domain of {', '.join(setup.benchmarks)}."]
        theirs = printed()[0][self._reference(paper)]
        if paper.per_domain is None:
            return [f"The paper's numbers are those of {theirs}; these are {ours}'s."]
        found = [
            f"The paper ran {theirs} with {paper.per_domain:,} questions per domain; "
            f"these numbers are {ours} with {counts}."
        ]
        if setup.benchmarks != STREAM:
            found.append(f"The stream is {', '.join(setup.benchmarks)} in place of the paper's {', '.join(STREAM)}.")
        if any(run.get(GENERATED) for run in runs) and not set(setup.benchmarks) & set(OPEN_FORM):
            found.append("No benchmark of this stream has an open-ended form, so it is asked as it is.")
        gated = any("gate" not in run and method(run.get("method", "secl")).learns for run in runs)
        if gated and setup.gate not in (None, PAPER_GATE):
            found.append(f"SECL's gate is {setup.gate} in place of the paper's {PAPER_GATE}.")
        return found

    def _sizes(self, experiment: Experiment) -> dict[str, float] | None:
        """The numbers of rows without a reading, if there are such rows."""
        run = next((row.runs[0] for row in experiment.rows if row.reading is None), None)
        if run is None:
            return None
        from secl.backends.local.lora_sizes import lora_sizes  # imports torch

        recipe = RunSettings.from_json(settings(experiment.runs[run], self.setup))
        found = lora_sizes(recipe.model, layers=recipe.layers, modules=recipe.modules, rank=recipe.rank)
        return {
            "model_parameters": found.model_parameters,
            "adapted_layers": found.adapted_layers,
            "adapter_parameters": found.adapter_parameters,
            "adapter_share": found.adapter_parameters / found.model_parameters,
        }


def _counts(stream: Sequence[str]) -> str:
    """How many questions per domain, in words.

    >>> _counts(("arc:20", "mmlu:20")), _counts(("arc:20", "truthfulqa:17"))
    ('20', '20 (arc), 17 (truthfulqa)')
    """
    parts = [name.partition(":") for name in stream]
    counts = {count for _, _, count in parts}
    return f"{int(counts.pop()):,}" if len(counts) == 1 else ", ".join(f"{count} ({name})" for name, _, count in parts)


def _recorded(job: Job) -> Recorded:
    """A finished run as tables read it."""
    with Store(job.folder) as store:
        manifest = store.manifest
        return Recorded(
            records=list(store.records()),
            tau=job.recipe.tau or manifest["tau"],
            formula=job.recipe.formula,
            layers=tuple(manifest["adapter"]["layers_to_transform"]),
            learns=method(job.recipe.method).learns,
        )
