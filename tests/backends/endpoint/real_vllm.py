"""Answering by vLLM against real vLLM servers of the embedded model: `make test-vllm VLLM=PYTHON`."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from secl.backends.endpoint.vllm import engine as vllm_engine
from secl.backends.endpoint.vllm.connect import answer_by_vllm
from secl.backends.endpoint.vllm.engine import VllmModel
from secl.backends.local.loading.conversion import convert_gguf
from secl.backends.local.loading.loader import load, locate
from secl.backends.local.model import LocalModel
from secl.data.benchmarks import quiz
from secl.question import Question
from secl.records import Reply
from secl.settings.groups import AdapterSettings, ModelSettings
from secl.writing import SamplingParameters, joined
from tests.backends.conftest import Say
from tests.backends.endpoint.real import free_port, wait_for

READY_SECONDS = 600
TOP = 64


class Server:
    """A vLLM server of a model folder in float32, on one processor."""

    def __init__(self, folder: Path, versions: Path, log: Path, core: int) -> None:
        self.folder, self.versions, self.log, self.core = folder, versions, log, core
        self.port = free_port()
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
            "VLLM_LORA_RESOLVER_CACHE_DIR": str(self.versions),
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        arguments = (
            f"--model {self.folder} --served-model-name base --host 127.0.0.1 --port {self.port} --max-model-len 2048 "
            f"--dtype float32 --enforce-eager --block-size 32 --max-logprobs {TOP} "
            "--enable-lora --max-loras 1 --max-lora-rank 8 --lora-target-modules q_proj v_proj "
            # On CPUs, the adapter of one request changes other requests of the same batch.
            "--max-num-seqs 1"
        )
        command = [os.environ["SECL_VLLM"], "-m", "vllm.entrypoints.openai.api_server", *arguments.split()]
        command += ["--hf-overrides", '{"head_dtype":"float32"}']
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)

    def wait(self) -> None:
        """Wait until the server answers, and has warmed up."""
        wait_for(f"{self.url}/health", self.process, self.log, READY_SECONDS)
        body = {"model": "base", "prompt": [[1, 2, 3]], "max_tokens": 1}
        httpx.post(f"{self.url}/v1/completions", json=body, timeout=120).raise_for_status()

    def kill(self) -> None:
        """End it and all its workers at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    source = locate("smollm2")
    assert isinstance(source, Path)
    folder = convert_gguf(source, torch.float32)
    place = tmp_path_factory.mktemp("vllm")
    (place / "versions").mkdir()
    started = Server(folder, place / "versions", place / "log", min(os.sched_getaffinity(0)))
    try:
        started.wait()
        yield started
    finally:
        started.kill()


@pytest.fixture
def remote(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalModel]:
    model = learner()
    monkeypatch.setattr(vllm_engine, "TOP", TOP)
    answer_by_vllm(model, server.url, server.versions)
    yield model
    model.close()


def learner() -> Any:
    return LocalModel(load(ModelSettings(name="smollm2", dtype="fp32")), adapter=AdapterSettings(learning_rate=5e-4))


def choices(count: int) -> list[Question]:
    return [question for domain in ("capitals", "science") for question in quiz(domain, count // 2, 1)]


OPEN = [
    Question("Who wrote Hamlet?", id="short"),
    Question("Why is the sky blue?", form="sentence", id="sentence"),
    Question("Tom has 3 apples and buys 4. How many has he?", form="number", id="number"),
]


def apart(one: Reply, other: Reply) -> tuple[float, float]:
    """Differences of stated confidence (largest of ten bins) and of entropy, between equal answers."""
    assert (one.text, one.answer, one.version) == (other.text, other.answer, other.version)
    return max(abs(a - b) for a, b in zip(one.bins, other.bins, strict=True)), abs(one.entropy - other.entropy)


def test_stated_confidence_and_p_true_agree_with_the_model_in_this_process(remote: Any, say: Say) -> None:
    local = learner()
    bins, entropies, p_true = [0.0], [0.0], [0.0]
    for question in [*choices(10), *OPEN]:
        here, there = local.answer(question, evidence=["p_true"]), remote.answer(question, evidence=["p_true"])
        confidence, entropy = apart(there.reply, here.reply)
        bins.append(confidence)
        entropies.append(entropy)
        one, other = (
            local.gather(question, here.reply, ["p_true"]).p_true,
            remote.gather(question, there.reply, ["p_true"]).p_true,
        )
        # Servers have other random numbers, so candidates from sampled lists differ.
        same = slice(1) if one.source.sampled else slice(None)
        assert one.candidates[same] == other.candidates[same]
        p_true += [abs(a - b) for a, b in zip(one.probabilities[same], other.probabilities[same], strict=True)]
    say(f"largest differences: bins {max(bins):.1e}, P(True) {max(p_true):.1e}, entropy {max(entropies):.3f} nats")
    assert max(bins) < 1e-3
    assert max(p_true) < 1e-3
    assert max(entropies) < 0.2


def test_evidence_about_candidates_agrees_with_the_model_in_this_process(remote: Any, say: Say) -> None:
    local, worst, stream = learner(), 0.0, choices(6)
    for each in (local, remote):
        each.prefetch(stream, [["candidates"]] * len(stream), weights_fixed=True)
    for question in stream:
        here, there = (each.answer(question, evidence=["candidates"]) for each in (local, remote))
        one, other = (
            local.gather(question, here.reply, ["candidates"]).candidates,
            remote.gather(question, there.reply, ["candidates"]).candidates,
        )
        assert [each.tokens for each in one.likelihoods if each] == [each.tokens for each in other.likelihoods if each]
        worst = max(
            worst,
            *(abs(a - b) for a, b in zip(one.letters[0].log_p, other.letters[0].log_p, strict=True)),
            *(abs(a.given - b.given) for a, b in zip(one.likelihoods, other.likelihoods, strict=True) if a and b),
        )
    say(f"letters under another order and likelihoods differ by at most {worst:.1e} nats")
    assert worst < 1e-2


def test_a_model_with_only_its_tokenizer_here_agrees_too(server: Server, say: Say) -> None:
    local, worst = learner(), 0.0
    alone: Any = VllmModel(server.url, str(server.folder))
    for question in choices(6):
        here, there = (each.answer(question, evidence=["candidates"]) for each in (local, alone))
        worst = max(worst, apart(there.reply, here.reply)[0])
        one, other = (
            each.gather(question, here.reply, ["candidates"]).candidates.likelihoods for each in (local, alone)
        )
        assert [each.given for each in other] == pytest.approx([each.given for each in one], abs=1e-3)
    alone.close()
    say(f"bins differ by at most {worst:.1e}")
    assert worst < 1e-3


def test_texts_are_those_of_the_model_in_this_process(remote: Any, say: Say) -> None:
    asked = Question("Tell me about Paris.", form="text", system="Be brief.")
    (whole,) = joined(learner().write(asked, SamplingParameters(max_tokens=40)))
    chunks = list(remote.write(asked, SamplingParameters(max_tokens=40, top_logprobs=3)))
    (found,) = joined(chunks)
    assert (found.text, found.finish, found.completion_tokens) == (whole.text, whole.finish, whole.completion_tokens)
    assert len(chunks) > 20
    stop = whole.text[30:34]
    (cut,) = joined(remote.write(asked, SamplingParameters(max_tokens=40, stop=(stop,))))
    assert cut.text == whole.text[: whole.text.index(stop)]
    drawn = [
        joined(remote.write(asked, SamplingParameters(max_tokens=20, temperature=0.9, seed=7, n=3))) for _ in range(2)
    ]
    assert drawn[0] == drawn[1]
    assert len({each.text for each in drawn[0]}) == 3
    say(f"{found.text!r} in {len(chunks)} chunks; drawn: {drawn[0][0].text!r}")


def test_a_text_is_read_as_in_this_process_whoever_wrote_it(remote: Any, say: Say) -> None:
    asked, local = Question("Tell me about Paris.", form="text", system="Be brief."), learner()
    (whole,) = joined(remote.write(asked, SamplingParameters(max_tokens=40)))
    expected = local.answer(asked, written=whole.text).reply
    kept = remote.answer(asked, written=whole).reply
    anew = remote.answer(asked, written=whole.text).reply
    differences = [apart(each, expected) for each in (kept, anew)]
    say(f"bins and entropies differ by at most {max(differences)}")
    assert max(bins for bins, _ in differences) < 1e-3
    assert max(entropy for _, entropy in differences) < 0.2


def test_a_version_answers_as_in_this_process_after_a_restart(remote: Any, server: Server, say: Say) -> None:
    local, worst = learner(), 0.0
    question, *others = choices(6)
    for version in (1, 2, 3):
        local.learner.learn(question, local.answer(question).reply, 0.2)
        remote.learner.learn(question, remote.answer(question).reply, 0.2)
        if version == 3:
            server.kill()
            server.start()
            server.wait()
        for other in others:
            expected, found = local.answer(other), remote.answer(other)
            worst = max(worst, apart(found.reply, expected.reply)[0], apart(found.frozen, expected.frozen)[0])
            assert expected.reply.version == version
            assert expected.reply.stated != expected.frozen.stated
    say(f"bins of adapted and frozen replies differ by at most {worst:.1e}")
    assert worst < 1e-3
