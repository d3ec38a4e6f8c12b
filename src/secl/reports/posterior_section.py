"""What a report says about the posterior of a run: where its weights come from, and what the views showed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from secl.evaluation.view_check import agreement_of_views
from secl.evidence import Posterior
from secl.grading import correctness
from secl.posterior.views import view_title
from secl.records import Record
from secl.reports.figures.drawing import spread
from secl.reports.formatting import amount, counted, number, percent
from secl.reports.table import Cell, Column, Table

TITLE = "Posterior: how probable each candidate is"
"""Title of the section."""

SAMPLE = 10_000
"""Questions whose letters and texts are compared, at most: enough for a share, and a matter of seconds."""

RELIABLE = 0.7
"""Reliability from which letters are said to follow the options; between 0 and it, they do so in part."""


def posterior_notes(records: Sequence[Record]) -> list[str]:
    """What the posteriors of a run show, in plain words, a sentence or two each; empty for a run without any."""
    posteriors = [record.posterior for record in records if record.posterior is not None]
    if not posteriors:
        return []
    notes = [_of_weights(posteriors)]
    fitted = [posterior for posterior in posteriors if posterior.questions]
    if fitted:
        notes += _of_letters(most_common_form(fitted)[-1])
    return [*notes, *_of_agreement(records), *_of_uninformed(posteriors), *_of_missing(records), *_of_answers(records)]


def most_common_form(posteriors: Sequence[Posterior]) -> list[Posterior]:
    """Those of open questions or those of the others, whichever are more: they have weights of their own."""
    forms = [[each for each in posteriors if each.none_last is last] for last in (False, True)]
    return max(forms, key=len)


def weights_table(records: Sequence[Record]) -> Table:
    """The weights of the views before anything was seen and in the end, for each group of questions weighed alike."""
    groups: dict[tuple[object, ...], list[Posterior]] = {}
    for record in records:
        posterior, candidates = record.posterior, record.evidence.candidates
        if posterior is not None:
            orders = bool(record.frozen.option_log_p) + (len(candidates.letters) if candidates else 0)
            key = (*(view for view, _ in posterior.weights), orders, posterior.none_last)
            groups.setdefault(key, []).append(posterior)
    sections = {}
    for index, group in enumerate(groups.values(), 1):
        first, last = dict(group[0].weights), dict(group[-1].weights)
        kind = "open " if group[0].none_last else ""
        heading = f"group {index}: {counted(len(group), f'{kind}question')}" if len(groups) > 1 else ""
        sections[heading] = [
            [Cell(view_title(view)), Cell(number(first[view], 2)), Cell(number(last[view], 2))] for view in last
        ]
    columns = [Column("View", text=True, wraps=True), Column("Prior"), Column("Final")]
    note = (
        "Weights before the first question and for the last one, per nat of difference between two candidates; a view "
        "of weight 0 has no say."
    )
    if len(groups) > 1:
        note += " Open questions, and those with other views or another number of orders, have weights of their own."
    return Table(columns, sections, (note,))


def _of_weights(posteriors: Sequence[Posterior]) -> str:
    before = sum(not posterior.questions for posterior in posteriors)
    if before == len(posteriors):
        return "All questions were weighed with the prior: too few came before them to fit any weights to."
    most = max(posterior.questions for posterior in posteriors)
    return (
        f"The weights were fitted along the stream, to up to {counted(most, 'question')} and without any right answer; "
        f"the first {counted(before, 'question')} had those of the prior."
    )


def _of_letters(last: Posterior) -> list[str]:
    """How far the letters followed the options, at the end of the stream."""
    if last.reliability is None:
        return []
    if last.reliability == 0:
        silent = ", and weigh nothing" if dict(last.weights).get("letters", 0.0) == 0 else ""
        return [f"The letters do not follow the options when these change places (reliability 0){silent}."]
    how = "follow" if last.reliability >= RELIABLE else "follow only in part"
    value = number(last.reliability, 2)
    return [f"The letters {how} the options when these change places (reliability {value} of 1)."]


def _of_agreement(records: Sequence[Record]) -> list[str]:
    """How often letters and texts agree."""
    part = records if len(records) <= SAMPLE else [records[place] for place in spread(len(records), SAMPLE)]
    agreement, chance = agreement_of_views(part)
    if math.isnan(agreement):
        return []
    of = "the questions" if part is records else f"{amount(SAMPLE)} questions from all over the stream"
    return [
        f"Letters and texts prefer the same candidate in {percent(agreement)} of {of}, where chance alone gives "
        f"{percent(chance)}."
    ]


def _of_uninformed(posteriors: Sequence[Posterior]) -> list[str]:
    uninformed = [posterior for posterior in posteriors if not posterior.informed]
    if not uninformed:
        return []
    even = all(len(set(posterior.probabilities)) == 1 for posterior in uninformed)
    reported = "and the confidence is" if even else "for which --guard would report"
    return [
        f"{counted(len(uninformed), 'question')} came where no view carried information: the model shows no sign of "
        f"knowing the answers to these questions, {reported} 1/K for each of K candidates."
    ]


def _of_missing(records: Sequence[Record]) -> list[str]:
    missing = sum(record.posterior is None for record in records)
    if not missing:
        return []
    return [
        f"{counted(missing, 'question')} had no posterior: none was asked for, no answer could be read, or there were "
        "no two different candidates. The stated confidence stands there."
    ]


def _of_answers(records: Sequence[Record]) -> list[str]:
    """Own against best answers, over the questions that have a posterior and a reference."""
    grades = [(each.correct, correctness(each, each.best_answer)) for each in records if each.posterior is not None]
    graded = [(own, best) for own, best in grades if own is not None and best is not None]
    changed = sum(record.best_answer != record.reply.answer for record in records)
    asked = any(record.answers_best for record in records)
    how = ", and was given in its place" if asked else ", which --answer best gives in its place"
    whose = "model's own answer"
    if any(record.given for record in records):  # another one cannot be given in their place
        whose, how = "given answer", ""
    notes = [f"For {counted(changed, 'question')} the most probable candidate is not the {whose}{how}."]
    if not graded:
        return notes
    own, best = (statistics.fmean(each) for each in zip(*graded, strict=True))
    return [
        *notes,
        f"Of {amount(len(graded))} graded questions, {percent(own)} of the {whose}s and {percent(best)} of "
        "the most probable candidates are right.",
    ]
