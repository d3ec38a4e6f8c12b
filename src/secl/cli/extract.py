"""The command that extracts fields from documents: extract."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from secl.cli.app import FURTHER_SETTINGS, AsJson, AskedSettings, Flag, app, console, print_json
from secl.cli.run import DryRun, NoCache, estimate, name_skipped, open_cache, print_result, proceed
from secl.display import number
from secl.errors import ParameterError, RunError, needs
from secl.reports.table import listing
from secl.runs.extracting import by_document, failures, object_results
from secl.runs.folder import FILE
from secl.runs.manifest import Manifest
from secl.runs.runner import Run, resume_run, start_run
from secl.runs.settings import RunSettings
from secl.settings.groups import FLAT, ExtractSettings, Order
from secl.settings.names import OF_QUESTIONS, given_by


class ExtractedSettings(AskedSettings):
    """Settings of `secl extract` that have flags."""

    extract: Annotated[ExtractSettings, FLAT, OF_QUESTIONS] = ExtractSettings()


@app.command(help_epilogue=FURTHER_SETTINGS)
def extract(
    documents: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    out: Path | None = None,
    accept: float | None = None,
    skip_bad: Annotated[bool, Flag] = False,
    limit: int | None = None,
    order: Order = "forward",
    no_cache: NoCache = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    flags: Annotated[ExtractedSettings | None, FLAT] = None,
) -> None:
    """Extract fields from documents, each value with the probability that it is correct.

    If the table has a column with the name of a field, secl grades the values of this field.

    Args:
        documents: A table with a column of texts, a text file, or a folder of text files.
        out: Store the values as a run in this folder; the same command continues a stopped run.
        accept: Lowest confidence of an accepted value, and of an accepted object.
        skip_bad: Skip documents that cannot be used, and list them.
        limit: At most this many documents: the first ones, or with --order shuffled a random sample.
        order: Order of the documents: forward, reversed or shuffled.
        no_cache: Ask the model everything, also what an earlier run has asked (secl cache).
        dry_run: Read only the first documents, and print how long all of them take.
    """
    given = given_by(flags)
    if out is not None and as_json:
        raise ParameterError("--json prints the objects, and --out stores them for secl export; drop --json or --out.")
    if "extract.schema_file" not in given:
        raise ParameterError("an extraction needs fields; name a file with --schema.")
    given |= {"stream.questions": str(documents), "loop.accept": accept, "stream.skip_bad": skip_bad}
    given |= {"stream.limit": limit, "stream.order": order}
    settings = RunSettings.of(given)
    if settings.model.answered_by == "local" and find_spec("llguidance") is None:  # before a model is loaded
        raise ParameterError(needs("extract", "llguidance", "fields"))

    def begin(place: Path) -> Run:
        cache = open_cache(no_cache)
        known = (place / FILE).exists()
        return resume_run(place, given, cache=cache) if known else start_run(settings, place, cache=cache)

    if dry_run:
        estimate(lambda place: start_run(settings, place), out)
        return

    def finish(run: Run) -> None:
        known = len(run.manifest.skipped)
        name_skipped(Manifest.of(run.store).skipped[known:])
        if not run.records:
            raise RunError("the model wrote no object for any document; see the reasons above.")
        report(run)

    report = print_result() if out else _print_json if as_json else _print
    proceed(begin, out, finish, quiet=out is None)


def _print(run: Run) -> None:
    rows = [
        (name, record.question.domain, record.text or "", number(record.confidence, 3))
        for name, fields in by_document(run.records).items()
        for record in fields
    ]
    console().print(listing(("document", "field", "value", "confidence"), rows, names=2))


def _print_json(run: Run) -> None:
    accept, documents = run.calibrator.accept, by_document(run.records).items()
    objects = [{"document": name, **object_results(fields, accept)} for name, fields in documents]
    failed = [{"document": each.document, "failed": each.reason} for each in failures(run.store)]
    print_json({"documents": [*objects, *failed]})
