"""The manifest of a run: its settings and other facts that are fixed before the first question."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from secl.data.benchmarks import fingerprint
from secl.data.question_files import QuestionFile
from secl.errors import RunError
from secl.gates import Gate
from secl.labels.label import Label
from secl.methods import Plan
from secl.model import Model
from secl.own import is_own
from secl.posterior.shared import SharedSums
from secl.runs.extracting import DocumentFile, failures
from secl.runs.settings import Recipe, RunSettings, with_absolute_paths
from secl.runs.store import Store
from secl.settings.groups import Dtype

Mode = Literal["ask", "score", "extract"]
"""The task of a run."""

PRECISIONS: dict[str, Dtype] = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
"""The name of a precision in settings, by its name in PyTorch."""

_LIBRARIES = ("secl", "torch", "transformers", "peft")


@dataclass(frozen=True, slots=True)
class Earlier:
    """What a run takes over from an earlier run of the same model and method.

    Attributes:
        labels: the labels, which calibrate the confidences.
        shared: sums over questions with the same options (`PosteriorRule.known`).
    """

    labels: tuple[Label, ...] = ()
    shared: Mapping[str, SharedSums] = field(default_factory=dict)


NO_RUN = Earlier()


class Manifest(BaseModel):
    """The settings of a run, and other facts that must stay the same until the run ends.

    Attributes:
        settings: settings with absolute paths; a server's settings name no questions.
        mode: "ask" (the model answers questions), "score" (the model rates given answers) or "extract" (the questions
            are fields of documents).
        model: fingerprint of the model.
        model_tau: the model's temperature of normalised P(True).
        letters: prior reliability of the model's letters (`secl.model.Model.letters`).
        stream: fingerprint of the questions.
        total: number of questions.
        skipped: location and problem of each skipped question (`--skip-bad`).
        unanswerable: ids of the skipped questions that the model cannot answer.
        environment: versions of libraries, machine and device, which affect rounding.
        adapter: configuration of the adapter in PEFT's format; empty without an adapter.
        calibration: copies of the labels of an earlier run (`secl.runs.loading.calibration`).
        shared: sums over the questions of the same earlier run that have the same options.
        created: date and time in ISO format.
        keep_text: texts that a server keeps: "none" or "full".
    """

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, protected_namespaces=())

    settings: RunSettings
    mode: Mode = "ask"
    model: str = ""
    model_tau: float = Field(1.0, alias="tau")
    letters: float | None = None
    stream: str = ""
    total: int = 0
    skipped: tuple[tuple[str, str], ...] = ()
    unanswerable: tuple[str, ...] = ()
    environment: dict[str, str | int] = {}
    adapter: dict[str, Any] = {}
    calibration: tuple[Label, ...] = ()
    shared: dict[str, SharedSums] = {}
    created: str = ""
    keep_text: str = "full"

    @classmethod
    def new(
        cls,
        settings: Recipe,
        model: Model,
        asked: QuestionFile,
        unanswerable: tuple[str, ...] = (),
        earlier: Earlier = NO_RUN,
    ) -> Self:
        """Return the manifest of a run that begins now."""
        return cls(
            settings=settings if isinstance(settings, RunSettings) else RunSettings(**settings.model_dump()),
            mode="extract" if isinstance(asked, DocumentFile) else "ask" if asked.given is None else "score",
            model=model.fingerprint,
            model_tau=model.tau,
            letters=model.letters,
            stream=stream_fingerprint(asked),
            total=len(asked.questions),
            skipped=asked.skipped,
            unanswerable=unanswerable,
            environment=environment(model),
            adapter={} if model.learner is None else model.learner.config,
            calibration=earlier.labels,
            shared=dict(earlier.shared),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    @classmethod
    def of(cls, store: Store) -> Self:
        """Return the manifest of an open run, or raise a RunError if the manifest is not valid.

        In an extraction, a document for which the model wrote no valid object counts as skipped.
        """
        try:
            manifest = cls.model_validate(store.manifest)
        except ValidationError as problem:
            error = problem.errors(include_url=False)[0]
            key = ".".join(map(str, error["loc"]))
            raise RunError(f"{store.folder} is damaged or not a run: its manifest has no usable {key}.") from problem
        if manifest.mode != "extract":
            return manifest
        failed = failures(store)
        skipped = (*manifest.skipped, *((f"document {each.document!r}:", each.reason) for each in failed))
        total = manifest.total - sum(each.fields for each in failed)
        return manifest.model_copy(update={"skipped": skipped, "total": total})

    def gate(self, named: str | None = None) -> Gate:
        """Return the gate. If the gate is a Python file, secl executes the file only if `named` is the same gate.

        Raises:
            RunError: `named` does not name the Python file. The folder, and so the file, may come from a stranger.
            ParameterError: the gate cannot be loaded.
        """
        own = self.settings.gate_name
        if is_own(own) and with_absolute_paths({"gate.name": named}) != with_absolute_paths({"gate.name": own}):
            raise RunError(
                f"the gate {own!r} is a Python file, which secl executes only if you name it; if you trust the file, "
                f"add --gate {own}"
            )
        return self.settings.build_gate()

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values for `Store.create`."""
        return self.model_dump(mode="json", by_alias=True)

    @property
    def tau(self) -> float:
        """The temperature of normalised P(True): the setting, or else the model's temperature."""
        return self.settings.tau(self.model_tau)

    def to_load(self, settings: Recipe | None = None) -> Recipe:
        """Return settings (by default the run's) in which the run's precision replaces `dtype` "auto".

        With "auto", another processor might choose another precision, and so another model.
        """
        settings = settings or self.settings
        begun = PRECISIONS.get(str(self.environment.get("dtype")))
        if settings.model.dtype != "auto" or begun is None:
            return settings
        return settings.model_copy(update={"model": settings.model.model_copy(update={"dtype": begun})})

    @property
    def plan(self) -> Plan:
        plan = self.settings.plan(self.model_tau, self.letters)
        rule = replace(plan.posterior, shares=self.keep_text == "full", known=self.shared)
        return replace(plan, posterior=rule)

    @property
    def earlier(self) -> Earlier:
        """What secl took over from the run that `--calibration` names."""
        return Earlier(self.calibration, self.shared)


def stream_fingerprint(asked: QuestionFile) -> str:
    """Return the hash of the questions, of the answers to rate, and of the schema of an extraction."""
    grammar = asked.requests[0].schema.source.root if isinstance(asked, DocumentFile) else None
    return fingerprint(asked.questions, asked.given, grammar)


def environment(model: Model) -> dict[str, str | int]:
    """Return versions of libraries, machine and device, which affect rounding."""
    versions: dict[str, str] = {}
    for library in _LIBRARIES:
        with suppress(PackageNotFoundError):
            versions[library] = version(library)
    return {**versions, "machine": platform.machine(), **model.environment}
