"""Commands that ask a stream of questions: run and demo."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secl.cli.app import DEVICE, DTYPE, MODEL, app, console, fail, flag
from secl.errors import ParameterError

if TYPE_CHECKING:
    from secl.runs.runner import Run

DEMO: dict[str, Any] = {
    "model": "smollm2",
    "benchmarks": ("capitals:120", "science:120", "misconceptions:60", "arithmetic:12"),
    "evidence_on": "always",
}
"""What `secl demo` runs: the built-in quiz, judged everywhere so that normalised P(True) can be compared."""


@app.command()
def run(
    recipe: Annotated[Path | None, typer.Argument(help="A TOML recipe; flags override it.", show_default=False)] = None,
    out: Annotated[Path | None, flag("Folder of the new run.")] = None,
    resume: Annotated[Path | None, flag("Go on with an unfinished run; no other flag is needed.")] = None,
    model: MODEL = None,
    dtype: DTYPE = None,
    device: DEVICE = None,
    benchmarks: Annotated[str | None, flag("Benchmarks in order, for example mmlu,arc or capitals:50.")] = None,
    questions: Annotated[str | None, flag("Your own questions, JSONL or CSV, in place of --benchmarks.")] = None,
    per_domain: Annotated[int | None, flag("Questions of each benchmark.", "all")] = None,
    order: Annotated[str | None, flag("forward, reversed or shuffled.", "forward")] = None,
    data: Annotated[str | None, flag("Folder with the benchmarks' official files.", "SECL_DATA, else the hub")] = None,
    method: Annotated[str | None, flag("secl, baselines, ...; see secl methods.", "secl")] = None,
    gate: Annotated[str | None, flag("entropy-shift, page-hinkley, always or never.", "the method's")] = None,
    burst: Annotated[int | None, flag("Questions in a burst.", "50")] = None,
    warmup: Annotated[int | None, flag("Questions before the gate can fire.", "30")] = None,
    threshold: Annotated[float | None, flag("Of the gate's statistic.", "the gate's")] = None,
    opening: Annotated[bool | None, flag("Whether the stream's start opens a burst.", "opening")] = None,
    ema: Annotated[float | None, flag("page-hinkley: weight of the newest entropy in the mean.", "0.05")] = None,
    epsilon: Annotated[float | None, flag("page-hinkley: rise in nats that is ignored.", "0.05")] = None,
    mean: Annotated[str | None, flag("page-hinkley: ema or cumulative.", "ema")] = None,
    slack: Annotated[float | None, flag("entropy-shift: shift in spreads that is ignored.", "0.5")] = None,
    evidence_on: Annotated[str | None, flag("Gather evidence in a burst only, or always.", "burst")] = None,
    signal: Annotated[str | None, flag("norm_p_true, p_true, self_consistency or dinco.", "norm_p_true")] = None,
    tau: Annotated[float | None, flag("Temperature of normalised P(True).", "the model's")] = None,
    formula: Annotated[str | None, flag("log: softmax(log P / tau); exp: softmax(P / tau).", "log")] = None,
    p_true: Annotated[str | None, flag("vocabulary: P(True); pair: True / (True + False).", "vocabulary")] = None,
    nli: Annotated[str | None, flag("NLI model of DINCO: hub id or folder.", "the model itself")] = None,
    alpha: Annotated[float | None, flag("Share of the way to the signal.", "0.5")] = None,
    delta: Annotated[float | None, flag("Largest move considered.", "0.15")] = None,
    bin_gate: Annotated[str | None, flag("No update where bins differ by at most this; or off.", "1")] = None,
    loss: Annotated[str | None, flag("directional or mse.", "directional")] = None,
    accumulate: Annotated[str | None, flag("Updates add up over: stream, burst or question.", "stream")] = None,
    rank: Annotated[int | None, flag("Of LoRA.", "8")] = None,
    lora_alpha: Annotated[float | None, flag("Scaling of LoRA.", "16")] = None,
    layers: Annotated[str | None, flag("Adapted layers: last:4, all, 12-15, ...", "the model's")] = None,
    modules: Annotated[str | None, flag("Adapted modules, comma-separated.", "the model's")] = None,
    learning_rate: Annotated[float | None, flag("Of AdamW.", "5e-5")] = None,
    epochs: Annotated[int | None, flag("Optimizer steps per question.", "3")] = None,
    beta: Annotated[float | None, flag("Weight of the KL term.", "0")] = None,
    seed: Annotated[int | None, flag("Of everything random.", "42")] = None,
) -> None:
    """Run a stream of questions through a method and report it."""
    given = {
        name: value for name, value in locals().items() if value is not None and name not in ("recipe", "out", "resume")
    }
    for name in ("benchmarks", "modules"):
        if name in given:
            given[name] = [given[name]]
    if given.get("bin_gate", "off") != "off":
        given["bin_gate"] = int(given["bin_gate"])
    from secl.runs.runner import resume as go_on
    from secl.runs.runner import start
    from secl.runs.settings import RunSettings, read_toml
    from secl.settings import merged

    settings = merged(read_toml(recipe) if recipe else {}, given)
    if resume is not None:
        if out is not None and out != resume:
            raise ParameterError("a resumed run stays in its folder; leave --out away.")
        proceed(lambda: go_on(resume, settings), resume)
        return
    if out is None:
        raise ParameterError("a new run needs a folder; name it with --out.")
    made = RunSettings.of(settings)
    proceed(lambda: start(made, out), out)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder of the run; an unfinished one is continued.")] = Path("runs/demo"),
) -> None:
    """Show the whole method on the embedded model and the built-in quiz, in a few minutes."""
    from secl.runs.runner import resume, start
    from secl.runs.settings import RunSettings
    from secl.runs.store import FILE

    recipe = RunSettings.of(DEMO)
    proceed(lambda: resume(out) if (out / FILE).exists() else start(recipe, out), out)


def proceed(open_run: Any, folder: Path) -> None:
    """Open a run, ask what is left with a progress bar, and report; Ctrl-C keeps what is done."""
    screen = console()
    try:
        with screen.status("loading model and questions"):
            opened: Run = open_run()
    except KeyboardInterrupt:
        fail("stopped before the first question.")
    with opened.store:
        try:
            _watch(opened, screen)
            opened.keep()
            print_report(opened.store, opened.records)
        except KeyboardInterrupt:
            fail(
                f"stopped after {len(opened.records)} of {len(opened.questions)} questions, all of them recorded; "
                f"go on with: secl run --resume {folder}"
            )


def _watch(opened: Run, screen: Any) -> None:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=screen) as bar:
        task = bar.add_task("asking", total=len(opened.questions))

        def show(done: int, total: int, record: Any) -> None:
            text = "asking"
            if record is not None:
                text = f"{record.question.domain[:14]:14} {'learning' if record.decision.in_burst else 'watching'}"
            bar.update(task, completed=done, total=total, description=text)

        opened.proceed(show)


def print_report(store: Any, records: Any) -> None:
    """Print the table of a run and write its report into its folder."""
    from secl.cli.report import tell

    tell([(store, records)])
