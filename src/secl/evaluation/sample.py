"""The labelled answers on which a threshold rests.

A guarantee needs a random sample of answers whose labels are known. Several samples can exist: the labels of a review,
rows with a reference that the user drew at random, feedback for which a client drew the answers with equal chances, and
all answers if each has a reference. secl uses the largest sample, but ignores feedback if a review exists: secl drew
the answers of the review, but cannot check how a client chose answers.

All other labels are of answers that people chose. They give only an estimate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from secl.labels.label import Label, LabelSource, standing, valid

Doubt = Literal["chosen", "unequal", "partly", "unlike"]
"""Why labels allow no guarantee.

    chosen    people chose the labelled answers, or the choice is unknown
    unequal   the answers were drawn with unequal chances
    partly    the grades are references of some answers, and no person said how these answers were chosen
    unlike    the labelled answers are unlike the others in confidences or domains, so they were not drawn at random
"""


@dataclass(frozen=True, slots=True)
class LabelledSample:
    """Labelled answers, and how they were chosen.

    Attributes:
        verdicts: whether an answer is right, by position; None for a skipped answer. In the order of the labels.
        doubt: why these labels allow no guarantee; None for a random sample.
        references: whether the verdicts are references, or labels that override them.
        left_out: number of labelled answers outside the sample.
    """

    verdicts: Mapping[int, bool | None]
    doubt: Doubt | None = None
    references: bool = False
    left_out: int = 0


def sample_of(log: Sequence[Label], references: Mapping[int, bool], answers: int) -> LabelledSample:
    """Return the sample of labelled answers.

    Args:
        log: labels in order, including corrected and withdrawn ones.
        references: whether an answer is right by its reference, by position.
        answers: number of all answers.
    """
    labels = {label.position: bool(label.correct) for label in standing(log)}
    entries = drawn(log)
    random: dict[str, dict[int, bool | None]] = {}
    for source in get_args(LabelSource):
        of_source = [entry for entry in entries if entry.source == source]
        if len({entry.chance for entry in of_source}) == 1:
            random[source] = {entry.position: entry.correct for entry in of_source}
    if 0 < len(references) == answers:
        judged = {position: verdict for each in random.values() for position, verdict in each.items()}
        overriding = {position: verdict for position, verdict in judged.items() if verdict is not None}
        random["all"] = {**references, **overriding}
    if "review" in random:
        random.pop("feedback", None)
    known = {*labels, *references}
    if random:
        used = max(random, key=lambda source: len(random[source]))
        verdicts = random[used]
        return LabelledSample(verdicts, references=used == "all", left_out=len(known - set(verdicts)))
    if labels:
        return LabelledSample(labels, "unequal" if entries else "chosen", left_out=len(known - set(labels)))
    return LabelledSample(references, "partly" if references else None, references=bool(references))


def drawn(log: Iterable[Label]) -> tuple[Label, ...]:
    """Return the valid labels and skips of known chance. Later labels of volunteers change none of them."""
    return valid(entry for entry in log if entry.chance is not None or (entry.correct is None and not entry.skipped))
