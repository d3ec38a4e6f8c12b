"""Probabilities of names in a reply: letters, digits, True and False.

A name is a letter, digit or verdict to read. A chat API does not let secl begin a reply, so a model may write
"**B**" or "My confidence is 8." instead of the bare name. secl reads the distribution at the first token that spells
one of the names, and adds up the spellings of a name ("B", " B", "B."). If no token spells a name, secl reads the first
token, where names have little mass.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from secl.backends.endpoint.probabilities import MIN_LOG_P, entropy_of
from secl.writing import Token

DECORATION = "*_`\"'()[]<>.:,;! "
"""Characters that may surround a name."""

WORDS = ("A", "I")
"""Option letters that are words of a sentence if a word in lower case follows."""

VOCABULARY = 128_000
"""Assumed size of the vocabulary, for the tail of an entropy.

A factor of two changes the entropy by a few hundredths of a nat.
"""

DIGITS = tuple("0123456789")
VERDICTS = ("true", "false")


def entropy(token: Token) -> float:
    """Return the entropy (nats) of the distribution at a token; `entropy_of` estimates the part of unlisted tokens."""
    return entropy_of((log_p for _, log_p in token.top), VOCABULARY)


@dataclass(frozen=True, slots=True)
class NameDistribution:
    """Log-probabilities (nats) of names at the token where a model chose a name.

    Attributes:
        log_p: log-probabilities of the names among the most probable tokens, summed over spellings.
        most: upper bound of the log-probability of any other name.
        entropy: entropy over the whole vocabulary.
    """

    log_p: Mapping[str, float]
    most: float
    entropy: float

    def of(self, name: str) -> float:
        """Return the log-probability of a name, or `most` if the name is not in `log_p`."""
        return self.log_p.get(name, self.most)

    @property
    def best(self) -> str | None:
        """The most probable name (the first one in a tie); None without names."""
        return max(self.log_p, key=self.log_p.__getitem__) if self.log_p else None


def read_names(tokens: Sequence[Token], names: Collection[str]) -> NameDistribution | None:
    """Return the distribution over names at the first token that spells a name, or else at the first token.

    None if the server reports no log-probabilities of this token, or damaged ones.

    >>> top = (("B", -0.7), ("A", -1.6), (" B", -2.3))
    >>> chosen = read_names([Token("**", -0.1, (("**", -0.1), ("B", -2.5))), Token("B", -0.7, top)], "AB")
    >>> chosen.best, round(chosen.of("B"), 2), round(chosen.of("A"), 2)
    ('B', -0.52, -1.6)
    """
    spoken = (i for i, token in enumerate(tokens) if spelled(token.text, names) and not _goes_on(tokens, i))
    number = next(spoken, 0)
    if not tokens or not tokens[number].top:
        return None
    token = tokens[number]
    p: dict[str, float] = {}
    for text, log_p in token.top:
        name = spelled(text, names)
        if name is not None and log_p > MIN_LOG_P:
            p[name] = p.get(name, 0.0) + math.exp(log_p)
    reported = [log_p for _, log_p in token.top]
    rest = math.log(max(1.0 - math.fsum(map(math.exp, reported)), 1e-9))
    log_p_of = {name: math.log(min(1.0, p[name])) for name in names if name in p}
    return NameDistribution(log_p_of, min(*reported, rest) if len(reported) > 1 else rest, entropy(token))


def spelled(text: str, names: Collection[str]) -> str | None:
    """Return the name that a token spells, or None; verdicts may be in upper or lower case.

    >>> spelled(" (B)", "ABCD"), spelled("TRUE", VERDICTS), spelled("85", DIGITS)
    ('B', 'true', None)
    """
    plain = text.strip().strip(DECORATION)
    plain = plain.lower() if names is VERDICTS else plain
    return plain if plain and plain in set(names) else None


def _goes_on(tokens: Sequence[Token], number: int) -> bool:
    """Return whether a token that looks like an option letter is a word of a sentence."""
    after = "".join(token.text for token in tokens[number + 1 : number + 3])
    return tokens[number].text.strip() in WORDS and after[:1] == " " and after[1:2].islower()


def bins_of(chosen: NameDistribution) -> tuple[tuple[float, ...], float]:
    """Return the normalised probabilities of the ten digits (0.1 each without digits), and their mass.

    >>> bins, mass = bins_of(NameDistribution({"7": math.log(0.3), "9": math.log(0.1)}, -5.0, 1.0))
    >>> round(bins[7], 2), round(mass, 2)
    (0.75, 0.4)
    """
    p = [math.exp(chosen.log_p[digit]) if digit in chosen.log_p else 0.0 for digit in DIGITS]
    mass = math.fsum(p)
    return (tuple(each / mass for each in p), min(1.0, mass)) if mass > 0 else ((0.1,) * 10, 0.0)


def within(tokens: Sequence[Token], text: str) -> Sequence[Token]:
    """Return the tokens up to the end of the answer `text`; all tokens if they do not spell the answer."""
    written = ""
    for number, token in enumerate(tokens):
        written += token.text
        if text in written:
            return tokens[: number + 1]
    return tokens
