"""A server's history, the explanation of an answer, and the outcome of a verification, for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from secl.reports.console import bins_table, candidates_table, p_true_table
from secl.reports.formatting import UNDEFINED, counted, number, terminal_lines
from secl.reports.table import listing
from secl.server.entries import Served, Values, answer_text, moment
from secl.server.explain import Explained, outcome_in_words, weights_in_words
from secl.server.verify import Verification

SHOWN = 20
"""Maximum number of rows of a table, which shows the latest. The JSON output has all rows."""

MAX_FINDINGS = 50
"""Maximum number of findings to print."""


def history_page(past: Values) -> list[RenderableType]:
    """Return a summary of `secl.server.records.history`, with tables of versions and events."""
    learning = "on" if past["learns"] else "off, because this method does not learn"
    if past["paused"] is not None:
        learning = f"paused: {terminal_lines(past['paused'])}"
    period = "" if past["began"] is None else f" from {_time(past['began'])} to {_time(past['ended'])}"
    parts: list[RenderableType] = [
        f"{past['model']}: {counted(past['answers'], 'answer')}{period}",
        f"adapter version {past['version']}; learning is {learning}",
    ]
    if past["first"]:
        parts.append(f"the records before number {past['first']} were pruned")
    labelled = counted(past["labelled"], "answer")
    lessons = ", ".join(f"{count} {outcome_in_words(name)}" for name, count in sorted(past["lessons"].items()))
    parts.append(f"lessons: {lessons or 'none'}; {labelled} labelled by people")
    versions = [
        (
            f"{'*' if each['version'] == past['version'] else ' '} {each['version']}",
            str(each["position"]),
            _time(each["time"]),
            UNDEFINED if each["drift"] is None else f"{each['drift']:.4f}",
        )
        for each in reversed(past["versions"])
    ]
    events = [
        (
            _time(event["time"]),
            event["kind"],
            UNDEFINED if event["position"] is None else str(event["position"]),
            str(event["version"]),
            terminal_lines(event["detail"]),
        )
        for event in past["events"]
    ]
    of_versions = ("version", "first answer", "at", "drift of the weights")
    return [
        *parts,
        *_section("Versions (* marks the current one)", of_versions, versions),
        *_section("Events", ("time", "event", "after record", "version", ""), events),
    ]


def _section(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[RenderableType]:
    if not rows:
        return []
    earlier = f"  (the latest {SHOWN} of {len(rows)})" if len(rows) > SHOWN else ""
    return ["", Text(f"{title}{earlier}", style="bold"), listing(headings, rows[-SHOWN:])]


def _time(seconds: float | None) -> str:
    return UNDEFINED if seconds is None else f"{moment(seconds)}Z"


def explanation_page(served: Served, explained: Explained) -> list[RenderableType]:
    """Return the explanation of a confidence, from the question to the lesson."""
    record = served.record
    question, reply, posterior, p_true = record.question, record.reply, record.posterior, record.evidence.p_true
    alone = "alone" if served.batch == 1 else f"in a batch of {served.batch}"
    did = "rated" if record.given else "answered"
    title = (
        f"{served.id} (record {record.position}), {did} {_time(served.time)} {alone} by adapter version {reply.version}"
    )
    conversation: RenderableType = (
        f"texts were not kept (keep-text {explained['keep_text']}); question: {question.text}"
    )
    if explained["keep_text"] == "full":
        turns = [*((turn.role, turn.text) for turn in question.history), ("user", question.text)]
        read = [(turn["role"], turn["content"]) for turn in explained["prompt"] or ()]
        conversation = Table.grid(padding=(0, 2))
        for role, text in read or turns:
            conversation.add_row(Text(role, style="dim"), Text(terminal_lines(text)))
    answer = answer_text(record) if record.answer else "no readable answer"
    bold = Text(terminal_lines(answer), style="bold")
    parts: list[RenderableType] = [Text(title, style="bold"), "", conversation, "", bold]
    parts.append(f"reported confidence  {number(record.confidence, 4)} ({explained['source']})")
    parts += map(terminal_lines, explained["why"])
    if posterior is not None:
        parts += ["", candidates_table(question, posterior), f"weights: {weights_in_words(posterior)}"]
    if p_true is not None:
        parts += ["", p_true_table(p_true)]
    stated = f"stated confidence  {reply.stated:.4f}   frozen model  {record.frozen.stated:.4f}"
    numbers = f"entropy {reply.entropy:.4f} nats; probability of the ten digits together {reply.digit_mass:.4f}"
    return [*parts, "", stated, numbers, bins_table(reply, record.frozen)]


AGREES = {True: "agree", None: "not verifiable", False: "different"}


def verification_page(outcome: Verification) -> list[RenderableType]:
    """Return the results of a verification, the findings last."""
    counts = Counter[str](finding.check for finding in outcome.findings)
    records = counted(outcome.examined, "record")
    agreeing = {
        "gate": f"replayed over {records}: every decision is as stored",
        "posterior": "every posterior is as stored",
        "labels": "every confidence after labels is as stored",
        "integrity": f"{records} examined: all tables agree",
    }
    parts: list[RenderableType] = [
        f"{check:12}{counted(counts[check], 'difference') if counts[check] else all_well}{_apart(outcome, check)}"
        for check, all_well in agreeing.items()
    ]
    numbers = Counter(each.agrees for each in outcome.rederived)
    phrases = ", ".join(f"{numbers[agrees]} {words}" for agrees, words in AGREES.items() if numbers[agrees])
    answers = f"{counted(len(outcome.rederived), 'answer')} computed again: {phrases}"
    answers = answers if phrases else "no answer computed again"
    parts.append(f"confidence  {answers}{_apart(outcome, 'confidence')}")
    if outcome.first:
        parts.append(f"pruned      the records before number {outcome.first}; the checks are about the kept records")
    for difference in outcome.environment:
        parts.append(f"            another environment, so every answer may differ by rounding: {difference}")
    for each in outcome.rederived:
        if each.agrees is None:
            parts.append(f"open record {each.position}: {each.detail}")
    for finding in outcome.findings[:MAX_FINDINGS]:
        where = "" if finding.position is None else f" of record {finding.position}"
        parts.append(f"{finding.check}{where}: {finding.detail}")
    if len(outcome.findings) > MAX_FINDINGS:
        parts.append(f"... and {len(outcome.findings) - MAX_FINDINGS} more; see --json")
    return parts


def _apart(outcome: Verification, check: str) -> str:
    """Return the largest tolerated difference between numbers, in words; empty without one."""
    largest = outcome.largest.get(check)
    return f" (numbers at most {largest:.1g} apart)" if largest else ""
