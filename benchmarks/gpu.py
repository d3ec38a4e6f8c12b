"""The first visit to a GPU: what a processor cannot test, and how fast it is there.

    python -m benchmarks.gpu [--out FILE] [--model smollm2]        # make test-gpu
    python -m benchmarks.gpu --device cpu --tiny                   # every part with tiny models, on a processor

Needs no network. Prints *check, value, bar, ok* for each part, and writes all of them as JSON after each.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from benchmarks.serving import serve
from benchmarks.setting import Setting
from benchmarks.timing import seconds
from secl.backends.generation import Draft
from secl.backends.local.fast.shared_network import SharedNetwork
from secl.backends.local.loading.loader import load, wrap
from secl.backends.local.model import LocalModel
from secl.calibrator import Calibrator
from secl.data.quiz import quiz
from secl.errors import ModelError, SeclError
from secl.gates import Always
from secl.question import Question
from secl.settings.groups import AdapterSettings, LoopSettings

SENTENCE = "It was a dark and stormy night, and 17 ships lay in the harbour. "
LARGE = {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
         "num_key_value_heads": 8}  # fmt: skip
TINY = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2}  # fmt: skip


@dataclass(frozen=True)
class Place:
    """Where everything runs: a device, a model, and whether all is tiny."""

    device: str
    model: str
    tiny: bool

    @property
    def here(self) -> torch.device:
        return torch.device(self.device)

    @property
    def cuda(self) -> bool:
        return self.here.type == "cuda"

    def local(self, dtype: str = "fp32", device: str | None = None, **loading: Any) -> LocalModel:
        """The small real model, or a tiny random one."""
        settings = AdapterSettings(layers="last:2", learning_rate=1e-3)
        if not self.tiny:
            where = {} if "device_map" in loading else {"device": device or self.device}
            return LocalModel(load(self.model, dtype=dtype, **where, **loading), settings)  # type: ignore[arg-type]
        return LocalModel(wrap("tiny", self.random(dtype=dtype).to(device or self.device), self.tokenizer()), settings)

    def random(self, family: str = "llama", dtype: str = "bf16", **sizes: int) -> Any:
        """A model with random weights whose logits have a deviation of about 2."""
        shape = {**TINY, "max_position_embeddings": 65536, "vocab_size": len(self.tokenizer()), **sizes}
        config = transformers.AutoConfig.for_model(family, **shape)
        torch.manual_seed(0)
        with self.here:
            kind = {"bf16": torch.bfloat16, "fp32": torch.float32}[dtype]
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=kind).eval()
            torch.nn.init.normal_(model.get_output_embeddings().weight, std=2 / math.sqrt(shape["hidden_size"]))
        return model

    def save(self, folder: Path, **sizes: int) -> None:
        """Save a random model as a folder that can be loaded."""
        self.random(**sizes).save_pretrained(folder)  # type: ignore[arg-type]
        self.tokenizer().save_pretrained(folder)

    def tokenizer(self) -> Any:
        if self.tiny:
            from tests.tiny import tiny_tokenizer

            return tiny_tokenizer()
        return load(self.model, device="cpu").tokenizer

    def large(self) -> LocalModel:
        """A model of 8 billion random weights; a tiny one in a tiny test."""
        model = self.random(**({} if self.tiny else LARGE))  # type: ignore[arg-type]
        return LocalModel(wrap("large", model, self.tokenizer()), AdapterSettings(layers="last:2"))

    def least(self, work: Callable[[], object], times: int = 3) -> float:
        """The least seconds of some runs."""
        return min(seconds(work) for _ in range(1 if self.tiny else times))


@dataclass(frozen=True)
class Row:
    """What a part found: `ok` is None where nothing is to be judged."""

    value: object
    ok: bool | None = None


def machine(place: Place) -> Row:
    side = 64 if place.tiny else 8192
    one = torch.randn(side, side, device=place.here, dtype=torch.bfloat16)
    teraflops = 2 * side**3 / place.least(lambda: one @ one) / 1e12
    name = torch.cuda.get_device_name() if place.cuda else "cpu"
    cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    return Row(f"{name}, torch {torch.__version__}, cuDNN {cudnn}, {teraflops:.3g} TFLOP/s")


def families(place: Place) -> Row:
    names = ("llama", "qwen2", "phi3", "gemma2", "gemma3_text")
    slow = []
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            more = {"head_dim": 8} if name.startswith("gemma") else {"pad_token_id": 0}
            local = LocalModel(wrap(name, place.random(name, "fp32", **more), place.tokenizer()), AdapterSettings())
        slow += [name] if not isinstance(local.backend.network, SharedNetwork) else []
    return Row(f"plain path: {', '.join(slow) or 'none'}", not slow)


def stream(place: Place) -> list[Question]:
    if place.tiny:
        return quiz("capitals", 2, 1)
    return [*quiz("capitals", 8, 1), Question("Who wrote Hamlet?", id="s"),
            Question("How many legs have two cats?", form="number", id="n")]  # fmt: skip


def learned(local: LocalModel, place: Place) -> list[float]:
    loop = Calibrator(local, gate=Always(), loop=LoopSettings(bin_gate=None), evidence=["candidates", "p_true"])
    return [record.reply.stated for record in loop.run(stream(place))]


def agreement(place: Place) -> Row:
    far = differences(learned(place.local(device="cpu"), place), learned(place.local(), place))
    return Row(f"largest difference {max(far):.2g}", max(far) < 1e-3)


def precision(place: Place) -> Row:
    far = differences(learned(place.local("fp32"), place), learned(place.local("bf16"), place))
    mean = sum(far) / len(far)
    return Row(f"mean {mean:.2g}, largest {max(far):.2g}", None if place.tiny else mean < 0.03)


def differences(one: Sequence[float], other: Sequence[float]) -> list[float]:
    return [abs(a - b) for a, b in zip(one, other, strict=True)]


def kernels(place: Place) -> Row:
    from torch.profiler import ProfilerActivity, profile

    local = place.local("bf16")
    with profile(activities=[ProfilerActivity.CUDA if place.cuda else ProfilerActivity.CPU]) as seen:
        learned(local, place)
    bad = sorted({event.key for event in seen.key_averages() if "cudnn_generated" in event.key})
    return Row(f"{len(bad)} kernels of cuDNN's attention", not bad if place.cuda else None)


def finite(place: Place) -> Row:
    local = place.local("bf16")
    for length in (20, 30) if place.tiny else range(10, 30):
        question = Question(SENTENCE * length + "How many ships?", options=("16", "17"), id=str(length))
        local.learn(question, local.answer(question).reply, 0.3)
    good = all(parameter.isfinite().all().item() for parameter in local.adapter.parameters.values())
    return Row("finite" if good else "not finite", good)


def repeats(place: Place) -> Row:
    digests = []
    for _ in range(2):
        local = place.local("bf16")
        learned(local, place)
        local.restore(local.snapshot())
        learned(local, place)
        digests.append(hashlib.sha256(local.weights()).hexdigest()[:8])
    return Row(" and ".join(digests), digests[0] == digests[1])


def spread(place: Place) -> Row:
    if place.tiny:
        return Row("left out: it needs a real model")
    with tempfile.TemporaryDirectory() as folder:
        layers = {f"model.layers.{number}": place.device if number > 20 else "cpu" for number in range(30)}
        table = {"model.embed_tokens": "cpu", "model.rotary_emb": "cpu", **layers, "model.norm": place.device,
                 "lm_head": place.device}  # fmt: skip
        file = Path(folder) / "map.json"
        file.write_text(json.dumps(table), encoding="utf-8")
        far = differences(learned(place.local(), place), learned(place.local(device_map=str(file)), place))
    return Row(f"largest difference {max(far):.2g}", max(far) < 0.01)


def bits(place: Place) -> Row:
    """A random model in 8 and in 4 bits beside itself in bf16; the small real one is quantised already."""
    with tempfile.TemporaryDirectory() as folder:
        place.save(Path(folder), hidden_size=256, intermediate_size=512)
        settings = AdapterSettings(layers="last:2")
        confidences = {}
        for kind in (None, "8bit", "4bit"):
            model = load(folder, dtype="bf16", device=place.here.type, quantize=kind)
            confidences[kind] = learned(LocalModel(model, settings), place)
    far = [differences(confidences[None], confidences[kind]) for kind in ("8bit", "4bit")]
    means = [sum(each) / len(each) for each in far]
    return Row(f"mean difference from bf16 {means[0]:.2g} and {means[1]:.2g}", means[0] < 0.05 and means[1] < 0.2)


def long_chats(place: Place) -> Row:
    network: Any = place.large().backend.network
    peaks = []
    for length in (256, 512) if place.tiny else (4096, 16384, 32768):
        if place.cuda:
            torch.cuda.reset_peak_memory_stats()
        before = [number % 200 for number in range(length)]
        branches = [[*before, 1, 2, branch] for branch in range(5)]
        begun = network.run([before], keep=True)
        grown = network.grow(begun, begun.trie.paths, branches)
        network.adapted(grown, grown.trie.paths[0][-1:])()
        peaks.append(torch.cuda.max_memory_allocated() / 2**30 if place.cuda else 0.0)
    return Row(f"peak GiB {', '.join(f'{peak:.1f}' for peak in peaks)}", True)


def too_small(place: Place) -> Row:
    if not place.cuda:
        return Row("left out: only a GPU runs out of its memory")
    local, question = place.local("bf16"), stream(place)[0]
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(torch.cuda.memory_reserved() / torch.cuda.mem_get_info()[1] + 0.002)
    try:
        huge = Question(SENTENCE * 400, options=("a", "b"), id="huge")
        local.answer(huge)
        said = "it fitted"
    except ModelError as problem:
        said = str(problem)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    return Row(said, "more memory" in said and local.answer(question).reply.stated >= 0)


def crowded(place: Place) -> Row:
    """The same answers while something else fills the device: what goes through it together stays the same."""
    usual = learned(place.local("bf16"), place)
    left = 3 * 2**30
    filled = max(0, torch.cuda.mem_get_info()[0] - left) if place.cuda else 0
    other = torch.empty(filled, dtype=torch.uint8, device=place.here)
    same = usual == learned(place.local("bf16"), place)
    return Row(f"{other.numel() / 2**30:.0f} GiB filled, {'equal' if same else 'not equal'}", same)


FAILING = """
import sys, torch
from benchmarks.gpu import Place
from secl.backends.local.fast.shared_network import SharedNetwork
from secl.errors import ModelError

def fail(*_, **__):
    torch.zeros(4, device="cuda")[torch.tensor([9], device="cuda")].tolist()  # beyond the end

SharedNetwork.run = fail
try:
    Place("cuda", sys.argv[1], False).local("bf16")
except ModelError as problem:
    print(problem)
"""


def failing(place: Place) -> Row:
    """A device that fails in the trial, in a process of its own, which can compute nothing afterwards."""
    if not place.cuda:
        return Row("left out: a processor does not fail like that")
    ended = subprocess.run([sys.executable, "-c", FAILING, place.model], capture_output=True, text=True, check=False)
    said = (ended.stdout.splitlines() or [f"code {ended.returncode}"])[-1]
    return Row(said, said.startswith("the device failed while the model was tried"))


def passes(place: Place) -> Row:
    network: Any = place.large().backend.network
    weights = sum(part.numel() for layer in network.layout.layers for part in layer.parameters())
    found = {}
    for size in (50, 100) if place.tiny else (250, 1000, 2500, 8000):
        sequences = [[(number * 7 + branch) % 200 for number in range(50)] for branch in range(size // 50)]
        took = place.least(lambda sequences=sequences: network.run(sequences))  # type: ignore[misc]
        found[size] = 2 * weights * len(network.run(sequences).trie.tokens) / took / 1e12
    return Row(", ".join(f"{size} tokens {speed:.3g} TFLOP/s" for size, speed in found.items()))


def waits(place: Place) -> Row:
    """How often the host waits for the GPU in a window of questions."""
    local, questions = place.local("bf16"), quiz("capitals", 16, 1)
    local.prefetch(questions, [()] * 16, weights_fixed=True)
    if not place.cuda:
        return Row("left out: nobody waits for a processor")
    torch.cuda.set_sync_debug_mode("warn")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        local.prefetch(questions, [()] * 16, weights_fixed=True)
    torch.cuda.set_sync_debug_mode("default")
    each = sum("synchroniz" in str(one.message) for one in said) / 16
    return Row(f"{each:.1f} a question", each <= 3)


def questions(place: Place) -> Row:
    local, asked = place.large(), quiz("capitals", 4 if place.tiny else 64, 1)
    answering = place.least(lambda: local.prefetch(asked, [()] * len(asked), weights_fixed=True))
    lesson, reply = asked[0], local.answer(asked[0]).reply
    learning = place.least(lambda: local.learn(lesson, reply, 0.3))
    return Row(f"{len(asked) / answering:.1f} questions a second, a lesson {1000 * learning:.0f} ms")


def decoding(place: Place) -> Row:
    """How long a step takes that writes one token of 1, 16 and 64 texts together."""
    local, length = place.large(), 4 if place.tiny else 32
    took = {}
    for count in (1, 16, 64):
        for _ in range(2):  # the first time is for warming up
            batch = [Draft([(row + number) % 200 for number in range(60)], "text", length) for row in range(count)]
            took[count] = seconds(lambda batch=batch: local.backend.write([batch]))  # type: ignore[misc]
    return Row(", ".join(f"{count} texts {1000 * each / length:.3g} ms a token" for count, each in took.items()))


def server(place: Place) -> Row:
    """How long eight clients wait while a server learns, beside one that does not."""
    asked = quiz("capitals", 4 if place.tiny else 80, 1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if place.tiny:
            place.save(folder / "model")
        model = str(folder / "model") if place.tiny else place.model
        setting = Setting(model, "bf16", "cuda" if place.cuda else "cpu")
        learning = serve(setting, folder / "learning", asked, 8, learns=True)["p95"]
        alone = serve(setting, folder / "alone", asked, 8, learns=False)["p95"]
    return Row(f"p95 {learning:.2g} s and {alone:.2g} s", learning < 2 * alone if place.cuda else None)


def head(place: Place) -> Row:
    """Logits of the whole vocabulary beside exact ones: apart by bf16's grid if they were rounded."""
    rows: Any = place.local("bf16").backend.network.head
    hidden = torch.randn(8, rows.module.in_features, device=place.here, dtype=torch.bfloat16)
    none = torch.tensor([], dtype=torch.int64, device=place.here)
    with torch.no_grad():
        every = torch.arange(rows.module.out_features, device=place.here)
        exact: Tensor = rows.rows(hidden, every)
        far = (rows.logits(hidden, none) - exact).abs().max().item()
    return Row(f"largest difference {far:.2g}", far < 1e-2 if place.cuda else None)


PARTS: dict[str, tuple[Callable[[Place], Row], int, str]] = {
    "machine": (machine, 20, "printed"),
    "fast path of five families": (families, 30, "all"),
    "CPU against device, float32": (agreement, 40, "1e-3"),
    "float32 against bf16": (precision, 30, "mean .03"),
    "attention without cuDNN": (kernels, 20, "none"),
    "lessons of many lengths": (finite, 30, "finite"),
    "the same lessons twice": (repeats, 30, "equal"),
    "layers on GPU and CPU": (spread, 20, ".01"),
    "8 and 4 bits": (bits, 20, ".05 and .2"),
    "branched chats": (long_chats, 30, "no error"),
    "too little memory": (too_small, 20, "one sentence"),
    "a device full of others": (crowded, 20, "equal"),
    "a device that fails": (failing, 30, "one sentence"),
    "logits in float32": (head, 20, ".01"),
    "waits for the GPU": (waits, 20, "3 a question"),
    "speed of passes, 8B": (passes, 30, "printed"),
    "speed of questions, 8B": (questions, 30, "printed"),
    "speed of writing, 8B": (decoding, 30, "printed"),
    "a server that learns": (server, 60, "2 times alone"),
}
"""Each check: how it is made, its most seconds on a GPU, nine minutes together, and what is asked of it."""

PATIENCE = 120
"""Most seconds of a part on a processor."""


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError(f"not done in {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def checked(place: Place, part: Callable[[Place], Row], limit: int) -> Row:
    """A part's row; one that fails or takes too long is a row, too."""
    try:
        with at_most(limit):
            return part(place)
    except (SeclError, RuntimeError, ValueError, TypeError, OSError, ImportError, LookupError, AttributeError,
            AssertionError) as problem:  # fmt: skip
        return Row(f"{type(problem).__name__}: {next(iter(str(problem).splitlines()), '')}", ok=False)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description="Check a GPU.")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args(arguments)
    if options.device != "cpu" and not torch.cuda.is_available():
        print("There is no GPU here; --device cpu --tiny runs every part on the processor.")
        return 0
    torch.backends.cuda.enable_cudnn_sdp(False)
    place = Place(options.device, options.model, options.tiny)
    rows: list[dict[str, object]] = []
    for name, (part, limit, bar) in PARTS.items():
        began = time.perf_counter()
        row = checked(place, part, limit if place.cuda else PATIENCE)
        took = round(time.perf_counter() - began, 1)
        rows.append({"check": name, **asdict(row), "bar": bar, "seconds": took})
        print(f"{name} | {row.value} | {bar} | {row.ok} | {took} s", flush=True)
        if options.out:
            options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return int(any(row["ok"] is False for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
