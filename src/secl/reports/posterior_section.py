"""What a report says about the posterior of a run: where its weights come from, and what the views showed."""

from __future__ import annotations

from collections.abc import Sequence

from secl.evidence import Posterior
from secl.posterior.views import view_title
from secl.records import Record
from secl.reports.formatting import counted, number


def posterior_notes(records: Sequence[Record]) -> list[str]:
    """What the posteriors of a run show, in plain words, a sentence or two each; empty for a run without any."""
    posteriors = [record.posterior for record in records if record.posterior is not None]
    if not posteriors:
        return []
    # Open questions have weights of their own; those of whichever are more are said.
    forms = [[each for each in posteriors if each.none_last is last] for last in (False, True)]
    return [_of_weights(max(forms, key=len)[-1]), _of_answers(records)]


def _of_weights(last: Posterior) -> str:
    """How far the letters followed the options, and what the views weigh in the end."""
    weights = ", ".join(f"{view_title(view)} {number(weight, 2)}" for view, weight in last.weights)
    return f"{letters_sentence(last.reliability, last.questions)} Weights at the end, per nat: {weights}.".lstrip()


def letters_sentence(reliability: float | None, questions: int) -> str:
    """What the model's letters are worth, and how many questions showed it; empty without letters."""
    if reliability is None:
        return ""
    seen = f"seen in {counted(questions, 'question')}" if questions else "as known before the first question"
    value = number(reliability, 2)
    return f"The letters follow the options when these change places with a reliability of {value} of 1 ({seen})."


def _of_answers(records: Sequence[Record]) -> str:
    """How often the most probable candidate is another one."""
    changed = sum(record.best_answer != record.reply.answer for record in records)
    if any(record.given for record in records):  # another one cannot be given in their place
        return f"For {counted(changed, 'question')} the most probable candidate is not the given answer."
    asked = any(record.answers_best for record in records)
    how = "and was given in its place" if asked else "which --answer best gives in its place"
    return f"For {counted(changed, 'question')} the most probable candidate is not the model's own answer, {how}."
