"""The fleet against real vLLM servers of the embedded model; only where SECL_VLLM names a Python that has vLLM."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import torch

from secl.backends.local.loading import convert_gguf, locate
from secl.backends.local.model import LocalModel
from secl.backends.vllm.model import VllmModel
from secl.calibrator import Calibrator
from secl.data.quiz import quiz
from secl.gates import Always
from secl.question import Question
from secl.records import Record, Reply
from secl.settings import AdapterSettings, LoopSettings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("SECL_VLLM" not in os.environ, reason="needs vLLM (set SECL_VLLM to a Python that has it)"),
]

READY_SECONDS = 600
TOP = 64
Say = Callable[[str], None]


class Server:
    """A vLLM server of a model folder in float32, on a processor of its own if there are two."""

    def __init__(self, folder: Path, log: Path, core: int) -> None:
        self.folder, self.log, self.core = folder, log, core
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Begin; `wait` until it answers."""
        environment = {
            **os.environ,
            "VLLM_HOST_IP": "127.0.0.1",
            "GLOO_SOCKET_IFNAME": "lo",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": str(self.core),
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        arguments = (
            f"--model {self.folder} --served-model-name base --host 127.0.0.1 --port {self.port} --max-model-len 2048 "
            f"--dtype float32 --enforce-eager --block-size 32 --max-logprobs {TOP} "
            "--enable-lora --max-loras 1 --max-lora-rank 8 --lora-target-modules q_proj v_proj"
        )
        command = [os.environ["SECL_VLLM"], "-m", "vllm.entrypoints.openai.api_server", *arguments.split()]
        command += ["--hf-overrides", '{"head_dtype":"float32"}']
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)

    def wait(self) -> None:
        """Until it answers, and has warmed up."""
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end:
            if self.process.poll() is not None:
                break
            try:
                if httpx.get(f"{self.url}/health", timeout=2).status_code == httpx.codes.OK:
                    body = {"model": "base", "prompt": [[1, 2, 3]], "max_tokens": 1}
                    httpx.post(f"{self.url}/v1/completions", json=body, timeout=120).raise_for_status()
                    return
            except httpx.TransportError:
                time.sleep(0.5)
        pytest.fail(f"vLLM did not start:\n{self.log.read_text(errors='replace')[-3000:]}")

    def kill(self) -> None:
        """End it and all its workers at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def adapters(self) -> set[str]:
        """The names of the adapters that it has loaded."""
        cards = httpx.get(f"{self.url}/v1/models", timeout=10).json()["data"]
        return {card["id"] for card in cards if card["parent"]}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    source = locate("smollm2")
    assert isinstance(source, Path)
    folder = convert_gguf(source, torch.float32)
    logs, cores = tmp_path_factory.mktemp("vllm"), sorted(os.sched_getaffinity(0))
    started = [Server(folder, logs / f"{i}.log", cores[i % len(cores)]) for i in range(2)]
    try:
        for server in started:
            server.wait()
        yield started
    finally:
        for server in started:
            server.kill()


@pytest.fixture
def fleet(servers: list[Server], tmp_path: Path) -> Iterator[VllmModel]:
    model = VllmModel(learner(), [server.url for server in servers], tmp_path, top=TOP, pause=1.0)
    yield model
    model.close()


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    def print_it(text: str) -> None:
        with capsys.disabled():
            print(f"\n    {text}", end="", flush=True)  # noqa: T201

    return print_it


def learner() -> LocalModel:
    return LocalModel.load("smollm2", dtype="fp32", adapter=AdapterSettings(learning_rate=5e-4))


def choices(count: int) -> list[Question]:
    return [question for domain in ("capitals", "science") for question in quiz(domain, count // 2, 1)]


OPEN = [
    Question("Who wrote Hamlet?", id="short"),
    Question("Why is the sky blue?", form="sentence", id="sentence"),
    Question("Tom has 3 apples and buys 4. How many has he?", form="number", id="number"),
]


def apart(one: Reply, other: Reply) -> tuple[float, float]:
    """Differences of stated confidence (largest of ten bins) and of entropy, between replies that say the same."""
    assert (one.text, one.answer, one.version) == (other.text, other.answer, other.version)
    return max(abs(a - b) for a, b in zip(one.bins, other.bins, strict=True)), abs(one.entropy - other.entropy)


def test_stated_confidence_and_p_true_agree_with_the_model_in_this_process(fleet: VllmModel, say: Say) -> None:
    local = learner()
    bins, entropies, p_true = [0.0], [0.0], [0.0]
    for question in [*choices(10), *OPEN]:
        here, there = local.answer(question, evidence=["p_true"]), fleet.answer(question, evidence=["p_true"])
        confidence, entropy = apart(there.reply, here.reply)
        bins.append(confidence)
        entropies.append(entropy)
        one, other = local.score_p_true(question, here.reply), fleet.score_p_true(question, there.reply)
        assert one is not None
        assert other is not None
        assert one.candidates == other.candidates
        p_true += [abs(a - b) for a, b in zip(one.probabilities, other.probabilities, strict=True)]
    say(f"largest differences: bins {max(bins):.1e}, P(True) {max(p_true):.1e}, entropy {max(entropies):.3f} nats")
    assert max(bins) < 1e-3
    assert max(p_true) < 1e-3
    assert max(entropies) < 0.2


def test_evidence_about_candidates_agrees_with_the_model_in_this_process(fleet: VllmModel, say: Say) -> None:
    local, worst, stream = learner(), 0.0, choices(6)
    for each in (local, fleet):
        each.prefetch(stream, [["candidates"]] * len(stream), weights_fixed=True)
    for question in stream:
        here, there = (each.answer(question, evidence=["candidates"]) for each in (local, fleet))
        one, other = local.compare_candidates(question, here.reply), fleet.compare_candidates(question, there.reply)
        assert one is not None
        assert other is not None
        assert [each.tokens for each in one.likelihoods if each] == [each.tokens for each in other.likelihoods if each]
        worst = max(
            worst,
            *(abs(a - b) for a, b in zip(one.letters[0].log_p, other.letters[0].log_p, strict=True)),
            *(abs(a.given - b.given) for a, b in zip(one.likelihoods, other.likelihoods, strict=True) if a and b),
        )
    say(f"letters under another order and likelihoods differ by at most {worst:.1e} nats")
    assert worst < 1e-2


def test_every_version_reaches_every_endpoint(fleet: VllmModel, servers: list[Server], say: Say) -> None:
    local, seconds, worst = learner(), [], 0.0
    question, *others = choices(6)
    for version in (1, 2, 3):
        reply = local.answer(question).reply
        local.learn(question, reply, 0.2)
        fleet.answer(question)
        fleet.learner.learn(question, fleet.learner.answer(question).reply, 0.2)
        began = time.perf_counter()
        fleet.backend.publish()
        seconds.append(time.perf_counter() - began)
        assert [server.adapters() for server in servers] == [{f"secl-{version}"}] * 2
        for other in others:
            expected = local.answer(other)
            worst = max(worst, apart(fleet.answer(other).reply, expected.reply)[0])
            assert expected.reply.version == version
            assert expected.reply.confidence != expected.frozen.confidence
    size = sum(file.stat().st_size for file in Path(fleet.versions.folder_of(3)).iterdir())
    say(
        f"a version of {size} bytes is on two endpoints in {statistics.median(seconds) * 1e3:.0f} ms (median of 3); "
        f"bins of the adapted replies differ by at most {worst:.1e}"
    )
    assert worst < 1e-3


def test_an_endpoint_killed_in_the_middle_loses_nothing(fleet: VllmModel, servers: list[Server], say: Say) -> None:
    stream = choices(16)
    killer = threading.Timer(4.0, servers[1].kill)
    killer.start()
    found = run(fleet, stream)
    killer.join()
    failures = fleet.fleet.failures
    expected = run(learner(), stream)
    worst = max(apart(one.reply, other.reply)[0] for one, other in zip(found, expected, strict=True))
    say(f"{len(found)} records, {failures} failures of an endpoint, bins differ by at most {worst:.1e}")
    assert failures > 0
    assert worst < 1e-3
    assert [record.outcome for record in found] == [record.outcome for record in expected]
    servers[1].start()
    servers[1].wait()
    assert servers[1].adapters() == set()
    time.sleep(1.1)  # the pause of the fleet
    fleet.answer(stream[0])
    assert servers[1].adapters() == {f"secl-{fleet.version}"}
    assert set(fleet.fleet.health.values()) == {"well"}


def run(model: LocalModel | VllmModel, stream: list[Question]) -> list[Record]:
    return list(Calibrator(model, gate=Always(), loop=LoopSettings(bin_gate=None)).run(stream))


def test_how_many_replies_a_second(fleet: VllmModel, say: Say) -> None:
    stream = choices(80)
    rates = []
    for version, questions in ((0, stream[:40]), (1, stream[40:])):
        if version:
            fleet.answer(stream[0])
            fleet.learn(stream[0], fleet.answer(stream[0]).reply, 0.2)
        began = time.perf_counter()
        fleet.prefetch(questions, [()] * len(questions), weights_fixed=True)
        replies = [fleet.answer(question).reply for question in questions]
        rates.append(len(questions) / (time.perf_counter() - began))
        assert {reply.version for reply in replies} == {version}
    say(f"replies a second on two endpoints: {rates[0]:.1f} frozen, {rates[1]:.1f} with the adapted reply beside it")
