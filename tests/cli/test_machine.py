"""What the command line tells the machine before torch starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from secl.cli.machine import DEFAULTS

PRINT = """
import json, os, sys
from secl.cli import main
sys.argv = ["secl", "--help"]
try:
    main()
finally:
    print(json.dumps(["torch" in sys.modules, {name: os.environ.get(name) for name in %r}]), file=sys.stderr)
"""


@pytest.mark.parametrize("own", [{}, {"OMP_WAIT_POLICY": "ACTIVE"}])
def test_the_command_line_sets_what_the_user_has_not_set_before_torch_is_there(own: dict[str, str]) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in DEFAULTS}
    command = [sys.executable, "-c", PRINT % list(DEFAULTS)]
    ended = subprocess.run(command, env=kept | own, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(ended.stderr) == [False, DEFAULTS | own]


def test_importing_the_library_sets_nothing() -> None:
    kept = {name: value for name, value in os.environ.items() if name not in DEFAULTS}
    code = f"import os, secl; print([name for name in {list(DEFAULTS)} if name in os.environ])"
    ended = subprocess.run(
        [sys.executable, "-c", code], env=kept, capture_output=True, text=True, check=True, timeout=60
    )
    assert ended.stdout == "[]\n"
