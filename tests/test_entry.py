"""The front door: `secl.load`, and asking, rating, labels and thresholds with plain texts and lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import secl
from secl.errors import DataError, ParameterError, QuestionError
from secl.testing import toy_stream

PERU = "What is the capital of Peru?"
CITIES = ["Quito", "La Paz", "Lima", "Santiago"]


def scripted(**settings: Any) -> secl.CalibratedModel:
    return secl.load(secl.ScriptedModel(), **settings)


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
    history = [("user", "Hello"), {"role": "assistant", "content": "Hi"}, secl.Turn("user", "Again")]
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
        (PERU, {"options": "Lima"}, "the text 'Lima' as its options"),
        (PERU, {"history": "Hello"}, "history is a text"),
        (PERU, {"history": [("nobody", "Hello")]}, r"history holds \('nobody', 'Hello'\); give each turn as"),
        (PERU, {"history": [5]}, "history holds 5"),
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
    questions, model = secl.read_questions(rows), scripted()
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
    assert (answer.text, answer.letter, answer.outcome) == ("Lima", "C", "given")
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
        model.label(answer, True)
    advice = model.threshold(risk=0.1)
    assert (advice.basis, advice.labels, advice.wrong) == ("labels", 60, 0)
    assert advice.value is not None
    model.accept = advice.value
    again = model.ask(PERU, options=CITIES)
    assert again.accepted is True
    assert again.confidence > again.label_free
    model.label(answer, None)
    assert model.threshold(risk=0.1).labels == 59


def test_a_source_that_is_no_model_and_settings_that_do_not_fit_are_refused_in_a_sentence() -> None:
    refused: tuple[tuple[tuple[Any, ...], dict[str, Any], str], ...] = (
        (("no such model",), {}, "there is no model 'no such model'"),
        (("smollm2", object()), {}, "a tokenizer belongs to a loaded model, and 'smollm2' is a name"),
        ((object(),), {}, "object is not a model; give a name, a folder, a GGUF file, the URL of a server"),
        (("http://127.0.0.1:9/v1",), {}, "127.0.0.1:9"),
        ((secl.ScriptedModel(),), {"settings": {"loop.alhpa": 1}}, "alhpa"),
        (("smollm2",), {"model": "gpt"}, "names the model of a server, and 'smollm2' is not a URL"),
    )
    for source, settings, said in refused:
        with pytest.raises(secl.SeclError, match=said):
            secl.load(*source, **settings)


def test_a_model_is_closed_at_the_end_of_its_block() -> None:
    closed = []

    class Closing(secl.ScriptedModel):
        def close(self) -> None:
            closed.append(True)

    with secl.load(Closing()) as model:
        model.ask(PERU)
    assert closed == [True]
