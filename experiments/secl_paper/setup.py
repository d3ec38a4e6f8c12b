"""What a reproduction runs on, and the settings that its runs have there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from secl.data.benchmarks import find_benchmark
from secl.errors import ParameterError
from secl.gates import gate_class
from secl.methods import PAPER, Method, method
from secl.settings.tree import FLAT_NAMES, SettingGroups, nested
from secl_paper.layout import Run

STREAM = ("gsm8k", "mmlu", "arc", "truthfulqa")
"""The paper's benchmarks in its order."""

PER_DOMAIN = 500
"""Its questions of each."""

PAPER_GATE = "page-hinkley"

OPEN_FORM = {"truthfulqa": "truthfulqa_gen", "truthfulqa_in_order": "truthfulqa_gen"}
"""Benchmarks that are also asked as open questions."""

PaperModel = Literal["llama-3.2-3b", "llama-3.1-8b", "gemma-2-2b", "phi-3.5-mini", "qwen2.5-3b"]
"""The models of `paper.json`."""


class Setup(SettingGroups):
    """What a reproduction runs on: the settings of `secl run`, which hold for all runs.

    What is not given is the paper's, and what a table varies is the table's.

    Raises:
        ParameterError: a value of the wrong type or outside its range, or a setting that the tables do not leave open.
    """

    against: PaperModel | None = Field(
        None, description="The paper's model to compare with; found by the model's name or hub id."
    )

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """A setup from settings under the names of their flags, `against` among them.

        >>> Setup.of({"model": "gemma-2-2b", "benchmarks": ["arc:20"], "burst": 20}).given()
        {'model': 'gemma-2-2b', 'benchmarks': ('arc:20',), 'burst': 20}
        """
        settings = {name: value for name, value in values.items() if name != "against"}
        return cls.model_validate({**nested(settings), "against": values.get("against")})

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = self.given()
        if self.model.answered_by != "local":
            raise ParameterError("a reproduction trains the model, which must be here; leave engine and endpoint out.")
        if "questions" in given:
            raise ParameterError("the paper's tables are about benchmarks; ask your own questions with secl run.")
        if "method" in given:
            raise ParameterError(
                f"every run of a table has its own method, and SECL's settings are the paper's; leave the method "
                f"{self.method!r} out."
            )
        return self

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """The benchmarks in forward order, with a number of questions or without."""
        return tuple(self.given().get("benchmarks", STREAM))

    @property
    def model_name(self) -> str:
        """What the model is called, without the folder or the owner that it is in."""
        return Path(self.model.name).name

    @property
    def names(self) -> tuple[str, ...]:
        """The benchmarks without their numbers of questions."""
        return tuple(benchmark.partition(":")[0] for benchmark in self.benchmarks)

    @property
    def per_domain(self) -> int:
        """Questions of each benchmark that has no number."""
        return self.stream.per_domain or PER_DOMAIN


def settings_of(run: Run, setup: Setup) -> dict[str, Any]:
    """The settings of a run under a setup, as `secl.RunSettings.of` takes them.

    They are the paper's to the letter, save for what the setup gives, save for what the run itself is about.

    >>> setup = Setup.of({"benchmarks": ["capitals"], "per_domain": 6, "alpha": 0.2})
    >>> settings = settings_of(Run("burst 20", {"burst": 20}), setup)
    >>> settings["benchmarks"], settings["gate"], settings["burst"], settings["alpha"], settings["p_true_prompt"]
    (('capitals:6',), 'page-hinkley', 20, 0.2, 'paper')
    """
    chosen = method(run.changes.get("method", "secl"))
    given = _applicable(setup.given(), run, chosen)
    gate: str | None = run.changes.get("gate", given.get("gate", PAPER_GATE)) if chosen.learns else None
    settings: dict[str, Any] = {
        **{name: value for name, value in PAPER.items() if gate == PAPER_GATE or not _is_of("gate", name)},
        **given,
        "gate": gate,
        "benchmarks": benchmarks_of(run, setup),
        **{name: None if _is_gates_own(gate, name, value) else value for name, value in run.changes.items()},
    }
    if "layers" in run.changes:
        from secl_paper.lora_sizes import layers_beyond_preset  # imports torch

        settings["layers"] = layers_beyond_preset(setup.model.name, run.changes["layers"])
    return settings


def _applicable(given: Mapping[str, Any], run: Run, chosen: Method) -> dict[str, Any]:
    """The given settings that matter to a run: those about learning do not where nothing is learned."""
    wanted = dict(given)
    wanted.pop("per_domain", None)  # every benchmark has its number
    dinco = (*chosen.evidence, *given.get("extra_evidence", ()), run.changes.get("signal", given.get("signal")))
    if "dinco" not in dinco:
        wanted.pop("nli", None)
    if not chosen.learns:
        return {
            name: value for name, value in wanted.items() if not _is_of("gate loop adapter", name) or name == "samples"
        }
    if "gate" in run.changes:  # of a gate's parameters those that the run's own has
        own = gate_class(run.changes["gate"])()
        wanted = {name: value for name, value in wanted.items() if not _is_of("gate", name) or hasattr(own, name)}
    return wanted


def _is_of(groups: str, name: str) -> bool:
    return FLAT_NAMES.get(name, ("",))[0] in groups.split()


def _is_gates_own(gate: str | None, name: str, value: Any) -> bool:
    """Whether a gate has this value by itself, for which a recipe leaves it out: equal runs have equal settings."""
    return gate is not None and _is_of("gate", name) and getattr(gate_class(gate)(), name, None) == value


def benchmarks_of(run: Run, setup: Setup) -> tuple[str, ...]:
    """The benchmarks of a run, each with its number of questions: the setup's stream, longer or open-ended.

    Every benchmark has a number, so that equal runs of different tables are one. A longer stream takes no more
    questions of a benchmark than it has.

    >>> setup = Setup.of({"benchmarks": ["capitals:5", "misconceptions"], "per_domain": 90})
    >>> benchmarks_of(Run("x", scale=2, open_ended=True), setup)
    ('capitals:10', 'misconceptions:98')
    """
    benchmarks = []
    data = setup.stream.data
    for name, entry in zip(setup.names, setup.benchmarks, strict=True):
        opened = OPEN_FORM.get(name, name) if run.open_ended else name
        benchmark = name if opened in setup.names else opened  # in its open-ended form, unless that is there already
        count = entry.partition(":")[2] or str(setup.per_domain)
        if run.scale > 1 and count.isdecimal():
            available = find_benchmark(benchmark).questions(Path(data) if data else None, seed=0)
            count = str(max(int(count), min(run.scale * int(count), len(available))))
        benchmarks.append(f"{benchmark}:{count}")
    return tuple(benchmarks)
