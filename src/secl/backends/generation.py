"""Unfinished texts, the rules for their end, and their chunks while the model writes; shared by all backends."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from secl.backends.chat_templates import PLAIN_PARAGRAPH, PLAIN_STOPS, Tokenizer, is_plain
from secl.evidence import Thought
from secl.prompts.parsing import THINK_TAGS, bare_thought, find_tags, is_brief, is_complete, trim_answer
from secl.prompts.templates import MAX_ANSWER_TOKENS
from secl.question import Form
from secl.writing import Chunk, FinishReason, SamplingParameters, Token

CONTEXT = 4
"""Number of earlier tokens that are decoded together with a text."""

REPLACEMENT_CHARACTER = "\ufffd"
"""A decoder's text for an incomplete character."""


def decode_after(tokenizer: Tokenizer, context: Sequence[int], tokens: Sequence[int]) -> str:
    """Return the text of tokens after a context.

    Some decoders drop the space at the start of a text. Others render the end of a text differently if more tokens
    follow. So secl decodes context and tokens together. The returned text begins where the joint text first differs
    from the decoded context.
    """
    before = tokenizer.decode([*context], skip_special_tokens=True)
    whole: str = tokenizer.decode([*context, *tokens], skip_special_tokens=True)
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
class Generation:
    """A text in progress: its prompt, its parameters, and the tokens written so far.

    Attributes:
        prompt: token ids before the text.
        form: form of the answer, or of the answers in a list.
        prefilled: whether the prompt ends with the beginning of the reply, which a space may follow.
        limit: maximum number of tokens.
        lines: number of lines after which a list is finished; None if the text is not a list.
        stop: texts that finish the generation.
        ends: ids of tokens that finish the generation, besides `TextRules.end_ids`.
        written: token ids of the text so far.
        decoding_steps: number of passes that each read the latest token of the text, alone or in a batch; counted by
            models in this process.
        brief: whether the text ends as soon as it is too long to compare with others.
        seed: seed of a sampled text; None for greedy decoding.
        top_p: nucleus (top-p) of sampled texts, equal for all generations of a batch.
        version: version of the model that writes; 0 is the frozen model.
        log_p: ln P of each token before top-p truncation.
        steps: next-token distributions, if the backend reports them.
        free: whether the prompt goes through the network alone, so that its probabilities do not depend on other texts.
        thought: the thought in the prompt; for a generation of a thought, the finished thought. None without a thought.
        kept: whether the finished `begun` also covers the written text, not only the prompt; true for thoughts.
        begun: state of the backend (keys and values) that later passes reuse; None if the backend keeps no state.
        number: number of a free text among the texts after the same prompt.
        shown: for a free text, number of written tokens that are already decoded into a chunk or into `held`.
        held: end of a free text that is in no chunk yet, because it may begin a stop text.
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
    finish: FinishReason | None = None
    prefilled: bool = False
    brief: bool = False

    @classmethod
    def answer(
        cls, prompt: list[int], form: Form, prefix: Sequence[int] = (), *, prefilled: bool = False
    ) -> Generation:
        """Return a generation of a greedy answer; the tokens `prefix` are written already."""
        return cls(prompt, form, MAX_ANSWER_TOKENS[form], written=list(prefix), prefilled=prefilled)

    def again(self, version: int, prefix: Sequence[int] = ()) -> Generation:
        """Return a generation of the same answer by another version; the tokens `prefix` are written already."""
        generation = Generation.answer(self.prompt, self.form, prefix, prefilled=self.prefilled)
        return replace(generation, version=version, begun=self.begun)

    @classmethod
    def texts(cls, prompt: Sequence[int], sampling: SamplingParameters, ends: Sequence[int] = ()) -> list[Generation]:
        """Return unwritten generations of free texts, to which `TextRules.push` adds tokens."""
        most, stop = sampling.max_tokens or 1, sampling.stop
        return [
            cls([*prompt], "text", most, stop=stop, ends=(*ends,), free=True, number=number)
            for number in range(sampling.n)
        ]

    @property
    def tokens(self) -> int:
        """Number of written tokens that went through the network: all except the last."""
        return max(0, len(self.written) - 1)


class TextRules:
    """Decodes generations and tells when they are finished; `end_ids` of model and tokenizer end every text.

    With the plain template, a new question ends every text, too, and a paragraph's end ends a free text.
    """

    def __init__(self, tokenizer: Tokenizer, end_ids: int | Sequence[int | None] | None) -> None:
        self.tokenizer = tokenizer
        self.plain = is_plain(tokenizer)
        listed = end_ids if isinstance(end_ids, Sequence) else [end_ids]
        self.end_ids = {token for token in (*listed, tokenizer.eos_token_id) if token is not None}

    def text(self, generation: Generation) -> str:
        return decode_after(self.tokenizer, generation.prompt[-CONTEXT:], generation.written)

    def pieces(self, before: Sequence[int], tokens: Sequence[int]) -> list[str]:
        """Return the text of each token; an incomplete character has `REPLACEMENT_CHARACTER` or nothing."""
        whole = [*before[-CONTEXT:], *tokens]
        first = len(whole) - len(tokens)
        return [
            decode_after(self.tokenizer, whole[max(0, place - CONTEXT) : place], [whole[place]])
            for place in range(first, len(whole))
        ]

    def answer(self, generation: Generation) -> str:
        """Return the answer at the beginning of a generation."""
        text = self.text(generation)
        text = text[: _first_stop(text, self.stops(generation))]
        return trim_answer(text, generation.form, prefilled=generation.prefilled)

    def thought(self, generation: Generation) -> Thought:
        """Return a finished thought without its end mark."""
        written = generation.written
        closed = self._closed(generation)
        text = decode_after(self.tokenizer, generation.prompt[-CONTEXT:], written[:-1] if closed else written)
        stop = _first_stop(text, self.stops(generation))
        return Thought(text=bare_thought(text[:stop]), tokens=len(written), cut=not closed and stop is None)

    def stops(self, generation: Generation) -> tuple[str, ...]:
        """Return the texts that finish a generation."""
        if not self.plain:
            return generation.stop
        paragraph = (PLAIN_PARAGRAPH,) if generation.free else ()
        return (*generation.stop, *PLAIN_STOPS, *paragraph)

    def ended(self, generation: Generation) -> bool:
        if len(generation.written) >= generation.limit or self._closed(generation):
            return True
        text = self.text(generation)
        if _first_stop(text, self.stops(generation)) is not None or (
            generation.brief and not is_brief(text, generation.form)
        ):
            return True
        return is_complete(text, generation.form) if generation.lines is None else text.count("\n") >= generation.lines

    def _closed(self, generation: Generation) -> bool:
        """Return whether the last token ends the generation."""
        return any(token in self.end_ids or token in generation.ends for token in generation.written[-1:])

    def push(self, generation: Generation, token: int, reported: tuple[Token, ...] = ()) -> Chunk:
        """Add a token with its log-probabilities to a free text, and return the new part of the text.

        A later token never changes an earlier chunk. Text that may be the beginning of a stop text waits for the next
        token. An incomplete character waits, too.
        """
        generation.written.append(token)
        if self._closed(generation):
            return self.end(generation, "stop")
        new, text, stops = self._new(generation, generation.written), "", self.stops(generation)
        if not new.endswith(REPLACEMENT_CHARACTER):
            generation.shown = len(generation.written)
            text, generation.held = generation.held + new, ""
            stop = _first_stop(text, stops)
            if stop is not None:
                return self.end(generation, "stop", text[:stop], reported)
            held = max((_overlap(text, each) for each in stops), default=0)
            text, generation.held = text[: len(text) - held], text[len(text) - held :]
        if len(generation.written) == generation.limit:
            return self.end(generation, "length", text, reported)
        return Chunk(choice=generation.number, text=text, tokens=reported)

    def end(
        self, generation: Generation, finish: FinishReason, text: str = "", reported: tuple[Token, ...] = ()
    ) -> Chunk:
        """Return the last chunk of a free text, with the text that was held back."""
        generation.finish, written = finish, generation.written
        return Chunk(
            choice=generation.number,
            text=text + generation.held + self._new(generation, written[:-1] if self._closed(generation) else written),
            tokens=reported,
            finish=finish,
            prompt_tokens=len(generation.prompt),
            completion_tokens=len(written),
            generation=generation,
        )

    def _new(self, generation: Generation, written: Sequence[int]) -> str:
        """Return the text of `written` after its first `generation.shown` tokens."""
        start, new = generation.shown, written[generation.shown :]
        context = [*generation.prompt[-CONTEXT:], *written[max(0, start - CONTEXT) : start]][-CONTEXT:]
        return decode_after(self.tokenizer, context, new) if new else ""

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


def split_thoughts(chunks: Iterable[Chunk], *, unopened: bool = False) -> Generator[Chunk, None, None]:
    """Yield the chunks of texts, with the thought at the beginning of a text moved from `text` to `thought`.

    The number of chunks does not change. No text is held back longer than needed. Token counts include the thought,
    because the model wrote its tokens.

    Args:
        unopened: whether a thought may begin without a mark. If so, each text is held back up to the end of its
            thought.
    """
    texts: dict[int, Generator[Chunk, Chunk, None]] = {}
    for chunk in chunks:
        if chunk.choice not in texts:
            texts[chunk.choice] = _split_thought(unopened)
            next(texts[chunk.choice])
        yield texts[chunk.choice].send(chunk)


def _split_thought(unopened: bool) -> Generator[Chunk, Chunk, None]:
    """Receive the chunks of one text, and yield each with the thought separated from the text."""
    chunk = yield Chunk()
    held, tokens = chunk.text, chunk.tokens
    while (tags := find_tags(held.lstrip(), unopened=unopened)) is None:
        waits = unopened or any(each.opening.startswith(held.lstrip()) for each in THINK_TAGS)
        if chunk.finish is not None or not waits:
            break
        chunk = yield replace(chunk, text="", tokens=())
        held, tokens = held + chunk.text, tokens + chunk.tokens
    thought = chunk.thought
    if tags is not None:
        # A token may span the end of the thought and the start of the answer. So secl drops the log-probabilities of
        # the chunk with the closing mark.
        held, tokens = held.lstrip().removeprefix(tags.opening), ()
        while True:
            text, closing, rest = held.partition(tags.closing)
            ended = bool(closing) or chunk.finish is not None
            shown = len(text) - (0 if ended else _overlap(text, tags.closing))
            thought, held = (chunk.thought or "") + text[:shown], rest.lstrip()
            if ended:
                break
            chunk = yield replace(chunk, text="", tokens=(), thought=thought)
            held = text[shown:] + chunk.text
        while not held and chunk.finish is None:
            chunk = yield replace(chunk, text="", tokens=(), thought=thought)
            held, thought = chunk.text.lstrip(), chunk.thought
            tokens = chunk.tokens if held else ()
    chunk = yield replace(chunk, text=held, tokens=tokens, thought=thought)
    while True:
        chunk = yield chunk
