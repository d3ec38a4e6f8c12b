"""Commands for single answers and lists: ask, score, models, methods and benchmarks."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.filesize import decimal

from secl.cli.app import FURTHER_SETTINGS, AsJson, AskedSettings, Flag, Full, app, console, echo, print_json
from secl.cli.run import DryRun, NoCache, estimate, open_cache, print_result, proceed
from secl.data.benchmarks import BENCHMARKS
from secl.display import as_sentence, counted, terminal_lines, terminal_text
from secl.errors import ParameterError
from secl.evaluation.json_values import json_value
from secl.evaluation.trust import assess
from secl.explain import Explanation, explain
from secl.methods import METHODS
from secl.question import Form, Question
from secl.records import Record
from secl.reports.acceptance_report import accepted_sentence
from secl.reports.answers import questions_table
from secl.reports.console import answer_table, evidence_tables, marked_text
from secl.reports.table import listing, to_rich
from secl.reports.texts import LEAST_CERTAIN, facts_table
from secl.runs.cache import ReadingCache, cache_path
from secl.runs.encoding import to_export
from secl.runs.loading import load_for_asking
from secl.runs.runner import Run, start_run
from secl.runs.settings import Recipe, score_settings
from secl.settings.groups import FLAT, HIDDEN, Names, StreamSettings
from secl.settings.names import OF_QUESTIONS, given_by


@app.command(help_epilogue=FURTHER_SETTINGS)
def ask(
    question: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    option: list[str] | None = None,
    form: Form | None = None,
    context: Annotated[str, Parameter(show_default=False)] = "",
    system: Annotated[str, Parameter(show_default=False)] = "",
    version: Path | None = None,
    flags: Annotated[Recipe | None, FLAT] = None,
    full: Full = False,
    as_json: AsJson = False,
) -> None:
    """Ask one question: print the answer, the probability that it is correct, and the other candidates.

    Args:
        question: The question, or - for standard input.
        option: One of the answers to choose from; repeat the flag for each answer.
        form: Form of an open answer: short (the default), sentence, number, or text, whose facts get confidences.
        context: Passage to answer from.
        system: System text; by default the model's own.
        version: Folder of a run; the model answers with the weights that this run learned.
    """
    if question.startswith("--") and len(question.split()) == 1:
        raise ParameterError(f"ask has no option {question}; secl ask --help lists its options.")
    text = sys.stdin.read() if question == "-" else question
    to_ask = Question.of(text.rstrip("\n"), options=option or (), form=form, context=context, system=system)
    values = given_by(flags)
    # Not by default: for an open question, P(True) takes longer than all other evidence.
    if (full or as_json) and not to_ask.free:
        kinds = values.get("evidence.extra_evidence", ())
        values["evidence.extra_evidence"] = tuple(dict.fromkeys((*kinds, "p_true")))  # type: ignore[misc]
    calibrator, recipe = load_for_asking(values, version)
    gc.freeze()  # garbage collection would scan all loaded objects, which takes as long as writing ten tokens
    record = calibrator.ask(to_ask)
    explained = explain(record, calibrator.plan)
    if as_json:
        print_json({**json_value(to_export(record)), "warnings": [each.sentence for each in explained.symptoms]})
        return
    screen = console()
    if record.parts is None:
        if record.question.free and record.answer is None:
            screen.print(terminal_lines(record.reply.text), highlight=False)
        screen.print(to_rich(answer_table(record)))
    else:
        _print_text(record, explained, full=full)
    for line in explained.grounds:
        screen.print(terminal_text(line), highlight=False)
    if explained.accepted is not None:
        screen.print(explained.accepted, soft_wrap=True)
    for table in evidence_tables(record, recipe.tau(calibrator.model.tau)) if full else ():
        screen.print()
        screen.print(table)
    if not full:
        screen.print("evidence: add --full", style="dim")


def _print_text(record: Record, explained: Explanation, *, full: bool) -> None:
    """Print a text with its uncertain facts marked, the expected number of right facts, and a table of facts."""
    screen = console()
    screen.print(marked_text(record))
    if explained.number:
        screen.print(f"\n{as_sentence(explained.number)}", highlight=False)
    if record.parts:
        screen.print()
        screen.print(to_rich(facts_table(record.parts, None if full else LEAST_CERTAIN)))
    screen.print()


class RatedStream(StreamSettings):
    """Settings of the file to rate. The help hides the flags for other questions, which `secl score` refuses."""

    benchmarks: Annotated[Names, HIDDEN] = ()
    questions: Annotated[str | None, HIDDEN] = None
    data: Annotated[str | None, HIDDEN] = None


class RatedSettings(AskedSettings):
    """Settings of `secl score` that have flags."""

    stream: Annotated[RatedStream, FLAT, OF_QUESTIONS] = RatedStream()


@app.command(help_epilogue=FURTHER_SETTINGS)
def score(
    file: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    out: Path | None = None,
    as_json: AsJson = False,
    accept: float | None = None,
    no_cache: NoCache = False,
    dry_run: DryRun = False,
    flags: Annotated[RatedSettings | None, FLAT] = None,
) -> None:
    """Rate the given answers in a file: print for each the probability that it is correct.

    Args:
        file: Questions with a column "answer"; optional columns: "rivals" (other answers to compare with),
            "correct" (true or false).
        out: Store the ratings as a run in this folder, for secl report, label and export.
        accept: Lowest confidence of an accepted answer.
        no_cache: Ask the model everything, also what an earlier run has asked (secl cache).
        dry_run: Rate only the first answers, and print how long all of them take.
    """
    if out is not None and as_json:
        raise ParameterError("--json prints the answers, and --out stores them for secl export; drop --json or --out.")
    settings = score_settings(file, {"loop.accept": accept, **given_by(flags)})
    finish = print_result() if out else _print_json if as_json else _print

    def begin(place: Path) -> Run:
        return start_run(settings, place, mode="score", cache=None if dry_run else open_cache(no_cache))

    if dry_run:
        estimate(begin, out)
        return
    proceed(begin, out, finish, quiet=out is None)


def _print_json(run: Run) -> None:
    left_out = [{"where": where, "why": why} for where, why in run.manifest.skipped]
    print_json({"answers": [json_value(to_export(record)) for record in run.records], "skipped": left_out})


def _print(run: Run) -> None:
    screen, records = console(), run.records
    columns = ("question", "answer", "facts", "confidence", "stated", "P(True)", "PMI", "grade")
    screen.print(to_rich(questions_table(records, *columns)))
    brief = [record for record in records if record.parts is None]
    answers = counted(len(brief), "answer")
    posteriors = [record.posterior for record in brief if record.posterior is not None]
    weighed, unlisted = len(posteriors), sum(each.unlisted for each in posteriors)
    others = "" if weighed == len(brief) else "; the stated confidence for all others"
    if brief:
        screen.print(
            f"Confidence: the posterior of the answer among its rivals, for {weighed} of {answers}"
            f"{others}. PMI: nats by which the question makes the answer more probable.",
            soft_wrap=True,
        )
    if len(brief) < len(records):
        screen.print("Confidence of a text: the probability that all its facts are right.", soft_wrap=True)
    if unlisted:
        echo(
            f"For {counted(unlisted, 'answer')}, the most probable answer is unlisted: the model itself would write "
            "something else. Until you add labels, use these confidences to rank answers, not as probabilities."
        )
    if (accepted := accepted_sentence(records)) is not None:
        echo(accepted)
    echo(assess(records).line)


@app.command
def cache(*, clear: Annotated[bool, Flag] = False, as_json: AsJson = False) -> None:
    """Show the cache of what models answered, from which later runs take answers to the same questions.

    SECL_CACHE_SIZE sets its size (500M, 2G; 0 for none), SECL_CACHE its folder.

    Args:
        clear: Empty the cache.
    """
    if clear:
        ReadingCache.clear(cache_path())
    kept = ReadingCache()
    if as_json:
        print_json({"path": str(kept.path), "readings": len(kept), "bytes": kept.bytes, "size": kept.size})
        return
    echo(f"{kept.path}: {counted(len(kept), 'reading')}, {decimal(kept.bytes)} of {decimal(kept.size)}")


@app.command
def models() -> None:
    """List the presets: models for which secl has measured settings."""
    from secl.backends.local.loading.presets import PRESETS

    rows = [
        (f"{name}\n", f"{p.source}\n{p.layers} {','.join(p.modules)}, tau {p.tau:g}", p.note)
        for name, p in PRESETS.items()
    ]
    console().print(listing(("name", "source", "note"), rows, names=2))
    console().print(
        "Below a source: the layers and modules that learn, and tau, the temperature of P(True).\n"
        "secl also takes any other chat model by hub id, folder or GGUF file (docs/engines.md).",
        soft_wrap=True,
    )


@app.command
def methods() -> None:
    """List the methods, each with its gate and a description."""
    rows = [(name, m.gate, m.note) for name, m in METHODS.items()]
    console().print(listing(("name", "gate", "description"), rows))


@app.command
def benchmarks() -> None:
    """List the benchmarks for secl run --benchmarks."""
    rows = [(b.name, b.form, b.split, b.licence, b.description) for b in BENCHMARKS.values()]
    console().print(listing(("name", "answers", "split", "licence", "description"), rows))
