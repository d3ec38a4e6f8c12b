"""Unfinished texts, the rules for their end, and their pieces while the model writes; shared by all backends."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from secl.backends.chat_templates import Decoder
from secl.evidence import Thought
from secl.prompts.parsing import THOUGHTS, Marks, bare_thought, is_brief, is_complete, trim_answer
from secl.prompts.templates import MAX_ANSWER_TOKENS
from secl.question import Form
from secl.writing import Finish, Piece, Token, Writing

CONTEXT = 4
"""Number of earlier tokens that are decoded together with a text."""

HALF = "\ufffd"
"""A decoder's text for an incomplete character."""


def decode_behind(tokenizer: Decoder, context: Sequence[int], tokens: Sequence[int]) -> str:
    """Return the text of tokens after a context.

    Some decoders drop the space at the start of a text. Others render the end of a text differently if more tokens
    follow. So secl decodes context and tokens together. The returned text begins where the joint text first differs
    from the decoded context.
    """
    before = tokenizer.decode([*context], skip_special_tokens=True)
    whole = tokenizer.decode([*context, *tokens], skip_special_tokens=True)
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(before, whole, strict=False))
    return whole[sum(1 for _ in alike) :]


@dataclass(frozen=True, slots=True)
class Step:
    """A generated token. `log_p` maps the ids of this token and of the most probable tokens to log-probabilities.

    Log-probabilities are over the full vocabulary.
    """

    token: int
    log_p: Mapping[int, float]


@dataclass
class Draft:
    """A text in progress: its prompt, its parameters, and the tokens written so far.

    Attributes:
        prompt: token ids before the text.
        form: form of the answer, or of the answers in a list.
        prefilled: whether the prompt ends with the beginning of the reply, which a space may follow.
        limit: maximum number of tokens.
        lines: number of lines after which a list is finished; None if the text is not a list.
        stop: texts that finish the draft.
        ends: ids of tokens that finish the draft, besides `TextRules.end_ids`.
        written: token ids of the text so far.
        decoding_steps: number of passes that each read the latest token of the text, alone or in a batch; counted by
            models in this process.
        brief: whether the text ends as soon as it is too long to compare with others.
        seed: seed of a sampled text; None for greedy decoding.
        top_p: nucleus (top-p) of sampled texts, equal for all drafts of a batch.
        version: version of the model that writes; 0 is the frozen model.
        log_p: ln P of each token before top-p truncation, for sampled texts only.
        steps: next-token distributions, if the backend reports them.
        free: whether the prompt goes through the network alone, so that its probabilities do not depend on other texts.
        thought: the thought in the prompt; for a draft of a thought, the finished thought. None without a thought.
        kept: whether the finished `begun` also covers the written text, not only the prompt; true for thoughts.
        begun: state of the backend (keys and values) that later passes reuse; None if the backend keeps no state.
        number: number of a free text among the texts after the same prompt.
        shown: for a free text, number of written tokens that are already decoded into a piece or into `held`.
        held: end of a free text that is in no piece yet, because it may begin a stop text.
        finish: why a free text ended; None before its end.
    """

    prompt: list[int]
    form: Form
    limit: int
    lines: int | None = None
    stop: tuple[str, ...] = ()
    ends: tuple[int, ...] = ()
    written: list[int] = field(default_factory=list)
    decoding_steps: int = 0
    seed: int | None = None
    top_p: float = 1.0
    version: int = 0
    log_p: list[float] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    free: bool = False
    thought: Thought | None = None
    kept: bool = False
    begun: Any = field(default=None, repr=False, compare=False)
    number: int = 0
    shown: int = 0
    held: str = ""
    finish: Finish | None = None
    prefilled: bool = False
    brief: bool = False

    @classmethod
    def answer(cls, prompt: list[int], form: Form, prefix: Sequence[int] = (), *, prefilled: bool = False) -> Draft:
        """Return the draft of a greedy answer, of which the tokens `prefix` are written already."""
        return cls(prompt, form, MAX_ANSWER_TOKENS[form], written=list(prefix), prefilled=prefilled)

    def again(self, version: int, prefix: Sequence[int] = ()) -> Draft:
        """Return the draft of the same answer by another version, of which the tokens `prefix` are written already."""
        draft = Draft.answer(self.prompt, self.form, prefix, prefilled=self.prefilled)
        return replace(draft, version=version, begun=self.begun)

    @classmethod
    def texts(cls, prompt: Sequence[int], writing: Writing, ends: Sequence[int] = ()) -> list[Draft]:
        """Return unwritten drafts of free texts, to which `TextRules.push` adds tokens."""
        most, stop = writing.max_tokens or 1, writing.stop
        return [
            cls([*prompt], "text", most, stop=stop, ends=(*ends,), free=True, number=number)
            for number in range(writing.n)
        ]

    @property
    def tokens(self) -> int:
        """Number of written tokens that went through the network: all except the last."""
        return max(0, len(self.written) - 1)


class TextRules:
    """Decodes drafts and tells when they are finished; `end_ids` of model and tokenizer end every text."""

    def __init__(self, tokenizer: Decoder, end_ids: int | Sequence[int | None] | None) -> None:
        self.tokenizer = tokenizer
        listed = end_ids if isinstance(end_ids, Sequence) else [end_ids]
        self.end_ids = {token for token in (*listed, tokenizer.eos_token_id) if token is not None}

    def text(self, draft: Draft) -> str:
        return decode_behind(self.tokenizer, draft.prompt[-CONTEXT:], draft.written)

    def answer(self, draft: Draft) -> str:
        """Return the answer at the beginning of a draft."""
        return trim_answer(self.text(draft), draft.form, prefilled=draft.prefilled)

    def thought(self, draft: Draft) -> Thought:
        """Return a finished thought without its end mark."""
        written = draft.written
        closed = self._closed(draft)
        text = decode_behind(self.tokenizer, draft.prompt[-CONTEXT:], written[:-1] if closed else written)
        stop = _first_stop(text, draft.stop)
        return Thought(text=bare_thought(text[:stop]), tokens=len(written), cut=not closed and stop is None)

    def ended(self, draft: Draft) -> bool:
        if len(draft.written) >= draft.limit or self._closed(draft):
            return True
        text = self.text(draft)
        if _first_stop(text, draft.stop) is not None or (draft.brief and not is_brief(text, draft.form)):
            return True
        return is_complete(text, draft.form) if draft.lines is None else text.count("\n") >= draft.lines

    def _closed(self, draft: Draft) -> bool:
        """Return whether the last token ends the draft."""
        return any(token in self.end_ids or token in draft.ends for token in draft.written[-1:])

    def push(self, draft: Draft, token: int, reported: tuple[Token, ...] = ()) -> Piece:
        """Add a token with its log-probabilities to a free text, and return the new part of the text.

        A later token never changes an earlier piece. Text that may be the beginning of a stop text waits for the next
        token. An incomplete character waits, too.
        """
        draft.written.append(token)
        if self._closed(draft):
            return self.end(draft, "stop")
        new, text = self._new(draft, draft.written), ""
        if not new.endswith(HALF):
            draft.shown = len(draft.written)
            text, draft.held = draft.held + new, ""
            stop = _first_stop(text, draft.stop)
            if stop is not None:
                return self.end(draft, "stop", text[:stop], reported)
            held = max((_overlap(text, each) for each in draft.stop), default=0)
            text, draft.held = text[: len(text) - held], text[len(text) - held :]
        if len(draft.written) == draft.limit:
            return self.end(draft, "length", text, reported)
        return Piece(choice=draft.number, text=text, tokens=reported)

    def end(self, draft: Draft, finish: Finish, text: str = "", reported: tuple[Token, ...] = ()) -> Piece:
        """Return the last piece of a free text, with the text that was held back."""
        draft.finish, written = finish, draft.written
        return Piece(
            choice=draft.number,
            text=text + draft.held + self._new(draft, written[:-1] if self._closed(draft) else written),
            tokens=reported,
            finish=finish,
            prompt_tokens=len(draft.prompt),
            completion_tokens=len(written),
            draft=draft,
        )

    def _new(self, draft: Draft, written: Sequence[int]) -> str:
        """Return the text of `written` after its first `draft.shown` tokens."""
        start, new = draft.shown, written[draft.shown :]
        context = [*draft.prompt[-CONTEXT:], *written[max(0, start - CONTEXT) : start]][-CONTEXT:]
        return decode_behind(self.tokenizer, context, new) if new else ""

    def token(self, token: int, log_p: float, top: Iterable[tuple[int, float]]) -> Token:
        """Return a token and the most probable tokens at its position, as `secl.writing.Token`."""
        alternatives = tuple((self.tokenizer.decode([each]), min(0.0, value)) for each, value in top)
        return Token(self.tokenizer.decode([token]), min(0.0, log_p), alternatives)


def _first_stop(text: str, stops: Sequence[str]) -> int | None:
    """Return where the first stop text begins; None without one."""
    return min((text.find(stop) for stop in stops if stop in text), default=None)


def _overlap(text: str, stop: str) -> int:
    """Return how many characters at the end of a text are the beginning of a stop text.

    >>> _overlap("one\\n", "\\n\\n"), _overlap("one", "\\n\\n")
    (1, 0)
    """
    return next((size for size in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:size])), 0)


def thoughts_apart(pieces: Iterable[Piece], *, unopened: bool = False) -> Generator[Piece, None, None]:
    """Yield the pieces of texts, with the thought at the beginning of a text moved from `text` to `thought`.

    The number of pieces does not change. No text is held back longer than needed. Token counts include the thought,
    because the model wrote its tokens.

    Args:
        unopened: whether a thought may begin without a mark. If so, each text is held back up to the end of its
            thought.
    """
    texts: dict[int, Generator[Piece, Piece, None]] = {}
    for piece in pieces:
        if piece.choice not in texts:
            texts[piece.choice] = _thought_apart(unopened)
            next(texts[piece.choice])
        yield texts[piece.choice].send(piece)


def _thought_apart(unopened: bool) -> Generator[Piece, Piece, None]:
    """Receive the pieces of one text, and yield each with the thought separated from the text."""
    piece = yield Piece()
    held, tokens = piece.text, piece.tokens
    while (marks := _marks_of(held.lstrip(), unopened)) is None:
        waits = unopened or any(each.opening.startswith(held.lstrip()) for each in THOUGHTS)
        if piece.finish is not None or not waits:
            break
        piece = yield replace(piece, text="", tokens=())
        held, tokens = held + piece.text, tokens + piece.tokens
    thought = piece.thought
    if marks is not None:
        # A token may span the end of the thought and the start of the answer. So secl drops the log-probabilities of
        # the piece with the closing mark.
        held, tokens = held.lstrip().removeprefix(marks.opening), ()
        while True:
            text, closing, rest = held.partition(marks.closing)
            ended = bool(closing) or piece.finish is not None
            shown = len(text) - (0 if ended else _overlap(text, marks.closing))
            thought, held = (piece.thought or "") + text[:shown], rest.lstrip()
            if ended:
                break
            piece = yield replace(piece, text="", tokens=(), thought=thought)
            held = text[shown:] + piece.text
        while not held and piece.finish is None:
            piece = yield replace(piece, text="", tokens=(), thought=thought)
            held, thought = piece.text.lstrip(), piece.thought
            tokens = piece.tokens if held else ()
    piece = yield replace(piece, text=held, tokens=tokens, thought=thought)
    while True:
        piece = yield piece


def _marks_of(begun: str, unopened: bool) -> Marks | None:
    """Return the marks of the thought with which a text begins; None without one."""
    found = (each for each in THOUGHTS if begun.startswith(each.opening) or (unopened and each.closing in begun))
    return next(found, None)
