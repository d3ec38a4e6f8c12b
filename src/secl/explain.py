"""Explain the confidence of an answer. Console, pages, replies and reports lay out what `explain` returns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from secl.display import as_sentence, counted, percent, percents
from secl.evaluation.symptoms import Reason, seen_in_one
from secl.evidence import Posterior
from secl.facts.records import expected_wrong
from secl.labels.state import observed
from secl.methods import Plan
from secl.metrics.probability import bin_index
from secl.posterior.views import view_title
from secl.prompts.parsing import is_brief
from secl.records import ConfidenceSource, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why an answer has its confidence.

    Attributes:
        source: source of the label-free confidence.
        number: the label-free confidence and how secl computed it.
        weights: weights of the posterior's views (`weights_sentence`); None without a posterior.
        caveat: why the confidence is missing or not from the posterior (`caveat`).
        symptoms: reasons to doubt the confidence.
        evidence: the evidence for the model's own answer; None if another candidate is more probable, or if the model
            chooses another option when the options are in another order.
        labels: how labels moved the confidence; None before calibration.
        near: accuracy of the labelled answers near this confidence; None without these labels.
        accepted: whether the threshold accepts the answer; None without a threshold.
        learning: the gate's decision and the outcome of the lesson; empty for a method that does not learn.
    """

    source: ConfidenceSource
    number: str
    weights: str | None
    caveat: str | None
    symptoms: tuple[Reason, ...]
    evidence: str | None
    labels: str | None
    near: str | None
    accepted: str | None
    learning: tuple[str, ...] = ()

    @property
    def grounds(self) -> list[str]:
        """Sentences on the symptoms; without symptoms, `caveat` or `evidence`."""
        if self.symptoms:
            return [reason.sentence for reason in self.symptoms]
        return [as_sentence(text) for text in (self.caveat or self.evidence,) if text]

    @property
    def lines(self) -> list[str]:
        """All sentences, from the number to the lesson."""
        symptoms = (reason.sentence for reason in self.symptoms)
        shown = (self.number, self.weights, self.caveat or self.evidence, *symptoms, self.labels, self.near)
        return [as_sentence(text) for text in (*shown, self.accepted, *self.learning) if text]


def explain(
    record: Record, plan: Plan | None = None, *, threshold: float | None = None, paused: str | None = None
) -> Explanation:
    """Explain the confidence of an answer.

    Args:
        plan: the plan that the record followed; None if unknown.
        threshold: threshold of the gate's statistic; None if unknown.
        paused: why learning was paused when the model answered; None without a pause.

    >>> import secl
    >>> explain(secl.load(secl.testing.ScriptedModel(), method="stated").ask("Capital of Peru?")).grounds
    ['secl did not compare this answer with other candidates.']
    """
    learning: tuple[str, ...] = ()
    if plan is not None and plan.learns:
        lesson = _lesson(record, plan.loop.bin_gate, paused)
        learning = (f"gate: {_gate(record, threshold)}", f"lesson: {lesson}")
    source, posterior, symptoms = record.confidences.source, record.posterior, tuple(seen_in_one(record))
    other_order = any(reason.code == "same_letter" for reason in symptoms)  # the model chooses another option there
    compared = posterior is None or (posterior.own == posterior.best and not other_order)
    supported = compared and record.parts is None
    return Explanation(
        source=source,
        number=_number(record, source),
        weights=None if posterior is None else weights_sentence(posterior),
        caveat=caveat(record, plan),
        symptoms=symptoms,
        evidence=_evidence(record) if supported else None,
        labels=_labels(record),
        near=_near_labels(record),
        accepted=_accepted(record),
        learning=learning,
    )


def _number(record: Record, source: ConfidenceSource) -> str:
    if record.posterior is not None and source == "posterior":
        return _weighed(record, record.posterior)
    if record.parts is not None:
        return _of_facts(record.parts)
    return _stated(record)


def _of_facts(facts: Sequence[Record]) -> str:
    wrong = expected_wrong(facts)
    if not facts or math.isnan(wrong):
        return ""
    all_right = math.prod(fact.confidence for fact in facts)
    if len(facts) == 1:
        return f"the text states one fact, which is right with a probability of {percent(all_right)}"
    return (
        f"of the {len(facts)} facts of the text, {len(facts) - wrong:.1f} are expected to be right; "
        f"the probability that all are right is {percent(all_right)}"
    )


def _stated(record: Record) -> str:
    if not record.reply.bins:
        return ""
    frozen = f"the frozen model states {record.frozen.stated:.4f}"
    learned = frozen if record.reply.version else "the model had learned nothing"
    return (
        f"the model states {record.reply.stated:.4f} (mean of ten digits, weighted by their probabilities); {learned}"
    )


def _weighed(record: Record, posterior: Posterior) -> str:
    count = counted(len(set(posterior.candidates)), "candidate")
    of = "the best candidate" if record.best_returned and posterior.best != posterior.own else "the model's answer"
    views = " and ".join(name for name, weight in posterior.weights if weight > 0) or "no view"
    stated = f"; the model states {record.reply.stated:.4f}" if record.reply.bins else ""
    number = f"{of} has the probability {record.confidences.uncalibrated:.4f}{stated}"
    return f"of {count}, compared by {views}, {number}"


def caveat(record: Record, plan: Plan | None = None) -> str | None:
    """Return why the confidence is missing or not from the posterior, in a sentence.

    None if the posterior gives the confidence, or if the plan computes no posterior for this question.
    """
    if record.answer is None:
        repeats = record.question.free and record.reply.text.strip()
        return f"the {'text repeats itself' if repeats else 'answer could not be read'}, so it has no confidence."
    if record.parts is not None:
        return _caveat_of_text(record.parts)
    if record.confidences.source == "posterior":
        return None
    if record.reply.answer is None or not record.reply.bins:
        return "the model stated no confidence."
    if plan is not None and record.kind == "asked" and "candidates" not in plan.weighed(record.decision.in_burst):
        return None
    if record.posterior is not None:
        reason = "the model's own answer is none of the candidates"
    elif not record.question.options and not is_brief(record.reply.answer, record.question.form):
        reason = "the answer is too long to be compared with other answers"
    elif plan is not None:
        reason = "there are fewer than two different candidates to compare, or more candidates than letters"
    else:
        return None
    return f"{reason}, so the confidence is the stated one."


def _caveat_of_text(facts: Sequence[Record]) -> str | None:
    """Return why a text has no confidence; None if each of its facts has one."""
    if not facts:
        return "the text states no number, date, name, quotation or code that could be wrong, so it has no confidence."
    if any(math.isnan(fact.confidence) for fact in facts):
        return "the probabilities of the text's tokens are unknown, so its facts have no confidence."
    return None


def _evidence(record: Record) -> str:
    question, evidence, posterior = record.question, record.evidence, record.posterior
    if posterior is None:
        return "secl did not compare this answer with other candidates."
    orders = () if evidence.candidates is None else evidence.candidates.letters
    chosen = [each.log_p.index(max(each.log_p)) for each in orders if each.thought is not None]
    if chosen:
        same = 1 + chosen.count(posterior.best)
        return f"{same} of {len(chosen) + 1} thoughts lead to this answer."
    if question.options and orders:
        other = "another order" if len(orders) == 1 else "other orders"
        return f"With the options in {other}, the model chooses the same option."
    samples = () if evidence.candidates is None else evidence.candidates.samples
    if program := next((each for each in samples if each.program), None):
        same_number = "the same" if program.candidate == posterior.best else "another"
        return f"A short program that the model wrote gives {'no' if program.text is None else same_number} number."
    same = sum(each.candidate == posterior.best for each in samples)
    return f"The model repeats this answer in {same} of {counted(len(samples), 'further answer')}."


def _labels(record: Record) -> str | None:
    labelled = record.labelled
    if labelled is None:
        return None
    band = (
        "if the map of labels is a line in logits, the calibrated confidence lies with 90 % probability between "
        f"{labelled.low:.4f} and {labelled.high:.4f}"
    )
    if not labelled.labels:
        return f"no answer had a label yet; {band}"
    changed = labelled.calibrated - labelled.uncalibrated
    moved = f"moved the confidence by {changed:+.4f} to {labelled.calibrated:.4f}"
    return f"{counted(labelled.labels, 'label')}, {labelled.of_domain} of them in the same domain, {moved}; {band}"


def _near_labels(record: Record) -> str | None:
    labelled = record.labelled
    if labelled is None or record.answer is None or (ends := observed(labelled)) is None:
        return None
    share = f"{labelled.near_right:,} of {counted(labelled.near, 'labelled answer')} with a confidence within 0.1"
    return f"{share} of this one {'is' if labelled.near_right == 1 else 'are'} right ({percents(*ends)}, exact)."


def _accepted(record: Record) -> str | None:
    """Return whether the threshold accepts an answer or the facts of a text; None without a threshold."""
    if record.accept is None:
        return None
    if record.parts is None:
        return accepted_line(record.answer, record.confidence, record.accept)
    if record.accepted:
        return f"accepted: {'the only fact' if len(record.parts) == 1 else f'all {len(record.parts)} facts'}"
    count = sum(bool(fact.accepted) for fact in record.parts)
    return f"not accepted: {len(record.parts) - count} of {counted(len(record.parts), 'fact')}; check the marked facts"


def accepted_line(answer: str | None, confidence: float, accept: float) -> str:
    """Return whether an answer is accepted, in words.

    >>> accepted_line("A", 0.62, 0.6), accepted_line("A", 0.81031, 0.8103558700677252)
    ('accepted: 0.620 is at least 0.6', 'not accepted: 0.810 is below 0.811; ask a person or a larger model')
    """
    instead = "ask a person or a larger model"
    if answer is None:
        return f"not accepted: the answer could not be read; {instead}"
    shown, least = round(confidence, 3), round(accept, 3)
    if confidence >= accept:
        return f"accepted: {shown:.3f} is at least {least}"
    if shown >= least:  # too close for three decimals, so round the two numbers away from each other
        least = min(math.ceil(accept * 1000) / 1000, 1.0)
        shown = min(math.floor(confidence * 1000) / 1000, least - 0.001)
    return f"not accepted: {shown:.3f} is below {least}; {instead}"


def _gate(record: Record, threshold: float | None) -> str:
    decision = record.decision
    what = "alarm, a burst begins" if decision.alarm else "inside a burst" if decision.in_burst else "quiet"
    to_come = f", {counted(decision.remaining, 'question')} to come" if decision.in_burst else ""
    if decision.statistic is None:
        return f"{what}{to_come}; the gate made no test"
    against = "" if threshold is None else f" against the threshold {threshold:g}"
    return f"{what}{to_come}; statistic {decision.statistic:.4f}{against}"


def _lesson(record: Record, bin_gate: int | None, paused: str | None) -> str:
    """Return the outcome of a lesson and its reason."""
    update, signal = record.update, record.signal
    if update is not None and signal is not None:
        rule = "" if bin_gate is None else f", more than {counted(bin_gate, 'bin')} apart"
        return (
            f"the update made version {update.version}: stated confidence {update.before:.3f} "
            f"(bin {bin_index(update.before)}) against the signal {signal:.3f} (bin {bin_index(signal)}){rule}; "
            f"target {update.target:.3f}; stated confidence after the update: {update.after:.3f}"
        )
    signalled = "" if signal is None else f"; the signal was {signal:.3f} (bin {bin_index(signal)})"
    outcome = record.outcome or "idle"
    if outcome == "trained":
        return f"trained; the record lacks the update or its signal{signalled}"
    if record.kind == "given":
        return "given, because the answer came from elsewhere, and secl learns nothing from such answers"
    if record.kind == "field":
        return "field, because the answer is a field of an object, and secl learns nothing from fields"
    reason = {
        "idle": "the question is outside a burst",
        "waiting": "its lesson is not finished yet",
        "dropped": "too many lessons waited, or learning was paused or rolled back before this lesson was finished",
        "failed": "an error ended its lesson, and the weights did not change",
        "no_signal": "the evidence gave no signal to learn from",
        "agreed": f"stated confidence and signal were at most {counted(bin_gate or 0, 'bin')} apart during the lesson",
    }[outcome]
    if outcome == "idle" and record.decision.in_burst:
        reason = f"learning was paused: {paused}" if paused is not None else "learning was off, or had failed"
    return f"{outcome.replace('_', ' ')}, because {reason}{signalled}"


def weights_sentence(posterior: Posterior) -> str:
    """Return sentences on the weights of the views, on equal options, and on the reliability of letters."""
    weights = ", ".join(f"{weight:.2f} ({view_title(view)})" for view, weight in posterior.weights)
    if posterior.shared:
        earlier = counted(posterior.shared, "earlier question")
        weights += f", relative to {earlier} with the same options"
    if posterior.reliability is None:
        return f"weights of the views: {weights}."
    seen = f"from {counted(posterior.questions, 'question')}" if posterior.questions else "the prior"
    scale = "from 0 (only the positions of the options count) to 1 (only their content)"
    return f"weights of the views: {weights}. Reliability of letters, {scale}: {posterior.reliability:.2f} ({seen})."
