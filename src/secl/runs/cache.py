"""A cache on the disk of what a frozen model has answered and read.

    key   = SHA-256 of model, library, settings, question (without reference, domain and row), and kinds of evidence
    value = answer, evidence, rating or object as JSON, with its SHA-256

A second run with another threshold, grader, label or reference asks the model nothing. Records are equal to the last
digit: if questions share passes (`secl.model.Model.shares_passes`), the key also has the window of questions, because
rounding depends on the window. So rows that move into other windows are asked again.

The least recently used values are deleted if the file grows too large. A cache that cannot be used stops no run.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import sqlite3
import warnings
from collections.abc import Callable, Collection, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError

from secl.errors import ParameterError, QuestionError, SeclError, StorageError
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

FORMAT = 3
"""Number of the format of the file. A file in another format is emptied."""

SIZE_VARIABLE, SIZE = "SECL_CACHE_SIZE", 2**30
"""Environment variable with the maximum size of the file in bytes (such as 500M; 0 for no cache), and its default."""

BETWEEN = 64
"""Number of values written between two checks of the size."""

ROOM = 0.9
"""Share of the maximum size that is left after least recently used values are deleted."""

EMPTY = f"""
BEGIN IMMEDIATE;
DROP TABLE IF EXISTS readings;
CREATE TABLE readings (
    key TEXT PRIMARY KEY, used INTEGER NOT NULL, digest TEXT NOT NULL, body TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX by_use ON readings (used);
PRAGMA user_version = {FORMAT};
COMMIT;
"""
"""Makes an empty table, at once for other processes."""

OLDEST = """
DELETE FROM readings WHERE used <= (
    SELECT used FROM readings ORDER BY used LIMIT 1 OFFSET (SELECT count(*) / 10 FROM readings)
)
"""
"""Deletes the tenth of the values whose last use is oldest."""

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
        size: maximum number of bytes of the file.
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
        db = _connect(self.path)
        self.path.chmod(0o600)  # the values have texts of users
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # only a new file takes it
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        if db.execute("PRAGMA user_version").fetchone() != (FORMAT,):
            db.executescript(EMPTY)
        self._shrink(db)
        self._db = db

    def _guarded(self, work: Callable[[], T]) -> T | None:
        """Return the result of `work`; after an error, warn once, and use the cache no more."""
        try:
            return work()
        except (sqlite3.Error, OSError) as problem:
            self._db = None
            warnings.warn(
                f"the cache {self.path} cannot be used ({problem}), so secl goes on without it; secl cache --clear "
                "makes a new one, and SECL_CACHE names another folder.",
                stacklevel=2,
            )
            return None

    def get(self, key: str) -> str | None:
        """Return the value of a key, or None if it is missing or damaged."""
        db = self._db
        if db is None:
            return None

        def find() -> str | None:
            columns = "CAST(body AS BLOB), CAST(digest AS BLOB)"  # damaged text may not be UTF-8
            row = db.execute(f"SELECT {columns} FROM readings WHERE key = ?", (key,)).fetchone()
            if row is None or hashlib.sha256(row[0]).hexdigest().encode() != row[1]:
                return None
            db.execute("UPDATE readings SET used = (SELECT max(used) + 1 FROM readings) WHERE key = ?", (key,))
            self.hits += 1
            return str(row[0], "utf-8")

        return self._guarded(find)

    def put(self, key: str, body: str) -> None:
        """Keep a value."""
        db = self._db
        if db is None:
            return

        def write() -> None:
            latest = "(SELECT coalesce(max(used), 0) + 1 FROM readings)"
            db.execute(f"REPLACE INTO readings VALUES (?, {latest}, ?, ?)", (key, _digest(body), body))
            self._written += 1
            if self._written % BETWEEN == 0:
                self._shrink(db)

        self._guarded(write)

    def _shrink(self, db: sqlite3.Connection) -> None:
        """Delete the least recently used values if the file is too large."""
        if _bytes(db) > self.size:
            while _bytes(db) > ROOM * self.size and db.execute(OLDEST).rowcount:
                pass
            db.execute("PRAGMA incremental_vacuum").fetchall()

    @property
    def bytes(self) -> int:
        """Size of the file, without free pages."""
        return self._counted(_bytes)

    def __len__(self) -> int:
        return self._counted(lambda db: int(db.execute("SELECT count(*) FROM readings").fetchone()[0]))

    def _counted(self, count: Callable[[sqlite3.Connection], int]) -> int:
        db = self._db
        return 0 if db is None else self._guarded(lambda: count(db)) or 0

    @staticmethod
    def clear(path: Path) -> None:
        """Delete all values, also those of a damaged file. Other processes may use the cache meanwhile.

        Raises:
            StorageError: the file cannot be changed.
        """
        if not path.exists():
            return
        try:
            try:
                with closing(_connect(path)) as db:
                    db.executescript(EMPTY)
                    db.execute("PRAGMA incremental_vacuum").fetchall()
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError:  # no database, so no process uses it
                for each in (path, *(path.with_name(f"{path.name}-{end}") for end in ("wal", "shm"))):
                    each.unlink(missing_ok=True)
        except (sqlite3.Error, OSError) as problem:
            raise StorageError(
                f"the cache {path} cannot be emptied ({problem}); delete it, or name another folder with SECL_CACHE."
            ) from problem


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)


def _bytes(db: sqlite3.Connection) -> int:
    pages, free, size = (
        int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


_ANSWER: Final = TypeAdapter(tuple[ModelAnswer, Ledger])
_EVIDENCE: Final = TypeAdapter(tuple[Evidence, Ledger])
_DINCO: Final = TypeAdapter(tuple[DincoEvidence | None, Ledger])
_OBJECTS: Final = TypeAdapter(tuple[Objects[WrittenObject], list[list[tuple[Keys, Span]] | None]])
_RATING: Final = TypeAdapter(Rating)


def _identity(question: Question, written: str | Chunk | None) -> str:
    """Return a text for each question, its present answer and the thought before this answer."""
    thought = written.whole_thought if isinstance(written, Chunk) else None
    return repr((question.asked, None if written is None else str(written), thought))


@functools.cache
def _library() -> str:
    """Return the SHA-256 of the library's source files, which a developer changes without a new version."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _files(name: str | None) -> list[tuple[str, int, int]]:
    """Return name, size and time of change of each file of a model on this disk; fingerprints only sample weights."""
    path = Path(name or "-").expanduser()
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [
        (file.name, found.st_size, found.st_mtime_ns) for file in files if file.is_file() for found in (file.stat(),)
    ]


def _origin(model: Model, settings: Recipe) -> str:
    """Return all on which the answers of a frozen model depend: library, machine, weights or server, and settings."""
    server = getattr(getattr(model, "upstream", None), "endpoint", None)
    source = model.fingerprint, getattr(server, "url", ""), getattr(getattr(model, "abilities", None), "trial", "")
    weights = settings.model.chat_template, settings.model.answer_weights, settings.adapter
    asks = settings.paper, settings.evidence.distractors, settings.prompts, settings.seed
    files = _files(settings.model.name), _files(settings.evidence.nli)
    return _digest(repr((_library(), FORMAT, source, files, sorted(environment(model).items()), weights, asks)))


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
        self._depends = _origin(model, settings)
        self._window, self._identities = "", frozenset[str]()  # of the latest call of prefetch
        self._latest: tuple[object, ...] = ()  # kinds of evidence and window of the latest answer
        self._prefetch: Callable[[], None] | None = None  # computes the latest window, which the cache has
        self._skipped = list[Callable[[], object]]()  # asks the model what the cache has told about the latest question
        if isinstance(model, SearchesBeams):  # an attribute, because such checks do not call __getattr__
            self.dinco = self._dinco
        if isinstance(model, WritesObjects):
            self.write_objects = self._write_objects
        if isinstance(model, WritesCalls):
            self.write_calls = model.write_calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def _key(self, *parts: object) -> str:
        return _digest(repr((self._depends, parts)))

    def _together(self, *parts: object) -> str:
        """Return what the rounding of a window depends on; "" if questions do not share passes."""
        return _digest(repr(parts)) if self._model.shares_passes else ""

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
        """Compute a window as `secl.model.Model.prefetch`, without the answers that the cache has.

        If the questions share passes, compute all answers or none.
        """
        window = [*zip_longest(questions, written or [None] * len(questions))]
        kinds, identities = [sorted(each) for each in evidence], [_identity(*each) for each in window]
        self._window = self._together(identities, kinds, weights_fixed)
        self._identities = frozenset(identities)
        keys = [self._key("answer", *each, self._window) for each in zip(identities, kinds, strict=True)]
        new = [place for place, key in enumerate(keys) if self._cache.get(key) is None]
        wanted = range(len(window)) if self._window else new
        chosen = [[each[place] for place in wanted] for each in (questions, evidence, [text for _, text in window])]
        prefetch: Any = self._model.prefetch
        self._prefetch = lambda: prefetch(*chosen[:2], weights_fixed=weights_fixed, written=chosen[2])
        self._skipped = []
        if new:
            self._catch_up()

    def _catch_up(self) -> None:
        """Compute the latest window and ask the latest question, if only the cache has answered so far."""
        prefetch, skipped = self._prefetch, self._skipped
        self._prefetch, self._skipped = None, []
        if prefetch is not None:
            prefetch()
        if skipped:
            for ask in skipped:
                ask()
            self._model.meter.take()

    def answer(
        self, question: Question, *, evidence: Collection[EvidenceKind] = (), written: str | Chunk | None = None
    ) -> ModelAnswer:
        identity, kinds = _identity(question, written), sorted(evidence)
        window = self._window if identity in self._identities else ""
        self._latest, self._skipped = (identity, kinds, window), []

        def ask() -> ModelAnswer:
            return self._model.answer(question, evidence=evidence, written=written)

        answer = self._known(self._key("answer", identity, kinds, window), _ANSWER, ask)
        self.found += len(self._skipped)
        return answer

    def gather(
        self, question: Question, reply: Reply, evidence: Collection[EvidenceKind], *, samples: int = 0
    ) -> Evidence:
        about = question.asked, reply.answer, reply.thought
        key = self._key("gather", *about, sorted(evidence), samples, self._latest)
        before = self._model.meter.take()
        found = self._known(key, _EVIDENCE, lambda: self._model.gather(question, reply, evidence, samples=samples))
        self._spend(before)
        return found

    def _dinco(self, question: Question, reply: Reply, samples: Sequence[str | None]) -> DincoEvidence | None:
        key = self._key("dinco", question.asked, reply.answer, reply.thought, list(samples), self._latest)
        model: Any = self._model
        before = model.meter.take()
        found = self._known(key, _DINCO, lambda: model.dinco(question, reply, samples))
        self._spend(before)
        return found

    def _write_objects(
        self, requests: Sequence[ObjectRequest], samples: Callable[[ObjectRequest, WrittenObject], int]
    ) -> list[Objects[WrittenObject] | SeclError]:
        """Write the objects that the cache lacks; if requests share passes, all or none. Errors are not kept."""
        model: Any = self._model
        asked = [(r.question.asked, r.schema.grammar, r.schema.leaves, r.max_tokens, r.one) for r in requests]
        together = self._together(asked)
        keys = [self._key("objects", each, together) for each in asked]
        known = [self._find(key, _OBJECTS) for key in keys]
        new = [place for place, each in enumerate(known) if each is None]
        if new and together:
            new = [*range(len(requests))]
        self.found += len(requests) - len(new)
        found: list[Objects[WrittenObject] | SeclError | None] = [
            None if each is None else _with_gaps(*each) for each in known
        ]
        if new:
            written = model.write_objects([requests[place] for place in new], samples)
            for place, each in zip(new, written, strict=True):
                found[place] = each
                if isinstance(each, Objects):
                    # JSON has no keys of several parts, so the gaps stand beside the objects.
                    gaps = [None if one is None else list(one.gaps.items()) for one in (each.greedy, *each.samples)]
                    self._keep(keys[place], _OBJECTS, (_with_gaps(each), gaps))
        return [each for each in found if each is not None]

    def _known(self, key: str, adapter: TypeAdapter[tuple[T, Ledger]], ask: Callable[[], T]) -> T:
        """Return a value from the cache, or ask the model, and spend its cost."""
        known = self._find(key, adapter)
        if known is not None:
            self._skipped.append(ask)
        else:
            self._catch_up()
            known = ask(), self._model.meter.take()
            self._keep(key, adapter, known)
        self._spend(known[1])
        return known[0]

    def rate(
        self, given: Sequence[GivenAnswer], evidence: Collection[EvidenceKind]
    ) -> Sequence[Rating | QuestionError]:
        """Rate the answers that the cache lacks; if answers share passes, all answers or none."""
        asked = [(each.question.asked, each.answer, each.rivals, sorted(evidence)) for each in given]
        together = self._together(asked)
        keys = [self._key("rate", *each, together) for each in asked]
        found: list[Rating | QuestionError | None] = [self._find(key, _RATING) for key in keys]
        new = [place for place, each in enumerate(found) if each is None]
        if new and together:
            new = [*range(len(given))]
        self.found += len(given) - len(new)
        if new:
            for place, each in zip(new, self._model.rate([given[place] for place in new], evidence), strict=True):
                found[place] = each
                if isinstance(each, Rating):
                    self._keep(keys[place], _RATING, each)
        return [each for each in found if each is not None]

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
