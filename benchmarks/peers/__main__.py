"""Confidences of other libraries beside those of secl, on the same answers.

    python -m benchmarks.peers rows FOLDER --data DIR [--part 1]
    python -m benchmarks.peers ask FOLDER MODEL transformers=PYTHON polygraph=PYTHON uqlm=PYTHON
    python -m benchmarks.peers report FOLDER

`rows` writes questions with options, open questions and news to classify. `ask` lets each library answer greedily and
rate its answers by its own functions, with the interpreter PYTHON of an environment that has the library. MODEL is a
folder. All libraries get the same prompts. secl rates the answers of plain transformers (`score_all`), and also asks by
itself (`ask_all`). `report` grades all answers by one rule. For fields of documents, see `benchmarks.fields`.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import random
import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import secl
from benchmarks.open_answers import can_be_open
from benchmarks.study import heading, in_a_sentence, row
from secl import GivenAnswer, Question
from secl.data.benchmarks import load
from secl.evaluation.summary import measure
from secl.grading.rules import grade, same_answer

TASKS = "open", "classes", "options"
COUNTS = {"arc": 70, "mmlu": 70, "truthfulqa": 60, "capitals": 60, "science": 40}
SAMPLED = 10
"""LM-Polygraph and UQLM draw ten samples for one row of so many, since samples take them ten times as long."""

Line = dict[str, Any]


def write_rows(folder: Path, data: Path, part: float) -> None:
    """Write the rows of each task."""
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[Line]] = defaultdict(list)
    for name, count in COUNTS.items():
        is_open = name in ("capitals", "science")
        asked = [each for each in load(name, data=data) if not is_open or can_be_open(each)]
        for each in random.Random(11).sample(asked, round(count * part)):
            if is_open:
                prompt, right = f"{each.text} Answer in a few words.", each.option(str(each.reference))
                found["open"].append({"question": each.text, "reference": right, "prompt": prompt})
                continue
            letters = "".join(f"\n{letter}. {each.option(letter)}" for letter in each.letters)
            prompt = f"{each.text}{letters}\nReply with the letter of the correct option only."
            parts: Line = {"question": each.text, "options": each.options, "reference": each.reference}
            found["options"].append({**parts, "prompt": prompt})
    with (data / "classes" / "news.csv").open(encoding="utf-8", newline="") as file:
        news = list(csv.DictReader(file))
    topics = sorted({each["label"] for each in news})
    for article in random.Random(11).sample(news, round(100 * part)):
        text = f"Which topic has this news article: {', '.join(topics)}?\n\n{article['text']}"
        parts = {"question": text, "options": topics, "reference": "ABCD"[topics.index(article["label"])]}
        found["classes"].append({**parts, "prompt": f"{text}\n\nReply with the topic only."})
    for task, lines in found.items():
        random.Random(5).shuffle(lines)
        numbered = [{"id": f"{n}", **line, "sampled": n < len(lines) / SAMPLED} for n, line in enumerate(lines)]
        save(folder / f"{task}.jsonl", numbered)


def save(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def read(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def question_of(line: Line) -> Question:
    """Return the question of a row, with its reference."""
    options = tuple(line.get("options", ()))
    return Question(line["question"], options, line["reference"], id=line["id"], form="choice" if options else "short")


def answer_in(question: Question, reply: str) -> str:
    """Return the letter that a reply names, by letter or by the option's text; for open questions the first line."""
    lines = reply.strip().splitlines() or [""]
    if not question.options:
        return lines[0]
    named = [letter for letter in question.letters if question.option(letter).lower() in reply.lower()]
    letters = re.findall(rf"\b[{''.join(question.letters)}]\b", reply)
    return (letters or named or [""])[0]


def ask(folder: Path, model: str, peers: Mapping[str, str]) -> None:
    """Let each library answer and rate the rows of each task in turn, then secl."""
    threads = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    ours = secl.load(model, dtype="bf16")
    ours.ask("What is the capital of Peru?")
    for task in TASKS:
        lines = read(folder / f"{task}.jsonl")
        for peer, python in peers.items():
            out, script = folder / f"{task}-{peer}.jsonl", Path(__file__).with_name(f"by_{peer}.py")
            if not out.exists():
                print(f"{time.strftime('%H:%M:%S')} {task}: {peer}; load {os.getloadavg()[0]:.1f}", flush=True)
                subprocess.run([python, script, model, folder / f"{task}.jsonl", out], env=threads, check=True)
        questions = {line["id"]: question_of(line) for line in lines}
        written = {line["id"]: line["answer"] for line in read(folder / f"{task}-transformers.jsonl")}
        answers = {each: answer_in(questions[each], text) for each, text in written.items()}
        given = [GivenAnswer(questions[each], text) for each, text in answers.items() if text]
        for name, rated in (("score", ours.score_all(given)), ("ask", ours.ask_all(list(questions.values())))):
            began, records = time.monotonic(), list(rated)
            seconds = {"posterior": (time.monotonic() - began) / len(records)}
            found = ({"id": r.question.id, "answer": r.answer, "scores": {"posterior": r.confidence}} for r in records)
            save(folder / f"{task}-secl-{name}.jsonl", ({**line, "seconds": seconds} for line in found))


def by_transformers(line: Line, question: Question, answer: str) -> dict[str, float]:
    """Return exp(ln P), and the share of the samples with the same answer."""
    drawn = [answer_in(question, text) for text in line["samples"]]
    same = [each == answer or (not question.options and same_answer(question, answer, each)) for each in drawn]
    return {"probability": math.exp(line["log_p"]), "ten samples": sum(same) / len(same)}


def report(folder: Path) -> Iterator[str]:
    """Yield a table for each task: the measures of each score on the answers that plain transformers wrote, too."""
    for task in TASKS:
        questions = {line["id"]: question_of(line) for line in read(folder / f"{task}.jsonl")}
        common = {
            line["id"]: answer_in(questions[line["id"]], line["answer"])
            for line in read(folder / f"{task}-transformers.jsonl")
        }
        yield f"\n{task}\n" + heading("confidence", "own accuracy", "n", "AUROC", "Brier", "ECE (floor)", "seconds")
        for path in sorted(folder.glob(f"{task}-*.jsonl")):
            peer = path.stem.removeprefix(f"{task}-")
            right, scores, seconds = (
                [],
                defaultdict[str, list[tuple[float, bool]]](list),
                defaultdict[str, list[float]](list),
            )
            for line in read(path):
                question = questions[line["id"]]
                answer = line["answer"] if "secl" in peer else answer_in(question, line["answer"])
                right.append(bool(grade(question, answer)))
                for name, taken in line["seconds"].items():
                    seconds[name].append(taken)
                found = line.get("scores") or by_transformers(line, question, answer)
                same = peer == "secl-ask" or answer == common[line["id"]]
                for name, score in found.items():
                    if same and answer and score is not None and math.isfinite(score):
                        scores[name].append((score, right[-1]))
            for name, rated in scores.items():
                yield cells(f"{peer}: {name}", right, rated, seconds[name] or seconds["probability"])


def cells(name: str, right: list[bool], rated: list[tuple[float, bool]], seconds: list[float]) -> str:
    """Return a row of the table."""
    found = measure([min(1.0, score) for score, _ in rated], [correct for _, correct in rated])
    numbers = f"{found.auroc:.3f}", f"{found.brier:.3f}", f"{found.ece:.3f} ({found.ece_floor:.3f})"
    return row(name, f"{sum(right) / len(right):.3f}", f"{len(rated)}", *numbers, f"{sum(seconds) / len(seconds):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["rows", "ask", "report"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("model", nargs="?")
    parser.add_argument("peers", nargs="*", help="NAME=PYTHON")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--part", type=float, default=1)
    chosen = parser.parse_args()
    if chosen.command == "rows":
        write_rows(chosen.folder, chosen.data, chosen.part)
    elif chosen.command == "ask":
        ask(chosen.folder, chosen.model, dict(each.split("=", 1) for each in chosen.peers))
    else:
        print(*report(chosen.folder), sep="\n")


if __name__ == "__main__":
    with in_a_sentence():
        main()
