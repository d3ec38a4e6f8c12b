"""Further answers to an open question, for comparison with the model's answer.

The further answers give two kinds of evidence. The first kind is how often the model repeats the answer. The second
kind is the probability of the answer's letter among the distinct answers and "None of these". This last option stands
for the case that all answers are wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from secl.evidence import NO_OTHERS, CandidateEvidence, Sample, Source
from secl.grading.numbers import parse_number, write_number
from secl.grading.rules import group
from secl.grading.texts import answer_key
from secl.prompts.parsing import read_list
from secl.prompts.programs import result_of
from secl.question import Form, Question

OWN = -1
"""Number of the draw at temperature 0: the model's own answer, as a further answer beside a given one."""

FIRST = 3
"""Number of further answers in the first round."""

SECOND_ROUND = 2
"""Number of further answers in the second round. This round follows only if an answer of the first round differs
from the model's answer."""

LISTED = 3
"""Maximum number of other answers among the options; the most frequent ones come first."""

DECIMALS = 6
"""Decimal places of a program's result, not counting the leading zeros of a number below 1."""

PROGRAM_TOKENS = 160
"""Maximum number of tokens of a program."""

FREE_TOKENS = 64
"""Token limit of a further answer to a free question; longer texts cannot be compared with a brief answer."""

MAX_LIST_TOKENS: dict[Form, int] = {
    "choice": 1,
    "number": 40,
    "short": 56,
    "sentence": 140,
    "text": 140,
}
"""Maximum number of tokens of a list of five answers."""


Way = int | None
"""Source of a further answer: the number of a draw (`secl.flow.requests.Write`), or None for a program."""


def rounds(question: Question, *, thinks: bool = False, rated: bool = False) -> tuple[Sequence[Way], Sequence[Way]]:
    """Return the sources of the further answers in the first and in the second round.

    For a number, the first round is a program, because a program costs less than a second line of reasoning. For
    other answers, a model that `thinks` needs a thought for each sample, so each round draws one sample. If the answer
    is given (`rated`), the first further answer is the model's own.
    """
    if thinks and question.form != "number":
        return (0,), (1,)
    if question.form == "number":
        return (None,), range(SECOND_ROUND)
    first = OWN if rated else 0
    return range(first, first + FIRST), range(first + FIRST, first + FIRST + SECOND_ROUND)


def computed(program: str) -> Sample:
    """Run a program, and return its result as a sample; the sample's text is None without a result."""
    number = result_of(program)
    if number:
        number = Fraction(round(number, DECIMALS - 1 + len(str(int(1 / abs(number))))))
    return Sample(text=None if number is None else write_number(number), candidate=None, log_p=None, program=True)


def settled(question: Question, answer: str, drawn: Sequence[Sample], rivals: Sequence[str] = ()) -> bool:
    """Return whether all drawn answers agree with the model's answer; if so, secl skips the second round."""
    _, numbers = group(question, [each.text for each in drawn], (answer, *rivals))
    return all(number == 0 for number in numbers)


def compare(question: Question, answer: str, drawn: Sequence[Sample], rivals: Sequence[str] = ()) -> CandidateEvidence:
    """Group further answers by meaning, and return evidence without letters.

    The candidates are the answer, the given `rivals`, and up to `LISTED` other answers, the most frequent first.

    >>> drawn = [Sample(text=text, candidate=None, log_p=None) for text in ("It is Lima.", "Cusco")]
    >>> compare(Question("Capital of Peru?"), "Lima", drawn).candidates
    ('Lima', 'Cusco')
    """
    known = (answer, *rivals)
    different, numbers = group(question, [each.text for each in drawn], known)
    others = sorted(range(len(known), len(different)), key=numbers.count, reverse=True)[:LISTED]
    numbers_kept = [*range(len(known)), *others]
    return CandidateEvidence(
        candidates=tuple(different[number] for number in numbers_kept),
        letters=(),
        likelihoods=(None,) * len(numbers_kept),
        samples=tuple(
            replace(each, candidate=numbers_kept.index(number) if number in numbers_kept else None)
            for each, number in zip(drawn, numbers, strict=True)
        ),
        source=Source("answers", given=len(rivals), sampled=len(others)),
    )


SAMPLED_LISTS = 2
"""Maximum number of sampled lists, if the greedy list has too few answers."""


@dataclass(frozen=True)
class Distractors:
    """Answers that differ from a question's answer and from each other."""

    answers: list[str]
    source: Source


NO_DISTRACTORS = Distractors([], NO_OTHERS)
"""No distractors, for an answer that cannot be compared with others."""


def choose_distractors(
    answer: str, form: Form, count: int, listed: Sequence[str], sampled: Sequence[Sequence[str]]
) -> Distractors:
    """Choose up to `count` distractors from a greedy list (`listed`), then near misses of a number, then sampled lists.

    >>> choose_distractors("12", "number", 4, ["12.0", "13", "40"], []).source
    Source(kind='answers', given=0, listed=2, numeric=2, sampled=0)
    """
    answers = distinct(answer, listed, form, count)
    listed_count, numeric = len(answers), 0
    if form == "number":
        answers = distinct(answer, [*answers, *near_numbers(answer)], form, count)
        numeric = len(answers) - listed_count
    for more in sampled:
        answers = distinct(answer, [*answers, *more], form, count)
    drawn = len(answers) - listed_count - numeric
    return Distractors(answers, Source("answers", listed=listed_count, numeric=numeric, sampled=drawn))


def distinct(answer: str, candidates: Iterable[str], form: Form, count: int) -> list[str]:
    """Return the first `count` candidates that differ from `answer` and from each other after normalisation.

    >>> distinct("The Nile", ["nile", "Amazon", "the amazon", "Volga"], "short", 4)
    ['Amazon', 'Volga']
    """
    by_key: dict[object, str] = {}
    for candidate in candidates:
        by_key.setdefault(answer_key(candidate, form), candidate)
    by_key.pop(answer_key(answer, form), None)
    return [*by_key.values()][:count]


def near_numbers(answer: str) -> list[str]:
    """Return results of common slips: 1 more or less, the double, the half, 10 more or less, 10 % more, 2 more.

    Return [] if the answer is not a number.

    >>> near_numbers("12")[:4]
    ['13', '11', '24', '6']
    """
    value = parse_number(answer)
    if value is None:
        return []
    slips = (value + 1, value - 1, value * 2, value / 2, value + 10, value - 10, value * Fraction(11, 10), value + 2)
    return [write_number(slip) for slip in slips]


def list_tokens(form: Form, listed: int) -> int:
    """Return the maximum number of tokens of a list of `listed` answers."""
    return -(-MAX_LIST_TOKENS[form] * listed // 5)


def items_of(text: str, form: Form, listed: int) -> list[str]:
    """Return the items of a written list of `listed` answers; leave out a last line that may be unfinished."""
    lines = text.splitlines()[:listed]
    complete = lines[:-1] if 1 < len(lines) < listed and not text.endswith("\n") else lines
    return read_list("\n".join(complete), form)


def question_seed(seed: int, question: Question, purpose: object) -> int:
    """Return a seed for one purpose of one question, which depends on all that a model reads of the question.

    A resumed run then draws the same samples as an uninterrupted run, and the same row of another table too.
    """
    digest = hashlib.sha256(repr((seed, str(purpose), question.asked)).encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:7], "big")
