"""JSON objects that a server writes. If the server supports schemas, a schema constrains its model.

secl checks every object against the schema.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from secl.backends.endpoint.chat import ChatClient
from secl.backends.endpoint.client import Body
from secl.backends.endpoint.reading import SpelledText, TokenCounts
from secl.errors import ModelError, NoObjectError, QuestionError, check_depth
from secl.evidence import Thought
from secl.fields.extraction import ObjectRequest, Objects
from secl.fields.json_schema import strict_form
from secl.fields.schema import Schema
from secl.fields.values import WrittenObject
from secl.flow.further import question_seed
from secl.ledger import Ledger
from secl.prompts.templates import answer_prompt
from secl.settings.groups import NUCLEUS
from secl.writing import Chunk

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
