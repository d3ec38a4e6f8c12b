"""A cache on the disk of what a frozen model has answered and read.

    key   = SHA-256 of model, library, settings, question (without reference, domain and row), and kinds of evidence
    value = answer, evidence or rating as JSON

A second run with another threshold, grader, label or reference asks the model nothing. Records are equal to the last
digit, because the model answers a whole window of questions again if the cache lacks one of them.

The least recently used values are deleted if the cache grows too large. A cache that cannot be used stops no run.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import warnings
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError

from secl.errors import ParameterError, QuestionError, SeclError
from secl.evidence import DincoEvidence, Evidence, EvidenceKind
from secl.fields.calls import WritesCalls
from secl.fields.extraction import ObjectRequest, Objects, WritesObjects
from secl.fields.values import Path as Keys
from secl.fields.values import Span, WrittenObject
from secl.ledger import Ledger, Purpose
from secl.machine import cache_folder
from secl.model import Model, ModelAnswer, Rating, SearchesBeams
from secl.question import GivenAnswer, Question
from secl.records import Reply
from secl.runs.manifest import environment
from secl.runs.settings import Recipe
from secl.writing import Chunk

FORMAT = 1
"""Number of the format of the file. A file in another format is emptied."""

SIZE_VARIABLE, SIZE = "SECL_CACHE_SIZE", 2**30
"""Environment variable with the maximum size of the values in bytes (such as 500M; 0 for no cache), and its default."""

BETWEEN = 64
"""Number of values written between two checks of the size."""

ROOM = 0.9
"""Share of the maximum size that is left after least recently used values are deleted."""

ASKED = ("text", "options", "id", "form", "context", "system", "history")
"""Fields of a question on which a model's answer depends; the seed of a sample depends on the id."""

TABLE = """
CREATE TABLE IF NOT EXISTS readings (key TEXT PRIMARY KEY, used INTEGER NOT NULL, body TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_use ON readings (used);
"""

T = TypeVar("T")


def maximum_size() -> int:
    """Return the maximum size of the cache in bytes, from `SIZE_VARIABLE`.

    Raises:
        ParameterError: the variable is not a size.
    """
    text = os.environ.get(SIZE_VARIABLE, "").strip()
    if not text:
        return SIZE
    match = re.fullmatch(r"(\d+)\s*([kKmMgG]?)(?:i?[bB])?", text)
    if match is None:
        raise ParameterError(f"{SIZE_VARIABLE} is {text[:40]!r}; give a size such as 500M or 2G, or 0 for no cache.")
    return int(match[1]) << 10 * " kmg".index(match[2].lower() or " ")


def cache_path() -> Path:
    """Return the file of the cache, which may not exist."""
    return cache_folder() / "readings.sqlite"


class ReadingCache:
    """The cache in a file. After an error of the file, the cache is empty and keeps nothing.

    Attributes:
        size: maximum number of bytes of the values.
        hits: number of values found.
    """

    def __init__(self, path: Path | None = None, size: int | None = None) -> None:
        self.path = path or cache_path()
        self.size = maximum_size() if size is None else size
        self.hits = self._written = 0
        self._db: sqlite3.Connection | None = None
        self._guarded(self._open)

    def _open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        db = sqlite3.connect(self.path, timeout=10, isolation_level=None, check_same_thread=False)
        self.path.chmod(0o600)  # the values have texts of users
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        (found,) = db.execute("PRAGMA user_version").fetchone()
        if found not in (0, FORMAT):
            db.execute("DROP TABLE IF EXISTS readings")
        db.executescript(TABLE)
        db.execute(f"PRAGMA user_version = {FORMAT}")
        self._db = db

    def _guarded(self, work: Callable[[], T]) -> T | None:
        """Return the result of `work`; after an error, warn once, and use the cache no more."""
        try:
            return work()
        except (sqlite3.Error, OSError) as problem:
            self._db = None
            warnings.warn(
                f"the cache {self.path} cannot be used ({problem}), so secl goes on without it; secl cache --clear "
                "makes a new one.",
                stacklevel=2,
            )
            return None

    def get(self, key: str) -> str | None:
        """Return the value of a key, or None."""
        db = self._db
        if db is None:
            return None

        def find() -> str | None:
            row = db.execute("SELECT body FROM readings WHERE key = ?", (key,)).fetchone()
            if row is None:
                return None
            db.execute("UPDATE readings SET used = (SELECT max(used) + 1 FROM readings) WHERE key = ?", (key,))
            self.hits += 1
            return str(row[0])

        return self._guarded(find)

    def put(self, key: str, body: str) -> None:
        """Keep a value."""
        db = self._db
        if db is None:
            return

        def write() -> None:
            latest = "(SELECT coalesce(max(used), 0) + 1 FROM readings)"
            db.execute(f"REPLACE INTO readings VALUES (?, {latest}, ?)", (key, body))
            self._written += 1
            if self._written % BETWEEN == 0:
                self._shrink(db)

        self._guarded(write)

    def _shrink(self, db: sqlite3.Connection) -> None:
        """Delete the least recently used values if the cache is too large."""
        total = self.bytes
        if total <= self.size:
            return
        for key, length in db.execute("SELECT key, length(body) FROM readings ORDER BY used").fetchall():
            db.execute("DELETE FROM readings WHERE key = ?", (key,))
            total -= length
            if total <= ROOM * self.size:
                return

    @property
    def bytes(self) -> int:
        """Total size of the values."""
        return int(self._count("coalesce(sum(length(body)), 0)"))

    def __len__(self) -> int:
        return int(self._count("count(*)"))

    def _count(self, what: str) -> int:
        db = self._db
        if db is None:
            return 0
        return self._guarded(lambda: int(db.execute(f"SELECT {what} FROM readings").fetchone()[0])) or 0

    @staticmethod
    def clear(path: Path) -> None:
        """Delete the file of a cache, also a damaged one. A process that uses it keeps its own copy until it ends."""
        for each in (path, *(path.with_name(f"{path.name}-{end}") for end in ("wal", "shm"))):
            each.unlink(missing_ok=True)


_ANSWER: Final = TypeAdapter(tuple[ModelAnswer, Ledger])
_EVIDENCE: Final = TypeAdapter(tuple[Evidence, Ledger])
_DINCO: Final = TypeAdapter(tuple[DincoEvidence | None, Ledger])
_OBJECTS: Final = TypeAdapter(list[tuple[Objects[WrittenObject], list[list[tuple[Keys, Span]] | None]]])
_RATING: Final = TypeAdapter(Rating)


class CachedModel:
    """A `secl.model.Model` whose frozen answers and evidence are kept in a cache. All other parts are the model's.

    The weights must not change. Free texts and calls are not kept.

    Args:
        settings: the settings with which the model was loaded.

    Attributes:
        found: number of answers, ratings and objects that came from the cache.
    """

    def __init__(self, model: Model, cache: ReadingCache, settings: Recipe) -> None:
        self._model, self._cache, self.found = model, cache, 0
        asks = (settings.paper, settings.evidence.distractors, settings.prompts.thinking, settings.seed)
        self._depends = repr((version("secl"), FORMAT, model.fingerprint, sorted(environment(model).items()), asks))
        self._wanted: frozenset[EvidenceKind] = frozenset()
        self._skipped = list[Callable[[], object]]()  # asks the model what the cache has told about the latest question
        if isinstance(model, SearchesBeams):  # an attribute, because such checks do not call __getattr__
            self.dinco = self._dinco
        if isinstance(model, WritesObjects):
            self.write_objects = self._write_objects
        if isinstance(model, WritesCalls):
            self.write_calls = model.write_calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    @staticmethod
    def _asked(question: Question) -> list[tuple[str, object]]:
        return [(name, getattr(question, name)) for name in ASKED]

    def _key(self, what: str, question: Question, *parts: object) -> str:
        return hashlib.sha256(
            repr((self._depends, what, self._asked(question), parts)).encode("utf-8", "replace")
        ).hexdigest()

    def _answer_key(self, question: Question, kinds: Collection[EvidenceKind], written: str | Chunk | None) -> str:
        thought = written.whole_thought if isinstance(written, Chunk) else None
        return self._key("answer", question, sorted(kinds), None if written is None else str(written), thought)

    def _find(self, key: str, adapter: TypeAdapter[T]) -> T | None:
        body = self._cache.get(key)
        with suppress(ValidationError, ValueError):
            return None if body is None else adapter.validate_python(json.loads(body))
        return None

    def _keep(self, key: str, adapter: TypeAdapter[T], value: T) -> None:
        self._cache.put(key, json.dumps(adapter.dump_python(value, warnings=False)))

    def prefetch(
        self,
        questions: Sequence[Question],
        evidence: Sequence[Collection[EvidenceKind]],
        *,
        weights_fixed: bool,
        written: Sequence[str | Chunk | None] = (),
    ) -> None:
        """Compute a window as `secl.model.Model.prefetch`, unless the cache has all its answers."""
        texts = [*written, *[None] * (len(questions) - len(written))]
        keys = map(self._answer_key, questions, evidence, texts)
        if any(self._cache.get(key) is None for key in keys):
            self._model.prefetch(questions, evidence, weights_fixed=weights_fixed, written=written)

    def answer(
        self, question: Question, *, evidence: Collection[EvidenceKind] = (), written: str | Chunk | None = None
    ) -> ModelAnswer:
        self._wanted, self._skipped = frozenset(evidence), []

        def ask() -> ModelAnswer:
            return self._model.answer(question, evidence=evidence, written=written)

        answer = self._known(self._answer_key(question, evidence, written), _ANSWER, ask)
        self.found += len(self._skipped)
        return answer

    def gather(
        self, question: Question, reply: Reply, evidence: Collection[EvidenceKind], *, samples: int = 0
    ) -> Evidence:
        key = self._key("gather", question, reply.answer, sorted(evidence), samples, sorted(self._wanted))
        before = self._model.meter.take()
        found = self._known(key, _EVIDENCE, lambda: self._model.gather(question, reply, evidence, samples=samples))
        self._spend(before)
        return found

    def _dinco(self, question: Question, reply: Reply, samples: Sequence[str | None]) -> DincoEvidence | None:
        key = self._key("dinco", question, reply.answer, list(samples), sorted(self._wanted))
        model: Any = self._model
        before = model.meter.take()
        found = self._known(key, _DINCO, lambda: model.dinco(question, reply, samples))
        self._spend(before)
        return found

    def _write_objects(
        self, requests: Sequence[ObjectRequest], samples: Callable[[ObjectRequest, WrittenObject], int]
    ) -> list[Objects[WrittenObject] | SeclError]:
        """Write a window of objects, or take all of them from the cache. A window with an error is not kept."""
        model: Any = self._model
        asked = [(self._asked(r.question), r.schema.grammar, r.schema.leaves, r.max_tokens, r.one) for r in requests]
        key = self._key("objects", requests[0].question, asked)
        known = self._find(key, _OBJECTS)
        if known is not None:
            self.found += len(known)
            return [_with_gaps(objects, gaps) for objects, gaps in known]
        written: list[Objects[WrittenObject] | SeclError] = model.write_objects(requests, samples)
        good = [each for each in written if isinstance(each, Objects)]
        if len(good) == len(written):
            # JSON has no keys of several parts, so the gaps stand beside the objects.
            gaps = [
                [None if each is None else list(each.gaps.items()) for each in (one.greedy, *one.samples)]
                for one in good
            ]
            self._keep(key, _OBJECTS, list(zip(map(_with_gaps, good), gaps, strict=True)))
        return written

    def _known(self, key: str, adapter: TypeAdapter[tuple[T, Ledger]], ask: Callable[[], T]) -> T:
        """Return a value from the cache, or ask the model, and spend its cost."""
        known = self._find(key, adapter)
        if known is not None:
            self._skipped.append(ask)
        else:
            if self._skipped:  # the model gathers evidence about its latest answer
                for each in self._skipped:
                    each()
                self._model.meter.take()
                self._skipped = []
            known = ask(), self._model.meter.take()
            self._keep(key, adapter, known)
        self._spend(known[1])
        return known[0]

    def rate(
        self, given: Sequence[GivenAnswer], evidence: Collection[EvidenceKind]
    ) -> Sequence[Rating | QuestionError]:
        keys = [self._key("rate", each.question, each.answer, each.rivals, sorted(evidence)) for each in given]
        known = [self._find(key, _RATING) for key in keys]
        if None not in known:
            self.found += len(known)
            return [rating for rating in known if rating is not None]
        ratings = self._model.rate(given, evidence)
        for key, rating in zip(keys, ratings, strict=True):
            if isinstance(rating, Rating):
                self._keep(key, _RATING, rating)
        return ratings

    def _spend(self, ledger: Ledger) -> None:
        for purpose in get_args(Purpose):
            self._model.meter.spend(purpose, getattr(ledger, purpose))
        self._model.meter.spend("answering", 0.0, ledger.steps)


def _with_gaps(
    objects: Objects[WrittenObject], gaps: Sequence[Sequence[tuple[Keys, Span]] | None] = ()
) -> Objects[WrittenObject]:
    """Return the objects with these gaps, first those of the greedy object; without `gaps`, with none."""

    def filled(written: WrittenObject, place: int) -> WrittenObject:
        return replace(written, gaps=dict(gaps[place] or ()) if gaps else {})

    samples = [None if each is None else filled(each, place) for place, each in enumerate(objects.samples, 1)]
    return replace(objects, greedy=filled(objects.greedy, 0), samples=tuple(samples))


def with_cache(model: Model, cache: ReadingCache | None, settings: Recipe) -> Model:
    """Return the model with a cache; the model itself without a cache, and if it may learn."""
    if cache is None or cache.size == 0 or settings.learns or not model.fingerprint:
        return model
    cached: Any = CachedModel(model, cache, settings)
    return cached  # type: ignore[no-any-return]
