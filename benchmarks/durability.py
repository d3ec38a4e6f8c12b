"""What it costs to synchronise every commit of a server: milliseconds to write the records of one batch.

    python benchmarks/durability.py --state FOLDER        # a folder on the disk in question; it must not exist yet

Synchronised (FULL), a record survives a power cut; without (NORMAL) it survives a kill of the process.
"""

from __future__ import annotations

import argparse
import shutil
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from secl import Calibrator
from secl.gates import Never
from secl.records import Record
from secl.server.store import ServerStore
from secl.testing import ScriptedModel, toy_stream

BATCHES = 200
BATCH_SIZES = (1, 4, 16)


def seconds_per_batch(folder: Path, synchronous: str, record: Record, size: int) -> list[float]:
    """Times of writing one batch after another into a new state folder."""
    times = []
    with ServerStore.create(folder, {"keep_text": "full"}) as state:
        state.db.execute(f"PRAGMA synchronous = {synchronous}")
        for batch in range(BATCHES):
            records = [replace(record, position=batch * size + number) for number in range(size)]
            began = time.perf_counter()
            state.add_answers(records, 0.1, moment=time.time())
            times.append(time.perf_counter() - began)
    shutil.rmtree(folder)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", type=Path, required=True)
    folder = parser.parse_args().state
    record = Calibrator(ScriptedModel(), gate=Never()).ask(toy_stream(1)[0])
    print("questions in a batch | NORMAL: median, 95th percentile | FULL: median, 95th percentile (milliseconds)")
    for size in BATCH_SIZES:
        cells = []
        for synchronous in ("NORMAL", "FULL"):
            times = np.multiply(1000, seconds_per_batch(folder, synchronous, record, size))
            cells.append(f"{np.median(times):.2f}, {np.quantile(times, 0.95):.2f}")
        print(f"{size} | {' | '.join(cells)}")


if __name__ == "__main__":
    main()
