"""vLLM servers that read and write, and a backend in this process that trains for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from secl.backends.base import Bundle, EvidenceTokens, Position, Scores, TokenSequence, Training
from secl.backends.endpoint.fleet import Distribution, Fleet, write_texts
from secl.backends.endpoint.token_server import CompletionRequest
from secl.backends.endpoint.versions import Versions
from secl.backends.generation import TOP_P, Draft, TextRules
from secl.backends.local.adapter import Adapter
from secl.backends.local.backend import LocalBackend
from secl.backends.token_ids import TokenIds, distinct_tokens
from secl.writing import Piece, Writing

STOPS = ("\n", "Confidence:")
"""An answer can only be complete behind one of these (`secl.prompts.parsing.is_complete`), so it is written piece by
piece up to the next one."""


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
        asked = [[prefix for prefix in self._asked if prefix not in ends]]
        for group in groups:
            asked.append([*asked[-1], *(tuple(sequence) for sequence in group if tuple(sequence) in self._asked)])
        answers, verdicts, orders = map(distinct_tokens, asked)
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
        rows = self.backend.fleet.ask(lambda server: server.read(texts))
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
    """Satisfies `secl.backends.base.TokenBackend` with vLLM servers.

    Args:
        learner: trains on its own device; nothing else may use it.
        fleet: of servers that answer.
        versions: where they find the adapted weights.
        top: most probable tokens to ask for where an entropy is wanted; at most the servers' --max-logprobs.
        workers: requests that are under way together.

    Attributes:
        published: what the servers call the learner's version.
    """

    def __init__(self, learner: LocalBackend, fleet: Fleet, versions: Versions, *, top: int, workers: int) -> None:
        self.learner = learner
        self.fleet = fleet
        self.versions = versions
        self.published = ""
        self.top = top
        self.name = learner.name
        self.tau = learner.tau
        self.letters = learner.letters
        self.fingerprint = learner.fingerprint
        # A question that no server reads to its end is refused like one that the learner cannot read.
        self.limit = min([learner.limit, *(server.window for server in fleet.servers if server.window)])
        self.writes_apart = True
        self.vocabulary = len(learner.token_ids.tokenizer)
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="secl-vllm")
        self._rewriting: dict[tuple[int, int], Future[Draft]] = {}

    @property
    def token_ids(self) -> TokenIds:
        return self.learner.token_ids

    @property
    def rules(self) -> TextRules:
        return self.learner.rules

    @property
    def adapter(self) -> Adapter:
        return self.learner.adapter

    @property
    def described(self) -> str:
        return self.learner.described

    @property
    def environment(self) -> dict[str, str | int]:
        """Where and how the learner computes; what the servers do is set there."""
        return {**self.learner.environment, "engine": "vllm"}

    def read(self, bundles: Sequence[Bundle]) -> list[VllmReading]:
        return [VllmReading(self, bundle, 0) for bundle in bundles]

    def adapt(self, readings: Sequence[VllmReading], version: int) -> list[VllmReading]:
        return [VllmReading(self, reading.bundle, version) for reading in readings]

    def together(self, jobs: Sequence[Callable[[], None]]) -> None:
        list(self._pool.map(lambda job: job(), jobs))

    def write(self, batches: Sequence[Sequence[Draft]], *, rewriting: int = 0) -> None:
        """Finish all drafts at the same time, and begin to rewrite the first batch: that does not have to wait."""
        tasks = [self._pool.submit(self._finish, draft) for batch in batches for draft in batch]
        self._rewriting = {}
        if rewriting:
            for draft in batches[0]:
                self._rewriting[id(draft), rewriting] = self._pool.submit(self._finish, _anew(draft, rewriting))
        for task in tasks:
            task.result()
        for batch in batches:
            _share_prompts(batch)

    def write_texts(self, prompt: TokenSequence, writing: Writing) -> Iterator[Piece]:
        return write_texts(self.fleet, self.rules, prompt, writing)

    def rewrite(self, drafts: Sequence[Draft], readings: Sequence[VllmReading], version: int) -> list[Draft | None]:  # noqa: ARG002
        """Servers write the adapted answers from the start."""
        tasks = [
            self._rewriting.get((id(draft), version)) or self._pool.submit(self._finish, _anew(draft, version))
            for draft in drafts
        ]
        rewritten = [task.result() for task in tasks]
        _share_prompts(rewritten)
        return [*rewritten]

    def beams(self, draft: Draft, count: int) -> list[Draft]:
        """The learner searches: servers do not search for beams that end as ours do."""
        return self.learner.beams(draft, count)

    def release(self) -> None:
        self._rewriting = {}

    def _finish(self, draft: Draft) -> Draft:
        """Finish a draft; it ends exactly where the learner would end it."""
        sampled = draft.seed is not None
        pieces = 0
        while not self.rules.ended(draft):
            request = CompletionRequest(
                tokens=draft.limit - len(draft.written),
                # An answer states its entropy; lists and samples do not.
                top=0 if sampled or draft.lines is not None else self.top,
                stop=STOPS,
                ends=tuple(sorted(self.rules.end_ids)),
                temperature=1.0 if sampled else 0.0,
                top_p=TOP_P if sampled else 1.0,
                # A server starts its random numbers anew with every request.
                seed=None if draft.seed is None else draft.seed + pieces,
            )
            (steps,) = self.fleet.complete(self._name_of(draft.version), [[*draft.prompt, *draft.written]], request)
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
        """What comes behind each prompt; see `Fleet.distributions`."""
        return self.fleet.distributions(self._name_of(version), prompts, ids, self.top, self.vocabulary)

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
        self.published = self.versions.publish(self.adapter.version, self.adapter.weights())

    def set_pause_hook(self, hook: Callable[[], None]) -> None:
        self.learner.set_pause_hook(hook)

    def close(self) -> None:
        """End all connections."""
        self._pool.shutdown()
        self.fleet.close()


def _anew(draft: Draft, version: int) -> Draft:
    """The beginning of a draft, for another version to write."""
    return replace(Draft.answer(draft.prompt, draft.form), version=version)


def _share_prompts(batch: Sequence[Draft]) -> None:
    """Count the tokens of finished drafts; a prompt that several have in common is read once."""
    prompts: set[tuple[int, ...]] = set()
    for draft in batch:
        prompt = tuple(draft.prompt)
        draft.tokens = float(len(draft.written) + (0 if prompt in prompts else len(prompt)))
        prompts.add(prompt)
