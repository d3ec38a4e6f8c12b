"""JSON objects that satisfy a schema: always valid, with the log-probabilities of a plain pass, alone or together."""

from __future__ import annotations

import sys
from typing import Any, Literal

import pytest
import torch
from pydantic import BaseModel, Field

import secl
from secl.backends.local import objects
from secl.backends.local.model import LocalModel
from secl.errors import ModelError, ParameterError, SeclError, TooLongError
from secl.fields import extraction
from secl.fields.extraction import Objects
from secl.fields.schema import Schema
from secl.question import Question
from tests.backends.local.alone import Alone
from tests.backends.local.conftest import tiny_of, tokens_seen

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
ASKED = Question(SCHEMA.listing(), id="a", form="text", context="A letter of ACME, three pages.")


@pytest.fixture(scope="module", params=["llama", "gemma2"])
def model(request: pytest.FixtureRequest) -> LocalModel:
    return tiny_of(request.param)


def write(model: LocalModel, samples: int = 2, seed: str = "a") -> Objects:
    asked = Question(ASKED.text, id=seed, form="text", context=ASKED.context)
    return model.write_objects(asked, SCHEMA.grammar, len(SCHEMA.leaves), lambda _: samples)


def test_every_object_is_valid_and_has_the_keys_in_order(model: LocalModel) -> None:
    written = write(model, samples=4)
    for each in (written.greedy, *written.samples):
        assert each is not None
        assert [*each.value] == ["kind", "party", "pages", "word"]
        assert each.ends[-1] == len(each.text)
        SCHEMA.validated(each.value)


def test_log_probabilities_and_entropies_are_those_of_one_plain_pass(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[Any] = []
    kept = objects._Row.written

    def noted(row: Any, tokenizer: Any) -> Any:
        rows.append(row)
        return kept(row, tokenizer)

    monkeypatch.setattr(objects._Row, "written", noted)
    written = write(model)
    prompt, alone = model.prompting.answer(ASKED), Alone(model.name)
    for row, each in zip(rows, (written.greedy, *written.samples), strict=True):
        assert each is not None
        assert model.backend.token_ids.tokenizer.decode(row.tokens) == each.text
        log_p = alone.log_p([*prompt, *row.tokens])[len(prompt) - 1 : -1]
        own = log_p[torch.arange(len(row.tokens)), row.tokens]
        assert each.log_p == pytest.approx(own.tolist(), abs=1e-3)
        assert each.entropy == pytest.approx((-(log_p.exp() * log_p).sum(-1)).tolist(), abs=1e-3)


def test_a_sample_does_not_depend_on_the_others_nor_on_what_was_written_before(model: LocalModel) -> None:
    two, one = write(model), write(model, samples=1)
    assert write(model) == two
    assert one.greedy == two.greedy
    (sample,), (first, *others) = one.samples, two.samples
    assert sample is not None
    assert first is not None
    assert sample.text == first.text
    assert sample.log_p == pytest.approx(first.log_p, abs=1e-3)
    assert len({each and each.text for each in (first, *others)}) > 1


def test_certain_objects_take_one_pass_over_the_prompt(model: LocalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tokens_seen(model.backend.model)
    loaded = secl.load(model)
    monkeypatch.setattr(extraction, "CERTAIN", 0.0 + 1e-300)
    found = loaded.extract("A letter.", Letter)
    ledgers = [record.ledger for record in found.fields.values()]
    assert sum(seen) == pytest.approx(sum(ledger.total for ledger in ledgers), abs=1e-4)
    assert all(ledger.sampling == 0 for ledger in ledgers)
    seen.clear()
    monkeypatch.setattr(extraction, "CERTAIN", 1.0)
    sampled = loaded.extract("A letter.", Letter)
    assert sampled.value == found.value
    assert isinstance(sampled.value, Letter)
    assert sum(seen) == pytest.approx(sum(record.ledger.total for record in sampled.fields.values()), abs=1e-4)
    assert sorted(text for text, _ in sampled.fields["/party/active"].candidates) == ["false", "null", "true"]


@pytest.mark.slow
def test_three_hundred_fields_are_extracted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction, "CERTAIN", 1e-300)
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
            "cannot constrain a model: Invalid type: strin",
        ),
        ({"properties": {"a": {"type": "array", "uniqueItems": True}}}, "x", ParameterError, "uniqueItems"),
        ({"a": "A name"}, "word " * 3000, TooLongError, r"takes \d+ tokens .* leaves 0 of the 2048 .*; shorten the"),
        (
            {"properties": {"a": {"type": "string", "minLength": 5000}}, "required": ["a"]},
            "x",
            ModelError,
            "did not close the object within 512",
        ),
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
    monkeypatch.setattr(model.asker, "backend", object())
    with pytest.raises(ParameterError, match="not with servers"):
        write(model)
    monkeypatch.undo()
    monkeypatch.setattr(type(model.backend.token_ids.tokenizer), "backend_tokenizer", None)
    with pytest.raises(
        ModelError, match=r"llguidance cannot read the tokenizer of the model 'llama' .*tokenizer\.json"
    ):
        write(model)
