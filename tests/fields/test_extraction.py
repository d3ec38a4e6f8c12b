"""Fields and refusals of schemas, tools and requests; objects become fields with confidences."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

import secl
from secl.conversation import Message
from secl.errors import ModelError, ParameterError, QuestionError
from secl.evidence import Source
from secl.fields.extraction import Extraction, ObjectRequest, composed, request_of, uncertain_values, weigh_objects
from secl.fields.json_schema import object_of
from secl.fields.schema import Leaf, Schema
from secl.fields.tools import CallRequest, tools_of
from secl.fields.values import WrittenObject, same_value, shown, spans
from secl.prompts.templates import NONE_OF_THESE
from secl.question import Question
from tests.fields.scribe import Scribe, written

SCHEMA = {"number": "Number of the invoice", "vendor": "Who sends it"}
GREEDY = '{"number": "BH-2291", "vendor": "Acme"}'
OTHER = '{"number": "BH-7731", "vendor": "acme."}'
FOUR = (GREEDY, OTHER, OTHER, None)


def extracted(model: Scribe, schema: Any = SCHEMA, **settings: Any) -> Any:
    return secl.load(model, **settings).extract("An invoice.", schema)


def test_each_field_is_a_record_with_its_value_and_the_other_values_that_samples_have() -> None:
    model = Scribe(written(GREEDY, unsure="2291"), *FOUR, GREEDY)
    found = extracted(model, accept=0.6)
    assert found.value == {"number": "BH-2291", "vendor": "Acme"}
    number, vendor = found.fields["number"], found.fields["vendor"]
    assert (number.text, vendor.text) == ("BH-2291", "Acme")
    assert {text for text, _ in number.candidates} == {"BH-2291", "BH-7731"}
    assert [text for text, _ in vendor.candidates] == ["Acme"]  # "acme." says the same
    assert [each.candidate for each in number.evidence.candidates.samples] == [0, 1]
    assert number.confidence < 0.6 < vendor.confidence
    assert (number.accepted, vendor.accepted, found.accepted) == (False, True, False)
    assert found.confidence == pytest.approx(number.confidence * vendor.confidence)
    assert number.question.domain == "number"
    assert number.question.id.endswith("/number")
    assert (number.kind, number.position, vendor.position) == ("field", 0, 1)
    assert (number.ledger.answering, number.ledger.sampling, number.plain_tokens) == (30, 15, 30)
    assert repr(found).startswith(f"Extraction(confidence={found.confidence:.3f}, number='BH-2291 (")
    assert "An invoice." in model.asked[0].context
    assert '- "number" (text or null): Number of the invoice\n' in model.asked[0].text


@pytest.mark.parametrize("shown", [True, False])
def test_a_field_is_as_sure_as_its_tokens_and_the_others_share_the_rest(shown: bool) -> None:
    greedy = written(GREEDY, unsure="2291")
    greedy = greedy if shown else replace(greedy, entropy=(math.nan,) * len(greedy.ends))
    found = extracted(Scribe(greedy, *FOUR, GREEDY)).fields["number"]
    own, other = 4 * math.log(0.99) + math.log(0.4), 5 * math.log(0.99)  # tokens: " BH - 2291 "
    odds = math.exp(0.6 - 1.4 * math.log(4 * 0.05 + 2.0 + 0.02))
    odds = odds if shown else (math.exp(own) / (1 - math.exp(own))) ** 0.6
    assert found.confidence == pytest.approx(odds / (1 + odds))
    assert found.reply.log_probability == pytest.approx(own)
    share = math.exp(other) / (math.exp(other) + 0.01)
    assert dict(found.candidates)["BH-7731"] == pytest.approx(share / (1 + odds))
    assert [name for name, _ in found.posterior.weights] == ["value"]


def test_without_probabilities_the_samples_count() -> None:
    unknown = replace(written(GREEDY), log_p=(math.nan,) * len(written(GREEDY).ends))
    found = extracted(Scribe(unknown, *FOUR, GREEDY)).fields["number"]
    assert found.confidence == pytest.approx(3.5**0.4 / (3.5**0.4 + 2.5**0.4 + 1.5**0.4))
    assert [name for name, _ in found.posterior.weights] == ["samples"]


def test_certain_values_need_no_samples_and_count_as_if_all_samples_repeated_them() -> None:
    certain, repeated = Scribe(written(GREEDY)), Scribe(written(GREEDY, p=0.6), *[GREEDY] * 5)
    alone, drawn = (extracted(model).fields["vendor"] for model in (certain, repeated))
    assert alone.evidence.candidates.source == drawn.evidence.candidates.source == Source("values")
    assert alone.ledger.sampling == 0 < drawn.ledger.sampling
    assert alone.evidence.candidates.samples == drawn.evidence.candidates.samples[:1] * 5
    assert drawn.confidence <= alone.confidence


def test_all_values_of_enumerations_and_booleans_are_candidates() -> None:
    kinds = {"enum": ["invoice", "reminder", "credit note"]}
    schema = {"properties": {"kind": kinds, "paid": {"type": "boolean"}}, "required": ["kind", "paid"]}
    found = extracted(Scribe(written('{"kind": "invoice", "paid": false}')), schema)
    kind, paid = found.fields["kind"].candidates, found.fields["paid"].candidates
    assert kind[0] == ("invoice", found.fields["kind"].confidence)
    assert [text for text, _ in paid] == ["false", "true"]
    for candidates in (kind, paid):
        assert sum(probability for _, probability in candidates) == pytest.approx(1)
    assert kind[1][1] == kind[2][1]
    for record in found.fields.values():  # a value of a fixed form
        odds = math.exp(0.6 - 0.7 - 1.4 * math.log(record.reply.entropy + 0.02))
        assert record.confidence == pytest.approx(odds / (1 + odds))


def test_elements_of_a_list_are_fields_with_the_confidence_of_belonging_to_it() -> None:
    listed = {"type": "array", "items": {"type": ["object", "string"]}, "description": "marks"}
    schema = {"properties": {"tags": listed}, "required": ["tags"]}
    texts = '["rush", {"n": 1, "to": "A"}, "rush"]', '[{"to": "a.", "n": 1.0}, "rush"]', '["fragile"]'
    own, *drawn = (f'{{"tags": {text}}}' for text in texts)
    found = extracted(Scribe(written(own, unsure="rush"), *drawn), schema)
    records = {name: record for name, record in found.fields.items() if "/" in name}
    assert {name: (record.text, [text for text, _ in record.candidates]) for name, record in records.items()} == {
        "/tags/0": ("rush", ["null", "rush"]),
        "/tags/1": ('{"n": 1, "to": "A"}', ['{"n": 1, "to": "A"}', "null"]),
        "/tags/2": ("rush", ["null", "rush"]),
        "/tags/3": ("null", ["null", "fragile"]),
    }
    first, further = found.fields["/tags/0"], found.fields["/tags/3"]
    assert [each.candidate for each in first.evidence.candidates.samples] == [0, 1]
    assert (first.question.text, first.question.domain) == ("What is one value of 'tags' (marks)?", "tags/*")
    assert further.question.text == "What further value is there of 'tags' (marks)?"
    assert found.fields["tags"].ledger.answering == 60
    assert found.confidence == found.fields["tags"].confidence


def test_a_null_is_a_value_and_stands_for_all_fields_of_an_object_that_is_null() -> None:
    inner = {"type": ["object", "null"], "properties": {"name": {"type": "string"}, "city": {"type": "string"}}}
    schema = {"properties": {"vendor": inner}, "required": ["vendor"]}
    model = Scribe(written('{"vendor": null}', unsure="null"), '{"vendor": {"name": "A", "city": null}}')
    found = extracted(model, schema)
    assert found.value == {"vendor": None}
    assert [*found.fields] == ["/vendor/name", "/vendor/city"]
    name, city = found.fields.values()
    assert (name.text, {text for text, _ in name.candidates}) == ("null", {"null", "A"})
    assert (city.text, [text for text, _ in city.candidates]) == ("null", ["null"])


def test_many_documents_are_written_eight_at_a_time_and_come_out_as_they_do_alone(tmp_path: Path) -> None:
    documents = [f"Invoice {number}." for number in range(11)]
    alone = [secl.load(Scribe(written(GREEDY, unsure="2291"), *FOUR)).extract(text, SCHEMA) for text in documents]
    path = tmp_path / "letters.csv"
    path.write_text("id,body\n" + "".join(f"{number},{text}\n" for number, text in enumerate(documents)))
    for rows, column in ((documents, "text"), ([{"body": text} for text in documents], "body"), (path, "body")):
        model = Scribe(written(GREEDY, unsure="2291"), *FOUR)
        found = list(secl.load(model).extract_all(rows, SCHEMA, text=column))
        assert model.windows == [8, 3]
        assert [(each.text, each.confidence) for each in found] == [(each.text, each.confidence) for each in alone]


def test_a_document_that_fails_spoils_no_other() -> None:
    model, schema = Scribe(written(GREEDY)), Schema.of(SCHEMA)
    asked = [request_of(text, schema) for text in ("One.", "fail", "Two.")]
    outcomes = list(weigh_objects(model, asked, secl.load(model).calibrator.weigh))
    assert [type(outcome) for outcome in outcomes] == [Extraction, ModelError, Extraction]
    found = secl.load(model).extract_all(["One.", "fail"], SCHEMA)
    assert next(found).value == json.loads(GREEDY)
    with pytest.raises(ModelError):
        next(found)


def test_any_question_can_be_answered_by_an_object() -> None:
    chat = Question("Who sends it?", id="chat", form="text", system="Be brief.", history=(Message("user", "Hi."),))
    model = Scribe(written(GREEDY))
    (found,) = weigh_objects(model, [ObjectRequest(chat, Schema.of(SCHEMA))], secl.load(model).calibrator.weigh)
    assert isinstance(found, Extraction)
    asked = found.fields["vendor"].question
    assert (asked.id, asked.context) == ("chat/vendor", "Who sends it?")
    assert (asked.system, asked.history) == (chat.system, chat.history)


def test_the_different_objects_that_the_model_wrote_are_candidates() -> None:
    found = extracted(Scribe(written(GREEDY, unsure="2291"), *FOUR, GREEDY))
    assert found.text == GREEDY
    assert [text for text, _ in found.candidates] == [OTHER, GREEDY]
    assert dict(found.candidates)[GREEDY] == found.confidence
    number, vendor = found.fields["number"], found.fields["vendor"]
    assert dict(found.candidates)[OTHER] == pytest.approx(dict(number.candidates)["BH-7731"] * vendor.confidence)


@pytest.mark.parametrize(
    ("kind", "one", "other", "same"),
    [
        ("number", 12, 12.0, True),
        ("number", True, 1, False),
        ("number", 1e400, 1e400, True),
        ("text", "1,200.50", "1200.5", True),
        ("text", "INV-1001", "INV-1002", False),
        ("text", "3 May 2026", "4 May 2026", False),
        ("text", "Berlin", "Berlin, Germany", True),
        ("text", "", "", True),
        ("text", "null", None, False),
        ("choice", "Paid", "paid", False),
        ("json", "2026-05-03", "2026-05-04", False),
        ("json", ["a", {"n": 1}], ["A", {"n": 1.0}], True),
        ("json", ["a", "b"], ["b", "a"], False),
    ],
)
def test_values_are_compared_by_their_kind(kind: Any, one: object, other: object, same: bool) -> None:
    leaf = Leaf(("a",), kind, "", "")
    assert same_value(leaf, Question("What is the value?"), one, other) is same
    assert same_value(leaf, Question("What is the value?"), other, one) is same


@pytest.mark.parametrize("text", ["", "  ", "null", NONE_OF_THESE, "\ud800"])
def test_texts_that_read_like_another_value_are_shown_in_quotes(text: str) -> None:
    assert shown(text).startswith('"')
    found = extracted(Scribe(WrittenObject(f'{{"number": {shown(text)}, "vendor": null}}', (60,), (-0.1,), (0.1,))))
    assert (found.fields["number"].text, found.value["number"]) == (shown(text), text)
    assert 0 < found.fields["number"].confidence < 1


def test_values_that_are_drawn_again_take_the_places_of_the_first_ones() -> None:
    parts = ['{"', "a", '":"', "Ac", "me", '","', "n", '":', " 1", "2", "}"]
    others = [['{"', "a", '":', ' "', "B\\", '"', '"', ","], [*parts[:8], "7", ".5", ",\n"]]

    def made_of(parts: list[str], p: float) -> WrittenObject:
        log_p = tuple(p - number / 100 for number in range(len(parts)))
        return WrittenObject("".join(parts), tuple(accumulate(map(len, parts))), log_p, (0.0,) * len(parts))

    greedy = made_of(parts, -1)
    places = spans(greedy.text)
    name, number = uncertain_values(greedy, [places["a",], places["n",], places["a",]])
    assert (name.first, number.first) == (2, 8)
    begun = [name.value_in('{"a":' + rest) for rest in ('"Ac', ' "x"', "nul", "null", "null,")]
    assert begun == [None, (6, 9), None, None, (5, 9)]
    begun = [number.value_in('{"a":"Acme","n":' + rest) for rest in ("-", "1", "1.", "1e", "1.5}")]
    assert begun[-2:] == [None, (16, 19)]
    made = composed(greedy, {value: made_of(other, -2) for value, other in zip((name, number), others, strict=True)})
    assert made is not None
    assert made.value == {"a": 'B"', "n": 7.5}
    tokens = [made.text[start:end] for start, end in pairwise((0, *made.ends))]
    assert tokens == ['{"', "a", '":"', "B\\", '"', '","', "n", '":', " 7", ".5", "}"]
    assert made.log_p[2:5] == pytest.approx((-2.03, -2.04, -2.05))
    assert made.log_p[8:] == pytest.approx((-2.08, -2.09, -1.1))
    assert composed(greedy, {name: made_of(others[0][:4], -2)}) is None
    assert uncertain_values(greedy, [places["a",], places[()]]) == []


def test_values_are_found_between_escapes_line_breaks_and_other_scripts() -> None:
    text = '{\n  "a\\"b": "x\\\\\\"y, 日本",\n  "o": {"e": {}, "l": [1, {"a": 2}]},\n  "n": -1.5e3\n}'
    found = spans(text)
    assert ["/".join(path) for path in found] == ["", 'a"b', "o", "o/e", "o/l", "o/l/0", "o/l/1", "o/l/1/a", "n"]
    assert text[slice(*found["o", "l"])] == '[1, {"a": 2}]'
    assert text[slice(*found[('a"b',)])] == '"x\\\\\\"y, 日本"'
    # Two tokens share the bytes of one character; the first has it.
    ends = (*range(1, text.index("日") + 2), text.index("日") + 1, len(text))
    tokens = WrittenObject(text, ends, (0.0,) * len(ends), (0.0,) * len(ends)).tokens(found[('a"b',)])
    assert (tokens[0], tokens[-1]) == (found[('a"b',)][0], len(ends) - 1)


def test_an_object_of_a_schema_without_fields_has_its_top_level_keys_as_fields() -> None:
    question = Question("An invoice as JSON?", form="text", id="chat")
    asked = [ObjectRequest(question, Schema.anything())]
    calibrator = secl.load(Scribe(written("{}"))).calibrator

    def fields_of(greedy: str, *samples: str) -> Any:
        (found,) = weigh_objects(Scribe(written(greedy, "7"), *samples), asked, calibrator.weigh)
        assert isinstance(found, Extraction)
        assert found.tokens == (61 - len(written(greedy).ends), len(written(greedy).ends))
        return {name: (each.text, len(each.candidates), each.question.form) for name, each in found.fields.items()}

    found = fields_of('{"total": 7, "paid": true}', '{"total": 7.0, "paid": false}', '{"paid": true}')
    assert found == {"total": ("7", 2, "number"), "paid": ("true", 2, "short")}
    assert fields_of("{}") == {"": ("{}", 1, "short")}


def test_labels_of_fields_move_confidences_and_thresholds_but_not_whether_a_value_is_accepted() -> None:
    model = secl.load(Scribe(written(GREEDY, p=0.999)), accept=0.7)
    before = model.extract("An invoice.", SCHEMA)
    for record in before.fields.values():
        model.label(record, False, chance=1)
    after = model.extract("An invoice.", SCHEMA)
    assert all(after.fields[name].confidence < before.fields[name].confidence for name in SCHEMA)
    assert after.confidence < 0.7 < before.confidence
    assert after.accept is not None
    assert after.accept < 0.7 == before.accept  # moves with the confidences
    assert (before.accepted, after.accepted) == (True, after.confidence >= after.accept)
    assert [after.fields[name].accepted for name in SCHEMA] == [before.fields[name].accepted for name in SCHEMA]
    assert model.threshold(0.5).answers == 4
    with pytest.raises(ParameterError, match="model 'scripted' writes no JSON objects; take a local model or a server"):
        secl.load(secl.testing.ScriptedModel()).extract("x", SCHEMA)


class Vendor(BaseModel):
    name: str
    city: str | None = None


class Invoice(BaseModel):
    number: str = Field(description="Number of the\ninvoice")
    total: float
    issued: str = Field(json_schema_extra={"format": "date"})
    kind: Literal["invoice", "credit note"] = "invoice"
    vendor: Vendor | None = None
    paid: bool | None = None
    lines: list[str] = []


WRITTEN = {"number": "7", "total": 2, "issued": "2026-01-02", "kind": None, "vendor": None, "paid": None, "lines": None}


def test_fields_of_a_class_have_kinds_values_and_names() -> None:
    leaves = {leaf.name: leaf for leaf in Schema.of(Invoice).leaves}
    assert {name: leaf.kind for name, leaf in leaves.items()} == {
        "number": "text",
        "total": "number",
        "issued": "json",
        "kind": "choice",
        "/vendor/name": "text",
        "/vendor/city": "text",
        "paid": "choice",
        "lines": "json",
    }
    assert leaves["kind"].values == ("invoice", "credit note", None)
    assert leaves["paid"].values == (True, False, None)
    assert Schema.of(Invoice).listing().splitlines()[:6] == [
        '- "number" (text): Number of the invoice',
        '- "total" (number)',
        '- "issued" (date as text)',
        '- "kind" (one of "invoice" or "credit note" or null)',
        '- "vendor" (object):',
        '  - "name" (text)',
    ]


def test_null_stands_for_a_missing_key_and_a_default_takes_its_place() -> None:
    schema = Schema.of(Invoice)
    assert schema.grammar["required"] == [*WRITTEN]
    assert schema.grammar["additionalProperties"] is False
    assert schema.validated(WRITTEN) == Invoice(number="7", total=2, issued="2026-01-02")
    plain = Schema.of({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": ["string", "null"]}}})
    assert plain.validated({"a": None, "b": None}) == {"b": None}
    nested = Schema.of({"type": "object", "properties": {"o": {"properties": {"a": {"type": "string"}}}}})
    assert (nested.validated({"o": None}), nested.validated({"o": {"a": None}})) == ({}, {"o": {}})


def test_names_with_slashes_are_escaped_in_pointers() -> None:
    inner = {"type": "object", "properties": {"b/c": {}, "~": {}}}
    schema = Schema.of({"type": "object", "properties": {"/a": inner, "b/c": {}, "/d": {}}})
    assert [leaf.name for leaf in schema.leaves] == ["/~1a/b~1c", "/~1a/~0", "b/c", "/~1d"]


def test_references_are_followed_into_objects_and_left_in_values() -> None:
    definitions = {"D": {"properties": {"x": {"$ref": "#/$defs/T"}}}, "T": {"type": "boolean", "description": "yes"}}
    root = {"properties": {"d": {"allOf": [{"$ref": "#/$defs/D"}]}}, "required": ["d"], "$defs": definitions}
    (leaf,) = Schema.of(root).leaves
    assert (leaf.path, leaf.kind, leaf.description) == (("d", "x"), "choice", "yes")
    written = {"x": {"anyOf": [{"$ref": "#/$defs/T"}, {"type": "null"}]}}
    assert Schema.of(root).grammar == {
        **object_of({"d": {"$ref": "#/$defs/D"}}),
        "$defs": {"T": {"type": "boolean", "description": "yes"}, "D": object_of(written)},
    }


NOW = {"type": "function", "function": {"name": "now", "description": "The time."}}
UNION = {"anyOf": [{"properties": {name: {"type": "string"}}} for name in "abc"]}


@pytest.mark.parametrize(
    ("read", "given", "said"),
    [
        (Schema.of, (7,), "7 is not a schema; give a pydantic class"),
        (Schema.of, ({},), "no object with fields"),
        (Schema.of, ({"type": "object"},), "no object with fields"),
        (Schema.of, ({"type": "array", "items": {"type": "object"}},), "no object with fields"),
        (Schema.of, ({"properties": {"a": 7}},), r"the schema is not valid \(properties.a: 7 is not of type"),
        (Schema.of, ({"properties": {"a": {"$ref": "#/$defs/B"}}},), "'a' of the schema refers to '#/\\$defs/B'"),
        (Schema.of, ({"properties": {"a": {"$ref": "b.json"}}},), "to 'b.json', which the schema does not have"),
        (
            Schema.of,
            ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}},),
            "the root .* refers only to itself",
        ),
        (
            Schema.of,
            ({"properties": {"a": {"enum": []}}, "allOf": []},),
            r"not valid \(allOf: \[\] should be non-empty",
        ),
        (Schema.of, ({"allOf": [UNION] * 4},), "the root of the schema has more than 64 alternatives"),
        (tools_of, ([],), "tools is empty; give at least one tool."),
        (tools_of, ("weather",), "tools is 'weather'; give a list"),
        (tools_of, ([NOW, NOW],), "two tools have the name 'now'"),
        (tools_of, ([7],), "7 is not a tool; give Python functions, pydantic classes, or"),
        (tools_of, ([{"name": "two words"}],), "a tool has the name 'two words'; give it 1 to 64 letters"),
        (tools_of, ([{"name": "a", "parameters": 3}],), "the parameters of the tool 'a' are not a JSON Schema"),
        (tools_of, ([{"name": "a", "parameters": {"properties": {"b": 7}}}],), "tool 'a': the schema is not valid"),
        (tools_of, ([{"name": "a", "parameters": {"type": "array"}}],), "the tool 'a': the schema describes no object"),
        (tools_of, ([NOW], "later"), "choice is 'later'; give auto, required, none, or the name of a tool"),
        (CallRequest.of, (7, [NOW]), "7 is not a request; give a text with or without"),
        (CallRequest.of, ([], [NOW]), r"\[\] is not a request"),
        (CallRequest.of, ([("user", "x"), ("assistant", "y")], [NOW]), "must end with a user's message or a tool's"),
        (
            CallRequest.of,
            ([{"role": "assistant", "tool_calls": [{"function": {"name": 3}}]}], [NOW]),
            "a turn of the conversation is",
        ),
        (CallRequest.of, (" ", [NOW]), "has no text"),
        (request_of, (" ", Schema.anything()), "the document is empty; give its text"),
        (request_of, (b"An invoice.", Schema.anything()), "the document is of type bytes; give its text"),
    ],
)
def test_each_mistake_is_refused_in_a_sentence(read: Callable[..., object], given: tuple[Any, ...], said: str) -> None:
    with pytest.raises(ParameterError if read in (Schema.of, tools_of) else QuestionError, match=said):
        read(*given)
