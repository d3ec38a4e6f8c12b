"""Where things are kept that can be made again: converted models, and what models' letters are worth."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """SECL_CACHE, else the user's cache folder; it need not exist."""
    base = os.environ.get("SECL_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "secl")
    return Path(base).expanduser()
