"""Multiple-choice questions that can be asked without their options, as a file of open questions.

python -m benchmarks.open_questions capitals,science OUT.jsonl
python -m benchmarks.open_questions arc,mmlu OUT.jsonl --data DIR --count 300
secl run --method posterior --set evidence.extra_evidence=samples,p_true --questions OUT.jsonl --out RUN
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.study import in_a_sentence
from secl.data.benchmarks import load
from secl.question import Question

LONGEST, WORDS = 220, 5
"""Characters of a question, and words of an option."""

_NEEDS_OPTIONS = re.compile(
    r"following|these|below|above|figure|diagram|graph|\btable\b|shown|statement|likely|\bbest\b|except|___"
    r"|which (?:of|one|is|are|will|would|action|activity|change)|true about|example of|option|explains",
    re.IGNORECASE,
)
_ASKS = re.compile(r"\b(?:what|who|when|where|which|how (?:many|much|long|far|old))\b", re.IGNORECASE)
_NO_ANSWER = re.compile(r"of the above|none of|all of|both|neither|\b(?:I|A)\b and", re.IGNORECASE)


def can_be_open(question: Question) -> bool:
    """Whether a question asks for a name or an amount that its options only offer.

    >>> can_be_open(Question("What is the capital of Peru?", ("Lima", "Cusco"), reference="A"))
    True
    >>> can_be_open(Question("Which of these is a city?", ("Lima", "Peru"), reference="A"))
    False
    """
    text = question.text.strip()
    return (
        text.endswith("?")
        and len(text) <= LONGEST
        and _ASKS.search(text) is not None
        and _NEEDS_OPTIONS.search(text) is None
        and all(len(each.split()) <= WORDS and _NO_ANSWER.search(each) is None for each in question.options)
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.open_questions", description=__doc__)
    parser.add_argument("benchmarks", help="names, with commas between them")
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, help="folder with the official files")
    parser.add_argument("--count", type=int, help="questions, drawn from all that can be asked so")
    chosen = parser.parse_args(arguments)
    found = [
        each for name in chosen.benchmarks.split(",") for each in load(name, data=chosen.data) if can_be_open(each)
    ]
    random.Random(7).shuffle(found)
    rows = [
        {"id": each.id, "question": each.text, "reference": each.option(str(each.reference)), "domain": each.domain}
        for each in found[: chosen.count]
    ]
    chosen.out.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(f"{len(rows)} of {len(found)} questions that can be asked without their options: {chosen.out}")


if __name__ == "__main__":
    with in_a_sentence():
        main()
