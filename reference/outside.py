"""Files outside of docs/ that its pages link to: each becomes a page of the site, so that every link works offline."""

from __future__ import annotations

import ast
import json
import posixpath
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    "benchmarks/RESULTS.md": "results.md",
}
"""Places of files outside of docs/ in the site, which begins with README.md."""

LANGUAGES = {".py": "python", ".json": "json", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml", ".csv": "text"}

_LINK = re.compile(r"(?<=\]\()(?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?(?=\))")


def linked(text: str, source: str) -> set[str]:
    """Return the files that a text links to, relative to the root of the repository.

    >>> sorted(linked("[a](b.md#c) [d](../e.py)", "docs/x.md"))
    ['docs/b.md', 'e.py']
    """
    return {posixpath.normpath(posixpath.join(posixpath.dirname(source), link[0])) for link in _LINK.findall(text)}


def relinked(text: str, source: str) -> str:
    """Return a text with the links of the site.

    Args:
        text: in Markdown.
        source: the file that it comes from, from the root of the repository.

    >>> relinked("[a](docs/b.md#c) [d](CHANGELOG.md)", "README.md")
    '[a](b.md#c) [d](changelog.md)'
    """
    here = posixpath.dirname(place(source))

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
        return posixpath.relpath(place(target), here or ".") + (match[2] or "")

    return _LINK.sub(link, text)


def place(source: str) -> str:
    """Return the place of a file of the repository in the site.

    >>> place("docs/lab/log.md"), place("CHANGELOG.md"), place("examples/route.py")
    ('lab/log.md', 'changelog.md', 'source/examples/route.py.md')
    """
    if source.startswith("docs/"):
        return source.removeprefix("docs/")
    return PAGES.get(source) or f"source/{source.removesuffix('.md')}.md"


def pages(docs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the pages for files outside of docs/: place in the site, and text.

    Args:
        docs: files of docs/, from the root of the repository, and their texts.
    """
    texts = {source: (ROOT / source).read_text(encoding="utf-8") for source in PAGES}
    targets = set().union(*(linked(text, source) for source, text in [*docs, *texts.items()]))
    for source in sorted({*texts, *(target for target in targets if not target.startswith("docs/")), *examples()}):
        path = ROOT / source
        if not path.is_file():
            continue  # MkDocs itself warns about dead links
        text = path.read_text(encoding="utf-8")
        yield place(source), relinked(text, source) if path.suffix == ".md" else _listing(source, text)


def examples() -> list[str]:
    """Return the example scripts."""
    paths = sorted((ROOT / "examples").glob("*.py"))
    return [path.relative_to(ROOT).as_posix() for path in paths if path.stem != "__init__"]


def _listing(source: str, text: str) -> str:
    """Return a file of code as a page, which the search leaves out; a notebook with its texts and outputs."""
    if source.endswith(".ipynb"):
        return relinked("\n\n".join(map(_cell, json.loads(text)["cells"])), source) + "\n"
    language = LANGUAGES.get(posixpath.splitext(source)[1], "text")
    return f"---\nsearch:\n  exclude: true\n---\n\n# {source}\n\n~~~~~~{language}\n{text.rstrip()}\n~~~~~~\n"


def _cell(cell: dict[str, Any]) -> str:
    """Return a cell of a notebook in Markdown, with its outputs."""
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return text
    parts = [f"```python\n{text}\n```"]
    for output in cell["outputs"]:
        shown = {kind: "".join(value) for kind, value in output.get("data", {"text/plain": output.get("text")}).items()}
        if "text/html" in shown:
            plain = re.sub(r"<style.*?</style>| border=.1. class=.dataframe.", "", shown["text/html"], flags=re.DOTALL)
            parts.append("\n".join(line for line in plain.splitlines() if line.strip()))  # a blank line ends the HTML
        elif "image/png" in shown:
            parts.append(
                f'<img alt="Output of the cell above" src="data:image/png;base64,{shown["image/png"].strip()}">'
            )
        else:
            parts.append(f"```text\n{shown['text/plain'].rstrip()}\n```")
    return "\n\n".join(parts)


def examples_page() -> str:
    """Return the page that lists the example scripts, from their docstrings."""
    parts = [
        "# Examples\n\nThe folder `examples/` of the source has scripts to start from, and the notebook "
        "[first steps](../examples/first_steps.ipynb). The tests run all of them."
    ]
    for source in examples():
        text = (ROOT / source).read_text(encoding="utf-8")
        docstring = ast.get_docstring(ast.parse(text)) or ""
        about = " ".join(docstring.split("\n\n")[0].split())
        parts.append(f"* [`{posixpath.basename(source)}`](../{source}): {about}")
    return parts[0] + "\n\n" + "\n".join(parts[1:]) + "\n"
