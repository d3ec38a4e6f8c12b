"""Base models, asked without a chat template in the form "Question: ... Answer:"."""

from pathlib import Path
from typing import Any

import pytest
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

import secl
from secl.backends.chat_templates import with_plain_template
from secl.backends.generation import Generation, TextRules
from secl.backends.local.loading.loader import load
from secl.backends.token_ids import TokenIds
from secl.errors import ModelError, ParameterError, QuestionError, RunError
from secl.prompts.templates import answer_prompt, confidence_prompt, p_true_prompt
from secl.question import Question
from secl.runs.loading import load_local
from secl.runs.manifest import Manifest
from secl.runs.runner import resume_run, start_run
from secl.runs.settings import RunSettings
from secl.settings.groups import ModelSettings
from secl.testing import ScriptedModel
from secl.writing import SamplingParameters
from tests.backends.local.test_conversion import tiny_gguf
from tests.tiny import tiny_folder, tiny_model, tiny_tokenizer

METAL = Question("Which is a metal?", options=("neon", "iron"))
CAPITAL = Question("Capital of Ghana?", form="short")


def base_tokenizer(**special: str) -> Any:
    """The tiny tokenizer without a chat template; by default also without special tokens, such as the end token."""
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tiny_tokenizer()._tokenizer, **special)


@pytest.fixture(scope="module")
def base() -> Any:
    return secl.load(tiny_model(), base_tokenizer(), chat_template="plain")


@pytest.fixture(scope="module")
def token_ids() -> TokenIds:
    return TokenIds.of(with_plain_template(base_tokenizer()))


def test_prompts_are_plain_texts_and_a_bare_question_gets_both_marks(token_ids: TokenIds) -> None:
    options = token_ids.render(confidence_prompt(METAL, "B"))
    assert options.startswith("Question: Which is a metal?\nA. neon\nB. iron\n")
    assert options.endswith("Confidence: <digit>\nAnswer: B\nConfidence: ")
    assert token_ids.render(p_true_prompt(METAL, "iron")).endswith("Reply with exactly one word, True or False.\n")
    short = token_ids.render(confidence_prompt(CAPITAL, " Accra"))
    assert "explanation.\nAnswer: Accra\n\nHow confident are you" in short
    free = answer_prompt(Question("Who?", form="text", system="Be brief."))
    assert token_ids.render(free) == "Be brief.\n\nQuestion: Who?\nAnswer:\n"


@pytest.mark.parametrize(
    ("form", "end"),
    [
        ("short", "no explanation.\nAnswer:"),
        ("sentence", "in one short sentence.\n"),
        ("number", "in the format\nAnswer: <number>\n"),
        ("text", "Question: Who?\nAnswer:\n"),
    ],
)
def test_an_answer_has_its_tokens_behind_the_prompt_with_which_it_began(
    form: Any, end: str, token_ids: TokenIds
) -> None:
    prompt = answer_prompt(asked := Question("Who?", form=form))
    assert token_ids.render(prompt).endswith(end)
    begun = token_ids.render(prompt.begun("Ada."))
    assert begun == token_ids.render(prompt) + "Ada."
    assert token_ids.render(confidence_prompt(asked, "Ada.")).startswith(begun)


def test_a_plain_text_begins_with_the_token_that_the_tokenizer_puts_first() -> None:
    tokenizer = base_tokenizer(bos_token="<|start|>")
    assert not TokenIds.of(with_plain_template(tokenizer)).render(answer_prompt(METAL)).startswith("<|start|>")
    tokenizer._tokenizer.post_processor = processors.TemplateProcessing(
        single="<|start|> $A", special_tokens=[("<|start|>", 0)]
    )
    ids = TokenIds.of(with_plain_template(tokenizer))
    assert ids.encode(ids.render(answer_prompt(METAL)))[0] == tokenizer.bos_token_id
    assert tokenizer.chat_template is None  # the user's tokenizer stays as it was


@pytest.mark.parametrize(
    ("form", "free", "written", "answer"),
    [
        ("short", False, " Accra\nQuestion: Capital of Togo?", " Accra"),
        ("number", False, "3 + 4 = 7\nQuestion: And 5?", "3 + 4 = 7"),
        ("text", False, "Because.\nQuestion: Why", "Because."),
        ("text", True, "Because of air.\n\nMore", "Because of air."),
    ],
)
def test_a_base_models_reply_ends_before_its_next_question(form: Any, free: bool, written: str, answer: str) -> None:
    rules = TextRules(with_plain_template(base_tokenizer()), None)
    tokens = rules.tokenizer.encode(written)
    (generation,) = Generation.texts([], SamplingParameters(max_tokens=200))
    if free:
        chunks = []
        for token in tokens:
            chunks.append(rules.push(generation, token))
            if chunks[-1].finish:
                break
        assert ("".join(chunk.text for chunk in chunks), chunks[-1].finish) == (answer, "stop")
    else:
        generation = Generation([], form, 200, written=tokens, prefilled=form == "short")
        assert (rules.answer(generation), rules.ended(generation)) == (answer, True)
        assert form == "short" or not TextRules(tiny_tokenizer(), None).ended(generation)


@pytest.mark.parametrize("form", ["short", "sentence", "number", "text"])
def test_a_base_model_without_an_end_token_answers_every_form(form: Any, base: Any) -> None:
    answer = base.ask("What is 1 plus 1?", form=form)
    assert "Question:" not in (answer.text or "")
    chosen = base.ask(METAL.text, options=METAL.options)
    assert 0 < chosen.confidence < 1


def test_the_facts_of_a_base_models_text_have_confidences(base: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "Peru has 34 million people. Lima was founded in 1535."
    monkeypatch.setattr(TextRules, "answer", lambda *_: text)
    facts = base.ask("Tell me about Peru.", form="text").facts
    assert [fact.text for fact in facts] == ["34 million people"]
    assert 0 < facts[0].confidence < 1


def test_a_base_model_fills_fields(base: Any) -> None:
    schema = {"type": "object", "properties": {"paid": {"type": "boolean"}}, "required": ["paid"]}
    assert base.extract("The bill is paid.", schema).value["paid"] in (True, False)


def test_a_base_model_refuses_earlier_turns_and_tools(base: Any) -> None:
    with pytest.raises(QuestionError, match=r"has earlier turns, but the model's plain template has none; take a chat"):
        base.ask("And Togo?", history=[("user", "Capital of Ghana?"), ("assistant", "Accra")])
    tool = {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}}
    with pytest.raises(QuestionError, match="has tools, but the model's plain template has none"):
        base.call("What is the time?", [{"type": "function", "function": tool}])


def test_a_base_model_needs_the_plain_template_and_the_message_names_it() -> None:
    with pytest.raises(ModelError, match=r"--chat-template plain \(in Python chat_template=\"plain\"\)\.$"):
        secl.load(tiny_model(), base_tokenizer())


def test_folders_and_files_of_base_models_load_and_the_fingerprint_depends_on_the_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECL_CACHE", str(tmp_path / "cache"))
    folder, file = tiny_folder(tmp_path / "chat"), tiny_gguf(tmp_path / "base.gguf", "llama", template=None)
    for source in (folder, file):
        loaded = load(ModelSettings(name=str(source), chat_template="plain", dtype="fp32"))
        assert TokenIds.of(loaded.tokenizer).plain
        asked = secl.load(str(source), chat_template="plain", dtype="fp32").ask(METAL)
        assert asked.text in METAL.options
    assert (
        load(ModelSettings(name=str(folder))).fingerprint
        != load(ModelSettings(name=str(folder), chat_template="plain")).fingerprint
    )
    with pytest.raises(ModelError, match="has no chat template"):
        load(ModelSettings(name=str(file), dtype="fp32"))  # also where the file is converted already


def test_a_tokenizer_that_splits_true_is_refused_with_the_plain_template_too() -> None:
    alphabet = {byte: number for number, byte in enumerate(pre_tokenizers.ByteLevel.alphabet())}
    bytes_alone = Tokenizer(models.BPE(alphabet, []))
    bytes_alone.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=bytes_alone)
    with pytest.raises(ModelError, match="splits option letters or the words True and False"):
        TokenIds.of(with_plain_template(tokenizer))


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        ("smollm2", {"chat_template": "simple"}, "model.chat_template is 'simple'; it must be one of own, plain"),
        ("http://127.0.0.1:1", {"chat_template": "plain"}, "needs a model in this process, but --engine openai"),
        ("http://127.0.0.1:1", {"chat_template": "plain", "engine": "vllm"}, "but --engine vllm names a server"),
        (ScriptedModel(), {"chat_template": "plain"}, "chat_template has no effect on a model of your own"),
    ],
)
def test_a_template_that_cannot_be_had_is_refused(source: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        secl.load(source, **options)


def test_a_run_keeps_the_template_and_resumes_with_it_alone(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "model")
    (folder / "chat_template.jinja").unlink()
    values: dict[str, object] = {"model.name": str(folder), "model.chat_template": "plain"}
    values |= {"stream.benchmarks": ("capitals",), "stream.per_domain": 3}
    with start_run(RunSettings.of(values), tmp_path / "run", load=load_local).store as store:
        assert Manifest.of(store).settings.model.chat_template == "plain"
    with pytest.raises(RunError, match="chat_template"):
        resume_run(tmp_path / "run", {"model.chat_template": "own"}, load_local)
    resume_run(tmp_path / "run", load=load_local).store.close()
