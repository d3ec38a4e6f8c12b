"""The public face: one concept, one word in names, flags and JSON; sentences of errors that several places share."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

import secl
from reference import http_api
from reference.__main__ import PAGES
from secl.errors import SeclError, needs
from secl.runs.encoding import to_export
from secl.testing import toy_stream
from tests.conftest import ROOT

FIRST = ("text", "letter", "confidence", "low", "high", "candidates", "accepted")
"""What an answer shows, in Python, on the command line and over HTTP."""

IN_USE = "abstained=accepted refusal=accepted hard_confidence=stated_hard stated_confidence=stated judgement=label "
IN_USE += "adapter_version=version best_confidence=confidence posterior_confidence=confidence option_text=text "
REPLACED = dict(pair.split("=") for pair in f"{IN_USE} answer_text=text thumb=label".split())
"""Words that were in use for a concept, and the word that stands for it."""

FLAGS = {"--confidence": "--certainty", "--adapter": "--version or --calibration", "--state": "a positional folder"}
"""Flags that would name a concept by another word than everywhere else."""

OF_OPENAI = {"AnswerMessage.refusal", "LogProbs.refusal"}
"""Fields that OpenAI's API prescribes."""


def python_names() -> Iterator[str]:
    for name in secl.__all__:
        thing = getattr(secl, name)
        yield name
        if inspect.isclass(thing):
            yield from (f"{name}.{member}" for member in dir(thing) if not member.startswith("_"))
            if dataclasses.is_dataclass(thing):
                yield from (f"{name}.{field.name}" for field in dataclasses.fields(thing))


def json_names() -> Iterator[str]:
    for name, schema in http_api.description()["components"]["schemas"].items():
        yield from (f"{name}.{field}" for field in schema.get("properties", {}))
    record = secl.load(secl.ScriptedModel()).ask("Is it?", options=["yes", "no"])
    yield from (f"export: {name}" for name in to_export(record))


def test_public_names_and_flags_use_one_word_for_each_concept_and_an_answer_has_the_same_first_names() -> None:
    for names in (python_names, json_names):
        words = {name: re.split(r"[.: ]", name)[-1] for name in names() if name not in OF_OPENAI}
        assert len(words) > 100
        assert {name: REPLACED[word] for name, word in words.items() if word in REPLACED} == {}
    flags = set(re.findall(r"--[a-z][a-z-]+", PAGES["reference/commands.md"]()))
    assert len(flags) > 50
    assert {flag: FLAGS[flag] for flag in flags if flag in FLAGS} == {}
    record = secl.load(secl.ScriptedModel()).ask("Is it?", options=["yes", "no"])
    assert all(hasattr(record, name) for name in FIRST)
    assert tuple(to_export(record))[: len(FIRST)] == FIRST
    fields = http_api.description()["components"]["schemas"]
    assert set(FIRST) <= set(fields["AnswerReply"]["properties"])
    assert set(FIRST) - {"text", "letter"} <= set(fields["Secl"]["properties"])


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
