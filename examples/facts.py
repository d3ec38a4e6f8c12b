"""Rewrite a text without its uncertain facts, or ask a person about them.

    python examples/facts.py "Tell me about the history of Lima." [MODEL]            # the model rewrites its text
    python examples/facts.py "Tell me about the history of Lima." [MODEL] --person   # a person corrects the text

A fact is uncertain below a confidence of 0.5. The replies of the person are labels, which move later confidences.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import secl

LEAST = 0.5
"""Confidence from which a fact stays."""


def uncertain(text: secl.Record) -> list[secl.Record]:
    """Return the uncertain facts of a text; a fact of unknown confidence is uncertain."""
    return [fact for fact in text.facts or () if not fact.confidence >= LEAST]


def rewrite(model: secl.CalibratedModel, text: secl.Record) -> secl.Record:
    """Let the model rewrite a text without its uncertain facts. Facts of the new text are those it adds."""
    values = "\n".join(f"- {fact.text}" for fact in uncertain(text))
    return model.ask(f"Rewrite the text. Leave out these values:\n{values}\n\nThe text:\n{text.text}", form="text")


def correct(model: secl.CalibratedModel, text: secl.Record, reply: Callable[[str], str]) -> str:
    """Ask a person about each uncertain fact: an empty reply confirms the fact, any other replaces it."""
    corrected = text.text or ""
    for fact in reversed(uncertain(text)):  # from the end, so that earlier places stay
        asked = f"{fact.question.text}\n  {fact.text} ({fact.confidence:.0%}). Enter, or the right value: "
        right = reply(asked).strip()
        model.label(fact, right in ("", fact.text), chance=None)
        if right and fact.span is not None:
            corrected = corrected[: fact.span[0]] + right + corrected[fact.span[1] :]
    return corrected


def main(request: str, *arguments: str) -> None:
    """Write a text, and print it without its uncertain facts, or with a person's corrections."""
    names = [each for each in arguments if each != "--person"]
    model = secl.load(next(iter(names), "smollm2"))
    text = model.ask(request, form="text")
    print(f"{text.text}\n\n{len(uncertain(text))} of {len(text.facts or ())} facts are uncertain.\n")
    if not uncertain(text):
        return
    if "--person" in arguments:
        print(correct(model, text, input))
        return
    rewritten = rewrite(model, text)
    left = [fact.text for fact in uncertain(text) if (fact.text or "") in (rewritten.text or "")]
    print(rewritten.text, *(f"Still in the text: {', '.join(map(str, left))}." for _ in left[:1]), sep="\n\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
