"""The files that a report leaves for people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from secl.errors import ParameterError, StorageError
from secl.reports.figures.cost import cost_figure, cost_points
from secl.reports.figures.drawing import write_picture
from secl.reports.figures.posterior import groups_of, posterior_figure
from secl.reports.figures.reliability import reliability_figure
from secl.reports.figures.scores import score_figure
from secl.reports.figures.timeline import timeline_figure
from secl.reports.page import render
from secl.reports.posterior_section import TITLE, posterior_notes, weights_table
from secl.reports.run_report import RunReport, panels
from secl.reports.summary_table import RANKING, ranking_table, summary_csv, summary_table
from secl.reports.table import to_latex, to_markdown

PAGE = "report.html"

MAIN = (
    "stated",
    "secl",
    "posterior",
    "posterior_best",
    "norm_p_true",
    "p_true",
    "self_consistency",
    "dinco",
    "label_free_temperature",
    "answer_probability",
)
"""Estimators whose distributions are drawn."""

_OURS = re.compile(
    r"report\.html|summary\.(md|tex|csv)|((\d+-)?(reliability|timeline|scores|posterior)|cost)\.(png|svg)"
)


def check_folder(folder: Path) -> None:
    """Check that a report may be written there: the folder does not exist, is empty, or holds a report alone.

    Raises:
        ParameterError: it holds something else, or is a file.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ParameterError(f"{folder} is a file; name another folder with --out.")
    others = [path.name for path in folder.iterdir() if not _OURS.fullmatch(path.name)]
    if others:
        raise ParameterError(f"{folder} holds {min(others)!r} and more than a report; name another folder with --out.")


def write_report(folder: Path, runs: Sequence[RunReport]) -> Path:
    """Write page, tables and pictures of one or several runs into a folder, which is made if need be.

    Files: `report.html`; `summary.md`, `.tex` and `.csv`; `reliability`, `scores`, `posterior`, `timeline` and `cost`
    as `.png` and `.svg` (with several runs all but the last once for each, as `1-timeline.png`). Pictures of an earlier
    report that are not drawn again are removed: without any right answer there are only timelines.

    Returns:
        the path of the page.

    Raises:
        StorageError: a file cannot be written.
    """
    prefixes = [""] if len(runs) == 1 else [f"{number}-" for number in range(1, len(runs) + 1)]
    drawn = cost_points([run.summary for run in runs])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pictures = [draw(run, folder, prefix) for run, prefix in zip(runs, prefixes, strict=True)]
        cost = write_picture(cost_figure(drawn, [run.name for run in runs]), folder / "cost") if drawn else None
        summaries = {run.name: run.summary for run in runs}
        texts = {
            "summary.md": markdown(runs),
            "summary.tex": "\n".join(to_latex(make(summaries)) for make in (summary_table, ranking_table)),
            "summary.csv": summary_csv(summaries),
            PAGE: render(runs, pictures, cost),
        }
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", errors="replace")
        stems = {f"{prefix}{name}" for svgs, prefix in zip(pictures, prefixes, strict=True) for name in svgs}
        stems |= {"cost"} if cost else set()
        _remove_others(folder, {*texts, *(f"{stem}{end}" for stem in stems for end in (".png", ".svg"))})
    except OSError as problem:
        raise StorageError(f"cannot write {folder}: {problem.strerror or problem}.") from problem
    return folder / PAGE


def _remove_others(folder: Path, written: set[str]) -> None:
    """Remove what an earlier report left and this one did not write."""
    for path in folder.iterdir():
        if _OURS.fullmatch(path.name) and path.name not in written:
            path.unlink(missing_ok=True)


def draw(run: RunReport, folder: Path, prefix: str = "") -> dict[str, str]:
    """Write the pictures of one run; returns their SVGs by name, of those that can be drawn."""
    graded = panels(run)
    figures = {"timeline": timeline_figure(run.records, window=max(20, len(run.records) // 40), adapted=run.learned)}
    if graded:
        figures["reliability"] = reliability_figure(list(graded.values()))
    groups = groups_of(run.records)
    if groups:
        figures["posterior"] = posterior_figure(groups)
    main = [graded[key] for key in MAIN if key in graded]
    if main:
        figures["scores"] = score_figure(main)
    return {name: write_picture(figure, folder / f"{prefix}{name}") for name, figure in figures.items()}


def markdown(runs: Sequence[RunReport]) -> str:
    """The tables of each run one after the other, with headings where there are several runs."""
    texts = []
    for run in runs:
        summaries = {run.name: run.summary}
        level = "##" if len(runs) == 1 else "###"
        text = f"{to_markdown(summary_table(summaries))}\n{level} {RANKING}\n\n{to_markdown(ranking_table(summaries))}"
        notes = posterior_notes(run.records)
        if notes:
            weights = to_markdown(weights_table(run.records))
            text += f"\n{level} {TITLE}\n\n" + "\n\n".join([*notes, weights])
        escaped = re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", run.name)
        texts.append(text if len(runs) == 1 else f"## {escaped}\n\n{text}")
    return "\n".join(texts)
