"""What a processor cannot show of a GPU, and how fast a GPU is: `make test-gpu`, without a network.

Each check reports what it found into gpu.xml. The same checks run with tiny models on a processor (`make test-all`), so
that none fails on its first day for a silly reason.
"""

import gc
import hashlib
import math
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from benchmarks.serving import serve
from benchmarks.setting import Setting
from benchmarks.timing import seconds
from secl import Question
from secl.backends.generation import Generation
from secl.backends.local.fast import shared_network
from secl.backends.local.fast.shared_network import SharedNetwork
from secl.backends.local.loading.conversion import convert_gguf
from secl.backends.local.loading.loader import load, locate, wrap
from secl.backends.local.model import LocalModel
from secl.data.benchmarks import quiz
from secl.errors import ModelError
from secl.gates import Always
from secl.learning import AdapterSettings, Calibrator, LoopSettings
from secl.settings.groups import ModelSettings
from tests.conftest import ROOT
from tests.tiny import tiny_tokenizer

pytestmark = pytest.mark.filterwarnings("default")  # a GPU with little memory may say so

MODEL = "smollm2"
PATIENCE = 120
"""Most seconds of a check."""

SENTENCE = "It was a dark and stormy night, and 17 ships lay in the harbour. "
LARGE = {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
         "num_key_value_heads": 8}  # fmt: skip
TINY = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2}  # fmt: skip

Report = Callable[[str], None]
"""Writes what a check found into gpu.xml and onto the screen."""


@dataclass(frozen=True)
class Place:
    """Where everything runs: a device, and whether all is tiny."""

    device: str
    tiny: bool

    @property
    def cuda(self) -> bool:
        return self.device == "cuda"

    def local(self, dtype: str = "fp32", device: str | None = None, **loading: Any) -> LocalModel:
        """The small real model, or a tiny random one."""
        settings = AdapterSettings(layers="last:2", learning_rate=1e-3)
        if not self.tiny:
            return LocalModel(
                load(ModelSettings(name=MODEL, dtype=dtype, device=device or self.device, **loading)), settings
            )
        return LocalModel(wrap("tiny", self.random(dtype=dtype).to(device or self.device), self.tokenizer()), settings)

    def random(self, family: str = "llama", dtype: str = "bf16", **sizes: int) -> Any:
        """A model with random weights whose logits have a deviation of about 2."""
        shape = {**TINY, "max_position_embeddings": 65536, "vocab_size": len(self.tokenizer()), **sizes}
        config = transformers.AutoConfig.for_model(family, **shape)
        torch.manual_seed(0)
        with torch.device(self.device):
            kind = {"bf16": torch.bfloat16, "fp32": torch.float32}[dtype]
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=kind).eval()
            torch.nn.init.normal_(model.get_output_embeddings().weight, std=2 / math.sqrt(shape["hidden_size"]))
        return model

    def save(self, folder: Path, **sizes: int) -> Path:
        """Save a random model as a folder that can be loaded."""
        self.random(**sizes).save_pretrained(folder)  # type: ignore[arg-type]
        self.tokenizer().save_pretrained(folder)
        return folder

    def tokenizer(self) -> Any:
        return tiny_tokenizer() if self.tiny else load(ModelSettings(name=MODEL, device="cpu")).tokenizer

    def large(self) -> LocalModel:
        """A model of 8 billion random weights; a tiny one in a tiny test."""
        model = self.random(**({} if self.tiny else LARGE))  # type: ignore[arg-type]
        return LocalModel(wrap("large", model, self.tokenizer()), AdapterSettings(layers="last:2"))

    def least(self, work: Callable[[], object], times: int = 3) -> float:
        """The least seconds of some runs."""
        return min(seconds(work) for _ in range(1 if self.tiny else times))

    def stream(self) -> list[Question]:
        if self.tiny:
            return quiz("capitals", 2, 1)
        return [*quiz("capitals", 8, 1), Question("Who wrote Hamlet?", id="s"),
                Question("How many legs have two cats?", form="number", id="n")]  # fmt: skip

    def learned(self, local: LocalModel, questions: Sequence[Question] = ()) -> list[float]:
        """Stated confidences over a stream on which the model learns from every question."""
        loop = Calibrator(
            local, method="secl", gate=Always(), loop=LoopSettings(bin_gate=None), evidence=["candidates", "p_true"]
        )
        return [record.reply.stated for record in loop.run(questions or self.stream())]


@pytest.fixture(
    params=[
        pytest.param(Place("cpu", tiny=True), id="tiny", marks=pytest.mark.slow),
        pytest.param(Place("cuda", tiny=False), id="gpu", marks=pytest.mark.elsewhere("SECL_GPU")),
    ]
)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Tiny models on a processor, or real sizes on a GPU; a check that hangs there is ended."""
    chosen: Place = request.param
    if chosen.cuda and not torch.cuda.is_available():
        pytest.skip("there is no GPU")

    def stop(*_: object) -> None:
        raise TimeoutError(f"not done in {PATIENCE} s")

    before, allowed = signal.signal(signal.SIGALRM, stop), torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    torch.backends.cuda.enable_cudnn_sdp(False)
    signal.alarm(PATIENCE)
    yield chosen
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    torch.backends.cuda.enable_cudnn_sdp(allowed)


@pytest.fixture
def report(record_property: Callable[[str, object], None], request: pytest.FixtureRequest) -> Report:
    def note(text: str) -> None:
        record_property("found", text)
        sys.stdout.write(f"{request.node.name}: {text}\n")

    return note


@pytest.fixture
def on_gpu(place: Place) -> Place:
    if not place.cuda:
        pytest.skip("only a GPU can show it")
    return place


def differences(one: Sequence[float], other: Sequence[float]) -> list[float]:
    return [abs(a - b) for a, b in zip(one, other, strict=True)]


def test_the_machine_is_reported(place: Place, report: Report) -> None:
    side = 64 if place.tiny else 8192
    one = torch.randn(side, side, device=place.device, dtype=torch.bfloat16)
    teraflops = 2 * side**3 / place.least(lambda: one @ one) / 1e12
    name = torch.cuda.get_device_name() if place.cuda else "cpu"
    cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    report(f"{name}, torch {torch.__version__}, cuDNN {cudnn}, {teraflops:.3g} TFLOP/s")


@pytest.mark.parametrize("family", ["llama", "qwen2", "phi3", "gemma2", "gemma3_text"])
def test_five_families_take_the_fast_path(place: Place, family: str) -> None:
    more = {"head_dim": 8} if family.startswith("gemma") else {"pad_token_id": 0}
    local = LocalModel(wrap(family, place.random(family, "fp32", **more), place.tokenizer()), AdapterSettings())
    assert isinstance(local.backend.network, SharedNetwork)


def test_processor_and_device_agree_in_float32(place: Place, report: Report) -> None:
    far = differences(place.learned(place.local(device="cpu")), place.learned(place.local()))
    report(f"largest difference {max(far):.2g}")
    assert max(far) < 1e-3


def test_bf16_stays_near_float32(place: Place, report: Report) -> None:
    far = differences(place.learned(place.local("fp32")), place.learned(place.local("bf16")))
    mean = sum(far) / len(far)
    report(f"mean difference {mean:.2g}, largest {max(far):.2g}")
    assert place.tiny or mean < 0.03


def test_attention_takes_no_kernel_of_cudnn(place: Place) -> None:
    from torch.profiler import ProfilerActivity, profile

    local = place.local("bf16")
    with profile(activities=[ProfilerActivity.CUDA if place.cuda else ProfilerActivity.CPU]) as seen:
        place.learned(local)
    assert not place.cuda or not [event.key for event in seen.key_averages() if "cudnn_generated" in event.key]


def test_lessons_of_many_lengths_leave_finite_weights(place: Place) -> None:
    local = place.local("bf16")
    for length in (20, 30) if place.tiny else range(10, 30):
        question = Question(SENTENCE * length + "How many ships?", options=("16", "17"), id=str(length))
        local.learner.learn(question, local.answer(question).reply, 0.3)
    assert all(parameter.isfinite().all().item() for parameter in local.adapter.parameters.values())


def test_the_same_lessons_give_the_same_weights_twice(place: Place) -> None:
    digests = []
    for _ in range(2):
        local = place.local("bf16")
        place.learned(local)
        local.learner.restore(local.learner.snapshot())
        place.learned(local)
        digests.append(hashlib.sha256(local.learner.weights()).hexdigest())
    assert digests[0] == digests[1]


def test_layers_on_gpu_and_processor_agree_with_all_on_the_gpu(on_gpu: Place, report: Report) -> None:
    layers = {f"model.layers.{number}": "cuda" if number > 20 else "cpu" for number in range(30)}
    table = {"model.embed_tokens": "cpu", "model.rotary_emb": "cpu", **layers, "model.norm": "cuda", "lm_head": "cuda"}
    folder = convert_gguf(Path(locate(MODEL)), torch.float32)
    network = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, device_map=table)
    spread = replace(load(ModelSettings(name=MODEL, dtype="fp32", device="cpu")), model=network.eval())
    questions = quiz("capitals", 4, 1)  # without texts, which two thirds of a model on a processor write slowly
    settings = AdapterSettings(layers="last:2", learning_rate=1e-3)
    far = differences(
        on_gpu.learned(on_gpu.local(), questions), on_gpu.learned(LocalModel(spread, settings), questions)
    )
    report(f"largest difference {max(far):.2g}")
    assert max(far) < 0.01


def test_eight_and_four_bits_stay_near_bf16(place: Place, report: Report, tmp_path: Path) -> None:
    """A random model beside itself; the small real one is quantised already."""
    folder = str(place.save(tmp_path / "model", hidden_size=256, intermediate_size=512))
    exact, *rounded = (
        place.learned(
            LocalModel(
                load(ModelSettings(name=folder, dtype="bf16", device=place.device, quantize=kind)),
                AdapterSettings(layers="last:2"),
            )
        )
        for kind in (None, "8bit", "4bit")
    )
    eight, four = (sum(far) / len(far) for far in (differences(exact, each) for each in rounded))
    report(f"mean difference {eight:.2g} and {four:.2g}")
    assert eight < 0.05
    assert four < 0.2


def test_long_chats_branch(place: Place, report: Report) -> None:
    network: Any = place.large().backend.network
    peaks = []
    for length in (256, 512) if place.tiny else (4096, 16384, 32768):
        if place.cuda:
            torch.cuda.reset_peak_memory_stats()
        before = [number % 200 for number in range(length)]
        branches = [[*before, 1, 2, branch] for branch in range(5)]
        begun = network.run([before], keep=True)
        grown = network.grow([begun], branches)
        network.adapted(grown, grown.paths[0][-1:])[1]()
        peaks.append(torch.cuda.max_memory_allocated() / 2**30 if place.cuda else 0.0)
    report(f"peak GiB {', '.join(f'{peak:.1f}' for peak in peaks)}")


def test_a_long_prompt_is_read_in_chunks_between_which_others_compute(
    place: Place, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place.tiny:
        monkeypatch.setattr(shared_network, "CHUNK", 64)
    network: Any = place.large().backend.network
    prompt, other = [number % 200 for number in range(4 * shared_network.CHUNK)], [[*range(1, 50)]]

    def read(between: Callable[[], None]) -> tuple[torch.Tensor, list[float]]:
        """The states behind the prompt, and the seconds of each chunk."""
        steps, waits = network.begin(prompt), list[float]()
        while True:
            began = time.perf_counter()
            try:
                next(steps)
            except StopIteration as end:
                return end.value[0].states, waits
            if place.cuda:
                torch.cuda.synchronize()
            waits.append(time.perf_counter() - began)
            between()

    alone, states = read(lambda: None)[0], network.run(other).states

    def others() -> None:
        assert torch.equal(network.run(other).states, states)

    between, waits = read(others)
    assert torch.equal(alone, between)
    assert len(waits) == 3
    report(f"{shared_network.CHUNK} tokens in at most {max(waits):.2g} s")


def test_too_little_memory_is_one_sentence_and_the_model_goes_on(on_gpu: Place) -> None:
    local, question = on_gpu.local("bf16"), on_gpu.stream()[0]
    gc.collect()  # the large model of an earlier check would be freed in the middle of this one
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(torch.cuda.memory_reserved() / torch.cuda.mem_get_info()[1] + 0.002)
    try:
        with pytest.raises(ModelError, match="more memory"):
            local.answer(Question(SENTENCE * 400, options=("a", "b"), id="huge"))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert local.answer(question).reply.stated >= 0


def test_answers_stay_the_same_while_the_device_is_full_of_others(place: Place, report: Report) -> None:
    usual = place.learned(place.local("bf16"))
    filled = max(0, torch.cuda.mem_get_info()[0] - 3 * 2**30) if place.cuda else 0
    other = torch.empty(filled, dtype=torch.uint8, device=place.device)
    assert usual == place.learned(place.local("bf16"))
    report(f"{other.numel() / 2**30:.0f} GiB filled")


FAILING = """
import torch
from secl.backends.local.fast.shared_network import SharedNetwork
from secl.errors import ModelError
from tests.test_gpu import Place

def fail(*_, **__):
    torch.zeros(4, device="cuda")[torch.tensor([9], device="cuda")].tolist()  # beyond the end

SharedNetwork.run = fail
try:
    Place("cuda", False).local("bf16")
except ModelError as problem:
    print(problem)
"""


@pytest.mark.usefixtures("on_gpu")
def test_a_device_that_fails_is_one_sentence() -> None:
    """In a process of its own, which can compute nothing afterwards."""
    path = os.pathsep.join(sys.path)
    ended = subprocess.run(
        [sys.executable, "-c", FAILING],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert ended.stdout.splitlines()[-1:], ended.stderr
    assert ended.stdout.splitlines()[-1].startswith("the device failed in a test of the model")


def test_logits_are_computed_in_float32(place: Place, report: Report) -> None:
    """Logits of the whole vocabulary beside exact ones: apart by bf16's grid if they were rounded."""
    rows: Any = place.local("bf16").backend.network.head
    hidden = torch.randn(8, rows.module.in_features, device=place.device, dtype=torch.bfloat16)
    none = torch.tensor([], dtype=torch.int64, device=place.device)
    with torch.no_grad():
        exact = rows.rows(hidden, torch.arange(rows.module.out_features, device=place.device))
        far = (rows.logits(hidden, none) - exact).abs().max().item()
    report(f"largest difference {far:.2g}")
    assert not place.cuda or far < 1e-2


def test_a_window_waits_for_the_gpu_at_most_three_times_a_question(on_gpu: Place, report: Report) -> None:
    local, questions = on_gpu.local("bf16"), quiz("capitals", 16, 1)
    local.prefetch(questions, [()] * 16, weights_fixed=True)
    torch.cuda.set_sync_debug_mode("warn")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        local.prefetch(questions, [()] * 16, weights_fixed=True)
    torch.cuda.set_sync_debug_mode("default")
    each = sum("synchroniz" in str(one.message) for one in said) / 16
    report(f"{each:.1f} a question")
    assert each <= 3


def test_the_speed_of_passes_questions_lessons_and_writing_of_8b_is_reported(place: Place, report: Report) -> None:
    local = place.large()
    network: Any = local.backend.network
    weights = sum(part.numel() for layer in network.layout.layers for part in layer.parameters())
    for size in (50, 100) if place.tiny else (250, 1000, 2500, 8000):
        sequences = [[(number * 7 + branch) % 200 for number in range(50)] for branch in range(size // 50)]
        took = place.least(lambda sequences=sequences: network.run(sequences))  # type: ignore[misc]
        report(f"{size} tokens {2 * weights * len(network.run(sequences).trie.tokens) / took / 1e12:.3g} TFLOP/s")
    length = 4 if place.tiny else 32
    for count in (1, 16, 64):  # texts written together
        for _ in range(2):  # the first time is for warming up
            batch = [Generation([(row + number) % 200 for number in range(60)], "text", length) for row in range(count)]
            took = seconds(lambda batch=batch: local.backend.write([batch]))  # type: ignore[misc]
        steps = max(len(generation.written) for generation in batch)
        report(f"{count} texts {1000 * took / steps:.3g} ms a token")
    asked = quiz("capitals", 4 if place.tiny else 64, 1)
    answering = place.least(lambda: local.prefetch(asked, [()] * len(asked), weights_fixed=True))
    reply = local.answer(asked[0]).reply
    learning = place.least(lambda: local.learner.learn(asked[0], reply, 0.3))
    report(f"{len(asked) / answering:.1f} questions a second, a lesson {1000 * learning:.0f} ms")


def test_clients_wait_hardly_longer_while_a_server_learns(place: Place, report: Report, tmp_path: Path) -> None:
    asked = quiz("capitals", 4 if place.tiny else 80, 1)
    model = str(place.save(tmp_path / "model")) if place.tiny else MODEL
    setting = Setting(model, "bf16", place.device)
    learning, alone = (
        serve(setting, tmp_path / str(learns), asked, 8, learns=learns)["p95"] for learns in (True, False)
    )
    report(f"p95 {learning:.2g} s and {alone:.2g} s")
    assert place.tiny or learning < 2 * alone
