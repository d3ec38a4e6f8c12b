"""A model on a vLLM server works as one in this process, which has only its tokenizer then."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import secl
from secl.backends.endpoint.vllm.engine import VllmModel
from secl.backends.local.model import LocalModel
from secl.errors import ModelError, ParameterError
from secl.evidence import EvidenceKind
from secl.model import Model
from secl.question import GivenAnswer, Question
from secl.runs.loading import load_for_asking
from secl.runs.runner import Run, resume_run, start_run
from secl.runs.settings import Recipe, RunSettings
from secl.server.online.service import open_service, serving_settings
from tests.backends.conftest import Fakes, MakeLearner
from tests.backends.endpoint.fake_vllm import FakeVllm, hashed
from tests.backends.endpoint.test_vllm import alike
from tests.backends.local.test_thinking import thinking_tokenizer
from tests.server.conftest import Patch
from tests.tiny import tiny_model, tiny_tokenizer

KINDS: tuple[EvidenceKind, ...] = ("candidates", "p_true")


@pytest.fixture
def unweighted(tiny_llama: Path, tmp_path: Path) -> Path:
    """A folder with the tokenizer and the configuration of the tiny Llama, but without its weights."""
    folder = tmp_path / "unweighted"
    shutil.copytree(tiny_llama, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    return folder


@pytest.fixture
def server(tiny_server: Fakes, unweighted: Path) -> FakeVllm:
    server = tiny_server()
    server.root = str(unweighted)
    return server


@pytest.fixture
def model(server: FakeVllm) -> Iterator[VllmModel]:
    model = VllmModel(server.url)
    yield model
    model.close()


@pytest.fixture
def local(make_learner: MakeLearner) -> LocalModel:
    return make_learner()


@pytest.mark.heavy
def test_a_tokenizer_is_enough_for_all_evidence_of_the_model_here(
    model: VllmModel, local: LocalModel, questions: list[Question]
) -> None:
    assert model.environment == {"engine": "vllm", "short_replies": local.environment["short_replies"]}
    for each in (model, local):
        each.prefetch(questions, [KINDS] * len(questions), weights_fixed=True)
    for question in questions:
        one, other = (each.answer(question, evidence=KINDS).reply for each in (model, local))
        alike(one, other)
        mine: Any = model.gather(question, one, KINDS)
        its: Any = local.gather(question, other, KINDS)
        assert mine.p_true.probabilities[0] == pytest.approx(its.p_true.probabilities[0], abs=1e-5)
        if question.options:
            ours, theirs = mine.candidates.likelihoods, its.candidates.likelihoods
            assert [each.given for each in ours] == pytest.approx([each.given for each in theirs], abs=1e-3)
        (rated,), (expected,) = (each.rate([GivenAnswer(question, "A")], ()) for each in (model, local))
        assert rated.reply.bins == pytest.approx(expected.reply.bins, abs=1e-5)  # type: ignore[union-attr]


def close(*runs: Run, model: Model | None = None) -> None:
    for run in runs:
        run.store.close()
    for each in (*(run.calibrator.model for run in runs), *([model] if model else [])):
        each.close()


def test_load_takes_the_tokenizer_that_the_server_names(server: FakeVllm, unweighted: Path) -> None:
    model = secl.load(server.url, engine="vllm")
    answer = model.ask("Which is a metal?", options=["neon", "iron"])
    assert answer.posterior is not None
    assert [view for view, _ in answer.posterior.weights] == ["letters", "likelihood"]
    assert model.calibrator.model.fingerprint.startswith(f"vllm:{unweighted}:")
    assert model.calibrator.model.name == str(unweighted)
    model.calibrator.model.close()


@pytest.mark.heavy
def test_a_run_resumes_on_a_server_elsewhere_and_loads_no_model(
    server: FakeVllm, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setattr("secl.runs.loading.load_local", None)
    settings = RunSettings.of({"model.endpoint": server.url, "stream.benchmarks": ["capitals:4"]})
    whole, stopped = (start_run(settings, tmp_path / name) for name in ("whole", "stopped"))
    whole.proceed()
    assert (whole.manifest.environment["engine"], whole.manifest.settings.model.name) == ("vllm", server.root)
    next(stopped.steps())
    stopped.store.close()
    resumed = resume_run(tmp_path / "stopped", {"model.endpoint": server.url.replace("127.0.0.1", "localhost")})
    resumed.proceed()
    for one, other in zip(resumed.records, whole.records, strict=True):
        alike(one.reply, other.reply)
        assert one.confidence == pytest.approx(other.confidence, abs=1e-5)
    asking, _ = load_for_asking({"model.endpoint": server.url})
    assert asking.ask(Question("Which is a metal?", ("neon", "iron"))).posterior is not None
    close(whole, stopped, resumed, model=asking.model)


@pytest.mark.heavy
def test_a_run_that_learns_loads_the_model_too(server: FakeVllm, tiny_llama: Path, tmp_path: Path) -> None:
    server.root, server.adapters = str(tiny_llama), tmp_path / "versions"
    learning = {"method": "secl", "gate.name": "always", "loop.bin_gate": "off", "adapter.layers": "last:2"}
    source = {"stream.benchmarks": ["capitals:4"], "model.name": str(tiny_llama), "model.dtype": "fp32"}
    remote = {"model.endpoint": server.url, "model.versions": str(server.adapters)}
    runs = [
        start_run(RunSettings.of({**learning, **source, **more}), tmp_path / name)
        for name, more in (("here", {}), ("there", remote))
    ]
    for run in runs:
        run.proceed()
    here, there = (run.records for run in runs)
    assert there[-1].reply.version == here[-1].reply.version > 0
    for one, other in zip(there, here, strict=True):
        alike(one.reply, other.reply)
    assert [run.manifest.environment.get("engine") for run in runs] == [None, "vllm"]
    close(*runs)


def test_a_service_that_learns_nothing_loads_no_model(server: FakeVllm, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr("secl.runs.loading.load_local", None)
    service = open_service(tmp_path / "state", serving_settings({"model.endpoint": server.url}))
    service.start()
    try:
        record = service.ask(Question("Is 2 even?", options=("yes", "no"), id="2"), timeout=60).record
        assert 0 < record.confidence < 1
        assert service.learner.active is False
        assert service.model is service.learner.calibrator.model
    finally:
        service.stop()
        service.state.close()
        service.model.close()


def test_the_requests_of_a_question_run_at_the_same_time(model: VllmModel, server: FakeVllm) -> None:
    running, most, lock = 0, 0, threading.Lock()

    def wait() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.1)
        with lock:
            running -= 1

    server.before = wait
    server.asked.clear()
    model.answer(Question("Which is a metal?", options=("neon", "iron")), evidence=KINDS)
    assert most == 4  # letters, letters in another order, likelihoods and P(True)
    assert len(server.asked) == 6  # then the entropies, and the digits of the confidence


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"method": "secl"}, "'secl' cannot learn; .* VLLM_LORA_RESOLVER_CACHE_DIR with --versions"),
        ({"method": "dinco"}, "without --versions has no beam search, which DINCO needs"),
        ({"adapter.rank": 4}, "without --versions cannot train, so nothing is adapted; leave adapter.rank out"),
        ({"model.device": "cpu"}, "--engine vllm without --versions cannot set model.device of its server"),
        ({"model.endpoint": None, "model.engine": None, "model.versions": "v"}, "--versions needs a vLLM server"),
        ({"model.engine": "openai", "model.versions": "v"}, "--versions needs a vLLM server"),
    ],
)
def test_what_vllm_cannot_do_is_refused_in_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        Recipe.of({"model.engine": "vllm", "model.endpoint": "http://h", **settings})


def test_an_extraction_is_refused_in_a_sentence(tmp_path: Path) -> None:
    asked = {"extract.schema_file": "schema.json", "stream.questions": "rows.csv", "model.endpoint": "http://h"}
    with pytest.raises(ParameterError, match="--engine vllm writes no JSON objects; take --engine openai"):
        RunSettings.of(asked)


def other_tokenizer(server: FakeVllm, folder: Path) -> None:
    server.encode = lambda text: [*text.encode()]


def no_tokenizer(server: FakeVllm, folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def elsewhere(server: FakeVllm, folder: Path) -> None:
    server.root = "/models/llama"


def old(server: FakeVllm, folder: Path) -> None:
    server.old = True


def no_probabilities(server: FakeVllm, folder: Path) -> None:
    server._complete = lambda body: (200, {"choices": [{"index": 0, "text": "A"}]})  # type: ignore[method-assign]


def damaged(server: FakeVllm, folder: Path) -> None:
    server.rule = lambda weights, prompt: np.full(len(tiny_tokenizer()), np.nan)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (other_tokenizer, "which splits texts into other tokens than .*; name the model of the server"),
        (no_tokenizer, "whose tokenizer secl cannot load here; .* holds no tokenizer"),
        (elsewhere, "/v1 runs /models/llama, whose tokenizer secl cannot load here; name the hub id or folder"),
        (old, "does not report the tokens in logprob_token_ids; take vLLM 0.32 or newer"),
        (no_probabilities, "answers without the log-probabilities that a vLLM server gives"),
        (damaged, "reports log-probabilities that are missing or no numbers"),
    ],
)
def test_an_unusable_server_is_refused_in_a_sentence(
    server: FakeVllm, unweighted: Path, spoil: Callable[..., None], sentence: str
) -> None:
    spoil(server, unweighted)
    with pytest.raises(ModelError, match=sentence) as refused:
        VllmModel(server.url)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("always", [False, True])
def test_a_model_on_a_server_that_thinks_by_itself_is_given_an_empty_thought_or_refused(
    fakes: Fakes, tmp_path: Path, always: bool
) -> None:
    tokenizer = thinking_tokenizer()
    tiny_model(vocab_size=len(tokenizer)).config.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)

    def rule(_weights: bytes, prompt: list[int]) -> Any:
        logits = hashed(b"", prompt, len(tokenizer))
        if tokenizer.decode(prompt).endswith(("assistant\n", "\n\n") if always else "assistant\n"):
            logits[tokenizer.convert_tokens_to_ids("<think>")] = 50
        return logits

    server = fakes(rule, decode=tokenizer.decode, encode=lambda text: tokenizer.encode(text, add_special_tokens=False))
    server.root = str(tmp_path)
    if always:
        with pytest.raises(ModelError, match="thinks before it answers"):
            VllmModel(server.url)
        return
    model = VllmModel(server.url)
    prompt = tokenizer.decode(model.prompting.answer(Question("Why?", form="text")))
    assert prompt.endswith("assistant\n<think>\n\n</think>\n\n")
    model.close()


def test_an_engine_belongs_to_a_server() -> None:
    with pytest.raises(ParameterError, match="engine='vllm' asks a server, and 'smollm2' is not a URL; drop engine="):
        secl.load("smollm2", engine="vllm")
