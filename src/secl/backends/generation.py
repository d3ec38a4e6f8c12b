"""Texts in the making, and when they end: the same rules whoever writes them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from secl.backends.chat_templates import Decoder
from secl.evidence import Thought
from secl.prompts.parsing import is_complete, read_list, trim_answer
from secl.prompts.templates import MAX_ANSWER_TOKENS
from secl.question import Form, Question

MAX_LIST_TOKENS: dict[Form, int] = {
    "choice": 1,
    "number": 40,
    "short": 56,
    "sentence": 140,
    "text": 140,
}
"""Most tokens of a list of five answers."""

CONTEXT = 4
"""Tokens of the prompt that are decoded together with what follows them."""


def list_tokens(form: Form, listed: int) -> int:
    """Most tokens of a list of so many answers."""
    return -(-MAX_LIST_TOKENS[form] * listed // 5)


def question_seed(seed: int, question: Question, purpose: object) -> int:
    """Return a seed for one purpose of one question, so that a resumed run draws what an uninterrupted one drew."""
    digest = hashlib.sha256(f"{seed}/{purpose}/{question.id}/{question.text}".encode()).digest()
    return int.from_bytes(digest[:7], "big")


def decode_behind(tokenizer: Decoder, context: Sequence[int], tokens: Sequence[int]) -> str:
    """Return the text of tokens behind others, without that of these.

    Some decoders drop the space at the start of what they are given, and others render the end of a text otherwise when
    more follows, so the context goes along, and the text begins where it parts from that of the context alone.
    """
    before = tokenizer.decode([*context], skip_special_tokens=True)
    whole = tokenizer.decode([*context, *tokens], skip_special_tokens=True)
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(before, whole, strict=False))
    return whole[sum(1 for _ in alike) :]


@dataclass(frozen=True, slots=True)
class Step:
    """One generated token and the next-token distribution it came from.

    Attributes:
        token: its id.
        log_p: natural logarithms of full-vocabulary probabilities, by token id: of the most probable tokens and of the
            generated one.
    """

    token: int
    log_p: Mapping[int, float]


@dataclass
class Draft:
    """A text in the making.

    Attributes:
        prompt: token ids that it continues.
        form: of the answer, or of the answers in a list.
        limit: most tokens that it may have.
        lines: a list is finished with this many lines; None for an answer, which is finished when it is complete.
        stop: it is finished with this text as well, unless that is "".
        ends: ids of tokens that finish it as well.
        written: token ids written so far.
        seed: of its random choices; None writes greedily.
        top_p: these are among the most probable tokens that together have this probability, alike in a batch.
        version: of the model that writes it; 0 is the frozen one.
        log_p: natural logarithm of the probability of each token, before the nucleus; of sampled texts alone.
        steps: what that model thought before each token, where the backend reports it.
        free: whether it is a text of its own, whose prompt goes through the network alone, so that no number depends on
            what else is read.
        thought: what stands before it in the prompt; None for an answer at once.
        begun: what the backend keeps of the prompt, to go on from; None for nothing.
    """

    prompt: list[int]
    form: Form
    limit: int
    lines: int | None = None
    stop: str = ""
    ends: tuple[int, ...] = ()
    written: list[int] = field(default_factory=list)
    seed: int | None = None
    top_p: float = 1.0
    version: int = 0
    log_p: list[float] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    free: bool = False
    thought: Thought | None = None
    begun: Any = field(default=None, repr=False, compare=False)

    @classmethod
    def answer(cls, prompt: list[int], form: Form, prefix: Sequence[int] = ()) -> Draft:
        """Return a greedy answer, of which some tokens may be written already."""
        return cls(prompt, form, MAX_ANSWER_TOKENS[form], written=list(prefix))

    @property
    def tokens(self) -> int:
        """Written tokens that went through the network: all but the last."""
        return max(0, len(self.written) - 1)


class TextRules:
    """Decodes drafts and tells when they are finished.

    Attributes:
        end_ids: of the tokens that end every text: those of the model and the tokenizer's own.
    """

    def __init__(self, tokenizer: Decoder, end_ids: int | Sequence[int | None] | None) -> None:
        self.tokenizer = tokenizer
        listed = end_ids if isinstance(end_ids, Sequence) else [end_ids]
        self.end_ids = {token for token in (*listed, tokenizer.eos_token_id) if token is not None}

    def text(self, draft: Draft) -> str:
        """Return the text of a draft so far."""
        return decode_behind(self.tokenizer, draft.prompt[-CONTEXT:], draft.written)

    def answer(self, draft: Draft) -> str:
        """Return the answer in a draft, without what was written after it."""
        return trim_answer(self.text(draft), draft.form)

    def thought(self, draft: Draft) -> Thought:
        """Return a finished thought without what ended it."""
        written = draft.written
        closed = bool(written) and (written[-1] in draft.ends or written[-1] in self.end_ids)
        text = decode_behind(self.tokenizer, draft.prompt[-CONTEXT:], written[:-1] if closed else written)
        text, stop, _ = text.partition(draft.stop) if draft.stop else (text, "", "")
        return Thought(text=text.strip().rstrip(" \n*#\ufffd"), tokens=len(written), cut=not (closed or stop))

    def ended(self, draft: Draft) -> bool:
        """Return whether a draft is finished."""
        last = draft.written[-1:]
        if len(draft.written) >= draft.limit or (last and (last[0] in self.end_ids or last[0] in draft.ends)):
            return True
        text = self.text(draft)
        if draft.stop and draft.stop in text:
            return True
        return is_complete(text, draft.form) if draft.lines is None else text.count("\n") >= draft.lines


def items_of(text: str, form: Form, listed: int) -> list[str]:
    """Return the items of a list as it was written; the last line of one that ran into its token limit is cut off."""
    lines = text.splitlines()[:listed]
    complete = lines[:-1] if 1 < len(lines) < listed and not text.endswith("\n") else lines
    return read_list("\n".join(complete), form)
