"""A fleet of vLLM servers as the model that answers, and a model in this process that learns for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secl.backends.vllm.endpoint import Endpoint
from secl.backends.vllm.model_check import ModelCheck
from secl.backends.vllm.pool import PAUSE, Fleet
from secl.backends.vllm.prefetch import Asking, Prefetched
from secl.backends.vllm.readout import FleetReader
from secl.backends.vllm.token_prompts import Prompting, distinct_tokens
from secl.backends.vllm.versions import Versions
from secl.errors import QuestionError
from secl.model import ModelAnswer
from secl.records import DincoEvidence, PTrue, Question, Reply, Update
from secl.validation import check_whole

if TYPE_CHECKING:
    from secl.backends.local.model import LocalModel

WORKERS = 16
"""Requests that are under way together, unless said otherwise."""


class FleetModel:
    """Answers with vLLM servers; a `LocalModel` learns, and every version of it is published to them.

    It satisfies `secl.model.Model`. The servers must serve the very model that the learner has, with float32 logits
    (`--hf-overrides '{"head_dtype": "float32"}'`): bfloat16 ones lie on a grid that is coarser than what is learned.

    Args:
        learner: trains on its own device, and holds the weights; nothing else may use it.
        urls: addresses of the servers.
        folder: where versions are published; all servers must see it under the same path.
        name: what the versions are called there: "NAME-3". Learners that share servers need different names.
        key: the servers' API key.
        top: most probable tokens to ask for where an entropy is wanted; at most the servers' --max-logprobs, and the
            more, the nearer (see `secl.backends.vllm.entropy`).
        workers: requests that are under way together.
        timeout: seconds that one request may take.
        pause: seconds before a server that failed is tried again.
        tolerance: how far (total variation of the ten bins) a server's stated confidence for a sample question may be
            from the learner's; one that is farther serves another model, and is left out.

    Attributes:
        fleet: the servers and how they are.
        versions: what is published.

    Raises:
        ParameterError: an address or a number makes no sense.
        ModelError: no server can be used; the message says what is wrong with each.
        StorageError: the folder cannot be written.
    """

    def __init__(
        self,
        learner: LocalModel,
        urls: Sequence[str],
        folder: Path,
        *,
        name: str = "secl",
        key: str | None = None,
        top: int = 20,
        workers: int = WORKERS,
        timeout: float = 120.0,
        pause: float = PAUSE,
        tolerance: float = 0.1,
    ) -> None:
        check_whole("number of most probable tokens", top, 1)
        check_whole("number of requests at a time", workers, 1)
        self.learner = learner
        self.name = learner.name
        self.tau = learner.tau
        self.fingerprint = learner.fingerprint
        self.prompting = Prompting(learner.words)
        self.versions = Versions(folder, learner.adapter.config.to_dict(), name)
        endpoints = [Endpoint(url, key=key, timeout=timeout) for url in urls]
        self.fleet = Fleet(endpoints, self.versions, accept=ModelCheck(learner, self.prompting, tolerance), pause=pause)
        self.reader = FleetReader(self.fleet, self.prompting, learner.generator, learner.reader.kind, top)
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="secl-fleet")
        self.asking = Asking(self.reader, self._pool)
        self.meter = learner.meter
        self._looks: dict[Question, Prefetched] = {}
        self._latest: Prefetched | None = None
        try:
            self.fleet.meet()
            self.publish()
        except BaseException:
            self.close()
            raise
        # A question that no server reads to its end is refused like one that the learner cannot read.
        learner.limit = min(learner.limit, self.fleet.window or learner.limit)

    def close(self) -> None:
        """End all connections; the published versions stay loaded."""
        self._pool.shutdown()
        self.fleet.close()

    @property
    def adapter_config(self) -> dict[str, Any]:
        """The learner's LoRA configuration in PEFT's words."""
        return self.learner.adapter_config

    @property
    def environment(self) -> dict[str, str | int]:
        """Where and how the learner computes; what the servers do is set there."""
        return {**self.learner.environment, "engine": "vllm"}

    @property
    def version(self) -> int:
        return self.learner.version

    @property
    def relative_norm(self) -> float:
        return self.learner.relative_norm

    def set_pause_hook(self, hook: Callable[[], None]) -> None:
        """Call `hook` before every layer of every pass of the learner."""
        self.learner.set_pause_hook(hook)

    def check(self, question: Question) -> None:
        """Let a question pass that learner and servers can read; see `LocalModel.check`."""
        self.learner.check(question)

    def prefetch(self, questions: Sequence[Question], scored: Sequence[bool], *, weights_fixed: bool) -> None:
        """Ask the servers about all coming questions at once; see `secl.model.Model.prefetch`."""
        for question in questions:
            self.check(question)
        wanted: dict[Question, list[bool]] = {}
        for question, flag in zip(questions, scored, strict=True):
            wanted.setdefault(question, []).append(flag)
        with self.versions.holding() as version:
            looks = self.asking.look(
                list(wanted), [any(flags) for flags in wanted.values()], version if weights_fixed else 0
            )
        for look in looks:
            look.times = len(wanted[look.question])
        self._looks = {look.question: look for look in looks}

    def answer(self, question: Question, *, score_next: bool = False) -> ModelAnswer:
        """Answer and state a confidence, as the newest version and as the frozen model.

        Raises:
            QuestionError: the question has more options than letters, or is longer than the model can read.
            UnavailableError: no server answers (a `ModelError`; later one may).
        """
        with self.versions.holding() as version:
            look = self._looks.get(question)
            if look is None:
                self.check(question)
                (look,) = self.asking.look([question], [score_next], version)
            if version and (look.adapted is None or look.adapted.reply.version != version):
                look.adapted = self.reader.reply(question, version)
        self._latest = look
        told = look.adapted if version and look.adapted is not None else look.frozen
        self.meter.spend("answering", (look.tokens - look.scoring) / look.times)
        self.meter.spend("scoring", look.scoring / look.times)
        if version:
            self.meter.spend("adapting", told.tokens / look.times)
        return ModelAnswer(reply=told.reply, frozen=look.frozen.reply, plain_tokens=float(len(look.frozen.sequence)))

    def score_p_true(self, question: Question, reply: Reply) -> PTrue | None:
        """P(True) of the answer and of its distractors from the frozen model; None without a readable answer."""
        if reply.answer is None:
            return None
        look = self._latest if self._latest is not None and self._latest.question == question else None
        if question.options:
            p_true = look.verdicts if look is not None else None
            if p_true is None:
                p_true = self._judge(question, question.options)
            first = question.letters.index(reply.answer)
            order = [first, *(i for i in range(len(question.options)) if i != first)]
            return PTrue(
                candidates=tuple(question.options[i] for i in order),
                probabilities=tuple(p_true[i] for i in order),
                distractor_source="options",
            )
        listed = look.listed if look is not None else None
        if listed is None:
            listed, sequence = self.reader.listing(question)
            self.meter.spend("scoring", len(sequence))
        # What a list lacks is drawn by the learner, whose draws depend on the question alone.
        others, strategy, tokens = self.learner.generator.distractors(
            self.prompting.listing(question), question, reply.answer, listed
        )
        self.meter.spend("scoring", tokens)
        candidates = (reply.answer, *others)
        return PTrue(candidates=candidates, probabilities=self._judge(question, candidates), distractor_source=strategy)

    def _judge(self, question: Question, candidates: Sequence[str]) -> tuple[float, ...]:
        sequences = [self.prompting.verdict(question, candidate) for candidate in candidates]
        self.meter.spend("scoring", distinct_tokens(sequences))
        return self.reader.p_true(sequences)

    def sample(self, question: Question, count: int) -> tuple[str | None, ...]:
        """Further answers of the frozen model at temperature 1, drawn by the servers; letters are drawn here.

        The draws depend on the question and the learner's seed, but servers with other hardware may draw otherwise.
        """
        generator = self.learner.generator
        if question.options:
            if self._latest is None or self._latest.question != question:
                (look,) = self.asking.look([question], [False], 0)
                self.meter.spend("sampling", look.tokens)
            else:
                look = self._latest
            places = generator.draw_options(look.frozen.shares, question, count)
            return tuple(question.letters[place] for place in places)
        seeds = [generator.seed_for(question, f"sample {i}") for i in range(count)]
        drawn = list(self._pool.map(lambda seed: self.reader.sample(question, seed), seeds))
        self.meter.spend("sampling", distinct_tokens([sequence for _, sequence in drawn]))
        return tuple(answer for answer, _ in drawn)

    def dinco(self, question: Question, reply: Reply, samples: Sequence[str | None]) -> DincoEvidence | None:
        """Evidence for DINCO from the learner's frozen model: servers do not search for beams that end as ours do."""
        return self.learner.dinco(question, reply, samples)

    def learn(self, question: Question, reply: Reply, target: float) -> Update:
        """Move the stated confidence of `reply` towards `target` and publish the new version.

        The learner reads the very answer that a server gave; `question` must be the latest one answered.

        Raises:
            QuestionError: another question was answered since.
        """
        look = self._latest
        if look is None or look.question != question:
            raise QuestionError(f"question {question.id!r} is not the latest one answered; answer it again first.")
        told = look.adapted if self.version and look.adapted is not None else look.frozen
        learner = self.learner
        passed = learner.network.run([told.sequence])
        end = passed.trie.paths[0][-1:]
        replay = passed.adapted(end)
        losses, after = learner.distiller.train(
            learner.adapter, learner.network.head, replay, passed.frozen(end), learner.reader.digits, target
        )
        self.meter.spend("learning", len(passed.trie.tokens) + replay.tokens * (3 * learner.distiller.epochs + 1))
        self.publish()
        return Update(version=self.version, before=reply.confidence, target=target, after=after, losses=losses)

    def publish(self) -> None:
        """Write the learner's version, and load it on every server that is well; the others catch up later.

        Raises:
            StorageError: the folder cannot be written.
        """
        if self.version:
            self.versions.write(self.version, self.weights())
        else:
            self.versions.retire()
        self.fleet.publish()

    def _moved(self) -> None:
        # Updates after this one may take numbers that were given before.
        self._looks, self._latest = {}, None
        self.publish()

    def reset(self) -> None:
        self.learner.reset()
        self.publish()

    def snapshot(self) -> bytes:
        return self.learner.snapshot()

    def restore(self, snapshot: bytes) -> None:
        self.learner.restore(snapshot)
        self._moved()

    def load_version(self, weights: bytes, version: int) -> None:
        self.learner.load_version(weights, version)
        self._moved()

    def weights(self) -> bytes:
        return self.learner.weights()
