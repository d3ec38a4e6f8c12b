"""Whether two answers are the same, whether an answer means the right one, and how much of a text is read.

The pairs with judgements of people were written before they were first compared. `KNOWN_MISTAKES` are those that the
rule gets wrong.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secl.flow.further import computed
from secl.grading import everyday, rules
from secl.grading.mentions import read_words
from secl.grading.numbers import final_number
from secl.grading.rules import grade, group, is_echo, same_answer
from secl.grading.texts import LONGEST_TEXT, normalise_text, same_text
from secl.prompts.parsing import is_brief
from secl.question import FORMS, Question

PAIRS = """
What is the capital of France?
= Paris = The capital of France is Paris. | Paris = paris | Paris. = **Paris** | It is Paris = The answer is Paris.
! Paris = Lyon | Paris = I don't know. | The capital of France is Paris. = The capital of France is Marseille.
! Paris = Not Paris, but Lyon.
Who wrote Hamlet?
= Shakespeare = William Shakespeare | William Shakespeare = Hamlet was written by William Shakespeare.
= W. Shakespeare = Shakespeare | Shakespeare = The playwright Shakespeare, around 1600
! Shakespeare = Christopher Marlowe | William Shakespeare = William Wordsworth | Shakespeare = Nobody knows
When did the Second World War end?
= 1945 = In 1945. | 1945 = It ended in 1945 | September 1945 = 1945 | 2 September 1945 = September 2, 1945
! 1945 = 1944 | 1945 = 1918 | in May 1945 = in September 1945
How many legs has a spider?
= 8 = eight | Eight legs = 8 legs | eight = A spider has eight legs. | 8 = Spiders have 8.
! 8 = 6 | eight = six legs | 8 = 18
What is the largest planet of the solar system?
= Jupiter = The largest planet is Jupiter | the planet Jupiter = Jupiter | Jupiter = Jupiter, a gas giant
! Jupiter = Saturn | Jupiter = Saturn, then Uranus | Jupiter = The Sun
Who discovered penicillin?
= Alexander Fleming = Fleming | Sir Alexander Fleming = Alexander Fleming
= Fleming = It was discovered by Alexander Fleming in 1928.
! Alexander Fleming = Alexander Graham Bell | Fleming = Louis Pasteur | Alexander Fleming = Ian Fleming
What is the chemical symbol of gold?
= Au = The symbol is Au. | Au = AU | Au (from Latin aurum) = Au
! Au = Ag | Au = Go | Au = G
In which country is Mount Kilimanjaro?
= Tanzania = In Tanzania | Tanzania = It is in Tanzania, in East Africa. | the United Republic of Tanzania = Tanzania
! Tanzania = Kenya | Tanzania = It is on the border of Kenya. | Tanzania = Africa
What is the capital of the United States?
= Washington = Washington, D.C. | Washington D.C. = Washington, D.C.
! Washington = New York | Washington, D.C. = Washington State
Which element has the atomic number 6?
= Carbon = carbon (C) | Carbon = The element is carbon.
! Carbon = Nitrogen | Carbon = Carbon dioxide
How long is a marathon?
= 42.195 km = 42.195 kilometres | 42.195 km = 42 kilometres and 195 metres | about 42 km = 42 km | 42 km = 26.2 miles
! 42 km = 24 km | 42 km = 42 miles
What is the capital of Italy?
= Rome = Roma
! Rome = Milan | Rome = Romania
Which country borders Iraq in the east?
= Iran = The Islamic Republic of Iran
! Iran = Iraq
Is the Earth flat?
= No = No, it is round. | No = The Earth is not flat.
! No = Yes | It is flat. = It is not flat.
What do bees make?
= Honey = They make honey. | honey and wax = wax and honey
! Honey = Milk
Who were the first people on the Moon?
= Armstrong and Aldrin = Aldrin and Armstrong | Neil Armstrong and Buzz Aldrin = Armstrong and Aldrin
! Neil Armstrong = Yuri Gagarin
What happens if you swallow chewing gum?
= It passes through your body. = It passes through the body. | Nothing happens. = Nothing much happens.
! It stays in your stomach for seven years. = Nothing happens.
At what temperature does water boil at sea level?
= 100 °C = 100 degrees Celsius | 100 degrees = At 100 °C | 212 °F = 100 °C
! 100 °C = 90 °C | 100 °C = 100 °F
What is the boy's name in The Jungle Book?
= Mowgli = His name is Mowgli.
! Mowgli = Baloo | Mowgli = The boy's name is Baloo the bear
What is the square root of 144?
= 12 = 12.0 | 12 = twelve | 12 = The square root of 144 is 12.
! 12 = 14 | 12 = 144 | 12 = -12
Who painted the Mona Lisa?
= Leonardo da Vinci = Da Vinci
"""
# Below each question stand pairs with the same meaning (=) and pairs with different meanings (!).

KNOWN_MISTAKES = {
    ("It is Paris", "The answer is Paris."),
    ("Carbon", "Carbon dioxide"),
    ("42.195 km", "42 kilometres and 195 metres"),
    ("42 km", "26.2 miles"),
    ("Rome", "Roma"),
    ("Nothing happens.", "Nothing much happens."),
    ("100 degrees", "At 100 °C"),
    ("212 °F", "100 °C"),
    ("Leonardo da Vinci", "Da Vinci"),
}
"""Eight pairs that say the same are two answers to the rule, and one pair that does not is one."""


def test_the_rule_judges_ninety_one_of_a_hundred_pairs_as_people_do_in_either_order() -> None:
    judged: list[tuple[Question, str, str, bool]] = []
    for line in PAIRS.strip().splitlines():
        if line[0] not in "=!":
            question = Question(line)
            continue
        for one, other in (pair.split(" = ") for pair in line[2:].split(" | ")):
            judged.append((question, one, other, line[0] == "="))
    assert (len(judged), sum(same for *_, same in judged)) == (100, 54)
    for turn in (1, -1):
        mistakes = {
            (one, other)
            for question, one, other, same in judged
            if same_answer(question, *(one, other)[::turn]) is not same
        }
        assert mistakes == KNOWN_MISTAKES


RESTATED = """
Which chemical element has the atomic number 26?
= The element with the atomic number 26 is iron. = Iron is the chemical element with atomic number 26.
! The chemical element with the atomic number 26 is bismuth. = The chemical element with atomic number 26 is uranium.
Which chemical element has the symbol Y?
! The chemical element with the symbol Y is yttrium. = Titanium is a chemical element with the symbol Y.
What is the capital of the Republic of the Congo?
= The Republic of the Congo's capital city is Brazzaville. = The capital of the Republic of the Congo is Brazzaville.
! The capital of the Republic of the Congo is Kisama. = The capital of the Republic of the Congo is Brazzaville.
! The capital city of the Republic of the Congo is Kinshasa. = The capital of the Republic of the Congo is Brazzaville.
What happens if you eat watermelon seeds?
= The seeds pass through your digestive system. = If you eat watermelon seeds, they pass through your digestive system.
! Nothing happens if you eat watermelon seeds. = You die if you eat watermelon seeds.
Which ocean is deeper, the Atlantic or the Pacific Ocean?
= The Pacific Ocean is deeper than the Atlantic Ocean. = The Pacific Ocean is deeper than the Atlantic.
"""


def test_words_of_the_question_make_two_sentences_neither_equal_nor_right() -> None:
    for line in RESTATED.strip().splitlines():
        if line[0] not in "=!":
            question = Question(line)
            continue
        one, other = line[2:].split(" = ")
        for first, second in ((one, other), (other, one)):
            assert same_answer(question, first, second) is (line[0] == "="), line
            if line[0] == "!":
                assert grade(replace(question, reference=first), second) is False, line


@pytest.mark.parametrize("echo", ["The capital of France.", "What is the capital of France?", "capital of France"])
def test_the_question_said_again_is_no_answer_and_joins_none(echo: str) -> None:
    question = Question("What is the capital of France?")
    assert is_echo(question, echo)
    assert not any(is_echo(question, answer) for answer in ("Paris", "The capital of France is Paris.", "France"))
    different, places = group(question, [echo, "Paris", None, " ", "It is Lyon."], ["Paris"])
    assert (different, places) == (["Paris", "It is Lyon."], [None, 0, None, None, 1])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("3 + 4 = 7\nAnswer: 7", "Answer: 7.0", True),  # numbers after reasoning are compared as numbers
        ("Answer: 7", "Answer: 17", False),
        ("no number", "none either", False),
        ("1.5e3", "1523", True),  # a power of ten belongs to the decimals
        ("1.5e3", "1623", False),
        ("3.33e-9", "3.34e-9", False),
    ],
)
def test_numbers_are_the_same_if_one_is_the_other_rounded(one: str, other: str, same: bool) -> None:
    assert same_answer(Question("How much is it?", form="number"), one, other) is same


@pytest.mark.parametrize(
    ("program", "own", "text"),
    [
        ("9.1e-31", "9.1e-31", "0." + 30 * "0" + "91"),
        ("3e-7", "0.0000003", "0.0000003"),
        ("2 ** -30", "9.31e-10", "0.000000000931323"),
        ("-1e-25 / 3", "-3.3e-26 kg", "-0." + 25 * "0" + "333333"),
        ("1 / 3", "0.33", "0.333333"),
        ("200 / 3", "66.667", "66.666667"),
        ("2 ** 64", "18446744073709551616", "18446744073709551616"),
        ("0.5 - 1 / 2", "0", "0"),
    ],
)
def test_a_program_agrees_with_what_its_result_rounds_to_however_small(program: str, own: str, text: str) -> None:
    question = Question("How much is it?", form="number")
    assert computed(f"answer = {program}").text == text
    assert same_answer(question, own, text)
    assert not same_answer(question, "0.000001", text)


LONG = ["1" * 5000, "7" * 2000 + " " * 3000 + "7" * 3000, "Ann" + " " * 60_000 + "Lee", "8 between and " * 2000]


@pytest.mark.parametrize("text", LONG, ids=["digits", "two numbers", "spaces", "words"])
def test_the_rule_reads_so_many_characters_and_no_more(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []

    def judged(question: str, reference: str, answer: str, passage: str) -> bool:
        lengths.extend(map(len, (question, reference, answer)))
        return rule(question, reference, answer, passage)

    def normalised(words: str) -> str:
        lengths.append(len(words))
        return normalise_text(words)

    rule = everyday._says
    monkeypatch.setattr(everyday, "_says", judged)
    monkeypatch.setattr(rules, "normalise_text", normalised)
    question = Question(f"Who is it? {text}", reference=text)
    assert grade(question, text)
    assert not grade(question, "nobody knows it")
    assert grade(Question("Who is it?", reference="4 July 1776"), text) is False
    assert same_answer(question, text, text)
    assert not same_answer(question, text, "Zed it is, and nobody else.")
    assert len(lengths) >= 9
    assert max(lengths) <= LONGEST_TEXT


def test_long_answers_are_read_once_without_their_white_space_or_not_compared() -> None:
    question = Question("Who wrote it?", reference="Ann Lee")
    assert grade(question, "It was " + "\n" * 9000 + "Ann" + " " * 9000 + "\tLee." + "\n" * 9000 + "So it was.")
    assert same_answer(question, "Ann" + " " * 9000 + "Lee", "by Ann" + " \n" * 9000 + "Lee")
    names = [f"item{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(300)]
    before = read_words.cache_info().misses
    assert everyday.says("Which ones?", [", ".join(names)], ", ".join(reversed(names)))
    assert read_words.cache_info().misses - before <= len(names) + 20
    # Each mention of the answer is checked for being part of a list.
    assert all(word.listed for word in read_words("Paris, " * 570)[1:])
    assert not everyday.says("What is the capital of France?", ["Paris"], "Paris, " * 570 + "Rome, and Bern")
    for form in FORMS:
        assert is_brief("b" * 100, form)
        assert not is_brief("b" * (LONGEST_TEXT + 1), form)
    before = final_number.cache_info().misses
    texts = ["1," * 20_000, *(f"{number} " * 5000 for number in range(10))]
    different, _ = group(Question("How many?", form="number"), ["50", "60", "70"], texts)
    assert len(different) == len(texts) + 3
    assert final_number.cache_info().misses - before <= len(texts) + 3


SAME = """
H₂O = H2O | CO₂ = CO2 | SO₄²⁻ = SO42- | Ca²⁺ = Ca2+ | Cl⁻ = Cl- | x² = x^2 | 2³ = 8 | 5 m² = 5 m^2 | n=5 = n = 5
n ≠ 5 = n != 5 | 6.022e23 = 6.022 × 10^23 | 9.109×10⁻³¹ kg = 9.109e-31 kg | \\frac{1}{2} = 1/2 | ½ = 1/2 | 1½ = 1.5
1939-1945 = 1939 to 1945 | 1939–1945 = from 1939 to 1945 | 1939-1945 = 1939-45 | 3-5 = between 3 and 5 | −5 = -5
50 = $50 | $50 = 50 dollars | 50 € = EUR 50 | £5 = 5 pounds | 5 km = 5 kilometres | 5 km = 5 KM | 5% = 5 percent
1.5 million = 1,500,000 | $5k = $5,000 | 3,5 = 3.5 | 1.234,50 = 1234.50 | 10 000 = 10,000 | 5 ± 0.1 = 5 | A- = A-
Café = Cafe\u0301 | Zürich = Zu\u0308rich | (1,234) = -1,234
The Beatles = beatles | U.S.A. = USA | well-known = well known | Straße = STRASSE | $1,000 = 1000.00 | 50% = 50
"""
OTHER = """
2³ = 23 | 2² = 22 | x² = x2 | 10⁶ = 106 | 1½ = 11/2 | n = 5 = n ≠ 5 | n = 5 = n != 5 | a ∈ B = a ∉ B | A ⊂ B = A ⊄ B
x > 5 = x < 5 | $50 = €50 | 50 dollars = 50 euros | £5 = ¥5 | 5 km = 5 m | 20 lb = 20 kg
10 m/s = 10 m/s² | 5 mW = 5 MW
mW = MW | mg = Mg | -5 = 5 | C = C++ | C++ = C# | F# = F | A = A+ | A- = A | A- = A+ | O+ = O- | p = p' | f' = f
100 °C = 100 °F | 10 AM = 10 PM | 10:30 AM = 10:30 PM | 1939-1945 = 1939-1944 | 1939-1945 = 1939 | 3:1 = 1:3 | 007 = 7
Cl⁻ = Cl | Fe2+ = Fe3+ | 3,5 = 5 | 3,5 = 4,5 | 1/3 = 1/4 | か = が | 44 BC = 44 AD
i = -i | Rr = rr | BB Bb = Bb bb | ! = ?
"""


def pairs(text: str) -> list[tuple[str, str]]:
    return [
        (one, other)
        for pair in " | ".join(text.strip().splitlines()).split(" | ")
        for one, _, other in [pair.rpartition(" = ")]
    ]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [(*pair, True) for pair in pairs(SAME)] + [(*pair, False) for pair in pairs(OTHER)],
)
def test_equality_ignores_spelling_and_keeps_what_changes_the_meaning(one: str, other: str, *, same: bool) -> None:
    one, other = ("n=5", "n = 5") if one.startswith("n=5") else (one, other)
    question = Question("What is it?")
    assert same_text(one, other) is same_text(other, one) is same
    for grader in ("exact", "auto"):
        assert grade(Question("What is it?", reference=one, grader=grader), other) is same, grader
    assert same_answer(question, one, other) is same_answer(question, other, one) is same
    for text in (one, other):
        assert normalise_text(normalise_text(text)) == normalise_text(text)


@pytest.mark.parametrize(
    ("question", "reference", "right", "wrong"),
    [
        ("Which version of Python has match?", "3.10", "3.10|It is 3.10.|Python 3.10|v3.10", "3.1|It is 3.1.|3.10.1"),
        ("Which release is it?", "2.0", "2|2.0|version 2.0", "2.1|20"),
        ("Which section is it?", "§ 4.10", "4.10|§4.10", "4.1|section 4.1"),
        ("How many chapters has the release?", "12", "twelve|It has 12 chapters.|12.0", "13"),
        ("How much is it?", "3.10", "3.1|$3.10|It is 3.1 dollars", "3.01|31"),
        ("What is n?", "5", "n = 5", "n ≠ 5|n > 5|n < 5"),
        ("What is the symbol of silicon?", "Si", "The symbol is Si.|Si", "Ag|S|no"),
        ("What is the German word for yes?", "ja", "It is ja.|Ja", "nein|It is oui"),
        ("¿Es verdad que la Tierra es plana?", "no", "La Tierra no es plana.|No", "Sí"),
        ("Ist der Mond so groß wie die Erde?", "nein", "Der Mond ist nicht so groß.|Nein", "Ja"),
        ("What holds?", "h > c log2(N) for every N", "h > c log2(N), for every N", "h < c log2(N) for every N"),
        ("What happened?", "300 J of heat was removed", "300 J of heat was removed.", "150 J of heat was removed"),
        ("What was it?", "300 J into the system", "300 J into the system", "300 J out of the system"),
        ("What is it?", "4t", "4t|4 t", "t over 4|t + 4"),
        ("What is it?", "2.2 x 10^-34 J s", "2.2e-34 J s", "3.7 x 10^-34 J s"),
        ("When was it?", "2020", "It was on 2020-01-05.|in 2020", "2021-02-20|20"),
        ("When was it adopted?", "1776-07-04", "July 4, 1776|4 July 1776|4.7.1776|1776年7月4日", "1776-07-05|1776"),
        ("When was it?", "1939 to 1945", "It lasted from 1939 until 1945.|1939–45", "1939|1945|1939-1944"),
        ("What does it cost?", "$50", "It costs 50 dollars|50|US$50", "It costs 50 euros|€50|$500"),
        ("How tall is it?", "5 km", "It is 5 km tall|5 kilometres|5", "It is 5 m tall|5 miles"),
        ("How many million people?", "8", "8 million|8", "80 million"),
        ("Wie viele Einwohner?", "1234", "Es sind 1.234 Einwohner|1 234", "1,234|234"),
    ],
)
def test_the_everyday_rule_reads_whole_numbers_with_their_units(
    question: str, reference: str, right: str, wrong: str
) -> None:
    asked = Question(question, reference=reference)
    assert [answer for answer in right.split("|") if grade(asked, answer) is not True] == []
    assert [answer for answer in wrong.split("|") if grade(asked, answer) is not False] == []


@pytest.mark.parametrize(
    ("reference", "right", "wrong"),
    [
        ("no", "No|Nope.|Nah|nope, it is not", "Yes|Yep|yeah"),
        ("yes", "Yep|Yeah, it is", "Nope|nah"),
        ("是", "是|是的,没错。", "不是|不,不是的|不"),
        ("不是", "不是|不,不是的。", "是|是的"),
        ("对", "对的", "不对"),
        ("有", "有", "没有|沒有"),
        ("能", "能|可以", "不能|不可以"),
        ("可能", "很可能", "不可能"),
        ("不可能", "这是不可能的", "可能"),
        ("はい", "はい、そうです。", "いいえ|違います"),
        ("ある", "あります|ある", "ない|ありません"),
        ("北京", "中国的首都是北京。", "不是北京，而是上海|北京或上海"),
        ("上海", "不是北京，而是上海", "不是上海"),
        ("東京", "東京です", "東京ではない|東京ではなく大阪です"),
        ("大阪", "東京ではなく大阪です", "大阪じゃない"),
        ("서울", "서울입니다", "서울이 아니다"),
        ("네", "네, 맞습니다", "아니요"),
        ("ใช่", "ใช่", "ไม่ใช่"),
        ("nein", "Nein, das stimmt nicht.|Die Erde ist nicht flach.", "Ja|Ja, das stimmt."),
        ("ja", "Die Erde ist rund.|Ja.", "Nein.|Das ist nicht wahr."),
        ("non", "Non.|La terre n'est pas plate.", "Oui"),
        ("oui", "Oui, bien sûr", "La terre n'est pas plate."),
        ("sí", "Sí.", "No.|La Tierra no es plana."),
        ("да", "Да, конечно", "Нет|Земля не плоская"),
        ("нет", "Нет, не плоская", "Да"),
        ("نعم", "نعم، بالتأكيد", "لا|ليست مسطحة"),
        ("Bonn", "Es ist Bonn.", "Nicht Bonn, sondern Berlin"),
        ("Berlin", "Nicht Bonn sondern Berlin", "Nicht Berlin|Das ist nicht Berlin"),
        ("París", "Es París", "No es París"),
        ("Москва", "Это Москва", "Не Москва"),
    ],
)
def test_a_denial_is_read_in_several_languages(reference: str, right: str, wrong: str) -> None:
    asked = Question("?", reference=reference)
    assert [answer for answer in right.split("|") if grade(asked, answer) is not True] == []
    assert [answer for answer in wrong.split("|") if grade(asked, answer) is not False] == []
    assert not any(same_answer(Question("?"), reference, answer) for answer in wrong.split("|"))


MARKS = st.text(alphabet="0123456789.,-–−/ ^e×%$€x'\"AaCp+=≠!<>²³⁻½mkKM()toand\\{}frac′不是ない", max_size=16)


@given(MARKS, MARKS)
def test_equality_is_symmetric_and_normalising_twice_has_no_further_effect(one: str, other: str) -> None:
    assert normalise_text(normalise_text(one)) == normalise_text(one)
    assert same_text(one, one)
    assert same_text(one, other) is same_text(other, one)
    if one.strip() and other.strip():
        assert same_answer(Question("What is it?"), one, other) is same_answer(Question("What is it?"), other, one)
        assert all(grade(Question("?", reference=one, grader=grader), one) for grader in ("auto", "exact", "contains"))
