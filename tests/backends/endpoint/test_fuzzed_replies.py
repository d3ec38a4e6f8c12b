"""Replies of every known engine, changed at random: each gives the right numbers, a warning that names the server, or
one sentence."""

from __future__ import annotations

import copy
import json
import math
import random
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import secl
from secl.backends.endpoint import model as endpoint_model
from secl.backends.endpoint.client import Endpoint
from secl.backends.endpoint.model import EndpointModel
from secl.errors import SeclError
from secl.fields.extraction import samples_wanted
from secl.records import Record
from secl.writing import SamplingParameters, joined
from tests.backends.endpoint.fake import CHOICE, OPEN, Body, FakeServer, chunks_of, direct
from tests.backends.endpoint.test_engines import ENGINES, MUSING
from tests.backends.endpoint.test_objects import request
from tests.backends.endpoint.test_reported import KINDS, close, edited, unsure

RECORDED = Path(__file__).parent / "recorded"
"""Replies of real servers to requests for a digit, a verdict, a letter, a text and an object."""

COUNT = 5000
"""Number of changed replies in `make test-all`; `make test` takes every 20th."""

NEGLIGIBLE = -14.0
"""Log-probability of a token that counts for nothing."""

Replies = Mapping[str, Any]
"""A reply for each kind of request."""

Numbers = tuple[float, ...]
GONE = object()
JUNK: Mapping[str, list[Any]] = {
    "logprob": [None, "", [], {}, True, False, math.nan, 1e308, 10**400, "x", 5.0, GONE],
    "token": [None, 7, [], {}, GONE],
    "bytes": [None, [], "x", 7, {}, [999], [None], GONE],
    "top_logprobs": [None, [], "x", 7, {}, [None], [7], GONE],
    "logprobs": [None, [], {}, "x", 7, {"content": None}, {"content": 7}, {"content": [None]}, GONE],
    "content": [None, "", [], {}, 7, True, "another text", [None], [7], GONE],
    "message": [None, {}, "x", 7, [], GONE],
    "choices": [None, [], {}, "x", 7, [None], [7], GONE],
    "finish_reason": [None, "", "eos", "end_turn", "new", {}, ["stop"], 7, "content_filter", "tool_calls", GONE],
    "usage": [None, [], "x", 7, {}, {"prompt_tokens": "x"}, {"completion_tokens": math.nan}, GONE],
    "prompt_tokens": [None, "10", -1, 1e400, [], GONE],
    "completion_tokens": [None, "10", -1, 1e400, [], GONE],
    "reasoning": [None, "", [], {}, GONE],
    "reasoning_content": [None, "", [], {}, GONE],
    "index": [None, 3, "x", GONE],
    "role": [None, 7, GONE],
}
"""Values that no field may have, or that change nothing."""


OUTCOMES = ("right", "named", "refused", "undefined")

FAULTS = [kind for kind in KINDS if not kind.startswith(("zero as", "two tokens", "lists of the", "logarithms"))]
"""Kinds of reports. The others may look like the sound report of another model."""


def kind_of(body: Body) -> str:
    """What a request asks for."""
    asked = str(body["messages"][-1]["content"])
    words = {
        "one digit": "digit",
        "True or False": "verdict",
        "letter of the correct": "letter",
        "JSON object": "object",
    }
    return next((kind for word, kind in words.items() if word in asked), "text")


def recorded(engine: str) -> Replies:
    """The replies of an engine, real or simulated."""
    if engine not in ENGINES:
        replies: Replies = json.loads((RECORDED / engine).read_text())
        return replies
    server = FakeServer(unsure)
    server.change({"thought": MUSING, **ENGINES[engine][0]})
    server.form = ENGINES[engine][0].get("form", server.form)
    kept: dict[str, Any] = {}

    class Recording(direct(server)):  # type: ignore[misc]
        def post(self, route: str, body: Mapping[str, Any]) -> Any:
            answer = super().post(route, body)
            if body["temperature"] == 0:
                kept.setdefault(kind_of(dict(body)), answer)
            return answer

    with using(Recording) as model:
        kept.clear()  # the start has replies with thoughts
        ask_all(model)
    return kept


class Replaying(Endpoint):
    """A client whose replies are recorded; the replies of one kind are changed."""

    replies: Replies
    changed: Mapping[str, Any]
    chunk: Callable[[list[Any]], None]

    def models(self) -> list[dict[str, Any]]:
        return [{"id": "tiny"}]

    def post(self, route: str, body: Mapping[str, Any]) -> Any:  # noqa: ARG002
        kind = kind_of(dict(body))
        return copy.deepcopy(self.changed.get(kind, self.replies[kind]))

    def stream(self, route: str, body: Mapping[str, Any]) -> Generator[Any, None, None]:  # noqa: ARG002
        chunks = chunks_of(copy.deepcopy(self.replies[kind_of(dict(body))]), usage=True)
        self.chunk(chunks)
        yield from chunks


@contextmanager
def using(client: type[Endpoint]) -> Iterator[Any]:
    """A model with another client."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(endpoint_model, "Endpoint", client)
        model = EndpointModel("http://near")
    with closing(model):
        yield model


def numbers_of(record: Record) -> Numbers:
    """All numbers of a record that come from a server, and its confidence."""
    reply, evidence = record.reply, record.evidence
    letters = () if evidence.candidates is None else evidence.candidates.letters
    samples = () if evidence.candidates is None else evidence.candidates.samples
    verdicts = () if evidence.p_true is None else (*evidence.p_true.probabilities, *evidence.p_true.false_probabilities)
    drawn = tuple(math.nan if each.log_p is None else each.log_p for each in samples)
    orders = tuple(log_p for each in letters for log_p in each.log_p)
    return (*reply.option_log_p, *reply.bins, reply.log_probability, *orders, *drawn, *verdicts, record.confidence)


def choose(model: Any) -> Numbers:
    return numbers_of(secl.learning.Calibrator(model).answer(CHOICE))


def judge(model: Any) -> Numbers:
    judged = model.gather(CHOICE, model.answer(CHOICE).reply, ["p_true"]).p_true
    return () if judged is None else (*judged.probabilities, *judged.false_probabilities)


def answer(model: Any) -> Numbers:
    return numbers_of(secl.learning.Calibrator(model).answer(OPEN))


def extract(model: Any) -> Numbers:
    (written,) = model.write_objects([request()], samples_wanted)
    if isinstance(written, SeclError):
        raise written
    greedy = written.greedy
    return tuple(greedy.log_p[token] for token in greedy.tokens((0, len(greedy.text))))


def write(model: Any) -> Numbers:
    (text,) = joined(model.write(OPEN, SamplingParameters(top_logprobs=3)))
    assert all(-math.inf < log_p <= 0 for token in text.tokens for _, log_p in (("", token.log_p), *token.top))
    return numbers_of(secl.learning.Calibrator(model).answer(OPEN, text))


ASKS: Mapping[str, tuple[Callable[[Any], Numbers], tuple[str, ...]]] = {
    "choice": (choose, ("letter", "digit")),
    "verdict": (judge, ("verdict",)),
    "open": (answer, ("text", "digit")),
    "object": (extract, ("object",)),
    "stream": (write, ("stream", "digit")),
}
"""What is asked, and the kinds of replies in which a change matters."""


def ask_all(model: Any) -> dict[str, Numbers]:
    return {name: ask(model) for name, (ask, _) in ASKS.items()}


def spots(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in a reply."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from spots(inner, (*path, key))


def loses_text(path: tuple[Any, ...]) -> bool:
    """Whether a change at this place of a chunk loses a part of the text with its tokens, without a trace."""
    return path[0] != "usage" and path[2:3] in ((), ("delta",)) and len(path) < 4


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def damage(parts: list[Any], draw: random.Random) -> None:
    """Change a reply, or the chunks of a reply, in one place, or all its lists in one way."""
    if draw.random() < 0.4:
        kind = KINDS[draw.choice(FAULTS)]
        for part in parts:
            edited(kind)(part)
        return
    places = [(part, spot) for part in parts for spot in spots(part) if len(parts) == 1 or not loses_text(spot)]
    reply, (*path, key) = draw.choice(places)
    parent = at(reply, tuple(path))
    if isinstance(key, str):
        put = draw.choice(JUNK.get(key, [parent[key]]))
        parent.pop(key) if put is GONE else parent.update({key: put})
    elif path[-1] == "bytes":
        parent.append(999)
    else:
        way, other = draw.randrange(4), draw.randrange(len(parent))
        if way == 0:
            parent[key] = draw.choice([None, 7, "x", []])
        elif way == 1:
            parent.insert(other, copy.deepcopy(parent[key]))
        elif way == 2 or path[-1] != "content":  # without one of its tokens, a list would be that of another model
            parent.insert(other, parent.pop(key))
        else:
            del parent[key]


def alike(one: float, other: float) -> bool:
    """Whether two numbers are equal, both undefined, or both log-probabilities of about zero."""
    return close(one, other) or max(one, other) < NEGLIGIBLE or (math.isnan(one) and math.isnan(other))


def outcome(model: Any, ask: Callable[[Any], Numbers], expected: Numbers) -> str:
    """One of `OUTCOMES`, or what is wrong."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = ask(model)
        except SeclError as refusal:
            return (
                "refused" if str(refusal).endswith(".") or "http://near" in str(refusal) else f"no sentence: {refusal}"
            )
    if len(found) == len(expected) and all(map(alike, found, expected)):
        return "right"
    if found and math.isnan(found[-1]):
        return "undefined"
    if any("http://near/v1 reports" in str(each.message) for each in caught):
        confidence = found[-1] if found else math.nan
        return "named" if math.isnan(confidence) or confidence <= 1 else f"confidence {confidence}"
    return f"silently {found} instead of {expected}"


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 20))])
def test_no_changed_reply_gives_a_wrong_number_in_silence(part: int) -> None:
    draw, seen = random.Random(part), dict.fromkeys(OUTCOMES, 0)
    engines = [*ENGINES, *sorted(path.name for path in RECORDED.iterdir())]
    for engine in engines:
        Replaying.replies, Replaying.changed, Replaying.chunk = recorded(engine), {}, staticmethod(lambda chunks: None)
        with using(Replaying) as model:
            expected = ask_all(model)
            for _ in range(-(-COUNT // 20 // len(engines))):
                name = draw.choice([*ASKS])
                ask, kinds = ASKS[name]
                kind, seed = draw.choice(kinds), draw.getrandbits(32)
                if kind == "stream":
                    Replaying.changed = {}
                    Replaying.chunk = staticmethod(lambda chunks, seed=seed: damage(chunks, random.Random(seed)))
                else:
                    reply = copy.deepcopy(Replaying.replies[kind])
                    damage([reply], random.Random(seed))
                    Replaying.changed, Replaying.chunk = {kind: reply}, staticmethod(lambda chunks: None)
                result = outcome(model, ask, expected[name])
                assert result in seen, f"{engine}, {name}, {kind}, seed {seed}: {result}"
                seen[result] += 1
    assert min(seen["right"], seen["named"]) > 50, seen
