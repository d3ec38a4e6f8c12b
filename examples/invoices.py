"""Read invoices from a folder into a spreadsheet, and list the values that a person should check.

    python examples/invoices.py FOLDER [MODEL [OUT]]

Reads every .txt file of a folder. Writes `invoices.csv` with a row for each invoice, and `review.csv` with every value
whose confidence is below 0.9. The invoices with most expected errors come first, and each invoice begins with its least
certain value.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

import secl

ACCEPT = 0.9
"""Values with this confidence or more need no check."""


class Invoice(BaseModel):
    """The columns of the spreadsheet. The model reads their descriptions."""

    number: str = Field(description="Number of the invoice, not of the order")
    vendor: str = Field(description="Company that sends the invoice")
    total: float = Field(description="Amount to be paid, with tax")
    currency: Literal["EUR", "USD", "GBP"]
    due: str | None = Field(None, description="Day by which to pay, as YYYY-MM-DD")


def main(folder: str, model: str = "smollm2", out: str = ".") -> None:
    """Read the invoices of a folder, write both tables, and print the number of values to check."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(Path(folder).glob("*.txt"))}
    with secl.load(model) as reader:
        invoices = dict(zip(texts, reader.extract_all(list(texts.values()), Invoice, progress=True), strict=True))

    columns = ["file", *Invoice.model_fields]
    rows = [[name, *invoice.value.model_dump().values(), invoice.confidence] for name, invoice in invoices.items()]
    write(Path(out, "invoices.csv"), [*columns, "confidence"], rows)

    checks = []
    for name, invoice in invoices.items():
        errors = sum(1 - value.confidence for value in invoice.fields.values())
        for field, value in invoice.fields.items():
            others = " | ".join(text for text, _ in value.candidates if text != value.text)
            if value.confidence < ACCEPT:
                checks.append((-errors, value.confidence, name, field, value.text, others))
    review = [[name, field, value, others, confidence] for _, confidence, name, field, value, others in sorted(checks)]
    write(Path(out, "review.csv"), ["file", "field", "value", "others", "confidence"], review)
    print(f"{len(rows)} invoices, {len(rows) * len(Invoice.model_fields)} values, {len(review)} to check")


def write(path: Path, columns: list[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table as CSV."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([columns, *rows])


if __name__ == "__main__":
    main(*sys.argv[1:])
