"""Words that the everyday rule knows."""

from __future__ import annotations


def word_list(words: str) -> tuple[str, ...]:
    """The words of a text, in order."""
    return tuple(words.split())


SMALL_NUMBERS = word_list(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
"""Number words by their value."""

TENS = word_list("twenty thirty forty fifty sixty seventy eighty ninety")
"""The tens from 20 on."""

SCALES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
"""Number words that multiply what stands before them."""

UNITS = {
    "m": "m metre meter",
    "km": "km kilometre kilometer",
    "cm": "cm centimetre centimeter",
    "mm": "mm millimetre millimeter",
    "mi": "mi mile",
    "ft": "ft foot feet",
    "in": "inch inche",
    "g": "g gram gramme",
    "kg": "kg kilogram kilo",
    "lb": "lb pound",
    "s": "s sec second",
    "min": "min minute",
    "h": "h hr hour",
    "day": "day",
    "week": "week",
    "month": "month",
    "year": "year yr",
    "l": "l litre liter",
    "ml": "ml millilitre milliliter",
    "C": "°c celsius",
    "F": "°f fahrenheit",
    "K": "kelvin",
    "%": "% percent",
}
"""Ways to write a unit of measurement, in lower case and without a plural s."""

MONTHS = word_list("january february march april may june july august september october november december")
"""The months."""

FUNCTION_WORDS = frozenset(
    word_list(
        "a an the is was are were be been it its he she they in on at of to from by for with and or but as that this "
        "which who has have had does do did can will would also not no so than then there"
    )
)
"""Words that name nothing, so that a capital letter at their beginning means nothing either."""

DENIALS = frozenset(
    word_list(
        "not never neither nor cannot cant isnt wasnt arent werent doesnt dont didnt wont hasnt unlike except without "
        "than against non nicht kein keine pas"
    )
)
"""What denies the words behind it in its clause."""

CONJUNCTIONS = frozenset(
    word_list("but instead however rather whereas while although because so mais sondern aber pero sino")
)
"""What begins a clause without a comma."""

VERBS = frozenset(word_list("is was are were does did do has have had can could will would should"))
"""What a "not" follows."""

PARTICLES = frozenset(word_list("von van der den de da di del della du la le bin ibn al"))
"""Small words within the names of people."""

TITLES = frozenset(
    word_list(
        "mr mrs ms dr sir lord lady saint st president king queen pope emperor professor captain astronaut author poet "
        "writer painter composer"
    )
)
"""What stands before the name of a person and is no part of it."""

KINDS = frozenset(word_list("river ocean mount lake desert planet mountain"))
"""What a name may be followed by, or said without, and still be that name: the Nile River."""

OTHER_PLACE = frozenset(word_list("new north south east west northern southern eastern western central papua"))
"""What makes another name of the name behind it: New York, South Korea."""
