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
    assert repr(answer).startswith(
        f"Record(text={answer.text!r}, letter='{answer.letter}', confidence={answer.confidence:.3f}"
    )
    assert "<b>" not in scripted().ask("Which <b>?", options=["x", "y & z"])._repr_html_()


def test_an_open_answer_has_no_letter_and_what_no_method_compared_has_no_candidates() -> None:
    answer = scripted(method="stated").ask(PERU)
    assert (answer.letter, answer.text, answer.candidates) == (None, answer.reply.answer, ())
    assert answer.accepted is None


def test_parts_of_a_question_are_texts_lists_pairs_and_mappings() -> None:
    history = [("user", "Hello"), {"role": "assistant", "content": "Hi"}, secl.Turn("user", "Again")]
    asked = scripted().ask(PERU, options=CITIES, context="A map.", system="Be brief.", history=history).question
    assert asked.options == tuple(CITIES)
    assert (asked.context, asked.system) == ("A map.", "Be brief.")
    assert [(turn.role, turn.text) for turn in asked.history] == [
        ("user", "Hello"),
        ("assistant", "Hi"),
        ("user", "Again"),
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"options": ["Lima"]}, "a single option"),
        ({"options": "Lima"}, "the text 'Lima' as its options"),
        ({"history": "Hello"}, "history is a text"),
        ({"history": [("nobody", "Hello")]}, r"history holds \('nobody', 'Hello'\); give each turn as"),
        ({"history": [5]}, "history holds 5"),
    ],
)
def test_parts_that_make_no_question_are_refused_in_a_sentence(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(QuestionError, match=said):
        scripted().ask(PERU, **arguments)


def test_a_complete_question_goes_alone() -> None:
    with pytest.raises(QuestionError, match="is complete; put options"):
        scripted().ask(secl.Question(PERU), options=CITIES)


def test_many_questions_are_asked_as_they_are_one_by_one() -> None:
    rows: list[Any] = [{"question": PERU, "options": CITIES}, {"question": "And of Chile?", "options": CITIES}]
    questions = secl.read_questions(rows)
    model = scripted()
    alone = [model.ask(question) for question in questions]
    assert list(scripted().ask_all(rows)) == alone
    assert list(scripted().ask_all(questions)) == alone
    assert list(scripted().ask_all(iter(rows))) == alone
    assert [answer.question.text for answer in scripted().ask_all(["Who?", "Where?"])] == ["Who?", "Where?"]


def test_the_rows_of_a_table_are_classified() -> None:
    tickets = [{"subject": "Login", "body": "It fails."}, {"subject": "Idea", "body": "Add a map."}]
    answers = list(scripted().ask_all(tickets, options=["bug", "feature"], template="Which kind? {subject}: {body}"))
    assert [answer.question.text for answer in answers] == [
        "Which kind? Login: It fails.",
        "Which kind? Idea: Add a map.",
    ]
    assert {answer.text for answer in answers} <= {"bug", "feature"}
    with pytest.raises(ParameterError, match="option"):
        list(scripted().ask_all(tickets, options=["bug"], template="{subject}"))


def test_files_and_frames_are_asked_with_a_progress_bar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("question,A,B\nIs it?,yes,no\nWas it?,yes,no\n", encoding="utf-8")
    assert [answer.question.text for answer in scripted().ask_all(file, progress=True)] == ["Is it?", "Was it?"]
    assert "asking" in capsys.readouterr().out
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"prompt": ["Is it?"], "options": [["yes", "no"]]})
    assert [answer.text for answer in scripted().ask_all(frame, columns={"question": "prompt"})]
    with pytest.raises(DataError, match="holds no question"):
        list(scripted().ask_all(frame.iloc[:0]))


def test_answers_from_elsewhere_get_a_confidence_however_they_come() -> None:
    model = scripted()
    answer = model.score(PERU, "lima", options=CITIES)
    assert (answer.text, answer.letter, answer.outcome) == ("Lima", "C", "given")
    assert next(scripted().score_all([(secl.Question(PERU, tuple(CITIES)), "C")])) == answer
    assert next(scripted().score_all([{"question": PERU, "options": CITIES, "answer": "Lima"}])).text == "Lima"
    with pytest.raises(QuestionError, match="has no answer to rate"):
        list(model.score_all([{"question": PERU}]))


def test_labels_move_later_confidences_and_support_a_threshold() -> None:
    model = scripted(method="stated")
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


def test_a_threshold_needs_answers_and_lies_between_0_and_1() -> None:
    with pytest.raises(ParameterError, match="no answers"):
        scripted().threshold(0.1)
    with pytest.raises(ParameterError, match="accept is 2; it must be a confidence from 0 to 1"):
        scripted().accept = 2


def test_the_default_never_changes_a_weight_and_learning_is_asked_for_by_name() -> None:
    plain, taught = scripted(), scripted(method="secl", settings={"loop.bin_gate": "off"})
    for question in toy_stream(20):
        plain.ask(question)
        taught.ask(question)
    assert plain.calibrator.model.version == 0
    assert taught.calibrator.model.version > 0
    assert "learns=False" in repr(plain)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("no such model",), "there is no model 'no such model'"),
        (("smollm2", object()), "a tokenizer comes with a loaded model, and 'smollm2' is a name"),
        ((object(),), "object is no model; give a name, a folder, a GGUF file, the URL of a server"),
        (("http://127.0.0.1:9/v1",), "127.0.0.1:9"),
    ],
)
def test_a_source_that_is_no_model_is_refused_in_a_sentence(arguments: tuple[Any, ...], said: str) -> None:
    with pytest.raises(secl.SeclError, match=said):
        secl.load(*arguments)


def test_settings_that_do_not_exist_or_fit_are_refused() -> None:
    with pytest.raises(ParameterError, match="alhpa"):
        scripted(settings={"loop.alhpa": 1})
    with pytest.raises(ParameterError, match="names the model of a server, and 'smollm2' is no URL"):
        secl.load("smollm2", model="gpt")


def test_a_model_is_closed_at_the_end_of_its_block() -> None:
    closed = []

    class Closing(secl.ScriptedModel):
        def close(self) -> None:
            closed.append(True)

    with secl.load(Closing()) as model:
        model.ask(PERU)
    assert closed == [True]
