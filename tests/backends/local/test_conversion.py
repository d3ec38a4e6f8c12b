"""GGUF files become safetensors folders once, after an announcement."""

import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from secl.backends.endpoint.vllm.server import Versions
from secl.backends.local.loading import conversion
from secl.backends.local.loading.conversion import convert_gguf
from secl.backends.local.loading.loader import load
from secl.errors import ModelError, StorageError
from secl.settings.groups import ModelSettings
from tests.tiny import TEMPLATE, tiny_model, tiny_tokenizer


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Conversions of a test are its own."""
    monkeypatch.setenv("SECL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


def tiny_gguf(path: Path, family: str, *, without: str = "", template: str | None = TEMPLATE) -> Path:
    """Write a tiny random model of a family as llama.cpp stores models, with matrices in blocks of 8 bits."""
    model, tokenizer = tiny_model(family), tiny_tokenizer()
    config = model.config
    writer = gguf.GGUFWriter(str(path), family)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    vocabulary = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(sorted(vocabulary["vocab"], key=vocabulary["vocab"].__getitem__))
    writer.add_token_types([3, 3, *[1] * (len(vocabulary["vocab"]) - 2)])
    writer.add_token_merges([" ".join(merge) for merge in vocabulary["merges"]])
    writer.add_bos_token_id(config.bos_token_id)
    writer.add_eos_token_id(config.eos_token_id)
    if template is not None:
        writer.add_chat_template(template)
    kind = next(kind for kind, name in gguf.MODEL_ARCH_NAMES.items() if name == family)
    names = gguf.get_tensor_name_map(kind, config.num_hidden_layers)
    for name, parameter in model.named_parameters():
        values = as_stored(name, parameter.detach().numpy(), config)
        stored = gguf.GGMLQuantizationType.Q8_0 if values.ndim == 2 else gguf.GGMLQuantizationType.F32
        if name != without:
            own = names.get_name(name, (".weight", ".bias"))
            writer.add_tensor(own, gguf.quantize(values, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def as_stored(name: str, values: np.ndarray, config: Any) -> np.ndarray:
    """Return rows of queries and keys in the order of llama.cpp's converter for Llama."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(name.split(".")[-2])
    if config.model_type != "llama" or heads is None:
        return values
    return values.reshape(heads, 2, -1, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_a_converted_model_computes_what_was_stored(family: str, tmp_path: Path) -> None:
    loaded = load(ModelSettings(name=str(tiny_gguf(tmp_path / "tiny.gguf", family)), dtype="fp32"))
    tokens = torch.arange(40)[None]
    with torch.no_grad():
        ours, original = loaded.model(tokens).logits, tiny_model(family)(tokens).logits
    assert torch.corrcoef(torch.stack([ours.flatten(), original.flatten()]))[0, 1] > 0.99  # 8 bits a weight


def test_what_a_conversion_takes_is_said_once_and_it_is_kept(
    tmp_path: Path, own_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tiny_gguf(tmp_path / "tiny.gguf", "llama")
    folder = convert_gguf(file, torch.float32)
    (line,) = capsys.readouterr().err.splitlines()
    assert folder.parent == own_cache
    assert line.startswith("secl converts tiny.gguf once: about ")
    assert line.endswith(f" in {folder}.")
    assert convert_gguf(file, torch.float32) == folder
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("whole", [2**28, 0])
def test_an_edited_file_or_template_is_converted_anew(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, whole: int
) -> None:
    monkeypatch.setattr(conversion, "WHOLE", whole)
    file = tiny_gguf(tmp_path / "tiny.gguf", "llama")
    folders = [convert_gguf(file, torch.float32)]
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    folders.append(convert_gguf(file, torch.float32))
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    folders.append(convert_gguf(file, torch.float32))
    assert len({*folders}) == 3
    assert convert_gguf(file, torch.float32) == folders[-1]


def test_a_conversion_without_room_is_refused_before_it_starts(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tiny_gguf(tmp_path / "tiny.gguf", "llama")
    size = sum(parameter.numel() for parameter in tiny_model("llama").parameters()) * 2
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": size - 1}))
    with pytest.raises(StorageError, match=r"converting tiny\.gguf needs about .* kB of disk space in"):
        convert_gguf(file, torch.bfloat16)
    assert [path.name for path in own_cache.iterdir()] == ["lock"]
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": size}))
    assert convert_gguf(file, torch.bfloat16).is_dir()


def test_a_file_that_cannot_be_converted_is_named_and_leaves_nothing_behind(tmp_path: Path, own_cache: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"not a model at all")
    with pytest.raises(ModelError, match=r"model\.gguf is not a GGUF file"):
        convert_gguf(tmp_path / "model.gguf", torch.float32)
    assert not own_cache.exists()
    file = tiny_gguf(tmp_path / "broken.gguf", "llama", without="model.layers.1.mlp.up_proj.weight")
    with pytest.raises(ModelError, match=r"broken\.gguf.*model\.layers\.1\.mlp\.up_proj\.weight are not in the file"):
        convert_gguf(file, torch.float32)
    assert [path.name for path in own_cache.iterdir()] == ["lock"]


def test_what_a_killed_conversion_left_is_removed_by_the_next(tmp_path: Path, own_cache: Path) -> None:
    file = tiny_gguf(tmp_path / "tiny.gguf", "llama")
    complete = convert_gguf(file, torch.float32)
    left = own_cache / f"{conversion.UNFINISHED}1"
    left.mkdir()
    (left / "model.safetensors").write_bytes(b"half a model")
    (complete / "config.json").unlink()  # as a power cut may leave it
    assert load(ModelSettings(name=str(file), dtype="fp32")).model.config.num_hidden_layers == 4
    assert not left.exists()
    (complete / "lm_head").mkdir()
    assert convert_gguf(file, torch.float32) == complete
    assert (complete / "lm_head").exists(), "a complete folder is left alone"


def test_of_two_processes_that_want_a_model_one_converts_it_and_the_other_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, convert, made = tiny_gguf(tmp_path / "tiny.gguf", "llama"), conversion._convert, list[Path]()
    begun = threading.Barrier(2)

    def counted(path: Path, folder: Path, precision: torch.dtype, chats: bool) -> None:
        made.append(folder)
        convert(path, folder, precision, chats)

    def want() -> Path:
        begun.wait()
        return convert_gguf(file, torch.float32)

    monkeypatch.setattr(conversion, "_convert", counted)
    with ThreadPoolExecutor(2) as pool:
        one, other = (each.result() for each in [pool.submit(want), pool.submit(want)])
    assert one == other
    assert made == [one]


def test_a_folder_gets_its_name_when_all_in_it_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synchronised, named, rename, fsync = set[int](), list[Path](), Path.rename, os.fsync

    def noted(descriptor: int) -> None:
        synchronised.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def rename_what_is_there(source: Path, target: Path) -> Path:
        assert {path.stat().st_ino for path in (*source.iterdir(), source)} <= synchronised
        named.append(target)
        return rename(source, target)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(Path, "rename", rename_what_is_there)
    convert_gguf(tiny_gguf(tmp_path / "tiny.gguf", "llama"), torch.float32)
    Versions(tmp_path / "versions", {}).publish(1, b"weights")
    assert len(named) == 2
    assert {folder.parent.stat().st_ino for folder in named} <= synchronised


def test_weights_that_16_bits_cannot_hold_are_refused_and_not_taken_for_infinite(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = tiny_model("llama")
    with torch.no_grad():
        large.model.layers[0].mlp.up_proj.weight[3] *= 1e6
    monkeypatch.setattr(sys.modules[__name__], "tiny_model", lambda _family: large)
    file = tiny_gguf(tmp_path / "large.gguf", "llama")
    with pytest.raises(ModelError, match=r"layers\.0\.mlp\.up_proj\.weight are too large for torch\.float16; take"):
        convert_gguf(file, torch.float16)
    assert [path.name for path in own_cache.iterdir()] == ["lock"]
    assert convert_gguf(file, torch.bfloat16).is_dir()
