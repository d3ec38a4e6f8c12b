"""One answered question for the shell, in a few lines or in full."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from secl.display import excerpt
from secl.evaluation.symptoms import seen_in_one
from secl.evidence import Posterior, PTrue, Sample
from secl.question import Question
from secl.records import Record, Reply
from secl.reports.formatting import counted, terminal_lines, terminal_text, whole_percent
from secl.reports.table import listing
from secl.signals import NormalisedPTrue

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

BAR = 30
"""Width of a full bar in characters."""

LONGEST = 40
"""Characters of a candidate that stands beside others, and of an answer that has its number on the same line."""

LINE = 76
"""Characters of the line of other candidates; those that do not fit are counted."""


def answer_lines(record: Record) -> list[str]:
    """One question, answered with the most probable candidate: the answer with one number, the others, and why."""
    posterior = record.posterior
    own = posterior is None or posterior.own == posterior.best
    lines = _first(record, own=own)
    if posterior is not None:
        lines += _others(posterior, without=(posterior.best, posterior.own))
    if not own:
        lines.append(_of_own(record))
    reasons = [reason.sentence for reason in seen_in_one(record.question, record.reply, record.evidence)]
    if not reasons and own:
        reasons = [_why(record)]
    return [terminal_lines(line) for line in lines] + [terminal_text(reason) for reason in reasons]


def _first(record: Record, *, own: bool) -> list[str]:
    """The answer and how probable it is, on one line where it is short."""
    text = _text(record.question, record.answer)
    if text is None:
        return ["no readable answer"]
    likely = f"{whole_percent(record.confidence)} likely right"
    if record.posterior is None:
        likely += ", by the model's own claim alone"
    elif own:
        likely += f"   (the model itself claims {whole_percent(record.reply.stated)})"
    short = len(text) <= LONGEST and "\n" not in text
    return [f"{text}   {likely}"] if short else [text, likely]


def _others(posterior: Posterior, without: Collection[int | None]) -> list[str]:
    """The other candidates with their shares, as many as fit on a line; no line for none."""
    numbers = [number for number in _ranked(posterior) if number not in without]
    line = ""
    for shown, number in enumerate(numbers):
        share = whole_percent(posterior.probabilities[number])
        longer = f"{line}{'   ' if line else '  '}{excerpt(posterior.candidates[number], LONGEST)} {share}"
        if len(longer) > LINE - len("   and 99 more"):
            return [f"{line}   and {len(numbers) - shown} more"]
        line = longer
    return [line] if line else []


def _of_own(record: Record) -> str:
    """What the model itself answered, where that is not the answer that is given."""
    text = _text(record.question, record.reply.answer)
    if text is None:
        return "The model's own reply holds no readable answer."
    claim = whole_percent(record.reply.stated)
    text_and_claim = f'The model itself answers "{excerpt(text, 2 * LONGEST)}" and claims {claim}'
    likely = None if record.posterior is None else record.posterior.confidence
    return f"{text_and_claim}." if likely is None else f"{text_and_claim}; {whole_percent(likely)} likely right."


def _why(record: Record) -> str:
    """What the number rests on, in one sentence."""
    question, evidence, posterior = record.question, record.evidence, record.posterior
    if posterior is None:
        return "There are no two different candidates to compare."
    orders = () if evidence.candidates is None else evidence.candidates.letters
    if question.options and orders:
        return f"Shown the options in {'another order' if len(orders) == 1 else 'other orders'}, it picks the same."
    samples = () if evidence.candidates is None else evidence.candidates.samples
    computed = [each for each in samples if each.program]
    if computed:
        return f"A short program that it wrote {_compared(computed[0], posterior.best)}."
    return _repeated(samples, posterior.best)


def _compared(program: Sample, number: int) -> str:
    if program.text is None:
        return "comes to no number"
    return "comes to the same number" if program.candidate == number else "comes to another number"


def _repeated(drawn: Sequence[Sample], number: int) -> str:
    same = sum(each.candidate == number for each in drawn)
    often = "says the same every time" if same == len(drawn) else f"says the same {counted(same, 'time')}"
    return f"Asked {counted(len(drawn), 'time')} more, it {often if same else 'never says the same'}."


def _text(question: Question, answer: str | None) -> str | None:
    """An answer without a letter; None if none could be read."""
    return None if answer is None else question.text_of(answer)


def answer_panel(record: Record, normalise: NormalisedPTrue) -> Group:
    """The model's own answer, what it states, the ten bins behind that, and what it thinks of the alternatives."""
    from rich.console import Group
    from rich.text import Text

    question, reply, posterior, p_true = record.question, record.reply, record.posterior, record.evidence.p_true
    answer = question.named(reply.answer) or "no readable answer"
    parts: list[Text | Table] = [
        Text(f"own answer         {terminal_lines(answer)}", style="bold"),
        Text(f"stated confidence  {reply.stated:.3f}  (adapter version {reply.version})"),
    ]
    if reply.version:
        parts.append(Text(f"before adapting    {record.frozen.stated:.3f}", style="dim"))
    if record.signal is not None:
        formula = "" if normalise.formula == "log" else f", formula {normalise.formula}"
        parts.append(Text(f"normalised P(True) {record.signal:.3f}  (tau {normalise.tau:g}{formula})"))
    if posterior is None or posterior.confidence is None:
        parts.append(Text("posterior          none: there are no two different candidates to compare", style="dim"))
    else:
        weights = ", ".join(f"{name} {weight:.2f}" for name, weight in posterior.weights)
        parts.append(Text(f"posterior          {posterior.confidence:.3f}  ({weights})"))
    parts.append(bins_table(reply, record.frozen))
    if p_true is not None:
        parts.append(p_true_table(p_true))
    if posterior is not None:
        parts.append(candidates_table(question, posterior))
    return Group(*parts)


def answer_json(record: Record) -> dict[str, object]:
    """The same as JSON values; what there is none of is None."""
    question, reply, posterior, p_true = record.question, record.reply, record.posterior, record.evidence.p_true
    return {
        "question": question.text,
        "options": list(question.options),
        "answer": record.answer,
        "answer_text": _text(question, record.answer),
        "confidence": record.confidence,
        "source": "stated" if posterior is None else "posterior",
        "own_answer": reply.answer,
        "own_answer_text": _text(question, reply.answer),
        "own_confidence": None if posterior is None else posterior.confidence,
        "stated_confidence": reply.stated,
        "frozen_confidence": record.frozen.stated,
        "bins": list(reply.bins),
        "digit_mass": reply.digit_mass,
        "version": reply.version,
        "normalised_p_true": record.signal,
        "p_true": None if p_true is None else _pairs(p_true.candidates, p_true.probabilities),
        "posterior": None if posterior is None else _pairs(posterior.candidates, posterior.probabilities),
        "accepted": record.accepted,
        "warnings": [reason.sentence for reason in seen_in_one(question, reply, record.evidence)],
    }


def _pairs(candidates: Sequence[str], probabilities: Sequence[float]) -> list[dict[str, object]]:
    return [{"text": text, "probability": p} for text, p in zip(candidates, probabilities, strict=True)]


def _ranked(posterior: Posterior) -> list[int]:
    """The numbers of the candidates, the most probable first."""
    return sorted(range(len(posterior.candidates)), key=lambda number: -posterior.probabilities[number])


def bins_table(reply: Reply, frozen: Reply) -> Table:
    """The probability of each of the ten digits behind a stated confidence, now and of the frozen model."""
    rows = [
        (f"{digit}", f"{p:.4f}", f"{before:.4f}", "█" * round(BAR * p))
        for digit, (p, before) in enumerate(zip(reply.bins, frozen.bins, strict=True))
    ]
    return listing(("digit", "probability", "frozen", ""), rows)


def p_true_table(p_true: PTrue) -> Table:
    """P(True) of an answer, which stands first, and of its distractors."""
    pairs = zip(p_true.probabilities, p_true.candidates, strict=True)
    rows = [(f"{p:.4f}", candidate) for p, candidate in pairs]
    return listing(("P(True)", f"candidate ({p_true.distractor_source}; the answer first)"), rows)


def candidates_table(question: Question, posterior: Posterior) -> Table:
    """Probability, text and role of each candidate, the most probable first."""
    rows = []
    for number in _ranked(posterior):
        named = question.named(question.letters[number]) if question.options else posterior.candidates[number]
        roles = [word for word, role in (("own answer", posterior.own), ("best", posterior.best)) if role == number]
        rows.append((f"{posterior.probabilities[number]:.4f}", named, ", ".join(roles)))
    return listing(("posterior", "candidate", ""), rows)
