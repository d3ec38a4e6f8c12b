"""Tables and sentences about one answered question, for the terminal: candidates, reasons and evidence."""

from __future__ import annotations

from rich.table import Table as RichTable
from rich.text import Text

from secl.display import counted, excerpt, percent, terminal_lines
from secl.evidence import Posterior, PTrue
from secl.explain import explain
from secl.question import Question
from secl.records import Record, Reply
from secl.reports.table import Table, listing, plain_table
from secl.reports.texts import interval_of, segments_of

BAR = 30
"""Width of a full bar in characters."""

MAX_CHARACTERS = 300
"""Maximum number of characters of a candidate in the table of an answer."""

MAX_CANDIDATES = 5
"""Maximum number of candidates in the table of an answer; the table always has the model's own answer."""


def answer_table(record: Record) -> Table:
    """Return a table: the returned answer with its confidence and 90 % interval, then the other candidates."""
    posterior, own = record.posterior, record.reply.answer
    stated = f"own answer, stated {percent(record.reply.stated)}" if own is not None else "no readable answer"
    near = explain(record).near
    notes = [near] if near else []
    if posterior is None or record.answer is None:
        rows = [(record.text or "no readable answer", interval_of(record), stated if own is not None else "")]
        return plain_table(("answer", "confidence", ""), rows, notes, texts=1)
    order = _ranked(posterior)
    returned = posterior.best if record.best_returned else posterior.own
    rows = []
    for number in [each for each in order if each == returned] + [each for each in order if each != returned]:
        note = stated if number == posterior.own else ""
        share = interval_of(record) if number == returned else percent(posterior.probabilities[number])
        if len(rows) < MAX_CANDIDATES or note:
            rows.append((excerpt(_candidate(posterior, number), MAX_CHARACTERS), share, note))
    if len(order) > len(rows):
        rows.append((f"and {counted(len(order) - len(rows), 'other')}", "", ""))
    notes += [] if own is not None else ["The model's own reply holds no readable answer."]
    return plain_table(("answer", "confidence", ""), rows, notes, texts=1)


def marked_text(record: Record) -> Text:
    """Return the text of a record, with its uncertain facts underlined and their confidences behind them."""
    marked = Text()
    for segment in segments_of(record):
        marked.append(terminal_lines(segment.text), style="bold underline yellow" if segment.is_uncertain else "")
        marked.append(f" {segment.mark}" if segment.mark else "", style="dim")
    return marked


def _candidate(posterior: Posterior, number: int) -> str:
    """Return a candidate as text; the last candidate may stand for all unlisted answers."""
    unlisted = posterior.none_last and number == len(posterior.candidates) - 1
    return "any other answer" if unlisted else posterior.candidates[number]


def evidence_tables(record: Record, tau: float | None = None) -> list[RichTable]:
    """Return tables of the evidence: single facts, digits of the stated confidence, P(True), and candidates.

    `tau`: temperature of normalised P(True); None if unknown.
    """
    reply, posterior, p_true = record.reply, record.posterior, record.evidence.p_true
    facts = {"stated confidence": f"{reply.stated:.4f}"}
    if reply.version:
        facts |= {"before adapting": f"{record.frozen.stated:.4f}", "version of the weights": str(reply.version)}
    facts |= {"entropy in nats": f"{reply.entropy:.4f}", "probability of all digits": f"{reply.digit_mass:.4f}"}
    if reply.thought is not None:
        facts["tokens of the thought"] = f"{reply.thought.tokens}{', cut off' if reply.thought.cut else ''}"
        facts["thought"] = excerpt(reply.thought.text or "not kept", MAX_CHARACTERS)
    if record.signal is not None:
        facts["normalised P(True)" + ("" if tau is None else f", tau {tau:g}")] = f"{record.signal:.4f}"
    facts |= {f"weight of the view {name}": f"{value:.2f}" for name, value in (posterior.weights if posterior else ())}
    tables = [listing(("", "value"), facts.items())]
    tables += [_bins_table(reply, record.frozen)] if reply.bins else []
    tables += [_p_true_table(p_true)] if p_true is not None else []
    return [*tables, _candidates_table(record.question, posterior)] if posterior is not None else tables


def _ranked(posterior: Posterior) -> list[int]:
    return sorted(range(len(posterior.candidates)), key=lambda number: -posterior.probabilities[number])


def _bins_table(reply: Reply, frozen: Reply) -> RichTable:
    """Return a table of the ten digits of the stated confidence: probabilities in the reply and in the frozen reply."""
    rows = [
        (f"{digit}", f"{p:.4f}", f"{before:.4f}", "█" * round(BAR * p))
        for digit, (p, before) in enumerate(zip(reply.bins, frozen.bins, strict=True))
    ]
    return listing(("digit", "probability", "frozen", ""), rows)


def _p_true_table(p_true: PTrue) -> RichTable:
    """Return a table of P(True): first the answer, then its distractors, then other candidates."""
    pairs = zip(p_true.probabilities, p_true.candidates, strict=True)
    rows = [(f"{p:.4f}", candidate) for p, candidate in pairs]
    return listing(("P(True)", f"candidate (the answer first; distractors: {p_true.source})"), rows)


def _candidates_table(question: Question, posterior: Posterior) -> RichTable:
    """Return a table with probability, text and role ("own answer", "best") of each candidate, by probability."""
    rows = []
    for number in _ranked(posterior):
        named = question.named(question.letters[number]) if question.options else _candidate(posterior, number)
        roles = [word for word, role in (("own answer", posterior.own), ("best", posterior.best)) if role == number]
        rows.append((f"{posterior.probabilities[number]:.4f}", named, ", ".join(roles)))
    return listing(("posterior", "candidate", ""), rows)
