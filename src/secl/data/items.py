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


def capitals() -> tuple[tuple[Item, ...], ...]:
    """One kind: the capital of a country among cities of its continent, a better-known city among them."""
    table = read_table("capitals")
    items = []
    for row in table:
        neighbours = [other for other in table if other["continent"] == row["continent"]]
        pool = _others(neighbours, row, "capital")
        certain = (row["other_city"],) if row["other_city"] else ()
        items.append(Item(f"What is the capital of {_with_article(row['country'])}?", row["capital"], certain, pool))
    return (tuple(items),)


def science() -> tuple[tuple[Item, ...], ...]:
    """Eleven kinds over elements, SI prefixes, SI units and conversions."""
    return (*_elements(), *_prefixes(), *_units(), _conversions())


def misconceptions() -> tuple[tuple[Item, ...], ...]:
    """One kind: three to five options, always including the popular but wrong belief."""
    text = files("secl.data").joinpath("facts", "misconceptions.jsonl").read_text(encoding="utf-8")
    items = []
    for line in text.splitlines():
        row = json.loads(line)
        wrong = (row["popular"], *row["others"])
        items.append(Item(row["question"], row["answer"], wrong, (), size=1 + len(wrong)))
    return (tuple(items),)


@functools.cache
def kinds(domain: str) -> tuple[tuple[Item, ...], ...]:
    """The items of "capitals", "science" or "misconceptions", grouped by kind of question."""
    return _DOMAINS[domain]()


def _elements() -> tuple[tuple[Item, ...], ...]:
    table = read_table("elements")

    def same_initial(row: Row) -> list[Row]:
        """Elements with the same initial; the nearest ones by number if fewer than three others share it."""
        initials = [other for other in table if other["name"][0] == row["name"][0]]
        return initials if len(initials) > 3 else near(row)

    def near(row: Row) -> list[Row]:
        return [other for other in table if abs(int(other["number"]) - int(row["number"])) <= 8]

    return (
        _kind(table, "What is the chemical symbol of {name}?", "symbol", same_initial),
        _kind(table, "Which chemical element has the symbol {symbol}?", "name", same_initial),
        _kind(table, "What is the atomic number of {name}?", "number", near),
        _kind(table, "Which chemical element has the atomic number {number}?", "name", near),
    )


def _prefixes() -> tuple[tuple[Item, ...], ...]:
    table = [{**row, "factor": f"10^{row['power']}"} for row in read_table("prefixes")]
    return (
        _kind(table, "Which factor does the SI prefix {prefix} stand for?", "factor"),
        _kind(table, "Which SI prefix stands for the factor {factor}?", "prefix"),
        _kind(table, "What is the symbol of the SI prefix {prefix}?", "symbol"),
    )


def _units() -> tuple[tuple[Item, ...], ...]:
    table = read_table("units")
    return (
        _kind(table, "What does the SI unit {unit} measure?", "quantity"),
        _kind(table, "What is the SI unit of {quantity}?", "unit"),
        _kind(table, "What is the symbol of the SI unit {unit}?", "symbol"),
    )


def _conversions() -> tuple[Item, ...]:
    rows = read_table("conversions")
    return tuple(
        Item(row["question"], row["answer"], (row["rival1"], row["rival2"], row["rival3"]), ()) for row in rows
    )


def _kind(
    table: list[Row], text: str, column: str, distractor_rows: Callable[[Row], list[Row]] | None = None
) -> tuple[Item, ...]:
    """One question per row: `text` filled from the row, its cell in `column` right, those of other rows wrong.

    Args:
        distractor_rows: row -> the rows to draw wrong answers from; every row without it.
    """
    return tuple(
        Item(
            text.format(**row),
            row[column],
            (),
            _others(distractor_rows(row) if distractor_rows else table, row, column),
        )
        for row in table
    )


def _others(rows: list[Row], row: Row, column: str) -> tuple[str, ...]:
    return tuple(other[column] for other in rows if other is not row)


def _with_article(country: str) -> str:
    """The country with the article that English uses."""
    plural = country in {"Bahamas", "Gambia", "Maldives", "Philippines", "Seychelles", "Comoros", "Solomon Islands"}
    phrase = any(word in country for word in ("Republic", "United", "Federated", "Marshall"))
    return f"the {country}" if plural or phrase else country


_DOMAINS: dict[str, Callable[[], tuple[tuple[Item, ...], ...]]] = {
    "capitals": capitals,
    "science": science,
    "misconceptions": misconceptions,
}
