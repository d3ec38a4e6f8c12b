"""Python examples in docs/ run as they are pasted and print what the page shows; so do the cells of the notebook.

`python -m tests.test_pages` writes the outputs into the pages anew.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.test_site import close

BLOCK = re.compile(r"```python\n(?P<code>(?!>>>).*?)```\n\n```text\n(?P<shown>.*?)```\n", re.DOTALL)
PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if BLOCK.search(page.read_text(encoding="utf-8"))]
NOTEBOOK = ROOT / "examples" / "first_steps.ipynb"


def printed(codes: list[str]) -> Iterator[str]:
    """Yield the output of each example; all examples of a page share their names."""
    names: dict[str, Any] = {}
    for code in codes:
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(code, names)  # the project's own pages
        yield output.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_the_examples_of_a_page_print_what_it_shows(
    page: Path, smollm2: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = list(BLOCK.finditer(page.read_text(encoding="utf-8")))
    for block, output in zip(blocks, printed([block["code"] for block in blocks]), strict=True):
        assert close(block["shown"], output), (block["code"], output)


@pytest.mark.slow
def test_the_cells_of_the_notebook_run_and_print_what_it_shows(smollm2: str) -> None:
    cells = [c for c in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == "code"]
    for cell, output in zip(cells, printed(["".join(cell["source"]) for cell in cells]), strict=True):
        shown = ["".join(each["text"]) for each in cell["outputs"] if each["output_type"] == "stream"]
        assert close("".join(shown), output), (cell["source"], output)


def rewritten(text: str) -> str:
    """Return a page with the outputs of its examples."""
    outputs = printed([block["code"] for block in BLOCK.finditer(text)])
    return BLOCK.sub(lambda block: f"```python\n{block['code']}```\n\n```text\n{next(outputs)}```\n", text)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # examples write files
        for path in PAGES:
            path.write_text(rewritten(path.read_text(encoding="utf-8")), encoding="utf-8")
