"""What a reproduction runs on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from secl.errors import ParameterError
from secl.settings.tree import SettingGroups, nested

STREAM = ("gsm8k", "mmlu", "arc", "truthfulqa")
"""The paper's benchmarks in its order."""

PER_DOMAIN = 500
"""Its questions of each."""

PAPER_GATE = "page-hinkley"

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
    def names(self) -> tuple[str, ...]:
        """The benchmarks without their numbers of questions."""
        return tuple(benchmark.partition(":")[0] for benchmark in self.benchmarks)

    @property
    def per_domain(self) -> int:
        """Questions of each benchmark that has no number."""
        return self.stream.per_domain or PER_DOMAIN
