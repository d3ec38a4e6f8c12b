"""What stands below the pictures whose content depends on the run."""

from __future__ import annotations

from secl.reports.formatting import counted
from secl.reports.run_report import RunReport, best_alternative, comes_closer, reported


def which_panels(run: RunReport) -> str:
    """Which confidences the first reliability diagrams show, and how to read them."""
    after = best_alternative(run.summary)
    if after is None:
        second = ""
    elif run.learned:
        second = ", the second the one that the adapted model reported"
    elif reported(run.summary) is not None:
        second = ", the second the posterior of the answers"
    else:
        second = ", the second the one with the lowest Brier score of those that need no right answers"
        second += "" if comes_closer(run.summary) else ", though the stated one has a lower one"
    return (
        f"The first is the stated confidence of the untouched model{second}. Bars that end on the dashed line are "
        "calibrated, bars below it overconfident. Whiskers are 95% intervals; a bar is paler the fewer its answers, "
        "which the strips count."
    )


def timeline_caption(run: RunReport) -> str:
    """What the panels of the timeline show, and what the gate did."""
    summary = run.summary
    parts = []
    if run.watched:
        parts.append(
            f"{counted(summary.alarms, 'alarm')}, {counted(summary.burst, 'question')} inside bursts, "
            f"{summary.trained} trained, {summary.agreed} stopped by the bin gate."
        )
    statistic = ", and the statistic that the gate tests" if run.tested else ""
    parts.append(f"Top: entropy of every answer and its running mean{statistic}.")
    whose = " of the frozen and of the adapted model" if run.learned else ""
    targets = ", with the targets learned from" if run.learned else ""
    posterior = ", and the posterior of the model's own answers" if run.posterior_notes else ""
    parts.append(
        f"{'Middle' if run.graded else 'Bottom'}: stated confidence{whose}, and the signal where it was computed"
        f"{targets}{posterior}."
    )
    if run.graded:
        best = ", also of the posterior's best answers" if run.posterior_notes else ""
        parts.append(f"Bottom: accuracy{best}.")
    parts.append(f"{'Bursts are shaded; d' if run.watched else 'D'}omains end at dotted lines.")
    return " ".join(parts)
