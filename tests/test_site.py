"""The documentation: the site works without a network, and the tutorial and examples do what they say.

Commands of docs/tutorial.md stand in blocks of the kind `console`, behind a dollar sign; lines behind `>` continue a
command. Its output follows. A block behind `<!-- stable -->` must print the same again, up to rounding.
`python -m tests.test_site` writes the outputs of examples and commands into the pages anew.
"""

import contextlib
import doctest
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import secl
from reference import http_api, outside, pictures, python_api
from reference.__main__ import PAGES
from secl.settings.names import SETTINGS
from tests.conftest import ROOT

LOADS = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src"), ("use", "href")}
"""Attributes whose addresses a browser fetches."""


@pytest.mark.parametrize("place", PAGES)
def test_a_page_of_the_reference_is_the_one_that_the_code_makes(place: str) -> None:
    written = (ROOT / "docs" / place).read_text(encoding="utf-8")
    assert written == PAGES[place](), "the code has changed: make reference"


def test_the_pages_of_the_reference_have_every_public_name_field_setting_and_route() -> None:
    for module in (secl, secl.runs, secl.learning):
        names = [name for home, group in python_api.GROUPS.values() for name in group if home is module]
        assert sorted(names) == module.__all__
    pages = {place: (ROOT / "docs" / place).read_text(encoding="utf-8") for place in PAGES}
    fields = [line for line in pages["reference/records.md"].splitlines() if line.startswith("| <code>")]
    assert len(fields) > 80
    assert [line for line in fields if line.endswith("|  |")] == []
    assert [name for name in SETTINGS if f"<code>{name}</code>" not in pages["reference/settings.md"]] == []
    page = pages["reference/http.md"]
    assert [path for path in http_api.description()["paths"] if f" {path}`\n" not in page] == []
    assert "| <code>question</code> | string | required |" in page
    for module in (outside, python_api, sys.modules["reference.tables"]):
        assert doctest.testmod(module).failed == 0


def test_the_first_picture_is_the_one_that_its_script_draws() -> None:
    assert (pictures.PICTURES / "overview.svg").read_text(encoding="utf-8") == pictures.overview()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Loaded(HTMLParser):
    """Return the addresses that a browser fetches for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value for name, value in attrs if value and (tag, name) in LOADS]


@pytest.mark.slow
def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 25
    for page in pages:
        loaded = Loaded()
        loaded.feed(page.read_text(encoding="utf-8"))
        assert [address for address in loaded.addresses if re.match(r"(https?:)?//", address)] == [], page
    for style in site.rglob("*.css"):
        assert re.findall(r"url\(\s*[\"']?(?:https?:)?//|@import", style.read_text(encoding="utf-8")) == [], style


@pytest.mark.slow
def test_the_search_finds_a_page_without_a_server(site: Path, browser: Any) -> None:
    context = browser.new_context()
    tab = context.new_page()
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto((site / "index.html").as_uri())
    tab.get_by_role("textbox").first.press_sequentially("Clopper")  # the page searches at each key
    tab.locator(".md-search-result__item a").first.wait_for(timeout=60_000)
    found = tab.locator(".md-search-result__item a").first.get_attribute("href")
    context.close()
    assert Path(found.partition("?")[0]).name == "labels.html"
    assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []


TUTORIAL = ROOT / "docs" / "tutorial.md"
STABLE = "<!-- stable -->\n"
CONSOLE = re.compile(rf"({re.escape(STABLE)})?```console\n(.*?)```\n", re.DOTALL)
PORT = "8080"
END = "=== end of command"
COLUMNS = 88
HEAD, TAIL = 22, 4
"""Number of lines of a long output on the page."""
TIME_LIMIT = 900
"""Time limit of the whole page in seconds; on a quiet machine it takes about a minute."""


class Command(NamedTuple):
    """A command and its output on the page, and whether another run must print the same."""

    shown: str
    output: str
    stable: bool


def commands(page: str) -> list[Command]:
    """All commands of a page, in order."""
    return [
        Command(match[1], match[2], stable=bool(block[1]))
        for block in CONSOLE.finditer(page)
        for match in re.finditer(r"(\$ [^\n]*\n(?:> [^\n]*\n)*)((?:(?!\$ ).*\n)*)", block[2])
    ]


def run(steps: list[Command], folder: Path) -> list[str]:
    """Return the output of commands that one shell runs in a folder, with a free port in place of the page's.

    Raises:
        RuntimeError: a command fails.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    scripts = ("\n".join(line[2:] for line in step.shown.replace(PORT, port).splitlines()) for step in steps)
    (folder / "commands.sh").write_text("".join(f"{script}\necho '{END}' $?\n" for script in scripts))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with (folder / "errors").open("w") as errors:
        shell = subprocess.Popen(
            ["bash", "commands.sh"],
            cwd=folder,
            env={**os.environ, "PATH": path, "COLUMNS": str(COLUMNS)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        try:
            text, _ = shell.communicate(timeout=TIME_LIMIT)
        finally:
            with contextlib.suppress(ProcessLookupError):  # whatever a failed command left running
                os.killpg(shell.pid, signal.SIGKILL)
    outputs = re.findall(rf"(.*?){END} (\d+)\n", text, re.DOTALL)
    for step, (output, code) in zip(steps, outputs, strict=True):
        if code != "0":
            raise RuntimeError(f"{step.shown}ended with {code}:\n{output}\n{(folder / 'errors').read_text()}")
    return [shortened(output.replace(port, PORT)) for output, _ in outputs]


def shortened(output: str) -> str:
    """Return an output without blanks at the ends of lines; a long output loses its middle."""
    lines = [line.rstrip() for line in output.splitlines()]
    kept = lines if len(lines) <= HEAD + TAIL else [*lines[:HEAD], "...", *lines[-TAIL:]]
    return "".join(f"{line}\n" for line in kept)


def with_outputs(page: str, outputs: list[str]) -> str:
    """The page with these outputs in place of its own."""
    waiting = iter(zip(commands(page), outputs, strict=True))

    def block(match: re.Match[str]) -> str:
        count = len(commands(match[0]))
        body = "".join(step.shown + output for step, output in (next(waiting) for _ in range(count)))
        return f"{match[1] or ''}```console\n{body}```\n"

    return CONSOLE.sub(block, page)


NUMBER = re.compile(r"(\d+(?:\.\d+)?)(%?)")
BAR = re.compile(r"█+")
CLOSE = 0.06
"""How far two numbers may be apart: a processor that multiplies bfloat16 uses it, and others float32, which moves the
confidences of the embedded model by a few hundredths, a share of forty answers by one or two of them, and bars."""


@pytest.mark.slow
@pytest.mark.parametrize("whole", [pytest.param(False, marks=pytest.mark.smoke), True], ids=["first page", "all"])
def test_the_commands_do_what_the_page_says(
    whole: bool, tmp_path: Path, smollm2: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if whole and shutil.which("curl") is None:
        pytest.skip("the tutorial asks a server with curl")
    page = TUTORIAL.read_text(encoding="utf-8")
    page = page if whole else page.partition("\n## Your own questions")[0]
    steps = commands(page)
    assert len(steps) > (12 if whole else 2)
    for step, output in zip(steps, run(steps, tmp_path), strict=True):
        assert not step.stable or close(step.output, output), (step.shown, output)
    monkeypatch.chdir(tmp_path)
    examples = doctest.DocTestParser().get_doctest(page, {}, "tutorial", str(TUTORIAL), 0)
    assert len(examples.examples) > 4
    assert doctest.DocTestRunner(Close()).run(examples).failed == 0


class Close(doctest.OutputChecker):
    """Compares what the examples in Python print."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:  # noqa: ARG002
        return close(want, got)


def close(want: str, got: str) -> bool:
    """Whether two outputs are the same but for the last digits of their numbers."""
    want, got = (BAR.sub("", text) for text in (want, got))
    numbers = [[float(n) / (100 if share else 1) for n, share in NUMBER.findall(text)] for text in (want, got)]
    same = NUMBER.sub("0", want).split() == NUMBER.sub("0", got).split()  # columns may be wider
    return same and numbers[1] == pytest.approx(numbers[0], abs=CLOSE, rel=CLOSE)


BLOCK = re.compile(r"```python\n(?P<code>(?!>>>).*?)```\n\n```text\n(?P<shown>.*?)```\n", re.DOTALL)
EXAMPLES = [page for page in sorted((ROOT / "docs").glob("*.md")) if BLOCK.search(page.read_text(encoding="utf-8"))]
NOTEBOOK = ROOT / "examples" / "first_steps.ipynb"


def printed(codes: list[str]) -> Iterator[str]:
    """Yield the output of each example; all examples of a page share their names."""
    names: dict[str, Any] = {}
    for code in codes:
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(code, names)  # the project's own pages
        yield output.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("page", EXAMPLES, ids=[page.stem for page in EXAMPLES])
def test_a_page_shows_true_outputs(page: Path, smollm2: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # examples and commands write files
        text = TUTORIAL.read_text(encoding="utf-8")
        TUTORIAL.write_text(with_outputs(text, run(commands(text), Path(folder))), encoding="utf-8")
        for path in EXAMPLES:
            path.write_text(rewritten(path.read_text(encoding="utf-8")), encoding="utf-8")
