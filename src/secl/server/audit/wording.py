"""What a reported confidence is, in words: for replies, the terminal and the page."""

from __future__ import annotations

from secl.evidence import Posterior
from secl.records import Record
from secl.reports.answers import source_of


def answer_text(record: Record) -> str:
    """The answer as people read it: "B. Paris" for multiple choice, else the text alone."""
    answer, question = record.answer, record.question
    if answer is None:
        return record.reply.text.strip()
    return f"{answer}. {question.option(answer)}" if question.options else answer


def remark_on(record: Record, *, expected: bool) -> str | None:
    """What people must know to read a reported confidence, in one sentence; None where there is nothing to say.

    Args:
        record: of the answer.
        expected: whether a posterior was to be computed for it.
    """
    if source_of(record) == "posterior" and record.posterior is not None:
        return None if record.posterior.informed else uninformed(record.posterior)
    if not expected:
        return None
    if record.reply.answer is None:
        return "the answer could not be read, so there is nothing to compare; the confidence is as stated."
    if record.posterior is not None:
        return "the model's own answer is none of the candidates; the confidence is as stated."
    return (
        "there are no two different candidates to compare, or more than the model has letters for; the confidence is "
        "as stated."
    )


def uninformed(posterior: Posterior) -> str:
    """That no view carried information, and what follows from it."""
    count = len(set(posterior.candidates))
    if len(set(posterior.probabilities)) == 1:
        consequence = f", so each of the {count} candidates gets {1 / count:.2f}."
    else:
        consequence = "; the confidence is what its views say all the same (the guard is off)."
    seen = f"in the latest {posterior.questions} questions like this one"
    return f"{seen} the model shows no sign of knowing the answers{consequence}"


def weights_in_words(posterior: Posterior) -> str:
    """The weights of the views, and what they were fitted to.

    >>> from secl.records import Posterior
    >>> weights_in_words(Posterior(candidates=("a", "b"), probabilities=(0.5, 0.5), own=0, weights=(("letters", 0.5),),
    ...     reliability=0.66, agreement=None, informed=True, questions=0))
    'letters 0.500; the prior, before any fit; letters 0.66 reliable'
    """
    weights = ", ".join(f"{name} {weight:.3f}" for name, weight in posterior.weights)
    fitted = f"fitted to {posterior.questions} questions" if posterior.questions else "the prior, before any fit"
    known = [
        f"{name} {value:.2f}{after}"
        for name, value, after in (
            ("letters", posterior.reliability, " reliable"),
            ("letters and texts agree in", posterior.agreement, ""),
        )
        if value is not None
    ]
    return "; ".join((weights, fitted, *known))
