"""Benchmark rows from the Hugging Face hub. Needs the extra `hub` and, once, the network."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from secl.data.official import LocatedRow
from secl.errors import DataError, needs


def hub_rows(benchmark: str, repository: str, configuration: str, split: str) -> Iterator[LocatedRow]:
    """Yield the rows of a dataset on the hub, each with its location for messages.

    Raises:
        DataError: `datasets` is not installed, or neither the hub nor the cache has the data.
    """
    try:
        import datasets
    except ImportError as error:
        raise DataError(needs(f"the benchmark {benchmark!r} without --data FOLDER", "datasets", "hub")) from error
    try:
        with silent_retries():
            dataset = datasets.load_dataset(repository, configuration, split=split)
    except Exception as error:  # network failures have too many classes to list: requests, httpx, hub, cache, disk
        reason = (str(error).strip().splitlines() or [""])[0][:200]
        raise DataError(
            f"the benchmark {benchmark!r} ({repository}) cannot be fetched from the Hugging Face hub "
            f"({type(error).__name__}: {reason}); check the network, "
            "or name a folder with its official files by --data or SECL_DATA."
        ) from error
    for index, row in enumerate(dataset):
        yield f"{repository} ({configuration}, {split}), row {index}", row


@contextmanager
def silent_retries() -> Iterator[None]:
    """Silence the hub's client, which logs each failed attempt; the last attempt raises the error."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
