"""Whether the confidences of a run may be acted on: a section of its page, and a line of the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from secl.evaluation.trust import Level, Verdict

if TYPE_CHECKING:
    from markupsafe import Markup

TITLE = "May these confidences be acted on?"
"""Title of the section."""

ANSWERS: dict[Level, str] = {
    "fine": "Yes, as far as these answers can tell, on the {source} confidence.",
    "unproven": "That is not proven of the {source} confidence.",
    "do not act on it": "No: do not act on the {source} confidence.",
}
"""What the section answers for each verdict."""


def trust_line(verdict: Verdict, name: str = "") -> str:
    """The verdict in one line, of the run called `name` where there are several.

    >>> from secl.evaluation.trust import assess
    >>> trust_line(assess([]), "runs/a")
    'verdict on the stated confidence, runs/a: unproven. Nothing has been answered yet.'
    """
    return f"verdict on the {verdict.source} confidence{f', {name}' if name else ''}: {verdict.line}"


def trust_html(verdict: Verdict, level: int) -> Markup:
    """The section: the verdict, and every reason in the order of its weight.

    Args:
        verdict: on the run.
        level: of the heading, 2 or 3.
    """
    from markupsafe import Markup

    css = "" if verdict.level == "fine" else ' class="warning"'
    answer = Markup("<p" + css + "><strong>{}</strong></p>").format(
        ANSWERS[verdict.level].format(source=verdict.source)
    )
    items = Markup("\n").join(Markup("<li>{}</li>").format(reason.sentence) for reason in verdict.reasons)
    reasons = Markup("<ul>\n{}\n</ul>").format(items) if verdict.reasons else Markup("")
    heading = Markup("<h{0}>{1}</h{0}>").format(level, TITLE)
    return Markup("<section>\n{}\n{}\n{}\n</section>").format(heading, answer, reasons)
