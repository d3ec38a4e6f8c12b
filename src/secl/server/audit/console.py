"""A server's history, the story of one answer, and the outcome of a verification, for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from secl.records import Reply
from secl.reports.console import BAR, listing
from secl.reports.formatting import UNDEFINED
from secl.server.audit.entries import record_id
from secl.server.audit.explain import Explanation
from secl.server.audit.history import History
from secl.server.audit.replay import Verification

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN = 20
"""Latest rows of a table that are shown; the JSON output has them all."""

FOUND = 50
"""Most findings that are printed."""

LESSONS = ("trained", "agreed", "no_signal", "waiting", "dropped", "failed", "idle")


def moment(seconds: float | None) -> str:
    """A time in seconds since 1970 as people read it, in UTC.

    >>> moment(0.0)
    '1970-01-01 00:00:00Z'
    """
    return UNDEFINED if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def visible(text: str) -> str:
    """A text of unknown origin without what would steer a terminal: escapes, controls, reversals of direction.

    >>> visible("red: \\x1b[31m, done")
    'red: \\\\x1b[31m, done'
    """
    plain = text.expandtabs(4)
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in plain)


def history_page(history: History) -> list[RenderableType]:
    """A summary and four tables: bursts, versions, events."""
    learning = "learning is on" if history.paused is None else f"learning is paused: {visible(history.paused)}"
    lessons = ", ".join(f"{history.lessons[name]} {_words(name)}" for name in LESSONS if name in history.lessons)
    about = "" if history.began is None else f" from {moment(history.began)} to {moment(history.ended)}"
    return [
        f"{history.model}: {_count(history.answers, 'answer')}{about}",
        f"adapter version {history.version}; {learning}",
        f"lessons: {lessons or 'none'}; {_count(history.labelled, 'answer')} labelled by people",
        *_section("Bursts", history.bursts, _bursts(history)),
        *_section("Versions (* is where learning stands)", history.versions, _versions(history)),
        *_section("Events", history.events, _events(history)),
    ]


def _bursts(history: History) -> RenderableType:
    kinds = [name for name in LESSONS if any(name in burst.lessons for burst in history.bursts)]
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
    return listing(("began", "records", "statistic", *map(_words, kinds), "versions", "to come"), rows)


def _versions(history: History) -> RenderableType:
    rows = [
        (
            f"{'*' if used.current else ' '} {used.number}",
            moment(used.began) if used.number else "untouched model",
            UNDEFINED if used.position is None else str(used.position),
            str(used.answers),
            _number(used.shift, "+.3f"),
            _number(used.norm, ".4f"),
        )
        for used in history.versions[-SHOWN:]
    ]
    headings = ("version", "first answer", "record", "answers", "stated less frozen", "norm of the change")
    return listing(headings, rows)


def _events(history: History) -> RenderableType:
    rows = [
        (
            moment(event.time),
            event.kind,
            UNDEFINED if event.position is None else str(event.position),
            str(event.version),
            visible(event.detail),
        )
        for event in history.events[-SHOWN:]
    ]
    return listing(("time", "what", "after record", "version", ""), rows)


def _section(title: str, rows: Sequence[Any], table: RenderableType) -> list[RenderableType]:
    from rich.text import Text

    if not rows:
        return []
    earlier = f"  (the latest {SHOWN} of {len(rows)})" if len(rows) > SHOWN else ""
    return ["", Text(f"{title}{earlier}", style="bold"), table]


def explanation_page(told: Explanation) -> list[RenderableType]:
    """Why an answer got its number, from the question to the lesson."""
    from rich.text import Text

    served, record = told.served, told.served.record
    question, reply, frozen = record.question, record.reply, record.frozen
    said = {None: "nobody has said whether it is right", True: "people say: right", False: "people say: wrong"}
    alone = "alone" if served.batch == 1 else f"in a pass of {served.batch}"
    answer = "no readable answer" if reply.answer is None else reply.answer
    if question.options and reply.answer is not None:
        answer = f"{reply.answer}. {question.option(reply.answer)}"
    title = f"{record_id(record.position)}, answered {moment(served.time)} {alone} by adapter version {reply.version}"
    answer = visible(answer)
    parts: list[RenderableType] = [Text(title, style="bold"), ""]
    if told.prompt is None:
        parts.append(f"texts were not kept (keep-text {told.keep_text}); question: {question.text}")
    else:
        parts.append(_turns(told.prompt))
    parts += [
        "",
        Text(answer, style="bold"),
        f"stated confidence  {reply.confidence:.4f}   frozen model  {frozen.confidence:.4f}",
        f"entropy {reply.entropy:.4f} nats; probability of the ten digits together {reply.digit_mass:.4f}",
        _bins(reply, frozen),
        "",
        f"gate: {_gate(told)}",
        f"lesson: {_words(record.outcome)}, because {visible(told.reason)}"
        if record.update is None
        else f"lesson: {visible(told.reason)}",
        *_evidence(told),
        said[served.correct],
    ]
    return parts


def _turns(prompt: Sequence[tuple[str, str]]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for role, text in prompt:
        table.add_row(Text(role, style="dim"), Text(visible(text)))
    return table


def _bins(reply: Reply, frozen: Reply) -> RenderableType:
    rows = [
        (f"{k}", f"{p:.4f}", f"{frozen:.4f}", "█" * round(BAR * p))
        for k, (p, frozen) in enumerate(zip(reply.bins, frozen.bins, strict=True))
    ]
    return listing(("digit", "probability", "paused", ""), rows)


def _gate(told: Explanation) -> str:
    decision = told.served.record.decision
    what = "alarm, a burst begins" if decision.alarm else "inside a burst" if decision.in_burst else "quiet"
    to_come = f", {_count(decision.remaining, 'question')} to come" if decision.in_burst else ""
    if decision.statistic is None:
        return f"{what}{to_come}; nothing was tested"
    against = "" if told.threshold is None else f" against the threshold {told.threshold:g}"
    return f"{what}{to_come}; statistic {decision.statistic:.4f}{against}"


def _evidence(told: Explanation) -> list[RenderableType]:
    """What the frozen model thinks of the answer and its dinco_probe, and the bins that were compared."""
    record = told.served.record
    p_true = record.evidence.p_true
    parts: list[RenderableType] = []
    if p_true is not None:
        pairs = zip(p_true.candidates, p_true.probabilities, strict=True)
        heading = f"candidate ({p_true.distractor_source}; the first is the answer when the lesson was held)"
        parts.append(listing(("P(True)", heading), [(f"{p:.4f}", visible(text)) for text, p in pairs]))
    if record.signal is not None:
        stated = "" if told.stated_bin is None else f"; stated confidence then in bin {told.stated_bin}"
        wide = "the bin gate is off" if told.bin_gate is None else f"the bin gate wants more than {told.bin_gate} apart"
        parts.append(f"signal {record.signal:.4f} in bin {told.signal_bin}{stated}; {wide}")
    return parts


def verification_page(outcome: Verification) -> list[RenderableType]:
    """What was verified and how it came out, the findings last."""
    wrong = {name: [f for f in outcome.findings if f.check == name] for name in ("gate", "integrity", "confidence")}
    whole = _count(outcome.examined, "record")
    parts: list[RenderableType] = [
        f"gate        replayed over {whole}: {_verdict(wrong['gate'], 'every decision is as stored')}",
        f"integrity   {whole} examined: {_verdict(wrong['integrity'], 'all tables agree')}",
        f"confidence  {_confidence(outcome)}",
    ]
    for difference in outcome.environment:
        parts.append(f"            computed elsewhere, so the tolerance holds for every answer: {difference}")
    for finding in outcome.findings[:FOUND]:
        where = "" if finding.position is None else f" {record_id(finding.position)}"
        parts.append(f"{finding.check}{where}: {finding.detail}")
    if len(outcome.findings) > FOUND:
        parts.append(f"... and {len(outcome.findings) - FOUND} more; see --json")
    return parts


def _confidence(outcome: Verification) -> str:
    if not outcome.rederived:
        return "no answer computed again"
    meanings = {
        "same": "the same to the last digit",
        "close": f"within {outcome.tolerance:g}, as a pass of another shape rounds",
        "together": "the same to the last digit once asked with their pass",
        "not kept": "not verifiable, because their texts were not kept",
        "differs": "different",
    }
    found = [f"{count} {meanings[name]}{_worst(outcome, name)}" for name, count in outcome.verdicts.items()]
    return f"{_count(len(outcome.rederived), 'answer')} computed again: {', '.join(found)}"


def _worst(outcome: Verification, name: str) -> str:
    """The largest difference among answers that came out close."""
    apart = [each.difference for each in outcome.rederived if each.verdict == name and each.difference is not None]
    return f" (at most {max(apart):.1g} apart)" if name == "close" and apart else ""


def _verdict(found: Iterable[object], good: str) -> str:
    count = len(list(found))
    return f"{_count(count, 'difference')}" if count else good


def _words(name: str) -> str:
    return name.replace("_", " ")


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _number(value: float | None, form: str) -> str:
    return UNDEFINED if value is None else format(value, form)
