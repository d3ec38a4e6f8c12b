"""All pages of the site that no file in docs/ holds, and what makes each."""

from __future__ import annotations

from collections.abc import Callable

from reference import commands, http_api, outside, python_api, records

MADE: dict[str, Callable[[], str]] = {
    "reference/commands.md": commands.page,
    "reference/python.md": python_api.page,
    "reference/http.md": http_api.page,
    "reference/records.md": records.page,
    "examples.md": outside.examples_page,
}
"""Pages by their place in docs/."""
