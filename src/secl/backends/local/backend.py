"""A transformers model on this machine.

The frozen model reads windows of questions in shared passes. The adapted model replays these passes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from secl.backends.base import Bundle, Engine, Position, S, Statistics, T, TokenSequence, Trainer, Training
from secl.backends.chat_templates import render
from secl.backends.generation import Generation, TextRules
from secl.backends.local.adapter import Adapter
from secl.backends.local.fast.prefix_tree import Nodes
from secl.backends.local.fast.select_network import Trial, check_usable, connect
from secl.backends.local.fast.shared_network import Pass
from secl.backends.local.loading.guard import as_model_error, room_for_texts
from secl.backends.local.loading.loader import Loaded
from secl.backends.local.loading.model_parts import Head, compute_device, described_devices, sent, text_config
from secl.backends.local.loading.presets import name_of, parse_layers
from secl.backends.local.loading.quantisation import described_weights
from secl.backends.local.passes import GROUP_TOKENS, Passes, enough_memory
from secl.backends.local.writer import Writer
from secl.backends.token_ids import SAMPLE, TokenIds
from secl.prompts.templates import answer_prompt
from secl.settings.groups import AdapterSettings
from secl.writing import Chunk, SamplingParameters

ROWS = 1024
"""Maximum number of next-token distributions to compute at once; each takes four bytes per vocabulary token."""


@dataclass(frozen=True)
class LocalReading:
    """A bundle with its hidden states, computed by the frozen model or by an adapted version.

    Attributes:
        forward: the frozen model's pass over the bundle.
        head: maps hidden states to logits.
        special: ids whose logits are computed in float32.
        tokens: number of the bundle's tokens through the network, counted as in `secl.ledger.Ledger`.
        states: hidden states of the adapted model at the bundle's positions; None for the frozen model, whose hidden
            states are in the pass.
    """

    bundle: Bundle
    forward: Pass
    head: Head
    special: Tensor
    tokens: float
    states: Tensor | None = None

    def _log_p(self, states: Tensor) -> Iterator[Tensor]:
        """Yield full-vocabulary log-probabilities (n, V) for the next n <= `ROWS` of the hidden states (N, d)."""
        for some in torch.split(states, ROWS):
            yield self.head.logits(some, self.special).log_softmax(-1)

    def _ids(self, ids: Sequence[int]) -> Tensor:
        return sent(np.array(ids, dtype=np.int64), self.special.device)

    def nodes(self, positions: Sequence[Position]) -> Nodes:
        """Return the node of the last token before each position, in the prefix tree of the pass."""
        return np.array([self.forward.paths[number][length - 1] for number, length in positions], dtype=np.int64)

    def hidden(self, positions: Sequence[Position]) -> Tensor:
        """Return the final hidden states (N, d) before the next token at each position."""
        if self.states is None:
            return self.forward.frozen(self.nodes(positions))
        row_of = {position: row for row, position in enumerate(self.bundle.positions)}
        return self.states[[row_of[position] for position in positions]]

    @torch.no_grad()
    def logits(self, positions: Sequence[Position], ids: Sequence[int]) -> list[list[float]]:
        values: list[list[float]] = self.head.rows(self.hidden(positions), self._ids(ids)).tolist()
        return values

    @torch.no_grad()
    def log_p(self, positions: Sequence[Position], ids: Sequence[int]) -> list[list[float]]:
        wanted = self._ids(ids)
        found = [log_p[:, wanted] for log_p in self._log_p(self.hidden(positions))]
        values: list[list[float]] = torch.cat(found).tolist()
        return values

    @torch.no_grad()
    def likelihoods(self) -> list[float]:
        ends = zip(self.bundle.ends("likelihood"), self.bundle.spans, strict=True)
        positions = [[(number, place) for place in range(span.start, end + 1)] for (number, end), span in ends]
        if not positions:
            return []
        # Candidates after the same text share the distribution of their first token, so each node is computed once.
        nodes, places = np.unique(
            self.nodes([position for span in positions for position in span]), return_inverse=True
        )
        tokens = np.array([token for span in self.bundle.spans for token in span.tokens[span.start :]])
        own, device = torch.empty(len(tokens), device=self.special.device), self.special.device
        for number, log_p in enumerate(self._log_p(self.forward.frozen(nodes))):
            here = np.flatnonzero(places // ROWS == number)
            own[sent(here, device)] = log_p[sent(places[here] % ROWS, device), sent(tokens[here], device)]
        sums: list[float] = torch.stack([part.sum() for part in torch.split(own, [*map(len, positions)])]).tolist()
        return sums

    @torch.no_grad()
    def text_statistics(
        self, positions: Sequence[Position], tokens: Sequence[int], next_ids: Sequence[int], *, top: int = 0
    ) -> Statistics:
        written, wanted = torch.split(self._ids([*tokens, 0]), ROWS), self._ids(next_ids)
        own, entropies = [], []
        best: list[tuple[tuple[int, float], ...]] = []
        for log_p, some in zip(self._log_p(self.hidden(positions)), written, strict=True):
            own.append(log_p.gather(-1, some[:, None])[:, 0])
            entropies.append(-(log_p.exp() * log_p).sum(-1))
            behind = log_p[-1, wanted]
            if top:
                values, ids = (each.tolist() for each in log_p.topk(top))
                best += [tuple(zip(*row, strict=True)) for row in zip(ids, values, strict=True)]
        each = torch.cat(own)[:-1]
        summed = torch.stack([torch.cat(entropies).mean(), each.sum()])
        entropy, log_probability, *numbers = torch.cat([summed, each, behind]).tolist()  # one transfer from the device
        token_log_p, next_log_p = tuple(numbers[: len(tokens)]), tuple(numbers[len(tokens) :])
        return Statistics(token_log_p, log_probability, entropy, next_log_p, tuple(best[: len(tokens)]))

    def highest_log_p(self, positions: Sequence[Position]) -> list[float]:
        rows = self.log_p(positions, self.most_likely(positions))
        return [row[number] for number, row in enumerate(rows)]

    @torch.no_grad()
    def most_likely(self, positions: Sequence[Position]) -> list[int]:
        """Return the most probable next token at each position."""
        chosen = [self.head.written(some).argmax(-1) for some in torch.split(self.hidden(positions), ROWS)]
        tokens: list[int] = torch.cat(chosen).tolist()
        return tokens


class LocalBackend(Engine, Trainer):
    """A model in memory with a LoRA adapter.

    Args:
        settings: settings of the adapter and its training. If unset, layers and modules come from the model's preset.
        seed: seed of the adapter's initial weights.

    Attributes:
        first: number of the first adapted layer.
        described: name of the preset, and whether passes take the fast or the plain path: "preset smollm2; fast path".
        adapted: layers that learn, and temperature of P(True), in words.
        text_tokens: total number of tokens of free texts that fit into memory at a time.
    """

    def __init__(self, loaded: Loaded, settings: AdapterSettings, *, seed: int) -> None:
        # cuDNN's attention makes a new plan for every length of a text, and for some lengths its gradients are not
        # finite (PyTorch 2.11).
        torch.backends.cuda.enable_cudnn_sdp(False)
        model, preset, config = loaded.model, loaded.preset, text_config(loaded.model.config)
        self.model = model
        self.device = compute_device(model)
        self.token_ids = TokenIds.of(loaded.tokenizer, loaded.name)
        which, modules = settings.layers or preset.layers, settings.modules or preset.modules
        layers = parse_layers(which, config.num_hidden_layers)
        self.first = min(layers)
        self.adapter = Adapter(model, layers, modules, settings, seed=seed)
        sample = self.token_ids.encode(render(loaded.tokenizer, answer_prompt(SAMPLE)))
        with as_model_error(loaded.name):
            trial = Trial.of(model, sample)
        check_usable(loaded.name, trial)
        self.network = connect(model, self.adapter, self.first, trial)
        self.rules = TextRules(loaded.tokenizer, loaded.end_ids)
        self.writer = Writer(model, self.rules)
        self.text_tokens = room_for_texts(model)
        self.passes = Passes(model, self.network)
        self.limit = loaded.limit
        self.described = f"{name_of(preset)}; {'plain' if self.passes.shared is None else 'fast'} path"
        self.adapted = f"LoRA on {', '.join(modules)} of layers {which}, tau {preset.tau:g} by default"
        self._special = torch.tensor(self.token_ids.special, device=self.device)
        self._digits = torch.tensor(self.token_ids.digits, device=self.device)

    @property
    def environment(self) -> dict[str, str | int]:
        quantised = described_weights(self.model)
        return {
            "device": described_devices(self.model),
            "dtype": str(self.model.dtype).removeprefix("torch."),
            **({} if quantised is None else {"quantised": quantised}),
            "threads": torch.get_num_threads(),
            "processor": torch.backends.cpu.get_cpu_capability(),  # rounding depends on the vector instructions
            "pass_tokens": GROUP_TOKENS,
        }

    def read(self, bundles: Sequence[Bundle]) -> list[LocalReading]:
        return [
            LocalReading(bundle, forward, self.network.head, self._special, bundle.size)
            for bundle, forward in zip(bundles, self.passes.read(bundles), strict=True)
        ]

    @torch.no_grad()
    @enough_memory()
    def adapt(self, readings: Sequence[LocalReading], version: int) -> list[LocalReading]:  # noqa: ARG002
        """Replay the passes of some readings with the adapter's current weights, each pass once."""
        groups: dict[int, list[int]] = {}
        for number, reading in enumerate(readings):
            groups.setdefault(id(reading.forward.states), []).append(number)
        adapted: dict[int, LocalReading] = {}
        for numbers in groups.values():
            nodes = [readings[number].nodes(readings[number].bundle.positions) for number in numbers]
            _, replay = self.network.adapted(readings[numbers[0]].forward, np.concatenate(nodes))
            states = torch.split(replay(), [len(each) for each in nodes])
            for number, own in zip(numbers, states, strict=True):
                tokens = readings[number].bundle.tokens["answering"] * self.network.top_share
                adapted[number] = replace(readings[number], tokens=tokens, states=own)
        return [adapted[number] for number in range(len(readings))]

    def write(self, batches: Sequence[Sequence[Generation]]) -> None:
        for batch in batches:
            self.writer.write(batch, self.passes.begin(batch))

    def rewrite(
        self, generations: Sequence[Generation], readings: Sequence[LocalReading], version: int
    ) -> list[Generation | None]:
        """Return the adapted model's answers; None for an answer that equals the frozen model's.

        The adapted `readings` of the frozen model's answers give the first token that the adapted model would choose
        differently. The adapted model writes only from that token on.
        """
        rewritten = [
            self._find_divergence(generation, reading, version)
            for generation, reading in zip(generations, readings, strict=True)
        ]
        unfinished = [
            generation for generation in rewritten if generation is not None and not self.rules.ended(generation)
        ]
        if unfinished:
            with self.adapter.on():
                self.writer.write(unfinished, self.passes.batch(unfinished))
        return rewritten

    def _find_divergence(self, generation: Generation, reading: LocalReading, version: int) -> Generation | None:
        """Return the answer through the adapted model's first different token; None if the answers are equal."""
        inside = reading.bundle.positions[:-1]  # before each token of the answer, and after the last token
        (sequence,) = reading.bundle.answers
        written = [sequence[length] for _, length in inside[:-1]]
        chosen = reading.most_likely(inside)
        agreed = next((i for i, (a, b) in enumerate(zip(written, chosen, strict=False)) if a != b), len(written))
        prefix = [*written[:agreed], chosen[agreed]]
        if agreed == len(written) and self.rules.ended(Generation.answer([], generation.form, prefix)):
            return None
        return generation.again(version, prefix)

    def write_texts(
        self, prompt: TokenSequence, sampling: SamplingParameters, ends: Sequence[int] = ()
    ) -> Iterator[Chunk]:
        """Write texts with the frozen model, one token of each text in turn.

        Every text goes through the network alone, exactly as in transformers' `generate`. In a batch, the last digits
        of a text's logits would depend on the other texts.
        """
        with enough_memory():
            begun = yield from self.passes.text(prompt)
            # The prompt goes through the network once for all texts.
            rows = [begun, *(begun.chosen([0]) for _ in range(sampling.n - 1))]
            generations = Generation.texts(prompt, sampling, ends)
            texts = deque(map(self.writer.chunks, generations, rows, [sampling] * sampling.n))
            while texts:
                chunk = next(texts[0], None)
                if chunk is None:
                    texts.popleft()
                    continue
                yield chunk
                texts.rotate(-1)

    @enough_memory()
    def map(self, work: Callable[[T], S], items: Sequence[T]) -> list[S]:
        return [work(item) for item in items]

    @enough_memory()
    def train(self, reading: LocalReading, position: Position, target: float) -> Training:
        node = reading.nodes([position])
        cost, replay = self.network.adapted(reading.forward, node)
        frozen = reading.forward.frozen(node)
        return self.adapter.train(self.network.head, replay, cost, frozen, self._digits, target)
