"""What a server may report as log-probabilities: each kind is refused, repaired, or named and left out."""

import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from secl.backends.endpoint.model import EndpointModel
from secl.errors import ModelError
from secl.fields.calls import WritesCalls
from secl.fields.extraction import samples_wanted
from secl.records import Reply
from secl.writing import SamplingParameters, joined
from tests.backends.endpoint.fake import CHOICE, OPEN, Body, FakeServer, direct, knowing
from tests.backends.endpoint.test_objects import request, said
from tests.server.conftest import Patch

LOG = Path(__file__).parents[3] / "docs" / "lab" / "log.md"
OBJECT = '{"number": "Müll", "total": 306.0}'
Entry = dict[str, Any]
Kind = Callable[[list[Entry]], None]


def unsure(body: Body) -> list[Any]:
    """As `knowing`, with smaller probabilities, and an object."""
    if "JSON object" in body["messages"][-1]["content"]:
        return said(OBJECT, unsure="Müll")
    return [{text: 0.65 * p for text, p in step.items()} for step in knowing(body)]


def of_each(change: Callable[[Entry], None]) -> Kind:
    """A change of the written tokens and of all other listed tokens."""

    def kind(tokens: list[Entry]) -> None:
        for token in tokens:
            for entry in (token, *token["top_logprobs"]):
                change(entry)

    return kind


def of_others(change: Callable[[int, Entry], None], first: int = 1) -> Kind:
    """A change of the listed tokens from number `first` on."""

    def kind(tokens: list[Entry]) -> None:
        for token in tokens:
            for number, entry in enumerate(token["top_logprobs"][first:]):
                change(number, entry)

    return kind


def of_lists(change: Callable[[Entry, list[Entry]], object]) -> Kind:
    """A change of the list at each token."""

    def kind(tokens: list[Entry]) -> None:
        for token in tokens:
            change(token, token["top_logprobs"])

    return kind


def put(**values: Any) -> Callable[..., None]:
    return lambda *entry: entry[-1].update(values)


def mapped(change: Callable[[float], object]) -> Kind:
    return of_each(lambda entry: entry.update(logprob=change(entry["logprob"])))


def respelled(change: Callable[[str], Entry]) -> Kind:
    return of_each(lambda entry: entry.update(change(entry["token"])))


def certain(zero: float) -> Kind:
    def kind(tokens: list[Entry]) -> None:
        for token in tokens:
            token["logprob"] = 0.0
            for other in token["top_logprobs"]:
                other["logprob"] = 0.0 if other["token"] == token["token"] else zero

    return kind


def without_written(token: Entry, listed: list[Entry]) -> None:
    listed[:] = [other for other in listed if other["token"] != token["token"]]


def repeated(*numbers: int) -> Callable[[Entry, list[Entry]], None]:
    return lambda token, listed: listed.extend(dict(listed[number]) for number in numbers)


def as_id(token: Entry, listed: list[Entry]) -> None:
    listed[0]["token"] = "token_id:7"
    listed.append({**token, "top_logprobs": []})


def only_two(token: Entry, listed: list[Entry]) -> None:
    del listed[2:]


def first_lost(tokens: list[Entry]) -> None:
    del tokens[0]


def halves(tokens: list[Entry]) -> None:
    """As Ollama reports a token with a letter that is not ASCII."""
    for token in tokens:
        for entry in (token, *token["top_logprobs"]):
            entry["token"] = "".join(each if each.isascii() else "\ufffd" for each in entry["token"])
            entry["bytes"] = list(entry["token"].encode())


def shifted(tokens: list[Entry]) -> None:
    """The list of each token is that of the token before."""
    lists = [token["top_logprobs"] for token in tokens]
    for token, listed in zip(tokens, [lists[-1], *lists], strict=False):
        token["top_logprobs"] = listed


def padded(tokens: list[Entry]) -> None:
    empty = {"token": "", "logprob": -9999.0, "bytes": [], "top_logprobs": []}
    tokens[:] = [dict(empty), *tokens, dict(empty)]


def special(tokens: list[Entry]) -> None:
    tokens.insert(0, {"token": "<|start|>", "logprob": 0.0, "bytes": None, "top_logprobs": []})
    tokens.append({"token": "<|im_end|>", "logprob": None, "bytes": None, "top_logprobs": None})


def byte_level(text: str) -> Entry:
    """A token as the vocabulary of GPT-2 or Llama 3 writes it."""
    names = {" ": "Ġ", "\n": "Ċ"}
    return {"token": "".join(names.get(each, each) for each in text.encode().decode("latin-1"))}


def ids(text: str) -> Entry:
    return {"token": f"token_id:{sum(text.encode())}", "bytes": list(text.encode())}


KINDS: dict[str, Kind] = {
    "all probability on the written token, -3.4e38 for others": certain(-3.4028234663852886e38),
    "all probability on the written token, -30 for others": certain(-30.0),
    "probabilities after a temperature of 0.01": mapped(lambda log_p: 100 * log_p if log_p < -1.0 else 0.0),
    "logits: 22 added": mapped(lambda log_p: log_p + 22),
    "logits: 30 subtracted": mapped(lambda log_p: log_p - 30),
    "logarithms to base 10": mapped(lambda log_p: log_p / math.log(10)),
    "probabilities": mapped(math.exp),
    "not-a-number for all": of_each(put(logprob=math.nan)),
    "not-a-number for others": of_others(put(logprob=math.nan)),
    "null for all": of_each(put(logprob=None)),
    "null for others": of_others(put(logprob=None)),
    "no `logprob`": of_each(lambda entry: entry.pop("logprob")),
    "numbers as texts": mapped(str),
    "false": of_each(put(logprob=False)),
    "a whole number of 400 digits": of_each(put(logprob=10**400)),
    "zero as -Infinity": of_others(put(logprob=-math.inf), 5),
    "zero as -9999": of_others(put(logprob=-9999.0), 5),
    "zero as -3.4e38": of_others(put(logprob=-3.4028234663852886e38), 5),
    "zero for the written token": of_lists(lambda token, listed: token.update(logprob=-9999.0)),
    "rounding above 0": mapped(lambda log_p: log_p + 1e-5),
    "the written token twice": of_lists(lambda token, listed: listed.insert(0, {**token, "top_logprobs": []})),
    "the written token twice, once as an id": of_lists(as_id),
    "other tokens twice": of_lists(repeated(1, 2)),
    "the written token with another probability": of_lists(lambda token, listed: token.update(logprob=-0.01)),
    "the written token not listed": of_lists(without_written),
    "no order": of_lists(lambda token, listed: listed.reverse()),
    "no other tokens": of_lists(lambda token, listed: listed.clear()),
    "two tokens of twenty": of_lists(only_two),
    "null instead of lists": of_lists(lambda token, listed: token.update(top_logprobs=None)),
    "lists of the token before": shifted,
    "ids with bytes": respelled(ids),
    "ids alone": respelled(lambda text: {"token": f"token_id:{sum(text.encode())}"}),
    "ids as numbers": respelled(lambda text: {"token": sum(text.encode())}),
    "vocabulary of bytes": respelled(byte_level),
    "SentencePiece": respelled(lambda text: {"token": text.replace(" ", "▁").replace("\n", "<0x0A>")}),
    "U+FFFD for letters": halves,
    "empty tokens": padded,
    "special tokens": special,
    "another token before the reply": lambda tokens: tokens.insert(0, {**tokens[0], "token": "Well"}),
    "tokens of another text": respelled(lambda text: {"token": text.swapcase() + "."}),
    "a token too few": first_lost,
}


def choice(model: Any) -> Sequence[float]:
    reply: Reply = model.answer(CHOICE).reply
    return reply.option_log_p


def digit(model: Any) -> Sequence[float]:
    reply: Reply = model.answer(CHOICE).reply
    return reply.bins


def verdict(model: Any) -> Sequence[float]:
    judged = model.gather(CHOICE, model.answer(CHOICE).reply, ["p_true"]).p_true
    return () if judged is None else judged.probabilities


def open_answer(model: Any) -> Sequence[float]:
    return (model.answer(OPEN).reply.log_probability,)


def written_object(model: Any) -> Sequence[float]:
    (written,) = model.write_objects([request()], samples_wanted)
    greedy = written.greedy
    return [greedy.log_p[token] for token in greedy.tokens((0, len(greedy.text)))]


def tool(model: Any) -> Sequence[float]:
    assert not isinstance(model, WritesCalls)  # `secl serve` passes calls on, and says that they have no confidence
    return ()


def stream(model: Any) -> Sequence[float]:
    (text,) = joined(model.write(OPEN, SamplingParameters(top_logprobs=3)))
    shown = [log_p for token in text.tokens for _, log_p in (("", token.log_p), *token.top)]
    assert all(-math.inf < log_p <= 0 for log_p in shown)
    return (model.answer(OPEN, written=text).reply.log_probability,)


COLUMNS = {
    "choice": choice,
    "digit": digit,
    "verdict": verdict,
    "open answer": open_answer,
    "object": written_object,
    "tool": tool,
    "stream": stream,
}


@pytest.fixture
def near(monkeypatch: Patch) -> FakeServer:
    """A server in this process."""
    server = FakeServer(unsure)
    monkeypatch.setattr("secl.backends.endpoint.model.Endpoint", direct(server))
    return server


def edited(kind: Kind) -> Callable[[Any], None]:
    def edit(answer: Any) -> None:
        for each in answer["choices"]:
            tokens = (each.get("logprobs") or {}).get("content")
            if tokens:
                kind(tokens)

    return edit


def started() -> str:
    """Whether secl accepts the server at the start: "accepted" or "refused"."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a note about short lists
            EndpointModel("http://near").close()
    except ModelError as refusal:
        return "refused" if str(refusal).startswith("http://near/v1 ") else f"wrong: {refusal}"
    return "accepted"


def outcome(model: EndpointModel, column: str, expected: Sequence[float]) -> str:
    """What becomes of the numbers of a column: "repaired" or "named"."""
    if column == "tool":
        return "named" if not COLUMNS[column](model) else "wrong"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = COLUMNS[column](model)
    if len(found) == len(expected) and all(map(close, found, expected)):
        return "repaired"
    named = all(f"{model.endpoint.url} reports" in str(each.message) for each in caught)
    unknown = all(math.isnan(one) or close(one, other) for one, other in zip(found, expected, strict=False))
    return "named" if caught and named and unknown else f"wrong: {found} instead of {expected}"


def close(one: float, other: float) -> bool:
    return math.isclose(one, other, abs_tol=1e-4)


def test_each_kind_of_report_is_refused_repaired_or_named_as_the_log_shows(near: FakeServer) -> None:
    with closing(EndpointModel("http://near")) as model:
        true = {column: read(model) for column, read in COLUMNS.items()}
        lines = [f"| the server reports | at the start | {' | '.join(COLUMNS)} |", "|---" * (2 + len(COLUMNS)) + "|"]
        for name, kind in KINDS.items():
            near.edit = edited(kind)
            start = started()
            cells = [outcome(model, column, true[column]) for column in COLUMNS]
            assert start == "accepted" or "repaired" not in cells[:4], name
            lines.append(f"| {name} | {start} | {' | '.join(cells)} |")
    table = "\n".join(lines)
    assert "wrong" not in table, table
    assert table in LOG.read_text(encoding="utf-8"), f"docs/lab/log.md has another table; the right one:\n{table}"
