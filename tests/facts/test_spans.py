# ruff: noqa: RUF001
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from secl.facts.spans import find_spans

FRANCE = "Paris is the capital of France. France has 68 million people."

SPANS = {
    "numbers have their sign, currency and unit": (
        "From −5 °C to 1.008 at $1,200, 3.5 million euros, 12 % and 236,800 square kilometres.",
        ["−5 °C", "1.008", "$1,200", "3.5 million euros", "12 %", "236,800 square kilometres"],
    ),
    "numbers are also ranges, fractions, powers and words": (
        "Bake 10–15 minutes with 1/2 cup, 3.5 × 10^8 grains and twenty-five eggs.",
        ["10–15 minutes", "1/2 cup", "3.5 × 10^8", "twenty-five"],
    ),
    "a date is one value, as is a time": (
        "On 3 May 1960, on May 3rd, 2020, in March 2021 and on 2024-05-01 at 14:30, as in the 1990s and in 1794.",
        ["3 May 1960", "May 3rd, 2020", "March 2021", "2024-05-01", "14:30", "1990s", "1794"],
    ),
    "a name is a run of capitalised words with the particles between them": (
        "It belongs to the University of California at Berkeley and to Dr. Ludwig van Beethoven Jr. as well.",
        ["University of California", "Berkeley", "Dr. Ludwig van Beethoven Jr"],
    ),
    "a single capitalised word at the start of a sentence is no name": (
        "Water boils. However, Bangkok is large. The Mekong flows.",
        ["Bangkok", "Mekong"],
    ),
    "unless it is a name elsewhere, or an acronym": (
        "Vientiane is old. It lies in Laos. Laos has Vientiane. NATO does not.",
        ["Vientiane", "Laos", "Laos", "Vientiane", "NATO"],
    ),
    "the number of a name belongs to the name": (
        "They saw Apollo 11, the S&P 500 and PEP 8; in Graz 80 people did.",
        ["Apollo 11", "S&P 500", "PEP 8", "Graz", "80 people"],
    ),
    "a value at the end of a sentence": (
        "It came on 12/03/2024. Then it was 5:30 pm. Serves 4. It cost 3 × 10⁸ m/s.",
        ["12/03/2024", "5:30 pm", "4", "3 × 10⁸ m/s"],
    ),
    "words in capital letters are no names": ("THE TREATY WAS SIGNED IN ROME ON 25 MARCH 1957.", ["25 MARCH 1957"]),
    "a currency is a name": (
        "Its currency is the euro, not the Syrian pound or dinars. It weighs a pound in block H. It won.",
        ["euro", "Syrian pound", "dinars", "H"],
    ),
    "a quotation is one value without its marks": (
        "He said \"it is fine\", “so be it” and «bien»; don't ask James' dog.",
        ["it is fine", "so be it", "bien", "James"],
    ),
    "code": (
        "Use `os.path.join(a, b)`, numpy.linalg.norm, my_name, camelCase, foo(), /usr/bin/env, --flag and .org.",
        ["os.path.join(a, b)", "numpy.linalg.norm", "my_name", "camelCase", "foo()", "/usr/bin/env", "--flag", ".org"],
    ),
    "numbers of documents, chemical formulas and symbols": (
        "Invoice INV-2024-001 is for H2O and COVID-19, with symbol As.",
        ["INV-2024-001", "H2O", "COVID-19", "As"],
    ),
    "links and addresses": (
        "See https://example.org/a?b=1, or mail to joe@example.org.",
        ["https://example.org/a?b=1", "joe@example.org"],
    ),
    "LaTeX is no currency": ("The energy $E = mc^2$ costs $5 and $10.", ["E = mc^2", "$5", "$10"]),
    "Markdown headings, labels and numbers of lists are no facts": (
        "## The Long Way\n1. **Capital:** **Paris**\n2. Currency: 5 euros\n\n**Two Words**\n\nSee [1].",
        ["Paris", "5 euros"],
    ),
    "cells of a table": (
        "| Name | Year |\n|---|---|\n| Rome | 1871 |\n| Graz | 1128 |",
        ["Rome", "1871", "Graz", "1128"],
    ),
    "a program has facts in its strings, numbers and dotted names": (
        "```python\nMyName = foo(1, 'abc')\ny = np.linalg.norm(My, 12)\n```\nThen 7.",
        ["abc", "np.linalg.norm", "12", "7"],
    ),
    "a block of data is read like text": ('```json\n{"city": "Rome", "n": 3}\n```', ["city", "Rome", "n", "3"]),
    "Chinese": (
        "法国的首都是巴黎，人口约220万人。《红楼梦》写于1791年5月3日。",
        ["巴黎", "220万人", "红楼梦", "1791年5月3日"],
    ),
    "Japanese": ("パリはフランスの首都です。人口は２１６万人。", ["フランス", "２１６万人"]),
    "Arabic": ("عاصمة فرنسا هي «باريس»، ٢٫١ مليون نسمة في ٣ مايو ١٩٦٠.", ["باريس", "٢٫١", "٣ مايو ١٩٦٠"]),
    "Russian": ("Столица — Москва, 12,6 млн человек с 3 мая 1147 года.", ["Москва", "12,6 млн", "3 мая 1147"]),
    "German nouns are no names": ("Der Hund lief durch das Haus und die Katze schlief in Hamburg.", ["Hamburg"]),
    "nothing": ("", []),
    "a poem": ("the rain falls soft\nupon the sleeping town\nand no one hears", []),
    "numbers alone": ("1 2 3 4", ["1", "2", "3", "4"]),
}


@pytest.mark.parametrize(("text", "values"), SPANS.values(), ids=SPANS)
def test_the_values_of_a_text_that_can_be_right_or_wrong(text: str, values: list[str]) -> None:
    assert [text[span.start : span.end] for span in find_spans(text)] == values


def test_a_value_that_the_question_contains_is_left_out() -> None:
    spans = find_spans(FRANCE, known="What is the capital of france?")
    assert [FRANCE[span.start : span.end] for span in spans] == ["68 million people"]


def test_a_part_of_a_word_of_the_question_is_not_the_value() -> None:
    assert find_spans("It is in Oman, 5 km away.", known="Who is the woman with 15 km?") == find_spans(
        "It is in Oman, 5 km away."
    )


@example("《0\t》")
@given(
    st.text(alphabet=st.sampled_from("aAbB1290 .,:;!?-–'\"“”`$*_#|/()[]{}<>\n\t@%€°是巴。《》٣ア²½\\&"), max_size=200)
)
def test_spans_lie_in_order_within_the_text_without_blank_edges(text: str) -> None:
    place = 0
    for span in find_spans(text):
        value = text[span.start : span.end]
        assert place <= span.start < span.end <= len(text)
        assert value == value.strip()
        place = span.end


LONG = ["1", "1.", "1 ", "1-", "a", "a_", "a.", "a/", "a@", "Aa ", "Aa of ", "A.", "|", "-"]
LONG += ['"', "`", "$a ", "```\n", "**a", "<a", "是", " ", "\n"]


@pytest.mark.parametrize("pattern", LONG)
def test_the_time_grows_linearly_with_the_length_of_the_text(pattern: str) -> None:
    text = (pattern * 20_000)[:20_000] + "é"
    start = time.process_time()
    find_spans(text)
    assert time.process_time() - start < 1
