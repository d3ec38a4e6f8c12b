"""What settings name: the questions, and the model with its adapter."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secl.data.question_files import read_questions
from secl.data.streams import arrange, load_stream
from secl.errors import RunError
from secl.model import Model
from secl.records import Question
from secl.runs.manifest import Manifest
from secl.runs.settings import RunSettings
from secl.runs.store import Store
from secl.settings import merged
from secl.signals import NormalisedPTrue

if TYPE_CHECKING:
    from secl.backends.local.loading import ModelCache
    from secl.backends.local.model import LocalModel

Load = Callable[[RunSettings], Model]
"""Loads the model that settings name."""


def load_questions(settings: RunSettings) -> list[Question]:
    """The questions that settings name, in the order in which they are asked."""
    source = settings.stream
    if source.questions is not None:
        counts: Counter[str] = Counter()
        questions = []
        for question in read_questions(Path(source.questions)):
            counts[question.domain] += 1
            if source.per_domain is None or counts[question.domain] <= source.per_domain:
                questions.append(question)
        return arrange(questions, source.order, settings.seed)
    data = Path(source.data) if source.data else None
    return load_stream(source.benchmarks, source.per_domain, order=source.order, seed=settings.seed, data=data)


def load_model(settings: RunSettings) -> LocalModel:
    """The model that settings name, with its adapter."""
    from secl.backends.local.model import LocalModel  # torch takes seconds to import

    return LocalModel.load(
        settings.model.name,
        dtype=settings.model.dtype,
        device=settings.model.device,
        cache=_model_cache(),
        adapter=settings.adapter,
        p_true=settings.evidence.p_true,
        orders=settings.evidence.orders,
        nli=settings.evidence.nli,
        seed=settings.seed,
    )


@functools.cache
def _model_cache() -> ModelCache:
    """Runs of one process that have a model in common load it once."""
    from secl.backends.local.loading import ModelCache

    return ModelCache()


def load_for_asking(
    changes: Mapping[str, Any], run: Path | None, load: Load | None = None
) -> tuple[Model, NormalisedPTrue]:
    """A model to ask by hand, untouched or with what a run has learned, and how its P(True) is normalised.

    Args:
        changes: settings of the model.
        run: folder of the run whose adapter to use.
        load: loads the model, as for `secl.runs.runner.start`.
    """
    if run is None:
        settings = RunSettings.of({"benchmarks": ["capitals"], **changes})
        model = (load or load_model)(settings)
    else:
        with Store(run) as store:
            manifest, snapshot = Manifest.of(store), store.snapshot()
        settings = RunSettings.of(merged(manifest.settings.to_json(), changes))
        model = (load or load_model)(settings)
        if model.fingerprint != manifest.model:
            raise RunError(f"{run} was made with another model ({manifest.settings.model.name}).")
        if snapshot is None:
            raise RunError(f"{run} has learned nothing, so it has no adapter to ask with; leave --adapter out.")
        model.restore(snapshot)
    return model, NormalisedPTrue(settings.tau(model.tau), settings.evidence.formula)
