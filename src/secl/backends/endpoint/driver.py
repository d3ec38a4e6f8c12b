"""The driver of a server with OpenAI's API. It runs flows beside each other; each request of a flow is a chat."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from statistics import fmean
from typing import Any, NamedTuple, TypeVar

from secl.backends.endpoint.chat import CONCURRENT_CHATS, ChatClient, Pending
from secl.backends.endpoint.names import DIGITS, VERDICTS, bins_of, entropy, read_names, spelled, within
from secl.errors import QuestionError
from secl.evidence import LetterOrder, Thought
from secl.facts.tokens import place_tokens
from secl.flow.further import FREE_TOKENS, OWN, PROGRAM_TOKENS, list_tokens, question_seed
from secl.flow.requests import Choose, FlowRun, Judge, Read, ReadWithin, Request, StateConfidence, Stated, Text, Write
from secl.ledger import Purpose
from secl.prompts.parsing import as_written, read_answer, trim_answer
from secl.prompts.templates import (
    MAX_ANSWER_TOKENS,
    answer_prompt,
    digit_prompt,
    distractor_prompt,
    in_order,
    order_prompt,
    p_true_prompt,
    program_prompt,
)
from secl.question import LETTERS, Question
from secl.records import Reply
from secl.settings.groups import NUCLEUS
from secl.writing import Chunk, SamplingParameters, Token, joined

T = TypeVar("T")
S = TypeVar("S")

Result = Callable[[], Any]
"""Function that waits for the result of a request."""


class CountedTokens(NamedTuple):
    """The tokens of an answer, and the number of tokens of its prompt and text if they are not counted yet."""

    tokens: tuple[Token, ...] = ()
    length: int = 0


class EndpointDriver:
    """A `secl.flow.requests.Driver` on a server. Raises the errors of `secl.backends.endpoint.chat.ChatClient`."""

    likelihoods = False
    letters = len(LETTERS)

    def __init__(self, requests: ChatClient, distractors: int, seed: int) -> None:
        self.requests, self.distractors, self.seed = requests, distractors, seed
        self._flows = ThreadPoolExecutor(CONCURRENT_CHATS, thread_name_prefix="secl-flows")

    @property
    def thinks(self) -> bool:
        return self.requests.abilities.thinks_first

    @property
    def always_thinks(self) -> bool:
        return self.thinks and self.requests.abilities.off is None

    def run(self, runs: Sequence[FlowRun]) -> None:
        """Advance all runs in parallel. If the server refuses a question, the run keeps the refusal.

        Any other error cancels all waiting requests.
        """
        pending = [self._flows.submit(self.advance, run) for run in runs]
        try:
            for future in as_completed(pending):
                future.result()
        except BaseException:
            self.requests.abandon()
            raise

    def map(self, work: Callable[[T], S], items: Iterable[T]) -> list[S]:
        """Return `work` of each item, in parallel."""
        return [*self._flows.map(work, items)]

    def close(self) -> None:
        self._flows.shutdown(cancel_futures=True)

    def fits(self, question: Question) -> bool:  # noqa: ARG002
        return True  # the server itself refuses a question that is too long

    def text_of(self, question: Question, written: str | Chunk, *, rated: bool = False) -> Text:
        text = as_written(str(written), question.form) if rated else str(written)
        if isinstance(written, str):
            return Text(text=text, form=question.form, state=CountedTokens())
        tokens = written.generation if isinstance(written.generation, tuple) else ()
        state = CountedTokens(tokens, written.length)
        complete = written.finish != "length"
        return Text(text=text, form=question.form, thought=written.whole_thought, complete=complete, state=state)

    def draw_letters(self, question: Question, log_p: Sequence[float], count: int) -> tuple[str | None, ...]:
        nucleus = _nucleus(dict(zip(question.letters, log_p, strict=False)), NUCLEUS)
        draws = random.Random(question_seed(self.seed, question, "samples"))
        return tuple(draws.choices([*nucleus], [*nucleus.values()], k=count)) if nucleus else (None,) * count

    def advance(self, run: FlowRun) -> None:
        """Send the requests of one run until its flow ends."""
        try:
            while run.requests:
                started = [self._start(run, request) for request in run.requests]
                run.send([result() for result in started])
        except QuestionError as refusal:
            run.refusal, run.requests = refusal, ()

    def _start(self, run: FlowRun, request: Request) -> Result:
        """Send a request, and return the function that waits for its result."""
        match request:
            case Write():
                return self._write(run, request)
            case StateConfidence(question=question, answer=Text() as text):
                return self._state(run, question, text)
            case StateConfidence():
                return self._choose_and_state(run, request)
            case Choose():
                return self._choose(run, request)
            case Judge():
                return self._judge(run, request)
            case Read() | ReadWithin():
                raise NotImplementedError("chat APIs give no likelihood of a text")

    def _write(self, run: FlowRun, request: Write) -> Result:
        question, draw = request.question, request.draw
        if request.spare:
            return lambda: None  # a chat that may be needless costs money
        if request.what == "program":
            program = self.requests.send(program_prompt(question), PROGRAM_TOKENS, top_p=NUCLEUS)
            return lambda: Text(text=take(run, "sampling", program).text, form=question.form)
        if request.what == "list":
            listed = self.distractors + 1
            seed = None if draw is None else question_seed(self.seed, question, draw)
            prompt, most = distractor_prompt(question, listed), list_tokens(question.form, listed)
            answers = self.requests.send(prompt, most, seed=seed, top_p=NUCLEUS)
            return lambda: Text(text=take(run, "scoring", answers).text, form=question.form)
        if question.free and draw is None:
            return lambda: self._write_freely(question)
        most = FREE_TOKENS if question.free else MAX_ANSWER_TOKENS[question.form]
        seed = None if draw in (None, OWN) else question_seed(self.seed, question, f"sample {draw}")
        think = question if request.think else None
        pending = self.requests.send(answer_prompt(question), most, seed=seed, top_p=NUCLEUS, think=think)
        return lambda: _text_in(take(run, "answering" if draw is None else "sampling", pending), question)

    def _write_freely(self, question: Question) -> Text:
        sampling = SamplingParameters(max_tokens=MAX_ANSWER_TOKENS[question.form])
        (chunk,) = joined(self.requests.write(question, sampling))
        return self.text_of(question, chunk)

    def _state(self, run: FlowRun, question: Question, text: Text) -> Result:
        """Request the confidence in an open answer. Without its tokens, the answer's ln P is nan."""
        answer = text.text if question.free else text.text.strip()
        pending = self.requests.send(digit_prompt(answer_prompt(question), _with_thought(text.thought, answer)))
        tokens = within(text.state.tokens, text.text.strip())

        def stated() -> Stated:
            run.pay("answering", text.state.length)
            said = take(run, "answering", pending).tokens
            reply = Reply(
                text=text.text.strip(),
                answer=read_answer(text.text, question.form, question.text),
                log_probability=math.fsum(token.log_p for token in tokens) if tokens else math.nan,
                thought=text.thought,
                **_confidence(said, [entropy(token) for token in tokens if token.top]),
            )
            placed = place_tokens(tokens, reply.answer or "") if question.free else None
            return Stated(reply=reply, plain_tokens=run.spent["answering"], tokens=placed)

        return stated

    def _choose_and_state(self, run: FlowRun, request: StateConfidence) -> Result:
        """Choose the most probable letter unless the request names one, then request the confidence in it."""
        question, named = request.question, request.answer
        prompt = order_prompt(question, range(len(question.options)))
        think = question if request.think else None
        pending = self.requests.send(prompt, top_p=NUCLEUS, think=think)

        def stated() -> Stated:
            answered = take(run, "answering", pending)
            letters, thought = read_names(answered.tokens, question.letters), answered.whole_thought
            # Without log-probabilities, the text itself may still be a letter.
            letter = named or (spelled(answered.text, question.letters) if letters is None else letters.best)
            log_p = {each: letters.of(each) for each in question.letters} if letters and letters.best else {}
            asked = digit_prompt(prompt, _with_thought(thought, str(letter or answered.text)))
            said = take(run, "answering", self.requests.send(asked)).tokens
            reply = Reply(
                text=str(letter or answered.text.strip()),
                answer=None if letter is None else str(letter),
                log_probability=math.nan if letter is None else log_p.get(str(letter), math.nan),
                option_log_p=tuple(log_p.values()),
                thought=thought,
                **_confidence(said, [] if letters is None else [letters.entropy]),
            )
            return Stated(reply=reply, plain_tokens=run.spent["answering"])

        return stated

    def _choose(self, run: FlowRun, request: Choose) -> Result:
        question, order, draw = request.question, request.order, request.draw
        seed = None if draw is None else question_seed(self.seed, question, f"thought {draw}")
        think = None if draw is None else in_order(question, order)
        pending = self.requests.send(order_prompt(question, order), seed=seed, top_p=NUCLEUS, think=think)

        def chosen() -> LetterOrder | None:
            written = take(run, "reordering", pending)
            letters = read_names(written.tokens, LETTERS[: len(order)])
            if letters is None or letters.best is None:
                return None
            log_p = tuple(letters.of(LETTERS[order.index(number)]) for number in range(len(order)))
            return LetterOrder(order=order, log_p=log_p, thought=written.whole_thought)

        return chosen

    def _judge(self, run: FlowRun, request: Judge) -> Result:
        pending = self.requests.send(p_true_prompt(request.question, request.answer))

        def judged() -> tuple[float, float] | None:
            verdict = read_names(take(run, "scoring", pending).tokens, VERDICTS)
            if verdict is None or verdict.best is None:
                return None
            true, false = (math.exp(verdict.of(word)) for word in VERDICTS)
            return true, false

        return judged


def take(run: FlowRun, purpose: Purpose, pending: Pending) -> Chunk:
    """Wait for the reply to a chat, and count its tokens."""
    written = pending.result()
    run.pay(purpose, written.length)
    return written


def _text_in(written: Chunk, question: Question) -> Text:
    """Return the answer in a reply, with its log-probability if known."""
    text = trim_answer(written.text, question.form)
    tokens = within(written.tokens, text.strip())
    return Text(
        text=text,
        form=question.form,
        log_p=math.fsum(token.log_p for token in tokens) if tokens else None,
        thought=written.whole_thought,
        complete=written.finish == "stop",
        state=CountedTokens(written.tokens),
    )


def _with_thought(thought: Thought | None, answer: str) -> str:
    """Return the thought and the answer as one text, because templates drop thoughts of earlier turns."""
    return answer if thought is None or thought.text is None else f"{thought.text}\n\n{answer}"


def _confidence(tokens: Sequence[Token], entropies: Sequence[float]) -> dict[str, Any]:
    """Return the `bins`, `digit_mass` and `entropy` of a `Reply`, from the tokens that state its confidence.

    Without log-probabilities of the digit, `bins` is (). `entropy` is the mean of the answer's `entropies` and the
    digit's entropy. If all are unknown, `entropy` is 0, because gates do not accept nan.
    """
    digit = read_names(tokens, DIGITS)
    if digit is None:
        return {"bins": (), "digit_mass": math.nan, "entropy": fmean(entropies or [0.0])}
    bins, mass = bins_of(digit)
    return {"bins": bins, "digit_mass": mass, "entropy": fmean([*entropies, digit.entropy])}


def _nucleus(log_p: dict[str, float], top_p: float) -> dict[str, float]:
    """Return the most probable letters that together have the probability `top_p`, with their probabilities."""
    p = {letter: math.exp(value) for letter, value in log_p.items()}
    total, before = sum(p.values()), 0.0
    nucleus = {}
    for letter in sorted(p, key=lambda each: -p[each]):
        if before < top_p * total:
            nucleus[letter] = p[letter]
        before += p[letter]
    return nucleus
