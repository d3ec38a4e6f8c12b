"""The settings of a run: those of all groups, checked together, and what is made of them."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import model_validator

from secl.calibrator.lesson import EvidencePlan
from secl.errors import DataError, ParameterError
from secl.gates import Gate, gate_class, is_own_gate
from secl.methods import Method, method
from secl.settings.base import OFF
from secl.settings.groups import ENDPOINT_VIEWS, AnswerWeights
from secl.settings.tree import FLAT_NAMES, SettingGroups, merged, nested, place_of
from secl.signals import Signal, make_signal

SERVED = "served"
"""Stands in a server's recipe where a run has the benchmarks of its stream."""

MACHINE_SETTINGS = ("data", "device", "device_map", "endpoint")
"""Settings that say where a run happens and not what it is; a run's environment has the device's real name."""

CHANGEABLE_SETTINGS = (*MACHINE_SETTINGS, "engine", "accept")
"""Settings that may be others when a run is resumed or a server started again; each record has its own threshold."""


class RunSettings(SettingGroups):
    """All settings of a run; together with the model's and the stream's content they determine its records.

    `secl.settings.groups` declares every one of them. A None takes the model's or the method's own value.

    Raises:
        ParameterError: a value outside its range, or settings that do not fit together.

    >>> RunSettings.of({"benchmarks": ["capitals:9"], "tau": 0.7, "gate": "always"}).evidence.tau
    0.7
    """

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """Settings from a recipe file, a manifest or a sweep, in tables or under their flat names (`nested`).

        Raises:
            ParameterError: an unknown key, a value of the wrong type or outside its range.
        """
        return cls.model_validate(nested(values), strict=True)

    @property
    def answer_weights(self) -> AnswerWeights:
        """Whose weights write the answers: on a server those that nothing changes, unless it is told otherwise."""
        return self.model.answer_weights or ("frozen" if self.stream.benchmarks == (SERVED,) else "adapted")

    def to_json(self) -> dict[str, Any]:
        """The settings by group as plain JSON values; `of` reads them."""
        return self.model_dump(mode="json")

    def changed(self) -> dict[str, object]:
        """The settings that differ from the method's defaults, by the names of their flags."""
        usual = {**DEFAULTS, **defaults_of(self.named_method, self.gate.name)}
        return {name: value for name, value in self.flat().items() if value != usual[name]}

    def differences(self, other: RunSettings, sides: tuple[str, str] = ("there", "here")) -> list[str]:
        """Settings that differ, as "tau: 0.7 there, 1.0 here", or with other words for the two sides.

        Where the data lie makes no difference, nor does the name of the device, nor what is accepted.
        """
        there, here = self.flat(), other.flat()
        return [
            f"{name}: {as_compared(name, there[name])} {sides[0]}, {as_compared(name, here[name])} {sides[1]}"
            for name in there
            if name not in CHANGEABLE_SETTINGS and there[name] != here[name]
        ]

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_method(cls, values: object) -> object:
        """What a method prefers where nothing else is said."""
        if not isinstance(values, Mapping) or not isinstance(name := values.get("method", "secl"), str):
            return values
        gate = values.get("gate", {})
        return merged(defaults_of(method(name), gate.get("name") if isinstance(gate, Mapping) else None), values)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.stream.benchmarks) == bool(self.stream.questions):
            raise ParameterError("a run needs either a stream of benchmarks or a file of questions, not both or none.")
        if self.stream.benchmarks and self.stream.grader != "auto":
            raise ParameterError(
                f"benchmarks have official rules; leave the grader {self.stream.grader!r} out, or see what it makes of "
                "a finished run with secl report RUN --grader."
            )
        if self.evidence.nli is not None and "dinco" not in self.plan.kinds:
            raise ParameterError(
                f"the method {self.method!r} asks no NLI model; leave nli out or take the method dinco."
            )
        if self.loop.answer == "best" and "candidates" not in self.plan.kinds:
            raise ParameterError(
                f"the method {self.method!r} compares no candidates, so there is no best answer; leave answer out, or "
                "take the method posterior or the extra evidence candidates."
            )
        if not is_own_gate(self.gate_name):  # whoever reads a run executes no file that it names
            self.build_gate()
        if self.model.engine == "openai":
            self._check_endpoint()
        return self

    def _check_endpoint(self) -> None:
        """Refuse what cannot be had from a server with OpenAI's API.

        Raises:
            ParameterError: something that is set.
        """
        where = "behind --engine openai"
        if self.named_method.learns:
            raise ParameterError(
                f"no weights can be changed {where}, so the method {self.method!r} cannot learn there; leave it out "
                "for the posterior, or take stated, p_true, norm_p_true or self_consistency."
            )
        if self.model.answer_weights == "adapted":
            raise ParameterError(f"no weights can be changed {where}, so none are adapted; leave answer_weights out.")
        for name, field in type(self.adapter).model_fields.items():
            if getattr(self.adapter, name) != field.default:
                raise ParameterError(f"no weights can be changed {where}, so there is no adapter; leave {name} out.")
        if self.prompts.open_confidence == "alongside":
            raise ParameterError(f"no reply can be begun {where}, so its confidence is asked for in a turn of its own.")
        if self.evidence.p_true == "token":
            raise ParameterError(f"{where} a word is read in all its spellings; leave the p_true token out.")
        if "dinco" in self.plan.kinds:
            raise ParameterError(
                f"DINCO searches for beams, which cannot be had {where}; take another method than {self.method!r}."
            )
        unknown = [name for name in self.posterior.views if name not in ENDPOINT_VIEWS]
        if unknown:
            raise ParameterError(
                f"the view {unknown[0]} needs the likelihood of a text, which cannot be had {where}; the views are "
                f"{' and '.join(ENDPOINT_VIEWS)}."
            )

    @property
    def named_method(self) -> Method:
        """What the method's name stands for."""
        return method(self.method)

    @property
    def plan(self) -> EvidencePlan:
        """The evidence that is gathered beyond what the training signal needs."""
        return EvidencePlan.of(self.named_method, self.loop, self.posterior.views, self.evidence.extra_evidence)

    @property
    def gate_name(self) -> str:
        """The gate named here, or the method's."""
        return self.gate.name or self.named_method.gate

    def build_gate(self) -> Gate:
        """The gate named here, or the method's, with the parameters set here; the file of one's own is executed.

        Raises:
            ParameterError: a gate or a parameter of it that the method or the gate does not have.
        """
        name = self.gate_name
        if self.gate.name is not None and self.named_method.gate == "never":
            raise ParameterError(f"the method {self.method!r} has no use for a gate; leave the gate {name!r} out.")
        make, overrides = gate_class(name), self.gate.overrides()
        for key in overrides:
            if not hasattr(make(), key):
                raise ParameterError(f"the gate {name!r} has no {key}; leave it out or choose another gate.")
        return make(**overrides)

    def tau(self, own: float) -> float:
        """The temperature of normalised P(True): the one set here, or a model's own."""
        return self.evidence.tau or own

    def build_signal(self, own_tau: float) -> Signal:
        """The signal to learn from, for a model with this temperature of its own."""
        evidence = self.evidence
        return make_signal(evidence.signal, self.tau(own_tau), evidence.formula, evidence.consistency)


def defaults_of(chosen: Method, gate: str | None) -> dict[str, object]:
    """What a method prefers, by the names of flags; a gate's parameters only where no other gate is named."""
    own = gate in (None, chosen.gate)
    return {name: value for name, value in chosen.defaults.items() if own or FLAT_NAMES[name][0] != "gate"}


DEFAULTS = RunSettings.model_construct().flat()
"""The default of every setting, by the name of its flag."""


def shown(name: str, value: object) -> str:
    """A setting as a flag or a file would give it.

    >>> shown("bin_gate", None), shown("modules", ("q_proj", "v_proj"))
    ('off', 'q_proj,v_proj')
    """
    if name == "bin_gate" and value is None:
        return OFF
    return (" | " if name == "options" else ",").join(value) if isinstance(value, tuple) else str(value)


def as_compared(name: str, value: object) -> str:
    """The same for a comparison, in which a setting that was not given is that, too.

    >>> as_compared("burst", None), as_compared("bin_gate", None), as_compared("modules", ()), as_compared("burst", 20)
    ('default', 'off', 'none', '20')
    """
    return "default" if value is None and name != "bin_gate" else shown(name, value) or "none"


SCORE_SETTINGS = (
    *("model", "engine", "endpoint", "dtype", "device", "device_map", "quantize", "calibration"),
    *("questions", "columns", "options", "template", "skip_bad", "per_domain", "order", "grader", "seed", "accept"),
    *("p_true", "tau", "formula", "extra_evidence", "p_true_prompt", "open_confidence", "views"),
    *("distractors", "top_p"),
)
"""The settings that `secl score` uses, by the names of their flags; it always takes the method posterior."""


def score_settings(path: Path, values: Mapping[str, object]) -> RunSettings:
    """The settings of a run that rates the answers of a file: the method posterior, and what `values` change.

    Raises:
        ParameterError: `values` name another file, or a setting is out of its range.
    """
    if "questions" in nested(values).get("stream", {}):
        raise ParameterError(f"secl score already rates the answers of {path}; leave stream.questions out.")
    return RunSettings.of(merged({"method": "posterior", "questions": str(path)}, values))


def check_scored(settings: RunSettings) -> None:
    """Check that every setting has an effect on ratings of given answers.

    Raises:
        ParameterError: another method, a setting of answering or learning, or evidence about answers that the model
            writes itself.
    """
    if settings.method != "posterior":
        raise ParameterError(f"secl score takes the method posterior; leave the method {settings.method!r} out.")
    for name in settings.changed():
        if name not in (*SCORE_SETTINGS, "method"):
            raise ParameterError(
                f"secl score rates given answers, so the model writes and learns nothing; leave {place_of(name)} out."
            )
    for kind in settings.evidence.extra_evidence:
        if kind not in ("p_true", "candidates"):
            raise ParameterError(
                f"secl score gathers no {kind!r}, which is about answers that the model writes itself; the extra "
                "evidence can be p_true or candidates."
            )


def with_absolute_paths(values: Mapping[str, object]) -> dict[str, object]:
    """Settings by group with absolute paths, so that a run can be resumed from any working directory.

    A model is taken for a path where there is one of that name, unless it is a preset.
    """
    groups = nested(values)
    elsewhere = groups.get("model", {}).get("engine") == "openai"
    for name in ("questions", "data", "nli", "gate", "calibration", *([] if elsewhere else ["model"])):
        group, key = FLAT_NAMES[name]
        value = groups.get(group, {}).get(key)
        if isinstance(value, str) and (path := _path(name, value)):
            groups[group] = {**groups[group], key: os.path.abspath(path)}
    return groups


def _path(name: str, value: str) -> str | None:
    """The path that a setting means; None where it names something else."""
    if name in ("questions", "data", "calibration"):
        return value
    path = os.path.expanduser(value)
    if name == "gate":
        return path if is_own_gate(path) else None
    if name == "nli":
        return path if os.path.isdir(path) else None
    if not os.path.exists(path):
        return None
    from secl.backends.local.loading.presets import PRESETS  # imports torch

    return None if value in PRESETS else path


def read_toml(path: Path) -> dict[str, Any]:
    """The settings in a recipe file, not yet checked.

    Raises:
        DataError: the file cannot be read, is not TOML, or holds what Python cannot.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise DataError(f"the recipe {path} cannot be read: {problem.strerror}.") from problem
    except (ValueError, RecursionError) as problem:
        raise DataError(f"the recipe {path} is not valid TOML: {problem}.") from problem
