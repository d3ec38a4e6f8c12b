"""Engines of servers: places of thoughts, and reported log-probabilities."""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Any

import pytest

from secl.backends.endpoint.model import EndpointModel
from secl.errors import ModelError
from secl.evidence import Thought
from secl.question import Question
from secl.writing import SamplingParameters, joined
from tests.backends.endpoint.fake import CHOICE, OPEN, PLAIN, Body, FakeServer, Form, knowing

MUSING = ("Let", " me", " see", ": A", " or", " B", ", 7", "?")


def by_template(body: Body) -> bool:
    """Whether a request tells the chat template not to let the model think."""
    return body.get("chat_template_kwargs", {}).get("enable_thinking") is False


def by_effort(body: Body) -> bool:
    return body.get("reasoning_effort") == "none"


Connect = Callable[..., Any]


@pytest.fixture
def connect(server: FakeServer) -> Iterator[Connect]:
    """Models of the server, which are closed in the end."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(closing(EndpointModel(server.url, **options)))


TEMPLATE = "chat_template_kwargs"
HIDING = Form(hides=True, mixes=False, switched=by_effort, effortless=True)
BEGUN = Form(marks=("", "</think>\n\n"), switched=by_template)

# Form of each engine's answers with a model that thinks by default, and the field that switches thoughts off.
ENGINES: dict[str, tuple[dict[str, Any], str | None]] = {
    "vLLM": ({"form": Form("reasoning", end="<|im_end|>", switched=by_template)}, TEMPLATE),
    "vLLM before 0.11, SGLang, llama-server": ({"form": Form("reasoning_content", switched=by_template)}, TEMPLATE),
    "vLLM without a parser": ({"form": Form(switched=by_template)}, TEMPLATE),
    "vLLM that expects thoughts": ({"form": Form("reasoning_content", mislabels=True, switched=by_template)}, TEMPLATE),
    "Ollama": ({"form": Form("reasoning", switched=by_effort)}, "reasoning_effort"),
    "TGI": ({"thought": (), "most": 5}, None),
    "OpenAI": ({"form": HIDING, "limit": "max_completion_tokens", "several": True}, "reasoning_effort"),
    "a template that begins the thought": ({"form": BEGUN, "thought": MUSING * 3}, TEMPLATE),
    "any, with a model that does not think": ({"thought": (), "form": Form(end="</s>")}, None),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_thoughts_are_off_and_probabilities_the_answer_s(connect: Connect, server: FakeServer, engine: str) -> None:
    changes, switch = ENGINES[engine]
    server.change({"thought": MUSING, **changes})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "this endpoint lists only 5 log-probabilities")
        model = connect()
    server.asked.clear()
    assert [*(model.abilities.off or ())] == ([switch] if switch else [])
    chosen, opened = model.answer(CHOICE).reply, model.answer(OPEN).reply
    assert (chosen.answer, opened.answer) == ("C", "Lima")
    assert chosen.option_log_p[2] == pytest.approx(math.log(0.7))
    assert chosen.digit_mass == pytest.approx(0.9)
    assert opened.log_probability == pytest.approx(math.log(PLAIN["Lima"]))
    (text,) = joined(model.write(OPEN, SamplingParameters()))
    assert (text.text, model.answer(OPEN, written=text).reply.log_probability) == ("Lima", opened.log_probability)
    assert all((switch in body) is bool(switch) for body in server.asked)


# What a server does wrong, and the sentence that refuses it.
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "LM Studio": ({"most": 0, "thought": ()}, "answers without the log-probabilities of the most probable tokens"),
    "ignores the switch": ({"form": Form("reasoning")}, "thinks before it answers, and http.* ignores the request"),
    "hides a thought": ({"form": Form(hides=True, mixes=False), "thought": MUSING * 2}, "thinks before it answers"),
    "gives log-probabilities of something else": (
        {"form": Form(hides=True, mixes="only"), "thought": ("A", " B")},
        r"answers '.*', but gives log-probabilities of the tokens of '<think>A B</think>",
    ),
    "thoughts without any": (
        ENGINES["OpenAI"][0],
        "no reply with a thought and log-probabilities, .*: .* set thinking to off",
    ),
}


@pytest.mark.parametrize("row", REFUSED)
def test_a_server_of_wrong_confidences_is_refused(connect: Connect, server: FakeServer, row: str) -> None:
    changes, sentence = REFUSED[row]
    server.change({"thought": MUSING, **changes})
    with pytest.raises(ModelError, match=sentence):
        connect(thinking="auto" if row.startswith("thoughts") else "off")


def test_a_thought_that_comes_now_and_then_is_no_part_of_an_answer(model: EndpointModel, server: FakeServer) -> None:
    server.thought, server.form = ("Maybe", " A", "."), Form("reasoning")
    reply = model.answer(CHOICE).reply
    assert reply.answer == "C"
    assert reply.option_log_p[2] == pytest.approx(math.log(0.7))
    server.form = Form()
    assert [chunk.text for chunk in model.write(OPEN, SamplingParameters()) if chunk.text] == ["Lima"]
    server.form = Form("reasoning", mixes="only")
    with pytest.warns(UserWarning, match="reports log-probabilities of tokens that do not spell the reply"):
        unknown = model.answer(CHOICE).reply
    assert (unknown.answer, unknown.bins, unknown.option_log_p) == ("C", (), ())
    assert math.isnan(unknown.stated)


ORDERS = [((0, 1, 2, 3), True), ((3, 2, 1, 0), True), ((3, 2, 1, 0), False)]
"""Orders of the letters of an answer with a thought, and whether each order has no thought of its own."""

THINKING = [name for name, (changes, switch) in ENGINES.items() if switch and name != "OpenAI"]


@pytest.mark.parametrize("thinking", ["auto", 30])
@pytest.mark.parametrize("engine", THINKING)
def test_answers_think_and_words_do_not(connect: Connect, server: FakeServer, engine: str, thinking: Any) -> None:
    changes, _ = ENGINES[engine]
    server.change({"thought": MUSING, **changes})
    model = connect(thinking=thinking)
    budgets = {server.asked[-1].get(name) for name in ("thinking_token_budget", "thinking_budget_tokens")}
    assert budgets == {None if thinking == "auto" else 30}
    server.asked.clear()
    reply = model.answer(CHOICE, evidence=["candidates", "p_true"]).reply
    compared = model.gather(CHOICE, reply, ["candidates"]).candidates
    assert reply.thought.text == "".join(server.thought).strip()
    assert (reply.answer, reply.thought.cut) == ("C", False)
    assert reply.option_log_p[2] == pytest.approx(math.log(0.7))
    assert reply.digit_mass == pytest.approx(0.9)
    assert [(each.order, each.thought is None) for each in compared.letters] == ORDERS
    assert all(each.log_p[2] == pytest.approx(math.log(0.7)) for each in compared.letters)
    # With a thought: the answer and the other order. Without: two orders, the digit and four verdicts.
    thought = [body for body in server.asked if server.thoughts(body)]
    plain = [body for body in server.asked if not server.thoughts(body)]
    assert (len(thought), len(plain)) == (2, 2 + 1 + 4)
    assert all(body.get("max_tokens") == (None if thinking == "auto" else 30 + 12) for body in thought)
    digit = next(body for body in plain if "one digit" in str(body["messages"][-1]))
    assert digit["messages"][-2]["content"] == f"{reply.thought.text}\n\nC"
    opened = model.answer(OPEN, evidence=["candidates"]).reply
    drawn = model.gather(OPEN, opened, ["candidates"]).candidates
    assert opened.log_probability == pytest.approx(math.log(PLAIN["Lima"]))
    assert all(each.thought is not None and each.text == "Lima" for each in drawn.samples)


@pytest.mark.parametrize("engine", THINKING)
def test_a_stream_has_the_thought_apart_from_the_text(connect: Connect, server: FakeServer, engine: str) -> None:
    changes, _ = ENGINES[engine]
    server.change({"thought": MUSING, **changes})
    model = connect(thinking="auto")
    chunks = list(model.write(OPEN, SamplingParameters(top_logprobs=1)))
    (text,) = joined(chunks)
    assert (text.text, text.thought) == ("Lima", "".join(server.thought).strip())
    assert [chunk.thought for chunk in chunks if chunk.text] == [None]
    assert text.whole_thought
    assert len(server.thoughts({})) - text.whole_thought.tokens in (0, 1)  # a token may end the reply
    assert "".join(token.text for token in text.tokens).removesuffix(server.form.end) == "Lima"
    reply = model.answer(OPEN, written=text).reply
    assert (reply.text, reply.thought.text) == ("Lima", text.thought)
    server.thought, server.form = MUSING, Form(hides=True, mixes=False)
    (hidden,) = joined(model.write(OPEN, SamplingParameters()))
    assert hidden.text == "Lima"


def test_a_thought_without_an_end_is_followed_by_an_answer(connect: Connect, server: FakeServer) -> None:
    server.thought, server.form = MUSING * 9, Form("reasoning", switched=by_template)
    model = connect(thinking=20)
    reply = model.answer(CHOICE).reply
    assert (reply.answer, reply.thought.cut) == ("C", True)


def test_a_model_that_always_thinks_does_so_before_every_word(connect: Connect, server: FakeServer) -> None:
    server.thought, server.form = MUSING * 3, Form("reasoning", end="<|return|>")  # longer than the limit of one word
    model = connect(thinking=30)
    reply = model.answer(CHOICE, evidence=["candidates", "p_true"]).reply
    gathered = model.gather(CHOICE, reply, ["candidates", "p_true"])
    p_true, compared = gathered.p_true, gathered.candidates
    assert reply.answer == "C"
    assert reply.digit_mass == pytest.approx(0.9)
    assert p_true.probabilities[0] == pytest.approx(0.8)
    assert [each.thought is None for each in compared.letters] == [False]


REQUEST = "Think step by step in "


def on_request(*thought: str) -> Callable[[Body], list[Any]]:
    """A model that thinks only on request; after the thought "Mute", its reply is empty."""

    def rule(body: Body) -> list[Any]:
        messages = body["messages"]
        asked = messages[-1]["content"]
        if REQUEST in asked and "logprobs" not in body:
            return [{word: 0.9} for word in thought]
        if len(messages) > 2 and messages[1]["content"] == "Mute" and "one digit" not in asked:
            return [{" ": 0.9}]
        if asked == "Answer with the letter of the correct option.":
            return knowing({"messages": [{"content": f"{messages[0]['content']}\n{asked}"}]})
        return knowing(body)

    return rule


@pytest.mark.parametrize("thinking", ["auto", 60])
@pytest.mark.parametrize("end", [("**", "Answer:", " B"), ()])
def test_thoughts_come_on_request(connect: Connect, server: FakeServer, thinking: Any, end: Any) -> None:
    server.rule = on_request(*MUSING, *end)
    model = connect(thinking=thinking)
    assert model.environment["thoughts"] == "requested"
    server.asked.clear()
    reply = model.answer(CHOICE, evidence=["candidates", "p_true"]).reply
    compared = model.gather(CHOICE, reply, ["candidates"]).candidates
    text = "".join(MUSING).strip()
    assert (reply.answer, reply.thought.text, reply.thought.cut) == ("C", text, False)
    assert reply.thought.tokens == len(MUSING) + len(end)
    assert reply.option_log_p[2] == pytest.approx(math.log(0.7))
    assert reply.digit_mass == pytest.approx(0.9)
    assert [(each.order, each.thought is None) for each in compared.letters] == ORDERS
    first, second = (body for body in server.asked if "logprobs" not in body)
    assert (first["max_tokens"], first["stop"]) == (256 if thinking == "auto" else 60, ["Answer:"])
    assert {first["temperature"], second["temperature"]} == {0, 1}
    for body in (first, second):
        (asked,) = body["messages"]
        assert REQUEST in asked["content"]
        assert asked["content"].endswith("Answer: <letter>\nConfidence: <digit>")
        assert [asked, {"role": "assistant", "content": text}] in [each["messages"][:2] for each in server.asked]
    opened = model.answer(OPEN, evidence=["candidates"]).reply
    drawn = model.gather(OPEN, opened, ["candidates"]).candidates
    assert opened.log_probability == pytest.approx(math.log(PLAIN["Lima"]))
    assert all(each.thought is not None and each.text == "Lima" for each in drawn.samples)
    assert model.cost([CHOICE]).requests == 2 * 2 + 1 + 2


def test_a_free_text_stands_behind_a_requested_thought(connect: Connect, server: FakeServer) -> None:
    server.rule = on_request(*MUSING)
    model, free = connect(thinking=5), Question("Which city?", form="text", system="Be brief.")
    server.asked.clear()
    chunks = list(model.write(free, SamplingParameters(top_logprobs=1, max_tokens=9, n=2)))
    for text in joined(chunks):
        assert (text.text, text.whole_thought) == ("Lima", Thought(text="Let me see: A or", tokens=5, cut=True))
        assert (text.prompt_tokens, text.completion_tokens) == (20, 6)
        reply = model.answer(free, written=text).reply
        assert (reply.thought.text, reply.log_probability) == (text.thought, pytest.approx(math.log(PLAIN["Lima"])))
    assert chunks[0].thought is not None
    assert [turn["content"] for turn in server.asked[2]["messages"]] == [
        "Be brief.",
        f"Which city?\n\n{REQUEST}at most 10 words. Do not reply yet.",
        "Let me see: A or",
        "Now write your reply.",
    ]


@pytest.mark.parametrize("thought", ["Mute", "Answer:"])
def test_an_empty_answer_after_a_thought_is_asked_anew(connect: Connect, server: FakeServer, thought: str) -> None:
    server.rule = on_request(thought)
    model, free = connect(thinking=20), Question("Which city?", form="text")
    kept = "Mute" if thought == "Mute" else None
    for question in (CHOICE, OPEN, free):
        reply = model.answer(question).reply
        assert (reply.answer, reply.thought.text) == ("C" if question is CHOICE else "Lima", kept)
    (text,) = joined(model.write(free, SamplingParameters()))
    assert (text.text.strip(), text.thought) == ("Lima", kept or "")


def test_a_request_may_let_the_model_think(connect: Connect, server: FakeServer) -> None:
    server.thought, server.form = MUSING, Form("reasoning", switched=by_effort)
    model = connect()
    wish: Mapping[str, object] = {"reasoning_effort": "high"}
    (text,) = joined(model.write(OPEN, SamplingParameters(extra=wish)))
    assert (text.text, server.asked[-1]["reasoning_effort"]) == ("Lima", "high")
