"""Learning: the step against its equations, known sizes, and the return to a version."""

import contextlib
import itertools
import math
from functools import partial
from typing import Any

import pytest
import torch
import transformers

from secl.backends.local.adapter import Adapter, stated_confidence
from secl.backends.local.loading.presets import PRESETS, parse_layers, preset_of, rule_for
from secl.errors import ModelError, ParameterError
from secl.methods import Plan, method
from secl.metrics.probability import directional_target
from secl.posterior.rule import PosteriorRule
from secl.scores import make_signal
from secl.settings.groups import AdapterSettings, LoopSettings
from tests.backends.local.conftest import MakeModel
from tests.tiny import FAMILIES, tiny_model

# Sizes from the published configurations of the models.
SIZES = ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size")
PUBLISHED: dict[str, tuple[type[Any], tuple[int, ...], int]] = {
    "llama-3.2-3b": (transformers.LlamaConfig, (28, 24, 8, 128256), 327_680),
    "phi-3.5-mini": (transformers.Phi3Config, (32, 32, 32, 32064), 786_432),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_trainable_counts_of_the_papers_models_are_the_published_ones(name: str) -> None:
    config_class, sizes, expected = PUBLISHED[name]
    config = config_class(hidden_size=3072, intermediate_size=8192, **dict(zip(SIZES, sizes, strict=True)))
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
        preset = PRESETS[name]
        layers = parse_layers(preset.layers, model.config.num_hidden_layers)
        adapter = Adapter(model, layers, preset.modules)
    assert adapter.size == expected


@pytest.mark.parametrize(
    ("given", "known"),
    [
        ("smollm2", "smollm2"),
        ("models/SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2"),
        ("meta-llama/Llama-3.2-3B-Instruct", "llama-3.2-3b"),
        ("/models/llama-3.2-3b-instruct/", "llama-3.2-3b"),
        ("unsloth/Llama-3.2-3B-Instruct-Q4_K_M.gguf", "llama-3.2-3b"),
        ("Qwen/Qwen2.5-3B-Instruct", "qwen2.5-3b"),
        ("someone/Llama-3.2-3B-Instruct-medical", None),
        ("meta-llama/Llama-3.1-8B", None),
        ("", None),
    ],
)
def test_a_preset_is_known_by_the_name_of_its_model(given: str, known: str | None) -> None:
    assert preset_of(given) is (PRESETS[known] if known else None)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_unknown_model_gets_query_and_value_modules_of_its_last_layers(family: str) -> None:
    preset = rule_for(tiny_model(family))
    assert preset.modules == (("qkv_proj",) if family == "phi3" else ("q_proj", "v_proj"))
    assert preset.layers == "last:1"
    assert preset.tau == 1.0


def test_a_model_without_attention_modules_is_refused_by_name_when_it_shall_learn() -> None:
    model = transformers.MambaForCausalLM(
        transformers.MambaConfig(vocab_size=64, hidden_size=16, state_size=4, num_hidden_layers=1)
    )
    with pytest.raises(ModelError, match=r"adapter\.modules"):
        Adapter(model, (0,), rule_for(model).modules).check()


def test_layers_are_read_as_written() -> None:
    texts = ("all", "last:2", "first:2", "middle:2", "2-4", "5,1,1")
    expected = [(0, 1, 2, 3, 4, 5), (4, 5), (0, 1), (2, 3), (2, 3, 4), (1, 5)]
    assert [parse_layers(text, 6) for text in texts] == expected


@pytest.mark.parametrize(
    "text", ["", "last:0", "last:7", "middle:0", "middle:7", "4-2", "6", "0-6", "late", "-1", "last:-1"]
)
def test_layers_that_do_not_exist_are_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="layers"):
        parse_layers(text, 6)


def test_a_lesson_with_a_gradient_that_is_not_finite_fails_and_leaves_everything_as_it_was(
    make_model: MakeModel, questions: list[Any]
) -> None:
    first, second = questions[:2]
    model, calm = make_model(), make_model()
    for student in (model, calm):
        student.learner.learn(first, student.answer(first).reply, 0.1)
    before, gradients = model.learner.snapshot(), itertools.count()
    parameter = list(model.adapter.parameters.values())[-1]
    spoil = parameter.register_hook(lambda gradient: gradient * math.nan if next(gradients) == 1 else gradient)
    reply = model.answer(second).reply
    signal = 0.9 if reply.stated < 0.5 else 0.1
    model.meter.take()
    plan = Plan.of(method("secl"), make_signal("norm_p_true"), PosteriorRule(), LoopSettings())
    assert plan.teach(model, second, reply, signal) == ("failed", None)
    assert next(gradients) == 2, "the second of three steps was refused"
    assert model.learner.snapshot() == before
    failed = model.meter.take().learning
    spoil.remove()
    for student in (model, calm):
        student.meter.take()
        outcome, update = plan.teach(student, second, student.answer(second).reply, signal)
        assert (outcome, update is not None) == ("trained", True)
        # Two of three steps. A step is a forward and a backward pass, and a lesson ends with a further forward pass.
        assert failed == pytest.approx(student.meter.take().learning * 6 / 10) != 0
    assert model.learner.snapshot() == calm.learner.snapshot() != before


def test_nothing_seen_before_a_restore_is_used_after_it(make_model: MakeModel, questions: list[Any]) -> None:
    first, second = questions[:2]
    model, blank = make_model(learning_rate=0.05), make_model(learning_rate=0.05)
    model.learner.learn(first, model.answer(first).reply, 0.1)
    model.prefetch([first, second], [(), ()], weights_fixed=True)
    seen = model.answer(second).reply
    model.learner.restore(blank.learner.snapshot())
    # Another version 1, by another lesson.
    for student in (model, blank):
        student.learner.learn(first, student.answer(first).reply, 0.9)
    reply = model.answer(second).reply
    assert reply.version == seen.version == 1
    assert reply == blank.answer(second).reply
    assert reply.stated != seen.stated


def test_a_version_comes_back_by_its_weights_with_a_new_optimizer_and_numbers_go_on(
    make_model: MakeModel, questions: list[Any]
) -> None:
    model = make_model(learning_rate=0.05)
    replies, weights = {}, {}
    for question in questions[:3]:
        reply = model.answer(question).reply
        model.learner.learn(question, reply, 0.2)
        replies[model.learner.version], weights[model.learner.version] = (
            model.answer(questions[0]).reply,
            model.learner.weights(),
        )
    model.learner.load_version(weights[2], 2)
    assert model.learner.version == 2
    assert model.learner.weights() == weights[2]
    assert model.answer(questions[0]).reply == replies[2]
    assert not model.adapter.optimizer.state
    assert model.learner.learn(questions[0], replies[2], 0.2).version == 4
    other = make_model()
    other.learner.load_version(weights[3], 3)
    assert other.answer(questions[0]).reply == replies[3]
    narrow = make_model(rank=4)
    with pytest.raises(ModelError, match="other layers or another rank"):
        narrow.learner.load_version(weights[3], 3)
    with pytest.raises(ModelError, match="another rank"):
        narrow.learner.restore(model.learner.snapshot())
    with pytest.raises(ModelError, match="damaged"):
        model.learner.load_version(b"nothing", 3)


def test_drift_is_the_norm_of_what_peft_merges_into_the_weights(make_model: MakeModel, questions: list[Any]) -> None:
    model = make_model(learning_rate=0.05)
    assert model.learner.relative_norm == 0.0
    reply = model.answer(questions[0]).reply
    model.learner.learn(questions[0], reply, 0.2)
    drift = model.learner.relative_norm
    peft = model.adapter.peft
    layers = [m for name, m in peft.named_modules() if name.endswith(("q_proj", "v_proj", "qkv_proj"))]
    adapted = [layer for layer in layers if hasattr(layer, "lora_A")]
    before = [layer.base_layer.weight.detach().double().clone() for layer in adapted]
    peft.merge_adapter()
    after = [layer.base_layer.weight.detach().double() for layer in adapted]
    change = sum((b - a).square().sum().item() for a, b in zip(before, after, strict=True))
    assert drift == pytest.approx((change / sum(b.square().sum().item() for b in before)) ** 0.5, rel=1e-4)


def test_a_model_that_yields_asks_before_every_layer_of_every_pass(make_model: MakeModel, questions: list[Any]) -> None:
    model = make_model()
    calls = []
    model.learner.set_pause_hook(lambda: calls.append(1))
    reply = model.answer(questions[0]).reply
    assert len(calls) == 4
    model.learner.learn(questions[0], reply, 0.2)
    assert len(calls) > 4


VOCABULARY, WIDTH = 16, 6
DIGITS = torch.arange(3, 13)
CENTRES = (torch.arange(10) + 0.5) / 10


class PlainHead:
    """A head without any tricks."""

    def __init__(self) -> None:
        self.weight = torch.randn(VOCABULARY, WIDTH, generator=torch.Generator().manual_seed(1))

    def logits(self, states: torch.Tensor, _exact: torch.Tensor) -> torch.Tensor:
        return states @ self.weight.T

    def rows(self, states: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return (states @ self.weight.T)[:, ids]


class PlainAdapter:
    """One vector that is added to the hidden state, and moves by the gradient itself."""

    def __init__(self, width: int = WIDTH, **settings: float) -> None:
        self.settings = AdapterSettings(**settings)
        self.moved = torch.zeros(1, width, requires_grad=True)
        self.optimizer = torch.optim.SGD([self.moved], lr=0.1)
        self.parameters = {"moved": self.moved}
        self.all_or_nothing = contextlib.nullcontext

    def count_update(self) -> None:
        pass


def gradient(beta: float) -> tuple[torch.Tensor, torch.Tensor, PlainHead]:
    """Return the move of one step from a hidden state that differs from the frozen state, both states, and the head."""
    head, adapter = PlainHead(), PlainAdapter(epochs=1, beta=beta)
    drawn = torch.Generator().manual_seed(2)
    frozen, begun = torch.randn(1, WIDTH, generator=drawn), torch.randn(1, WIDTH, generator=drawn)
    Adapter.train(adapter, head, lambda: begun + adapter.moved, 1.0, frozen, DIGITS, 0.9)  # type: ignore[arg-type]
    return adapter.moved.detach() / -0.1, torch.cat([frozen, begun]), head


def by_hand(loss: Any, states: torch.Tensor, head: PlainHead) -> Any:
    frozen, begun = states
    hidden: Any = begun.clone().requires_grad_()
    loss((hidden @ head.weight.T).softmax(-1), (frozen @ head.weight.T).softmax(-1)).backward()
    return hidden.grad[None]


@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_the_loss_is_the_squared_distance_of_the_expected_bin_centre_and_the_divergence_from_the_frozen_model(
    beta: float,
) -> None:
    moved, states, head = gradient(beta)

    def loss(p: torch.Tensor, frozen: torch.Tensor, *, other_way: bool = False) -> torch.Tensor:
        digits = p[DIGITS] / p[DIGITS].sum()
        one, two = (p, frozen) if other_way else (frozen, p)
        return ((digits * CENTRES).sum() - 0.9).square() + beta * (one * (one / two).log()).sum()

    assert moved == pytest.approx(by_hand(loss, states, head).numpy(), abs=1e-6)
    other = by_hand(partial(loss, other_way=True), states, head)
    assert torch.allclose(moved, other, atol=1e-3) is (beta == 0)


@pytest.mark.parametrize("mass", [0.5, 0.8, 0.99])
@pytest.mark.parametrize("signal", [0.3, 0.95])
def test_a_lesson_moves_the_stated_confidence_towards_the_signal_however_little_falls_on_digits(
    mass: float, signal: float
) -> None:
    p = torch.full((VOCABULARY,), (1 - mass) / (VOCABULARY - 10))
    p[DIGITS] = mass * torch.tensor([0.0, 0.0, 0.0, 0.0, 0.05, 0.05, 0.05, 0.1, 0.4, 0.35])
    begun = p.clamp_min(1e-6).log()[None]
    stated = stated_confidence(begun[:, DIGITS]).item()
    head, adapter = PlainHead(), PlainAdapter(VOCABULARY)
    head.weight = torch.eye(VOCABULARY)
    target = directional_target(stated, signal, 0.5, 0.15)
    replay = lambda: begun + adapter.moved  # noqa: E731
    after = Adapter.train(adapter, head, replay, 1.0, begun, DIGITS, target).after  # type: ignore[arg-type]
    assert min(stated, target) < after < max(stated, target)
