"""Elements of lists: each element in the returned object or a sample is a field of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from secl.fields.schema import Leaf
from secl.fields.values import OpenedObject, Reading, same_value, value_of
from secl.question import Question


def elements_of(
    leaf: Leaf, question: Question, own: OpenedObject, drawn: Sequence[OpenedObject | None]
) -> Iterator[tuple[Leaf, Question, Reading, list[Reading | None]]]:
    """Yield the elements of a list as fields: elements of the returned list, then elements that only samples have.

    Elements of two lists match if they are equal, regardless of their places. Equal elements in one list each match a
    different element of the other list. A field's value is the element, or null if a list lacks the element. So an
    element that only samples have is null in the returned list. The pointer of its field, such as "/tags/3", points
    behind the list's last element.

    Args:
        leaf, question: of the whole list.
        own, drawn: the returned object and the samples; None for a sample that the model did not close.

    Returns:
        for each element its field, its question, and its readings in the returned object and in each sample.
    """
    objects = [own, *drawn]
    known: list[tuple[object, dict[int, int]]] = []  # an element, and its place in the list of each object with it
    for number, each in enumerate(objects):
        listed = None if each is None else value_of(leaf, each.value)
        for place, value in enumerate(listed if isinstance(listed, list) else []):
            if value is None:
                continue
            partners = (at for other, at in known if number not in at and _same(question, other, value))
            at = next(partners, None)
            if at is None:
                known.append((value, at := {}))
            at[number] = place
    for index, (value, at) in enumerate(known):
        which = "What is one value" if 0 in at else "What further value is there"
        text = f"{which} of {leaf.described}?"
        asked = replace(question, text=text, domain=f"{leaf.name}/*", id=f"{question.id}/{index}")
        read = [None if each is None else _read(each, leaf, at.get(number)) for number, each in enumerate(objects)]
        assert read[0] is not None  # noqa: S101
        yield _leaf(value, (*leaf.path, str(index))), asked, read[0], read[1:]


def _leaf(value: object, path: tuple[str, ...] = ()) -> Leaf:
    return Leaf(path, "text" if isinstance(value, str) else "json", "", "")


def _same(question: Question, one: object, other: object) -> bool:
    return same_value(_leaf(one), question, one, other)


def _read(each: OpenedObject, leaf: Leaf, place: int | None) -> Reading:
    """Return the element at a place; for None, return null with the probability of the list's end."""
    if place is not None:
        path = (*leaf.path, str(place))
        return each.reading(value_of(leaf, each.value)[place], each.places[path])
    _, end = each.place_of(leaf)
    return each.reading(None, (end - 1, end))
