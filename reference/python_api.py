"""The page of the public names, whose docstrings mkdocstrings puts in."""

from __future__ import annotations

GROUPS = {
    "Asking": ("load", "CalibratedModel", "Question", "References", "Turn"),
    "Questions": ("read_questions", "read_rows", "load_stream"),
    "Records": ("Record", "Extraction", "Calls", "GivenAnswer", "summarise", "assess", "to_frame"),
    "Runs": ("RunSettings", "start_run", "resume_run", "Store"),
    "Settings of components": ("LoopSettings", "AdapterSettings", "EntropyShift", "PageHinkley"),
    "Models": ("LocalModel", "Model", "ScriptedModel"),
    "The loop": ("Calibrator",),
    "Errors": ("SeclError", "QuestionError"),
}
"""Every public name, once, in the order in which a reader needs them."""

INTRODUCTION = """# Python

What most programs need is in `secl` itself: `import secl`, then `secl.load`. It loads no PyTorch until a name
needs it. [The tutorial](../tutorial.md) has the first lines; [records](records.md) has the fields of a record
as a table.
"""


def page() -> str:
    """The page in Markdown."""
    parts = [INTRODUCTION]
    for title, names in GROUPS.items():
        parts += [f"## {title}", *(f"::: secl.{name}" for name in names)]
    return "\n\n".join(parts) + "\n"
