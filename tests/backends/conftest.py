"""For tiny models behind any backend."""

from __future__ import annotations

import pytest

from secl.backends import generation
from secl.prompts import templates


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """A random model never comes to an end by itself: what it does in 20 tokens, it does in 320."""
    for limits in (templates.MAX_ANSWER_TOKENS, generation.MAX_LIST_TOKENS):
        for form, limit in limits.items():
            monkeypatch.setitem(limits, form, min(limit, 20))
