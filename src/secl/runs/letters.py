"""What a model's letters are worth, remembered between commands: a run finds it out, and `secl ask` starts from it.

Runs and servers do not read it: the same settings give the same records whatever was asked before.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from secl.evaluation.view_check import check_views
from secl.machine import cache_folder
from secl.records import Record

FEWEST = 40
"""Questions with letters in two orders from which the correlation is remembered; its standard error is then about .1
(docs/log.md)."""


def remember(fingerprint: str, records: Sequence[Record]) -> None:
    """Keep what the records of a run show of a model's letters, if they are enough; a cache that cannot be written to
    remembers nothing."""
    compared = [each for each in records if each.question.options and each.evidence.candidates is not None]
    checks = check_views(compared)
    if checks.compared < FEWEST or math.isnan(checks.correlation):
        return
    known = _read()
    known[_key(fingerprint)] = {"correlation": checks.correlation, "questions": checks.compared}
    file = _file()
    unfinished = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps(known, indent=1), encoding="utf-8")
        unfinished.replace(file)
    except OSError:
        return


def remembered(fingerprint: str) -> float | None:
    """The correlation of a model's letters between two orders, as the latest run found it; None if none did."""
    entry = _read().get(_key(fingerprint))
    value = entry.get("correlation") if isinstance(entry, dict) else None
    return float(value) if isinstance(value, int | float) and -1 <= value <= 1 else None


def _key(fingerprint: str) -> str:
    """The letters depend on the prompts, which are those of this version of the library."""
    return f"{fingerprint} {version('secl')}"


def _file() -> Path:
    return cache_folder() / "letters.json"


def _read() -> dict[str, object]:
    try:
        known = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
