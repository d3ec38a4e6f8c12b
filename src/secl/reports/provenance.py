"""How a run was made: model, stream, settings, environment, and the tokens that it took."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from secl.records import Record
from secl.reports.formatting import amount, percent
from secl.reports.run_report import RunReport
from secl.reports.table import Cell, Column, Table
from secl.settings.tree import SettingGroups

PURPOSES = {
    "answering": "answering, frozen model",
    "adapting": "answering, adapted model",
    "scoring": "P(True) and distractors",
    "reordering": "letters under further orders",
    "likelihood": "likelihoods of candidates",
    "sampling": "further answers",
    "comparing": "beams and entailment",
    "learning": "updates",
}
"""What people call the entries of a `secl.records.Ledger`."""


def provenance_table(run: RunReport) -> Table:
    """How the run was made: model, stream, settings and environment."""
    manifest, recipe = run.manifest, settings_of(run)
    environment, adapter = manifest.get("environment", {}), manifest.get("adapter") or {}
    settings = ", ".join(f"{key} = {_joined(value)}" for key, value in run.settings.items())
    weights = str(adapter.get("base_model_name_or_path") or "")
    facts = {
        "Model": recipe.get("model"),
        "Weights": Path(weights).name if Path(weights).is_absolute() else weights,
        "Fingerprint of the model": str(manifest.get("model", ""))[:12],
        "Stream": _joined(recipe.get("benchmarks") or recipe.get("questions") or ""),
        "Fingerprint of the stream": str(manifest.get("stream", ""))[:12],
        "Questions": f"{amount(len(run.records))} of {amount(run.total)}",
        "Answers": "given with the questions, and rated by the model" if manifest.get("mode") == "score" else "",
        "Questions left out": len(manifest.get("skipped") or ()) or "",
        "Method": recipe.get("method"),
        "Temperature of normalised P(True)": recipe.get("tau") or manifest.get("tau"),
        "Seed": recipe.get("seed"),
        "Settings other than the defaults": settings or "none",
        "Adapter": f"LoRA of rank {adapter.get('r')} on {_joined(adapter.get('target_modules') or [])}, "
        f"layers {_joined(adapter.get('layers_to_transform') or 'all')}"
        if adapter and run.learned
        else "",
        "Environment": ", ".join(f"{key} {value}" for key, value in environment.items()),
        "Begun": manifest.get("created"),
        "Time": f"{run.seconds:,.0f} s on the questions, {run.seconds / max(len(run.records), 1):.2f} s each",
    }
    rows = [[Cell(term), Cell(str(value))] for term, value in facts.items() if value not in (None, "")]
    return Table([Column("", text=True, wraps=True), Column("of this run", text=True, wraps=True)], {"": rows})


def settings_of(run: RunReport) -> dict[str, object]:
    """Every setting of a run by the name of its flag."""
    return SettingGroups.model_validate(run.manifest.get("settings", {})).flat()


def _joined(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def ledger_table(records: Sequence[Record]) -> Table:
    """Tokens through the network by purpose: in total, for each question, and as a share of all."""
    by_purpose = {
        name: sum(getattr(record.ledger, purpose) for record in records) for purpose, name in PURPOSES.items()
    }
    total, questions = sum(by_purpose.values()), max(len(records), 1)
    lines = [*((name, tokens) for name, tokens in by_purpose.items() if tokens), ("together", total)]
    rows = [
        [Cell(text) for text in (name, f"{n:,.0f}", f"{n / questions:,.1f}", percent(n / total if total else None))]
        for name, n in lines
    ]
    columns = [Column("Tokens through the network for", text=True, wraps=True)]
    note = (
        "A token that goes through a part of the layers counts for that part; a backward pass counts twice its forward "
        "pass."
    )
    return Table([*columns, *map(Column, ("in total", "per question", "share"))], {"": rows}, [note])
