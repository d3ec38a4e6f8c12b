"""The parts of a table: runs, rows that are computed from them, and columns of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from secl.scores import SCORES as BUILT_IN
from secl.settings.groups import Formula

ISOLATED = "isolated"
"""Our own estimator: the confidence after the question's own update alone (Table ablation_accum)."""

Figure = Literal["reliability", "scores", "cost"]
"""Reliability diagrams; confidences of right and wrong answers; ECE over cost."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of numbers, with their format, for example ".3f"."""

    heading: str
    form: str


COLUMNS = {
    "ece": Column("ECE", ".3f"),
    "reduction": Column("Reduction", ".0%"),
    "ada_ece": Column("AdaECE", ".3f"),
    "brier": Column("Brier", ".3f"),
    "auroc": Column("AUROC", ".3f"),
    "auroc_within": Column("AUROC within", ".3f"),
    "accuracy": Column("Accuracy", ".3f"),
    "n": Column("n", ",.0f"),
    "cost": Column("Cost", ".1f"),
    "cost_measured": Column("Measured cost", ".2f"),
    "questions": Column("Questions", ",.0f"),
    "trained": Column("Trained", ",.0f"),
    "trained_share": Column("Trained %", ".1%"),
    "skipped": Column("Skipped", ",.0f"),
    "secl_cost": Column("SECL cost", ",.0f"),
    "p_true_cost": Column("P(True) cost", ",.0f"),
    "temperature": Column("T", ".1f"),
    "tau": Column("tau", ".1f"),
    "low": Column("Lowest", ".2f"),
    "high": Column("Highest", ".2f"),
    "first_layer": Column("First layer", ".0f"),
    "last_layer": Column("Last layer", ".0f"),
    "model_parameters": Column("Parameters", ",.0f"),
    "adapted_layers": Column("LoRA layers", ".0f"),
    "adapter_parameters": Column("LoRA parameters", ",.0f"),
    "adapter_share": Column("LoRA %", ".3%"),
}
"""The last four are sizes, which need the configuration of a model and no run."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A run that tables read, defined by its differences from SECL with the paper's settings.

    Attributes:
        name: for error messages and the columns of a table by run.
        changes: settings by name, as in `secl.runs.RunSettings`.
        scale: factor of the length of the stream.
        open_ended: whether to ask benchmarks in their open-ended form, if they have one.
    """

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    scale: int = 1
    open_ended: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table, or of each domain.

    Attributes:
        run: the run of the row; several runs are averaged.
        estimator: a built-in estimator or `ISOLATED`; None for a row of sizes, which needs no run.
        tau: temperature of normalised P(True), above 0; None for the run's own.
        formula: of normalised P(True); None for the run's own.
        each_domain: whether to make a row NAME/DOMAIN for each domain of the stream instead.
    """

    name: str
    run: Run | tuple[Run, ...]
    estimator: str | None
    tau: float | None = None
    formula: Formula | None = None
    each_domain: bool = False

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs of the row; empty for a row of sizes."""
        runs = self.run if isinstance(self.run, tuple) else (self.run,)
        return runs if self.estimator else ()

    @property
    def learned(self) -> bool:
        """Whether the row shows the model after learning."""
        return self.estimator == ISOLATED or (self.estimator is not None and BUILT_IN[self.estimator].learned)


@dataclass(frozen=True, slots=True)
class Table:
    """A table or figure of the paper, or one of ours.

    Attributes:
        key: name of the table, for files and the command line.
        columns: names in `COLUMNS`.
        by: "domain" repeats every column (a measure) for each domain; "run" for each run, with mean and deviation.
        paper: key of the table with the paper's numbers; None for its own key.
        figure: kind of the figure drawn from all rows, or None.
    """

    key: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    by: Literal["domain", "run"] | None = None
    paper: str | None = None
    figure: Figure | None = None
    note: str | None = None

    @property
    def runs(self) -> list[Run]:
        return list(dict.fromkeys(run for row in self.rows for run in row.runs))
