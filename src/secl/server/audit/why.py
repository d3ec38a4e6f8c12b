"""Why an answer got its number, in sentences: the same ones in the terminal and on the page."""

from __future__ import annotations

from secl.evaluation.summary import LOW_DIGIT_MASS
from secl.records import Record
from secl.reports.acceptance_report import accepted_line
from secl.reports.formatting import counted
from secl.server.audit.explain import Explanation
from secl.server.audit.wording import NOT_ASKED_FOR

PEOPLE = {None: "nobody has said whether it is right", True: "people say: right", False: "people say: wrong"}


def number_in_words(explanation: Explanation) -> list[str]:
    """Where the reported confidence comes from: what was weighed or stated, the frozen model, labels, the threshold."""
    record = explanation.served.record
    if not record.rated:
        return [sentence(NOT_ASKED_FOR)]
    told = [_weighed(record) if explanation.source == "posterior" else _stated(record)]
    if explanation.remark is not None:
        told.append(explanation.remark)
    if record.reply.digit_mass < LOW_DIGIT_MASS:
        told.append(
            f"asked for its confidence the model gave all ten digits together only {record.reply.digit_mass:.2f}, so "
            "what it states says little"
        )
    told.append(_labels(explanation))
    if record.accept is not None:
        told.append(accepted_line(record.answer, record.confidence, record.accept))
    return [sentence(text) for text in told if text]


def learning_in_words(explanation: Explanation) -> list[str]:
    """What gate and lesson made of the question, and what people say."""
    lesson, people = lesson_in_words(explanation), PEOPLE[explanation.served.correct]
    return [sentence(text) for text in (f"gate: {gate_in_words(explanation)}", f"lesson: {lesson}", people)]


def gate_in_words(explanation: Explanation) -> str:
    """What the gate said of the reply."""
    decision = explanation.served.record.decision
    what = "alarm, a burst begins" if decision.alarm else "inside a burst" if decision.in_burst else "quiet"
    to_come = f", {counted(decision.remaining, 'question')} to come" if decision.in_burst else ""
    if decision.statistic is None:
        return f"{what}{to_come}; nothing was tested"
    threshold = "" if explanation.threshold is None else f" against the threshold {explanation.threshold:g}"
    return f"{what}{to_come}; statistic {decision.statistic:.4f}{threshold}"


def lesson_in_words(explanation: Explanation) -> str:
    """What learning did with the question."""
    record = explanation.served.record
    return explanation.reason if record.update else f"{outcome_in_words(record.outcome)}, because {explanation.reason}"


def outcome_in_words(outcome: str) -> str:
    """The outcome of a lesson.

    >>> outcome_in_words("no_signal")
    'no signal'
    """
    return outcome.replace("_", " ")


def sentence(text: str) -> str:
    """With a capital letter and a full stop.

    >>> sentence("so it is"), sentence("Is it so?")
    ('So it is.', 'Is it so?')
    """
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '?', '!')) else '.'}"


def _stated(record: Record) -> str:
    stated, frozen = record.reply.confidence, record.frozen.confidence
    said = f"the model states {stated:.4f}, the mean of what its ten digits stand for"
    if record.reply.version == 0:
        return f"{said}; it has learned nothing yet"
    return f"{said}; before all lessons it would have stated {frozen:.4f}"


def _weighed(record: Record) -> str:
    posterior = record.posterior
    if posterior is None:
        return ""
    count = counted(len(set(posterior.candidates)), "candidate")
    of = "the best candidate" if record.answers_best and posterior.best != posterior.own else "its answer"
    views = " and ".join(name for name, weight in posterior.weights if weight > 0) or "no view"
    return (
        f"of {count}, compared by {views}, {of} has {record.label_free:.4f}; "
        f"the model states {record.reply.confidence:.4f}"
    )


def _labels(explanation: Explanation) -> str:
    labelled = explanation.served.record.labelled
    if labelled is None:
        return ""
    band = f"with 90 % probability the right confidence lies between {labelled.low:.4f} and {labelled.high:.4f}"
    if not labelled.labels:
        return f"nobody had labelled an answer yet; {band}"
    changed = labelled.confidence - labelled.label_free
    moved = f"moved it by {changed:+.4f} to {labelled.confidence:.4f}"
    domain = f"{labelled.of_domain} of its own domain"
    return f"{counted(labelled.labels, 'label')}, {domain}, {moved}; {band}"
