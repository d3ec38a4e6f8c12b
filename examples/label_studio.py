"""Let people judge answers in Label Studio: make its tasks from a sheet of a run, and a sheet from its annotations.

    secl export RUN --sample 50 --out sample.csv           # or --review: with confidences, least certain first
    python examples/label_studio.py out sample.csv tasks.json               # import tasks.json into Label Studio
    python examples/label_studio.py in exported.json judged.csv             # its export in the format JSON
    secl label RUN --from judged.csv

Give the project the labelling configuration below. Of a sheet with confidences, each task has a prediction with the
confidence as its score, by which Label Studio can sort; the prediction names no verdict, which would sway people.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import secl

CONFIG = """<View>
  <Text name="question" value="$question"/>
  <Text name="answer" value="$answer"/>
  <Choices name="label" toName="answer"><Choice value="right"/><Choice value="wrong"/></Choices>
  <TextArea name="correct_answer" toName="answer"/>
</View>"""

JUDGED = ("label", "correct_answer")


def tasks(rows: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Return the tasks for the rows of a sheet."""
    made = []
    for row in rows:
        score = row.get("confidence")
        prediction = {"model_version": "secl", "score": float(score), "result": []} if score else None
        data = {name: cell for name, cell in row.items() if name not in JUDGED}
        made.append({"data": data, "predictions": [prediction] if prediction else []})
    return made


def judged(exported: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return the rows of a sheet, one for each annotation; `secl label` refuses contradicting verdicts."""
    rows = []
    for number, task in enumerate(exported, 1):
        if not isinstance(task, dict) or "record_id" not in task.get("data", {}) or "annotations" not in task:
            name = task.get("id", number) if isinstance(task, dict) else number
            raise secl.DataError(
                f"task {name} has no annotations of an answer of secl; in Label Studio, export the project in the "
                "format JSON, with the tasks that this script made."
            )
        for annotation in task["annotations"]:
            row = {**task["data"], **dict.fromkeys(JUDGED, "")}
            for result in [] if annotation.get("was_cancelled") else annotation["result"]:
                value = result.get("value", {})  # of the form {"choices": ["right"]}; a relation has none
                values = value.get("choices") or value.get("text")
                if values and result.get("from_name") in JUDGED:
                    row[result["from_name"]] = values if isinstance(values, str) else values[0]
            rows.append(row)
    return rows


def main(way: str, source: str, target: str) -> None:
    """Turn a sheet into tasks, or exported annotations into a sheet."""
    try:
        with Path(source).open(encoding="utf-8-sig", newline="") as file:
            rows: list[Any] = tasks(list(csv.DictReader(file))) if way == "out" else judged(list(json.load(file)))
    except (OSError, ValueError, TypeError) as problem:
        raise secl.DataError(
            f"{source} cannot be read: {problem}; give a sheet of secl, or an export as JSON."
        ) from None
    if not rows:
        raise secl.DataError(f"{source} has no rows or annotations.")
    with Path(target).open("w", encoding="utf-8") as out:
        if way == "out":
            json.dump(rows, out, ensure_ascii=False, indent=1)
            return
        writer = csv.DictWriter(out, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except secl.SeclError as problem:
        raise SystemExit(str(problem)) from None
