"""The pages of records: the list, one record, and the review. Each opens the state folder to read."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

from pydantic import ValidationError

from secl.errors import ParameterError
from secl.reports.formatting import counted
from secl.server.entries import Values, position_of, record_id
from secl.server.explain import explain
from secl.server.http.pages.record_view import card, record_view
from secl.server.http.pages.rendering import fill
from secl.server.records import LOOKED, ORDERS, RECENT, Found, Search, domains, listed, review_queue, search
from secl.server.store import ServerStore, at_one_moment

Page = tuple[str, int]
"""A page and its status."""

CHOICES = (
    ("label", "People say", (("right", "right"), ("wrong", "wrong"), ("none", "nothing yet"))),
    ("accepted", "Threshold", (("true", "accepted"), ("false", "not accepted"))),
    ("learned", "Lesson", (("true", "learned from"), ("false", "not learned from"))),
)
"""Filters with a few choices: name, label, and value and words of each."""

TITLES: dict[str, str] = {"random": "At random", "unsure": "Least sure", "threshold": "Near the threshold"}

MEANINGS: dict[str, str] = {
    "random": (
        f"Drawn by lot from the latest {RECENT:,} answers, each as likely as the others: what you say here shows how "
        "right the confidences are, and a threshold can promise something. Confidence is hidden."
    ),
    "unsure": (
        f"Of the latest {RECENT:,} answers those nearest to 0.5 first. They were chosen, not drawn: they teach which "
        "domains are easier, and hardly how right all confidences are."
    ),
    "threshold": (
        f"Of the latest {RECENT:,} answers those nearest to the threshold first. They were chosen, not drawn: they "
        "show what lies around the threshold, and hardly how right all confidences are."
    ),
}


def records_page(folder: Path, wanted: dict[str, str], *, thresholds: bool) -> Page:
    """The list of records.

    Args:
        folder: of the state.
        wanted: the query, without empty values.
        thresholds: whether the server has a threshold.
    """
    problem, query = None, Search()
    with at_one_moment(folder) as reader:
        try:
            query = Search.model_validate(wanted)
            found = search(reader, query)
        except ValidationError as error:
            first = error.errors()[0]
            problem, found = f"{'.'.join(map(str, first['loc']))}: {first['msg']}.", Found((), None, 0)
        except ParameterError as error:
            problem, found = str(error), Found((), None, 0)
        rows, names, keep_text = listed(reader, found.positions), domains(reader), reader.keep_text
        pruned = "" if found.before is not None or problem else pruned_in_words(reader)
    narrowed = {name: value for name, value in wanted.items() if name != "before"}
    older = None if found.before is None else {**narrowed, "before": record_id(found.before)}
    asked = dict.fromkeys(Search.model_fields, "") | wanted
    text = fill(
        "records.html",
        "Records",
        headline="What was asked and answered, the newest first.",
        asked=asked,
        choices=[choice for choice in CHOICES if thresholds or choice[0] != "accepted"],
        domains=names,
        rows=rows,
        found="" if problem else f"{found_in_words(found, query)} {pruned}",
        problem=problem,
        narrowed=bool(narrowed),
        filtered=bool(narrowed.keys() - {"query", "count"}),
        keep_text=keep_text,
        newest=f"records?{urlencode(narrowed)}" if query.before else None,
        older=None if older is None else f"records?{urlencode(older)}",
    )
    return text, 400 if problem else 200


def found_in_words(found: Found, query: Search) -> str:
    """What a page of a list is.

    >>> found_in_words(Found((7,), None, 9), Search(label="right"))
    '1 record fits.'
    >>> found_in_words(Found((), 5, 20000), Search(label="right"))
    'None of the 20,000 records back to rec_00000005 fits; there are older ones.'
    """
    count, older = len(found.positions), "older " if query.before else ""
    if found.before is None:
        if not count:
            nothing = query == Search(count=query.count)
            return "Nobody has asked anything yet." if nothing else f"No {older}record fits."
        return f"{counted(count, f'{older}record')} {'fits' if count == 1 else 'fit'}."
    if count == query.count:
        return f"The newest {count} {older}records that fit; there are more records to look at."
    back = f"the {LOOKED:,} records back to {record_id(found.before)}"
    if not count:
        return f"None of {back} fits; there are older ones."
    return f"{count} of {back} {'fits' if count == 1 else 'fit'}; there are older ones."


def pruned_in_words(reader: ServerStore) -> str:
    """Which records are no longer there."""
    return f"Those before {record_id(reader.first)} were pruned." if reader.first else ""


def record_page(folder: Path, name: str, *, with_labels: bool) -> Page:
    """The page of one record, on demand with the labels that moved its confidence."""
    with at_one_moment(folder) as reader:
        try:
            position = reader.position_of(name)
            shown = record_view(explain(reader, position, with_labels=with_labels))
        except ParameterError:
            problem = f"There is no record {name[:40]!r}. {pruned_in_words(reader)}"
            return fill("record.html", "Records", root="../", record=None, problem=problem), 404
        older = search(reader, Search(count=1, before=record_id(position))).positions
        newer = _exists(reader, position + 1)
    behind, ahead = record_id(older[0]) if older else None, record_id(position + 1) if newer else None
    return fill(
        "record.html", "Records", root="../", record=shown, older=behind, newer=ahead, with_labels=with_labels
    ), 200


def _exists(reader: ServerStore, position: int) -> bool:
    return search(reader, Search(count=1, before=record_id(position + 1))).positions == (position,)


def review_page(folder: Path, order: str, after: str, name: str, accept: float | None) -> Page:
    """The answer to rate next, or the record with this name.

    Args:
        folder: of the state.
        order: of the queue.
        after: id of the record behind which the queue begins; "" for its beginning.
        name: id of a record that is shown in place of the next one; "" for none.
        accept: the server's threshold.
    """
    if order not in ORDERS:
        order = "random"
    orders = {key: words for key, words in TITLES.items() if accept is not None or key != "threshold"}
    with at_one_moment(folder) as reader:
        try:
            queue = review_queue(reader, order, after=position_of(after) if after else None, accept=accept)  # type: ignore[arg-type]
            position = position_of(name) if name else next(iter(queue.positions), None)
            shown: Values | None = None if position is None else card(reader.served(position))
        except ParameterError as error:
            return fill("record.html", "Review", record=None, problem=str(error)), 404
        keep_text = reader.keep_text
    behind = {"order": order} | ({"after": shown["id"]} if shown else {})
    text = fill(
        "review.html",
        "Review",
        orders=list(orders.items()),
        order=order,
        meaning=MEANINGS[order],
        record=shown,
        drawn=queue.drawn,
        after=f"review?{urlencode(behind)}" if shown or after else None,
        answers=queue.answers,
        keep_text=keep_text,
        progress=f"{queue.rated:,} of the latest {counted(queue.answers, 'answer')} are rated."
        if queue.answers
        else "",
    )
    return text, 200
