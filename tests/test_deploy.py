"""The systemd units and the container file, checked by their tools and carried out as far as possible without them.

No container engine and no systemd are needed. The service starts as its unit says, on a socket that a parent passes.
Where SECL_BUILD is set, the container's steps are run in an empty folder (make test-container).
"""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from secl.server.http.api_keys import Keys
from secl.server.http.process import ACCEPTING, LINGER
from secl.server.settings import Limits

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
COMMAND = Path(sys.executable).with_name("secl")
ASKED = {"question": "Capital of France?", "options": ["Rome", "Paris", "Bern"]}

PASS_SOCKET = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Pass a socket as systemd does: the process that becomes the service gets it as descriptor 3."""


def unit(name: str) -> ConfigParser:
    """Read a unit file; of a repeated key, the last value counts."""
    parser = ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string((DEPLOY / name).read_text(encoding="utf-8"))
    return parser


def instructions() -> list[tuple[str, str]]:
    """The lines of the container file as (instruction, rest)."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, " ".join(rest.split())) for name, _, rest in (line.partition(" ") for line in lines)]


def last(name: str) -> str:
    return [rest for instruction, rest in instructions() if instruction == name][-1]


def started(state: Path, command: list[str], model: str, paths: dict[str, str]) -> list[str]:
    """A command of a unit or an image with this machine's paths."""
    swapped = {"/var/lib/secl/state": str(state), "smollm2": model, **paths}
    return [swapped.get(word, word) for word in command]


@contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, close_fds=False)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_the_service_starts_on_a_passed_socket_and_ends(tiny_llama: Path, tmp_path: Path) -> None:
    service, log = unit("secl.service")["Service"], tmp_path / "log"
    paths = {"/opt/secl/bin/secl": str(COMMAND)}
    command = started(tmp_path / "state", shlex.split(service["ExecStart"]), str(tiny_llama), paths)
    with socket.create_server((unit("secl.socket")["Socket"]["ListenStream"].split(":")[0], 0)) as listener:
        listener.set_inheritable(True)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        activated = [sys.executable, "-c", PASS_SOCKET, str(listener.fileno()), *command]
        with running(activated, log) as process:
            reply = httpx.post(f"{address}/v1/ask", json=ASKED, timeout=120)  # asked before there is a server
            assert reply.status_code == 200, log.read_text()
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, log.read_text()
    assert f"secl serves tiny-llama at {address}/" in log.read_text().replace(str(tiny_llama), "tiny-llama")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze (Debian's package systemd)")
def test_systemd_reads_the_units_and_finds_the_service_hardened(tmp_path: Path) -> None:
    for name in ("secl.service", "secl.socket"):
        text = (DEPLOY / name).read_text(encoding="utf-8").replace("/opt/secl/bin/secl", str(COMMAND))
        (tmp_path / name).write_text(text, encoding="utf-8")
    files = [str(tmp_path / name) for name in ("secl.service", "secl.socket")]
    checked = subprocess.run(["systemd-analyze", "verify", *files], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    rating = ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", files[0]]
    assert subprocess.run(rating, capture_output=True, check=False).returncode == 0


def test_the_files_give_gpus_and_no_other_device_processors_pytorch_what_is_copied_and_time_to_stop() -> None:
    lines = (DEPLOY / "secl.service").read_text(encoding="utf-8").splitlines()
    allowed = {line.split("=")[1].split()[0] for line in lines if line.startswith("DeviceAllow=")}
    assert allowed == {"char-nvidia*", "char-drm", "char-kfd"}
    assert "DevicePolicy=closed" in lines
    assert "PrivateDevices=yes" not in lines, "it would hide them"

    (default,) = [rest for instruction, rest in instructions() if rest.startswith("TORCH_INDEX_URL=")]
    (install,) = [rest for instruction, rest in instructions() if instruction == "RUN" and rest.endswith(" torch")]
    assert default.endswith("/cpu")
    assert "--index-url $TORCH_INDEX_URL" in install

    kept = {line[1:] for line in (DEPLOY / "Containerfile.dockerignore").read_text().splitlines() if line[0] == "!"}
    copies = [rest for instruction, rest in instructions() if instruction == "COPY" and "--from" not in rest]
    copied = {name for rest in copies for name in rest.split()[:-1]}
    assert copied == kept
    assert all((ROOT / name).exists() for name in copied)

    container, page = (DEPLOY / "Containerfile").read_text(), (ROOT / "docs" / "deployment.md").read_text()
    seconds = [int(unit("secl.service")["Service"]["TimeoutStopSec"])]
    seconds += [int(number) for text in (container, page) for number in re.findall(r"--stop-timeout (\d+)", text)]
    assert len(seconds) == 3
    assert min(seconds) >= Limits().timeout + LINGER + ACCEPTING + 10


def serve_and_probe(secl: Path, state: Path, model: str, log: Path) -> None:
    """Start the image's command on another port; the health check passes, and a question is answered."""
    token = Keys(state).add("me", "admin")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = json.loads(last("ENTRYPOINT")) + json.loads(last("CMD"))
    command = started(state, command, model, {"secl": str(secl), "8080": port})
    probe = json.loads(last("HEALTHCHECK").partition("CMD ")[2].replace("8080", port))
    probe[0] = str(secl.with_name(probe[0]))
    with running(command, log) as process:
        end = time.monotonic() + 120
        while subprocess.run(probe, capture_output=True, check=False).returncode != 0:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.5)
        headers = {"authorization": f"Bearer {token}"}
        assert httpx.post(f"http://127.0.0.1:{port}/v1/ask", json=ASKED, headers=headers, timeout=60).status_code == 200
        process.terminate()
        assert process.wait(60) == 0, log.read_text()
    assert subprocess.run(probe, capture_output=True, check=False).returncode != 0


def test_the_image_starts_a_server_that_its_health_check_finds(tiny_llama: Path, tmp_path: Path) -> None:
    serve_and_probe(COMMAND, tmp_path / "state", str(tiny_llama), tmp_path / "log")


@pytest.mark.elsewhere("SECL_BUILD")
def test_the_steps_of_the_container_file_make_a_server_from_nothing(tmp_path: Path) -> None:
    """Do COPY and RUN of the first stage in an empty folder, but not FROM, nor useradd, which needs root."""
    source, made = tmp_path / "src", tmp_path / "opt"
    source.mkdir()
    environment = {name: os.environ[name] for name in os.environ if not name.startswith(("PYTHON", "VIRTUAL"))}
    for instruction, rest in instructions():
        if instruction == "COPY" and "--from" not in rest:
            for name in rest.split()[:-1]:
                if (ROOT / name).is_dir():
                    shutil.copytree(ROOT / name, source / name)
                else:
                    shutil.copy(ROOT / name, source)
        elif instruction == "ARG" and "=" in rest:
            environment.setdefault(*rest.split("=", 1))
        elif instruction == "RUN" and not rest.startswith("useradd"):
            step = rest.replace("/opt/secl", str(made))
            subprocess.run(["sh", "-c", step], cwd=source, env=environment, check=True)
    serve_and_probe(made / "bin" / "secl", tmp_path / "state", "smollm2", tmp_path / "log")
