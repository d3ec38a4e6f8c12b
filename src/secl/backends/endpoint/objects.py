"""JSON objects that a server writes. If the server supports schemas, a schema constrains its model.

secl checks every object against the schema.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from secl.backends.endpoint.chat import Requests
from secl.backends.endpoint.client import Body
from secl.backends.endpoint.reading import Usage, Written
from secl.backends.generation import question_seed
from secl.display import excerpt
from secl.errors import ModelError, NoObjectError, ParameterError, QuestionError, needs
from secl.evidence import Thought
from secl.fields.extraction import ObjectRequest, Objects
from secl.fields.schema import Node
from secl.fields.values import WrittenObject
from secl.ledger import Ledger
from secl.prompts.templates import answer_prompt
from secl.settings.groups import NUCLEUS
from secl.writing import Piece

try:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError, best_match
    from referencing.exceptions import Unresolvable
except ImportError as missing:
    raise ModelError(needs("an endpoint", "jsonschema", "server")) from missing

AGAIN = "Your reply is no such object ({}). Reply with the JSON object alone."


class ObjectAsker:
    """Asks a server for JSON objects. Instances are thread-safe. Raises the errors of `Requests`."""

    def __init__(self, requests: Requests, seed: int) -> None:
        self.requests, self.abilities, self.seed = requests, requests.abilities, seed
        self._constrains: dict[str, bool] = {}  # by schema: whether the server has accepted it
        self._several = True

    def check(self, grammar: Node) -> None:
        """Check that a schema is valid. Raises ParameterError."""
        try:
            Draft202012Validator.check_schema(grammar)
        except SchemaError as problem:
            raise ParameterError(f"the schema is not valid: {excerpt(problem.message, 200)}.") from problem

    def write(
        self, request: ObjectRequest, samples: Callable[[ObjectRequest, WrittenObject], int]
    ) -> Objects[WrittenObject] | ModelError:
        """Write the most probable object and samples; return an error if the model writes no object of the schema."""
        grammar = request.schema.grammar
        greedy, answering = self._greedy(request)
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
                texts, used = self._replies({**body, "n": count} if count > 1 else body, grammar)
            except QuestionError:
                if count == 1:
                    raise
                self._several = False
                continue
            sampling += sum(used.values())
            for text in texts:
                written, _ = _read(text, grammar)
                drawn.append(written and replace(written, thought=_thought(text, used, requested)))
            if thinks_first and wanted == 1 and (drawn[0] is None or drawn[0].value != greedy.value):
                wanted = 2
        return Objects(
            greedy=greedy,
            samples=tuple(drawn[:wanted]),
            ledger=Ledger(answering=float(answering), sampling=float(sampling)),
            plain_tokens=float(answering),
            tokens=(answering - len(greedy.ends), len(greedy.ends)),
        )

    def _body(self, request: ObjectRequest, drawn: Body) -> tuple[dict[str, Any], Piece | None]:
        """Return the body of a request for an object, and the requested thought before the object, if any."""
        thought, further = None, None
        if self.abilities.request:
            further, thought = self.requests.reasoned(request.question, drawn)
        asked = further or answer_prompt(request.question)
        return {**self.abilities.chat(asked, request.most_tokens, think=True), **drawn}, thought

    def _greedy(self, request: ObjectRequest) -> tuple[WrittenObject | ModelError, int]:
        """Return the most probable object, or an error after two failed tries, with the number of tokens."""
        grammar = request.schema.grammar
        body, requested = self._body(request, {})
        spent, thought = (0, None) if requested is None else (requested.length, requested.whole_thought)
        reason, finish = "", ""
        for _ in range(2):
            (answered, *_), used = self._replies(body, grammar)
            finish = answered.finish
            spent, thought = spent + sum(used.values()), thought or _thought(answered, used)
            written, reason = _read(answered, grammar)
            if written is not None:
                return replace(written, thought=thought), spent
            if requested is None and thought is not None and thought.cut and self.abilities.off is not None:
                body = self.abilities.chat(answer_prompt(request.question), request.most_tokens)
                continue
            said = [("assistant", answered.text), ("user", AGAIN.format(reason))]
            turns = [{"role": role, "content": content} for role, content in said]
            body = {**body, "messages": [*body["messages"], *turns]}
        if finish == "length":
            return request.unfinished(request.most_tokens), spent
        problem = NoObjectError(
            f"the model wrote no object that fits the schema ({reason}), even when asked again; ask for fewer fields, "
            "or take a server that constrains its model by response_format."
        )
        return problem, spent

    def _replies(self, body: Body, grammar: Node) -> tuple[list[Written], Usage]:
        """Send a request with the schema as constraint. If the server refuses this request, send it without the schema.

        If the server has never accepted the schema, later requests have no schema either.
        """
        key, thinks = json.dumps(grammar), self.abilities.thinks(True)
        if self._constrains.get(key, True):
            constraint = {"type": "json_schema", "json_schema": {"name": "object", "strict": True, "schema": grammar}}
            with suppress(QuestionError):
                constrained = {**body, "response_format": constraint}
                replies = self.requests.replies(constrained, thinking=thinks, constrained=True)
                self._constrains[key] = True
                return replies
        replies = self.requests.replies(body, thinking=thinks, constrained=True)
        self._constrains.setdefault(key, False)
        return replies


def _thought(said: Written, used: Usage, requested: Piece | None = None) -> Thought | None:
    """Return the thought before an object: the `requested` thought, or else the thought in the reply."""
    return said.whole_thought(used.get("completion_tokens", 0)) if requested is None else requested.whole_thought


def _read(said: Written, grammar: Mapping[str, Any]) -> tuple[WrittenObject | None, str]:
    """Return the first object in a text, or None and the reason why the text has no object of the schema."""
    text = said.text
    begin = max(0, text.find("{"))
    try:
        value, end = json.JSONDecoder().raw_decode(text, begin)
    except (ValueError, RecursionError):
        return None, "broken JSON"
    try:
        problem = best_match(Draft202012Validator(grammar).iter_errors(value))
    except (Unresolvable, re.error) as unusable:
        raise ParameterError(f"the schema is not valid: {unusable}.") from unusable
    if problem is not None:
        return None, excerpt(problem.message, 100)
    text = text[begin:end]
    if not said.tokens:  # without log-probabilities, the object is one token of unknown probability
        return WrittenObject(text, (len(text),), (math.nan,), (math.nan,)), ""
    log_p = tuple(token.log_p for token in said.tokens)
    # Entropies from a server ignore the schema. They rank values less well than probabilities do, so they stay unused.
    return WrittenObject(text, tuple(each - begin for each in said.ends), log_p, (math.nan,) * len(log_p)), ""
