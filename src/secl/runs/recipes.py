"""Recipe files, paths in settings, and the settings of `secl score`."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from secl.errors import DataError, ParameterError
from secl.own import is_own
from secl.runs.settings import RunSettings
from secl.settings.names import dotted

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
