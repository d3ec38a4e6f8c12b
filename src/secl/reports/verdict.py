"""Sentences on the verdict on confidences, and on its reasons."""

from __future__ import annotations

from secl.display import counted, number, percent
from secl.evaluation.symptoms import Reason
from secl.evaluation.trust import Verdict


def trust_line(verdict: Verdict, review: str = "secl label") -> str:
    """Return the verdict in one line, with the source of the confidences and the most severe reasons.

    `review`: where people can label answers.

    >>> from secl.evaluation.trust import assess
    >>> trust_line(assess([]))
    'verdict: unproven (stated confidence). No question is answered yet.'
    """
    return f"verdict: {verdict.level} ({verdict.source} confidence). {' '.join(gravest(verdict, review))}"


def gravest(verdict: Verdict, review: str) -> list[str]:
    """Return a sentence for each of the most severe reasons, or only for the first reason if all are notes."""
    worst = [reason for reason in verdict.reasons if reason.severity == verdict.reasons[0].severity]
    return [sentence_of(reason, review) for reason in (worst[:1] if worst[0].severity == "note" else worst)]


def sentence_of(reason: Reason, review: str = "secl label") -> str:
    """Return a reason as a sentence, with the remedy if a remedy exists; `review`: where people can label answers."""
    shown = f"{reason.count:,} of {counted(reason.total, _NOUNS.get(reason.code, 'answer'))}"
    match reason.code:
        case "same_letter" if not reason.total:
            return f"With the options in another order, the model chooses {reason.answer}."
        case "same_letter":
            return f"The model answers {reason.answer} to {shown}, whatever the options{_instead(reason)}."
        case "digit_mass":
            mass, one = f"probability of {reason.value:.2g}", not reason.total
            mass = mass if one else f"median {mass} in {counted(reason.count, 'reply')}"
            text = f"Asked for its confidence, the model rarely says a digit (the ten digits together have a {mass}), "
            text += "so the stated confidence is unreliable"
            return f"{text}." if one else f"{text}; --method posterior does not need the digits."
        case "letter_mass":
            mass = f"the {reason.count} letters together have a probability of {reason.value:.2g}"
            return f"The model rarely says an option letter ({mass}); the most probable letter is its answer."
        case "true_mass":
            mass = f"probability of {reason.value:.2g}"
            mass = f"median {mass} in {counted(reason.count, 'judged answer')}" if reason.total else mass
            return f"The model rarely judges answers by the words True and False (together they have a {mass})."
        case "unreadable":
            return f"{shown} hold no readable answer, so the confidences of these replies mean nothing."
        case "constant":
            return f"{shown} are {reason.value:.2f}: equal confidences do not rank answers."
        case "answers_changed":
            known = f": {reason.won} from wrong to right, {reason.lost} from right to wrong"
            return f"Learning changed {shown}{known if reason.won + reason.lost else ''}."
        case "unlabelled" | "few_labels":
            return _missing(reason, review)
    return _graded(reason)


_NOUNS = {"same_letter": "question", "unreadable": "reply", "constant": "confidence"}


def _instead(reason: Reason) -> str:
    """Return the remedy for a model that answers all questions with one letter; "" if the run applied the remedy."""
    if reason.stated:
        return "; use --method posterior --answer best"
    return "" if reason.best else "; --answer best returns the most probable candidates instead"


def _missing(reason: Reason, review: str) -> str:
    """Return why the graded answers do not suffice for a verdict, with the remedy."""
    if reason.code == "unlabelled":
        if reason.left == 0:
            return "No question is answered yet."
        return f"No answer has a label or a reference, so these confidences are untested; label some ({review})."
    if reason.more:
        many = "Only one answer has" if reason.count == 1 else f"Only {reason.count} answers have"
        return f"{many} a label or a reference; {further(reason.more, reason.left)} to test the confidences."
    if reason.interval is None:
        kind = "right" if (reason.beside or 0) > 0.5 else "wrong"
        return f"Nearly all graded answers are {kind}, too many to test whether right answers have higher confidences."
    text = f"{counted(reason.count, 'graded answer')} do not show whether right answers have higher confidences"
    return f"{text} than wrong ones ({_area(reason)}); {'ask' if reason.left == 0 else 'label'} more."


def _graded(reason: Reason) -> str:
    on = f"on {counted(reason.count, 'graded answer')}"
    match reason.code:
        case "tested":
            text = f"Tested {on}: accuracy and mean confidence agree, and right answers have higher confidences"
            return f"{text} than wrong ones ({_area(reason)})."
        case "miscalibrated":
            text = f"Calibrated on average, but wrong in places: ECE {number(reason.value, 3)} {on}"
            return f"{text}; chance explains an ECE of at most {number(reason.beside, 3)} (95% limit)."
        case "inverted":
            return f"The confidences are higher for wrong answers than for right ones ({_area(reason)})."
        case "weak":
            return f"The confidences hardly separate right from wrong answers ({_area(reason)})."
        case "chance":
            return f"The confidences do not separate right from wrong answers ({_area(reason)})."
    means = f"mean confidence {percent(reason.value)}, accuracy {percent(reason.beside)}"
    text = f"{reason.code.capitalize()}: {means} {on}"
    text += f"; calibrated confidences would differ this much by chance in {percent(reason.chance)} of cases."
    if reason.chosen and reason.code == "overconfident":
        text += " People chose which answers to rate. If they rated wrong answers more often than right ones, the "
        text += "true difference is smaller."
    return text


def further(more: int, left: int | None) -> str:
    """Return how to get `more` graded answers: by labels of the `left` ungraded answers, then by more questions."""
    if left is None or left >= more:
        return f"label {more} more"
    ask = f"ask {counted(more - left, 'more question')}"
    others = "other one" if left == 1 else f"other {left}"
    return f"label the {others} and {ask}" if left else ask


def _area(reason: Reason) -> str:
    interval = reason.interval
    ends = "" if interval is None else f", {interval.low:.2f} to {interval.high:.2f}"
    return f"AUROC {number(reason.value, 2)}{ends}; chance gives 0.5"
