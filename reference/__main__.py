"""Writes every page that the code describes into docs/: `python -m reference`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from reference import commands, http_api, outside, python_api, records, settings

PAGES: dict[str, Callable[[], str]] = {
    "reference/commands.md": commands.page,
    "reference/python.md": python_api.overview,
    **{python_api.place_of(title): partial(python_api.section, title) for title in python_api.GROUPS},
    "reference/http.md": http_api.page,
    "reference/records.md": records.page,
    "reference/settings.md": settings.page,
    "examples.md": outside.examples_page,
}
"""Pages by their place in docs/."""

if __name__ == "__main__":
    for place, page in PAGES.items():
        (outside.ROOT / "docs" / place).write_text(page(), encoding="utf-8")
