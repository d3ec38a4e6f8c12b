"""Labels of a run: the order of a review, records with labels, and sheets in which people label answers outside `secl`.

    record_id         label   correct_answer   sample           columns that secl reads; it ignores all others
    rec_28_5c1e0f9a   wrong                    50 of 400 (61)   one of 50 answers drawn from 400; the last drawn is 61
    rec_31_00d2b7e1           Lima             50 of 400 (61)   right if the question's grader accepts the answer

The row of a document has all fields of an object. Its label "right" is about every field. `wrong_fields` names the
wrong fields; the other fields are right. In a table with a row for each fact of a text, the column `fact` has the
number of the fact.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

from secl.data.cells import harmless
from secl.data.columns import plain
from secl.data.question_values import truth, with_reference
from secl.data.tables import columns_of, open_table
from secl.display import counted
from secl.errors import DataError, ParameterError
from secl.evaluation.acceptance import Advice, Answers, advise, answers_of, judgement_of
from secl.fields.values import shown
from secl.grading.rules import grade
from secl.labels.label import Label, LabelKey, LabelSource, label_of, moment_of, random_order, standing, valid
from secl.labels.state import LabelState, held_out
from secl.question import Question
from secl.records import Record, answers_in, noun_of
from secl.runs.extracting import ABSENT, by_document
from secl.runs.manifest import Manifest
from secl.runs.store import Store

SEED = 42
"""Seed of the order of a review."""

RECENT = 1000
"""Number of latest answers from which a review of a server draws, so that labels describe recent answers."""


def calibration_of(store: Store, log: Sequence[Label] | None = None) -> LabelState:
    """Return the present calibration of a run or server, by all its labels. `log` replaces the stored labels."""
    return LabelState.start(Manifest.of(store).calibration).add(store.label_log() if log is None else log)


def current_records(
    store: Store, log: Sequence[Label] | None = None, *, threshold: float | None = None
) -> Iterator[Record]:
    """Yield all records in order as people see them: with labels, and with confidences by the present calibration.

    Tables, pages and exports read records through this function, so all confidences and thresholds of a run or server
    have the same scale. A server's own pages and replies keep the confidence of their time.

    Args:
        log: replaces the stored labels.
        threshold: lowest accepted label-free confidence; replaces the threshold of the records.
    """
    log, records = store.label_log() if log is None else log, store.records()
    if threshold is not None:
        records = (replace(record, threshold=threshold) for record in records)
    if log or threshold is not None:  # without labels, the stored confidences are those of the present calibration
        records = map(calibration_of(store, log).apply, records)
    return _graded(records, log)


def advice_of(
    store: Store, risk: float, certainty: float = 0.9, *, since: str | None = None, anytime: bool = False
) -> tuple[Answers, Advice]:
    """Return the answers of a run or server, and the advice for a risk (`secl.evaluation.acceptance.advise`).

    `since`: age or date of the oldest label that counts (`secl.labels.label.moment_of`).
    """
    log = store.label_log()
    moment = None if since is None else moment_of(since, log)
    answers = answers_of(store.records(), log, calibration_of(store), since=moment)
    return answers, advise(answers, risk, certainty, anytime=anytime)


def held_out_records(store: Store) -> Iterator[Record]:
    """Yield all records in order, with labels, for measures of calibration: no label moves its own answer's confidence.

    A server computed each confidence before the answer had a label, so its records keep this confidence.
    """
    log, records = store.label_log(), store.records()
    if log and not store.is_server:
        records = held_out(records, log, Manifest.of(store).calibration)
    return _graded(records, log)


def _graded(records: Iterable[Record], log: Sequence[Label]) -> Iterator[Record]:
    labels: dict[int, list[Label]] = {}
    for label in standing(log):
        labels.setdefault(label.position, []).append(label)
    for record in records:
        own = labels.get(record.position, [])
        verdicts = {label.fact: bool(label.correct) for label in own}
        yield labelled(record, verdicts, {label.fact: label.correct_answer for label in own})


def labelled(
    record: Record, verdicts: Mapping[int, bool], correct_answers: Mapping[int, str | None] | None = None
) -> Record:
    """Return a record with its label and the labels of its facts, by the number of the fact; 0 for the whole answer.

    `correct_answers`: the right answers that people gave with these labels.
    """
    facts = None if record.facts is None else tuple(labelled(fact, verdicts, correct_answers) for fact in record.facts)
    record = replace(record, facts=facts)
    if record.fact not in verdicts:
        return record
    return record.with_label(verdicts[record.fact], (correct_answers or {}).get(record.fact))


@dataclass(frozen=True, slots=True)
class Judged:
    """An answer that a row of a sheet judges.

    Attributes:
        correct: None for a skipped answer.
        correct_answer: the right answer from the row; None if the row has none.
    """

    record: Record
    correct: bool | None
    correct_answer: str | None = None


@dataclass(frozen=True, slots=True)
class Queue:
    """Positions of the answers to label, in random order. `rated` of the `answers` in the review have their labels."""

    positions: tuple[int, ...]
    rated: int
    answers: int


def review_queue(store: Store, after: int | None = None) -> Queue:
    """Return the answers to label in a random order, from the record after record `after` in this order.

    A review of a server draws from the `RECENT` latest answers. Skipped answers come last. The queue includes answers
    that volunteers labelled. Without these answers, the accuracy of the sample would be too high, because volunteers
    report wrong answers more often. The order depends only on positions and skips, so all reviews, and a later review,
    have the same order. A text waits until each of its facts has a label; a text without facts never waits.
    """
    within = _reviewed(store, len(store))
    facts, skipped = store.fact_counts(within.start), dict[int, list[bool]]()
    for (position, _), skip in store.sample(within.start).items():
        skipped.setdefault(position, []).append(skip)
    order = [position for position in random_order(within, SEED) if facts.get(position, 1)]
    ranks = {position: (any(skipped.get(position, ())), rank) for rank, position in enumerate(order)}
    done = {each for each, skips in skipped.items() if skips.count(False) == facts.get(each, 1)}
    waiting = sorted((each for each in order if each not in done), key=ranks.__getitem__)
    if after in ranks:
        waiting = [each for each in waiting if ranks[each] > ranks[after] or ranks[after][0] > ranks[each][0]]
    labels = store.label_counts(within.start)
    rated = sum(labels.get(position, 0) >= facts.get(position, 1) for position in order)
    return Queue(tuple(waiting), rated, len(order))


def waiting_keys(store: Store, positions: Sequence[int]) -> list[LabelKey]:
    """Return the answers at some positions, and the facts of texts, that have no label of a review, in order."""
    facts, sample = store.fact_counts(), store.sample()
    keys = ((place, fact) for place in positions for fact in (range(1, facts[place] + 1) if place in facts else (0,)))
    return [key for key in keys if sample.get(key, True)]  # True: a review skipped the answer


def drawn_until(store: Store, last: int, count: int) -> frozenset[int]:
    """Return the positions of the sample that ends with answer `last`, drawn when the store had `count` answers."""
    within = _reviewed(store, count)
    order = random_order({*within, last}, SEED)
    return frozenset(order[: order.index(last) + 1]) & {*within}


def _reviewed(store: Store, count: int) -> range:
    """Return the positions from which a review draws if the store has `count` answers."""
    return range(max(store.first, count - RECENT) if store.is_server else store.first, count)


VERDICTS, OBJECT_VERDICTS = ("label", "correct_answer"), ("label", "wrong_fields")
"""Columns that people fill in the row of an answer, and in the row of a whole object."""

READ = ("record_id", *VERDICTS, "wrong_fields", "sample", "fact")
"""Columns that `labels_from_sheet` reads. In an export, the user's own columns have other names."""


def row_id(*records: Record, prefix: str = "rec") -> str:
    """Return the id of a row: the position of its first answer, and a hash of its questions and answers."""
    told = "\0".join(part for each in records for part in (each.question.id, each.question.text, each.text or ""))
    digest = blake2b(told.encode("utf-8", "backslashreplace"), digest_size=4).hexdigest()
    return f"{prefix}_{records[0].position}_{digest}"


def answer_of(store: Store, name: str) -> Record:
    """Return the answer with an id of `row_id`. Raises ParameterError: the store has no such answer."""
    found = re.fullmatch(r"rec_(\d{1,15})_[0-9a-f]{8}", name)
    record = store.record(int(found[1])) if found and int(found[1]) in range(store.first, len(store)) else None
    if record is None or row_id(record) != name:
        raise ParameterError(f"there is no record {name[:40]!r}.")
    return record


def ids_of(store: Store) -> Callable[[Record], str]:
    """Return a function from a record to its id in sheets: the server's id of the record, or `row_id`."""
    if not store.is_server:
        return row_id
    known: dict[int, str] = dict(store.read("SELECT position, id FROM served"))
    return lambda record: known[record.position]


def draw(store: Store, count: int) -> tuple[list[Record], str]:
    """Return the next answers of a review, in its random order, and the cell of the column "sample" in their rows."""
    positions = review_queue(store).positions[:count] if count > 0 else ()
    if not positions:
        raise ParameterError(f"--sample is {count}; give at least 1." if count < 1 else "no answer is left to label.")
    last = random_order(positions, SEED)[-1]
    return [*map(store.record, positions)], f"{len(positions)} of {len(store)} ({last})"


def labels_from_sheet(store: Store, path: Path, *, random: bool) -> list[Label]:
    """Return the new labels of a filled sheet.

    Answers of a `sample` have the chance 1. Each answer of the sample without a verdict counts as skipped, even if
    its row is missing. Rows of other sheets have an unknown chance, unless `random` says that the user drew the judged
    rows at random. A correction of a label of the sample keeps the chance of this label.

    Raises:
        DataError: the file is not a table, has no verdict, or a row does not fit the run. The message names the row.
    """
    judged, drawn = _verdicts(store, path)
    log, sample = store.label_log(), store.sample()
    before = {entry.key: entry for entry in valid(log)}
    of_sample = {entry.key: entry for entry in log if entry.chance is not None and entry.key in sample}
    labels = []
    for key, each in judged.items():
        known, at_random, earlier = of_sample.get(key), each.record.position in drawn, before.get(key)
        answer = None if store.is_server else each.correct_answer  # a server forgets texts, but no label
        if earlier is not None and earlier.correct == each.correct:
            if answer in (None, harmless(earlier.correct_answer)):  # an empty cell, or the cell of an export
                answer = earlier.correct_answer
            if earlier.correct_answer == answer and (known is not None or not (at_random or random)):
                continue  # the log has this label already
        source: LabelSource = known.source if known else "review" if at_random else "feedback"
        chance = known.chance if known else 1.0 if at_random or random else None
        correct, skipped = each.correct, each.correct is None
        labels.append(
            label_of(each.record, correct, source=source, chance=chance, skipped=skipped, correct_answer=answer)
        )
    known_keys = judged.keys() | sample.keys()
    unjudged = [each for each in answers_in(map(store.record, sorted(drawn))) if each.key not in known_keys]
    return [*labels, *(label_of(each, None, chance=1.0, skipped=True) for each in unjudged)]


def _verdicts(store: Store, path: Path) -> tuple[dict[LabelKey, Judged], set[int]]:
    """Return the judged answers by key, and the positions of the sheet's samples."""
    rows, records, name = open_table(path), list(store.records()), ids_of(store)
    known: dict[str, Sequence[Record]] = {name(record): [record] for record in records}
    if Manifest.of(store).mode == "extract":
        known |= {row_id(*fields, prefix="doc"): fields for fields in by_document(records).values()}
    columns = [plain(column) for column in columns_of(rows)]
    if columns and ("record_id" not in columns or not {*READ[1:4]} & {*columns}):
        raise DataError(
            f"{path} needs the columns 'record_id' and 'label' (or 'correct_answer'), but has "
            f"{', '.join(map(repr, columns))}; fill in a table of secl export {store.folder} --review."
        )
    judged: dict[LabelKey, Judged] = {}
    drawn: set[int] = set()
    sampled = functools.cache(lambda cell: _sampled(cell, store))
    place: dict[LabelKey, str] = {}
    for row in rows:
        try:
            if isinstance(row.values, str | Question):
                raise DataError(str(row.values))
            cells = {plain(column): value for column, value in row.values.items()}
            answers = _judged(cells, _answers(cells, known, store.folder))
            if cells.get("sample") is not None:
                drawn |= sampled(str(cells["sample"]))
            for each in answers:
                key = each.record.key
                other = judged.get(key, each)
                given = {each.correct_answer, other.correct_answer} - {None}
                if other.correct != each.correct or len(given) > 1:
                    raise DataError(f"contradicts the verdict of {place[key]}; correct one of them.")
                judged[key] = replace(each, correct_answer=next(iter(given), None))
                place.setdefault(key, row.location.rpartition(", ")[2])
        except DataError as problem:
            raise DataError(f"{row.location} {problem}") from problem
    if not judged:
        raise DataError(f"{path} has no verdict; write right or wrong into the column 'label' of the judged rows.")
    return judged, drawn


def _answers(cells: Mapping[str, object], known: Mapping[str, Sequence[Record]], folder: Path) -> Sequence[Record]:
    """Return the answer, the fact, or the fields that a row is about; all facts of a text without a number."""
    name, number = cells.get("record_id"), cells.get("fact")
    if name is None:
        if any(cells.get(column) is not None for column in READ):
            raise DataError("has a verdict but no record_id; restore the id.")
        return ()
    if str(name) not in known:
        raise DataError(
            f"has the record_id {str(name)[:40]!r}, which is no answer of {folder}; take a sheet of this run."
        )
    answers = answers_in(known[str(name)])
    if not answers and any(cells.get(column) is not None for column in READ[1:4]):
        raise DataError("is about a text without facts, in which nothing can be judged; empty its verdict.")
    if number is None:
        return answers
    if found := [answer for answer in answers if str(answer.fact) == str(number).removesuffix(".0")]:
        return found
    facts = counted(sum(answer.kind == "fact" for answer in answers), "fact")
    raise DataError(f"has the fact {str(number)[:40]!r}, but its answer has {facts}; restore the number.")


def _judged(cells: Mapping[str, object], records: Sequence[Record]) -> list[Judged]:
    """Return the judged answers of a row."""
    if str(cells.get("label")).casefold() in ("s", "skip", "skipped"):
        return [Judged(record, None) for record in records]
    right, answer, wrong = truth(cells, "label"), cells.get("correct_answer"), cells.get("wrong_fields")
    if len(records) > 1:
        names = [str(record.fact or plain(record.question.domain)) for record in records]
        whole, parts = ("text", "facts") if noun_of(records) == "fact" else ("object", "fields")
        named = [plain(part) for part in re.split("[|,;]", str(wrong or "")) if part.strip()]
        if unknown := [each for each in named if each not in names]:
            raise DataError(f"has {unknown[0]!r} in 'wrong_fields'; its {parts} are {', '.join(names)}.")
        if answer is not None or (right is not None and right == bool(named)):
            raise DataError(f"is about a whole {whole}; name its wrong {parts} in 'wrong_fields', or write right.")
        judged = right is not None or bool(named)
        return [Judged(record, name not in named) for record, name in zip(records, names, strict=True) if judged]
    if answer is None:
        return [Judged(record, right) for record in records if right is not None]
    graded = [verdict_by(record, answer) for record in records]
    if any(right not in (None, each.correct) for each in graded):
        raise DataError(f"has the label {cells['label']!r}, but its 'correct_answer' says the opposite; correct one.")
    return graded


def verdict_by(record: Record, answer: object) -> Judged:
    """Return the verdict on a record by a right answer that a person gave. Raises DataError."""
    question = record.question
    if record.kind == "field":
        answer = answer if isinstance(answer, str) else shown(answer)
        question = replace(question, grader="exact" if answer == ABSENT else question.grader)
    known = with_reference(question, answer)
    given = question.text_of(known.reference) if isinstance(known.reference, str) else shown(answer)
    return Judged(record, grade(known, record.answer), given)


def _sampled(cell: str, store: Store) -> frozenset[int]:
    """Return the positions of the random sample that a cell of the column "sample" names."""
    found = re.fullmatch(r"\d+ of (\d{1,15}) \((\d{1,15})\)", cell)
    if found is None or not int(found[2]) < int(found[1]) <= len(store):
        raise DataError(f"has {cell[:40]!r} in 'sample', which names no sample of {store.folder}; restore it.")
    return drawn_until(store, int(found[2]), int(found[1]))


def labels_from_references(store: Store, *, random: bool) -> list[Label]:
    """Return a label for each answer whose question has a reference, unless a person labelled the answer.

    `random`: whether the questions with references are a random sample. If an earlier call said otherwise, withdraw
    the earlier label first. Raises DataError: no question has a reference.
    """
    before, chance = {entry.key: entry for entry in valid(store.label_log())}, 1.0 if random else None
    answers = answers_in(store.records())
    graded = [(answer, right) for answer in answers if (right := judgement_of(answer).reference) is not None]
    if not graded:
        raise DataError(
            f"no question of {store.folder} has a right answer; name its column (--columns reference=NAME)."
        )
    labels = []
    for record, right in graded:
        earlier = before.get(record.key)
        if earlier is None or (earlier.source == "reference" and earlier.chance != chance):
            changes = [right] if earlier is None else [None, right]
            labels += [label_of(record, correct, source="reference", chance=chance) for correct in changes]
    return labels
