"""Many endpoints as one: a request goes to another one when its own fails, and to none with old weights."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from secl.backends.vllm.client import CompletionRequest, Endpoint, Step
from secl.backends.vllm.versions import Versions
from secl.errors import ModelError, NotLoadedError, ParameterError, UnavailableError

PAUSE = 5.0
"""Seconds before an endpoint that failed is tried again."""

ALIKE, SLACK = 64, 2
"""Prompts with that many tokens in common go to the same endpoint, whose prefix cache has them, unless it has more than
twice as many requests under way as another one, and two more."""

ROUNDS = 3
"""A request that fails that often for each endpoint is given up: it may be what breaks them."""


class _Post:
    """An endpoint on duty.

    Attributes:
        well: whether requests may go there.
        busy: requests under way.
        again: when it may be tried again, if it is not well.
        tried: when it was tried last.
        why: what was wrong last.
        reviving: held by whoever tries it again.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.well = False
        self.busy = 0
        self.again = self.tried = 0.0
        self.why = "not asked yet"
        self.reviving = threading.Lock()


class Fleet:
    """Several vLLM servers of the same model.

    Args:
        endpoints: the servers.
        versions: that adapted requests name.
        accept: looks at an endpoint before it is used, and raises `UnavailableError` if it may not be.
        pause: seconds before an endpoint that failed is tried again.
        clock: gives the time in seconds.

    Attributes:
        failures: how often an endpoint failed, also while it was tried again.

    Raises:
        ParameterError: no endpoint, or one of them twice.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        versions: Versions,
        *,
        accept: Callable[[Endpoint], None] = lambda endpoint: None,  # noqa: ARG005
        pause: float = PAUSE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        urls = [endpoint.url for endpoint in endpoints]
        if not urls or len(set(urls)) < len(urls):
            raise ParameterError("a fleet needs at least one endpoint, and each of them once.")
        self.versions = versions
        self.failures = 0
        self._posts = [_Post(endpoint) for endpoint in endpoints]
        self._accept = accept
        self._pause = pause
        self._clock = clock
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close all connections."""
        for post in self._posts:
            post.endpoint.close()

    @property
    def health(self) -> dict[str, str]:
        """What is known of each endpoint: "well", or what is wrong."""
        return {post.endpoint.url: "well" if post.well else post.why for post in self._posts}

    @property
    def window(self) -> int:
        """Tokens that a prompt with its answer may have on all endpoints that have been met; 0 if none said."""
        return min((post.endpoint.window for post in self._posts if post.endpoint.window), default=0)

    @property
    def spoiled(self) -> int:
        """Answers that were asked for again, because another client's request had spoiled them."""
        return sum(post.endpoint.spoiled for post in self._posts)

    def meet(self) -> None:
        """Ask every endpoint that is not well whether it is there.

        Raises:
            UnavailableError: none is.
        """
        called = self._clock()
        for post in self._posts:
            with post.reviving:
                if not post.well and post.tried <= called:  # while we waited somebody else may have tried
                    self._revive(post)
        if not any(post.well for post in self._posts):
            raise self._nobody()

    def ask(self, version: int, prompts: Sequence[Sequence[int]], request: CompletionRequest) -> list[tuple[Step, ...]]:
        """Generate behind each prompt with a version (0 for the frozen model), on whichever endpoint can.

        Raises:
            UnavailableError: no endpoint answers.
            ModelError: the request is refused.
        """
        failed = 0
        while True:
            with self._chosen(repr((version, prompts[0][:ALIKE]))) as post:
                try:
                    return post.endpoint.complete(self._ready(post.endpoint, version), prompts, request)
                except (UnavailableError, NotLoadedError) as problem:
                    failed += 1
                    # A server that was started anew since it was asked last is well, it just has to catch up.
                    pause = self._pause if isinstance(problem, UnavailableError) else 0.0
                    self._fell(post, problem, self._clock() + pause)
                    if failed >= ROUNDS * len(self._posts):
                        raise

    def publish(self) -> None:
        """Load the newest version everywhere, and unload those that are needed no more.

        An endpoint where that fails is left out until it has caught up.
        """
        for post in self._posts:
            if post.well:
                self._try(post, lambda post=post: self._update(post.endpoint))  # type: ignore[misc]
        self.versions.clean()

    def _update(self, endpoint: Endpoint) -> None:
        self._ready(endpoint, self.versions.newest)
        for name in self.versions.surplus(endpoint.loaded):
            endpoint.unload(name)

    def _ready(self, endpoint: Endpoint, version: int) -> str:
        """The name under which an endpoint has a version, loaded now if it was not."""
        if not version:
            return endpoint.base
        name = self.versions.called(version)
        endpoint.load(name, self.versions.folder_of(version))
        return name

    @contextmanager
    def _chosen(self, key: str) -> Iterator[_Post]:
        """The endpoint that has seen the beginning of such a prompt, or the least busy one if that has much to do."""
        now = self._clock()
        for post in self._posts:
            if not post.well and post.again <= now and post.reviving.acquire(blocking=False):
                try:
                    self._revive(post)
                finally:
                    post.reviving.release()
        if not any(post.well for post in self._posts):
            self.meet()
        with self._lock:
            well = [post for post in self._posts if post.well]
            if not well:
                raise self._nobody()
            post = max(well, key=lambda each: hashlib.sha256(f"{each.endpoint.url} {key}".encode()).digest())
            least = min(well, key=lambda each: each.busy)
            if post.busy > 2 * least.busy + SLACK:
                post = least
            post.busy += 1
        try:
            yield post
        finally:
            with self._lock:
                post.busy -= 1

    def _revive(self, post: _Post) -> None:
        """Try an endpoint again; it is well only once it has the newest version."""

        def catch_up() -> None:
            post.endpoint.refresh()
            self._accept(post.endpoint)
            self._update(post.endpoint)

        post.tried = self._clock()
        post.well = self._try(post, catch_up)

    def _try(self, post: _Post, work: Callable[[], None]) -> bool:
        try:
            work()
        except ModelError as problem:
            self._fell(post, problem, self._clock() + self._pause)
            return False
        return True

    def _fell(self, post: _Post, problem: Exception, again: float) -> None:
        with self._lock:
            self.failures += 1
            post.well, post.again, post.why = False, again, str(problem)

    def _nobody(self) -> UnavailableError:
        reasons = " ".join(post.why for post in self._posts)
        return UnavailableError(f"none of the {len(self._posts)} vLLM endpoints can be used: {reasons}")
