"""Comparison of an open answer with further answers that the model draws, and the model's choice among all.

Generating and recognising are different evidence. The first is how often the model says the same again,
the second the letter of the answer among its own distinct answers and "None of these", so that nothing has to assume
that one of them is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from secl.evidence import Sample
from secl.grading.same import group
from secl.grading.texts import normalise_text, parse_number, write_number
from secl.prompts.programs import result_of
from secl.question import Form, Question

FIRST = 3
"""Answers drawn at first. More follow if one of these differs from the answer."""

FURTHER = 2
"""Answers that are drawn beyond these where one of them says something else."""

LISTED = 3
"""Most other answers, the most frequent ones, that the model chooses among."""

DECIMALS = 6
"""Decimal places of what a program computes; of a number below 1 those after its leading zeros."""

PROGRAM_TOKENS = 160
"""Most tokens of a program."""

FREE_TOKENS = 64
"""Most tokens of a further answer where no form is asked for; longer ones are no answer like a brief one."""


@dataclass(frozen=True)
class Drawn:
    """Further answers: the distinct `candidates`, the answer first, all `samples`, and where the others come from."""

    candidates: tuple[str, ...]
    samples: tuple[Sample, ...]
    source: str


Way = int | None
"""The source of a further answer: the number of a sample, or None for a program."""


def rounds(question: Question, *, thinks: bool = False) -> tuple[Sequence[Way], Sequence[Way]]:
    """Further answers to draw: the first ones, and more if one of these differs from the answer.

    A number that was found by reasoning is checked by a program, which costs less than to reason again. Other samples
    of a model that `thinks` take a thought each, so one is drawn, and another where they disagree.
    """
    if thinks and question.form != "number":
        return (0,), (1,)
    if question.form == "number":
        return (None,), range(FURTHER)
    return range(FIRST), range(FIRST, FIRST + FURTHER)


def computed(program: str) -> Sample:
    """Return the result of a program."""
    number = result_of(program)
    if number:
        number = Fraction(round(number, DECIMALS - 1 + len(str(int(1 / abs(number))))))
    return Sample(text=None if number is None else write_number(number), candidate=None, log_p=None, program=True)


def settled(question: Question, answer: str, drawn: Sequence[Sample], rivals: Sequence[str] = ()) -> bool:
    """Return whether all that was drawn says what the answer says, so that no more has to be drawn."""
    _, numbers = group(question, [each.text for each in drawn], (answer, *rivals))
    return all(number == 0 for number in numbers)


def compare(question: Question, answer: str, drawn: Sequence[Sample], rivals: Sequence[str] = ()) -> Drawn:
    """Group further answers by what they say; `rivals` are other answers that were given.

    >>> drawn = [Sample(text=text, candidate=None, log_p=None) for text in ("It is Lima.", "Cusco")]
    >>> compare(Question("Capital of Peru?"), "Lima", drawn).candidates
    ('Lima', 'Cusco')
    """
    known = (answer, *rivals)
    different, numbers = group(question, [each.text for each in drawn], known)
    others = sorted(range(len(known), len(different)), key=numbers.count, reverse=True)[:LISTED]
    numbers_kept = [*range(len(known)), *others]
    counted = {"given": len(rivals), "sampled": len(others)}
    source = "+".join(f"{name}:{count}" for name, count in counted.items() if count)
    return Drawn(
        candidates=tuple(different[number] for number in numbers_kept),
        samples=tuple(
            replace(each, candidate=numbers_kept.index(number) if number in numbers_kept else None)
            for each, number in zip(drawn, numbers, strict=True)
        ),
        source=source or "none",
    )


SAMPLED_LISTS = 2
"""Lists that are sampled where the greedy list names too few answers."""


@dataclass(frozen=True)
class Distractors:
    """Answers that differ from the one they are compared with, and from each other.

    The source counts them, as in "listed:2+sampled:1+numeric:1"; "none" without any.
    """

    answers: list[str]
    source: str


NOTHING = Distractors([], "none")
"""Distractors of an answer that cannot be compared with others."""


def choose_distractors(
    answer: str, form: Form, count: int, listed: Sequence[str], sample_list: Callable[[int], Sequence[str]]
) -> Distractors:
    """Choose `count` distractors: from a greedy list (`listed`), near misses of numbers, then sampled lists.

    >>> choose_distractors("12", "number", 4, ["12.0", "13", "40"], lambda i: []).source
    'listed:2+numeric:2'
    """
    answers = distinct(answer, listed, form, count)
    counts = {"listed": len(answers)}
    if form == "number":
        answers = distinct(answer, [*answers, *near_numbers(answer)], form, count)
        counts["numeric"] = len(answers) - counts["listed"]
    for attempt in range(SAMPLED_LISTS):
        if len(answers) == count:
            break
        answers = distinct(answer, [*answers, *sample_list(attempt)], form, count)
    counts["sampled"] = len(answers) - sum(counts.values())
    source = "+".join(f"{name}:{number}" for name, number in counts.items() if number)
    return Distractors(answers, source or "none")


def distinct(answer: str, candidates: Iterable[str], form: Form, count: int) -> list[str]:
    """Return the first `count` candidates that differ from `answer` and from each other once normalised.

    >>> distinct("The Nile", ["nile", "Amazon", "the amazon", "Volga"], "short", 4)
    ['Amazon', 'Volga']
    """
    key: Callable[[str], object] = parse_number if form == "number" else normalise_text
    by_key: dict[object, str] = {}
    for candidate in candidates:
        by_key.setdefault(key(candidate), candidate)
    by_key.pop(key(answer), None)
    return [*by_key.values()][:count]


def near_numbers(answer: str) -> list[str]:
    """Wrong numbers such as slips produce: off by one, doubled, halved, off by ten, off by a tenth.

    >>> near_numbers("12")[:4]
    ['13', '11', '24', '6']
    """
    value = parse_number(answer)
    if value is None:
        return []
    slips = (value + 1, value - 1, value * 2, value / 2, value + 10, value - 10, value * Fraction(11, 10), value + 2)
    return [write_number(slip) for slip in slips]
