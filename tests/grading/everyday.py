"""Forty everyday questions with answers as small models write them, graded by hand."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Case:
    """A question, what is right, an answer, and whether a person calls that right."""

    question: str
    references: tuple[str, ...]
    answer: str
    right: bool


def case(question: str, reference: str, answer: str, right: bool) -> Case:
    """A case whose reference may be several right answers with "|" between them."""
    return Case(question, tuple(reference.split("|")), answer, right)


CASES = (
    case("What is 7 times 8?", "56", "7 * 8 = 56", True),
    case("What is 15 minus 6?", "9", "15 - 6 = 8", False),
    case("How many legs does a spider have?", "8", "A spider has eight legs.", True),
    case("How many days are there in a leap year?", "366", "A leap year has 365 days.", False),
    case("In which year did the Second World War end?", "1945", "The war ended on September 2, 1945.", True),
    case("When did the Berlin Wall fall?", "9 November 1989", "It fell on November 9th, 1989.", True),
    case("When did Apollo 11 land on the moon?", "20 July 1969", "Apollo 11 landed on July 16, 1969.", False),
    case("At how many degrees Celsius does water boil?", "100", "Water boils at 100 degrees Celsius (212 °F).", True),
    case("How far is a marathon?", "42.195 km", "A marathon is 26.2 miles, or 42.195 kilometers, long.", True),
    case("What is the chemical symbol of gold?", "Au", "gold is a chemical element with the symbol Au.", True),
    case("What is the chemical symbol of iron?", "Fe", "The symbol of iron is Ir.", False),
    case("Who wrote Faust?", "Goethe", "Faust was written by Johann Wolfgang von Goethe.", True),
    case("Who painted Guernica?", "Picasso", "Guernica by Pablo Picasso", True),
    case("Who wrote the Odyssey?", "Homer", "The Odyssey by Homer.", True),
    case("Who was the first man on the moon?", "Neil Armstrong", "The first man on the moon was Armstrong.", True),
    case("Who sailed to America in 1492?", "Columbus", "Christopher Columbus", True),
    case("Who discovered penicillin?", "Alexander Fleming", "Penicillin was discovered by Louis Pasteur.", False),
    case("Who developed the theory of relativity?", "Albert Einstein", "Einstein's theory of relativity", True),
    case("Who painted the Mona Lisa?", "Leonardo da Vinci|Leonardo", "Leonardo painted it around 1503.", True),
    case("Who invented the light bulb?", "Thomas Edison", "It was invented by Thomas Alva Edison.", True),
    case("Who opened the Lyon warehouse?", "Maria Keller", "The Lyon warehouse was opened by Maria Keller.", True),
    case("What is the capital of Australia?", "Canberra", "The capital of Australia is Sydney, not Canberra.", False),
    case("What is the capital of Canada?", "Ottawa", "It is not Toronto but Ottawa.", True),
    case("What is the capital of Turkey?", "Ankara", "The capital of Turkey is Istanbul.", False),
    case("What is the capital of France?", "Paris", "The capital of France is Paris, which lies on the Seine.", True),
    case("What is the longest river in Africa?", "Nile", "The longest river in Africa is the Nile River.", True),
    case("Which is the largest ocean?", "Pacific Ocean", "Pacific", True),
    case("What is the highest mountain?", "Mount Everest", "Everest, at 8,849 metres.", True),
    case("Which planet is closest to the sun?", "Mercury", "Mercury, Venus, and Mars.", False),
    case("Which is heavier, iron or aluminium?", "iron", "Aluminium is heavier than iron.", False),
    case("What is the fastest land animal?", "cheetah", "Cheetahs are the fastest land animals.", True),
    case("What do bees make?", "honey", "Bees make honey and wax.", True),
    case("What gas do plants take in?", "carbon dioxide|CO2", "Plants take in oxygen.", False),
    case("What are the primary colours?", "red, yellow and blue", "They are red, blue, and yellow.", True),
    case("What are the primary colours of light?", "red, green and blue", "They are red, yellow and blue.", False),
    case("Are bats blind?", "no", "Bats are not blind.", True),
    case("Is the earth flat?", "no", "Yes, the earth is flat.", False),
    case("What colour is an orange?", "orange", "An orange is yellow.", False),
    case("What is H2O called?", "water", "H2O is the chemical formula of water.", True),
    case(
        "Why is the sky blue?",
        "Air scatters blue light more than red light.",
        "The sky is blue because air scatters blue light much more than red light.",
        True,
    ),
)

ADVERSARIAL = (
    case("Which city is it?", "Paris", "It is not Paris but Lyon.", False),
    case("Which city is it?", "Lyon", "It is not Paris but Lyon.", True),
    case("Which city is it?", "Paris", "Paris isn't the capital.", False),
    case("Which city is it?", "Paris", "Paris or Lyon.", False),
    case("Which city is it?", "Paris", "Either Lyon or Paris.", False),
    case("Which city is it?", "Paris", "There is no doubt that it is Paris.", True),
    case("Which city is it?", "Paris", "No, it is Paris.", True),
    case("Which city is it?", "Paris", "Paris Hilton", False),
    case("Which city is it?", "York", "New York", False),
    case("Which city is it?", "Washington, D.C.", "The capital is Washington, D.C., on the Potomac.", True),
    case("Which city is it?", "Paris", "Comparison shopping", False),
    case("Which country is it?", "Korea", "South Korea", False),
    case("Which country is it?", "Mexico", "New Mexico", False),
    case("Which city is the capital of Mexico?", "Mexico City", "Mexico", False),
    case("Who sang it?", "Louis Armstrong", "Neil Armstrong", False),
    case("Who was it?", "Marie Curie", "It was Pierre Curie.", False),
    case("Who was it?", "John F. Kennedy", "John Kennedy", True),
    case("Who wrote it?", "Karl Marx", "Karl Marx and Friedrich Engels", True),
    case("Who wrote it?", "Goethe", "It was Schiller, rather than Goethe.", False),
    case("Who wrote it?", "Goethe", "Goethe, a German poet, playwright, and novelist.", True),
    case("Who wrote it?", "J. K. Rowling", "It was written by J.K. Rowling.", True),
    case("What is it?", "56", "56 or 57", False),
    case("What is it?", "56", "between 56 and 60", False),
    case("What is it?", "56", "55-56", False),
    case("What is it?", "56", "1956", False),
    case("What is it?", "56", "-56", False),
    case("What is it?", "56", "It is not 56, it is 57.", False),
    case("What is it?", "56", "56, not 57", True),
    case("What is it?", "56", "560", False),
    case("What is it?", "5,6", "56", False),
    case("How many are there?", "12", "There are 3 rows of 4, so there are 12.", True),
    case("How many people live there?", "8 billion", "About 8,000,000,000 people.", True),
    case("How long is it?", "5 km", "It is 5 miles long.", False),
    case("What is pi?", "3.14", "Pi is 3.14159", True),
    case("What is pi?", "3.14159", "Pi is 3.14", False),
    case("What is 1 plus 55?", "56", "1 + 55 = 56", True),
    case("How many moons has Mars?", "two", "2", True),
    case("How many moons has the earth?", "one", "The earth has 1 moon.", True),
    case("What is the symbol of helium?", "He", "he is a gas", False),
    case("Which vitamin is in oranges?", "vitamin C", "They are rich in Vitamin C.", True),
    case("Which vitamin is in oranges?", "vitamin C", "They are rich in Vitamin A.", False),
    case("Which language is it?", "C", "C++", False),
    case("Which is bigger, the sun or the moon?", "the sun", "The sun is bigger than the moon.", True),
    case("Can penguins fly?", "yes", "Penguins cannot fly.", False),
    case("Can penguins fly?", "no", "I don't know.", False),
    case("Is it true?", "true", "That is not true.", False),
    case("When was it?", "1776-07-04", "On the 4th of July 1776.", True),
    case("When was it?", "July 4, 1776", "July 14, 1776", False),
    case("What is it made of?", "hydrogen and oxygen", "Oxygen and hydrogen.", True),
    case("What is it made of?", "hydrogen and oxygen", "Hydrogen.", False),
    case("Wer schrieb den Faust?", "Goethe", "Nicht Schiller, sondern Goethe schrieb den Faust.", True),
    case("What do caterpillars turn into?", "butterflies", "They turn into a butterfly.", True),
    case("フランスの首都は?", "パリ", "フランスの首都はパリです。", True),
    case("Which city is it?", "Paris", "I don't know.", False),
    case("Which city is it?", "Paris", "?", False),
)
"""Answers that mention the right one and are wrong, and right ones that look otherwise."""
