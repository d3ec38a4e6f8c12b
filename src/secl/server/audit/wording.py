"""What a reported confidence is, in words: for replies, the terminal and the page."""

from __future__ import annotations

from secl.evidence import Posterior
from secl.records import Record
from secl.reports.answers import source_of

NOT_ASKED_FOR = "the client did not want the confidence of this text, so it has none."


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
    if not record.rated:
        return NOT_ASKED_FOR
    if source_of(record) == "posterior" or not expected:
        return None
    if record.reply.answer is None:
        return "the answer could not be read, so there is nothing to compare; the confidence is as stated."
    if record.posterior is not None:
        return "the model's own answer is none of the candidates; the confidence is as stated."
    return (
        "there are no two different candidates to compare, or more than the model has letters for; the confidence is "
        "as stated."
    )


def weights_in_words(posterior: Posterior) -> str:
    """The weights of the views, and what the letters' reliability rests on.

    >>> from secl.records import Posterior
    >>> weights_in_words(Posterior(candidates=("a", "b"), probabilities=(0.5, 0.5), own=0, weights=(("letters", 0.66),),
    ...     reliability=0.66, questions=40))
    'letters 0.660; letters 0.66 reliable in 40 questions'
    """
    weights = ", ".join(f"{name} {weight:.3f}" for name, weight in posterior.weights)
    if posterior.reliability is None:
        return weights
    seen = f"in {posterior.questions} questions" if posterior.questions else "as known before the first question"
    return f"{weights}; letters {posterior.reliability:.2f} reliable {seen}"
