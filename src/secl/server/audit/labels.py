"""Labels in a state folder: what they made of each confidence."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from secl.labels import Label, LabelRule
from secl.records import Record
from secl.server.audit.closeness import ARITHMETIC, furthest

MOST = 200
"""Latest labels whose influence on a confidence is computed; each takes a fit."""


@dataclass(frozen=True, slots=True)
class Influence:
    """What one label did to one confidence.

    Attributes:
        position: of the record that it is about.
        correct: what it says of that record's answer.
        moved: the confidence less what it would be without this label.
    """

    position: int
    correct: bool
    moved: float


def influences(rule: LabelRule, log: Sequence[Label], record: Record) -> tuple[Influence, ...]:
    """Which labels moved the confidence of a record, the strongest first; labels that came later moved nothing."""
    if record.labelled is None or not record.labelled.labels:
        return ()
    state = rule.add(rule.start(), [label for label in log if label.number <= record.labelled.until])
    found = []
    for label in state.standing[-MOST:]:
        without = rule.rate(rule.without(state, label), record.question.domain, record.label_free)
        found.append(Influence(label.position, bool(label.correct), record.labelled.confidence - without.confidence))
    return tuple(sorted(found, key=lambda each: -abs(each.moved)))


class LabelReplay:
    """A rule that is fed the stored labels.

    Args:
        rule: of the server.
        log: all entries in order.

    Attributes:
        largest: how far the confidences that agree lie apart at most.
    """

    def __init__(self, rule: LabelRule, log: Sequence[Label]) -> None:
        self.rule, self.state = rule, rule.start()
        self.largest = 0.0
        self._left = deque(log)
        self._of_record: dict[int, list[Label]] = {}
        for label in log:
            self._of_record.setdefault(label.position, []).append(label)

    def differences(self, record: Record) -> Iterator[str]:
        """How a record's confidence, and the labels about it, differ from what is stored; call it in order."""
        for label in self._of_record.get(record.position, ()):
            said = (label.confidence, label.domain, label.reported)
            if said != (record.label_free, record.question.domain, record.confidence):
                yield f"label {label.number} is about another confidence than the record's"
        if record.labelled is None:
            return
        known = []
        while self._left and self._left[0].number <= record.labelled.until:
            known.append(self._left.popleft())
        self.state = self.rule.add(self.state, known)
        now = self.rule.rate(self.state, record.question.domain, record.label_free)
        apart = furthest(now, record.labelled)
        if apart <= ARITHMETIC:
            self.largest = max(self.largest, apart)
        else:
            yield (
                f"the labels until then give {now.confidence} ({now.low} to {now.high}), stored is "
                f"{record.labelled.confidence} ({record.labelled.low} to {record.labelled.high})"
            )
