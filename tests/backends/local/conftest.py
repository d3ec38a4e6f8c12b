"""Models in memory for the tests of `secl.backends.local`."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
import torch

from secl.backends.local.loading.loader import Loaded, wrap
from secl.backends.local.model import LocalModel
from secl.calibrator import Calibrator
from secl.data.benchmarks import quiz
from secl.evidence import CandidateEvidence
from secl.gates import Always
from secl.question import Question
from secl.records import Record
from secl.settings.groups import AdapterSettings, LoopSettings
from tests.backends.local.architectures import tokenizer_with
from tests.tiny import tiny_model, tiny_tokenizer

MakeModel = Callable[..., Any]
"""Makes a `LocalModel`. The type is Any, so that tests read optional answers without checks for None."""

QUESTIONS = (
    Question("What is the capital of France?", options=("Paris", "Rome", "Bern"), reference="A", id="a"),
    Question("Which is a metal?", options=("neon", "iron", "argon", "sulfur", "helium"), reference="B", id="b"),
    Question("Tom has 3 apples and buys 4. How many has he?", form="number", reference="7", id="c"),
    Question("Who wrote Hamlet?", reference="Shakespeare", id="d"),
    Question("Why is the sky blue?", form="sentence", id="e"),
)
STREAM = [*quiz("capitals", 3, 1), Question("Who wrote Hamlet?", reference="Shakespeare", id="hamlet")]


def taught(model: LocalModel) -> list[Record]:
    """Return the records of a short stream with a lesson after each question."""
    return list(Calibrator(model, method="secl", gate=Always(), loop=LoopSettings(bin_gate=None)).run(STREAM))


def tiny_local(loaded: Loaded, **settings: Any) -> Any:
    """Return a model; `settings` are fields of `AdapterSettings` and arguments of `LocalModel`."""
    adapter = {name: settings.pop(name) for name in AdapterSettings.model_fields if name in settings}
    return LocalModel(loaded, AdapterSettings(**{"layers": "last:2", **adapter}), **settings)


def tiny_of(family: str = "llama", *, changes: dict[str, Any] | None = None, **settings: Any) -> Any:
    """A tiny random model of a family, ready to ask; `changes` go to its configuration, settings to `tiny_local`."""
    loaded = wrap(family, tiny_model(family, **(changes or {})), tiny_tokenizer())
    if family != "gpt2":
        return tiny_local(loaded, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the fast path does not fit its layout
        return tiny_local(loaded, **{"modules": ("c_attn",), **settings})


class Habit:
    """A tiny Llama with a habit: after some texts it writes certain tokens, whatever its weights.

    Args:
        tokenizer: of the model.
        says: continuation for each end of a text; the first matching end applies.
    """

    def __init__(self, tokenizer: Any, says: Mapping[str, str]) -> None:
        self.tokenizer = tokenizer
        self.says = says
        self.model = tiny_model(vocab_size=len(tokenizer))
        self.model.register_forward_pre_hook(self._listen, with_kwargs=True)
        self.model.register_forward_hook(self._speak)
        self._text: list[int] = []

    def _listen(self, _model: Any, _args: Any, kwargs: dict[str, Any]) -> None:
        ids = kwargs["input_ids"][0].tolist()
        past = kwargs.get("past_key_values")
        self._text = [*self._text, *ids] if past is not None and past.get_seq_length() else ids

    def _speak(self, _model: Any, _args: Any, out: Any) -> None:
        text = self.tokenizer.decode(self._text, skip_special_tokens=False)
        for end, said in self.says.items():
            for done in range(len(said) + 1):
                if text.endswith(end + said[:done]) and done < len(said):
                    token = self.tokenizer(said[done:], add_special_tokens=False)["input_ids"][0]
                    out.logits[:, -1, :] = -50.0
                    out.logits[:, -1, token] = 50.0
                    return


def tiny_with(template: Any, habit: Mapping[str, str] | None = None, **settings: Any) -> Any:
    """Return a tiny model; `template` is a template's name or a tokenizer, and `habit` the `says` of a `Habit`."""
    tokenizer = tokenizer_with(template) if isinstance(template, str) else template
    made = tiny_model(vocab_size=len(tokenizer)) if habit is None else Habit(tokenizer, habit).model
    model = tiny_local(wrap("tiny", made, tokenizer), **settings)
    if habit is not None:
        model.backend.passes.shared = None  # so that every token goes through the model's own forward pass
    return model


def alike(some: Iterable[Any], others: Iterable[Any], atol: float = 1e-5, entropy: float | None = None) -> None:
    """Check that replies have equal texts, and numbers within `atol`; `entropy` is the tolerance of the entropy."""
    for one, other in zip(some, others, strict=True):
        assert (one.text, one.answer, one.thought) == (other.text, other.answer, other.thought)
        assert one.version == other.version
        assert one.bins == pytest.approx(other.bins, abs=atol)
        assert one.entropy == pytest.approx(other.entropy, abs=entropy or atol)
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-3)
        assert one.option_log_p == pytest.approx(other.option_log_p, abs=1e-3)


def numbers(evidence: CandidateEvidence) -> list[float | None]:
    """Return all log-probabilities in the evidence about candidates."""
    letters = [value for order in evidence.letters for value in order.log_p]
    texts = [value for each in evidence.likelihoods if each is not None for value in (each.given, each.alone)]
    return [*letters, *texts, *(each.log_p for each in evidence.samples)]


def tokens_seen(network: Any) -> list[int]:
    """Return a list that grows by the number of tokens of every pass through a network."""
    seen: list[int] = []
    network.get_input_embeddings().register_forward_pre_hook(lambda _module, args: seen.append(args[0].numel()))
    return seen


def memory_ends(patch: pytest.MonkeyPatch, owner: Any, name: str, when: Callable[..., bool]) -> None:
    """Make a function run out of memory whenever `when` is true for its arguments."""
    usual = getattr(owner, name)

    def call(*given: Any, **named: Any) -> Any:
        if when(*given, **named):
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return usual(*given, **named)

    patch.setattr(owner, name, call)


@pytest.fixture
def make_model(brief: None) -> MakeModel:
    """Makes tiny models, as `tiny_of` does."""
    return tiny_of


@pytest.fixture
def questions() -> list[Question]:
    """Two questions with options and one of each open form."""
    return list(QUESTIONS)
