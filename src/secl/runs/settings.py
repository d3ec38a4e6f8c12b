"""The settings of a server (`Recipe`) and of a run (`RunSettings`), recipe files, and the settings of `secl score`."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from secl.errors import DataError, ParameterError
from secl.gates import Gate, gate_class
from secl.methods import Method, Plan, method
from secl.own import is_own
from secl.posterior.rule import PosteriorRule
from secl.scores import make_signal
from secl.settings.groups import ENDPOINT_VIEWS, AnswerWeights, StreamSettings, masked
from secl.settings.names import RecipeTables, RunTables, as_compared, dotted, tables

MACHINE_SETTINGS = ("stream.data", "model.device", "model.device_map", "model.endpoint", "model.versions")
"""Settings of the machine, which do not determine records."""

CHANGEABLE_SETTINGS = (*MACHINE_SETTINGS, "model.engine", "loop.accept")
"""Settings that may change when a run is resumed or a server restarts. Every record stores its value of loop.accept."""


class Recipe(RecipeTables):
    """The settings of a server, or of single questions.

    `secl.settings.groups` declares the settings. `of` applies the method's defaults and checks that the settings fit
    together. The constructor does neither.

    >>> Recipe.of({"method": "secl", "evidence.tau": 0.7, "gate.name": "always"}).evidence.tau
    0.7
    """

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """Return checked settings from values by name ("evidence.tau") or from nested tables.

        Raises:
            ParameterError: an unknown name, a value of the wrong type or outside its range, or incompatible settings.
        """
        given = dotted(values)
        settings = cls.model_validate(tables({**cls._defaults(given), **given}), strict=True)
        settings.check()
        return settings

    @classmethod
    def _defaults(cls, given: Mapping[str, object]) -> dict[str, object]:
        name = given.get("method", cls.model_fields["method"].default)
        chosen = method(name) if isinstance(name, str) else method("posterior")
        defaults: dict[str, object] = {"paper": chosen.paper}
        if given.get("model.engine") == "openai":
            defaults["posterior.views"] = ENDPOINT_VIEWS
        if given.get("model.endpoint") and given.get("model.engine") != "local":
            defaults["model.name"] = ""  # the server's only model
        return defaults

    def dotted(self) -> dict[str, Any]:
        """Return the settings by name."""
        return dotted(self.model_dump())

    def to_json(self) -> dict[str, Any]:
        """Return tables of plain JSON values, which `of` reads."""
        return self.model_dump(mode="json")

    def changed(self) -> dict[str, object]:
        """Return the settings that differ from the method's defaults, by name."""
        here = self.dotted()
        usual = type(self).model_construct().dotted() | self._defaults(here)
        return {name: value for name, value in here.items() if value != usual[name]}

    def differences(self, other: Recipe, sides: tuple[str, str] = ("there", "here")) -> list[str]:
        """Return differences such as "evidence.tau: 0.7 there, 1.0 here", except in `CHANGEABLE_SETTINGS`."""
        there, here = self.dotted(), other.dotted()
        return [
            f"{name}: {as_compared(name, there[name])} {sides[0]}, {as_compared(name, here[name])} {sides[1]}"
            for name in there
            if name in here and name not in CHANGEABLE_SETTINGS and there[name] != here[name]
        ]

    def check(self) -> None:
        """Check that the settings fit together."""
        kinds = self.plan().kinds
        if self.evidence.nli is not None and "dinco" not in kinds:
            raise ParameterError(
                f"the method {self.method!r} asks no NLI model; leave evidence.nli out, or take the method dinco."
            )
        if self.loop.answer == "best" and "candidates" not in kinds:
            raise ParameterError(
                f"the method {self.method!r} compares no candidates, so there is no best answer; leave loop.answer "
                "out, take the method posterior, or set evidence.extra_evidence=candidates."
            )
        if self.prompts.thinking != "off" and (self.paper or "dinco" in kinds):
            what = "the setting paper" if self.paper else "DINCO"
            raise ParameterError(f"{what} works only without thoughts; leave prompts.thinking out.")
        if not is_own(self.gate_name):  # building the user's gate would execute the user's file
            self.build_gate()
        self._check_engine()

    def _check_engine(self) -> None:
        engine, endpoint = self.model.engine, self.model.endpoint
        if "://" in self.model.name:
            raise ParameterError(
                f"the model {masked(self.model.name)!r} is an address; give it with --endpoint URL --engine openai."
            )
        if engine == "local" and endpoint:
            raise ParameterError("--endpoint names a server, but --engine is local; leave one of them out.")
        if engine in ("vllm", "openai") and not endpoint:
            raise ParameterError(f"--engine {engine} needs the address of a server; give it with --endpoint URL.")
        if self.model.chat_template == "plain" and self.model.answered_by != "local":
            raise ParameterError(
                f"--chat-template plain needs a model in this process, but --engine {self.model.answered_by} names a "
                "server; leave one of them out."
            )
        if self.model.versions is not None and self.model.answered_by != "vllm":
            raise ParameterError("--versions needs a vLLM server; name the server with --engine vllm --endpoint URL.")
        # With versions, a copy of the server's model in this process learns and searches beams.
        if self.model.answered_by != "local" and self.model.versions is None:
            self._check_server()
        if engine == "openai":
            self._check_openai()

    def _check_server(self) -> None:
        """Check that the settings need no copy of the server's model in this process."""
        engine, remedy = f"--engine {self.model.answered_by}", "take stated, p_true, norm_p_true or self_consistency"
        if self.model.answered_by == "vllm":
            engine += " without --versions"
            remedy = "name the folder of the server's VLLM_LORA_RESOLVER_CACHE_DIR with --versions"
        if self.named_method.learns:
            raise ParameterError(
                f"{engine} cannot train, so the method {self.method!r} cannot learn; leave the method out for the "
                f"posterior, or {remedy}."
            )
        for name in self.changed():
            if name.startswith("adapter.") or (name, self.model.answer_weights) == ("model.answer_weights", "adapted"):
                raise ParameterError(f"{engine} cannot train, so nothing is adapted; leave {name} out.")
            if name in ("model.dtype", "model.device", "model.device_map", "model.quantize"):
                raise ParameterError(f"{engine} cannot set {name} of its server; leave {name} out.")
        if "dinco" in self.plan().kinds:
            raise ParameterError(
                f"{engine} has no beam search, which DINCO needs; leave dinco out of method and evidence."
            )

    def _check_openai(self) -> None:
        if self.paper:
            raise ParameterError(
                "the setting paper prefills replies, which --engine openai cannot do; leave paper out."
            )
        for view in self.posterior.views:
            if view not in ENDPOINT_VIEWS:
                raise ParameterError(
                    f"the view {view} needs the likelihood of a text, which --engine openai does not give; take "
                    f"the views {' and '.join(ENDPOINT_VIEWS)}."
                )

    @property
    def answer_weights(self) -> AnswerWeights:
        """The weights that write the answers: by default the frozen weights, so that learning changes no answer."""
        return self.model.answer_weights or "frozen"

    @property
    def returns_best(self) -> bool:
        """Whether the answer to a question with options is the best candidate, not the model's own answer."""
        return self.loop.answer != "own" and "candidates" in self.plan().kinds

    @property
    def named_method(self) -> Method:
        return method(self.method)

    def plan(self, tau: float = 1.0, letters: float | None = None) -> Plan:
        """Return what to do with each question: signal, posterior, evidence, and settings of the loop.

        Args:
            tau: the model's temperature of normalised P(True).
            letters: prior reliability of the model's letters (`secl.model.Model.letters`).
        """
        evidence = self.evidence
        return Plan.of(
            self.named_method,
            make_signal(evidence.signal, self.tau(tau), evidence.formula, paper=self.paper),
            PosteriorRule(self.posterior.views, letters),
            self.loop,
            evidence=evidence.extra_evidence,
            paper=self.paper,
        )

    @property
    def gate_name(self) -> str:
        """The setting of the gate, or else the gate of the method."""
        return self.gate.name or self.named_method.gate

    @property
    def learns(self) -> bool:
        """Whether learning can change the adapter."""
        return self.named_method.learns and self.gate_name != "never"

    def build_gate(self) -> Gate:
        """Return the gate with its parameters. A gate may be a file of the user, which this function executes.

        Raises:
            ParameterError: the method uses no gate, or a parameter of the gate is unknown or invalid.
        """
        name = self.gate_name
        if self.gate.name is not None and self.named_method.gate == "never":
            raise ParameterError(
                f"the method {self.method!r} has no use for a gate; leave the gate {name!r} out or "
                "take the method secl."
            )
        make, overrides = gate_class(name), self.gate.overrides()
        if self.paper and name == "page-hinkley":
            overrides |= {"restart": "all"}
        for key in overrides:
            if not hasattr(make(), key):
                raise ParameterError(f"the gate {name!r} has no {key}; leave gate.{key} out or choose another gate.")
        return make(**overrides)

    def tau(self, own: float) -> float:
        """Return the temperature of normalised P(True): the setting, or else `own`, the model's temperature."""
        return self.evidence.tau or own


class RunSettings(Recipe, RunTables):
    """All settings of a run. Together with the model's weights and the questions, they determine the records.

    >>> RunSettings.of({"stream.benchmarks": ["capitals:9"]}).loop.answer
    'own'
    """

    @classmethod
    def _defaults(cls, given: Mapping[str, object]) -> dict[str, object]:
        """Return the defaults of method, engine and stream.

        With benchmarks, a run returns the model's own answers, so that its accuracy is comparable to published results.
        """
        own = {"loop.answer": "own"} if given.get("stream.benchmarks") else {}
        return super()._defaults(given) | own

    def check(self) -> None:
        """Check that the settings name either benchmarks or a file of questions, and fit together."""
        if not self.stream.benchmarks and not self.stream.questions:
            raise ParameterError("a run needs questions; name --benchmarks or a file with --questions.")
        if self.stream.benchmarks and self.stream.questions:
            raise ParameterError("a run takes benchmarks or a file of questions, not both; leave one of them out.")
        for key in ("columns", "options", "template"):
            if getattr(self.stream, key) and not self.stream.questions:
                raise ParameterError(f"stream.{key} belongs to a file of questions; name one with stream.questions.")
        if self.extract.schema_file is not None:
            self._check_extraction()
        if self.stream.benchmarks and self.stream.grader != "auto":
            raise ParameterError(
                f"benchmarks are graded by their official rules; leave the grader {self.stream.grader!r} out, or apply "
                "it to a finished run with secl report RUN --grader."
            )
        super().check()

    def _check_extraction(self) -> None:
        if self.method != "posterior":
            raise ParameterError(f"only the method posterior extracts fields; leave the method {self.method!r} out.")
        if self.stream.benchmarks:
            raise ParameterError(
                "fields are extracted from documents, not from benchmarks; leave stream.benchmarks out, and name a "
                "file of documents with stream.questions."
            )
        if self.model.answered_by == "vllm":
            raise ParameterError("--engine vllm writes no JSON objects; take --engine openai with the same server.")
        for key in ("columns", "options", "template", "grader"):
            if getattr(self.stream, key) != getattr(StreamSettings(), key):
                raise ParameterError(f"the schema determines the questions; leave stream.{key} out.")

    @property
    def answer_weights(self) -> AnswerWeights:
        """The weights that write the answers: by default the adapted weights, as in the paper."""
        named = self.stream.benchmarks or self.stream.questions  # a server's settings have neither
        return self.model.answer_weights or ("adapted" if named else "frozen")


UNUSED_BY_SCORE = (
    "gate.",
    "loop.",
    "adapter.",
    "evidence.signal",
    "model.answer_weights",
    "stream.data",
    "extract.",
    "prompts.",
)
"""Prefixes of settings that do not affect ratings of given answers (except loop.accept)."""

FILES = ("stream.questions", "stream.data", "extract.schema_file", "model.calibration", "model.versions")
"""Settings that name a file or folder."""


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a recipe file, not yet checked."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        hint = "name a TOML file (to name the folder of a new run, use --out)"
        raise DataError(f"the recipe {path} cannot be read ({problem.strerror}); {hint}.") from problem
    except (ValueError, RecursionError) as problem:
        raise DataError(f"the recipe {path} is not valid TOML: {problem}.") from problem


def with_absolute_paths(values: Mapping[str, object]) -> dict[str, object]:
    """Return settings by name with absolute paths, so that a run can be resumed from any folder.

    The name of a model becomes a path if a file or folder has this name, unless a preset has the same name.
    """
    names = dotted(values)
    for name in (*FILES, "evidence.nli", "gate.name", "model.name"):
        value = names.get(name)
        elsewhere = name == "model.name" and names.get("model.engine") == "openai"
        if isinstance(value, str) and not elsewhere and (path := _path(name, value)):
            names[name] = os.path.abspath(path)
    return names


def _path(name: str, value: str) -> str | None:
    if name in FILES:
        return value
    path = os.path.expanduser(value)
    if name == "gate.name":
        return path if is_own(path) else None
    if name == "evidence.nli":
        return path if os.path.isdir(path) else None
    if not os.path.exists(path):
        return None
    from secl.backends.local.loading.presets import PRESETS  # torch takes seconds to import

    return None if value in PRESETS else path


def score_settings(path: Path, values: Mapping[str, object]) -> RunSettings:
    """Return the settings of a run that rates the answers in the file `path`."""
    given = dotted(values)
    if "stream.questions" in given:
        raise ParameterError(f"secl score already rates the answers of {path}; leave stream.questions out.")
    return RunSettings.of({"stream.questions": str(path), **given})


def used_by_score(name: str) -> bool:
    """Return whether a setting affects ratings of given answers."""
    return name == "loop.accept" or not name.startswith(UNUSED_BY_SCORE)


def check_scored(settings: RunSettings) -> None:
    """Raise a ParameterError for a method, setting or kind of evidence that ratings of given answers ignore."""
    if settings.method != "posterior":
        raise ParameterError(f"secl score uses the method posterior; leave the method {settings.method!r} out.")
    for name in settings.changed():
        if not used_by_score(name):
            raise ParameterError(f"secl score only rates given answers, so {name} has no effect; leave {name} out.")
    for kind in settings.evidence.extra_evidence:
        if kind not in ("p_true", "candidates"):
            raise ParameterError(
                f"secl score gathers no {kind!r}, because this evidence needs answers that the model writes; "
                "evidence.extra_evidence can be p_true or candidates."
            )
