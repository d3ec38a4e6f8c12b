"""The public names: one word for each concept, `secl.load` with plain texts and lists, and the display of objects."""

import ast
import dataclasses
import inspect
import json
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import secl
from reference import http_api
from reference.__main__ import PAGES
from secl.errors import DataError, ParameterError, QuestionError, needs
from secl.runs.encoding import to_export
from secl.testing import toy_stream
from tests.conftest import ROOT

FIRST = ("text", "letter", "confidence", "low", "high", "candidates", "accepted")
"""Fields of an answer in Python, on the command line and over HTTP."""

IN_USE = "abstained=accepted refusal=accepted hard_confidence=stated_hard stated_confidence=stated judgement=label "
IN_USE += "adapter_version=version best_confidence=confidence posterior_confidence=confidence option_text=text "
REPLACED = dict(pair.split("=") for pair in f"{IN_USE} answer_text=text thumb=label".split())
"""Words that were in use for a concept, and the word that stands for it."""

GONE = "Piece=Chunk Writing=SamplingParameters Draft=Generation Turn=Message Thinker=ThinkingFormat Marks=ThinkTags "
GONE += "Said=ReplyPart Held=StreamBuffer Labelled=CalibratedConfidence answers_best=best_returned WINDOW=WINDOW_SIZE "
GONE += "thinker=thinking_format THOUGHTS=THINK_TAGS FURTHER=SECOND_ROUND ENOUGH=MIN_GRADED FEWEST=MIN_QUESTIONS"
"""Private words of earlier versions, and the terms in their place."""

PREPOSITIONS = {"alone", "apart", "before", "behind", "beside", "further"}
"""Words that do not say what a function does."""

FLAGS = {"--confidence": "--certainty", "--adapter": "--version or --calibration", "--state": "a positional folder"}
"""Flags that would use another word for a concept than the rest of secl."""

OF_OPENAI = {"AnswerMessage.refusal", "LogProbs.refusal"}
"""Fields that OpenAI's API prescribes."""


def public_things() -> Iterator[tuple[str, Any]]:
    for module in (secl, secl.runs, secl.learning):
        yield from ((name, getattr(module, name)) for name in module.__all__)


def python_names() -> Iterator[str]:
    for name, thing in public_things():
        yield name
        if inspect.isclass(thing):
            yield from (f"{name}.{member}" for member in dir(thing) if not member.startswith("_"))
            if dataclasses.is_dataclass(thing):
                yield from (f"{name}.{field.name}" for field in dataclasses.fields(thing))


def json_names() -> Iterator[str]:
    for name, schema in http_api.description()["components"]["schemas"].items():
        yield from (f"{name}.{field}" for field in schema.get("properties", {}))
    record = secl.load(secl.testing.ScriptedModel()).ask("Is it?", options=["yes", "no"])
    yield from (f"export: {name}" for name in to_export(record))


def test_public_names_and_flags_use_one_word_for_each_concept_and_an_answer_has_the_same_first_names() -> None:
    for names in (python_names, json_names):
        words = {name: re.split(r"[.: ]", name)[-1] for name in names() if name not in OF_OPENAI}
        assert len(words) > 100
        assert {name: REPLACED[word] for name, word in words.items() if word in REPLACED} == {}
    flags = set(re.findall(r"--[a-z][a-z-]+", PAGES["reference/commands.md"]()))
    assert len(flags) > 50
    assert {flag: FLAGS[flag] for flag in flags if flag in FLAGS} == {}
    record = secl.load(secl.testing.ScriptedModel()).ask("Is it?", options=["yes", "no"])
    assert all(hasattr(record, name) for name in FIRST)
    assert tuple(to_export(record))[: len(FIRST)] == FIRST
    fields = http_api.description()["components"]["schemas"]
    assert set(FIRST) <= set(fields["AnswerReply"]["properties"])
    assert set(FIRST) - {"text", "letter"} <= set(fields["Secl"]["properties"])


def test_names_are_terms_of_the_field_and_classes_have_one_meaning_and_functions_say_what_they_do() -> None:
    homes: dict[str, list[str]] = {}
    functions: set[str] = set()
    used: set[str] = set()
    for path in Path(ROOT, "src").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        used |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        used |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        functions |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        named = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                named += [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
        for name in named:
            homes.setdefault(name, []).append(path.name)
    gone = dict(pair.split("=") for pair in GONE.split())
    assert {name: gone[name] for name in used | {*homes} if name in gone} == {}
    assert {name for name in functions if name.lstrip("_") in PREPOSITIONS} == set()
    twice = {name for name, files in homes.items() if len(files) > 1 and re.fullmatch("[A-Z][a-z].*", name)}
    assert twice <= {"Arguments", "Key", "Named", "StateFolder"}  # type variables, and an argument of two commands


def test_public_names_are_there_and_documented_and_version_and_type_hints_are_shipped() -> None:
    for module in (secl, secl.runs, secl.learning):
        assert sorted(module.__all__) == module.__all__
        assert set(module.__all__) <= set(dir(module))
    assert len(secl.__all__) <= 30
    assert [name for name, thing in public_things() if not thing.__doc__] == []
    reference = "".join(write() for place, write in PAGES.items() if place.startswith("reference/python/"))
    assert "ModelError" in reference
    assert set(re.findall(r"(?<![.\w])[A-Z]\w+Error\b", reference)) <= set(secl.__all__)
    with pytest.raises(AttributeError, match="module 'secl' has no attribute 'secle'"):
        secl.secle  # noqa: B018
    assert secl.__version__ == version("secl")
    assert f"\nversion: {secl.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert (Path(secl.__file__).parent / "py.typed").exists()


def test_objects_say_in_a_line_what_they_are_and_notebooks_show_tables_in_which_texts_are_texts(tmp_path: Path) -> None:
    calibrator = secl.learning.Calibrator(secl.testing.ScriptedModel(), method="secl", gate="always")
    record = calibrator.ask(secl.Question("Which <b>?", options=("x", "y & z"), reference="B"))
    summary = secl.runs.summarise([record])
    with secl.runs.Store.create(tmp_path / "run", {"total": 1}) as store:
        store.add(record, 0.5)
        assert repr(store) == f"Store(folder={store.folder}, records=1)"
    for thing, begin in (
        (calibrator, "Calibrator(model='scripted', gate='Always', signal='norm_p_true', position=1, version="),
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


def test_records_make_a_data_frame() -> None:
    pandas = pytest.importorskip("pandas")
    records = list(secl.learning.Calibrator(secl.testing.ScriptedModel(), method="secl").run(toy_stream(8)))
    frame = secl.runs.to_frame(records)
    assert isinstance(frame, pandas.DataFrame)
    names = ["id", "domain", "question", "options", "reference", "answer", "confidence", "low", "high", "correct"]
    assert [*frame] == names
    assert list(frame["answer"]) == [record.text for record in records]
    assert list(secl.runs.to_frame(records, full=True)["reply.answer"]) == [record.reply.answer for record in records]


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


PERU = "What is the capital of Peru?"
CITIES = ["Quito", "La Paz", "Lima", "Santiago"]


def scripted(**settings: Any) -> secl.CalibratedModel:
    return secl.load(secl.testing.ScriptedModel(), **settings)


def test_an_answer_shows_its_text_its_confidence_and_the_other_candidates_first() -> None:
    answer = scripted(accept=0.2).ask(PERU, options=CITIES)
    assert answer.letter is not None
    assert answer.text == answer.question.option(answer.letter) == answer.candidates[0][0]
    assert answer.confidence == answer.candidates[0][1]
    assert answer.low < answer.confidence < answer.high
    assert sum(probability for _, probability in answer.candidates) == pytest.approx(1)
    assert sorted(text for text, _ in answer.candidates) == sorted(CITIES)
    assert answer.accepted is True
    assert repr(answer).startswith(f"Record(text={answer.text!r}, letter='{answer.letter}', confidence=0.")
    assert "learns=False" in repr(scripted())  # by default: learning is asked for by name
    answer = scripted(method="stated").ask(PERU)  # no letter of an open answer, and nothing compared
    assert (answer.letter, answer.text, answer.candidates) == (None, answer.reply.answer, ())
    assert answer.accepted is None


def test_parts_of_a_question_are_texts_lists_pairs_and_mappings_and_others_are_refused_in_a_sentence() -> None:
    history = [("user", "Hello"), {"role": "assistant", "content": "Hi"}, secl.Message("user", "Again")]
    asked = scripted().ask(PERU, options=CITIES, context="A map.", system="Be brief.", history=history).question
    assert (asked.options, asked.context, asked.system) == (tuple(CITIES), "A map.", "Be brief.")
    turns = [("user", "Hello"), ("assistant", "Hi"), ("user", "Again")]
    assert [(turn.role, turn.text) for turn in asked.history] == turns
    assert hash(secl.Question("x", options=["a", "b"])) == hash(secl.Question("x", options=("a", "b")))  # type: ignore[arg-type]
    none = r"is not a question; give a text or a secl\.Question"
    model, later = scripted(), "give the last message as a text, and the earlier ones as history"
    refused: list[tuple[Any, dict[str, Any], str]] = [
        *((each, {}, none) for each in (None, 5, b"Who?", ["Who?"], {"question": "Who?"})),
        ([{"role": "user", "content": "Who?"}], {}, later),
        (PERU, {"options": ["Lima"]}, "a single option"),
        (PERU, {"options": ["Lima", "Lima", " Lima"]}, "has no two different options; give at least two"),
        (PERU, {"options": "Lima"}, "the text 'Lima' as its options"),
        (PERU, {"history": "Hello"}, "history is a text"),
        (
            PERU,
            {"history": [("narrator", "Hello")]},
            r"a turn of the conversation is \('narrator', 'Hello'\); give each turn as",
        ),
        (PERU, {"history": [5]}, "a turn of the conversation is 5"),
        (secl.Question(PERU), {"options": CITIES}, "is a Question already; put options"),
    ]
    for question, parts, said in refused:
        with pytest.raises(QuestionError, match=said):
            model.ask(question, **parts)
    assert model.calibrator.state.position == 0


def test_rows_of_any_source_are_asked_one_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def texts(source: Any, **how: Any) -> list[str]:
        return [answer.question.text for answer in scripted().ask_all(source, **how)]

    rows: list[Any] = [{"question": PERU, "options": CITIES}, {"question": "And of Chile?", "options": CITIES}]
    questions, model = secl.read_rows(rows).questions, scripted()
    alone = [model.ask(question) for question in questions]
    for source in (rows, questions, iter(rows)):
        assert list(scripted().ask_all(source)) == alone
    assert texts(["Who?", "Where?"]) == ["Who?", "Where?"]
    file = tmp_path / "mine.csv"
    file.write_text("question,A,B\nIs it?,yes,no\nWas it?,yes,no\n", encoding="utf-8")
    assert texts(file, progress=True) == ["Is it?", "Was it?"]
    assert "asking" in capsys.readouterr().out
    frame = pytest.importorskip("pandas").DataFrame({"prompt": ["Is it?"], "options": [["yes", "no"]]})
    assert texts(frame, columns={"question": "prompt"}) == ["Is it?"]
    with pytest.raises(DataError, match="holds no question"):
        texts(frame.iloc[:0])
    (answer,) = scripted().ask_all([{"subject": "Login"}], options=["bug", "feature"], template="{subject} fails.")
    assert (answer.question.text, answer.text in ("bug", "feature")) == ("Login fails.", True)


def test_answers_from_elsewhere_get_a_confidence_however_they_come() -> None:
    model = scripted()
    answer = model.score(PERU, "lima", options=CITIES)
    assert (answer.text, answer.letter, answer.kind) == ("Lima", "C", "given")
    assert next(scripted().score_all([(secl.Question(PERU, tuple(CITIES)), "C")])) == answer
    assert next(scripted().score_all([{"question": PERU, "options": CITIES, "answer": "Lima"}])).text == "Lima"


def test_labels_move_later_confidences_and_support_a_threshold() -> None:
    model = scripted(method="stated")
    with pytest.raises(ParameterError, match="no answers"):
        model.threshold(0.1)
    with pytest.raises(ParameterError, match="accept is 2; it must be a confidence from 0 to 1"):
        model.accept = 2
    for question in toy_stream(60):
        answer = model.ask(question.text, options=question.options)
        model.label(answer, True, chance=1)
    advice = model.threshold(risk=0.1)
    assert (advice.basis, advice.labels, advice.wrong) == ("labels", 60, 0)
    assert advice.value is not None
    model.accept = advice.value
    again = model.ask(PERU, options=CITIES)
    assert again.accepted is True
    assert again.confidence > again.confidences.uncalibrated
    model.label(answer, None, chance=1)
    assert model.threshold(risk=0.1).labels == 59


def test_a_source_that_is_no_model_and_settings_that_do_not_fit_are_refused_in_a_sentence() -> None:
    refused: tuple[tuple[tuple[Any, ...], dict[str, Any], str], ...] = (
        (("no such model",), {}, "there is no model 'no such model'"),
        (("smollm2", object()), {}, "a tokenizer belongs to a loaded model, but 'smollm2' is the name of a model"),
        ((object(),), {}, "object is not a model; give a name, a folder, a GGUF file, the URL of a server"),
        (("http://127.0.0.1:9/v1",), {}, "127.0.0.1:9"),
        ((secl.testing.ScriptedModel(),), {"settings": {"loop.alhpa": 1}}, "alhpa"),
        (("smollm2",), {"model": "gpt"}, "names the model of a server, and 'smollm2' is not a URL"),
    )
    for source, settings, said in refused:
        with pytest.raises(secl.SeclError, match=said):
            secl.load(*source, **settings)


def test_a_model_is_closed_at_the_end_of_its_block() -> None:
    closed = []

    class Closing(secl.testing.ScriptedModel):
        def close(self) -> None:
            closed.append(True)

    with secl.load(Closing()) as model:
        model.ask(PERU)
    assert closed == [True]
