"""Chat templates: secl gives texts in the form that a template needs, and refuses prompts that lack a text."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest

import secl
from secl.backends.chat_templates import DESCRIBED, CallForm
from secl.backends.prompting import Prompting
from secl.backends.token_ids import TokenIds
from secl.conversation import Message, ToolCall
from secl.errors import ModelError, QuestionError
from secl.question import Question
from tests.tiny import TEMPLATE, tiny_model, tiny_tokenizer

PRINTED = "{{ message['content'] }}"
"""The place of a turn's text in `TEMPLATE`."""

LOOP = "{% for c in message.content %}{% if c.type == 'text' %}{{ c.text }}{% endif %}{% endfor %}"
INDEXED = "{% if message.content[0]['type'] == 'image' %}<image>{% endif %}" + LOOP
NO_STRINGS = "{% if message.content is string %}{{ raise_exception('Content must be a list!') }}{% endif %}" + LOOP
FIRST_PART = "{{ message.content[0].text }}"
USERS = "{% if message.role == 'user' %}" + LOOP + "{% else %}{{ message.content }}{% endif %}"
MODELS = "{% if message.role == 'assistant' %}" + LOOP + "{% else %}{{ message.content }}{% endif %}"
JOINED = "{{ message.content | selectattr('type', 'equalto', 'text') | map(attribute='text') | join }}"

ASKED = Question(
    'Which is a metal? Say, please: <b>Neon</b> & "Iron"?',
    form="short",
    context="Some are. Éß 你好",
    system="Be brief, \n\n  and kind.",
    history=(Message("user", "Who was first?"), Message("assistant", "Romulus, of course.")),
)
CALLED = (
    Message("user", "Weather in Lima?"),
    Message("assistant", "", (ToolCall("forecast", '{"place": "Lima, Peru", "days": 3}'),)),
    Message("tool", '{"sky": "grey"}'),
)


def with_template(template: str | dict[str, str]) -> Any:
    tokenizer = copy.deepcopy(tiny_tokenizer())
    tokenizer.chat_template = template
    return tokenizer


def with_content(content: str) -> Any:
    return with_template(TEMPLATE.replace(PRINTED, content))


def decoded(tokenizer: Any, ids: Sequence[int]) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=False))


@pytest.mark.parametrize("content", [LOOP, INDEXED, NO_STRINGS, FIRST_PART, USERS, MODELS, JOINED])
def test_a_template_that_needs_parts_gets_the_texts_of_all_turns_as_parts(content: str) -> None:
    plain, parts = tiny_tokenizer(), with_content(content)
    expected, found = (Prompting(TokenIds.of(each)) for each in (plain, parts))
    assert found.answer(ASKED) == expected.answer(ASKED)
    assert found.confidence(ASKED, "Iron") == expected.confidence(ASKED, "Iron")


@pytest.mark.parametrize("content", [LOOP, NO_STRINGS])
def test_a_model_whose_template_needs_parts_answers_as_with_a_template_of_texts(content: str) -> None:
    confidences = []
    for tokenizer in (tiny_tokenizer(), with_content(content)):
        with secl.load(tiny_model(), tokenizer) as model:
            asked = [model.ask(text, options=["neon", "iron"]) for text in ("Which is a metal?", "What is in Peru?")]
            confidences.append([record.confidence for record in asked])
    assert confidences[0] == confidences[1]
    assert confidences[0][0] != confidences[0][1]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "Hello.",
        "{{ message.content[:40] }}",
        "{{ message.content | lower }}",
        "{{ message.content | upper }}",
        "{{ message.content | title }}",
        "{{ message.content | e }}",
        "{{ message.content | tojson }}",
        "{{ message.content | urlencode }}",
        "{{ message.content | reverse }}",
        "{{ message.content | replace('water', 'wine') }}",
        "{{ message.content | replace('\n', ' ') }}",
        "{{ message.content.split('\n')[-1] }}",
        "{{ message.content.split() | join(' ') }}",
        "{{ message.content | first }}",
        "{{ message.contents }}",
        "{% for c in message.content %}{% if c.type == 'image' %}{{ c.text }}{% endif %}{% endfor %}",
        "{{ raise_exception('No!') }}",
        "{{ message.content + 1 }}",
        "{{ message.content / 2 }}",
        "{% for c in message.content.items() %}{{ c }}{% endfor %}",
    ],
)
def test_a_template_that_loses_or_changes_texts_is_refused_when_the_model_is_loaded(content: str) -> None:
    with pytest.raises(ModelError, match=r"^the chat template of the model '.*' does not work: [^\n]*[^.]\.$"):
        secl.load(tiny_model(), with_content(content))


def test_named_templates_are_read_and_refused_like_a_single_one() -> None:
    question, named = Question("Which is a metal?", form="short"), {"default": TEMPLATE, "tool_use": TEMPLATE}
    expected = Prompting(TokenIds.of(tiny_tokenizer())).answer(question)
    assert Prompting(TokenIds.of(with_template(named))).answer(question) == expected
    for wrong in ({"rag": TEMPLATE}, {"default": "Hi", "tool_use": TEMPLATE}):
        with pytest.raises(ModelError, match="the chat template of the model 'in memory' does not work: "):
            TokenIds.of(with_template(wrong))


@pytest.mark.parametrize(
    ("content", "question"),
    [
        ("{{ message.content[:400] }}", Question("word " * 200, form="short")),
        ("{{ message.content | replace('{', '(') }}", Question("What is {x}?", form="short")),
        ("{{ message.content.split('---')[0] }}", Question("What is this? --- And this?", form="short")),
        ("{{ message.content | replace('Romulus', 'Remus') }}", ASKED),
        ("{{ message.content | replace('kind', 'fast') }}", ASKED),
        ("{% if message.role != 'assistant' %}{{ message.content }}{% endif %}", ASKED),
        ("{% if loop.last %}{{ message.content }}{% endif %}", ASKED),
        ("{% if loop.first %}{{ message.content }}{% endif %}", ASKED),
        ("{% if loop.index0 > loop.length - 3 %}{{ message.content }}{% endif %}", ASKED),
    ],
)
def test_a_prompt_that_lacks_a_text_is_refused_in_one_sentence(content: str, question: Question) -> None:
    prompting = Prompting(TokenIds.of(with_content(content)))
    with pytest.raises(
        QuestionError, match=r"chat template does not accept this conversation: it leaves out or changes"
    ):
        prompting.confidence(question, "Iron")


@pytest.mark.parametrize("answer", ["A", "user", "Is", "metal"])
def test_a_lost_short_text_is_missed_although_it_also_stands_elsewhere(answer: str) -> None:
    dropping = "{% if message.role != 'assistant' %}{{ message.content }}{% endif %}"
    prompting = Prompting(TokenIds.of(with_content(dropping)))
    with pytest.raises(QuestionError, match=f"it leaves out or changes the reply '(Answer:)?{answer}'"):
        prompting.confidence(Question("Is iron a metal?", form="short"), answer)


def test_a_template_that_reorders_turns_is_refused_in_one_sentence() -> None:
    backwards = TEMPLATE.replace("for message in messages", "for message in messages | reverse")
    prompting = Prompting(TokenIds.of(with_template(backwards)))
    with pytest.raises(QuestionError, match="it leaves out or changes"):
        prompting.answer(ASKED)


@pytest.mark.parametrize(
    "template",
    [
        TEMPLATE.replace(PRINTED, "{% if message.role != 'system' %}{{ message.content }}{% endif %}"),
        TEMPLATE.replace(
            PRINTED,
            "{% if message.role == 'system' %}{{ message.content | lower }}{% else %}{{ message.content }}{% endif %}",
        ),
        "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" + TEMPLATE,
        "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('Roles must alternate!') }}{% endif %}{% endfor %}" + TEMPLATE,
    ],
    ids=["ignored", "changed", "rejected", "alternating"],
)
def test_the_system_text_moves_to_the_first_turn_of_a_template_without_a_system_role(template: str) -> None:
    tokenizer = with_template(template)
    prompt = decoded(tokenizer, Prompting(TokenIds.of(tokenizer)).answer(ASKED))
    assert f"<|start|>user\n{ASKED.system}\n\nWho was first?<|end|>" in prompt


@pytest.mark.parametrize(
    "content", [PRINTED, "{% if message.role == 'tool' %}{{ raise_exception('No tools!') }}{% endif %}" + PRINTED]
)
def test_calls_that_a_template_does_not_write_become_texts(content: str) -> None:
    tokenizer = with_content(content)
    asked = Question("And tomorrow?", form="short", history=CALLED)
    prompt = decoded(tokenizer, Prompting(TokenIds.of(tokenizer)).answer(asked))
    assert '{"name": "forecast", "arguments": {"place": "Lima, Peru", "days": 3}}' in prompt
    assert 'Result of the call: {"sky": "grey"}' in prompt


@pytest.mark.parametrize("shown", ["{{ tools | tojson }}", "{{ tools | map(attribute='function.name') | join }}", ""])
def test_tools_that_a_template_describes_in_part_are_described_in_the_system_text(shown: str) -> None:
    call = "<call>{{ c.function.name }} {{ c.function.arguments | tojson }}</call>"
    call = "{% for c in message.tool_calls %}" + call + "{% endfor %}"
    tokenizer = with_template(shown + TEMPLATE.replace(PRINTED, PRINTED + call))
    form = CallForm.of(tokenizer, ["<|end|>"])
    assert form.native == (shown == "{{ tools | tojson }}")
    assert form.native or form == DESCRIBED
