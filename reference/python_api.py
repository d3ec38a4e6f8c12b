"""The page of the public names, whose docstrings mkdocstrings puts in."""

from __future__ import annotations

GROUPS = {
    "Asking": ("Calibrator", "Question", "References", "Turn", "ask_all", "Records"),
    "Answers from elsewhere": ("GivenAnswer", "Rating"),
    "Records": ("Record", "Reply", "Decision", "Update", "Ledger"),
    "Evidence": (
        "Evidence",
        "PTrue",
        "CandidateEvidence",
        "LetterOrder",
        "Likelihood",
        "Posterior",
        "Labelled",
    ),
    "Signals and the posterior": ("NormalisedPTrue", "RawPTrue", "PosteriorRule"),
    "Gates": ("EntropyShift", "PageHinkley", "Always", "Never", "replay"),
    "Labels": ("Label", "LabelRule"),
    "Questions": (
        "read_questions",
        "questions_from",
        "QuestionFile",
        "read_rows",
        "rows_from",
        "QuestionRow",
        "load_benchmark",
        "load_stream",
        "grade",
        "regrade",
    ),
    "Measuring": ("summarise", "measure", "assess", "Verdict"),
    "Runs and servers": ("RunSettings", "start_run", "resume_run", "Store", "open_service", "serving_settings"),
    "Settings of components": ("LoopSettings", "AdapterSettings", "PosteriorSettings", "LabelSettings"),
    "Models": ("LocalModel", "Model", "ModelAnswer", "ScriptedModel", "Meter"),
    "Long texts": ("Writing", "Written", "Piece", "Token"),
    "Errors": ("SeclError", "ModelError", "QuestionError"),
}
"""Every public name, once, in the order in which a reader needs them."""

INTRODUCTION = """# Python

Everything public is in `secl` itself: `import secl`, then `secl.Calibrator`. It loads no PyTorch until a name needs
it. [The tutorial](../tutorial.md) has the first lines; [records](records.md) has the fields of a record as a table.
"""


def page() -> str:
    """The page in Markdown."""
    parts = [INTRODUCTION]
    for title, names in GROUPS.items():
        parts += [f"## {title}", *(f"::: secl.{name}" for name in names)]
    return "\n\n".join(parts) + "\n"
