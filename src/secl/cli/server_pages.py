"""A server's history, the explanation of one answer, and the outcome of a verification, as parts of a screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from secl.reports.console import bins_table, candidates_table, p_true_table
from secl.reports.formatting import UNDEFINED, counted, terminal_lines
from secl.reports.table import listing
from secl.server.entries import answer_text, record_id
from secl.server.explain import Explanation, learning_in_words, number_in_words, outcome_in_words, weights_in_words
from secl.server.history import History
from secl.server.recompute import Verification

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN = 20
"""Latest rows of a table that are shown; the JSON output has them all."""

MAX_FINDINGS = 50
"""Most findings that are printed."""

OUTCOMES = ("trained", "agreed", "no_signal", "waiting", "dropped", "failed", "idle")


def moment(seconds: float | None) -> str:
    """A time in seconds since 1970 as people read it, in UTC.

    >>> moment(0.0)
    '1970-01-01 00:00:00Z'
    """
    return UNDEFINED if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def history_page(history: History) -> list[RenderableType]:
    """A summary and three tables: bursts, versions, events."""
    learning = "learning is on" if history.learns else "learning is off, for this method learns nothing"
    if history.paused is not None:
        learning = f"learning is paused: {terminal_lines(history.paused)}"
    lessons = ", ".join(
        f"{history.lessons[name]} {outcome_in_words(name)}" for name in OUTCOMES if name in history.lessons
    )
    rated = history.lessons.get("given", 0)
    given = f", {rated} of them given and rated" if rated else ""
    period = "" if history.began is None else f" from {moment(history.began)} to {moment(history.ended)}"
    parts: list[RenderableType] = [
        f"{history.model}: {counted(history.answers, 'answer')}{given}{period}",
        f"adapter version {history.version}; {learning}",
    ]
    if history.first:
        first = record_id(history.first)
        kept = "counts are of all, bursts and versions of those that are kept"
        parts.append(f"the records before {first} were pruned; {kept}")
    parts.append(f"lessons: {lessons or 'none'}; {counted(history.labelled, 'answer')} labelled by people")
    return [
        *parts,
        *_section("Bursts", history.bursts, _bursts(history)),
        *_section("Versions (* is where learning stands)", history.versions, _versions(history)),
        *_section("Events", history.events, _events(history)),
    ]


def _bursts(history: History) -> RenderableType:
    kinds = [name for name in OUTCOMES if any(name in burst.lessons for burst in history.bursts)]
    rows = [
        (
            moment(burst.began),
            f"{burst.first} to {burst.last}",
            _number(burst.statistic, ".2f") if burst.alarm else "no alarm",
            *(str(burst.lessons.get(name, 0)) for name in kinds),
            UNDEFINED if burst.versions is None else f"{burst.versions[0]} to {burst.versions[1]}",
            str(burst.remaining) if burst.remaining else "",
        )
        for burst in history.bursts[-SHOWN:]
    ]
    return listing(("began", "records", "statistic", *map(outcome_in_words, kinds), "versions", "to come"), rows)


def _versions(history: History) -> RenderableType:
    rows = [
        (
            f"{'*' if used.current else ' '} {used.number}",
            moment(used.began) if used.number else "untouched model",
            UNDEFINED if used.position is None else str(used.position),
            str(used.answers),
            _number(used.shift, "+.3f"),
            _number(used.drift, ".4f"),
        )
        for used in history.versions[-SHOWN:]
    ]
    headings = ("version", "first answer", "record", "answers", "stated less frozen", "drift of the weights")
    return listing(headings, rows)


def _events(history: History) -> RenderableType:
    rows = [
        (
            moment(event.time),
            event.kind,
            UNDEFINED if event.position is None else str(event.position),
            str(event.version),
            terminal_lines(event.detail),
        )
        for event in history.events[-SHOWN:]
    ]
    return listing(("time", "what", "after record", "version", ""), rows)


def _section(title: str, rows: Sequence[object], table: RenderableType) -> list[RenderableType]:
    from rich.text import Text

    if not rows:
        return []
    earlier = f"  (the latest {SHOWN} of {len(rows)})" if len(rows) > SHOWN else ""
    return ["", Text(f"{title}{earlier}", style="bold"), table]


def explanation_page(explanation: Explanation) -> list[RenderableType]:
    """Why an answer got its number, from the question to the lesson."""
    from rich.text import Text

    served, record = explanation.served, explanation.served.record
    question, reply, frozen = record.question, record.reply, record.frozen
    alone = "alone" if served.batch == 1 else f"in a pass of {served.batch}"
    did = "rated" if record.given else "answered"
    title = f"{record_id(record.position)}, {did} {moment(served.time)} {alone} by adapter version {reply.version}"
    number = map(terminal_lines, number_in_words(explanation))
    parts: list[RenderableType] = [Text(title, style="bold"), ""]
    if not record.rated:
        turns = [*((turn.role, turn.text) for turn in question.history), ("user", question.text)]
        return [*parts, _turns(turns), "", Text(terminal_lines(answer_text(record)), style="bold"), *number]
    asked = f"texts were not kept (keep-text {explanation.keep_text}); question: {question.text}"
    parts += [
        asked if explanation.prompt is None else _turns(explanation.prompt),
        "",
        Text(terminal_lines(answer_text(record) if record.answer else "no readable answer"), style="bold"),
        f"reported confidence  {record.confidence:.4f} ({explanation.source})",
        *number,
    ]
    if record.posterior is not None:
        parts += [candidates_table(question, record.posterior), f"weights: {weights_in_words(record.posterior)}"]
    return [
        *parts,
        f"stated confidence  {reply.confidence:.4f}   frozen model  {frozen.confidence:.4f}",
        f"entropy {reply.entropy:.4f} nats; probability of the ten digits together {reply.digit_mass:.4f}",
        bins_table(reply, frozen),
        "",
        *_evidence(explanation),
        *map(terminal_lines, learning_in_words(explanation)),
    ]


def _turns(prompt: Sequence[tuple[str, str]]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for role, text in prompt:
        table.add_row(Text(role, style="dim"), Text(terminal_lines(text)))
    return table


def _evidence(explanation: Explanation) -> list[RenderableType]:
    """P(True) of the answer and its distractors, and the bins that were compared."""
    record = explanation.served.record
    p_true = record.evidence.p_true
    parts: list[RenderableType] = []
    if p_true is not None:
        parts.append(p_true_table(p_true))
    if record.signal is not None:
        stated_bin, bin_gate = explanation.stated_bin, explanation.bin_gate
        stated = "" if stated_bin is None else f"; stated confidence then in bin {stated_bin}"
        rule = "the bin gate is off" if bin_gate is None else f"the bin gate wants more than {bin_gate} apart"
        parts.append(f"signal {record.signal:.4f} in bin {explanation.signal_bin}{stated}; {rule}")
    return parts


def _number(value: float | None, form: str) -> str:
    return UNDEFINED if value is None else format(value, form)


def verification_page(outcome: Verification) -> list[RenderableType]:
    """What was verified and how it came out, the findings last."""
    counts = Counter(finding.check for finding in outcome.findings)
    records = counted(outcome.examined, "record")
    parts: list[RenderableType] = [
        f"gate        replayed over {records}: {_differences(counts['gate']) or 'every decision is as stored'}"
        f"{_apart(outcome, 'gate')}",
        f"posterior   {_differences(counts['posterior']) or 'every one is as stored'}{_apart(outcome, 'posterior')}",
        f"labels      {_differences(counts['labels']) or 'give every confidence as stored'}{_apart(outcome, 'labels')}",
        f"integrity   {records} examined: {_differences(counts['integrity']) or 'all tables agree'}",
        f"confidence  {_confidence(outcome)}",
    ]
    if outcome.first:
        parts.append(
            f"pruned      the records before {record_id(outcome.first)}; all this is about those that are kept"
        )
    for difference in outcome.environment:
        parts.append(f"            computed elsewhere, so every answer may differ by rounding: {difference}")
    for each in outcome.rederived:
        if each.match == "unsettled":
            parts.append(f"open {record_id(each.position)}: {each.detail}")
    for finding in outcome.findings[:MAX_FINDINGS]:
        where = "" if finding.position is None else f" {record_id(finding.position)}"
        parts.append(f"{finding.check}{where}: {finding.detail}")
    if len(outcome.findings) > MAX_FINDINGS:
        parts.append(f"... and {len(outcome.findings) - MAX_FINDINGS} more; see --json")
    return parts


def _confidence(outcome: Verification) -> str:
    if not outcome.rederived:
        return "no answer computed again"
    meanings = {
        "same": "the same to the last digit",
        "rounding": f"within {outcome.tolerance:g}, as other passes and processors round",
        "together": "the same to the last digit once asked with their pass",
        "unsettled": "open, because a close choice between words came out otherwise",
        "not kept": "not verifiable, because their texts were not kept",
        "differs": "different",
    }
    phrases = [f"{count} {meanings[name]}" for name, count in outcome.matches.items()]
    found = f"{counted(len(outcome.rederived), 'answer')} computed again: {', '.join(phrases)}"
    return found + _apart(outcome, "confidence")


def _apart(outcome: Verification, check: str) -> str:
    """How far numbers that agree lie apart at most; nothing where they are the same."""
    largest = outcome.largest[check]
    return f" (numbers at most {largest:.1g} apart)" if largest else ""


def _differences(count: int) -> str:
    return counted(count, "difference") if count else ""
