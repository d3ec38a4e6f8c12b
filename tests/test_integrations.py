"""Examples that work with other packages, against these packages: `make test-integrations` installs them.

Without a package, its tests are skipped.
"""

import asyncio
import csv
import importlib.util
import json
import math
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import secl
from examples import label_studio, lm_eval_samples, prediction_sets
from secl.client import reply_of
from secl.learning import Calibrator
from secl.runs.labelling import labels_from_sheet
from secl.runs.store import Store
from secl.server.http.process import create_app
from secl.testing import ScriptedModel
from tests import processes
from tests.conftest import ROOT
from tests.server.conftest import hosted, scripted_services, sdk_at

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # otherwise litellm asks the network for prices

pytestmark = pytest.mark.heavy


def needs(name: str) -> pytest.MarkDecorator:
    """Skip a test without a package, which the environment of `make test-integrations` has."""
    return pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"needs {name}: make test-integrations")


def command(*arguments: object) -> None:
    """Run `secl` in another process."""
    subprocess.run([sys.executable, "-m", "secl", *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, smollm2: str) -> Iterator[str]:
    """Address of `secl serve` with a threshold."""
    place = tmp_path_factory.mktemp("served")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = processes.start(
            place / "log", "serve", place / "state", "--model", smollm2, "--accept", 0.75, listener=listener
        )
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        process.terminate()
        assert processes.finish(process) == 0, (place / "log").read_text()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of sixty questions with options."""
    records = list(Calibrator(ScriptedModel()).run(secl.load_stream(["capitals"], 60)))
    folder = tmp_path / "run"
    with Store.create(folder, {"total": len(records), "settings": {"method": "posterior"}}) as store:
        for record in records:
            store.add(record, 0.5)
    return folder


# lm-eval


def sample(log_p: list[float], target: object, *, older: bool = False, **more: Any) -> str:
    """A line of a file of samples, as lm-eval writes it since 0.4.4, or before."""
    requests = [("Capital of Peru?", f" {name}") for name in ("Quito", "Lima", "La Paz")]
    arguments: Any = {f"gen_args_{i}": {"arg_0": ask, "arg_1": option} for i, (ask, option) in enumerate(requests)}
    if older:
        arguments = requests
    replies = [[number, False] if older else [str(number), "False"] for number in log_p]
    return json.dumps(
        {"doc_id": 7, "target": target, "arguments": arguments, "filtered_resps": replies, "acc": 1.0} | more
    )


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("target", ["1", 1, "Lima", " Lima"])
def test_a_sample_of_lm_eval_becomes_an_answer_with_its_probability_among_the_options(
    tmp_path: Path, older: bool, target: object
) -> None:
    file = tmp_path / "samples_geo_2026-11-29T07.jsonl"
    file.write_text(sample([-3.0, -1.0, -2.0], target, older=older) + "\n", encoding="utf-8")
    (record,) = lm_eval_samples.read_samples(file)
    assert (record.text, record.correct, record.question.domain) == ("Lima", True, "geo")
    assert record.confidence == pytest.approx(1 / (1 + math.exp(-2) + math.exp(-1)))


def test_requests_without_a_prompt_of_mutual_information_are_no_options(tmp_path: Path) -> None:
    line = json.loads(sample([-3.0, -1.0, -2.0], 1))
    line["arguments"]["gen_args_3"] = {"arg_0": "", "arg_1": " Lima"}
    line["filtered_resps"].append(["-0.1", "False"])
    file = tmp_path / "samples_geo_2026.jsonl"
    file.write_text(json.dumps(line), encoding="utf-8")
    assert lm_eval_samples.read_samples(file)[0].question.options == ("Quito", "Lima", "La Paz")


@pytest.mark.parametrize(
    ("target", "acc", "right"), [("1", 1.0, 0), ("0", 1.0, 0), ("0", 0.0, 1), (2, 0.0, 2), ("2", None, 2)]
)
def test_a_target_that_is_a_number_and_an_option_is_told_apart_by_the_grade(
    tmp_path: Path, target: object, acc: float | None, right: int
) -> None:
    line = sample([-1.0, -3.0, -2.0], target, acc=acc)
    for name, number in (("Quito", "1"), ("Lima", "0"), ("La Paz", "7")):
        line = line.replace(name, number)
    file = tmp_path / "samples_sums_2026.jsonl"
    file.write_text(line, encoding="utf-8")
    (record,) = lm_eval_samples.read_samples(file)
    assert record.question.reference == "ABC"[right]
    assert record.correct == (right == 0)


def test_a_check_of_samples_says_that_they_have_no_stated_confidences(tmp_path: Path) -> None:
    file = tmp_path / "samples_geo_2026.jsonl"
    file.write_text("".join(sample([-1.0, -2.0, -3.0], 1, doc_id=n) + "\n" for n in range(30)), encoding="utf-8")
    lm_eval_samples.main(str(file), str(tmp_path / "run"))
    with pytest.raises(subprocess.CalledProcessError) as ended:
        command("check", tmp_path / "run")
    assert b"has no stated confidences, because its answers are from elsewhere" in ended.value.stderr
    assert b"secl report" in ended.value.stderr


@pytest.mark.parametrize(
    "text",
    [
        sample([-1.0, -2.0, -3.0], 1, filtered_resps=["Lima"]),
        sample([-1.0, -2.0, -3.0], 1, arguments={"gen_args_0": {"arg_0": "Capital?", "arg_1": {"until": ["\n"]}}}),
        sample([-1.0, -2.0, -3.0], 7),
        sample([-1.0, -2.0, -3.0], None),
        sample([-1.0, -2.0, math.nan], 1),
        '{"results": {}}',
        "[1, 2]",
        "not JSON",
        sample([-1.0, -2.0, -3.0], 1).replace(" Quito", " Lima"),
    ],
)
def test_a_file_of_another_task_or_version_gets_one_sentence(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "samples_open_2026.jsonl"
    file.write_text(sample([-1.0, -2.0, -3.0], 1) + "\n" + text, encoding="utf-8")
    with pytest.raises(SystemExit, match=r"samples_open_2026.jsonl:2 has no log-likelihoods of 2 to 26 options"):
        lm_eval_samples.main(str(file), str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_an_empty_or_absent_file_of_samples_gets_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(SystemExit, match="is empty; run lm_eval with --log_samples"):
        lm_eval_samples.main(str(tmp_path / "empty.jsonl"), str(tmp_path / "run"))
    with pytest.raises(SystemExit, match=r"cannot be read: .*No such file"):
        lm_eval_samples.main(str(tmp_path / "absent.jsonl"), str(tmp_path / "run"))


@needs("lm_eval")
def test_a_report_over_real_samples_has_the_accuracy_of_lm_eval(tmp_path: Path, tiny_llama: Path) -> None:
    questions = [question for question in secl.load_stream(["capitals"], 12) if isinstance(question.reference, str)]
    rows = [
        {"q": each.text, "options": each.options, "right": each.letters.index(each.reference)} for each in questions
    ]
    (tmp_path / "quiz.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    task = {
        "task": "quiz",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": f"{tmp_path}/quiz.jsonl"}},
    }
    task |= {"test_split": "test", "doc_to_text": "{{q}}", "doc_to_target": "{{right}}"}
    asked = {"output_type": "multiple_choice", "doc_to_choice": "{{options}}", "metric_list": [{"metric": "acc"}]}
    (tmp_path / "quiz.yaml").write_text(json.dumps(task | asked), encoding="utf-8")
    options = "-m lm_eval --device cpu --include_path . --tasks quiz --log_samples --output_path out --model hf"
    options += f" --model_args pretrained={tiny_llama},dtype=float32"
    ran = [sys.executable, *options.split()]
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache")}
    subprocess.run(ran, cwd=tmp_path, check=True, env=os.environ | offline, capture_output=True, timeout=600)
    (results,) = (tmp_path / "out").rglob("results_*.json")
    (samples,) = (tmp_path / "out").rglob("samples_*.jsonl")
    lm_eval_samples.main(str(samples), str(tmp_path / "run"))
    command("report", tmp_path / "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    accuracy = json.loads(results.read_text())["results"]["quiz"]["acc,none"]
    assert summary["estimators"]["posterior"]["accuracy"] == pytest.approx(accuracy)


# inspect_ai

CAPITALS = {"Peru": "Lima", "France": "Paris", "Bhutan": "Thimphu", "Norway": "Oslo"}


@pytest.fixture
def evaluate(tmp_path: Path) -> Callable[..., Any]:
    """A function that runs four questions with a scorer, and returns the log."""
    import inspect_ai
    from inspect_ai.dataset import Sample
    from inspect_ai.solver import generate

    data = [Sample(input=f"What is the capital of {name}?", target=capital) for name, capital in CAPITALS.items()]

    def evaluate(model: Any, **how: Any) -> Any:
        from examples.inspect_scorer import confidence

        task = inspect_ai.Task(dataset=data, solver=generate(), scorer=confidence())
        (log,) = inspect_ai.eval(task, model=model, log_dir=str(tmp_path), display="none", **how)
        return log

    return evaluate


@needs("inspect_ai")
def test_inspect_scores_confidences_of_a_server(address: str, evaluate: Callable[..., Any]) -> None:
    from inspect_ai.model import get_model

    log = evaluate(get_model("openai-api/secl/smollm2", base_url=address, api_key="none"))
    scores = [sample.scores["confidence"] for sample in log.samples]
    assert all(0 < score.metadata["confidence"] < 1 for score in scores)
    errors = [(score.metadata["confidence"] - score.value) ** 2 for score in scores]
    metrics = log.results.scores[0].metrics
    assert metrics["brier"].value == pytest.approx(np.mean(errors))
    assert 0 <= metrics["ece"].value <= 1


@needs("inspect_ai")
def test_inspect_scores_log_probabilities_and_a_log_without_them_gets_one_sentence(
    evaluate: Callable[..., Any],
) -> None:
    from inspect_ai.model import Logprob, Logprobs, ModelOutput, ModelUsage, get_model

    def said(text: str, *log_p: float) -> ModelOutput:
        output = ModelOutput.from_content("mockllm/model", text)
        output.usage = ModelUsage()  # otherwise inspect_ai asks the network for a tokenizer
        tokens = [Logprob(token="a", logprob=number) for number in log_p]
        output.choices[0].logprobs = Logprobs(content=tokens) if tokens else None
        return output

    outputs = [said("It is Lima.", -0.1, -0.2), *(said("It is Rome.", -0.5) for _ in range(3))]
    log = evaluate(get_model("mockllm/model", custom_outputs=outputs), max_samples=1)
    assert log.status == "success", log.error.message
    scores = sorted((each.value, each.metadata["confidence"]) for each in (s.scores["confidence"] for s in log.samples))
    assert [right for right, _ in scores] == [0, 0, 0, 1]
    assert [p for _, p in scores] == pytest.approx([math.exp(-0.5)] * 3 + [math.exp(-0.3)])
    bare = evaluate(get_model("mockllm/model", custom_outputs=[said("It is Lima.")] * 4))
    assert bare.status == "error"
    assert "has no confidence of secl and no log-probabilities; run the task again with --log" in bare.error.message


@needs("inspect_ai")
def test_inspect_measures_the_other_samples_if_one_has_no_answer(evaluate: Callable[..., Any]) -> None:
    from inspect_ai.model import Logprob, Logprobs, ModelOutput, ModelUsage, get_model

    outputs = [ModelOutput.from_content("mockllm/model", "It is Rome.") for _ in range(4)]
    for output in outputs:
        output.usage = ModelUsage()
        output.choices[0].logprobs = Logprobs(content=[Logprob(token="a", logprob=-0.5)])
    outputs[2].error = "the server failed"
    log = evaluate(get_model("mockllm/model", custom_outputs=outputs), max_samples=1)
    assert log.status == "success", log.error.message
    known = [sample.scores["confidence"].metadata["confidence"] for sample in log.samples]
    assert sorted(known, key=str) == [pytest.approx(math.exp(-0.5))] * 3 + [None]
    assert log.results.scores[0].metrics["brier"].value == pytest.approx(math.exp(-1.0))


# Clients of a server


@needs("langchain_openai")
def test_langchain_routes_doubtful_texts_and_fields_to_a_person(address: str) -> None:
    from langchain_core.runnables import RunnableLambda
    from pydantic import BaseModel

    from examples.langchain_route import SeclChat, accepted, chain, doubtful

    class Place(BaseModel):
        country: str
        population: int

    chat = SeclChat(model="smollm2", base_url=address, api_key="none", max_retries=0)
    questions = [f"What is the capital of {name}?" for name in CAPITALS]
    replies = [chat.invoke(question) for question in questions]
    assert len({accepted(reply) for reply in replies}) == 2  # the threshold lies between these confidences
    routed = chain(chat, RunnableLambda(lambda reply: f"person: {reply.content}")).batch(questions)
    assert routed == [f"{'' if accepted(reply) else 'person: '}{reply.content}" for reply in replies]
    place, fields = doubtful(chat, Place, "Peru has 34 million inhabitants.")
    assert isinstance(place, Place)
    assert set(fields) <= {"country", "population"}
    assert fields, "a model of 135M parameters is certain of a population"


@needs("dspy")
def test_predictions_of_dspy_carry_a_confidence_for_each_field_also_in_threads(address: str) -> None:
    import dspy

    from examples.dspy_confidence import Confident, configure

    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    configure(address, "smollm2")
    predict = Confident("country -> capital: str")
    one_by_one = [predict(country=name).confidences for name in CAPITALS]
    assert all(0 < each["capital"] < 1 for each in one_by_one)
    examples = [(predict, dspy.Example(country=name).with_inputs("country")) for name in CAPITALS]
    together = [each.confidences["capital"] for each in dspy.Parallel(num_threads=4)(examples)]
    # Earlier questions of the server move later confidences a little.
    assert together == pytest.approx([each["capital"] for each in one_by_one], abs=0.08)
    assert max(together) - min(together) > 0.2


class Larger(BaseHTTPRequestHandler):
    """A server with OpenAI's API that always says "larger"."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        choice = {"index": 0, "message": {"role": "assistant", "content": "larger"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        body = {"id": "1", "object": "chat.completion", "created": 1, "model": "l", "choices": [choice], "usage": usage}
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@needs("litellm")
def test_litellm_asks_the_larger_model_below_the_minimum_also_in_a_router(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import litellm

    from examples.litellm_fallback import Fallback

    small = {"model": "openai/smollm2", "api_base": address, "api_key": "none"}
    router = litellm.Router(model_list=[{"model_name": "m", "litellm_params": small}], num_retries=0)
    messages = [{"role": "user", "content": "What is the capital of Peru?"}]
    with HTTPServer(("127.0.0.1", 0), Larger) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        large = {"model": "openai/l", "api_base": f"http://127.0.0.1:{server.server_port}/v1", "api_key": "none"}

        def texts(least: float) -> list[str]:
            monkeypatch.setattr(litellm, "callbacks", [Fallback(least, **large)])
            calls = (partial(litellm.acompletion, **small), partial(router.acompletion, "m"))
            return [asyncio.run(call(messages=messages)).choices[0].message.content for call in calls]

        assert texts(1.0) == ["larger", "larger"]
        assert texts(0.0) == ["The capital of Peru is Lima."] * 2
        server.shutdown()


# Traces


@pytest.fixture
def spans() -> Iterator[Any]:
    """Finished spans of OpenTelemetry, in memory."""
    pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk: make test-integrations")
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        trace.set_tracer_provider(TracerProvider())
    provider: Any = trace.get_tracer_provider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield exporter
    exporter.shutdown()


def test_the_current_span_has_the_confidence_of_an_answer(spans: Any) -> None:
    from opentelemetry import trace

    tracer, model = trace.get_tracer("test"), secl.load(ScriptedModel(), accept=0.5)
    answers = []
    with tracer.start_as_current_span("asked"):
        answers.append(model.ask("Capital of Peru?", options=["Quito", "Lima"]))
    with tracer.start_as_current_span("in a thread"):
        answers.append(asyncio.run(model.aask("Capital of Chile?")))
    with tracer.start_as_current_span("rated"):
        answers.append(model.score("Capital of Chile?", "Santiago"))
    model.ask("Outside of spans?")
    for span, answer in zip(spans.get_finished_spans(), answers, strict=True):
        assert dict(span.attributes) == {"secl.confidence": answer.confidence, "secl.accepted": answer.accepted}


def test_the_span_of_a_request_has_the_confidence_and_the_record_also_of_a_stream(tmp_path: Path, spans: Any) -> None:
    """FastAPI makes the spans, once an SDK is set up."""
    with scripted_services(tmp_path) as make, hosted(create_app(make())) as address, sdk_at(address) as sdk:
        said: Any = {"model": "scripted", "messages": [{"role": "user", "content": "Capital of Peru?"}]}
        replies = [sdk.chat.completions.create(**said)]
        replies += list(sdk.chat.completions.create(**said, stream=True, extra_body={"secl": {"wait": True}}))[-1:]
        asked: Any = sdk.post("/ask", body={"question": "Capital?", "options": ["Lima", "Rome"]}, cast_to=object)
    expected = [*(reply_of(reply) for reply in replies), asked]
    marked = [dict(span.attributes) for span in spans.get_finished_spans() if "secl.confidence" in span.attributes]
    assert [(each["secl.confidence"], each["secl.record_id"]) for each in marked] == [
        (reply["confidence"], reply["record_id"]) for reply in expected
    ]


# Runs


def test_verdicts_of_label_studio_become_labels_with_their_chance(run: Path, tmp_path: Path) -> None:
    command("export", run, "--sample", "20", "--out", tmp_path / "sample.csv")
    label_studio.main("out", str(tmp_path / "sample.csv"), str(tmp_path / "tasks.json"))
    tasks = json.loads((tmp_path / "tasks.json").read_text(encoding="utf-8"))
    assert len(tasks) == 20
    assert all(task["predictions"] == [] and "label" not in task["data"] for task in tasks)
    exported = []
    for number, task in enumerate(tasks):
        result: dict[str, Any] = {"from_name": "label", "to_name": "answer", "type": "choices"}
        result |= {"value": {"choices": ["right" if number % 4 else "wrong"]}}
        exported.append({"id": number, "annotations": [{"result": [result], "was_cancelled": number == 19}], **task})
    (tmp_path / "exported.json").write_text(json.dumps(exported), encoding="utf-8")
    label_studio.main("in", str(tmp_path / "exported.json"), str(tmp_path / "judged.csv"))
    with Store(run) as store:
        labels = labels_from_sheet(store, tmp_path / "judged.csv", random=False)
    assert [label.chance for label in labels] == [1.0] * 20
    assert sorted(map(str, (label.correct for label in labels))) == ["False"] * 5 + ["None"] + ["True"] * 14


def test_tasks_of_label_studio_have_the_confidence_as_score_and_fit_its_configuration(
    run: Path, tmp_path: Path
) -> None:
    command("export", run, "--review", "--out", tmp_path / "review.csv")
    label_studio.main("out", str(tmp_path / "review.csv"), str(tmp_path / "tasks.json"))
    tasks = json.loads((tmp_path / "tasks.json").read_text(encoding="utf-8"))
    with (tmp_path / "review.csv").open(encoding="utf-8", newline="") as file:
        confidences = [float(row["confidence"]) for row in csv.DictReader(file)]
    assert [task["predictions"][0]["score"] for task in tasks] == confidences
    interface_of = pytest.importorskip(
        "label_studio_sdk.label_interface", reason="needs label-studio-sdk: make test-integrations"
    )
    interface = interface_of.LabelInterface(label_studio.CONFIG)
    for task in tasks:
        (prediction,) = task.pop("predictions")
        assert interface.validate_task(task)
        assert interface.validate_prediction(prediction, return_errors=True) == []


@pytest.mark.parametrize("export", [[{"id": 3, "label": "right"}], [{"id": 3, "data": {"record_id": "1"}}]])
def test_another_export_of_label_studio_gets_one_sentence(export: Any) -> None:
    with pytest.raises(secl.DataError, match="task 3 has no annotations of an answer of secl; in Label Studio, export"):
        label_studio.judged(export)


def test_annotations_may_have_several_parts_be_skipped_or_contradict(tmp_path: Path) -> None:
    def part(name: str, **value: object) -> dict[str, object]:
        return {"from_name": name, "value": value}

    wrong = [
        part("label", choices=["wrong"], start=0),
        part("correct_answer", text="Lima"),
        part("correct_answer", text=[]),
        part("stars", rating=3),
        {"type": "relation", "from_id": "a", "to_id": "b"},
    ]
    annotations = [{"result": wrong}, {"result": []}, {"result": wrong, "was_cancelled": True}]
    task = {"id": 1, "data": {"record_id": "7"}, "annotations": annotations}
    rows = [(row["label"], row["correct_answer"]) for row in label_studio.judged([task, {**task, "annotations": []}])]
    assert rows == [("wrong", "Lima"), ("", ""), ("", "")]


@pytest.mark.parametrize("content", ["not JSON", "[]", '{"data": 1}', "7", None])
def test_a_file_that_is_no_export_of_label_studio_gets_one_sentence(tmp_path: Path, content: str | None) -> None:
    source, target = tmp_path / "exported.json", tmp_path / "judged.csv"
    if content is not None:
        source.write_text(content)
    with pytest.raises(secl.DataError, match=r"exported.json (cannot be read|has no rows)|task 1 has no annotations"):
        label_studio.main("in", str(source), str(target))
    assert not target.exists()


@needs("mlflow")
def test_mlflow_gets_the_measures_of_a_run(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    from examples.mlflow_run import log_run

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(f"file://{tmp_path}/mlruns")
    command("report", run)
    log_run(run)
    (logged,) = mlflow.search_runs(output_format="list")
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    assert logged.data.metrics["posterior.brier"] == summary["estimators"]["posterior"]["brier"]
    assert logged.data.params["method"] == "posterior"


@pytest.mark.parametrize(
    "sets",
    [
        pytest.param(prediction_sets.by_crepes, marks=needs("crepes")),
        pytest.param(prediction_sets.by_mapie, marks=needs("mapie")),
    ],
)
def test_prediction_sets_contain_the_right_option_as_often_as_promised(sets: Any, run: Path) -> None:
    with Store(run) as store:
        p, known, right = prediction_sets.probabilities(list(store.records()))
    half = np.arange(len(known)) % 2 == 0  # the other half stands for new questions
    members = sets(p, known & half, right[half], 0.8)
    covered = members[np.arange(len(right)), right]
    assert covered[half].mean() >= 0.8
    assert covered[~half].mean() > 0.6
    assert members.sum() < members.size


def test_prediction_sets_need_questions_with_equally_many_options(run: Path) -> None:
    with Store(run) as store:
        records = list(store.records())
    other = secl.load(ScriptedModel()).ask("Odd?", options=["yes", "no"])
    with pytest.raises(secl.DataError, match="no options, or different numbers of options; keep one number"):
        prediction_sets.probabilities([*records, other])
    with pytest.raises(secl.DataError, match="no options"):
        prediction_sets.probabilities([])


def test_the_page_shows_the_scripts_and_names_the_versions_that_were_tested() -> None:
    page = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    pins = (ROOT / "examples" / "integrations.txt").read_text(encoding="utf-8").split()
    assert len(pins) > 8
    assert [pin for pin in pins if pin.replace("==", " ") not in page] == []
    scripts = [path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.py")]
    shown = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(shown) > 4
    assert [code for code in shown if not any(code in script for script in scripts)] == []
