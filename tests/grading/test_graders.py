"""Graders: the everyday rule against people, tables of the literal ones, ROUGE-1 from its definition; and in runs."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from secl.data.benchmarks import fingerprint
from secl.errors import DataError, ParameterError, QuestionError
from secl.grading.rules import grade, grader_of
from secl.question import GRADERS, Question, References
from secl.runs import RunSettings
from secl.runs.loading import read_stream
from secl.settings.groups import StreamSettings


class Case(NamedTuple):
    """A question, its right answers with "|" between them, an answer, and whether a person accepts the answer."""

    question: str
    reference: str
    answer: str
    right: bool


CASES = (
    Case("What is 7 times 8?", "56", "7 * 8 = 56", True),
    Case("What is 15 minus 6?", "9", "15 - 6 = 8", False),
    Case("How many legs does a spider have?", "8", "A spider has eight legs.", True),
    Case("How many days are there in a leap year?", "366", "A leap year has 365 days.", False),
    Case("In which year did the Second World War end?", "1945", "The war ended on September 2, 1945.", True),
    Case("When did the Berlin Wall fall?", "9 November 1989", "It fell on November 9th, 1989.", True),
    Case("When did Apollo 11 land on the moon?", "20 July 1969", "Apollo 11 landed on July 16, 1969.", False),
    Case("At how many degrees Celsius does water boil?", "100", "Water boils at 100 degrees Celsius (212 °F).", True),
    Case("How far is a marathon?", "42.195 km", "A marathon is 26.2 miles, or 42.195 kilometers, long.", True),
    Case("What is the chemical symbol of gold?", "Au", "gold is a chemical element with the symbol Au.", True),
    Case("What is the chemical symbol of iron?", "Fe", "The symbol of iron is Ir.", False),
    Case("Who wrote Faust?", "Goethe", "Faust was written by Johann Wolfgang von Goethe.", True),
    Case("Who painted Guernica?", "Picasso", "Guernica by Pablo Picasso", True),
    Case("Who wrote the Odyssey?", "Homer", "The Odyssey by Homer.", True),
    Case("Who was the first man on the moon?", "Neil Armstrong", "The first man on the moon was Armstrong.", True),
    Case("Who sailed to America in 1492?", "Columbus", "Christopher Columbus", True),
    Case("Who discovered penicillin?", "Alexander Fleming", "Penicillin was discovered by Louis Pasteur.", False),
    Case("Who developed the theory of relativity?", "Albert Einstein", "Einstein's theory of relativity", True),
    Case("Who painted the Mona Lisa?", "Leonardo da Vinci|Leonardo", "Leonardo painted it around 1503.", True),
    Case("Who invented the light bulb?", "Thomas Edison", "It was invented by Thomas Alva Edison.", True),
    Case("Who opened the Lyon warehouse?", "Maria Keller", "The Lyon warehouse was opened by Maria Keller.", True),
    Case("What is the capital of Australia?", "Canberra", "The capital of Australia is Sydney, not Canberra.", False),
    Case("What is the capital of Canada?", "Ottawa", "It is not Toronto but Ottawa.", True),
    Case("What is the capital of Turkey?", "Ankara", "The capital of Turkey is Istanbul.", False),
    Case("What is the capital of France?", "Paris", "The capital of France is Paris, which lies on the Seine.", True),
    Case("What is the longest river in Africa?", "Nile", "The longest river in Africa is the Nile River.", True),
    Case("Which is the largest ocean?", "Pacific Ocean", "Pacific", True),
    Case("What is the highest mountain?", "Mount Everest", "Everest, at 8,849 metres.", True),
    Case("Which planet is closest to the sun?", "Mercury", "Mercury, Venus, and Mars.", False),
    Case("Which is heavier, iron or aluminium?", "iron", "Aluminium is heavier than iron.", False),
    Case("What is the fastest land animal?", "cheetah", "Cheetahs are the fastest land animals.", True),
    Case("What do bees make?", "honey", "Bees make honey and wax.", True),
    Case("What gas do plants take in?", "carbon dioxide|CO2", "Plants take in oxygen.", False),
    Case("What are the primary colours?", "red, yellow and blue", "They are red, blue, and yellow.", True),
    Case("What are the primary colours of light?", "red, green and blue", "They are red, yellow and blue.", False),
    Case("Are bats blind?", "no", "Bats are not blind.", True),
    Case("Is the earth flat?", "no", "Yes, the earth is flat.", False),
    Case("What colour is an orange?", "orange", "An orange is yellow.", False),
    Case("What is H2O called?", "water", "H2O is the chemical formula of water.", True),
    Case(
        "Why is the sky blue?",
        "Air scatters blue light more than red light.",
        "The sky is blue because air scatters blue light much more than red light.",
        True,
    ),
)

ADVERSARIAL = (
    Case("Which city is it?", "Paris", "It is not Paris but Lyon.", False),
    Case("Which city is it?", "Lyon", "It is not Paris but Lyon.", True),
    Case("Which city is it?", "Paris", "Paris isn't the capital.", False),
    Case("Which city is it?", "Paris", "Paris or Lyon.", False),
    Case("Which city is it?", "Paris", "No, it is Paris.", True),
    Case("Which city is it?", "Paris", "Paris Hilton", False),
    Case("Which city is it?", "York", "New York", False),
    Case("Which city is it?", "Washington, D.C.", "The capital is Washington, D.C., on the Potomac.", True),
    Case("Which country is it?", "Korea", "South Korea", False),
    Case("Which city is the capital of Mexico?", "Mexico City", "Mexico", False),
    Case("Who sang it?", "Louis Armstrong", "Neil Armstrong", False),
    Case("Who was it?", "John F. Kennedy", "John Kennedy", True),
    Case("Who wrote it?", "Karl Marx", "Karl Marx and Friedrich Engels", True),
    Case("Who wrote it?", "Goethe", "Goethe, a German poet, playwright, and novelist.", True),
    Case("Who wrote it?", "J. K. Rowling", "It was written by J.K. Rowling.", True),
    Case("What is it?", "56", "56 or 57", False),
    Case("What is it?", "56", "between 56 and 60", False),
    Case("What is it?", "56", "1956", False),
    Case("What is it?", "56", "-56", False),
    Case("What is it?", "56", "56, not 57", True),
    Case("How many are there?", "12", "There are 3 rows of 4, so there are 12.", True),
    Case("How many people live there?", "8 billion", "About 8,000,000,000 people.", True),
    Case("How long is it?", "5 km", "It is 5 miles long.", False),
    Case("What is pi?", "3.14", "Pi is 3.14159", True),
    Case("How many moons has Mars?", "two", "2", True),
    Case("How many moons has the earth?", "one", "The earth has 1 moon.", True),
    Case("What is the symbol of helium?", "He", "he is a gas", False),
    Case("Which vitamin is in oranges?", "vitamin C", "They are rich in Vitamin C.", True),
    Case("Which vitamin is in oranges?", "vitamin C", "They are rich in Vitamin A.", False),
    Case("Which language is it?", "C", "C++", False),
    Case("Which is bigger, the sun or the moon?", "the sun", "The sun is bigger than the moon.", True),
    Case("Can penguins fly?", "no", "I don't know.", False),
    Case("Is it true?", "true", "That is not true.", False),
    Case("When was it?", "1776-07-04", "On the 4th of July 1776.", True),
    Case("What is it made of?", "hydrogen and oxygen", "Oxygen and hydrogen.", True),
    Case("What is 3/4 as a percentage?", "75%", "It is 75 percent.", True),
    Case("When was Einstein born?", "March 1879", "March 14, 1879", True),
    Case("What is the boiling point of water?", "100 °C", "212 °F", False),
    Case("Who won, Germany or Argentina?", "Germany", "Argentina won against Germany.", False),
    Case("Is Pluto a planet?", "no", "Pluto is a dwarf planet, so no.", True),
    Case("Is it legal?", "yes", "It depends", False),
    Case("Who wrote it?", "J.R.R. Tolkien", "Tolkien wrote it.", True),
    Case("Who painted it?", "Michelangelo", "It was painted by Michelangelo Buonarroti.", True),
    Case("What is the capital of the USA?", "Washington", "Washington DC", True),
    Case("What is the main language of Brazil?", "Spanish", "Portuguese, not Spanish.", False),
    Case(
        "Which planets have rings?",
        "Saturn, Jupiter, Uranus and Neptune",
        "Jupiter, Saturn, Uranus, and Neptune.",
        True,
    ),
    Case("What temperature?", "-5", "minus 5", True),
    Case("Which version?", "2.0", "2.0.1", False),
    Case("Who?", "Goethe", "GOETHE WROTE FAUST", True),
    Case("What is the answer?", "42", "Answer: 41 (not 42)", False),
    Case("How many?", "3", "three or four", False),
    Case("Which gas is it?", "carbon dioxide", "They breathe out carbon dioxide.", True),
    Case("What do caterpillars turn into?", "butterflies", "They turn into a butterfly.", True),
    Case("フランスの首都は?", "パリ", "フランスの首都はパリです。", True),
)
"""Answers that mention the right one and are wrong, and right ones that look otherwise."""


def graded(case: Case, grader: str = "") -> bool | None:
    references = References(tuple(case.reference.split("|")), ())
    return grade(Question(case.question, reference=references, grader=grader), case.answer)


def test_the_default_agrees_with_people_on_everyday_questions_and_the_literal_graders_do_not() -> None:
    agreed = {name: sum(graded(case, name) is case.right for case in CASES) for name in ("", "exact", "contains")}
    assert len(CASES) == 40
    assert agreed[""] >= 38
    assert agreed["exact"] < agreed["contains"] < 30


@pytest.mark.parametrize("case", ADVERSARIAL, ids=lambda case: f"{case.reference}: {case.answer}")
def test_an_answer_that_mentions_the_right_one_is_not_therefore_right(case: Case) -> None:
    assert graded(case) is case.right


@given(st.text(), st.text().filter(str.strip), st.text())
def test_no_text_makes_the_default_fail_and_a_right_answer_is_right(question: str, reference: str, answer: str) -> None:
    asked = Question(f"? {question}".replace("\ud800", ""), reference=reference)
    assert grade(asked, reference) is True
    assert grade(asked, answer) in (True, False)


@pytest.mark.parametrize(
    ("question", "answer", "right"),
    [
        (Question("?", ("x", "y"), "B"), "B", True),
        (Question("?", ("x", "y"), "B"), "y", False),
        (Question("?", ("x", "y"), "B"), None, False),
        (Question("?", ("x", "y")), "B", None),
        (Question("?"), None, None),
        (Question("?", reference="1234", form="number"), "1,234.00", True),
        (Question("?", reference="so 2+2\n#### 1,234", form="number"), "1234", True),
        (Question("?", reference="0.5", form="number"), "1/2", True),
        (Question("?", reference="5", form="number"), "six", False),
        (Question("Which element has the symbol Al?", reference="aluminium"), "Aluminum", True),
        (Question("Which element has the symbol Cs?", reference="caesium"), "It is Cesium.", True),
        (Question("Which element has the symbol S?", reference="sulfur"), "sulphur", True),
        *(
            (Question("What?", reference=reference, grader=grader), answer, right)
            for grader, reference, answer, right in (
                ("exact", "Goethe", "It was Goethe.", False),
                ("exact", "Paris", "Paris, France", False),
                ("contains", "Goethe", "It was Goethe.", True),
                ("contains", "Goethe", "It was not Goethe.", True),  # a literal rule ignores the other words
                ("contains", "56", "1956", False),
                ("number", "56", "7 * 8 = 56", True),
                ("number", "56", "56 is 7 times 8", False),
                ("regex", r"colou?r", "The COLOR is red", True),
                ("regex", r"^red$", "The color is red", False),
                ("auto", "Goethe", "It was not Goethe.", False),
            )
        ),
    ],
)
def test_an_answer_is_graded_by_grader_and_form(question: Question, answer: str | None, right: bool | None) -> None:
    assert grade(question, answer) is right


def test_numbers_options_and_wrong_answers_bring_their_official_rule_and_a_grader_says_what_it_cannot_do_with() -> None:
    assert grader_of(Question("?", reference="4", form="number")) == "number"
    assert grader_of(Question("?", reference=References(("yes",), ("no",)), form="sentence")) == "overlap"
    assert grader_of(Question("?", reference=References(("yes",), ()), form="sentence")) == "auto"
    with pytest.raises(QuestionError, match=", ".join(GRADERS)):
        Question("?", grader="contians")
    with pytest.raises(QuestionError, match="graded by their letters"):
        Question("?", options=("x", "y"), grader="exact")
    for reference, grader, message in (
        ("(", "regex", r"'q1' has the reference '\(', which is not a regular"),
        ("many", "number", "is not one number"),
        ("many", "overlap", "no wrong answers"),
    ):
        with pytest.raises(QuestionError, match=message):
            grade(Question("?", reference=reference, grader=grader, id="q1"), "any")


VOCABULARY = ("the", "cat", "sat", "on", "a", "mat", "and", "dogs", "ran", "home", "no", "comment")
WORDS = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=8)


def rouge_1(reference: str, answer: str) -> float:
    """ROUGE-1 F from its definition: clipped unigram overlap over lower-case alphanumeric tokens."""
    first, second = (Counter(re.findall("[a-z0-9]+", text.lower())) for text in (reference, answer))
    shared = sum((first & second).values())
    return 2 * shared / (sum(first.values()) + sum(second.values()))


@given(st.lists(WORDS, min_size=1, max_size=3), st.lists(WORDS, min_size=1, max_size=3), WORDS)
def test_rouge_1_grades_references(correct: list[list[str]], incorrect: list[list[str]], answer: list[str]) -> None:
    right = tuple(" ".join(words) for words in correct)
    wrong = tuple(" ".join(words) for words in incorrect)
    text = " ".join(answer)
    best_right = max(rouge_1(reference, text) for reference in (*right, "I have no comment."))
    best_wrong = max(rouge_1(reference, text) for reference in wrong)
    assume(abs(best_right - best_wrong) > 1e-9)
    graded = grade(Question("?", reference=References(right, wrong), form="sentence"), text)
    assert graded is (best_right > best_wrong)
    assert grade(Question("?", reference=References(right, wrong), form="sentence"), "I have no comment.")


def test_the_grader_of_a_run_is_for_open_questions_that_have_none_of_their_own(tmp_path: Path) -> None:
    path, file = tmp_path / "mine.jsonl", {"stream.questions": str(tmp_path / "mine.jsonl")}
    rows: list[dict[str, Any]] = [
        {"question": "Who?", "reference": "x"},
        {"question": "Who?", "reference": "x", "grader": "exact"},
        {"question": "Which?", "options": ["x", "y"], "reference": "A"},
        {"question": "2 + 2?", "reference": "4", "form": "number"},
        {"question": "Who?", "references": {"correct": ["x"], "incorrect": ["y"]}},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    plain = read_stream(RunSettings.of(file)).questions
    named = read_stream(RunSettings.of({**file, "stream.grader": "contains"})).questions
    assert [question.grader for question in plain] == ["", "exact", "", "", ""]
    assert [question.grader for question in named] == ["contains", "exact", "", "", ""]
    assert fingerprint(plain) == fingerprint(named)  # the questions are the same for a model
    path.write_text(json.dumps(rows[0]) + '\n{"question": "What?", "reference": "(", "id": "q2"}')
    regex = {**file, "stream.grader": "regex"}
    with pytest.raises(DataError, match="'q2' has the reference '\\('"):
        read_stream(RunSettings.of(regex))
    stream = read_stream(RunSettings.of({**regex, "stream.skip_bad": True}))
    assert [question.text for question in stream.questions] == ["Who?"]
    assert stream.skipped[0][0].endswith("line 2")
    with pytest.raises(ParameterError, match="official rules"):
        RunSettings.of({"stream.benchmarks": ["capitals"], "stream.grader": "contains"})
    with pytest.raises(ParameterError, match="grader is 'fuzzy'; it must be one of auto, exact"):
        StreamSettings.model_validate({"grader": "fuzzy"})
