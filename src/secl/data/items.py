"""The built-in facts as multiple-choice items: capitals, chemical elements, SI units, misconceptions.

Every item comes from a table under `facts/`. An item has its right answer and a pool of wrong ones; a seed decides
which wrong ones are shown and in which order (`Item.ask`).
"""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

from secl.question import LETTERS, Question

Row = dict[str, str]
"""One line of a table, by column name."""


@dataclass(frozen=True, slots=True)
class Item:
    """A fact to ask about.

    Attributes:
        text: the question.
        answer: the right option.
        certain: wrong options that are always shown, for example the popular belief.
        pool: wrong options to draw the rest from; none equals the answer.
        size: number of options shown.
    """

    text: str
    answer: str
    certain: tuple[str, ...]
    pool: tuple[str, ...]
    size: int = 4

    def ask(self, domain: str, name: str, seed: int) -> Question:
        """The question, its options drawn and shuffled by the seed and its own text, independently of other items."""
        # Seeded by the text, so that the options do not depend on where the item stands in the order of questions.
        generator = random.Random(f"{domain}-{seed}-{self.text}")
        pool = [option for option in self.pool if option not in self.certain]
        options = [self.answer, *self.certain, *generator.sample(pool, self.size - 1 - len(self.certain))]
        generator.shuffle(options)
        reference = LETTERS[options.index(self.answer)]
        return Question(self.text, tuple(options), reference, domain=domain, id=name, form="choice")


def read_table(name: str) -> list[Row]:
    """The rows of `facts/<name>.tsv` by column name."""
    text = files("secl.data").joinpath("facts", f"{name}.tsv").read_text(encoding="utf-8")
    header, *lines = (line.split("\t") for line in text.splitlines())
    return [dict(zip(header, line, strict=True)) for line in lines]


@functools.cache
def kinds(domain: str) -> tuple[tuple[Item, ...], ...]:
    """The items of "capitals", "science" or "misconceptions", grouped by kind of question."""
    return {"capitals": _capitals, "science": _science, "misconceptions": _misconceptions}[domain]()


def _capitals() -> tuple[tuple[Item, ...], ...]:
    """One kind: the capital of a country among cities of its continent, a better-known city among them."""
    table = read_table("capitals")
    items = []
    for row in table:
        neighbours = [other for other in table if other["continent"] == row["continent"]]
        certain = (row["other_city"],) if row["other_city"] else ()
        question = f"What is the capital of {_with_article(row['country'])}?"
        items.append(Item(question, row["capital"], certain, _others(neighbours, row, "capital")))
    return (tuple(items),)


def _misconceptions() -> tuple[tuple[Item, ...], ...]:
    """One kind: three to five options, always including the popular but wrong belief."""
    text = files("secl.data").joinpath("facts", "misconceptions.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    wrong = [(row["popular"], *row["others"]) for row in rows]
    return (tuple(Item(r["question"], r["answer"], w, (), size=1 + len(w)) for r, w in zip(rows, wrong, strict=True)),)


def _science() -> tuple[tuple[Item, ...], ...]:
    """Eleven kinds over elements, SI prefixes, SI units and conversions."""
    elements, units = read_table("elements"), read_table("units")
    prefixes = [{**row, "factor": f"10^{row['power']}"} for row in read_table("prefixes")]

    def near(row: Row) -> list[Row]:
        return [other for other in elements if abs(int(other["number"]) - int(row["number"])) <= 8]

    def same_initial(row: Row) -> list[Row]:
        """Elements with the same initial; the nearest ones by number if fewer than three others share it."""
        initials = [other for other in elements if other["name"][0] == row["name"][0]]
        return initials if len(initials) > 3 else near(row)

    return (
        _kind(elements, "What is the chemical symbol of {name}?", "symbol", same_initial),
        _kind(elements, "Which chemical element has the symbol {symbol}?", "name", same_initial),
        _kind(elements, "What is the atomic number of {name}?", "number", near),
        _kind(elements, "Which chemical element has the atomic number {number}?", "name", near),
        _kind(prefixes, "Which factor does the SI prefix {prefix} stand for?", "factor"),
        _kind(prefixes, "Which SI prefix stands for the factor {factor}?", "prefix"),
        _kind(prefixes, "What is the symbol of the SI prefix {prefix}?", "symbol"),
        _kind(units, "What does the SI unit {unit} measure?", "quantity"),
        _kind(units, "What is the SI unit of {quantity}?", "unit"),
        _kind(units, "What is the symbol of the SI unit {unit}?", "symbol"),
        tuple(
            Item(row["question"], row["answer"], (row["rival1"], row["rival2"], row["rival3"]), ())
            for row in read_table("conversions")
        ),
    )


def _kind(
    table: list[Row], text: str, column: str, wrong_rows: Callable[[Row], list[Row]] | None = None
) -> tuple[Item, ...]:
    """One question per row: `text` filled from the row, its cell in `column` right, those of `wrong_rows` wrong."""
    pools = ((row, wrong_rows(row) if wrong_rows else table) for row in table)
    return tuple(Item(text.format(**row), row[column], (), _others(pool, row, column)) for row, pool in pools)


def _others(rows: list[Row], row: Row, column: str) -> tuple[str, ...]:
    return tuple(other[column] for other in rows if other is not row)


def _with_article(country: str) -> str:
    """The country with the article that English uses."""
    plural = country in {"Bahamas", "Gambia", "Maldives", "Philippines", "Seychelles", "Comoros", "Solomon Islands"}
    phrase = any(word in country for word in ("Republic", "United", "Federated", "Marshall"))
    return f"the {country}" if plural or phrase else country
