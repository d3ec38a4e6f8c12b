"""Runs: folders in which questions, records and labels are stored, so that a run resumes and can be reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from secl.lazy import lazy_names

if TYPE_CHECKING:
    from secl.evaluation.summary import Summary as Summary
    from secl.evaluation.summary import summarise as summarise
    from secl.evaluation.trust import Verdict as Verdict
    from secl.evaluation.trust import assess as assess
    from secl.runs.export import to_frame as to_frame
    from secl.runs.labelling import current_records as current_records
    from secl.runs.runner import resume_run as resume_run
    from secl.runs.runner import start_run as start_run
    from secl.runs.settings import RunSettings as RunSettings
    from secl.runs.store import Store as Store

__all__, __getattr__, __dir__ = lazy_names(
    "secl.runs",
    {
        "secl.evaluation.summary": "Summary summarise",
        "secl.evaluation.trust": "Verdict assess",
        "secl.runs.export": "to_frame",
        "secl.runs.labelling": "current_records",
        "secl.runs.runner": "resume_run start_run",
        "secl.runs.settings": "RunSettings",
        "secl.runs.store": "Store",
    },
)
