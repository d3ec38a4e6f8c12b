"""What a flow asks of a model, what it gets back, and the interface of the drivers that answer.

A flow is a generator. It yields a list of requests that do not depend on each other, and receives a result for each.
The list is never empty.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from secl.errors import QuestionError
from secl.evidence import Thought
from secl.facts.tokens import PlacedToken
from secl.ledger import Purpose
from secl.question import Form, Question
from secl.records import Reply
from secl.writing import Chunk


@dataclass(frozen=True, slots=True)
class Write:
    """Write an answer to an open question, a list of answers to it, or a program that computes the answer -> `Text`.

    A "continuation" goes on with a free answer for some tokens; its `Text` has only the new part.

    Attributes:
        begun: beginning of the free answer that a continuation continues.
        draw: number of a draw at temperature 1, or `secl.flow.further.OWN`; None for the answer itself.
        think: whether the model thinks first.
        spare: whether the flow can do without the text; the driver then writes it or returns None, whichever is faster.
    """

    question: Question
    what: Literal["answer", "list", "program", "continuation"] = "answer"
    draw: int | None = None
    think: bool = False
    spare: bool = False
    begun: str = ""


@dataclass(frozen=True, slots=True)
class StateConfidence:
    """State a confidence in an answer -> `Stated`.

    Attributes:
        answer: an open answer, or the letter of an option. None chooses the most probable letter.
        think: whether the model thinks first. A server does not think before the confidence in an open answer.
    """

    question: Question
    answer: Text | str | None = None
    think: bool = False

    @property
    def behind_thought(self) -> bool:
        """Whether a thought precedes the answer."""
        return self.think or (isinstance(self.answer, Text) and self.answer.thought is not None)


@dataclass(frozen=True, slots=True)
class Choose:
    """Choose among the options of a question, listed in an order -> `LetterOrder`, or None if unreadable.

    `draw` is the number of a sampled thought before the letter; None chooses at once.
    """

    question: Question
    order: tuple[int, ...]
    draw: int | None = None


@dataclass(frozen=True, slots=True)
class Judge:
    """Judge whether an answer is right -> (P(True), P(False)), or None if unreadable."""

    question: Question
    answer: str


@dataclass(frozen=True, slots=True)
class Read:
    """Read an option as a text after the question and without a question -> `Likelihood`."""

    question: Question
    option: str


@dataclass(frozen=True, slots=True)
class ReadWithin:
    """Read a part of a text that answers an open question -> ln probability of `text[start:end]`."""

    question: Question
    text: str
    start: int
    end: int


Request = Write | StateConfidence | Choose | Judge | Read | ReadWithin

Flow = Generator[Sequence[Request], Sequence[Any], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text that the model wrote, or an answer from elsewhere.

    Attributes:
        form: form of the text; after a thought, an answer to a question for a number is short.
        log_p: ln probability of a sampled text without its end; None if unknown.
        thought: the thought before the text.
        complete: whether the text ended before the token limit.
        state: the driver's own form of the text, from which the driver can continue.
    """

    text: str
    form: Form
    log_p: float | None = None
    thought: Thought | None = None
    complete: bool = True
    state: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """The reply to a question with its stated confidence.

    Attributes:
        plain_tokens: tokens of one plain pass over prompt, answer and confidence.
        tokens: the tokens of a free text (`Reply.answer`) with their probabilities; None if unknown.
        state: the driver's reading of the reply, from which the model can learn.
    """

    reply: Reply
    plain_tokens: float
    tokens: tuple[PlacedToken, ...] | None = None
    state: Any = field(default=None, repr=False, compare=False)


class FlowRun:
    """A flow on its way through a driver.

    Attributes:
        requests: the requests that the flow waits for; empty at its end.
        spent: number of tokens by purpose, as if this question went through the model alone.
        steps: decoding steps (`secl.ledger.Ledger`); 0 if a server writes.
        text: the answer that is written already; None if the model answers.
        thought: the thought before the model's answer; None without a thought.
        refusal: why the model cannot answer the question; None if it can.
        state: whatever the driver keeps for this question, such as the pass over its prompt.
    """

    def __init__(self, flow: Flow, *, text: Text | None = None, thought: Thought | None = None) -> None:
        self.flow, self.text = flow, text
        self.thought = thought if text is None else text.thought
        self.spent: dict[Purpose, float] = {}
        self.steps = 0
        self.state: Any = None
        self.refusal: QuestionError | None = None
        self.requests: Sequence[Request] = next(flow, ())

    def send(self, results: Sequence[Any]) -> None:
        """Give the flow the results of its requests."""
        try:
            self.requests = self.flow.send(results)
        except StopIteration:
            self.requests = ()

    def pay(self, purpose: Purpose, tokens: float) -> None:
        self.spent[purpose] = self.spent.get(purpose, 0.0) + tokens


class Driver(Protocol):
    """A model in this process, a server, or a counter of cost, that answers the requests of flows."""

    @property
    def thinks(self) -> bool:
        """Whether the model thinks before it answers."""

    @property
    def always_thinks(self) -> bool:
        """Whether the model cannot answer without a thought."""

    @property
    def likelihoods(self) -> bool:
        """Whether the driver answers `Read` and `ReadWithin`, and writes continuations."""

    @property
    def letters(self) -> int:
        """Maximum number of options."""

    @property
    def distractors(self) -> int:
        """Number of distractors of an open answer."""

    @property
    def seed(self) -> int:
        """Seed of all draws."""

    def run(self, runs: Sequence[FlowRun]) -> None:
        """Answer the requests of all runs until their flows end; independent requests share passes or run in parallel.

        Raises the error of the first run that fails for a reason other than its question.
        """

    def fits(self, question: Question) -> bool:
        """Return whether the model can read a question with its options."""

    def text_of(self, question: Question, written: str | Chunk, *, rated: bool = False) -> Text:
        """Return an open answer that the model has written, or (`rated`) an answer from elsewhere."""

    def draw_letters(self, question: Question, log_p: Sequence[float], count: int) -> tuple[str | None, ...]:
        """Return `count` letters of options, drawn with the probabilities of a reply's letters; None without any."""
