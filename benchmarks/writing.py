"""Storage of results in a JSON file, and their tables in Markdown."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from secl.errors import ParameterError

BEGIN = "<!-- results: begin; written by python -m benchmarks -->"
END = "<!-- results: end -->"
OTHERS = "others"
"""Key of the sets of results of other models than the default."""

MEASURED = "measured"
"""Key of how each part was measured."""

SHOWN = ("ratios", "fwd_equivalents", "seconds", "with_a_confidence", "serving", "growth")
"""Sections on the page; the file has all sections."""


def keep(file: Path, key: str, default: str, results: Mapping[str, Any]) -> dict[str, Any]:
    """Add results to a file, and return all results: of the default model at the top, of other models under their
    keys."""
    everything: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if key == default:
        everything = merged(everything, {"model": key, **results})
    else:
        everything = merged(everything, {OTHERS: {key: {"model": key, **results}}})
    text = json.dumps(plain(everything), indent=2, allow_nan=False) + "\n"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return everything


def merged(old: Any, new: Any) -> Any:
    """Merge nested dicts; new values win.

    >>> merged({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}})
    {'a': {'b': 3, 'c': 2}}
    """
    if not (isinstance(old, dict) and isinstance(new, Mapping)):
        return new
    return {**old, **{key: merged(old.get(key), value) for key, value in new.items()}}


def plain(value: Any) -> Any:
    """Return JSON values: numbers with four significant digits, None for undefined ones.

    >>> plain({"a": [1.23456, float("nan"), 70000]})
    {'a': [1.235, None, 70000]}
    """
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float):
        return float(f"{value:.4g}") if math.isfinite(value) else None
    return value


def around_tables(page: Path) -> tuple[str, str]:
    """Return the texts before and after the tables of a page; empty texts for a new page.

    Raises:
        ParameterError: the page lacks a marker.
    """
    if not page.exists():
        return "", "\n"
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ParameterError(f"{page} has no markers to write between ({BEGIN} and {END}); name another page.")
    return before, after


def write_page(page: Path, everything: Mapping[str, Any]) -> None:
    """Replace the text between a page's markers by the tables of all results.

    Raises:
        ParameterError: the page lacks a marker.
    """
    before, after = around_tables(page)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(f"{before}{BEGIN}\n\n{tables(everything)}\n{END}{after}", encoding="utf-8")


def tables(everything: Mapping[str, Any]) -> str:
    """Return a chapter for each model, with a table for each section of its results."""
    sets = [{key: value for key, value in everything.items() if key != OTHERS}, *everything.get(OTHERS, {}).values()]
    return "\n".join(_chapter(plain(results)) for results in sets if "model" in results)


def _chapter(results: dict[str, Any]) -> str:
    lines = [f"### {results['model']}", ""]
    for name in SHOWN:
        if name in results:
            lines += [f"| {_spoken(name)} | |", "|---|---:|"]
            lines += [f"| {label} | {_shown(value)} |" for label, value in rows(results[name])] + [""]
    return "\n".join([*lines, *_measured(results.get(MEASURED, {})), ""])


def rows(section: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """Return each number of a nested section, with the words of its keys.

    >>> rows({"a_question": {"by_hand": 1.0}})
    [('a question, by hand', 1.0)]
    """
    numbers: list[tuple[str, Any]] = []
    for name, value in section.items():
        label = f"{before}, {_spoken(name)}" if before else _spoken(name)
        numbers += rows(value, label) if isinstance(value, Mapping) else [(label, value)]
    return numbers


def _measured(parts: Mapping[str, Any]) -> list[str]:
    """Return sentences with commit and machine of each measurement, its load at the end, and the measurement's size."""
    alike: dict[str, list[str]] = {}
    for name, part in parts.items():
        own = ("load", "commit")
        same = {key: value for key, value in {**part["machine"], **part["setting"]}.items() if key not in own}
        description = ", ".join(f"{_spoken(key)} {value}" for key, value in same.items())
        commit, load = part["machine"]["commit"], part["machine"]["load"]
        took = f"{name} (at {commit}, {part['seconds']:.0f} s, load {load:.1f})"
        alike.setdefault(description, []).append(took)
    return [f"* {', '.join(names)}: {description}." for description, names in alike.items()]


def _spoken(name: str) -> str:
    return name.replace("_", " ")


def _shown(value: Any) -> str:
    if value is None:
        return "undefined"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
