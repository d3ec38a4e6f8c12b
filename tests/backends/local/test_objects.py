"""JSON objects that satisfy a schema: always valid, with the log-probabilities of a plain pass, alone or together."""

import sys
from dataclasses import replace
from typing import Any, Literal

import pytest
import torch
from pydantic import BaseModel, Field

import secl
from secl.backends.local import objects
from secl.backends.local.constrained import allowed_tokens
from secl.backends.local.objects import ObjectWriter
from secl.errors import ModelError, ParameterError, SeclError, TooLongError
from secl.fields import weighing
from secl.fields.extraction import ObjectRequest, request_of
from secl.fields.schema import Schema
from secl.question import Question
from tests.backends.local.alone import Alone, tokens_of
from tests.backends.local.conftest import memory_ends, tiny_of, tokens_seen

pytestmark = pytest.mark.heavy


class Party(BaseModel):
    name: str = Field(max_length=6)
    active: bool | None = None


class Letter(BaseModel):
    kind: Literal["offer", "reminder", "größer"]
    party: Party
    pages: int = Field(ge=0, le=99)
    word: str | None = Field(None, max_length=8)


SCHEMA = Schema.of(Letter)
LONG = {"properties": {"a": {"type": "string", "minLength": 5000}}}
ASKED = Question(SCHEMA.listing(), id="a", form="text", context="A letter of ACME, three pages.")


@pytest.fixture(scope="module", params=["llama", "gemma2", "gpt2"])
def model(request: pytest.FixtureRequest) -> Any:
    return tiny_of(request.param)


def write(model: Any, samples: int = 2, seed: str = "a") -> Any:
    (written,) = model.write_objects([request(seed)], lambda *_: samples)
    return written


def request(name: str, context: str = ASKED.context) -> ObjectRequest:
    return ObjectRequest(Question(ASKED.text, id=name, form="text", context=context), SCHEMA)


def test_every_object_is_valid_and_has_the_keys_in_order(model: Any) -> None:
    written = write(model, samples=4)
    for each in (written.greedy, *written.samples):
        assert [*each.value] == ["kind", "party", "pages", "word"]
        assert each.ends[-1] == len(each.text)
        SCHEMA.validated(each.value)


def test_log_probabilities_and_entropies_are_those_of_one_plain_pass(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[Any] = []
    finish = ObjectWriter.finish

    def noted(writer: ObjectWriter, batch: Any, some: Any, **how: Any) -> None:
        finish(writer, batch, some, **how)
        rows.extend(some)

    monkeypatch.setattr(ObjectWriter, "finish", noted)
    monkeypatch.setattr(weighing, "MIN_TOKEN_P", 1.0)
    written = write(model)
    prompt, alone = model.prompting.answer(ASKED), Alone(model.name)
    assert len(rows) == 1 + 2 * len(SCHEMA.leaves)
    begun = model.objects.task(request("a")).begun
    for row in rows:
        log_p = alone.log_p([*prompt, *row.written])[len(prompt) - 1 : -1]
        matcher = begun.deep_copy()
        for token, values in zip(row.written, log_p, strict=True):
            values[~torch.from_numpy(allowed_tokens(matcher, len(values)))] = -torch.inf
            matcher.consume_token(token)
        log_p = log_p.log_softmax(-1)
        own = log_p[torch.arange(len(row.written)), row.written]
        assert row.log_p == pytest.approx(own.tolist(), abs=1e-3)
        assert row.entropy == pytest.approx(torch.special.entr(log_p.exp()).sum(-1).tolist(), abs=1e-3)
    assert written.greedy.log_p == tuple(rows[0].log_p)
    assert model.backend.token_ids.tokenizer.decode(rows[0].written) == written.greedy.text
    for number, sample in enumerate(written.samples):
        for leaf, row in zip(SCHEMA.leaves, rows[1 + number :: 2], strict=True):
            values = [sample.log_p[token] for token in sample.tokens(sample.place_of(leaf))]
            behind = range(row.value.first, len(row.written))
            assert any(row.log_p[first : first + len(values)] == values for first in behind)


def test_values_are_read_again_as_the_reply_to_a_request_for_one_field(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weighing, "MIN_TOKEN_P", 1.0)
    asked = request_of("A letter of ACME, three pages.", SCHEMA)
    (written,) = model.write_objects([asked], lambda *_: 0)
    own, reply = written.greedy, Alone(model.name)
    assert [*written.greedy.alone] == [leaf.name for leaf in SCHEMA.leaves]
    for leaf in SCHEMA.leaves:
        above, value = "".join(f'{{"{key}": ' for key in leaf.path), written.greedy.text[slice(*own.place_of(leaf))]
        question = Question(
            "Extract one field from the text above. Reply with one JSON object that has only this key:\n"
            + (f'- "party" (object):\n  - "{leaf.path[1]}"' if leaf.path[1:] else f'- "{leaf.name}"')
            + f" ({leaf.title})",
            form="text",
            context="A letter of ACME, three pages.",
        )
        prompt = model.prompting.answer(question)
        before, tokens = tokens_of(above), [*prompt, *tokens_of(f"{above}{value}" + "}" * len(leaf.path))]
        same = [one == other for one, other in zip(before, tokens[len(prompt) :], strict=False)]  # " null" is one token
        first, log_p = len(prompt) + [*same, False].index(False), reply.log_p(tokens)
        last = len(prompt) + len(tokens_of(f"{above}{value}"))
        read = sum(log_p[n - 1, tokens[n]].item() for n in range(first, last))
        assert written.greedy.alone[leaf.name] == pytest.approx(read, abs=1e-3)
    monkeypatch.setattr(weighing, "MIN_TOKEN_P", 1e-300)
    (certain,) = model.write_objects([asked], lambda *_: 0)
    assert [*certain.greedy.alone] == ["kind", "/party/active", "pages"]  # values of a fixed form
    assert certain.ledger.likelihood < written.ledger.likelihood


def test_certain_values_are_not_drawn_again(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "uncertain_places", lambda _, greedy: [greedy.places[("pages",)]])
    written = write(model, samples=4)
    values = [{**each.value, "pages": 0} for each in (written.greedy, *written.samples) if each is not None]
    assert all(value == values[0] for value in values)
    assert 4 <= written.ledger.sampling <= 4 * 4


def test_a_sample_does_not_depend_on_the_others_nor_on_what_was_written_before(model: Any) -> None:
    two, one = write(model), write(model, samples=1)
    assert write(model) == two
    assert one.greedy == two.greedy
    (sample,), (first, *others) = one.samples, two.samples
    assert sample.text == first.text
    assert sample.log_p == pytest.approx(first.log_p, abs=1e-3)
    assert len({each and each.text for each in (first, *others)}) > 1


@pytest.mark.parametrize("room", [None, 2000, 1])
def test_an_object_is_the_same_alone_and_in_a_batch(
    model: Any, monkeypatch: pytest.MonkeyPatch, room: int | None
) -> None:
    if room is not None:
        monkeypatch.setattr(model.backend, "text_tokens", room)
    texts = ["A letter of ACME.", "An offer from Größer & Co. " * 9, "Nothing.", "Three pages. " * 30]
    asked = [request(str(number), text) for number, text in enumerate(texts)]
    counts = {each.question: count for each, count in zip(asked, (2, 0, 3, 1), strict=True)}
    bad = request_of("x", Schema.of({"properties": {"a": {"enum": []}}, "required": ["a"]}))
    together = model.write_objects([asked[0], bad, *asked[1:]], lambda each, _: counts[each.question])
    assert isinstance(together.pop(1), ParameterError)
    for each, both in zip(asked, together, strict=True):
        (alone,) = model.write_objects([each], lambda each, _: counts[each.question])
        assert both.ledger == alone.ledger
        for one, other in zip((alone.greedy, *alone.samples), (both.greedy, *both.samples), strict=True):
            assert one.text == other.text
            assert one.log_p == pytest.approx(other.log_p, abs=1e-3)
            assert one.entropy == pytest.approx(other.entropy, abs=1e-3)


def test_too_little_memory_halves_the_batch(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [request(str(number)) for number in range(3)]
    whole = model.write_objects(asked, lambda *_: 2)
    memory_ends(monkeypatch, ObjectWriter, "finish", lambda _writer, _batch, rows, **_: len(rows) > 2)
    with pytest.warns(RuntimeWarning, match="too little memory"):
        halves = model.write_objects(asked, lambda *_: 2)
    assert [each.greedy.text for each in halves] == [each.greedy.text for each in whole]


def test_certain_objects_take_one_pass_over_the_prompt(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tokens_seen(model.backend.model)
    loaded = secl.load(model)
    monkeypatch.setattr(weighing, "MIN_TOKEN_P", 0.0 + 1e-300)
    found = loaded.extract("A letter.", Letter)
    ledgers = [record.ledger for record in found.fields.values()]
    # On the plain path each value is read with its prompt, but shared tokens count once.
    plain = model.backend.passes.shared is None
    assert sum(seen) >= sum(ledger.total for ledger in ledgers) - 1e-4
    assert plain or sum(seen) == pytest.approx(sum(ledger.total for ledger in ledgers), abs=1e-4)
    assert all(ledger.sampling == 0 for ledger in ledgers)
    seen.clear()
    monkeypatch.setattr(weighing, "MIN_TOKEN_P", 1.0)
    sampled = loaded.extract("A letter.", Letter)
    assert sampled.value == found.value
    assert isinstance(sampled.value, Letter)
    assert plain or sum(seen) == pytest.approx(sum(each.ledger.total for each in sampled.records), abs=1e-4)
    assert sorted(text for text, _ in sampled.fields["/party/active"].candidates) == ["false", "null", "true"]


@pytest.mark.slow
def test_three_hundred_fields_are_extracted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weighing, "MIN_TOKEN_P", 1e-300)
    model = secl.load(tiny_of(changes={"max_position_embeddings": 16384}))
    properties = {f"f{number}": {"type": "boolean"} for number in range(300)}
    found = model.extract("Marks.", {"type": "object", "properties": properties, "required": [*properties]})
    assert [*found.fields] == [*found.value] == [*properties]
    assert {record.text for record in found.fields.values()} <= {"true", "false"}
    assert 0 <= found.confidence < 1


@pytest.mark.parametrize(
    ("schema", "document", "error", "said"),
    [
        (
            {"properties": {"a": {"type": "strin"}}},
            "x",
            ParameterError,
            r"the schema is not valid \(properties.a.type: 'strin'",
        ),
        (
            {"properties": {"a": {"type": "array", "enum": []}}, "required": ["a"]},
            "x",
            ParameterError,
            "from the field 'a' of the schema: Unsat",
        ),
        (
            {"a": "A name"},
            "word " * 3000,
            TooLongError,
            r"takes \d+ tokens .*, so only 0 of the model.s 2048 .*; shorten the",
        ),
        (
            {f"n{number}": "" for number in range(300)},
            "x",
            TooLongError,
            r"the object \(number of fields: 300\); .* fewer fields",
        ),
        ({"required": ["a"], **LONG}, "x", ModelError, "did not close the object within 512"),
    ],
)
def test_what_cannot_be_written_is_refused_in_a_sentence(
    schema: Any, document: str, error: type[SeclError], said: str
) -> None:
    with pytest.raises(error, match=said):
        secl.load(tiny_of()).extract(document, schema)


def test_without_llguidance_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(ParameterError, match=r"extract needs llguidance; run: pip install .*\[fields\]"):
        secl.load(tiny_of()).extract("x", {"a": "A name"})


def test_a_tokenizer_that_llguidance_cannot_read_and_servers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_of()
    monkeypatch.setattr(model, "driver", replace(model.driver, engine=object()))
    with pytest.raises(ParameterError, match="extract does not work with them; load the model without --engine vllm"):
        write(model)
    monkeypatch.undo()
    monkeypatch.setattr(type(model.backend.token_ids.tokenizer), "backend_tokenizer", None)
    with pytest.raises(
        ModelError, match=r"llguidance cannot read the tokenizer of the model 'llama' .*tokenizer\.json"
    ):
        write(model)
