"""Further evidence of the frozen model: samples, beams, verification and entailment, and the cost."""

from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import DebertaV2Config, DebertaV2ForSequenceClassification

from secl.backends.chat_templates import render
from secl.backends.generation import Generation
from secl.backends.local import passes
from secl.backends.local.dinco import NliModel
from secl.backends.local.loading.loader import ModelCache
from secl.backends.local.model import LocalModel
from secl.calibrator import Calibrator
from secl.conversation import Prompt
from secl.errors import ModelError
from secl.evidence import EvidenceKind
from secl.gates import Always, EntropyShift, Never
from secl.prompts.templates import answer_prompt, entailment_prompt, verification_prompt
from secl.question import Question
from secl.settings.groups import AdapterSettings, LoopSettings, ModelSettings
from tests.answers import sampled
from tests.backends.local.alone import log_p
from tests.backends.local.conftest import MakeModel
from tests.tiny import tiny_folder, tiny_tokenizer

pytestmark = pytest.mark.heavy

EVERYTHING: tuple[EvidenceKind, ...] = ("p_true", "candidates", "samples", "dinco")
CHOICE = Question("Which is a metal?", options=("neon", "iron", "argon"), reference="B", id="b")
OPEN = Question("Who wrote Hamlet?", reference="Shakespeare", id="d")


def behind(model: LocalModel, prompt: Prompt) -> torch.Tensor:
    """Return log-probabilities of the next token from a plain pass."""
    ids = model.backend.token_ids
    return log_p(model.backend.model, ids.encode(render(ids.tokenizer, prompt)))[-1]


@pytest.mark.parametrize("top_p", [0.01, 0.95, 1.0])
@pytest.mark.parametrize("family", ["llama", "phi3"])
def test_sampled_letters_follow_the_probabilities_of_the_letters_in_the_nucleus(
    family: str, top_p: float, make_model: MakeModel
) -> None:
    model = make_model(family)
    assert model.prompting.top_p == 0.95
    model.prompting.top_p = top_p
    drawn = Counter(sampled(model, CHOICE, 4000))
    shares = behind(model, answer_prompt(CHOICE))[list(model.backend.token_ids.letters[:3])].softmax(-1)
    kept, total = [0.0, 0.0, 0.0], 0.0
    for place in shares.argsort(descending=True).tolist():  # the likeliest until `top_p` is reached
        if total < top_p:
            kept[place] = shares[place].item()
        total += shares[place].item()
    assert [drawn[letter] / 4000 for letter in "ABC"] == pytest.approx([k / sum(kept) for k in kept], abs=0.03)
    assert drawn[model.answer(CHOICE).reply.answer]
    if top_p != 0.95:
        assert (len(set(sampled(model, OPEN, 9))) == 1) is (top_p == 0.01)


@pytest.mark.parametrize("family", ["llama", "phi3"])
def test_verification_and_entailment_are_those_of_plain_passes(
    family: str, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "GROUP_TOKENS", 120)  # so that more than one pass is made
    model = make_model(family)
    found = model.dinco(CHOICE, model.answer(CHOICE).reply, ("A", "B", None))
    assert set(found.answers) == {"A", "B", "C"}
    assert found.nli_name == "self"
    texts = found.candidates
    for text, p_yes in zip(texts, found.p_yes, strict=True):
        exact = behind(model, verification_prompt(CHOICE, text))[list(model.backend.token_ids.yes_no)].softmax(-1)[0]
        assert p_yes == pytest.approx(exact.item(), abs=1e-4)
    letters = list(model.backend.token_ids.letters[:3])
    for (i, premise), (j, hypothesis) in product(enumerate(texts), repeat=2):
        shares = behind(model, entailment_prompt(CHOICE, premise, hypothesis))[letters].softmax(-1).tolist()
        expected = (1.0, 0.0) if i == j else pytest.approx((shares[0], shares[2]), abs=1e-4)
        assert (found.entails[i][j], found.contradicts[i][j]) == expected
    agreed = {answer: (found.entails[0][i] + found.entails[i][0]) / 2 for i, answer in enumerate(found.answers)}
    assert agreed[found.answers[0]] == 1.0
    assert found.agreement[0] == pytest.approx((agreed["A"], agreed["B"], 0.0))


def save_classifier(folder: Path, *labels: str) -> None:
    """Save a tiny random classifier of pairs of texts."""
    tokenizer = tiny_tokenizer()
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = DebertaV2Config(vocab_size=len(tokenizer), **sizes, id2label=dict(enumerate(labels)))
    torch.manual_seed(0)
    DebertaV2ForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def test_an_nli_model_judges_where_one_is_named(make_model: MakeModel, tmp_path: Path) -> None:
    save_classifier(tmp_path, "entailment", "neutral", "contradiction")
    model = make_model(nli=str(tmp_path))
    found = model.dinco(CHOICE, model.answer(CHOICE).reply, ())
    assert found.nli_name == str(tmp_path)
    judge = model._nli
    assert isinstance(judge, NliModel)
    first, second = found.candidates[:2]
    pair = f"Question: {CHOICE.text}\nAnswer: {first}", f"Answer: {second}"
    with torch.no_grad():
        shares = judge.model(**judge.tokenizer(*pair, return_tensors="pt")).logits[0].softmax(-1)
    assert found.entails[0][1] == pytest.approx(shares[0].item(), abs=1e-5)
    assert found.contradicts[0][1] == pytest.approx(shares[2].item(), abs=1e-5)


def test_a_model_that_is_no_nli_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be loaded"):
        NliModel(str(tmp_path / "nowhere"), torch.device("cpu"))
    save_classifier(tmp_path, "good", "bad")
    with pytest.raises(ModelError, match="name a model with labels for entailment"):
        NliModel(str(tmp_path), torch.device("cpu"))


def count_tokens(model: LocalModel) -> list[float]:
    """Return a list that grows by the tokens of every pass of every layer; each of L layers counts 1/L."""
    layers = model.backend.network.layout.layers  # type: ignore[union-attr]
    counted: list[float] = []

    def count(_layer: Any, args: tuple[Any, ...]) -> None:
        counted.append(args[0].shape[0] * args[0].shape[1] / len(layers))

    for layer in layers:
        layer.register_forward_pre_hook(count)
    return counted


def test_the_ledger_adds_up_to_the_tokens_that_went_through_the_layers(
    make_model: MakeModel, questions: list[Question]
) -> None:
    """Hooks at every layer count forward passes. The ledger counts a backward pass as two forward passes."""
    model = make_model(learning_rate=0.05)
    counted = count_tokens(model)
    gate = EntropyShift(warmup=2, threshold=1.0, burst=3)
    stream = [replace(question, text=f"{i}. {question.text}") for i in range(8) for question in questions]
    learning = Calibrator(model, method="secl", gate=gate, loop=LoopSettings(bin_gate=None), evidence=EVERYTHING)
    records = list(learning.run(iter(stream)))  # one by one, because questions of a window share passes
    assert {record.outcome for record in records} > {"trained", "idle"}
    forward = 0.0
    for record in records:
        ledger = record.ledger
        steps = model.adapter.settings.epochs
        forward += ledger.total - ledger.learning + ledger.learning * (steps + 1) / (3 * steps + 1)
    # Batches of texts of different lengths are padded. The ledger does not count padding.
    assert forward <= sum(counted) + 1e-6
    assert forward >= 0.95 * sum(counted)


def test_models_from_one_shelf_share_their_weights_and_nothing_else(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "model")
    cache = ModelCache()
    taught = LocalModel(
        cache.load(ModelSettings(name=str(folder))), adapter=AdapterSettings(layers="last:2", learning_rate=0.05)
    )
    alone = [record.reply for record in Calibrator(taught, method="secl", gate=Never()).run([CHOICE, OPEN])]
    list(Calibrator(taught, method="secl", gate=Always(), loop=LoopSettings(bin_gate=None)).run([CHOICE, OPEN] * 2))
    other = LocalModel(cache.load(ModelSettings(name=str(folder))), adapter=AdapterSettings(layers="first:1"))
    assert [record.reply for record in Calibrator(other, method="secl", gate=Never()).run([CHOICE, OPEN])] == alone
    ours, theirs = (model.backend.model.get_input_embeddings().weight for model in (taught, other))
    assert ours.data_ptr() == theirs.data_ptr()


@pytest.mark.parametrize("family", ["llama", "phi3"])
def test_beams_are_the_most_probable_texts(family: str, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many beams as tokens in the vocabulary, the search over texts of two tokens is exhaustive."""
    model = make_model(family)
    monkeypatch.setattr(model.backend.rules, "ended", lambda generation: len(generation.written) == 2)
    prompt = model.prompting.answer(OPEN)
    start = Generation.answer(prompt, "short")
    found, tokens = model.backend.writer.beams(start, 40)
    network = model.backend.model
    first = log_p(network, prompt)[-1]
    best = first.topk(40).indices.tolist()
    with torch.no_grad():
        rows = torch.tensor([[*prompt, token] for token in best])
        second = network(input_ids=rows).logits[:, -1].log_softmax(-1) + first[best][:, None]
    expected = second.flatten().topk(5).indices.tolist()
    texts = [[best[place // second.shape[1]], place % second.shape[1]] for place in expected]
    assert [generation.written for generation in found[:5]] == texts
    assert tokens == len(prompt) + 40


def test_options_that_read_alike_stay_different_answers(make_model: MakeModel) -> None:
    question = Question("Which interval?", options=("(0, 1)", "[0, 1]", "{2}"), id="intervals")
    model = make_model()
    reply = model.answer(question).reply
    found = model.dinco(question, reply, ("A", "B", "B", "B", "B"))
    row = dict(zip(found.answers, found.agreement, strict=True))[str(reply.answer)]
    assert [agreed == 1.0 for agreed in row] == [sample == reply.answer for sample in "ABBBB"]
