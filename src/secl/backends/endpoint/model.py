"""A chat model on a server with OpenAI's API, which gives each of its answers a confidence; its objects, and its cost.

If the server supports schemas, a schema constrains the model. secl checks every object against the schema.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from secl.backends.endpoint.abilities import (
    MUSING_TOKENS,
    WORD_TOKENS,
    Abilities,
    find_out,
    messages_of,
    only_model,
    unlisted,
)
from secl.backends.endpoint.chat import ChatClient, Pending
from secl.backends.endpoint.client import Body, Endpoint, Upstream
from secl.backends.endpoint.driver import EndpointDriver
from secl.backends.endpoint.reading import SpelledText, TokenCounts
from secl.conversation import Prompt
from secl.errors import ModelError, NoObjectError, QuestionError, SeclError, check_depth
from secl.evidence import EvidenceKind, Thought
from secl.fields.extraction import ObjectRequest, Objects
from secl.fields.json_schema import strict_form
from secl.fields.schema import Schema
from secl.fields.values import WrittenObject
from secl.flow.further import question_seed
from secl.flow.model import FlowModel
from secl.flow.questions import Case, answer, rate, sample
from secl.flow.requests import FlowRun
from secl.ledger import Ledger
from secl.prompts.templates import answer_prompt
from secl.question import GivenAnswer, Question
from secl.settings.groups import NUCLEUS, Thinking
from secl.writing import Chunk, SamplingParameters, Token

AGAIN = "Your reply is no such object ({}). Reply with the JSON object alone."


class ObjectAsker:
    """Asks a server for JSON objects. Instances are thread-safe. Raises the errors of `ChatClient`."""

    def __init__(self, requests: ChatClient, seed: int) -> None:
        self.requests, self.abilities, self.seed = requests, requests.abilities, seed
        self._constrains: dict[str, bool] = {}  # by schema: whether the server has accepted it
        self._several = True

    def write(
        self, request: ObjectRequest, samples: Callable[[ObjectRequest, WrittenObject], int]
    ) -> Objects[WrittenObject] | ModelError:
        """Write the most probable object and samples; return an error if the model writes no object of the schema."""
        schema = request.schema
        greedy, spent = self._greedy(request)
        if not isinstance(greedy, WrittenObject):
            return greedy
        drawn: list[WrittenObject | None] = []
        sampling = 0
        thinks_first = self.abilities.thinks_first
        # A thinking model draws a second thought, and a third thought if the second one leads to other values.
        wanted = 1 if thinks_first else samples(request, greedy)
        while len(drawn) < wanted:
            seed = question_seed(self.seed, request.question, f"object {len(drawn)}") % 2**31
            count = wanted - len(drawn) if self._several else 1
            body, requested = self._body(request, {"temperature": 1, "top_p": NUCLEUS, "seed": seed})
            sampling += 0 if requested is None else requested.length
            try:
                texts, used = self._replies({**body, "n": count} if count > 1 else body, schema)
            except QuestionError:
                if count == 1:
                    raise
                self._several = False
                continue
            sampling += sum(used.values())
            for text in texts:
                written, _ = _read(text, schema)
                drawn.append(written and replace(written, thought=_thought(text, used, requested)))
            if thinks_first and wanted == 1 and (drawn[0] is None or drawn[0].value != greedy.value):
                wanted = 2
        return Objects(
            greedy=greedy,
            samples=tuple(drawn[:wanted]),
            ledger=Ledger(answering=float(sum(spent)), sampling=float(sampling)),
            plain_tokens=float(sum(spent)),
            tokens=spent,
        )

    def _body(self, request: ObjectRequest, drawn: Body) -> tuple[dict[str, Any], Chunk | None]:
        """Return the body of a request for an object, and the requested thought before the object, if any."""
        thought, further = None, None
        if self.abilities.request:
            further, thought = self.requests.reasoned(request.question, drawn)
        asked = further or answer_prompt(request.question)
        return {**self.abilities.chat(asked, request.most_tokens, think=True), **drawn}, thought

    def _greedy(self, request: ObjectRequest) -> tuple[WrittenObject | ModelError, tuple[int, int]]:
        """Return the most probable object, or an error after two failed tries, with the tokens of prompts and texts."""
        schema = request.schema
        body, requested = self._body(request, {})
        read, wrote = (0, 0) if requested is None else (requested.prompt_tokens, requested.completion_tokens)
        thought, reason, finish = None if requested is None else requested.whole_thought, "", ""
        for _ in range(2):
            (answered, *_), used = self._replies(body, schema)
            finish, thought = answered.finish, thought or _thought(answered, used)
            read, wrote = read + used.get("prompt_tokens", 0), wrote + used.get("completion_tokens", 0)
            written, reason = _read(answered, schema)
            if written is not None:
                return replace(written, thought=thought), (read, wrote)
            if requested is None and thought is not None and thought.cut and self.abilities.off is not None:
                body = self.abilities.chat(answer_prompt(request.question), request.most_tokens)
                continue
            said = [("assistant", answered.text), ("user", AGAIN.format(reason))]
            turns = [{"role": role, "content": content} for role, content in said]
            body = {**body, "messages": [*body["messages"], *turns]}
        if finish == "length":
            return request.unfinished(request.most_tokens, (read, wrote)), (read, wrote)
        problem = NoObjectError(
            f"the model wrote no object that fits the schema ({reason}), even when asked again; ask for fewer fields, "
            "or take a server that constrains its model by response_format."
        )
        return problem, (read, wrote)

    def _replies(self, body: Body, schema: Schema) -> tuple[list[SpelledText], TokenCounts]:
        """Send a request with the schema as constraint. If the server refuses this request, send it without the schema.

        If the server has never accepted the schema, later requests have no schema either.
        """
        grammar, strict = strict_form(schema.grammar)
        key, thinks = json.dumps(grammar), self.abilities.thinks(True)
        if self._constrains.get(key, True):
            constraint = {"type": "json_schema", "json_schema": {"name": "object", "strict": strict, "schema": grammar}}
            with suppress(QuestionError):
                constrained = {**body, "response_format": constraint}
                replies = self.requests.replies(constrained, thinking=thinks, schema=True)
                self._constrains[key] = True
                return replies
        replies = self.requests.replies(body, thinking=thinks, schema=True)
        self._constrains.setdefault(key, False)
        return replies


def _thought(said: SpelledText, used: TokenCounts, requested: Chunk | None = None) -> Thought | None:
    """Return the thought before an object: the `requested` thought, or else the thought in the reply."""
    return said.whole_thought(used.get("completion_tokens", 0)) if requested is None else requested.whole_thought


def _read(said: SpelledText, schema: Schema) -> tuple[WrittenObject | None, str]:
    """Return the first object in a text, or None and the reason why the text has no object of the schema."""
    text = said.text
    begin = max(0, text.find("{"))
    try:
        value, end = json.JSONDecoder().raw_decode(text, begin)
        check_depth(value)
    except (ValueError, RecursionError):
        return None, "broken JSON"
    if (reason := schema.misfit(value)) is not None:
        return None, reason
    text = text[begin:end]
    if not said.tokens:  # without log-probabilities, the object is one token of unknown probability
        return WrittenObject(text, (len(text),), (math.nan,), (math.nan,)), ""
    log_p = tuple(token.log_p for token in said.tokens)
    # Entropies from a server ignore the schema. They rank values less well than probabilities do, so they stay unused.
    return WrittenObject(text, tuple(each - begin for each in said.ends), log_p, (math.nan,) * len(log_p)), ""


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


class EndpointModel(FlowModel):
    """A `secl.model.Model` on any server that has OpenAI's API and gives log-probabilities.

    The model does not learn: only the posterior and labels change confidences. Before the first question, a trial
    question finds out the server's abilities. secl warns of missing abilities.

    Args:
        url: base address of the server, such as "https://api.example.com/v1".
        name: name of the model on the server; "" for the server's only model.
        key: bearer token.
        distractors: number of distractors for an open answer, 1 to 9.
        thinking: whether the model thinks before an answer: "off", "auto" (no limit), or the maximum number of tokens.
        seed: seed of sampled answers and distractors.

    Raises:
        ParameterError: not a URL, or several models without a name.
        ModelError: the server does not answer or gives no log-probabilities, or its model does not think as asked.
    """

    def __init__(
        self,
        url: str,
        name: str = "",
        *,
        key: str | None = None,
        distractors: int = 4,
        thinking: Thinking = "off",
        seed: int = 42,
    ) -> None:
        self.endpoint = Endpoint(url, key=key)
        try:
            self.name = name or only_model(self.endpoint)
            self.abilities: Abilities = find_out(self.endpoint, self.name, thinking)
        except BaseException:
            self.endpoint.close()
            raise
        for note in [*(unlisted(self.endpoint, name) if name else ()), *self.abilities.notes]:
            warnings.warn(note, stacklevel=2)
        self.upstream = Upstream(self.endpoint, self.name, takes_all=True)
        self.fingerprint = f"openai:{self.name}"
        self.requests = ChatClient(self.endpoint, self.abilities)
        driver = EndpointDriver(self.requests, distractors, seed)
        super().__init__(driver)
        self.driver: EndpointDriver = driver
        self.objects = ObjectAsker(self.requests, seed)

    def _facts(self) -> dict[str, object]:
        return {"name": self.name, "endpoint": self.endpoint.url, "log_probabilities": self.abilities.top}

    @property
    def environment(self) -> dict[str, str | int]:
        """Engine, number of log-probabilities, and the control of thoughts: names of request fields, or "requested"."""
        switches = {*(self.abilities.off or ()), *(self.abilities.on or ())}
        thoughts = "requested" if self.abilities.request else ", ".join(sorted(switches))
        named = {"thoughts": thoughts} if thoughts else {}
        return {"engine": "openai", "log_probabilities": self.abilities.top, **named}

    def cost(
        self,
        asked: Sequence[Question | GivenAnswer],
        evidence: Collection[EvidenceKind] = frozenset({"candidates"}),
        samples: int = 10,
    ) -> Cost:
        """Estimate the cost of questions, or of ratings of given answers, without asking the server.

        `samples`: number of samples for an open question, if `evidence` contains "samples".
        """
        counter = _Counter(self.abilities)
        driver = EndpointDriver(counter, self.driver.distractors, 0)
        kinds, counted = frozenset(evidence), asked[:MAX_COUNTED]
        for each in counted:
            case = Case(each.question if isinstance(each, GivenAnswer) else each, driver)
            driver.advance(FlowRun(rate(case, each, kinds) if isinstance(each, GivenAnswer) else answer(case, kinds)))
            if "samples" in kinds and not case.question.options and not isinstance(each, GivenAnswer):
                driver.advance(FlowRun(sample(case, samples)))
        times = len(asked) / max(1, len(counted))
        numbers = (counter.count, counter.prompt_tokens, counter.written_tokens)
        return Cost(len(asked), *(round(times * number) for number in numbers))

    def write_objects(
        self, requests: Sequence[ObjectRequest], samples: Callable[[ObjectRequest, WrittenObject], int]
    ) -> list[Objects[WrittenObject] | SeclError]:
        """Write JSON objects in parallel; see `secl.fields.extraction.WritesObjects`."""

        def outcome(request: ObjectRequest) -> Objects[WrittenObject] | SeclError:
            try:
                return self.objects.write(request, samples)
            except QuestionError as refusal:
                return refusal

        return self.driver.map(outcome, requests)

    def check_schema(self, schema: Schema) -> tuple[str, ...]:
        """Return a sentence for each keyword of a schema that no server applies."""
        return schema.remarks

    def write(self, question: Question, sampling: SamplingParameters) -> Iterator[Chunk]:
        """Stream free answers; see `secl.model.Model.write`."""
        return self.requests.write(question, sampling)

    def close(self) -> None:
        """Wait for the running requests, then close the connections."""
        self.driver.close()
        self.requests.close()
        self.endpoint.close()
