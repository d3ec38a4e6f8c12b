"""Jinja templates of all HTML pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from secl.display import counted

if TYPE_CHECKING:
    import jinja2

TEMPLATES = Path(__file__).parent / "templates"
"""Folder with the templates of reports, and `shared.css` and `shared.html` of all pages."""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_text(text: str) -> str:
    """Return a text with replacement characters for characters that XML and HTML exclude.

    >>> xml_text("a\\x00b <c>")
    'a�b <c>'
    """
    return _NOT_XML.sub("\ufffd", text)


def html_templates(folder: Path) -> jinja2.Environment:
    """Return a Jinja environment for the templates in a folder and the shared ones; it escapes values for HTML.

    A missing value raises a Jinja error.
    """
    import jinja2

    def printable(value: object) -> object:
        return xml_text(value) if type(value) is str else value  # `Markup`, a subclass of str, stays unchanged

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, TEMPLATES]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=printable,
    )
    environment.globals["counted"] = counted
    return environment
