"""A vLLM server as what reads and writes token ids for a model that learns in this process."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from secl.backends.base import Bundle, EvidenceTokens, Position, Scores, TokenSequence, Training
from secl.backends.endpoint.token_server import CompletionRequest, TokenServer
from secl.backends.endpoint.versions import Versions
from secl.backends.entropy import entropy_of
from secl.backends.generation import TOP_P, Draft, Step
from secl.backends.local.backend import LocalBackend
from secl.backends.text_stream import FreeText
from secl.backends.token_ids import distinct_tokens
from secl.errors import UnavailableError
from secl.writing import Piece, Token, Writing

STOPS = ("\n", "Confidence:")
"""An answer can only be complete behind one of these (`secl.prompts.parsing.is_complete`), so it is written piece by
piece up to the next one."""

NEGLIGIBLE = math.log(1e-7)
"""Where the last of the most probable tokens has less, nobody needs to know exactly how much the others have."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """What may come next at one position of a text.

    Attributes:
        log_p: natural logarithms of probabilities by token id, of some tokens.
        entropy: over the whole vocabulary, in nats; see `secl.backends.entropy`.
    """

    log_p: Mapping[int, float]
    entropy: float

    @classmethod
    def of(cls, step: Step, vocabulary: int) -> Distribution:
        """What a server reports at one position, with the entropy that follows from it."""
        return cls(step.log_p, entropy_of(step.log_p.values(), vocabulary))


class VllmReading:
    """A bundle as one version reads it: asked of the servers when something of it is wanted.

    Args:
        backend: sends the requests.
        bundle: what is read.
        version: 0 for the frozen model.
    """

    def __init__(self, backend: VllmBackend, bundle: Bundle, version: int) -> None:
        self.backend = backend
        self.bundle = bundle
        self.version = version
        self._span_tokens = 0.0
        self._asked: dict[tuple[int, ...], Distribution] = {}
        self._known: dict[tuple[int, ...], Distribution] = {}
        self._written: tuple[int, ...] = ()
        if bundle.written is not None and bundle.written.version == version:
            # The writer told what it thought before each token. Where the text is read as it was written, nothing has
            # to be asked again; a trimmed text may be cut into other tokens than those that were generated.
            draft = bundle.written
            self._written = (*draft.prompt, *draft.written)
            for count, step in enumerate(draft.steps):
                self._known[self._written[: len(draft.prompt) + count]] = Distribution.of(step, backend.vocabulary)

    @property
    def tokens(self) -> float:
        """Tokens of all requests, with a prefix cache that forgets nothing; the draft paid for its own."""
        written = [self._written] if self._written else []
        return float(distinct_tokens([*written, *self._asked]) - len(self._written)) + self._span_tokens

    @property
    def evidence_tokens(self) -> EvidenceTokens:
        # What was asked at the ends of verdicts and orders was not asked for the answers.
        groups = [self.bundle.verdicts, self.bundle.orders]
        ends = {tuple(sequence) for group in groups for sequence in group}
        prefixes = [[prefix for prefix in self._asked if prefix not in ends]]
        for group in groups:
            prefixes.append([*prefixes[-1], *(tuple(sequence) for sequence in group if tuple(sequence) in self._asked)])
        answers, verdicts, orders = map(distinct_tokens, prefixes)
        return EvidenceTokens(verdicts - answers, orders - verdicts, self._span_tokens)

    def logits(self, positions: Sequence[Position], ids: Sequence[int]) -> list[list[float]]:
        return self.log_p(positions, ids)

    def log_p(self, positions: Sequence[Position], ids: Sequence[int]) -> list[list[float]]:
        distributions = self._at(positions, [ids] * len(positions))
        return [[each.log_p[token] for token in ids] for each in distributions]

    def likelihoods(self) -> list[float]:
        spans = self.bundle.spans
        if not spans:
            return []
        texts = [span.tokens for span in spans]
        rows = self.backend.server.read(texts)
        self._span_tokens = float(sum(map(len, texts)))  # servers take nothing of such a request from their cache
        return [sum(row[span.start - 1 :]) for row, span in zip(rows, spans, strict=True)]

    def score(self, positions: Sequence[Position], tokens: Sequence[int], ids: Sequence[int]) -> Scores:
        distributions = self._at(positions, [*([token] for token in tokens), ids])
        return Scores(
            log_p=tuple(distributions[-1].log_p[token] for token in ids),
            entropy=sum(each.entropy for each in distributions) / len(distributions),
            log_probability=sum(each.log_p[token] for each, token in zip(distributions, tokens, strict=False)),
        )

    def _at(self, positions: Sequence[Position], ids: Sequence[Sequence[int]]) -> list[Distribution]:
        """What may come at each position, with the probabilities of at least `ids` there."""
        prefixes = [tuple(self.bundle.prefix(position)) for position in positions]
        lacking = {
            prefix: wanted
            for prefix, wanted in zip(prefixes, ids, strict=True)
            if prefix not in self._known or any(token not in self._known[prefix].log_p for token in wanted)
        }
        if lacking:
            answers = self.backend.distributions(self.version, list(lacking), list(lacking.values()))
            new = dict(zip(lacking, answers, strict=True))
            self._asked.update(new)
            self._known.update(new)
        return [self._known[prefix] for prefix in prefixes]


class VllmBackend:
    """Satisfies `secl.backends.base.TokenBackend` with a vLLM server, or several behind a load balancer.

    Args:
        learner: trains on its own device; nothing else may use it.
        server: answers.
        versions: where it finds the adapted weights.
        top: most probable tokens to ask for where an entropy is wanted; at most the server's --max-logprobs.
        workers: requests that are under way together.

    Attributes:
        published: what the server calls the learner's version.
    """

    def __init__(
        self, learner: LocalBackend, server: TokenServer, versions: Versions, *, top: int, workers: int
    ) -> None:
        self.learner = learner
        self.server = server
        self.versions = versions
        self.published = ""
        self.top = top
        # A question that the server cannot read to its end is refused like one that the learner cannot read.
        self.limit = min(learner.limit, server.window or learner.limit)
        self.vocabulary = len(learner.token_ids.tokenizer)
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="secl-vllm")

    @property
    def environment(self) -> dict[str, str | int]:
        """What the server computes with is set there."""
        return {"engine": "vllm"}

    def read(self, bundles: Sequence[Bundle]) -> list[VllmReading]:
        return [VllmReading(self, bundle, 0) for bundle in bundles]

    def adapt(self, readings: Sequence[VllmReading], version: int) -> list[VllmReading]:
        return [VllmReading(self, reading.bundle, version) for reading in readings]

    def together(self, jobs: Sequence[Callable[[], None]]) -> None:
        list(self._pool.map(lambda job: job(), jobs))

    def write(self, batches: Sequence[Sequence[Draft]]) -> None:
        """Finish all drafts at the same time."""
        list(self._pool.map(self._finish, [draft for batch in batches for draft in batch]))
        for batch in batches:
            _share_prompts(batch)

    def write_texts(self, prompt: TokenSequence, writing: Writing) -> Iterator[Piece]:
        """What is drawn depends on the seed and on the server's own random numbers, which are not this machine's."""
        rules, drawn = self.learner.rules, writing.temperature > 0
        request = CompletionRequest(
            tokens=writing.max_tokens or 1,
            top=writing.top_logprobs or 0,
            stop=writing.stop,
            ends=tuple(sorted(rules.end_ids)),
            temperature=writing.temperature,
            top_p=writing.top_p,
            seed=writing.seed if drawn else None,
        )
        texts = [FreeText(rules, prompt, writing, number) for number in range(writing.n)]
        # Where nothing is drawn all texts are the same, and are written once.
        for number, steps, finish in self.server.stream(prompt, request, writing.n if drawn else 1):
            for text in [texts[number]] if drawn else texts:
                for step in steps:
                    if not text.ended:
                        yield text.push(step.token, _report(text, step, writing.top_logprobs))
                if finish is not None and not text.ended:
                    yield text.end("length" if finish == "length" else "stop")
        if not all(text.ended for text in texts):
            raise UnavailableError("a vLLM server broke off in the middle of a text; ask again.")

    def rewrite(self, drafts: Sequence[Draft], readings: Sequence[VllmReading], version: int) -> list[Draft | None]:  # noqa: ARG002
        """Servers write the adapted answers from the start."""
        begun = [replace(Draft.answer(draft.prompt, draft.form), version=version) for draft in drafts]
        rewritten = list(self._pool.map(self._finish, begun))
        _share_prompts(rewritten)
        return [*rewritten]

    def release(self) -> None:
        """Nothing is kept."""

    def _finish(self, draft: Draft) -> Draft:
        """Finish a draft; it ends exactly where the learner would end it."""
        sampled = draft.seed is not None
        pieces = 0
        rules = self.learner.rules
        while not rules.ended(draft):
            request = CompletionRequest(
                tokens=draft.limit - len(draft.written),
                # An answer states its entropy; lists and samples do not.
                top=0 if sampled or draft.lines is not None else self.top,
                stop=STOPS,
                ends=tuple(sorted(rules.end_ids)),
                temperature=1.0 if sampled else 0.0,
                top_p=TOP_P if sampled else 1.0,
                # A server starts its random numbers anew with every request.
                seed=None if draft.seed is None else draft.seed + pieces,
            )
            (steps,) = self.server.complete(self._name_of(draft.version), [[*draft.prompt, *draft.written]], request)
            draft.written.extend(step.token for step in steps)
            draft.steps.extend(steps)
            if sampled:
                draft.log_p.extend(step.log_p[step.token] for step in steps)
            pieces += 1
            if not steps:
                break
        return draft

    def _name_of(self, version: int) -> str:
        """What servers call the learner's version; "" for version 0."""
        return self.published if version else ""

    def distributions(
        self, version: int, prompts: Sequence[Sequence[int]], ids: Sequence[Sequence[int]]
    ) -> list[Distribution]:
        """What comes behind each prompt: the entropy, and the probabilities of at least `ids[i]` behind prompt i."""
        model = self._name_of(version)
        steps = [step for (step,) in self.server.complete(model, prompts, CompletionRequest(top=self.top))]
        log_p = [dict(step.log_p) for step in steps]
        smallest = [min(step.log_p.values()) for step in steps]
        for token in dict.fromkeys(token for wanted in ids for token in wanted):
            lacking = [row for row, wanted in enumerate(ids) if token in wanted and token not in log_p[row]]
            for row in lacking:
                log_p[row][token] = smallest[row]  # it has at most this
            unsure = [row for row in lacking if smallest[row] > NEGLIGIBLE]
            if unsure:
                request = CompletionRequest(top=0, only=token)
                answers = self.server.complete(model, [prompts[row] for row in unsure], request)
                for row, (step,) in zip(unsure, answers, strict=True):
                    log_p[row][token] = step.log_p[token]
        return [
            Distribution(values, Distribution.of(step, self.vocabulary).entropy)
            for values, step in zip(log_p, steps, strict=True)
        ]

    def train(self, reading: VllmReading, position: Position, target: float) -> Training:
        """Train on the very answer that a server gave, and publish the new version."""
        sequence = reading.bundle.prefix(position)
        (passed,) = self.learner.read([Bundle([sequence])])
        training = self.learner.train(passed, (0, len(sequence)), target)
        self.publish()
        return Training(training.losses, training.after, passed.tokens + training.tokens)

    def publish(self) -> None:
        """Write the learner's version where the servers find it.

        Raises:
            StorageError: the folder cannot be written.
        """
        self.published = self.versions.publish(self.learner.adapter.version, self.learner.adapter.weights())

    def close(self) -> None:
        """End all connections, and the threads."""
        self._pool.shutdown()
        self.server.endpoint.close()


def _share_prompts(batch: Sequence[Draft]) -> None:
    """Count the tokens of finished drafts; a prompt that several have in common is read once."""
    prompts: set[tuple[int, ...]] = set()
    for draft in batch:
        prompt = tuple(draft.prompt)
        draft.tokens = float(len(draft.written) + (0 if prompt in prompts else len(prompt)))
        prompts.add(prompt)


def _report(text: FreeText, step: Step, count: int | None) -> tuple[Token, ...]:
    if count is None:
        return ()
    best = sorted(step.log_p.items(), key=lambda item: -item[1])[:count]
    top = tuple((text.word(token), min(0.0, log_p)) for token, log_p in best)
    return (Token(text.word(step.token), min(0.0, step.log_p[step.token]), top),)
