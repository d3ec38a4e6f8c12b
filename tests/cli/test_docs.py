"""What README and docs/ name is there: every `secl.` name, every link and path, every command and flag."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from reference.pages import MADE
from tests.cli.conftest import Shell

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")), *sorted(DOCS.rglob("*.md"))]
PAGE = pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])

FOREIGN = {"--max-lora-rank", "--max-loras", "--max-num-batched-tokens", "--max-num-seqs"}
"""Flags of other programs that the text names."""


def find(name: str) -> object:
    """The module, class, function or attribute with a dotted name."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: object = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[length:]:
            value = getattr(value, attribute)
        return value
    raise AttributeError(name)


@PAGE
def test_every_name_of_the_library_exists(page: Path) -> None:
    missing = []
    for name in sorted(set(re.findall(r"`(secl(?:\.\w+)+)(?:\(\))?`", page.read_text(encoding="utf-8")))):
        try:
            find(name)
        except AttributeError:
            missing.append(name)
    assert missing == []


@PAGE
def test_every_link_and_path_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = [page.parent / link for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", text)]
    paths = [
        ROOT / path for path in re.findall(r"`((?:src|tests|examples|benchmarks|experiments|docs)/[\w./-]+)`", text)
    ]
    made = {DOCS / place for place in MADE}
    assert [str(path) for path in (*links, *paths) if not path.exists() and path.resolve() not in made] == []


def commands(text: str) -> dict[str, set[str]]:
    """The flags that indented examples, those behind a dollar sign, and inline code use, by command of secl.

    An example of an earlier commit says so ("# at 7be5c80") and has the flags that there were then.
    """
    flags: defaultdict[str, set[str]] = defaultdict(set)
    lines = text.replace("\\\n", " ").splitlines()
    present = [line for line in lines if not re.search(r"# at [0-9a-f]{7}\b", line)]
    examples = [line.removeprefix("$ ").split("#")[0] for line in present if line.startswith(("    ", "$ "))]
    for example in (*examples, *re.findall(r"`(secl [^`]+)`", text)):
        for call in re.split(r"&&|;", example):
            match = re.match(r"\s*secl (keys \w+|[a-z]+)\b(.*)", call)
            if match:
                flags[match[1]] |= set(re.findall(r"(?<!\S)--[a-z][a-z-]*", match[2]))
    return flags


HELPED: dict[str, set[str]] = {}
"""The flags of the commands that were asked for their help: making it takes longer than all else here."""


@pytest.fixture
def flags_of(shell: Shell) -> Callable[[str], set[str]]:
    """The flags in the help of a command."""

    def known(command: str) -> set[str]:
        if command not in HELPED:
            said = shell(*command.split(), "--help")
            assert said.code == 0, f"secl {command}"
            HELPED[command] = set(re.findall(r"--[a-z][a-z-]*", said.out))
        return HELPED[command]

    return known


@PAGE
def test_every_command_and_flag_exists(page: Path, flags_of: Callable[[str], set[str]]) -> None:
    for command, flags in commands(page.read_text(encoding="utf-8")).items():
        assert sorted(flags - flags_of(command)) == [], f"secl {command}"


def test_every_flag_in_the_text_is_one_of_secl(flags_of: Callable[[str], set[str]]) -> None:
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    names = {name for text in texts for name in commands(text)}
    known = {flag for name in names for flag in flags_of(name)}
    used = {flag for text in texts for flag in re.findall(r"`(--[a-z][a-z-]*)", text)}
    assert sorted(used - known - FOREIGN) == []
