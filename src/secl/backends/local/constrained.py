"""Writing of texts under a grammar: llguidance masks the tokens that the grammar does not allow next."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from secl.backends.generation import Generation
from secl.backends.local.fast.batch import Batch, KeptRow
from secl.backends.local.fast.shared_network import Pass
from secl.backends.local.passes import in_groups, read_kept
from secl.backends.local.writer import Unfinished, decode, finish, next_tokens, random_stream
from secl.backends.token_driver import TokenDriver
from secl.backends.token_ids import distinct_tokens
from secl.errors import ModelError, ParameterError, SeclError, UnfinishedError, needs
from secl.evidence import Thought
from secl.fields.calls import WrittenReply
from secl.fields.extraction import ObjectRequest, Objects
from secl.fields.json_schema import Node, mapped
from secl.fields.schema import Schema, remark_of
from secl.fields.tools import CallRequest
from secl.fields.values import WrittenObject, token_ends
from secl.flow.further import question_seed
from secl.ledger import Meter

if TYPE_CHECKING:
    from secl.backends.local.backend import LocalBackend

WHITESPACE = r"\x20|\x0A\x20{0,32}"
"""Optional space between two parts of an object: a space, or a line break with its indent. Without this limit, a
model might write spaces without end."""


SPACED = {"x-guidance": {"whitespace_pattern": WHITESPACE}}
"""Keyword of a schema that limits the space in objects."""

NARROWING = (
    "format", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "multipleOf", "minItems", "maxItems", "minProperties", "maxProperties", "patternProperties",
)  # fmt: skip
"""Keywords that only narrow values. A grammar may lack them, because secl also checks the written object."""


def usable(schema: Schema) -> tuple[Node, tuple[str, ...]]:
    """Return the part of a schema that llguidance accepts, and a sentence for each keyword that is left out.

    Raises:
        ParameterError: llguidance rejects the schema even without these keywords; the message names the field.
    """
    grammar, left_out = _accepted(json.dumps(schema.grammar))
    return grammar, schema.remarks + tuple(remark_of(*each) for each in left_out)


@lru_cache(256)
def _accepted(given: str) -> tuple[Node, tuple[tuple[str, str], ...]]:
    """Return what `usable` returns, with keyword and field instead of sentences, for a schema as JSON."""
    schema, left_out = json.loads(given), dict[tuple[str, str], None]()
    if _fault(schema) is None:
        return schema, ()
    grammar = _loosen(schema, (), left_out)
    if (reason := _fault(grammar)) is not None:
        definitions = {"$defs": grammar.get("$defs", {})}
        fields = grammar.get("properties", {}).items()
        names = [name for name, part in fields if _fault({**part, **definitions}) is not None]
        where = f"the field {names[0]!r} of the schema" if names else "the schema"
        raise ParameterError(f"secl cannot make a grammar from {where}: {' '.join(reason.split()).rstrip('.')}.")
    return grammar, tuple(left_out)


def _loosen(node: Any, path: tuple[str, ...], left_out: dict[tuple[str, str], None]) -> Any:
    """Return a node without the keywords that llguidance rejects, and add these keywords to `left_out`."""
    if not isinstance(node, Mapping):
        return node
    new = {key: value for key, value in node.items() if key not in NARROWING}
    bare = {"type": node["type"]} if "type" in node else {}
    for key in NARROWING:
        if key not in node:
            continue
        if _fault(bare | {key: node[key]}) is None:
            bare[key] = new[key] = node[key]
        else:
            left_out[key, "/".join(path)] = None
            if key == "patternProperties":
                new.pop("additionalProperties", None)
    parts = new.get("properties", {})
    inside = {name: _loosen(part, (*path, name), left_out) for name, part in parts.items()}
    new = mapped({**new, "properties": {}} if inside else new, lambda part: _loosen(part, path, left_out))
    return {**new, "properties": inside} if inside else new


def _fault(node: Node) -> str | None:
    """Return why llguidance rejects a schema; None if it accepts the schema."""
    from llguidance import LLMatcher

    try:
        return LLMatcher.validate_grammar(LLMatcher.grammar_from_json_schema(dict(node))) or None
    except ValueError as problem:
        return str(problem)


def allowed_tokens(matcher: Any, width: int | None = None) -> NDArray[np.bool_]:
    """Return whether a grammar allows each token next; `width` sets the length of the result."""
    bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8), bitorder="little").astype(bool)
    return bits if width is None else np.pad(bits[:width], (0, max(0, width - len(bits))))


R = TypeVar("R", bound=ObjectRequest | CallRequest)
W = TypeVar("W", bound=WrittenObject | WrittenReply)
T = TypeVar("T", bound=tuple[Any, ...])


@dataclass
class GrammarRow:
    """A text under a grammar, possibly unfinished.

    Attributes:
        matcher: llguidance's state of the grammar.
        limit: maximum number of tokens.
        stream: random stream of a sampled text; None for greedy decoding.
        written, log_p, entropy: token ids, ln P and entropies so far. ln P and entropies are over the tokens that the
            grammar allows.
        decoding_steps: as for `Generation`.
        kept: keys and values of the finished row, if the writer keeps them.
        thought: the thought before the text; None if the model answers without a thought.
        notes: a number for each token, for subclasses of `GrammarWriter`; `CallWriter` keeps P(a call begins).
    """

    matcher: Any
    limit: int
    stream: torch.Generator | None = None
    written: list[int] = field(default_factory=list)
    log_p: list[float] = field(default_factory=list)
    entropy: list[float] = field(default_factory=list)
    decoding_steps: int = 0
    kept: KeptRow | None = None
    thought: Thought | None = None
    notes: list[float] = field(default_factory=list)

    def ended(self) -> bool:
        return self.matcher.is_stopped() or len(self.written) >= self.limit


@dataclass
class Task(Generic[R, W]):
    """A request with its prompt and grammar, and with the texts written so far.

    Attributes:
        prompt: token ids before the text.
        begun: the matcher of the text before its first token.
        limit: maximum number of tokens of the text.
        thought: the written thought at the end of the prompt; None if the model answers without a thought.
        forward: the pass over the prompt; None on the plain path.
        best: row of the greedy text.
        text: the greedy text; None if unfinished.
        count: number of samples to draw.
        samples: sampled texts; None for unfinished texts.
        sampling: number of tokens through the network for the samples.
        reading: number of tokens through the network to read parts of the text again.
        steps: decoding steps of the longest sample; all samples are written together.
    """

    request: R
    prompt: tuple[int, ...]
    begun: Any
    limit: int
    thought: Generation | None = None
    forward: Pass | None = None
    best: GrammarRow = field(init=False)
    text: W | None = None
    count: int = 0
    samples: list[W | None] = field(default_factory=list)
    sampling: int = 0
    reading: int = 0
    steps: int = 0

    @property
    def tokens(self) -> int:
        """Maximum number of tokens of prompt and text."""
        return len(self.prompt) + self.limit


After = Callable[[Sequence[Task[Any, Any]]], Batch]
"""Function that makes a batch with a row for each given task, in which the task's prompt is already read.

The same task may be given several times."""


class GrammarWriter(ABC, Generic[R, W]):
    """Writes texts under a grammar with the frozen weights.

    Raises:
        ParameterError: vLLM servers answer for the model, or llguidance is not installed.
        ModelError: llguidance cannot read the model's tokenizer.
    """

    method: str
    """Name of the public method that needs llguidance."""

    keeps = False
    """Whether to keep the keys and values of the greedy texts (`GrammarRow.kept`)."""

    def __init__(self, backend: LocalBackend, driver: TokenDriver, name: str) -> None:
        if driver.engine is not backend:
            raise ParameterError(
                f"vLLM servers answer for this model, and {self.method} does not work with them; load the model "
                "without --engine vllm."
            )
        try:
            import llguidance
        except ImportError:
            raise ParameterError(needs(self.method, "llguidance", "fields")) from None
        self.backend, self.driver, self._matcher = backend, driver, llguidance.LLMatcher
        try:
            described, ends = backend.token_ids.tokenizer.backend_tokenizer.to_str(), sorted(backend.rules.end_ids)
            self.tokenizer = llguidance.LLTokenizer(described, eos_token=ends)
        except (AttributeError, ValueError) as problem:
            raise ModelError(
                f"llguidance cannot read the tokenizer of the model {name!r} ({problem}); take a model whose folder "
                "has a tokenizer.json."
            ) from problem

    def started(self, grammar: str, what: str) -> Any:
        """Return a new matcher of a grammar, which has read no token; `what` names the source of the grammar.

        Raises:
            ParameterError: llguidance rejects the grammar.
        """
        matcher = self._matcher(self.tokenizer, grammar, log_level=0)
        reason = matcher.get_error()
        if reason:
            raise ParameterError(f"secl cannot make a grammar from the {what}: {' '.join(reason.split()).rstrip('.')}.")
        return matcher

    def write(
        self, requests: Sequence[R], samples: Callable[[R, W], int], thoughts: Sequence[Generation | None] = ()
    ) -> list[Objects[W] | SeclError]:
        """Write the texts of requests, each after its written thought, in batches as large as the memory allows.

        `samples` returns the number of samples to draw for a request and its written text.
        """
        tasks: list[Task[R, W]] = []
        outcomes: list[Objects[W] | SeclError | None] = []
        for request, thought in zip(requests, thoughts or [None] * len(requests), strict=True):
            try:
                tasks.append(self.task(request, None if thought is None else thought.thought))
                tasks[-1].thought = thought
                outcomes.append(None)
            except SeclError as problem:
                outcomes.append(problem)
        together = partial(self._together, samples=samples)
        written = iter(in_groups(together, tasks, [task.tokens for task in tasks], self.backend.text_tokens))
        return [next(written) if outcome is None else outcome for outcome in outcomes]

    @property
    def thinks(self) -> bool:
        """Whether the model thinks before the text."""
        return self.driver.prompting.thinks

    @abstractmethod
    def thought(self, request: R) -> Generation:
        """Return an unwritten generation of the thought before the text of a request.

        Raises:
            TooLongError: prompt, thought and text together are longer than the model can read.
        """

    @abstractmethod
    def task(self, request: R, thought: Thought | None = None) -> Task[R, W]:
        """Return the task of a request.

        Raises:
            ParameterError: llguidance rejects the grammar.
            TooLongError: prompt and text together are longer than the model can read.
        """

    @abstractmethod
    def read(self, task: Task[R, W], row: GrammarRow) -> W | None:
        """Return the text of a row as an object or reply; None if unfinished."""

    @abstractmethod
    def unfinished(self, task: Task[R, W]) -> UnfinishedError:
        """Return the error for a text that reached its token limit."""

    @torch.no_grad()
    def _together(self, tasks: Sequence[Task[R, W]], samples: Callable[[R, W], int]) -> list[Objects[W] | SeclError]:
        """Write the greedy texts of all tasks in one batch, then all samples; read each prompt once."""
        tasks = [replace(task) for task in tasks]  # copies hold gigabytes of keys and values, and end with this call
        after = self._after(tasks)
        for task in tasks:
            task.best = self.greedy(task)
            task.best.thought = None if task.thought is None else task.thought.thought
        self.finish(after(tasks), [task.best for task in tasks], keep=self.keeps)
        for task in tasks:
            task.text = self.read(task, task.best)
            task.count = 0 if task.text is None else samples(task.request, task.text)
        self.draw(after, tasks)
        self.read_again(tasks)
        return [self._outcome(task) for task in tasks]

    def _after(self, tasks: Sequence[Task[R, W]]) -> After:
        """Send the prompts of tasks through the network, and return a function that makes batches after prompts."""
        passes, shared = self.backend.passes, self.backend.passes.shared
        if shared is None:
            whole = Batch.of(self.backend.model, [[*task.prompt] for task in tasks])
            numbers = {id(task): number for number, task in enumerate(tasks)}
            return lambda some: whole.chosen([numbers[id(task)] for task in some])
        begun = [task.thought.begun for task in tasks if task.thought is not None and task.thought.begun is not None]
        for task, forward in zip(tasks, read_kept(shared, [task.prompt for task in tasks], begun), strict=True):
            task.forward = forward

        def after(some: Sequence[Task[R, W]]) -> Batch:
            batch = passes.continue_passes([task.forward for task in some if task.forward is not None])
            if batch is None:
                raise torch.OutOfMemoryError("too little memory for the keys and values of all texts")
            return batch

        return after

    def draw(self, after: After, tasks: Sequence[Task[R, W]]) -> None:
        wanted = [(task, number) for task in tasks for number in range(task.count)]
        rows = self.finish_all(
            wanted,
            lambda each: self.sample(each[0], f"object {each[1]}"),
            lambda some: after([task for task, _ in some]),
        )
        for task in tasks:
            task.samples, task.sampling = [], 0
        for (task, _), row in zip(wanted, rows, strict=True):
            task.samples.append(self.read(task, row))
            task.sampling += len(row.written) - 1

    def read_again(self, tasks: Sequence[Task[R, W]]) -> None:
        """Read parts of the texts again, in subclasses that need a second reading."""

    def greedy(self, task: Task[R, W]) -> GrammarRow:
        """Return a row that takes the most probable tokens."""
        return GrammarRow(task.begun.deep_copy(), task.limit)

    def sample(self, task: Task[R, W], purpose: str) -> GrammarRow:
        """Return a row that draws its tokens."""
        seed = question_seed(self.driver.seed, task.request.question, purpose)
        return GrammarRow(task.begun.deep_copy(), task.limit, random_stream(seed))

    def _outcome(self, task: Task[R, W]) -> Objects[W] | SeclError:
        """Return the texts of a task with their cost; return an error if the greedy text is unfinished."""
        if task.text is None:
            return self.unfinished(task)
        whole = [*task.prompt, *task.best.written[:-1]]
        thought = [] if task.thought is None else [*task.thought.prompt, *task.thought.written[:-1]]
        meter = Meter()
        thinking = 0 if task.thought is None else task.thought.decoding_steps
        meter.spend("answering", sum(distinct_tokens([thought], [whole])), thinking + task.best.decoding_steps)
        meter.spend("sampling", task.sampling, task.steps)
        meter.spend("likelihood", task.reading)
        return Objects(
            greedy=task.text,
            samples=(*task.samples,),
            ledger=meter.take(),
            plain_tokens=float(len(whole)),
            tokens=(len(task.prompt), len(task.best.written)),
        )

    def text_of(self, row: GrammarRow) -> WrittenObject:
        """Return the text of a row with its tokens."""
        parts = [self.tokenizer.decode_bytes([token]) for token in row.written]
        text = b"".join(parts).decode(errors="replace")
        return WrittenObject(text, token_ends(parts), (*row.log_p,), (*row.entropy,), row.thought)

    def finish_all(
        self, wanted: Sequence[T], row_of: Callable[[T], GrammarRow], begin: Callable[[Sequence[T]], Batch]
    ) -> list[GrammarRow]:
        """Finish rows in batches as large as the memory allows, and return the finished rows.

        Args:
            wanted: a tuple for each row; its first item is the task.
            row_of: makes the row of a tuple.
            begin: makes the batch in which the model continues the rows of some tuples.
        """

        def finished(some: Sequence[T]) -> list[GrammarRow]:
            rows = [row_of(each) for each in some]
            self.finish(begin(some), rows)
            return rows

        rows = in_groups(finished, wanted, [task.tokens for task, *_ in wanted], self.backend.text_tokens)
        for (task, *_), row in zip(wanted, rows, strict=True):
            task.steps = max(task.steps, row.decoding_steps)
        return rows

    def finish(self, batch: Batch, rows: Sequence[GrammarRow], *, keep: bool = False) -> None:
        """Finish rows together. Finished rows leave the batch; `keep` stores keys and values in `GrammarRow.kept`."""
        top_p = self.driver.prompting.top_p

        def add(active: Sequence[GrammarRow], logits: Tensor) -> Unfinished[GrammarRow]:
            masks = np.stack([allowed_tokens(row.matcher, logits.shape[1]) for row in active])
            allowed = logits.masked_fill(~torch.from_numpy(masks).to(logits.device), -torch.inf)
            self._note(active, next_tokens(allowed, [row.stream for row in active], top_p), allowed)
            going: Unfinished[GrammarRow] = []
            for number, row in enumerate(active):
                if not row.ended():
                    going.append((number, row))
                elif keep:
                    row.kept = batch.kept(number)
            return going

        finish(decode(batch, rows, add, alone=self.backend.writer.alone))

    def _note(self, rows: Sequence[GrammarRow], tokens: Sequence[int], allowed: Tensor) -> None:
        """Add a token to each row; `allowed` are the logits (rows, vocabulary) under the masks."""
        log_p = allowed.log_softmax(-1)
        own = log_p[range(len(tokens)), tokens].tolist()
        entropies = torch.special.entr(log_p.exp()).sum(-1).tolist()
        for row, token, value, entropy in zip(rows, tokens, own, entropies, strict=True):
            row.matcher.consume_token(token)
            row.written.append(token)
            row.log_p.append(min(0.0, value))
            row.entropy.append(entropy)
