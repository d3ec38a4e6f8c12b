"""Run all measurements, then write benchmarks/results.json and the tables in benchmarks/RESULTS.md.

    python -m benchmarks [--model smollm2] [--data DIR] [--only NAME] [--questions 32] [--rounds 3] ...

Without `--data`, the folder of the official benchmark files, the questions come from the built-in quiz. Measurements
left out by `--only` keep their earlier results. The tables name the machine and the commit of each measurement.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers

from benchmarks import by_hand, evidence, growth, lockstep, seconds, serving, streams
from benchmarks.setting import Say, Setting
from benchmarks.study import in_a_sentence
from benchmarks.timing import machine
from benchmarks.writing import MEASURED, around_tables, keep, write_page
from secl.backends.local.loading.loader import choose_dtype
from secl.backends.local.loading.model_parts import choose_device

PARTS: dict[str, Callable[[Setting, Say], dict[str, Any]]] = {
    "by-hand": by_hand.measure,
    "seconds": seconds.measure,
    "growth": growth.measure,
    "serving": serving.measure,
    "agreement": streams.measure_in_float32,
    "evidence": evidence.measure,
    "lockstep": lockstep.measure,
    "streams": streams.measure,
}
"""All parts, the longest last."""

ROOT = Path(__file__).parent.parent


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    around_tables(options.page)  # fails before the measurements if the page cannot be written
    choose_device(options.device)
    own = {field.name: getattr(options, field.name) for field in dataclasses.fields(Setting)}
    setting = Setting(**{**own, "data": os.path.abspath(options.data) if options.data else None})
    transformers.logging.set_verbosity_error()
    for name in options.only or PARTS:
        print(f"{name} ...", flush=True)
        began = time.perf_counter()
        results = PARTS[name](setting, lambda line: print(f"  {line}", flush=True))
        took = round(time.perf_counter() - began, 1)
        everything = keep(
            options.out,
            setting.key,
            Setting().key,
            {**results, MEASURED: {name: {"machine": described(setting), "setting": sized(setting), "seconds": took}}},
        )
        write_page(options.page, everything)
    print(f"written to {options.out} and {options.page}")


def described(setting: Setting) -> dict[str, Any]:
    """Return commit and machine, with the GPU if used, and the precision and threads of this setting."""
    device = torch.device(setting.device)
    dtype = str(choose_dtype(setting.dtype, device)).removeprefix("torch.")
    gpu = {"device": torch.cuda.get_device_name(device)} if device.type == "cuda" else {}
    commit = subprocess.check_output(("git", "rev-parse", "--short=8", "HEAD"), cwd=ROOT, text=True).strip()
    return machine(dtype=dtype, threads=torch.get_num_threads(), commit=commit, **gpu)


def sized(setting: Setting) -> dict[str, Any]:
    """Return the number of questions and rounds, and their data."""
    sizes = {name: value for name, value in dataclasses.asdict(setting).items() if isinstance(value, int)}
    return {**sizes, "data": "official" if setting.data else "built in"}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    usual = Setting()
    parser.add_argument("--model", default=usual.model, help="preset, hub id, folder or GGUF file")
    parser.add_argument("--dtype", default=usual.dtype, choices=("auto", "bf16", "fp16", "fp32"))
    parser.add_argument("--device", default=usual.device, help="cpu, cuda, cuda:1, ...")
    parser.add_argument("--data", help="folder with the official benchmark files")
    parser.add_argument("--only", action="append", choices=tuple(PARTS), help="measure this part; may be repeated")
    parser.add_argument("--questions", type=int, default=usual.questions, help="questions of one timed round")
    parser.add_argument("--rounds", type=int, default=usual.rounds, help="timed rounds; medians are reported")
    parser.add_argument("--stream-questions", type=int, default=usual.stream_questions, help="questions of a stream")
    parser.add_argument("--growth-questions", type=int, default=usual.growth_questions, help="of the longest stream")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results.json")
    parser.add_argument("--page", type=Path, default=ROOT / "benchmarks" / "RESULTS.md")
    return parser


if __name__ == "__main__":
    with in_a_sentence():
        main()
