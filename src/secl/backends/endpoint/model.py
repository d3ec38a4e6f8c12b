"""A chat model on a server with OpenAI's API, which gives each of its answers a confidence."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Sequence

from secl.backends.endpoint.abilities import Abilities, find_out, only_model, unlisted
from secl.backends.endpoint.chat import ChatClient
from secl.backends.endpoint.client import Endpoint, Upstream
from secl.backends.endpoint.cost import Cost, cost_of
from secl.backends.endpoint.driver import EndpointDriver
from secl.backends.endpoint.objects import ObjectAsker
from secl.errors import QuestionError, SeclError
from secl.evidence import EvidenceKind
from secl.fields.extraction import ObjectRequest, Objects
from secl.fields.schema import Schema
from secl.fields.values import WrittenObject
from secl.flow.model import FlowModel
from secl.question import GivenAnswer, Question
from secl.settings.groups import Thinking, check_thinking
from secl.writing import Chunk, SamplingParameters


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
        ParameterError: not a URL, an invalid `thinking`, or several models without a name.
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
        thinking = check_thinking(thinking)
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
        """Estimate requests and tokens for questions, or for given answers, without asking the server."""
        distractors = self.driver.distractors
        return cost_of(self.abilities, asked, evidence, samples=samples, distractors=distractors)

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
