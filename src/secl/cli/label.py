"""The commands label, which asks for labels, and threshold, which turns labels into a guarantee."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Annotated

from cyclopts import Parameter

from secl.cli.app import AsJson, Flag, app, console, echo, print_json
from secl.display import counted, terminal_text
from secl.errors import ParameterError, RunError, needs
from secl.facts.records import GAP_MARK
from secl.labels.label import Label, LabelKey, valid
from secl.records import Record, answers_in
from secl.reports.acceptance_report import advice_json, advice_step, advice_table
from secl.reports.table import to_rich
from secl.runs.labelling import (
    advice_of,
    current_records,
    labels_from_references,
    labels_from_sheet,
    review_queue,
    waiting_keys,
)
from secl.runs.manifest import Manifest
from secl.runs.store import Store

KEY_HELP = "y right, n wrong, s skip, u undo the last reply, q quit"
WORDS = ("yes", "no", "skip", "undo", "quit")
"""Accepted replies; the first letter alone is the key. After any other text, such as "unsure", secl asks again."""


LabelledFolder = Annotated[
    Path, Parameter(help="A run, or the state of a stopped server (while running: its page /review).")
]


@app.command
def label(
    run: LabelledFolder,
    /,
    *,
    from_: Annotated[Path | None, Parameter(name="--from")] = None,
    references: Annotated[bool, Flag] = False,
    random: Annotated[bool, Flag] = False,
    undo: int | None = None,
) -> None:
    """Show answers in random order and ask whether each is right; then update the confidences of all answers.

    Of a text, secl asks for each fact.

    secl stores each label at once. After Ctrl-C, the same command continues.

    Args:
        from_: Take the labels from a table of secl export that people have filled in, all of them or none.
        references: Turn the right answers of your own table into labels.
        random: Say that you drew the judged rows of your table at random, so that their labels allow a guarantee.
        undo: Only take back the label of the answer at this position, or the labels of all its facts.
    """
    if sum((from_ is not None, references, undo is not None)) > 1 or (random and from_ is None and not references):
        raise ParameterError("give one of --from FILE, --references and --undo; --random needs one of the first two.")
    with Store(run, writable=True) as store:
        if undo is not None:
            if store.record(undo).position not in {each.position for each in valid(store.label_log())}:
                raise RunError(f"the answer at position {undo} has no label to withdraw.")
            store.add_feedback(undo, None)
            echo(f"the label of the answer at position {undo} is taken back.")
            return
        log = store.label_log()
        if from_ is not None:
            store.add_labels(labels_from_sheet(store, from_, random=random))
        elif references:
            store.add_labels(labels_from_references(store, random=random))
        else:
            with suppress(KeyboardInterrupt):
                _review(store, waiting_keys(store, review_queue(store).positions))
        for line in _describe_result(store, log):
            echo(line)


@app.command
def review(
    run: LabelledFolder,
    /,
    *,
    port: int = 0,
) -> None:
    """Show a page on this machine on which people label answers drawn at random, as secl label does.

    Args:
        port: Port of the page; 0 for any free port.
    """
    try:
        from secl.server.http.process import bind, serve_review, url
    except ModuleNotFoundError as problem:
        raise ParameterError(needs("secl review", str(problem.name).partition(".")[0], "server")) from None
    with Store(run, writable=True) as store, bind("127.0.0.1", port) as listener:
        log = store.label_log()
        echo(f"Label the answers at {url(listener)}review. Ctrl-C ends the page.")
        with suppress(KeyboardInterrupt):
            serve_review(store, listener)
        for line in _describe_result(store, log):
            echo(line)


def _describe_result(store: Store, before: Sequence[Label]) -> Iterator[str]:
    """Yield lines on the labels of a run, of which `before` are the entries before this command."""
    labels, log = store.labels(), store.label_log()
    right, skipped = sum(bool(each.correct) for each in labels), len(valid(log)) - len(labels)
    more = f", {skipped} skipped" if skipped else ""
    yield f"\n{counted(len(labels), 'label')}: {right} right, {len(labels) - right} wrong{more}."
    unknown = [entry for entry in log[len(before) :] if entry.chance is None and entry.correct is not None]
    # References of all answers are not a choice.
    if unknown and not (all(entry.source == "reference" for entry in unknown) and len(labels) == len(store)):
        yield (
            "secl does not know how the new answers were chosen, so their labels allow no guarantee. If you drew the "
            "judged rows at random, give the same command with --random."
        )
    if store.is_server:
        yield "The server uses these labels from its next start on."
    elif labels:
        logs = {"without labels": (), **({"before this command": before} if before else {}), "now": log}
        rated = (answers_in(current_records(store, by)) for by in logs.values())
        means = (fmean(answer.confidences.expected_grade for answer in answers) for answers in rated)
        shown = ", ".join(f"{mean:.3f} {name}" for name, mean in zip(logs, means, strict=True))
        yield f"Mean confidence {shown}; see: secl report {store.folder}"


def _review(store: Store, waiting: Sequence[LabelKey]) -> None:
    """Show one answer or fact after the other, and store its label."""
    if not waiting:
        echo("no answer is left to label.")
        return
    number = 0
    while number < len(waiting):
        position, fact = waiting[number]
        record = store.record(position)
        echo(f"\n{number + 1} of {len(waiting)}  ({terminal_text(record.question.domain)})")
        is_further = number > 0 and waiting[number - 1][0] == position
        for line in _show_fact(record, fact, is_further=is_further) if fact else _show(record):
            echo("\n".join(map(terminal_text, line.split("\n"))))
        word = _ask_user()
        if word == "q":
            return
        if word == "u":
            if number > 0:
                number -= 1
                last, fact = waiting[number]
                store.add_feedback(last, None, fact=fact)
            continue
        correct = None if word == "s" else word == "y"
        store.add_feedback(position, correct, drawn=True, skipped=word == "s", fact=fact)
        number += 1


def _ask_user() -> str:
    """Ask until the reply is valid, and return its key; the end of the input means "q"."""
    while True:
        echo(f"Is it right? ({KEY_HELP}) ", end="")
        reply = (sys.stdin.readline() or "q").strip().lower()
        if any(reply in (word, word[0]) for word in WORDS):
            return reply[0]


def _show_fact(record: Record, number: int, *, is_further: bool) -> list[str]:
    """Return the sentence of a fact, with the fact in brackets; before the first fact asked about, the whole text."""
    facts = record.facts or ()
    fact = facts[number - 1]
    sentence = fact.question.text.replace(GAP_MARK, f"[{fact.text}]", 1)
    return [*([] if is_further else _show(record)), f"Fact {number} of {len(facts)}: {sentence}"]


def _show(record: Record) -> list[str]:
    """Return the question and its answer, without the confidence, which would bias the label."""
    question, answer = record.question, record.answer
    earlier = [f"{turn.role}: {turn.text}" for turn in question.history]
    before = [f"system: {question.system}"] if question.system else []
    # If other turns with their speakers come before the question, show its speaker, too.
    last = f"user: {question.text}" if before or earlier else question.text
    lines = [*before, *earlier, *([question.context] if question.context else []), last]
    lines += [f"  {question.named(letter)}" for letter in question.letters]
    return [*lines, f"Answer: {question.named(answer) or '(could not be read) ' + record.reply.text}"]


@app.command
def threshold(
    run: Annotated[Path, Parameter(help="A run folder, or the state folder of a server.")],
    /,
    *,
    risk: float,
    certainty: float = 0.9,
    since: str | None = None,
    anytime: Annotated[bool, Flag] = False,
    as_json: AsJson = False,
) -> None:
    """Find the lowest confidence to accept for a permitted risk (share of wrong answers among accepted ones).

    With enough labels, secl guarantees the risk; without labels, secl estimates it.

    Args:
        risk: Largest permitted risk, for example 0.05.
        certainty: Probability that the guarantee holds.
        since: Use labels of the last days (30d) or from a date on (2026-03-01, UTC); all labels by default.
        anytime: Give a guarantee that holds however often you look while you label. It takes more labels.
    """
    with Store(run) as store:
        answers, advice = advice_of(store, risk, certainty, since=since, anytime=anytime)
        calibrates = bool(store.labels() or Manifest.of(store).calibration)
        step = advice_step(advice, shlex.quote(str(run)), calibrates=calibrates, server=store.is_server)
    if as_json:
        print_json({"run": str(run), "answers": len(answers.confidence), **advice_json(answers, advice)})
        return
    screen = console()
    screen.print(to_rich(advice_table(answers, advice)))
    if step is not None:
        screen.print(f"next: {step}", soft_wrap=True)
