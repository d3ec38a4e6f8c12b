"""Runs the commands of docs/tutorial.md. `python -m tests.tutorial` writes their outputs into the page anew.

Commands stand in blocks of the kind `console`, behind a dollar sign; lines behind `>` go on with the command. What
follows is what it printed. A block behind the comment `<!-- stable -->` must print the same again, up to rounding.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"
STABLE = "<!-- stable -->\n"
BLOCK = re.compile(rf"({re.escape(STABLE)})?```console\n(.*?)```\n", re.DOTALL)
PORT = "8080"
END = "=== end of command"
COLUMNS = 88
HEAD, TAIL = 22, 4
"""Lines that the page shows of a long output."""
TIME_LIMIT = 900
"""Seconds for the whole page; on a quiet machine it takes about one minute."""


@dataclass(frozen=True)
class Command:
    """A command of the page.

    Attributes:
        shown: its lines, as the page shows them.
        output: what it printed, as the page shows it.
        stable: whether it must print that again.
    """

    shown: str
    output: str
    stable: bool

    @property
    def script(self) -> str:
        """The command as the shell gets it."""
        return "\n".join(line[2:] for line in self.shown.splitlines())


def commands(page: str) -> list[Command]:
    """All commands of a page, in order."""
    return [
        Command(match[1], match[2], stable=bool(block[1]))
        for block in BLOCK.finditer(page)
        for match in re.finditer(r"(\$ [^\n]*\n(?:> [^\n]*\n)*)((?:(?!\$ ).*\n)*)", block[2])
    ]


def run(steps: list[Command], folder: Path) -> list[str]:
    """What the commands print when one shell runs them in a folder; the page's port becomes a free one.

    Raises:
        RuntimeError: a command fails.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    script = folder / "commands.sh"
    script.write_text("".join(f"{step.script.replace(PORT, port)}\necho '{END}' $?\n" for step in steps))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with (folder / "errors").open("w") as errors:
        shell = subprocess.Popen(
            ["bash", script.name],
            cwd=folder,
            env={**os.environ, "PATH": path, "COLUMNS": str(COLUMNS)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        try:
            printed, _ = shell.communicate(timeout=TIME_LIMIT)
        finally:
            with suppress(ProcessLookupError):  # whatever a failed command left running
                os.killpg(shell.pid, signal.SIGKILL)
    outputs = re.findall(rf"(.*?){END} (\d+)\n", printed, re.DOTALL)
    for step, (output, code) in zip(steps, outputs, strict=True):
        if code != "0":
            raise RuntimeError(f"{step.shown}ended with {code}:\n{output}\n{(folder / 'errors').read_text()}")
    return [shortened(output.replace(port, PORT)) for output, _ in outputs]


def shortened(output: str) -> str:
    """An output without the blanks at the ends of its lines, and a long one without its middle."""
    lines = [line.rstrip() for line in output.splitlines()]
    kept = lines if len(lines) <= HEAD + TAIL else [*lines[:HEAD], "...", *lines[-TAIL:]]
    return "".join(f"{line}\n" for line in kept)


def rewritten(page: str, outputs: list[str]) -> str:
    """The page with these outputs in place of its own."""
    waiting = iter(zip(commands(page), outputs, strict=True))

    def block(match: re.Match[str]) -> str:
        count = len(commands(match[0]))
        body = "".join(step.shown + output for step, output in (next(waiting) for _ in range(count)))
        return f"{match[1] or ''}```console\n{body}```\n"

    return BLOCK.sub(block, page)


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as place:
        printed = run(commands(text), Path(place))
    PAGE.write_text(rewritten(text, printed), encoding="utf-8")
