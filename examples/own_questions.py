"""Calibrate a model on your own questions and print what changed.

    python examples/own_questions.py MODEL QUESTIONS

MODEL is a preset name, a hub id, a folder or a GGUF file. The file, of any format in docs/questions.md, needs nothing
but the column "question"; "options" and "reference" are welcome.
"""

from __future__ import annotations

import sys
from pathlib import Path

import secl


def main(model: str, file: str) -> None:
    calibrator = secl.Calibrator.load(model, gate=secl.EntropyShift(burst=20))
    for record in calibrator.run(secl.read_questions(Path(file))):
        before, now = record.frozen.confidence, record.reply.confidence
        mark = "learning" if record.decision.in_burst else ""
        print(f"{record.reply.answer!s:>12}  stated {now:.2f} (frozen model {before:.2f})  {mark}")


if __name__ == "__main__":
    main(*sys.argv[1:])
