"""Variables that the command line sets before torch starts, and lines of progress without a terminal."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import secl.cli.run as progress
from secl.machine import DEFAULTS, WAITING, cpu_quota

PRINT = "import os, sys; print('torch' in sys.modules, {name: os.environ.get(name) for name in %r}, file=sys.stderr)"
HELP = "from secl.cli import main; sys.argv = ['secl', '--help']\ntry: main()\nfinally: "
OWN = {"OMP_WAIT_POLICY": "ACTIVE"}
UNSET = dict.fromkeys(DEFAULTS)


@pytest.mark.parametrize(
    ("code", "own", "there"),
    [
        (HELP, {}, DEFAULTS),
        (HELP, OWN, DEFAULTS | dict.fromkeys(WAITING) | OWN),  # a choice how to wait; a count of ours would undo it
        ("import secl; ", {}, UNSET),
    ],
    ids=["command line", "with a choice", "library"],
)
def test_only_the_command_line_sets_what_is_unset(code: str, own: dict[str, str], there: dict[str, str | None]) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in DEFAULTS}
    command = [sys.executable, "-c", f"import sys; {code}{PRINT % [*DEFAULTS]}"]
    ended = subprocess.run(command, env=kept | own, capture_output=True, text=True, check=True, timeout=60)
    assert ended.stderr == f"False {there}\n"


@pytest.mark.parametrize(
    ("limits", "quota"),
    [
        ({}, None),
        ({"": "150000 100000"}, 1.5),
        ({"system.slice/secl.service": "400000 100000", "system.slice": "50000 100000"}, 0.5),
        ({"": "unreadable"}, None),
    ],
)
def test_the_quota_of_a_unit_is_the_least_around(limits: dict[str, str], quota: float | None, tmp_path: Path) -> None:
    assert cpu_quota(tmp_path) is None  # no such thing on other systems
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/system.slice/secl.service\n")
    for group, limit in limits.items():
        folder = tmp_path / "sys/fs/cgroup" / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cpu.max").write_text(f"{limit}\n")
    assert cpu_quota(tmp_path) == quota


def test_progress_is_two_lines_a_minute(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "EVERY", 30.0)
    now = [100.0]
    show = progress.lines(10, "field", clock=lambda: now[0])
    for seconds, done in ((1, 12), (30, 19), (31, 30), (60, 40), (61, 40), (90, 100), (91, 2100), (230, 2100)):
        now[0] = 100.0 + seconds
        show(done, 2100, "asking")
    show(7, None, "loading")
    assert capsys.readouterr().err.splitlines() == [
        "30 of 2,100 fields, 0:00:31, about 0:53:28 to go",  # 19 were too few to tell
        "40 of 2,100 fields, 0:01:01, about 1:09:48 to go",
        "2,100 of 2,100 fields, 0:01:31",
        "2,100 of 2,100 fields, 0:03:50",
    ]
    began, show = now[0], progress.lines(0, clock=lambda: now[0])
    for seconds, done in ((60, 1), (119, 2), (120, 3)):
        now[0] = began + seconds
        show(done, 2100, "asking")
    assert capsys.readouterr().err.splitlines() == ["3 of 2,100 questions, 0:02:00"]  # slow answers show that they come
    with progress.follow("asking", 3) as shown:
        shown(3, 3, "asking")
    assert capsys.readouterr() == ("", "")
