"""Estimate of the requests and tokens for a table of questions, computed without a server."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from secl.backends.endpoint.abilities import MUSING_TOKENS, WORD_TOKENS, Abilities, messages_of
from secl.backends.endpoint.chat import ChatClient, Pending
from secl.backends.endpoint.driver import EndpointDriver
from secl.conversation import Prompt
from secl.evidence import EvidenceKind
from secl.flow.questions import Case, answer, rate, sample
from secl.flow.requests import FlowRun
from secl.prompts.templates import answer_prompt
from secl.question import GivenAnswer, Question
from secl.writing import Chunk, SamplingParameters, Token

CHARACTERS = 4
"""Characters per token of English text."""

MESSAGE_TOKENS = 5
"""Tokens that a chat template adds to a message."""

WORD_LENGTH = 3
"""Assumed tokens of a reply with one letter, digit or verdict, including the end token."""

FULL = 0.4
"""Assumed length of a longer reply (text, list or program), as a share of its token limit."""

MAX_COUNTED = 300
"""Maximum number of questions whose requests are counted. Further questions are assumed to cost the average."""

_TOP = tuple((word, -1.0) for word in ("A", "5", "True"))


@dataclass(frozen=True)
class Cost:
    """Estimated cost of questions.

    Attributes:
        prompt_tokens: tokens of all prompts. A server may take most prompt tokens from its cache.
        written_tokens: tokens of all replies, thoughts included.
    """

    questions: int
    requests: int
    prompt_tokens: int
    written_tokens: int

    def __str__(self) -> str:
        """Return one sentence with rounded numbers.

        >>> str(Cost(200, 1402, 312_345, 9_021))
        '200 questions: about 1,400 requests, 310,000 prompt and 9,000 written tokens'
        """
        requests, prompt, written = (
            f"{float(f'{number:.2g}'):,.0f}" for number in (self.requests, self.prompt_tokens, self.written_tokens)
        )
        return f"{self.questions:,} questions: about {requests} requests, {prompt} prompt and {written} written tokens"


class _Counter(ChatClient):
    """Counts chats instead of sending them. Its replies contain a letter, a digit and a verdict."""

    def __init__(self, abilities: Abilities) -> None:
        self.abilities = abilities
        self.count, self.prompt_tokens, self.written_tokens = 0, 0, 0.0

    def send(
        self,
        prompt: Prompt,
        tokens: int = WORD_TOKENS,
        *,
        seed: int | None = None,
        top_p: float = 1,  # noqa: ARG002
        think: Question | None = None,
    ) -> Pending:
        before = self.prompt_tokens
        texts = [message["content"] for message in messages_of(prompt)]
        self.count += 1
        self.prompt_tokens += sum(len(text) // CHARACTERS + MESSAGE_TOKENS for text in texts)
        self.written_tokens += WORD_LENGTH if tokens == WORD_TOKENS else FULL * tokens
        if think is not None and self.abilities.request:
            self.count, self.prompt_tokens = self.count + 1, 2 * self.prompt_tokens - before
        if self.abilities.thinks_first if think is not None else self.abilities.thinks(False):
            self.written_tokens += self.abilities.budget or MUSING_TOKENS
        # secl can parse this text as a reply to every prompt. A quarter of the samples differ from the answer.
        text = "\n".join([f"Answer: {8 if seed is not None and seed % 4 == 0 else 7}", "9", "10", "11", "12"])
        written = Chunk(
            text=text, finish="stop", prompt_tokens=0, completion_tokens=0, tokens=(Token("A", -1.0, _TOP),)
        )
        pending: Pending = Future()
        pending.set_result(written)
        return pending

    def write(self, question: Question, sampling: SamplingParameters) -> Iterator[Chunk]:
        written = self.send(answer_prompt(question), sampling.max_tokens or MUSING_TOKENS, think=question).result()
        yield Chunk(text=written.text, finish="stop", generation=written.tokens)


def cost_of(
    abilities: Abilities,
    asked: Sequence[Question | GivenAnswer],
    evidence: Collection[EvidenceKind],
    *,
    samples: int,
    distractors: int,
) -> Cost:
    """Estimate the cost of questions or of ratings of given answers.

    `samples`: number of samples for an open question, if `evidence` contains "samples".
    """
    counter = _Counter(abilities)
    driver, kinds, counted = EndpointDriver(counter, distractors, seed=0), frozenset(evidence), asked[:MAX_COUNTED]
    for each in counted:
        case = Case(each.question if isinstance(each, GivenAnswer) else each, driver)
        driver.advance(FlowRun(rate(case, each, kinds) if isinstance(each, GivenAnswer) else answer(case, kinds)))
        if "samples" in kinds and not case.question.options and not isinstance(each, GivenAnswer):
            driver.advance(FlowRun(sample(case, samples)))
    times = len(asked) / max(1, len(counted))
    numbers = (counter.count, counter.prompt_tokens, counter.written_tokens)
    return Cost(len(asked), *(round(times * number) for number in numbers))
