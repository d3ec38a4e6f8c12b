"""A server's history, and the explanation of one answer, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from secl.evidence import Posterior
from secl.records import Record, Reply
from secl.reports.acceptance_report import accepted_line
from secl.reports.console import BAR, listing
from secl.reports.formatting import UNDEFINED, counted, terminal_lines
from secl.server.audit.entries import record_id
from secl.server.audit.explain import Explanation
from secl.server.audit.history import History
from secl.server.audit.wording import weights_in_words

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN = 20
"""Latest rows of a table that are shown; the JSON output has them all."""

NORM = (
    "norm of the change: of all that the version adds to the weights; the page's drift is this over the norm of the "
    "weights themselves"
)

OUTCOMES = ("trained", "agreed", "no_signal", "waiting", "dropped", "failed", "idle")


def moment(seconds: float | None) -> str:
    """A time in seconds since 1970 as people read it, in UTC.

    >>> moment(0.0)
    '1970-01-01 00:00:00Z'
    """
    return UNDEFINED if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def history_page(history: History) -> list[RenderableType]:
    """A summary and three tables: bursts, versions, events."""
    learning = "learning is on" if history.paused is None else f"learning is paused: {terminal_lines(history.paused)}"
    lessons = ", ".join(f"{history.lessons[name]} {_words(name)}" for name in OUTCOMES if name in history.lessons)
    period = "" if history.began is None else f" from {moment(history.began)} to {moment(history.ended)}"
    return [
        f"{history.model}: {counted(history.answers, 'answer')}{_rated(history)}{period}",
        f"adapter version {history.version}; {learning}",
        *_pruned(history),
        f"lessons: {lessons or 'none'}; {counted(history.labelled, 'answer')} labelled by people",
        *_posteriors(history),
        *_section("Bursts", history.bursts, _bursts(history)),
        *_section("Versions (* is where learning stands)", history.versions, _versions(history)),
        *([NORM] if history.versions else []),
        *_section("Events", history.events, _events(history)),
    ]


def _pruned(history: History) -> list[RenderableType]:
    """What the page does not tell of any more."""
    if not history.first:
        return []
    return [
        f"the records before {record_id(history.first)} were pruned; counts are of all, bursts and versions of those "
        "that are kept"
    ]


def _rated(history: History) -> str:
    """How many of the answers were given to be rated."""
    given = history.lessons.get("given", 0)
    return f", {given} of them given and rated" if given else ""


def _posteriors(history: History) -> list[RenderableType]:
    counts = history.posteriors
    if not counts.answers:
        return []
    return [
        f"posterior of {counted(counts.answers, 'answer')}: the most probable candidate is not the model's own answer "
        f"{counts.differs} times, no sign of knowing {counts.uninformed} times"
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


FEEDBACK = {None: "nobody has said whether it is right", True: "people say: right", False: "people say: wrong"}


def explanation_page(explanation: Explanation) -> list[RenderableType]:
    """Why an answer got its number, from the question to the lesson."""
    from rich.text import Text

    served, record = explanation.served, explanation.served.record
    reply, frozen = record.reply, record.frozen
    alone = "alone" if served.batch == 1 else f"in a pass of {served.batch}"
    did = "rated" if record.given else "answered"
    title = f"{record_id(record.position)}, {did} {moment(served.time)} {alone} by adapter version {reply.version}"
    lesson = terminal_lines(explanation.reason)
    if record.update is None:
        lesson = f"{_words(record.outcome)}, because {lesson}"
    return [
        Text(title, style="bold"),
        "",
        _prompt(explanation),
        "",
        Text(terminal_lines(_answer(record)), style="bold"),
        *_reported(explanation),
        *_labels(explanation),
        f"stated confidence  {reply.confidence:.4f}   frozen model  {frozen.confidence:.4f}",
        f"entropy {reply.entropy:.4f} nats; probability of the ten digits together {reply.digit_mass:.4f}",
        _bins(reply, frozen),
        "",
        f"gate: {_gate(explanation)}",
        f"lesson: {lesson}",
        *_evidence(explanation),
        FEEDBACK[served.correct],
    ]


def _prompt(explanation: Explanation) -> RenderableType:
    if explanation.prompt is None:
        question = explanation.served.record.question
        return f"texts were not kept (keep-text {explanation.keep_text}); question: {question.text}"
    return _turns(explanation.prompt)


def _answer(record: Record) -> str:
    question, answer = record.question, record.answer
    if answer is None:
        return "no readable answer"
    return f"{answer}. {question.option(answer)}" if question.options else answer


def _reported(explanation: Explanation) -> list[RenderableType]:
    """The reported confidence where it is no stated one, the candidates, and what weighed them."""
    record, posterior = explanation.served.record, explanation.served.record.posterior
    parts: list[RenderableType] = []
    if explanation.source != "stated" or explanation.remark is not None:
        parts.append(f"reported confidence  {record.confidence:.4f} ({explanation.source})")
    if explanation.remark is not None:
        parts.append(explanation.remark)
    if record.accept is not None:
        parts.append(accepted_line(record.answer, record.confidence, record.accept))
    if posterior is None:
        return parts
    rows = [
        (f"{p:.4f}", _mark(posterior, number), terminal_lines(text))
        for number, (text, p) in enumerate(zip(posterior.candidates, posterior.probabilities, strict=True))
    ]
    return [*parts, listing(("posterior", "", "candidate"), rows), f"weights: {weights_in_words(posterior)}"]


def _labels(explanation: Explanation) -> list[RenderableType]:
    """The band of the confidence, and which labels moved it."""
    labelled = explanation.served.record.labelled
    if labelled is None:
        return []
    band = f"{labelled.low:.4f} to {labelled.high:.4f} with 90 % probability"
    if not labelled.labels:
        return [f"band               {band}: nobody had labelled an answer yet"]
    rows = [
        (record_id(each.position), "right" if each.correct else "wrong", f"{each.moved:+.4f}")
        for each in explanation.influences[:SHOWN]
    ]
    return [
        f"without labels     {labelled.label_free:.4f}; {counted(labelled.labels, 'label')} made it "
        f"{labelled.confidence:.4f}, {band}",
        listing(("label of", "people say", "moved it by"), rows),
    ]


def _mark(posterior: Posterior, number: int) -> str:
    names = {posterior.best: "best", posterior.own: "own answer"}
    if posterior.best == posterior.own:
        names[posterior.best] = "own answer, best"
    return names.get(number, "")


def _turns(prompt: Sequence[tuple[str, str]]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for role, text in prompt:
        table.add_row(Text(role, style="dim"), Text(terminal_lines(text)))
    return table


def _bins(reply: Reply, frozen: Reply) -> RenderableType:
    rows = [
        (f"{k}", f"{p:.4f}", f"{frozen:.4f}", "█" * round(BAR * p))
        for k, (p, frozen) in enumerate(zip(reply.bins, frozen.bins, strict=True))
    ]
    return listing(("digit", "probability", "frozen", ""), rows)


def _gate(explanation: Explanation) -> str:
    decision = explanation.served.record.decision
    what = "alarm, a burst begins" if decision.alarm else "inside a burst" if decision.in_burst else "quiet"
    to_come = f", {counted(decision.remaining, 'question')} to come" if decision.in_burst else ""
    if decision.statistic is None:
        return f"{what}{to_come}; nothing was tested"
    threshold = "" if explanation.threshold is None else f" against the threshold {explanation.threshold:g}"
    return f"{what}{to_come}; statistic {decision.statistic:.4f}{threshold}"


def _evidence(explanation: Explanation) -> list[RenderableType]:
    """P(True) of the answer and its distractors, and the bins that were compared."""
    record = explanation.served.record
    p_true = record.evidence.p_true
    parts: list[RenderableType] = []
    if p_true is not None:
        pairs = zip(p_true.candidates, p_true.probabilities, strict=True)
        heading = f"candidate ({p_true.distractor_source}; the first is the answer when the lesson was held)"
        parts.append(listing(("P(True)", heading), [(f"{p:.4f}", terminal_lines(text)) for text, p in pairs]))
    if record.signal is not None:
        stated_bin, bin_gate = explanation.stated_bin, explanation.bin_gate
        stated = "" if stated_bin is None else f"; stated confidence then in bin {stated_bin}"
        rule = "the bin gate is off" if bin_gate is None else f"the bin gate wants more than {bin_gate} apart"
        parts.append(f"signal {record.signal:.4f} in bin {explanation.signal_bin}{stated}; {rule}")
    return parts


def _words(name: str) -> str:
    return name.replace("_", " ")


def _number(value: float | None, form: str) -> str:
    return UNDEFINED if value is None else format(value, form)
