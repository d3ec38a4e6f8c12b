"""The public face of the package, and sentences of errors that several places share."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

import secl
from secl.errors import SeclError, needs
from secl.testing import toy_stream
from tests.conftest import ROOT


def test_public_names_are_there_and_documented_and_version_and_type_hints_are_shipped() -> None:
    assert sorted(secl.__all__) == secl.__all__
    assert set(secl.__all__) <= set(dir(secl))
    assert len(secl.__all__) <= 30
    for name in secl.__all__:
        assert getattr(secl, name).__doc__, name
    with pytest.raises(AttributeError, match="module 'secl' has no attribute 'secle'"):
        secl.secle  # noqa: B018
    assert secl.__version__ == version("secl")
    assert f"\nversion: {secl.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert (Path(secl.__file__).parent / "py.typed").exists()


def test_objects_say_in_a_line_what_they_are_and_notebooks_show_tables_in_which_texts_are_texts(tmp_path: Path) -> None:
    calibrator = secl.Calibrator(secl.ScriptedModel(), method="secl", gate="always")
    record = calibrator.ask(secl.Question("Which <b>?", options=("x", "y & z"), reference="B"))
    summary = secl.summarise([record])
    with secl.Store.create(tmp_path / "run", {"total": 1}) as store:
        store.add(record, 0.5)
        assert repr(store) == f"Store(folder={store.folder}, records=1)"
    for thing, begin in (
        (calibrator, "Calibrator(model='scripted', gate='Always', signal='NormalisedPTrue', position=1, version="),
        (calibrator.model, "ScriptedModel(name='scripted', version="),
        (record, "Record(text="),
        (summary, "Summary(questions=1, unlabelled=0, "),
        (store, f"Store(folder={tmp_path / 'run'})"),
    ):
        assert repr(thing).startswith(begin)
        assert len(repr(thing)) < 300
    for table in (record._repr_html_(), summary._repr_html_()):
        assert table.startswith("<table>")
        assert "<b>" not in table
    assert "&lt;b&gt;" in record._repr_html_()


def test_records_make_a_data_frame_or_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    records = list(secl.Calibrator(secl.ScriptedModel(), method="secl").run(toy_stream(8)))
    frame = secl.to_frame(records)
    assert isinstance(frame, pandas.DataFrame)
    names = ["id", "domain", "question", "options", "reference", "answer", "confidence", "low", "high", "correct"]
    assert [*frame] == names
    assert list(frame["answer"]) == [record.question.text_of(record.answer or "") for record in records]
    assert list(secl.to_frame(records, full=True)["reply.answer"]) == [record.reply.answer for record in records]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(SeclError, match=r"a data frame needs pandas; run: pip install .*\[tables\]"):
        secl.to_frame([])


def test_a_missing_package_comes_with_a_command_for_this_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = {"url": "file:///home/my%20files/secl", "dir_info": {"editable": True}}
    for origin, what in (
        (checkout, "-e '/home/my files/secl[tables]'"),
        ({"url": "file:///src/secl", "dir_info": {}}, "'secl[tables] @ file:///src/secl'"),
        ({"url": "https://host/secl.git", "vcs_info": {"vcs": "git"}}, "'secl[tables] @ git+https://host/secl.git'"),
        (None, "'secl[tables]'"),
    ):
        files = {"direct_url.json": None if origin is None else json.dumps(origin)}
        monkeypatch.setattr("secl.errors.distribution", lambda _name, files=files: SimpleNamespace(read_text=files.get))
        assert needs("xlsx", "openpyxl", "tables") == f"xlsx needs openpyxl; run: pip install {what}"


def test_no_message_names_a_package_that_an_index_may_not_have() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in Path(ROOT, "src").rglob("*.py")}
    assert [name for name, text in texts.items() if re.search(r"pip install [\"'\\]*secl", text)] == []
