"""What equality keeps: signs, units, versions, ranges, negations; and what it does not: spelling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secl.grading.rules import grade, same_answer
from secl.grading.texts import normalise_text, same_text
from secl.question import Question

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
