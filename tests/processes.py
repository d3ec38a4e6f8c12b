"""The shell command in processes that a test can kill. They fork from a server with torch loaded."""

import multiprocessing
import os
import signal
import socket
import sqlite3
import sys
from collections.abc import Callable
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.rough import few_draws, sketch

_CONTEXT = multiprocessing.get_context("forkserver")
# Modules with slow imports.
_SLOW = "secl.cli secl.backends.local.model secl.runs.runner secl.reports.folder matplotlib.backends.backend_agg "
_SLOW += "scipy.stats sklearn.metrics transformers.models.llama.modeling_llama"
_CONTEXT.set_forkserver_preload(_SLOW.split())

MOMENTS = ("answered", "learned", "half written", "recorded")
"""Moments at which a process can kill itself during a question; the last two are in and after its transaction."""


def start(
    log: Path,
    *arguments: object,
    die: tuple[str, int] | None = None,
    of: signal.Signals = signal.SIGKILL,
    listener: socket.socket | None = None,
) -> BaseProcess:
    """Start `secl` with arguments, one thread, empty pictures and rough intervals.

    Args:
        log: file of all output.
        arguments: of the command line.
        die: a moment of `MOMENTS`, and its number of occurrences before the one that kills the process.
        of: the signal of the process to itself.
        listener: a socket that the process inherits, as from systemd.
    """
    with patch.dict(os.environ, OMP_NUM_THREADS="1"):
        forkserver.ensure_running()
    texts = [str(argument) for argument in arguments]
    process = _CONTEXT.Process(target=_main, args=(str(log), texts, die, of, listener))
    process.start()
    return process


def finish(process: BaseProcess, seconds: float = 120) -> int | None:
    """Wait for the end of a process and return its exit code; after a kill, the negative signal."""
    process.join(seconds)
    if process.exitcode is None:
        process.kill()
    code = process.exitcode
    process.close()
    return code


def _main(
    log: str, arguments: list[str], die: tuple[str, int] | None, of: signal.Signals, listener: socket.socket | None
) -> None:
    from matplotlib.figure import Figure

    from secl import cli

    Figure.savefig = sketch  # type: ignore[assignment]
    few_draws()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["secl", *arguments]
    if listener is not None:
        sys.argv += ["--fd", str(listener.detach())]
    with open(log, "a", encoding="utf-8") as stream:
        sys.stdout = sys.stderr = stream
        if die is not None:
            _plan_death(*die, of)
        cli.main()


def _plan_death(moment: str, survived: int, of: signal.Signals) -> None:
    from secl.backends.local.model import LocalModel
    from secl.runs import store
    from secl.runs.folder import connect

    left = [survived]

    def pass_by() -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), of)

    def and_then(step: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*args: Any, **kwargs: Any) -> Any:
            result = step(*args, **kwargs)
            pass_by()
            return result

        return stepped

    def watched(path: Path, writable: bool) -> sqlite3.Connection:
        db = connect(path, writable)
        db.set_trace_callback(lambda sql: pass_by() if sql == "COMMIT" else None)
        return db

    if moment == "answered":
        LocalModel.answer = and_then(LocalModel.answer)  # type: ignore[method-assign]
    elif moment == "learned":
        LocalModel.learn = and_then(LocalModel.learn)  # type: ignore[method-assign]
    elif moment == "half written":
        vars(store)["connect"] = watched
    else:
        store.Store.add = and_then(store.Store.add)  # type: ignore[method-assign]
