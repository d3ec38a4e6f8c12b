"""Names in the documentation that the project lacks. Every function returns the wrong names."""

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import secl
from secl.data.benchmarks import BENCHMARKS
from secl.errors import SeclError
from secl.evidence import Evidence, Posterior
from secl.gates import gate_class
from secl.methods import method
from secl.settings.names import SETTINGS, flag_of
from tests.runs.conftest import setting

FENCE = re.compile(r"^ *```\w*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
PAST = r"[^`\n]{0,3}\bat [0-9a-f]{7}\b"
"""Text after code of an earlier commit."""

VALUED = ("method", "gate", "grader", "order", "answer", "dtype", "quantize", "answer-weights")
"""Flags whose values are names in the library."""

GROUPS = "|".join({name.partition(".")[0] for name in SETTINGS if "." in name} - {"model"})
"""Groups of settings; "model." also begins the names of a network's modules."""

CODE_FILES = (".py", ".json", ".html", ".js", ".service", ".socket", ".toml", ".yml")


def problems(page: Path, root: Path, words: Collection[str], flags_of: Callable[[str], Collection[str]]) -> list[str]:
    """Return all names on a page that the project lacks."""
    text = page.read_text(encoding="utf-8")
    files = [*dead_links(page), *missing_files(text, root), *missing_from_map(text, root)]
    names = [*missing_names(text, root), *unknown_words(text, words)]
    return [*files, *names, *wrong_settings(text), *unknown_flags(text, flags_of)]


def inline(text: str) -> list[str]:
    """Return inline code, except code of an earlier commit."""
    prose = "\n".join(line for line in FENCE.sub("", text).splitlines() if not line.startswith("    "))
    return [*re.findall(rf"`([^`\n]+)`(?!{PAST})", prose), *re.findall(r"<code>([^<]+)</code>", prose)]


def examples(text: str) -> list[str]:
    """Return the lines of indented and fenced examples, except those whose comments name an earlier commit."""
    fenced = [line for block in FENCE.findall(text) for line in block.splitlines()]
    lines = FENCE.sub("", text).replace("\\\n", " ").splitlines()
    indented = [line for line in lines if line.startswith("    ") and not re.search(f"#{PAST}", line)]
    return [line.removeprefix("$ ").strip() for line in (*fenced, *indented)]


def commands(text: str) -> dict[str, set[str]]:
    """The flags that examples and inline code use, by command of secl."""
    flags: defaultdict[str, set[str]] = defaultdict(set)
    for example in (*[line.split("#")[0] for line in examples(text)], *inline(text)):
        for call in re.split(r"&&|;", example):
            match = re.match(r"\s*secl (keys \w+|[a-z]+)\b(.*)", call)
            if match:
                flags[match[1]] |= set(re.findall(r"(?<!\S)--[a-z][a-z-]*+(?![.])", match[2]))
    return flags


def unknown_flags(text: str, flags_of: Callable[[str], Collection[str]]) -> list[str]:
    """Return the flags that a command of secl lacks; `flags_of` returns its flags."""
    used = commands(text).items()
    return [f"secl {name} {flag}" for name, flags in used for flag in sorted(flags - set(flags_of(name)))]


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings."""
    names: list[str] = []
    for heading in re.findall(r"^#+ +(.+?) *$", FENCE.sub("", text), flags=re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        names.append(f"{name}-{names.count(name)}" if name in names else name)
    return set(names)


def dead_links(page: Path) -> list[str]:
    """Return links to files or headings that the checkout lacks."""

    def lives(link: str) -> bool:
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        return target.exists() and (not anchor or anchor in anchors(target.read_text(encoding="utf-8")))

    links = re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", page.read_text(encoding="utf-8"))
    return [link for link in links if not lives(link)]


def missing_files(text: str, root: Path) -> list[str]:
    """Paths, modules of `python -m`, their flags, targets of make, and names "`NAME` (`FILE`)" that do not exist."""
    missing = []
    for part in (*inline(text), *examples(text)):
        for path in re.findall(r"(?<![\w./:~=-])(?:[\w-]+/)+[\w.-]*\w", part):
            known = (root / path.split("/")[0]).is_dir() and path.split("/")[0] not in ("runs", "site", "dist")
            if (known or path.endswith(".py")) and not _file(path, root):
                missing.append(path)
        for module, flags in re.findall(r"python -m ((?:benchmark|reference)[\w.]*)([^&;#]*)", part):
            files = [root / f"{module.replace('.', '/')}{end}" for end in (".py", "/__main__.py")]
            source = "".join(file.read_text(encoding="utf-8") for file in files if file.is_file())
            missing += [module] if not source else []
            missing += [f"{module} {flag}" for flag in re.findall(r"--[a-z-]+", flags) if not _takes(source, flag)]
        for target in re.findall(r"(?<!\S)make ([a-z][a-z-]*)", part):
            if not re.search(rf"^{target}:", (root / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE):
                missing.append(f"make {target}")
    for name, path in re.findall(r"`(\w+)`[^`(]{0,3}\(`([\w/]+\.py)`", text):
        file = _file(path, root)
        if file is None or not re.search(rf"\b{name}\b", file.read_text(encoding="utf-8")):
            missing.append(f"{name} in {path}")
    return missing


def _takes(source: str, flag: str) -> bool:
    """Return whether a module adds a flag itself, or passes it to the commands that the studies share."""
    return f'"{flag}"' in source or re.search(rf"collect_or_report\([^)]*\b{flag[2:]}=", source) is not None


def missing_from_map(text: str, root: Path) -> list[str]:
    """Return entries of a map of the package (lines of six spaces and a name) that the package lacks."""
    return [name for name in re.findall(r"^ {6}([\w.]+/?) {2,}", text, flags=re.MULTILINE) if not _file(name, root)]


def _file(path: str, root: Path) -> Path | None:
    """A file or folder by its path in the checkout or in the package."""
    return next((each for each in (root / path, root / "src" / "secl" / path) if each.exists()), None)


def missing_names(text: str, root: Path) -> list[str]:
    """Names in `secl` and attributes of its public classes that do not exist."""
    parts = [*inline(text), *examples(text)]
    names = {name for part in parts for name in re.findall(r"(?<![\w./-])secl(?:\.\w+)+", part)}
    for part in parts:
        for module, imported in re.findall(r"from (secl[\w.]*) import ([\w, ]+)", part):
            names |= {f"{module}.{name.strip()}" for name in imported.split(",")}
        for kind, attribute in re.findall(r"(?<![\w.])([A-Z]\w+)\.(\w+)", part):
            names |= {f"secl.{kind}.{attribute}"} if hasattr(secl, kind) else set()
    return sorted(name for name in names if not (root / "deploy" / name).exists() and not _exists(name))


def _exists(name: str) -> bool:
    """Whether a module, class, function or attribute has this dotted name."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: object = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[length:]:
            if not hasattr(value, attribute) and attribute not in getattr(value, "__annotations__", {}):
                return False
            value = getattr(value, attribute, None)
        return True
    return False


def unknown_words(text: str, known: Collection[str]) -> list[str]:
    """Return inline code with a word that no code has. Capitals are placeholders; "Eq. `ph`" is an equation."""
    parts = inline(re.sub(r"Eq\. `\w+`", "", text))
    return [part for part in parts if not set(re.findall(r"(?!\b[A-Z_]+\b)\b[A-Za-z_]\w*", part)) <= set(known)]


def words_of(root: Path, folders: Iterable[str]) -> set[str]:
    """The names and texts of all code, without comments and docstrings, and the names of its files."""
    words: set[str] = set()
    files = [path for folder in folders for path in (root / folder).rglob("*") if path.suffix in CODE_FILES]
    for path in (*files, *(root / name for name in ("Makefile", "mkdocs.yml", "pyproject.toml", "constraints.txt"))):
        source = path.read_text(encoding="utf-8")
        texts = _texts(ast.parse(source)) if path.suffix == ".py" else [source]
        words |= {word for each in (*texts, path.as_posix()) for word in re.findall(r"\w+", each)}
    return words


def _texts(tree: ast.Module) -> Iterator[str]:
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        for name in ("name", "id", "attr", "arg", "module", "value"):
            value = getattr(node, name, None)
            if isinstance(value, str) and id(node) not in prose:
                yield value


def wrong_settings(text: str) -> list[str]:
    """Settings that do not exist, and names of values that a setting cannot have."""
    wrong = []
    for part in (*inline(text), *examples(text)):
        for group, key in re.findall(rf"(?<![\w./])({GROUPS})\.(?!py\b)(\w+)", part):
            kinds = {"evidence": Evidence, "posterior": Posterior}
            recorded = group in kinds and key in {field.name for field in fields(kinds[group])}
            wrong += [] if f"{group}.{key}" in SETTINGS or recorded else [f"{group}.{key}"]
        for name, value in re.findall(rf"--((?:{GROUPS})\.[a-z_]+)[= ]([^\s;)`]+)", part):
            wrong += [] if name in SETTINGS and _taken(setting, f"{name}={value}") else [f"{name}={value}"]
        for flag, value in re.findall(rf"--({'|'.join(VALUED)})[ =]([a-z0-9][\w,:-]*)(?![\w.])", part):
            (name,) = (name for name in SETTINGS if flag_of(name) == f"--{flag}")
            known = {"method": method, "gate.name": gate_class}.get(name)
            taken = _taken(known, value) if known else _taken(setting, f"{name}={value}")
            wrong += [] if taken else [f"--{flag} {value}"]
        for value in re.findall(r"--benchmarks ([a-z][\w,:-]*)", part):
            wrong += [name for each in value.split(",") if (name := each.partition(":")[0]) not in BENCHMARKS]
    return wrong


def _taken(take: Callable[..., object], *settings: object) -> bool:
    try:
        take(*settings)
    except SeclError:
        return False
    return True


def wrong_numbers(text: str, phrases: Iterable[str], results: Mapping[str, Any]) -> list[str]:
    """Return the phrases that a page lacks with the measured number in their place (`str.format`).

    A share, as of the format ".0%", has a space before its sign.
    """
    words = " ".join(text.split())
    expected = [" ".join(phrase.format(**results).replace("%", " %").split()) for phrase in phrases]
    return [phrase for phrase in expected if phrase not in words]
