"""Objects and calls after thoughts.

The most probable text follows a greedy thought. The samples follow drawn thoughts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from secl.backends.generation import Draft
from secl.backends.local.constrained import GrammarWriter, R
from secl.errors import SeclError
from secl.evidence import Thought
from secl.fields.extraction import Objects


class _Valued(Protocol):
    @property
    def value(self) -> object: ...


W = TypeVar("W", bound=_Valued)

FURTHER = 2
"""Maximum number of further thoughts about a request."""


def write_reasoned(writer: GrammarWriter[R, W], requests: Sequence[R]) -> list[Objects[W] | SeclError]:
    """Write the most probable text of each request after a thought, with samples after further thoughts.

    A thought settles the model's answer, so draws after the same thought would repeat the text. The model draws a
    second thought for every request. It draws a third thought if the first two led to different values.
    """
    outcomes = _behind_thoughts(writer, requests, 0)
    for number in range(1, FURTHER + 1):
        places = [n for n, each in enumerate(outcomes) if isinstance(each, Objects) and not _settled(each)]
        further = _behind_thoughts(writer, [requests[n] for n in places], number)
        for place, found in zip(places, further, strict=True):
            known = outcomes[place]
            if isinstance(known, Objects):
                outcomes[place] = _with_sample(known, found)
    return outcomes


def _settled(written: Objects[W]) -> bool:
    """Return whether a further thought led to the same values as the first."""
    return any(each is not None and each.value == written.greedy.value for each in written.samples)


def _with_sample(known: Objects[W], found: Objects[W] | SeclError) -> Objects[W]:
    sample: W | None = None
    ledger = known.ledger
    if not isinstance(found, SeclError):
        sample, ledger = found.greedy, replace(ledger, sampling=ledger.sampling + found.ledger.answering)
    samples: tuple[W | None, ...] = (*known.samples, sample)
    return replace(known, samples=samples, ledger=ledger)


def _behind_thoughts(writer: GrammarWriter[R, W], requests: Sequence[R], number: int) -> list[Objects[W] | SeclError]:
    """Write a thought for each request and the most probable text after the thought.

    The thought with `number` 0 is greedy. All others are drawn.
    """
    asker = writer.asker
    drafts: list[Draft | SeclError] = []
    for request in requests:
        try:
            draft = writer.thought(request)
        except SeclError as problem:
            drafts.append(problem)
            continue
        if number:
            draft.seed, draft.top_p = asker.seed_for(request.question, f"thought {number}"), asker.prompting.top_p
        drafts.append(draft)
    begun = [draft for draft in drafts if isinstance(draft, Draft)]
    if begun:
        asker.backend.write([begun])
    thoughts = [asker.learner.rules.thought(draft) for draft in begun]
    able = [request for request, draft in zip(requests, drafts, strict=True) if isinstance(draft, Draft)]
    written = writer.write(able, lambda *_: 0, thoughts)
    rest = iter([_with_cost(each, thought) for each, thought in zip(written, thoughts, strict=True)])
    return [draft if isinstance(draft, SeclError) else next(rest) for draft in drafts]


def _with_cost(written: Objects[W] | SeclError, thought: Thought) -> Objects[W] | SeclError:
    if isinstance(written, SeclError):
        return written
    ledger = replace(written.ledger, answering=written.ledger.answering + thought.tokens)
    return replace(written, ledger=ledger)
