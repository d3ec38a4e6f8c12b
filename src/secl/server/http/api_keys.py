"""API keys; `STATE/keys.json` holds their hashes.

The server reads the file for every request. A token has 32 random bytes, so an unsalted SHA-256 hash is safe.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field, TypeAdapter, ValidationError

from secl.errors import ParameterError
from secl.machine import synchronise
from secl.runs.folder import storage_errors
from secl.server.store import KEYS_FILE, make_private

KeyRole = Literal["ask", "read", "review", "admin"]
"""Roles of a key; each role includes the rights of the roles before it.

"ask" may ask questions and label the answers. "read" may read all records. "review" may label answers that were drawn
at random. "admin" may roll back, pause and resume learning.
"""

KEY_ROLES: tuple[KeyRole, ...] = get_args(KeyRole)
KEY_PREFIX = "secl_"


@dataclass(frozen=True, slots=True)
class Key:
    """An API key: name of the owner, role, and hash of the token in hexadecimal."""

    name: str
    role: KeyRole
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


_FILE_CONTENT = TypeAdapter(tuple[Key, ...])


class Keys:
    """The keys of a state folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / KEYS_FILE

    def all(self) -> tuple[Key, ...]:
        """Return the keys in the file; () if no file exists. Raises ParameterError: secl cannot read the file."""
        try:
            return _FILE_CONTENT.validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return ()
        except OSError as problem:
            sentence = f"secl cannot read {self.path}: {problem.strerror}; give secl read access."
            raise ParameterError(sentence) from problem
        except ValidationError as problem:
            raise ParameterError(
                f"{self.path} holds no list of keys; repair the file, or remove it and make the keys again with secl "
                "keys add."
            ) from problem

    def find(self, token: str) -> Key | None:
        """Return the key of a token; None if unknown. Comparisons take constant time, so timing reveals no key."""
        digest = hash_of(token)
        return next((key for key in self.all() if hmac.compare_digest(key.sha256, digest)), None)

    def add(self, name: str, role: str) -> str:
        """Make a key and return its token, which secl does not store. Raises ParameterError, StorageError."""
        if role not in KEY_ROLES:
            raise ParameterError(f"there is no role {role!r}; the roles are {', '.join(KEY_ROLES)}.")
        if not (name.isprintable() and name == name.strip() and 0 < len(name) <= 64):
            rule = "use 1 to 64 printable characters, without a space at the beginning or end"
            raise ParameterError(f"{name!r} is not a valid name for a key; {rule}.")
        token = KEY_PREFIX + secrets.token_urlsafe(32)
        with self._lock_file():
            if any(key.name == name for key in self.all()):
                raise ParameterError(f"there is a key {name!r} already; remove it or choose another name.")
            self._write([*self.all(), Key(name, role, hash_of(token))])
        return token

    def remove(self, name: str) -> None:
        """Remove a key. Raises ParameterError: no key has this name; StorageError."""
        with self._lock_file() if self.path.exists() else nullcontext():
            names = [key.name for key in self.all()]
            if name not in names:
                raise ParameterError(f"there is no key {name!r}; the existing keys are: {', '.join(names) or 'none'}.")
            self._write([key for key in self.all() if key.name != name])

    @contextmanager
    def _lock_file(self) -> Iterator[None]:
        """Lock the file within the block, so that no other thread or process replaces the file meanwhile."""
        with storage_errors(self.path.parent):
            make_private(self.path.parent)
            lock = os.open(self.path.with_name(f"{KEYS_FILE}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _write(self, keys: Sequence[Key]) -> None:
        """Replace the file atomically. Only its owner can read the new file."""
        unfinished = self.path.with_name(f"{KEYS_FILE}.new")
        with storage_errors(self.path.parent):
            unfinished.touch(mode=0o600)
            unfinished.write_bytes(_FILE_CONTENT.dump_json(tuple(keys), indent=2))
            synchronise(unfinished)
            unfinished.replace(self.path)
            synchronise(self.path.parent)


def permits(role: KeyRole | None, needed: KeyRole) -> bool:
    """Return whether a caller's role (None without a key) includes the rights of the required role."""
    return role is not None and KEY_ROLES.index(role) >= KEY_ROLES.index(needed)


def hash_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
