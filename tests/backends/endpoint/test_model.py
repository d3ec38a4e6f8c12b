"""A model behind OpenAI's API: evidence, texts and limits; servers that refuse, break off or answer nonsense."""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, nullcontext
from typing import Any

import pytest

from secl.backends.endpoint.abilities import WORD_TOKENS
from secl.backends.endpoint.client import Endpoint
from secl.backends.endpoint.model import FULL, EndpointModel
from secl.calibrator import Calibrator
from secl.conversation import Message
from secl.errors import ModelError, ParameterError, QuestionError, TooLongError, UnavailableError
from secl.explain import explain
from secl.model import version_of
from secl.question import Form, GivenAnswer, Question
from secl.runs.settings import Recipe, RunSettings
from secl.server.online.service import serving_settings
from secl.writing import SamplingParameters, joined
from tests.answers import sampled
from tests.backends.endpoint.fake import CHOICE, OPEN, PLAIN, Body, Distribution, FakeServer, knowing
from tests.server.conftest import Patch

BOTH: Any = ("p_true", "candidates")


def test_letters_digits_and_verdicts_are_read_and_paid_for_once(model: Any, server: FakeServer) -> None:
    reply = model.answer(CHOICE, evidence=BOTH).reply
    assert (reply.text, reply.answer) == ("C", "C")
    assert reply.option_log_p == pytest.approx([math.log(p) for p in (0.05, 0.05, 0.7, 0.05)])
    assert reply.log_probability == pytest.approx(math.log(0.7))
    # "8", " 9" and "7" are the digits among the most probable tokens, whatever their spelling.
    assert reply.digit_mass == pytest.approx(0.9)
    assert reply.stated == pytest.approx((0.6 * 0.85 + 0.2 * 0.95 + 0.1 * 0.75) / 0.9)
    count, spent = len(server.asked), model.meter.take()
    assert count == 2 + 1 + 4
    assert (spent.answering, spent.reordering, spent.scoring) == (11 + 13, 13, 4 * 11)
    gathered = model.gather(CHOICE, reply, ["candidates", "p_true"])
    compared, p_true = gathered.candidates, gathered.p_true
    assert (len(server.asked), model.meter.take().total) == (count, 0)
    assert compared.candidates == CHOICE.options
    assert compared.likelihoods == (None,) * 4
    (order,) = compared.letters
    assert order.order == (3, 2, 1, 0)
    assert max(range(4), key=order.log_p.__getitem__) == 2
    assert p_true.candidates == ("Lima!", "Rome", "Paris", "Bonn")
    assert p_true.probabilities == pytest.approx((0.8, 0.3, 0.3, 0.3))
    assert p_true.false_probabilities == pytest.approx((0.1, 0.6, 0.6, 0.6))


def test_a_dead_server_ends_the_requests_of_a_window(model: Any, server: FakeServer, monkeypatch: Patch) -> None:
    monkeypatch.setattr(model.endpoint._client, "max_retries", 0)
    server.delay, server.statuses = 0.2, [503] * 99
    questions = [Question(f"{i}?", options=tuple("abcdefgh"), id=str(i)) for i in range(16)]
    with pytest.raises(UnavailableError):
        model.prefetch(questions, [BOTH] * 16, weights_fixed=True)
    model.close()
    assert len(server.asked) < 15 * 11 / 2


def test_an_open_answer_is_compared_with_further_answers(model: Any, server: FakeServer) -> None:
    reply = model.answer(OPEN, evidence=BOTH).reply
    assert (reply.text, reply.answer, reply.option_log_p) == ("Lima", "Lima", ())
    assert reply.log_probability == pytest.approx(math.log(PLAIN["Lima"]))
    assert reply.stated < 0.5
    gathered = model.gather(OPEN, reply, ["candidates", "p_true"])
    compared, p_true = gathered.candidates, gathered.p_true
    assert compared.candidates == ("Lima", "None of these")
    assert [(each.text, each.candidate) for each in compared.samples] == [("Lima", 0)] * 3
    assert compared.samples[0].log_p == pytest.approx(math.log(PLAIN["Lima"]))
    assert len(compared.letters) == 2
    assert (p_true.candidates, p_true.extra) == (("Lima", "Rio", "Quito", "Bogota"), 0)
    # Answer, digit, three further answers, two orders of the letters, three lists of distractors, four verdicts.
    assert len(server.asked) == 2 + 3 + 2 + 3 + 4


@pytest.mark.parametrize(("computed", "drawn"), [("3 + 4", 0), ("3 * 4", 2), ("unknown", 2)])
def test_a_number_is_checked_by_a_program(model: Any, server: FakeServer, computed: str, drawn: int) -> None:
    def reasoning(body: Body) -> list[Distribution]:
        asked = body["messages"][-1]["content"]
        if "short Python program" in asked:
            return [{"```python\n": 0.9}, {f"answer = {computed}\n": 0.9}, {"```": 0.9}]
        return [{"Answer: 7": 0.8}] if "step by step" in asked else knowing(body)

    server.rule = reasoning
    question = Question("What is 3 + 4?", form="number", id="sum")
    compared = model.gather(question, model.answer(question, evidence=["candidates"]).reply, ["candidates"]).candidates
    program, *others = compared.samples
    expected = {"3 + 4": ("7", 0), "3 * 4": ("12", 1), "unknown": (None, None)}[computed]
    assert (program.text, program.candidate, program.program) == (*expected, True)
    assert [(each.text, each.candidate, each.program) for each in others] == [("7", 0, False)] * drawn
    # Answer, digit, the program, further reasoning, two orders of the letters.
    assert len(server.asked) == 2 + 1 + drawn + 2


def test_only_digits_among_the_most_probable_tokens_count_and_their_mass_says_so(server: FakeServer) -> None:
    server.most = 5
    server.rule = lambda body: [{"no": 0.4, "8": 0.1, "6": 0.1, "x": 0.09, "y": 0.08, "9": 0.07}]
    sentence = r"5 log-probabilities for a token, .* in a trial reply: 0\.20.*|rarely replied with a digit"
    with pytest.warns(UserWarning, match=sentence):
        model = EndpointModel(server.url)
    reply = model.answer(OPEN).reply
    assert reply.digit_mass == pytest.approx(0.2)
    assert reply.stated == pytest.approx(0.75)
    model.close()


def test_an_answer_without_a_letter_cannot_be_read(model: Any, server: FakeServer) -> None:
    server.rule = lambda body: [PLAIN]
    reply = model.answer(CHOICE, evidence=BOTH).reply
    assert (reply.text, reply.answer, reply.option_log_p) == ("Lima", None, ())
    assert model.gather(CHOICE, reply, ["p_true"]).p_true is None
    assert model.gather(CHOICE, reply, ["candidates"]).candidates is None


def test_a_candidate_without_a_verdict_is_left_out_of_them(model: Any, server: FakeServer) -> None:
    def rule(body: Body) -> list[Distribution]:
        return [PLAIN] if "Proposed answer: Rome" in body["messages"][-1]["content"] else knowing(body)

    server.rule = rule
    p_true = model.gather(CHOICE, model.answer(CHOICE).reply, ["p_true"]).p_true
    assert p_true.candidates == ("Lima!", "Paris", "Bonn")


def test_samples_of_an_open_answer_are_drawn_and_letters_come_from_the_answer(model: Any, server: FakeServer) -> None:
    assert sampled(model, OPEN, 3) == ("Lima",) * 3
    assert len({body["seed"] for body in server.asked}) == 3
    assert all((body["temperature"], body["top_p"]) == (1, 0.95) for body in server.asked)
    drawn = sampled(model, CHOICE, 500)
    assert [drawn.count(letter) / 500 for letter in "ABCD"] == pytest.approx([0.06, 0.06, 0.82, 0.06], abs=0.05)


def test_lessons_and_beams_are_refused_before_the_first_question(model: Any, server: FakeServer) -> None:
    with pytest.raises(ParameterError, match=r"the model 'tiny' cannot learn, .* take a method that does not learn"):
        Calibrator(model, method="secl")
    for method in ("dinco", "baselines"):
        with pytest.raises(ParameterError, match="the model 'tiny' has no beam search, which DINCO needs"):
            Calibrator(model, method=method)
    assert (version_of(model), server.asked) == (0, [])


def test_several_models_want_a_name(server: FakeServer) -> None:
    server.models = ["one", "two"]
    with pytest.raises(ParameterError, match=r"has several models \(one, two\); name one with --model"):
        EndpointModel(server.url)
    model = EndpointModel(server.url, "two")
    assert (model.name, server.asked[-1]["model"]) == ("two", "two")
    model.close()
    with pytest.raises(ModelError, match="status 404: The model `three` does not exist"):
        EndpointModel(server.url, "three")
    server.strict = False
    with pytest.warns(UserWarning, match="lists one, two, but not 'three'; another model may answer"):
        EndpointModel(server.url, "three").close()


@pytest.mark.parametrize("most", [10, 5])
def test_as_many_log_probabilities_are_asked_for_as_the_server_gives(server: FakeServer, most: int) -> None:
    server.most = most
    sentence = f"lists only {most} log-probabilities"
    with pytest.warns(UserWarning, match=sentence) if most < 10 else nullcontext():
        model = EndpointModel(server.url)
    assert model.environment == {"engine": "openai", "log_probabilities": most}
    model.answer(CHOICE)
    assert {body["top_logprobs"] for body in server.asked} == {most}
    with pytest.raises(QuestionError, match=f"top_logprobs is {most + 1}, but the endpoint gives at most {most}"):
        next(model.write(OPEN, SamplingParameters(top_logprobs=most + 1)))
    model.close()


def counting(body: Body) -> list[Distribution]:
    """As `knowing`; a number for "How many"; open replies have the share `FULL` of their token limit."""
    asked, most = body["messages"][-1]["content"], body["max_tokens"]
    numbered = "How many" in asked and "Answer: <number>" in asked
    steps: list[Distribution] = [{"Answer:": 0.9}, {" 7": 0.9}] if numbered else knowing(body)
    return steps if most == WORD_TOKENS else [*steps, *[{" ": 0.9}] * (round(FULL * most) - len(steps))]


@pytest.mark.parametrize("kinds", [(), ("p_true",), ("candidates",), ("candidates", "p_true", "samples")])
def test_the_cost_of_a_table_is_known_before_it_is_asked(model: Any, server: FakeServer, kinds: Any) -> None:
    forms: tuple[Form, ...] = ("choice", "short", "sentence", "number")
    asked = [
        Question(f"How many cities are in {number}?", options=CHOICE.options if form == "choice" else (), form=form)
        for number, form in enumerate(forms * 5)
    ]
    server.rule = counting
    estimate = model.cost(asked, kinds, samples=4)
    assert (estimate.questions, server.asked) == (20, [])
    for question in asked:
        model.answer(question, evidence={*kinds})
        if "samples" in kinds:
            sampled(model, question, 4)
    read = sum(len(str(message["content"])) // 4 + 5 for body in server.asked for message in body["messages"])
    assert estimate.requests == pytest.approx(len(server.asked), rel=0.3)
    assert estimate.prompt_tokens == pytest.approx(read, rel=0.3)
    written = sum(server.choice(body)["length"] for body in server.asked)
    assert estimate.written_tokens == pytest.approx(written, rel=0.3)


FREE = Question(
    "And of Peru?", form="text", system="Be brief.", history=(Message("user", "Capital?"), Message("assistant", ""))
)
WORDS: list[Distribution] = [{word: 0.5, "x": 0.25} for word in ("Li", "ma", ", of", " course", ".")]


@pytest.fixture
def wordy(server: FakeServer) -> FakeServer:
    """A server that writes five tokens, and states a confidence in them."""

    def rule(body: Body) -> list[Distribution]:
        return knowing(body) if "one digit" in str(body.get("messages", "")[-1:]) else WORDS

    server.rule = rule
    return server


def test_the_conversation_and_all_parameters_pass_unchanged(model: Any, wordy: FakeServer) -> None:
    sampling = SamplingParameters(max_tokens=9, temperature=0.5, top_p=0.75, seed=3, stop=("\n",))
    (text,) = joined(model.write(FREE, sampling))
    assert (text.text, text.finish, text.tokens) == ("Lima, of course.", "stop", ())
    assert (text.prompt_tokens, text.completion_tokens) == (10, 5)
    (body,) = wordy.asked
    turns = (("system", "Be brief."), ("user", "Capital?"), ("assistant", ""), ("user", "And of Peru?"))
    assert body["messages"] == [{"role": role, "content": content} for role, content in turns]
    parameters = {"max_tokens": 9, "temperature": 0.5, "top_p": 0.75, "seed": 3, "stop": ["\n"], "model": "tiny"}
    assert body.items() >= parameters.items()


def test_several_texts_are_requests_with_seeds_and_log_probabilities(model: Any, wordy: FakeServer) -> None:
    texts = joined(model.write(FREE, SamplingParameters(n=3, temperature=1, seed=5, top_logprobs=2)))
    assert sorted(body["seed"] for body in wordy.asked) == [5, 6, 7]
    for text in texts:
        assert text.text == "".join(token.text for token in text.tokens) == "Lima, of course."
        assert text.tokens[0].top == (("Li", math.log(0.5)), ("x", math.log(0.25)))


def test_a_written_text_is_answered_for_in_the_same_conversation(model: Any, wordy: FakeServer) -> None:
    (text,) = joined(model.write(FREE, SamplingParameters()))
    answer = model.answer(FREE, written=text)
    assert answer.reply.text == "Lima, of course."
    assert answer.reply.log_probability == pytest.approx(5 * math.log(0.5))
    assert answer.plain_tokens == 15 + 11
    written, stated = wordy.asked
    assert stated["messages"][:-2] == written["messages"]
    assert stated["messages"][-2] == {"role": "assistant", "content": "Lima, of course."}
    # A text without stored tokens still gets a confidence.
    again = model.answer(FREE, written=text.text).reply
    assert again.bins == answer.reply.bins
    assert math.isnan(again.log_probability)


def test_a_server_that_does_not_count_the_tokens_of_a_stream_is_asked(model: Any, wordy: FakeServer) -> None:
    wordy.tells_usage = False
    (text,) = joined(model.write(FREE, SamplingParameters()))
    assert (text.prompt_tokens, text.completion_tokens) == (10, 5)
    assert [body.get("max_tokens") for body in wordy.asked] == [None, 1]


@pytest.mark.parametrize("hushed", [False, True])
def test_a_conversation_that_is_too_long_is_said_to_be(model: Any, wordy: FakeServer, hushed: bool) -> None:
    wordy.hushed = hushed
    with pytest.raises(TooLongError, match="maximum context length is 1024 tokens, but 1500 are asked"):
        next(model.write(Question("long " * 2000, form="text"), SamplingParameters()))


TOLD: list[Distribution] = [
    {word: 0.5, "x": 0.25}
    for word in ("Peru", " has", " 3", "4", " million", " people", ",\n", "and", " Li", "ma", " is big.")
]


@pytest.mark.parametrize("known", [True, False])
def test_facts_have_the_probabilities_that_the_server_reports(model: Any, server: FakeServer, known: bool) -> None:
    server.rule = lambda body: knowing(body) if "one digit" in str(body.get("messages", "")[-1:]) else TOLD
    text = "".join(next(iter(each)) for each in TOLD)
    record = Calibrator(model).answer(FREE, None if known else text)
    facts = record.facts or ()
    assert [each.text for each in facts] == ["34 million people", "Lima"]
    if known:
        assert [each.confidence for each in facts] == pytest.approx(
            [0.5**3, 0.5]
        )  # the first tokens have no rivals of their kind
        assert record.confidence == pytest.approx(0.5**4)
    else:  # a chat API does not read a text
        assert all(math.isnan(each.confidence) for each in facts)
        assert "probabilities of the text's tokens are unknown" in str(explain(record).caveat)


OFF = "stopped in the middle of an answer"
NO_JSON = r"does not answer with a JSON object; is http.* the right address"
OTHERWISE = "reply does not have the form of OpenAI's API"


def rated(model: EndpointModel) -> None:
    (outcome,) = model.rate([GivenAnswer(CHOICE, "A")], ())
    if isinstance(outcome, QuestionError):
        raise outcome


def started(model: EndpointModel) -> None:
    EndpointModel(model.endpoint.url, "tiny").close()


ANSWERS: dict[str, Callable[[EndpointModel], object]] = {
    "choice": lambda model: model.answer(CHOICE),
    "open": lambda model: model.answer(OPEN),
    "rating": rated,
}
TEXT: dict[str, Callable[[EndpointModel], object]] = {"text": lambda model: [*model.write(OPEN, SamplingParameters())]}
START: dict[str, Callable[[EndpointModel], object]] = {"start": started}

# (changes of the server, which requests, error, part of its sentence)
BAD: dict[str, tuple[dict[str, Any], dict[str, Callable[[EndpointModel], object]], type[Exception], str]] = {
    "400": ({"statuses": [400] * 9}, ANSWERS | TEXT, QuestionError, r"refuses the request with status 400: Not now\."),
    "400 at the start": (
        {"statuses": [400] * 99},
        START,
        ModelError,
        "refuses each request for log-probabilities.*400",
    ),
    "401": ({"statuses": [401] * 9}, ANSWERS | TEXT | START, ModelError, "denies access .status 401"),
    "429": ({"statuses": [429] * 99}, ANSWERS | TEXT | START, UnavailableError, "refuses the request with status 429"),
    "500": ({"statuses": [500] * 99}, ANSWERS | TEXT | START, UnavailableError, "refuses the request with status 500"),
    "hangs up": ({"statuses": [0] * 99}, ANSWERS | TEXT | START, UnavailableError, OFF),
    "half an answer": ({"broken": lambda body: body[:99]}, ANSWERS | START, UnavailableError, OFF),
    "no chunk": ({"cut": 0}, TEXT, UnavailableError, OFF),
    "half a stream": ({"cut": 2}, TEXT, UnavailableError, OFF),
    "no JSON": ({"broken": lambda body: b"<" * len(body)}, ANSWERS | START, ModelError, NO_JSON),
    "a number": ({"broken": lambda body: b"%*d" % (len(body), 0)}, ANSWERS | START, ModelError, NO_JSON),
    "other JSON": ({"broken": lambda body: b"%-*s" % (len(body), b"{}")}, ANSWERS | START, ModelError, OTHERWISE),
    "no model": ({"models": ["other"]}, ANSWERS | TEXT | START, ModelError, "status 404: The model `tiny` does not"),
}


@pytest.mark.parametrize(("row", "kind"), [(row, name) for row, bad in BAD.items() for name in bad[1]])
def test_a_bad_server_is_told_and_asked_again(model: EndpointModel, server: FakeServer, row: str, kind: str) -> None:
    changes, requests, error, sentence = BAD[row]
    well = {name: getattr(server, name) for name in changes} | {"statuses": []}
    server.change(changes)
    with pytest.raises(error, match=sentence):
        requests[kind](model)
    server.change(well)
    requests[kind](model)


BODY = {"model": "tiny", "messages": [{"role": "user", "content": "Which city?"}], "max_tokens": 3}
ROUTE = "/chat/completions"
Connect = Callable[..., Endpoint]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Makes endpoints, which are closed in the end."""
    with ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(closing(Endpoint(*args, **options)))


def test_a_busy_server_is_asked_thrice_more(connect: Connect, server: FakeServer, monkeypatch: Patch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    server.statuses, server.retry_after = [429, 503, 500], "7"
    assert connect(server.url).post(ROUTE, BODY)["choices"][0]["message"]["content"] == "Lima"
    assert waited.count(7.0) == 3
    server.statuses = [429] * 9
    with pytest.raises(UnavailableError, match=r"/chat/completions refuses the request with status 429: Not now\."):
        connect(server.url).post(ROUTE, BODY)
    assert len(server.statuses) == 5


def test_an_absent_server_is_given_up_and_a_slow_one_asked_once(connect: Connect, server: FakeServer) -> None:
    with pytest.raises(UnavailableError, match=r"\(ConnectError\); start the server, or check its address"):
        connect("http://127.0.0.1:9").models()
    server.delay = 1.0
    with pytest.raises(UnavailableError, match=r"does not answer \(ReadTimeout\)"):
        connect(server.url, silence=0.1).post(ROUTE, BODY)
    assert len(server.heard) == 1


def test_a_key_is_sent_to_its_server_alone(connect: Connect, server: FakeServer, monkeypatch: Patch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "private")
    connect(server.url).models()
    assert "private" not in str(server.heard)
    assert "Authorization" not in server.heard[-1]
    server.key = "right"
    assert [card["id"] for card in connect(server.url, key="right").models()] == ["tiny"]
    for key in ("wrong", None):
        with pytest.raises(ModelError, match=r"denies access .*Incorrect API key.*; set SECL_ENDPOINT_KEY"):
            connect(server.url, key=key).models()


def test_an_address_is_a_url_and_may_have_a_path_of_its_own(connect: Connect) -> None:
    for url in ("localhost:8000", "ftp://x", "http://", "http://x:y", "http://[x"):
        with pytest.raises(ParameterError, match=r"is not a URL; write http://HOST:PORT/v1\."):
            connect(url)
    assert connect("http://h:1").url == "http://h:1/v1"
    assert connect("https://h/api/v1/").url == "https://h/api/v1"


WITH_SECRETS = (
    "http://user:SECRET@h:1/v1",
    "https://SECRET@h",
    "http://:SECRET@h",
    "http://user:SE/CRET@h",
    "http://user:SE#CRET@h",
    "http://u://SECRET@h",
    "user:SECRET@h:1",
    "ftp://user:SECRET@h",
    "http://h/v1?api_key=SECRET",
    "http://h/v1?token=SECRET#SECRET",
    "http://h#SECRET",
    "http://[SECRET@h",
)


@pytest.mark.parametrize("url", WITH_SECRETS)
def test_an_address_with_a_secret_is_refused_everywhere_and_never_repeated(connect: Connect, url: str) -> None:
    endpoint = {"model.engine": "openai", "model.endpoint": url}
    for use in (
        lambda: connect(url),
        lambda: RunSettings.of({**endpoint, "stream.benchmarks": ["capitals:3"]}),
        lambda: serving_settings(endpoint),
        lambda: Recipe.of({"model.endpoint": url}),
        lambda: Recipe.model_validate({"model": {"endpoint": url}}),
    ):
        with pytest.raises(ParameterError, match="write http://HOST:PORT/v1") as refusal:
            use()
        assert "SE" not in str(refusal.value).removesuffix("set SECL_ENDPOINT_KEY to the API key.")
    if "://" in url:
        with pytest.raises(ParameterError, match=r"is an address; give it with --endpoint") as refusal:
            Recipe.of({"model.name": url})
        assert "CRET" not in str(refusal.value)
