"""Make a question from a row of a question file.

Messages omit the row's location, as in "has no 'question'". The caller adds the location.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import get_args

from secl.conversation import Message, Role
from secl.data.tables import parse_json
from secl.errors import DataError, ParameterError, QuestionError
from secl.grading.rules import check_grader, grader_of
from secl.question import LETTERS, CellValue, Form, Grader, Question, References, letter_of

RowValues = Mapping[str, object]
"""Values of a row by the meaning of their column (`secl.data.columns`), such as {"question": "Capital of Peru?"}."""

_TRUTH = dict.fromkeys(("true", "1", "1.0", "yes", "y", "t", "right", "correct", "wahr", "vrai", "verdadero"), True)
_TRUTH |= dict.fromkeys(("false", "0", "0.0", "no", "n", "f", "wrong", "incorrect", "falsch", "faux", "falso"), False)
"""Truth values, also as pandas (1.0) and workbooks in other languages (WAHR) write them."""

_TWO_WAYS = "has its own options, but options for all rows are also given; keep one way to give options."


def check_options(options: Sequence[str]) -> None:
    """Check the common options of all rows.

    Raises:
        ParameterError: the options are a text instead of a list, or only one option, or more than 26. Or an option is
            empty or repeated.
    """
    if isinstance(options, str):
        raise ParameterError(f"the options are the text {options[:40]!r}; give a list of texts.")
    if len(options) == 1:
        raise ParameterError(f"there is one option, {options[0]!r}; give at least two, or none for open questions.")
    if len(options) > len(LETTERS):
        raise ParameterError(f"there are {len(options)} options but only {len(LETTERS)} letters; merge some.")
    if not all(isinstance(option, str) and option.strip() for option in options):
        raise ParameterError("an option is empty or not a text; remove it or fill it in.")
    for option, count in Counter(options).items():
        if count > 1:
            raise ParameterError(f"the option {option!r} is given twice; give each option once.")


def with_options(question: Question, options: Sequence[str]) -> Question:
    """Return a question with the common options of all rows; unchanged if `options` is empty."""
    if not options:
        return question
    if question.options:
        raise DataError(_TWO_WAYS)
    try:
        asked = replace(question, options=tuple(options), reference=None, grader="")
    except QuestionError as error:
        raise DataError(f"cannot be asked: {error}") from error
    reference = question.reference
    return replace(asked, reference=_letter(reference, asked, ()) if isinstance(reference, str) else None)


def build_question(
    values: RowValues,
    row: tuple[tuple[str, CellValue], ...],
    name: str,
    number: int,
    grader: Grader,
    given: tuple[str, ...],
) -> Question:
    """Return the question of a row.

    Args:
        row: all cells, for `Question.row`.
        name: default domain. `name` and `number` (of the row) form the default id, such as "questions-0007".
        grader: grader of an open question whose grader would otherwise be "auto".
        given: common options of all rows; may be empty.
    """
    question = text(values, "question")
    if question is None:
        raise DataError("has no 'question'; give its text.")
    options, labels = _options(values)
    if options and given:
        raise DataError(_TWO_WAYS)
    options = options or given
    try:
        asked = Question(question, options=options)
        reference, form = _reference(values, asked, labels)
        built = replace(
            asked,
            reference=reference,
            domain=text(values, "domain") or name,
            id=text(values, "id") or f"{name}-{number:04d}",
            form=text(values, "form") or (asked.form if options else form),  # type: ignore[arg-type]
            context=text(values, "context") or "",
            system=text(values, "system") or "",
            row=row,
            grader=text(values, "grader") or "",
            history=_history(values),
        )
        bare = built.reference is not None and not options and not built.grader
        if bare and grader != "auto" and grader_of(built) == "auto":
            built = replace(built, grader=grader)
        check_grader(built)
    except QuestionError as error:
        raise DataError(f"cannot be asked: {error}") from error
    return built


def with_reference(question: Question, value: object) -> Question:
    """Return a question with a right answer from a cell. Raises DataError: the answer does not fit the question."""
    reference, _ = _reference({"reference": value}, question, ())
    try:
        graded = replace(question, reference=reference)
        check_grader(graded)
    except QuestionError as error:
        raise DataError(f"has a right answer that cannot be used: {error}") from error
    return graded


def text(values: RowValues, key: str) -> str | None:
    """Return a value as a text without spaces at both ends. Numbers become texts; null and "" become None."""
    value = values.get(key)
    if value is None:
        return None
    if isinstance(value, bool) and key in ("answer", "reference"):
        return str(value)
    if isinstance(value, list) and key == "answer":
        raise DataError("has an 'answer' that is a list; right answers go into 'references'.")
    return _as_text(value, f"has a value in {key!r}") or None


def texts(values: RowValues, key: str) -> tuple[str, ...]:
    """Return the members of a list, or of the text "a | b"; empty if the value is absent."""
    value = _structure(values, key)
    return () if value in (None, "", []) else _texts(value, f"has a value in {key!r}")


def truth(values: RowValues, key: str) -> bool | None:
    """Return a value as true or false; None if absent."""
    value = values.get(key)
    if value is None or value == "":
        return None
    word = str(value).strip().casefold()
    if word not in _TRUTH:
        raise DataError(
            f"has {str(value)[:40]!r} in {key!r}; write right or wrong, and put a right answer into "
            f"{'correct_answer' if key == 'label' else 'reference'!r}."
        )
    return _TRUTH[word]


def _as_text(value: object, what: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise DataError(f"{what} that is neither text nor number ({str(value)[:40]}); write it in quotes.")
    return str(value).strip()


def _member(value: object, what: str) -> str:
    """Return an option or another member of a list as a text; a workbook makes truth values of TRUE and FALSE."""
    return str(value) if isinstance(value, bool) else _as_text(value, what)


def _texts(value: object, what: str) -> tuple[str, ...]:
    """Return the members of a list, or of the text "a | b"."""
    if isinstance(value, str):
        value = value.split("|")
    if not isinstance(value, list):
        raise DataError(f'{what} that is not a list; write ["...", "..."].')
    texts = tuple(_member(item, f"{what} with a member") for item in value)
    if not all(texts):
        raise DataError(f"{what} with an empty member; remove it or fill it in.")
    return texts


def _structure(values: RowValues, key: str) -> object:
    """Return a value. If the value is a text that begins with "{" or "[", parse the text as JSON."""
    value = values.get(key)
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return parse_json(value)
    except DataError as problem:
        if value.lstrip().startswith("["):
            return value  # a text such as "[1] is right", not a list
        raise DataError(f"has a {key!r} that {problem}") from problem


def _history(values: RowValues) -> tuple[Message, ...]:
    """Return the earlier turns from messages such as {"role": "user", "content": "..."}."""
    value = _structure(values, "history")
    if value in (None, "", []):
        return ()
    turns = []
    for message in value if isinstance(value, list) else [value]:
        if not isinstance(message, dict) or message.get("role") not in get_args(Role):
            raise DataError(
                f"has a 'history' with {str(message)[:40]!r}; write "
                f'[{{"role": "user", "content": "..."}}, ...] with the roles {", ".join(get_args(Role))}.'
            )
        turns.append(
            Message.of({**message, "content": _as_text(message.get("content") or "", "has a value in 'content'")})
        )
    return tuple(turns)


def _options(values: RowValues) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the options and their labels. For {"1": "Rome", "2": "Paris"} the labels are "1" and "2"."""
    lettered = _read_letters(values)
    if lettered:
        return lettered, ()
    value = _structure(values, "options")
    if value in (None, "", []):
        return (), ()
    labels: tuple[str, ...] = ()
    if isinstance(value, dict):
        value, labels = _labelled(value)
    return _texts(value, "has a value in 'options'"), labels


def _labelled(value: dict[str, object]) -> tuple[object, tuple[str, ...]]:
    """Return the options and labels in an object {label: option} or {"text": options, "label": labels}."""
    if set(value) == {"text", "label"} and isinstance(value["text"], list):
        return value["text"], _texts(value["label"], "has a value in 'options'/label")
    by_label = {label: option for label, option in value.items() if option is not None}
    labels = sorted(by_label) if all(len(label) == 1 and label in LETTERS for label in by_label) else list(by_label)
    return [by_label[label] for label in labels], tuple(labels)


def _read_letters(values: RowValues) -> tuple[str, ...]:
    """Return the options in the columns A, B, C, ... A row may leave the last columns empty."""
    filled = [letter for letter in LETTERS if values.get(letter) is not None]
    if filled != list(LETTERS[: len(filled)]):
        gap = next(letter for letter in LETTERS if letter not in filled)
        raise DataError(f"has no option {gap} but a later option; fill the options from A on, without a gap.")
    return tuple(_member(values[letter], f"has a value in {letter!r}") for letter in filled)


def _reference(values: RowValues, question: Question, labels: tuple[str, ...]) -> tuple[str | References | None, Form]:
    """Return the reference of a row, and the form that this reference gives to an open question."""
    keys = [key for key in ("reference", "references", "reference_index") if values.get(key) not in (None, "")]
    if len(keys) > 1:
        raise DataError(f"has both {keys[0]!r} and {keys[1]!r}; keep one.")
    if not keys:
        return None, "short"
    key, value = keys[0], values[keys[0]]
    if key == "reference_index":
        return _by_index(value, question.letters), "short"
    if key == "references":
        value = _structure(values, key)
    if key == "reference" and not isinstance(value, list | dict):
        plain = text(values, key)
        return (_letter(plain, question, labels) if plain and question.options else plain), "short"
    reference, form = _references(value, f"has a value in {key!r}")
    if not question.options:
        return reference, form
    if isinstance(reference, References):
        raise DataError("has 'options' and several references; give 'reference' with one letter instead.")
    return _letter(reference, question, labels), form


def _by_index(value: object, letters: tuple[str, ...]) -> str:
    try:
        index = int(str(value).removesuffix(".0"))
    except ValueError:
        index = -1
    if not 0 <= index < len(letters):
        raise DataError(
            f"has the reference_index {str(value)[:40]!r}; give a number from 0 (the first option) to "
            f"{len(letters) - 1} (the last option)."
        )
    return letters[index]


def _references(value: object, what: str) -> tuple[str | References, Form]:
    """Return the right answers in a list, or the right and wrong answers in {"correct": [...], "incorrect": [...]}.

    The second value is the form that these answers give to an open question.
    """
    if not isinstance(value, dict):
        correct = _texts(value, what)
        return (correct[0] if len(correct) == 1 else References(correct, ())), "short"
    if set(value) - {"correct", "incorrect"} or not value.get("correct"):
        raise DataError(f'{what} of unknown form; write ["...", "..."], or {{"correct": [...], "incorrect": [...]}}.')
    incorrect = _texts(value.get("incorrect") or [], f"{what}/incorrect")
    return References(_texts(value["correct"], f"{what}/correct"), incorrect), "sentence"


def _letter(reference: str, question: Question, labels: tuple[str, ...]) -> str:
    """Return the letter of the option that a reference names by its label, letter or text."""
    if reference in labels and reference not in question.options:
        return question.letters[labels.index(reference)]
    if reference.isdecimal() and reference not in question.options:
        raise DataError(
            f"has the reference {reference}, which may count from 0 or from 1; give a letter, or 'reference_index', "
            "which counts from 0."
        )
    try:
        return letter_of(question, reference)
    except QuestionError as problem:
        raise DataError(f"has a reference that names no option: {problem}") from problem
