"""What the server's pages cost at different numbers of records: milliseconds, median of repeated readings.

    python -m benchmarks.page_cost --records 10 1000 1000000

The folder is made by a scripted model that answers ten questions, whose rows are then copied under new positions, with
a label on every 50th; nothing is loaded but SQLite's own cache.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from secl.calibrator import Calibrator
from secl.gates import Never
from secl.server.explain import explain
from secl.server.http.pages.rendering import render
from secl.server.http.pages.view import view
from secl.server.online.factory import open_state, serving_settings
from secl.server.online.service import Service
from secl.server.records import Search, domains, review_queue, search
from secl.server.store import at_one_moment
from secl.testing import ScriptedModel, toy_stream

TEN = 10


def make(folder: Path, count: int) -> Service:
    """A service with so many records."""
    recipe, model = serving_settings(), ScriptedModel()
    manifest = {
        "settings": recipe.to_json(),
        "model": model.fingerprint,
        "tau": model.tau,
        "keep_text": "full",
        "total": 0,
        "environment": {},
    }
    state = open_state(folder, manifest)
    service = Service(Calibrator(model, gate=Never()), Calibrator(ScriptedModel()), state)
    service.start()
    for question in toy_stream(TEN):
        service.ask(question, 60)
    service.stop()
    copy_rows(state.db, count)
    return service


def copy_rows(db: sqlite3.Connection, count: int) -> None:
    """Give every record of the first ten to further positions."""
    tables = {}
    for table in ("records", "decisions", "served", "answers"):
        columns = [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]
        rows = db.execute(f"SELECT * FROM {table} ORDER BY position").fetchall()
        tables[table] = (columns, rows)
    words = db.execute("SELECT question, answer FROM words ORDER BY rowid").fetchall()

    def copies(columns: list[str], rows: list[tuple[object, ...]]) -> Iterator[list[object]]:
        for position in range(TEN, count):
            row = dict(zip(columns, rows[position % TEN], strict=True)) | {"position": position}
            if "body" in row:
                row["body"] = json.dumps(json.loads(str(row["body"])) | {"position": position})
            if "domain" in row:
                row["domain"] = f"domain {position % 40}"
            yield [row[name] for name in columns]

    with db:
        for table, (columns, rows) in tables.items():
            marks = ", ".join("?" * len(columns))
            db.executemany(f"INSERT INTO {table} VALUES ({marks})", copies(columns, rows))
        texts = ((k, f"{words[k % TEN][0]} number {k}", words[k % TEN][1]) for k in range(TEN, count))
        db.executemany("INSERT INTO words (rowid, question, answer) VALUES (?, ?, ?)", texts)
        labels = ((k, k * 50, k % 3 > 0, f"domain {k % 40}") for k in range(1, count // 50))
        query = "INSERT INTO labels VALUES (?, ?, ?, 0.7, ?, 0.7, 0.0, 'feedback', 1.0)"
        db.executemany(query, labels)


def readings(service: Service, count: int) -> dict[str, Callable[[], object]]:
    """What is measured, by name."""

    def found(wanted: Search) -> Callable[[], object]:
        def read() -> object:
            with at_one_moment(service.state.folder) as reader:
                return search(reader, wanted), domains(reader)

        return read

    def opened() -> object:
        with at_one_moment(service.state.folder) as reader:
            return explain(reader, count // 2, with_labels=False)

    def queue() -> object:
        with at_one_moment(service.state.folder) as reader:
            return review_queue(reader)

    return {
        "overview": lambda: render(view(service)),
        "newest page": found(Search()),
        "page from the middle": found(Search(before=str(count // 2))),
        "words in every record": found(Search(query="what plus")),
        "words in one record": found(Search(query=f"number {count - 1}")),
        "words in every record, nothing fits": found(Search(query="what plus", min_confidence=1.0)),
        "a domain": found(Search(domain="domain 7")),
        "wrong ones": found(Search(label="wrong")),
        "nothing fits": found(Search(min_confidence=1.0)),
        "one record": opened,
        "review": queue,
    }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, nargs="+", default=[10, 1000, 100_000])
    parser.add_argument("--repeat", type=int, default=15)
    arguments = parser.parse_args()
    table: dict[str, list[float]] = {}
    for count in arguments.records:
        with tempfile.TemporaryDirectory() as folder:
            service = make(Path(folder) / "state", count)
            for name, read in readings(service, count).items():
                times = []
                for _ in range(arguments.repeat):
                    began = time.perf_counter()
                    read()
                    times.append(1000 * (time.perf_counter() - began))
                table.setdefault(name, []).append(statistics.median(times))
            service.state.close()
    print("| reading | " + " | ".join(f"{count:,} records" for count in arguments.records) + " |")
    print("|---" * (1 + len(arguments.records)) + "|")
    for name, medians in table.items():
        print(f"| {name} | " + " | ".join(f"{median:.1f} ms" for median in medians) + " |")


if __name__ == "__main__":
    main()
