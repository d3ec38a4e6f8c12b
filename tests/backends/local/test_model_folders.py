"""Models without query and value modules; tokenizers, adapters and code in model folders; base models."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import AddedToken

import secl
from secl.backends.local.dinco import nli_model
from secl.backends.local.fast.batch import Batch
from secl.backends.local.loading import conversion
from secl.backends.local.loading.loader import load, locate
from secl.errors import ModelError
from secl.settings.groups import ModelSettings
from tests.backends.local.test_conversion import tiny_gguf
from tests.tiny import SIZES, TEMPLATE, tiny_folder, tiny_model, tiny_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore:.*plain path:RuntimeWarning")

ASKED, OPTIONS = "Which is a metal?", ["neon", "iron"]
LATENT: dict[str, Any] = {
    **SIZES,
    "num_key_value_heads": 4,
    "kv_lora_rank": 8,
    "q_lora_rank": 8,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "first_k_dense_replace": 4,
    "n_group": 1,
    "topk_group": 1,
    "n_routed_experts": 2,
    "num_experts_per_tok": 1,
}
STATES: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 4, "state_size": 8, "initializer_range": 0.35}


def without_query_and_value(name: str) -> Any:
    """A tiny random model of an architecture whose attention has other modules, or none."""
    vocabulary = {"vocab_size": len(tiny_tokenizer()), "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    config: Any = {
        "DeepseekV2": lambda: transformers.DeepseekV2Config(**LATENT, vocab_size=len(tiny_tokenizer())),
        "DeepseekV3": lambda: transformers.DeepseekV3Config(**LATENT, vocab_size=len(tiny_tokenizer())),
        "Mamba": lambda: transformers.MambaConfig(**STATES, **vocabulary),
        "Mamba2": lambda: transformers.Mamba2Config(**STATES, **vocabulary, num_heads=8, head_dim=8, n_groups=1),
        "Rwkv": lambda: transformers.RwkvConfig(**vocabulary, hidden_size=32, num_hidden_layers=4, context_length=512),
    }[name]()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return getattr(transformers, f"{name}ForCausalLM")(config).eval()


@pytest.mark.parametrize("name", ["DeepseekV2", "DeepseekV3", "Mamba", "Mamba2"])
def test_a_model_without_query_and_value_modules_answers_with_methods_that_do_not_learn(
    name: str, tmp_path: Path
) -> None:
    model = without_query_and_value(name)
    model.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    for method in ("posterior", "stated"):
        with secl.load(tmp_path, method=method, device="cpu", dtype="fp32") as asked:
            assert 0 < asked.ask(ASKED, options=OPTIONS).confidence < 1
            assert asked.ask("What is iron?").text is not None
    with pytest.raises(
        ModelError, match=r"no query and value modules of a known name; list .* adapter\.modules \(linear"
    ):
        secl.load(tmp_path, method="secl")


@pytest.mark.parametrize(("name", "module"), [("DeepseekV2", "kv_b_proj"), ("Mamba", "x_proj")])
@pytest.mark.parametrize("nested", [True, False])
def test_modules_named_in_the_settings_learn(name: str, module: str, nested: bool) -> None:
    named: dict[str, Any] = {"adapter": {"modules": [module]}} if nested else {"adapter.modules": [module]}
    learn = {"gate.name": "always", "loop.bin_gate": "off", **named}
    with secl.load(without_query_and_value(name), tiny_tokenizer(), method="secl", settings=learn) as model:
        assert model.ask(ASKED, options=OPTIONS).outcome == "trained"


def test_modules_that_the_model_lacks_are_refused_before_the_first_question() -> None:
    with pytest.raises(ModelError, match=r"has no modules kv_b_proj; list .* \(linear modules: .*v_proj"):
        secl.load(tiny_model(), tiny_tokenizer(), method="secl", settings={"adapter.modules": ["v_proj", "kv_b_proj"]})


@pytest.mark.parametrize("name", ["Mamba", "Mamba2"])
def test_rows_of_a_model_of_states_continue_as_whole_texts_do(name: str) -> None:
    model, rows = without_query_and_value(name), [[5, 6, 7, 8, 9, 10, 11], [12, 13, 14]]
    with torch.no_grad():
        batch = Batch.of(model, rows)
        batch.step([1, 1, 0], [20, 21, 22])
        batch.step([2, 1], [30, 31])
        wholes = [[*rows[0], 22, 30], [*rows[1], 21, 31]]
        for row, whole in enumerate(wholes):
            expected = model(input_ids=torch.tensor([whole]), use_cache=False).logits[0, -1]
            torch.testing.assert_close(batch.logits[row], expected, atol=1e-4, rtol=1e-3)


def test_a_model_that_cannot_continue_a_text_is_refused() -> None:
    with pytest.raises(ModelError, match=r"^secl cannot write texts with RwkvForCausalLM: "):
        secl.load(without_query_and_value("Rwkv"), tiny_tokenizer())


def with_added(*tokens: AddedToken, template: str = TEMPLATE) -> Any:
    tokenizer = copy.deepcopy(tiny_tokenizer())
    tokenizer.add_tokens([*tokens])
    tokenizer.chat_template = template
    return tokenizer


def in_folder(model: Any, tokenizer: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


MARKED = TEMPLATE.replace("<|start|>", "<|im_start|>")


@pytest.mark.parametrize(
    ("tokenizer", "said"),
    [
        (lambda: with_added(AddedToken("<|im_start|>", special=True), template=MARKED), r"lacks \(<\|im_start\|>\)"),
        (lambda: with_added(AddedToken("uranium", special=False)), r"tokens that the model lacks \(uranium\)"),
        (lambda: with_added(AddedToken("<image>", special=True)), None),
    ],
    ids=["in the template", "in texts", "never written"],
)
def test_tokens_beyond_the_embedding_are_refused_if_a_prompt_can_have_them(
    tokenizer: Any, said: str | None, tmp_path: Path
) -> None:
    model, own = tiny_model(), tokenizer()
    for source in ((model, own), (in_folder(model, own, tmp_path),)):
        if said is None:
            secl.load(*source).ask("What is <image>, or uranium?", options=OPTIONS)
            continue
        with pytest.raises(ModelError, match=said):
            secl.load(*source)


@pytest.mark.parametrize("rows", [600, 5000])
def test_the_tokenizer_of_another_model_is_refused_in_a_folder_too(rows: int, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="the tokenizer belongs to another model"):
        load(ModelSettings(name=str(tiny_folder(tmp_path, vocab_size=rows))))


def test_a_folder_with_an_adapter_or_without_a_tokenizer_is_named_so(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "both")
    (folder / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"holds a model and a PEFT adapter \(adapter_config\.json\); merge"):
        locate(str(folder))
    (folder / "config.json").unlink()
    with pytest.raises(ModelError, match="holds a PEFT adapter but no model; merge"):
        locate(str(folder))
    tiny_model().save_pretrained(tmp_path / "bare")
    with pytest.raises(ModelError, match=r"holds no tokenizer \(no tokenizer\.json\); save"):
        locate(str(tmp_path / "bare"))


def test_a_damaged_tokenizer_is_one_sentence(tmp_path: Path) -> None:
    file = tiny_folder(tmp_path) / "tokenizer.json"
    values = json.loads(file.read_text(encoding="utf-8"))
    values["model"]["vocab"].popitem()
    file.write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(ModelError, match=r"^the model '.*' cannot be loaded: [^\n]+ out of vocabulary"):
        load(ModelSettings(name=str(tmp_path)))


@pytest.fixture
def no_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail at a question on standard input."""

    def ask(_text: str = "") -> str:
        raise AssertionError("asked on standard input")

    monkeypatch.setattr("builtins.input", ask)


def with_code(folder: Path, *, config: bool = False, tokenizer: bool = False, unknown: bool = True) -> Path:
    """A folder whose configuration or tokenizer names a file of code, which leaves a trace when it runs."""
    trace = f"from pathlib import Path\nPath({str(folder / 'ran')!r}).touch()\n"
    (folder / "own.py").write_text(f"{trace}\nclass Own: pass\n", encoding="utf-8")
    changed: tuple[tuple[bool, str, Any], ...] = (
        (config, "config.json", {"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Own"}),
        (tokenizer, "tokenizer_config.json", {"AutoTokenizer": ["own.Own", None]}),
    )
    for wanted, file, names in changed:
        if wanted:
            changes = {"auto_map": names}
            if unknown:
                changes |= {"model_type": "own"} if file == "config.json" else {"tokenizer_class": "Own"}
            values = {**json.loads((folder / file).read_text(encoding="utf-8")), **changes}
            (folder / file).write_text(json.dumps(values), encoding="utf-8")
    return folder


@pytest.mark.usefixtures("no_question")
@pytest.mark.parametrize(("config", "tokenizer"), [(True, False), (False, True), (True, True)])
def test_code_of_a_model_folder_never_runs_and_secl_asks_no_question(
    config: bool, tokenizer: bool, tmp_path: Path
) -> None:
    folder = with_code(tiny_folder(tmp_path), config=config, tokenizer=tokenizer)
    said = r"it needs code of its own, which secl never runs; name a model that transformers knows\.$"
    with pytest.raises(ModelError, match=said):
        load(ModelSettings(name=str(folder)))
    assert not (folder / "ran").exists()


@pytest.mark.usefixtures("no_question")
def test_a_model_that_transformers_knows_loads_without_its_code(tmp_path: Path) -> None:
    folder = with_code(tiny_folder(tmp_path), config=True, tokenizer=True, unknown=False)
    assert load(ModelSettings(name=str(folder))).model.config.model_type == "llama"
    assert not (folder / "ran").exists()


@pytest.mark.usefixtures("no_question")
def test_code_of_an_nli_model_never_runs(tmp_path: Path) -> None:
    folder = with_code(tiny_folder(tmp_path), config=True)
    with pytest.raises(ModelError, match="needs code of its own, which secl never runs"):
        nli_model(str(folder), torch.device("cpu"))
    assert not (folder / "ran").exists()


@pytest.mark.parametrize(
    ("template", "said"),
    [(None, "has no chat template, so it cannot be asked"), ("{{ messages", "does not work"), ("Hi", "does not work")],
)
def test_a_base_model_in_a_gguf_file_is_refused_before_its_weights_are_converted(
    template: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(conversion, "_write", lambda *_: pytest.fail("converted"))
    with pytest.raises(ModelError, match=said):
        load(ModelSettings(name=str(tiny_gguf(tmp_path / "base.GGUF", "llama", template=template))))


def test_a_base_model_in_a_folder_is_refused_before_its_weights_are_read(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path)
    for file in (*folder.glob("*.safetensors"), folder / "chat_template.jinja"):
        file.unlink()
    with pytest.raises(ModelError, match="has no chat template, so it cannot be asked"):
        load(ModelSettings(name=str(folder)))
