"""A vLLM server, or several behind a load balancer, that reads and writes token ids; and a chat model on it."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from typing import Any

from secl.backends.base import Bundle, Engine, Position, S, Statistics, T, TokenSequence
from secl.backends.endpoint.client import Endpoint, Upstream
from secl.backends.endpoint.probabilities import entropy_of
from secl.backends.endpoint.vllm.server import READ_TIMEOUT, CompletionRequest, TokenServer
from secl.backends.generation import Generation, Step, TextRules
from secl.backends.local.loading.loader import ModelFacts, load_facts
from secl.backends.local.loading.thinking import FIRST_TOKENS
from secl.backends.token_ids import TokenIds, common_length, sample_text
from secl.backends.token_model import TokenModel
from secl.errors import ModelError
from secl.writing import Chunk, SamplingParameters, Token

STOPS = ("\n", "Confidence:")
"""Texts at which a request ends. `TextRules.ended` then decides whether the answer is complete."""

TOP = 20
"""Number of most probable tokens for the estimate of an entropy: vLLM's default of --max-logprobs."""

CONCURRENT_REQUESTS = 128
"""Maximum number of requests at the same time."""

SEPARATE_POSITIONS = 8
"""Maximum number of positions to request as separate prompts. For more positions of one sequence, a single request
returns the probabilities at every position of the sequence; for such a request, the server does not use its cache."""

NEGLIGIBLE = math.log(1e-7)
"""Log-probability that is as good as any lower one. If the least probable listed token has at most this value,
unlisted tokens get the value of the listed token, without a request of their own."""


class VllmReading:
    """Probabilities that one version gives to tokens of a bundle. secl requests each probability on first use.

    `name` returns the servers' name for the version. Threads may read different positions at the same time.
    """

    def __init__(
        self, engine: VllmEngine, bundle: Bundle, version: int = 0, name: Callable[[], str] = lambda: ""
    ) -> None:
        self.engine, self.bundle, self.version, self._name = engine, bundle, version, name
        self._log_p: dict[Position, dict[int, float]] = {}
        self._best: dict[Position, list[float]] = {}  # ln probabilities of the most probable tokens, in order
        generation = bundle.generation
        if generation is not None and generation.version == version:
            # The generation already has the distribution of each written token. The answer in the bundle may have fewer
            # tokens, because the chat template may trim the answer.
            written, first = (*generation.prompt, *generation.written), len(generation.prompt)
            alike = common_length(written, bundle.answers[0])
            for length, step in zip(range(first, alike + 1), generation.steps, strict=False):
                self._note((0, length), step)

    @property
    def tokens(self) -> float:
        return float(self.bundle.tokens["answering"] if self.version else self.bundle.size)

    def log_p(self, positions: Sequence[Position], ids: Sequence[int]) -> list[list[float]]:
        self._ask(dict.fromkeys(positions, ids))
        return [[self._log_p[position][token] for token in ids] for position in positions]

    logits = log_p

    def highest_log_p(self, positions: Sequence[Position]) -> list[float]:
        self._read([position for position in positions if position not in self._best])
        return [self._best[position][0] for position in positions]

    def likelihoods(self) -> list[float]:
        spans = self.bundle.spans
        rows = self.engine.server.read([span.tokens for span in spans]) if spans else []
        return [sum(row[span.start - 1 :]) for row, span in zip(rows, spans, strict=True)]

    def text_statistics(
        self, positions: Sequence[Position], tokens: Sequence[int], next_ids: Sequence[int], *, top: int = 0
    ) -> Statistics:
        wanted = dict(zip(positions, [*([token] for token in tokens), next_ids], strict=True))
        self._read([position for position in positions if position not in self._best])
        for position, ids in wanted.items():
            if (least := self._best[position][-1]) <= NEGLIGIBLE:
                self._log_p[position] = {**dict.fromkeys(ids, least), **self._log_p[position]}
        self._ask(wanted)
        *before, last = positions
        log_p = tuple(self._log_p[each][token] for each, token in zip(before, tokens, strict=True))
        entropies = (entropy_of(self._best[each], self.engine.vocabulary) for each in positions)
        next_log_p = tuple(self._log_p[last][token] for token in next_ids)
        best = [heapq.nlargest(top, self._log_p[each].items(), key=itemgetter(1)) for each in before] if top else []
        return Statistics(log_p, sum(log_p), sum(entropies) / len(positions), next_log_p, tuple(map(tuple, best)))

    def _read(self, positions: Sequence[Position]) -> None:
        """Request the most probable tokens at each position."""
        if len(positions) > SEPARATE_POSITIONS and len({number for number, _ in positions}) == 1:
            ((*inside, end),) = self._complete(positions[-1:], CompletionRequest(top=self.engine.top, inside=True))
            steps = [*(inside[length - 1] for _, length in positions[:-1]), end]
        else:
            steps = [step for (step,) in self._complete(positions, CompletionRequest(top=self.engine.top))]
        for position, step in zip(positions, steps, strict=True):
            self._note(position, step)

    def _ask(self, wanted: Mapping[Position, Sequence[int]]) -> None:
        """Request the probabilities that are not known yet."""
        lacking = {
            position: ids
            for position, ids in wanted.items()
            if any(token not in self._log_p.get(position, {}) for token in ids)
        }
        request = CompletionRequest(ids=tuple(dict.fromkeys(token for ids in lacking.values() for token in ids)))
        for position, (step,) in zip(lacking, self._complete([*lacking], request), strict=True):
            self._log_p[position] = {**step.log_p, **self._log_p.get(position, {})}

    def _complete(self, positions: Sequence[Position], request: CompletionRequest) -> list[tuple[Step, ...]]:
        """Send one request for all positions, and return the steps at each position."""
        if not positions:
            return []
        prefixes = [tuple(self.bundle.prefix(position)) for position in positions]
        return self.engine.server.complete(self._name(), prefixes, request)

    def _note(self, position: Position, step: Step) -> None:
        # The server also lists the written token, so a step may have one token more than requested.
        self._best[position] = heapq.nlargest(self.engine.top, step.log_p.values())
        self._log_p[position] = {**self._log_p.get(position, {}), **step.log_p}


class VllmEngine(Engine):
    """An engine on a vLLM server, or on several servers behind a load balancer.

    Args:
        window: maximum number of tokens that the model's configuration allows for a prompt with its answer.
    """

    def __init__(self, server: TokenServer, rules: TextRules, vocabulary: int, window: int) -> None:
        self.server, self.rules = server, rules
        self.top, self.vocabulary = TOP, vocabulary
        self.limit = min(window, server.window or window)
        self._pool = ThreadPoolExecutor(CONCURRENT_REQUESTS, thread_name_prefix="secl-vllm")

    @property
    def environment(self) -> dict[str, str | int]:
        return {"engine": "vllm"}

    def read(self, bundles: Sequence[Bundle]) -> list[VllmReading]:
        return [VllmReading(self, bundle) for bundle in bundles]

    def map(self, work: Callable[[T], S], items: Sequence[T]) -> list[S]:
        return [*self._pool.map(work, items)]

    def write(self, batches: Sequence[Sequence[Generation]]) -> None:
        """Finish all generations by parallel requests."""
        self.map(self.finish, [generation for batch in batches for generation in batch])

    def write_texts(
        self, prompt: TokenSequence, sampling: SamplingParameters, ends: Sequence[int] = ()
    ) -> Iterator[Chunk]:
        """Write texts. Draws depend on the seed and on the server's random number generator."""
        rules, drawn = self.rules, sampling.temperature > 0
        request = CompletionRequest(
            tokens=sampling.max_tokens or 1,
            top=max(self.top, sampling.top_logprobs or 0),
            stop=sampling.stop,
            ends=tuple(sorted({*rules.end_ids, *ends})),
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            seed=sampling.seed if drawn else None,
        )
        texts = Generation.texts(prompt, sampling, ends)
        # Greedy texts are all equal, so the server writes only one.
        for number, steps, finish in self.server.stream(prompt, request, sampling.n if drawn else 1):
            for text in [texts[number]] if drawn else texts:
                for step in steps:
                    if text.finish is None:
                        text.steps.append(step)
                        yield rules.push(text, step.token, _report(rules, step, sampling.top_logprobs))
                if finish is not None and text.finish is None:
                    yield rules.end(text, "length" if finish == "length" else "stop")
        if any(text.finish is None for text in texts):
            raise self.server.endpoint.broke_off()

    def finish(self, generation: Generation, name: str = "") -> Generation:
        """Write a generation with a version until `TextRules.ended`; one generation may need several requests."""
        rules, sampled, pieces = self.rules, generation.seed is not None, 0
        while not rules.ended(generation):
            request = CompletionRequest(
                tokens=generation.limit - len(generation.written),
                # The most probable tokens give the entropy, which secl needs of answers, but not of lists and samples.
                top=0 if sampled or generation.lines is not None else self.top,
                stop=STOPS,
                ends=tuple(sorted({*rules.end_ids, *generation.ends})),
                temperature=1.0 if sampled else 0.0,
                top_p=generation.top_p if sampled else 1.0,
                # Each request seeds the server's generator anew, so a request that continues a generation has another
                # seed.
                seed=None if generation.seed is None else generation.seed + pieces,
            )
            (steps,) = self.server.complete(name, [[*generation.prompt, *generation.written]], request)
            generation.written.extend(step.token for step in steps)
            generation.steps.extend(steps)
            generation.log_p.extend(step.log_p[step.token] for step in steps)
            pieces += 1
            if not steps:
                break
        return generation

    def close(self) -> None:
        self._pool.shutdown()
        self.server.endpoint.close()


def _report(rules: TextRules, step: Step, count: int | None) -> tuple[Token, ...]:
    if count is None:
        return ()
    best = sorted(step.log_p.items(), key=lambda item: -item[1])[:count]
    return (rules.token(step.token, step.log_p[step.token], best),)


class VllmModel(TokenModel):
    """A `secl.model.Model` on a vLLM server. This process needs only the model's tokenizer and configuration.

    The model does not learn: `secl.backends.endpoint.vllm.connect.answer_by_vllm` connects a model that does.

    Args:
        url: address of the server, or of a load balancer in front of several.
        name: preset, hub id or folder with the model's tokenizer; "" for the server's own name of the model.
        key: the server's API key.
        settings: see `secl.backends.token_model.TokenModel`.

    Raises:
        ParameterError: `url` is not a URL, or a setting is invalid.
        ModelError: the server does not answer or gives no log-probabilities, the tokenizer cannot be loaded, or it is
            the tokenizer of another model.
    """

    def __init__(
        self,
        url: str,
        name: str = "",
        *,
        key: str | None = None,
        **settings: Any,
    ) -> None:
        endpoint = Endpoint(url, key=key, silence=READ_TIMEOUT)
        try:
            server = TokenServer(endpoint)
            facts = _facts_of(server, name)
            token_ids = TokenIds.of(facts.tokenizer, facts.name)
            _check_tokens(server, token_ids, facts.name)
            rules = TextRules(facts.tokenizer, facts.end_ids)
            engine = VllmEngine(server, rules, len(facts.tokenizer), facts.limit)
            super().__init__(facts, engine, token_ids, rules=rules, **settings)
        except BaseException:
            endpoint.close()
            raise
        self.fingerprint = f"vllm:{server.root}:{facts.fingerprint}"
        self.upstream = Upstream(endpoint, server.base, takes_all=False)

    def _facts(self) -> dict[str, object]:
        return {"name": self.name, "endpoint": self.upstream.endpoint.url, "tau": self.tau}


def _facts_of(server: TokenServer, name: str) -> ModelFacts:
    def begin(prompt: list[int]) -> list[int]:
        ((*steps,),) = server.complete("", [prompt], CompletionRequest(tokens=FIRST_TOKENS))
        return [step.token for step in steps]

    try:
        return load_facts(name or server.root, begin)
    except ModelError as problem:
        if name:
            raise
        raise ModelError(
            f"{server.url} runs {server.root}, whose tokenizer secl cannot load here; name the hub id or folder of the "
            f"tokenizer as the model ({problem})"
        ) from problem


def _check_tokens(server: TokenServer, token_ids: TokenIds, name: str) -> None:
    """Raise a `ModelError` if the server has another tokenizer, or does not report log-probabilities by token id."""
    text = sample_text(token_ids.tokenizer, name)
    ids = token_ids.encode(text)
    if server.tokens_of(text) != ids[1:]:
        raise ModelError(
            f"{server.url} runs {server.root}, which splits texts into other tokens than {name}; name the model of "
            "the server, or start the server with this model."
        )
    server.complete("", [ids], CompletionRequest(ids=token_ids.digits))
