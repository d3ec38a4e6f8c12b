"""From the list of tables to finished runs and written tables. Tables share runs, and no finished run is repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from secl.errors import ParameterError
from secl.runs import RunSettings, Store
from secl.runs.labelling import held_out_records
from secl.runs.manifest import Manifest
from secl.runs.sweep import Job, is_finished, plan, ready
from secl_paper.compare import FilledTable, FinishedRun, compare, untrained
from secl_paper.figures import write_figure
from secl_paper.layout import Run, Table
from secl_paper.notes import differences, remarks
from secl_paper.output import write_index, write_table
from secl_paper.paper import Counterpart, counterpart, read_paper
from secl_paper.setup import Setup, settings_of
from secl_paper.tables import SECL, TABLES


def find(names: Sequence[str]) -> list[Table]:
    """Return the tables with these names; without names, all tables.

    Raises:
        ParameterError: an unknown name.
    """
    tables = {table.key: table for table in TABLES}
    for name in names:
        if name not in tables:
            raise ParameterError(f"there is no table {name!r}; the tables are {', '.join(tables)}.")
    return [tables[name] for name in dict.fromkeys(names or tables)]


@dataclass(frozen=True)
class Reproduction:
    """Tables with the runs that they share.

    Attributes:
        out: folder of the runs, the tables and their index.
        compared: the model of the paper to compare with.
        jobs: job of every run; equal runs have equal jobs.
    """

    tables: Sequence[Table]
    setup: Setup
    out: Path
    compared: Counterpart
    jobs: Mapping[Run, Job]

    @classmethod
    def plan(cls, tables: Sequence[Table], setup: Setup, out: Path) -> Reproduction:
        """Check all runs and name their folders, without asking or writing.

        Raises:
            ParameterError: an invalid setting.
            DataError: a benchmark whose size must be known cannot be read.
        """
        settings: dict[Run, RunSettings] = {}
        for table in tables:
            for run in table.runs:
                try:
                    settings[run] = ready(settings_of(run, setup))
                except ParameterError as problem:
                    raise ParameterError(f"the run {run.name!r} of the table {table.key!r}: {problem}") from problem
        jobs = {job.settings: job for job in plan(settings.values(), out / "runs" / setup.model_name)}
        compared = counterpart(setup.model, setup.against)
        return cls(tables, setup, out, compared, {run: jobs[each] for run, each in settings.items()})

    @property
    def runs(self) -> list[Job]:
        return list({job.name: job for job in self.jobs.values()}.values())

    @property
    def missing(self) -> list[Job]:
        """The runs that are not finished.

        Raises:
            RunError: a folder holds something else.
        """
        return [job for job in self.runs if not is_finished(job)]

    def fill(self, perform: Callable[[Sequence[Job]], None]) -> Iterator[FilledTable]:
        """Do the missing runs together, so that runs of one stream proceed in lockstep; then write every table."""
        if missing := self.missing:
            perform(missing)
        read = lru_cache(maxsize=8)(_read_run)
        for table in self.tables:
            yield self._write(table, {run: read(self.jobs[run]) for run in table.runs})

    def _sizes(self) -> dict[str, float]:
        """Return the sizes of the model and of its adapter in SECL."""
        from secl_paper.lora_sizes import lora_sizes  # torch takes seconds to import

        settings = RunSettings.of(settings_of(SECL, self.setup))
        return lora_sizes(settings.model.name, settings.adapter)

    def _write(self, table: Table, runs: Mapping[Run, FinishedRun]) -> FilledTable:
        """Write a table of finished runs with its figure, add it to the index, and return it."""
        paper = read_paper().table(table)
        numbers = paper.numbers.get(self.compared.name or "") if paper else None
        columns, lines = compare(table, runs, numbers, None if table.runs else self._sizes())
        different = differences(table, self.setup, self.compared, runs)
        notes = [*different, *remarks(table, lines, columns, untrained(table, runs)), *filter(None, [table.note])]
        filled = FilledTable(table.key, table.title, columns, tuple(lines), numbers is not None, tuple(notes))
        folder = f"tables/{self.setup.model_name}"
        write_table(filled, self.out / folder)
        if table.figure:
            write_figure(table, lines, runs, self.out / folder / table.key)
        names = [str(self.jobs[run].folder.relative_to(self.out)) for run in table.runs]
        write_index(self.out, filled, folder, names, different)
        return filled


def _read_run(job: Job) -> FinishedRun:
    with Store(job.folder) as store:
        return FinishedRun(list(held_out_records(store)), Manifest.of(store))
