"""The public face of the package."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import secl
from secl.errors import QuestionError, SeclError
from secl.signals import RawPTrue
from secl.testing import toy_stream
from tests.conftest import ROOT


def test_every_public_name_is_there_and_documented() -> None:
    assert sorted(secl.__all__) == secl.__all__
    assert set(secl.__all__) <= set(dir(secl))
    assert len(secl.__all__) <= 30
    for name in secl.__all__:
        assert getattr(secl, name).__doc__, name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'secl' has no attribute 'secle'"):
        secl.secle  # noqa: B018


def test_the_version_is_that_of_the_distribution() -> None:
    assert secl.__version__ == version("secl")
    assert f"\nversion: {secl.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_type_hints_are_shipped() -> None:
    assert (Path(secl.__file__).parent / "py.typed").exists()


QUESTION = secl.Question("Which <b>?", options=("x", "y & z"), reference="B")


def test_objects_say_in_a_line_what_they_are(tmp_path: Path) -> None:
    calibrator = secl.Calibrator(secl.ScriptedModel(), method="secl", gate="always")
    record = calibrator.ask(QUESTION)
    with secl.Store.create(tmp_path / "run", {"total": 1}) as store:
        store.add(record, 0.5)
        assert repr(store) == f"Store(folder={store.folder}, records=1)"
    lines = [repr(thing) for thing in (calibrator, calibrator.model, record, secl.summarise([record]), store)]
    assert lines[0].startswith(
        "Calibrator(model='scripted', gate='Always', signal='NormalisedPTrue', position=1, version="
    )
    assert lines[1].startswith("ScriptedModel(name='scripted', version=")
    assert lines[2].startswith("Record(text=")
    assert lines[3].startswith("Summary(questions=1, unlabelled=0, ")
    assert lines[4] == f"Store(folder={tmp_path / 'run'})"
    assert max(map(len, lines)) < 300


def test_a_notebook_shows_tables_in_which_texts_are_texts() -> None:
    records = list(secl.Calibrator(secl.ScriptedModel(), method="secl").run([QUESTION]))
    for shown in (records[0], secl.summarise(records)):
        table: str = shown._repr_html_()
        assert table.startswith("<table>")
        assert "<b>" not in table
    assert "&lt;b&gt;" in records[0]._repr_html_()


def test_records_make_a_data_frame() -> None:
    pandas = pytest.importorskip("pandas")
    records = list(secl.Calibrator(secl.ScriptedModel(), method="secl").run(toy_stream(8)))
    frame = secl.to_frame(records)
    assert isinstance(frame, pandas.DataFrame)
    names = ["id", "domain", "question", "options", "reference", "answer", "confidence", "low", "high", "correct"]
    assert [*frame] == names
    assert list(frame["answer"]) == [record.question.text_of(record.answer or "") for record in records]
    assert list(secl.to_frame(records, full=True)["reply.answer"]) == [record.reply.answer for record in records]


def test_a_data_frame_without_a_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(SeclError, match=r"a data frame needs pandas; run: pip install .*\[tables\]"):
        secl.to_frame([])


@pytest.mark.parametrize("question", [None, 5, b"Who?", ["Who?"], {"question": "Who?"}])
def test_what_is_no_question_is_refused_in_a_sentence(question: object) -> None:
    model = secl.load(secl.ScriptedModel())
    with pytest.raises(QuestionError, match=r"is no question; give a text or a secl\.Question"):
        model.ask(question)  # type: ignore[arg-type]
    assert model.calibrator.state.position == 0


def test_a_conversation_is_told_where_its_parts_go() -> None:
    with pytest.raises(QuestionError, match="give the last message as a text, and the earlier ones as history"):
        secl.load(secl.ScriptedModel()).ask([{"role": "user", "content": "Who?"}])  # type: ignore[arg-type]


def test_options_are_texts_in_a_tuple_or_a_list() -> None:
    with pytest.raises(QuestionError, match="has the text 'abc' as its options"):
        secl.Question("x", options="abc")  # type: ignore[arg-type]
    assert hash(secl.Question("x", options=["a", "b"])) == hash(secl.Question("x", options=("a", "b")))  # type: ignore[arg-type]


def test_gates_and_signals_go_by_name() -> None:
    calibrator = secl.Calibrator(secl.ScriptedModel(), method="secl", gate="page-hinkley", signal="p_true")
    assert calibrator.gate == secl.PageHinkley()
    assert calibrator.signal == RawPTrue()
    with pytest.raises(SeclError, match="there is no gate 'allways'; take always, never"):
        secl.Calibrator(secl.ScriptedModel(), method="secl", gate="allways")
    with pytest.raises(SeclError, match="there is no signal 'ptrue'; the signals are norm_p_true"):
        secl.Calibrator(secl.ScriptedModel(), method="secl", signal="ptrue")  # type: ignore[arg-type]
