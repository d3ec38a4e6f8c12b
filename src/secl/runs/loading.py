"""Load the questions and the model that settings name."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from secl.calibrator import Calibrator
from secl.data.benchmarks import arrange, load_stream
from secl.data.question_files import QuestionFile, read_rows
from secl.errors import DataError, ParameterError, QuestionError, RunError, needs
from secl.machine import without_garbage_collection
from secl.model import Model, check_given, learner_of
from secl.runs.extracting import DocumentFile, read_document_stream, writer_of
from secl.runs.manifest import NO_RUN, Earlier, Manifest, Mode
from secl.runs.settings import Recipe, RunSettings
from secl.runs.store import Store
from secl.settings.groups import ENDPOINT_KEY

if TYPE_CHECKING:
    from secl.backends.local.loading.loader import Loaded, ModelCache
    from secl.backends.local.model import LocalModel
    from secl.flow.model import SharedAnswers

Load = Callable[[Recipe], Model]
"""Function that loads the model named by settings."""

LEARNED_WITH = ("model.", "prompts.", "adapter.", "paper", "evidence.", "posterior.", "seed")
"""Prefixes of the settings that `load_for_asking` takes from the run with the learned weights."""

Named = TypeVar("Named", bound=Recipe)


def read_stream(settings: RunSettings, mode: Mode = "ask") -> QuestionFile:
    """Return the questions that the settings name, in the order of the stream. `askable` checks them with the model.

    Raises:
        DataError: a benchmark or file cannot be read; or, in the mode "score", a row has no answer.
    """
    source = settings.stream
    if mode == "extract":
        return read_document_stream(settings)
    if source.questions is None:
        data = Path(source.data) if source.data else None
        asked = load_stream(source.benchmarks, source.per_domain, order=source.order, seed=settings.seed, data=data)
        return QuestionFile(tuple(asked[: source.limit]))
    file = read_rows(
        Path(source.questions),
        skip_bad=source.skip_bad,
        columns=source.named_columns,
        grader=source.grader,
        options=source.options,
        template=source.template,
        rate=mode == "score",
    )
    counts: Counter[str] = Counter()
    questions = []
    for question in file.questions:
        counts[question.domain] += 1
        if source.per_domain is None or counts[question.domain] <= source.per_domain:
            questions.append(question)
    return file.of(arrange(questions, source.order, settings.seed)[: source.limit])


def askable(file: QuestionFile, model: Model, skip_bad: bool) -> tuple[QuestionFile, tuple[str, ...]]:
    """Return the questions that a model can answer (or whose answers it can rate), and the ids of skipped questions.

    Documents are not skipped here; a run checks each document when the model reads it (`secl.runs.extracting`).

    Raises:
        QuestionError: without `skip_bad`, the model cannot answer a question or rate an answer.
        ParameterError: the model cannot write the objects of an extraction.
        DataError: no question is left.
    """
    if isinstance(file, DocumentFile):
        writer_of(model, file.requests)
        return file, ()
    refused: dict[str, str] = {}
    for question, given in zip(file.questions, file.given or repeat(None), strict=False):
        try:
            if given is None:
                model.check(question)
            else:
                check_given(model, given)
        except QuestionError as problem:
            if not skip_bad:
                raise
            refused[question.id] = str(problem).removeprefix(f"question {question.id!r} ")
    rest = file.without(refused)
    if refused and not rest.questions:
        name, reason = next(iter(refused.items()))
        raise DataError(f"the model can answer none of the questions: question {name!r} {reason}")
    skipped = tuple((f"question {name!r}", reason) for name, reason in refused.items())
    return replace(rest, skipped=file.skipped + skipped), tuple(refused)


def load_model(settings: Recipe, shared: SharedAnswers | None = None, *, key: str | None = None) -> Model:
    """Load the model that the settings name, or connect to its server.

    `key` is the API key of the server; None takes the key from the environment.
    """
    if settings.model.answered_by == "local":
        return load_local(settings, shared)
    key = key or os.environ.get(ENDPOINT_KEY)
    if settings.model.answered_by == "vllm":
        return _load_vllm(named(settings, key), settings.model.endpoint or "", key)
    from secl.backends.endpoint.model import EndpointModel

    return EndpointModel(
        settings.model.endpoint or "",
        settings.model.name,
        key=key,
        distractors=settings.evidence.distractors,
        thinking=settings.prompts.thinking,
        seed=settings.seed,
    )


def _load_vllm(settings: Recipe, url: str, key: str | None) -> Model:
    """Connect to a vLLM server. With a folder of versions, load the model into this process too, where it learns."""
    try:
        from secl.backends.endpoint.vllm.connect import answer_by_vllm
        from secl.backends.endpoint.vllm.engine import VllmModel
    except ModuleNotFoundError as problem:
        raise ParameterError(needs("--engine vllm", str(problem.name), "local")) from None
    if settings.model.versions is None:
        return VllmModel(url, settings.model.name, key=key, **_asking(settings))
    model = load_local(settings)
    answer_by_vllm(model, url, Path(settings.model.versions), key=key)
    return model


def _asking(settings: Recipe) -> dict[str, Any]:
    """Return the arguments of a `secl.backends.token_model.TokenModel`."""
    return {
        "paper": settings.paper,
        "distractors": settings.evidence.distractors,
        "thinking": settings.prompts.thinking,
        "seed": settings.seed,
    }


def named(settings: Named, key: str | None = None) -> Named:
    """Return the settings. If they name no model of a server, add the name of the server's only model."""
    if settings.model.answered_by == "local" or settings.model.name:
        return settings
    from secl.backends.endpoint.abilities import only_model
    from secl.backends.endpoint.client import Endpoint
    from secl.backends.endpoint.vllm.server import TokenServer

    with closing(Endpoint(settings.model.endpoint or "", key=key or os.environ.get(ENDPOINT_KEY))) as endpoint:
        vllm = settings.model.answered_by == "vllm"
        name = TokenServer(endpoint).root if vllm else only_model(endpoint)
    return settings.model_copy(update={"model": settings.model.model_copy(update={"name": name})})


def load_local(settings: Recipe, shared: SharedAnswers | None = None, *, loaded: Loaded | None = None) -> LocalModel:
    """Load the model that the settings name into this process, with its adapter.

    Args:
        shared: cache of the frozen model's answers, for several runs with the same weights.
        loaded: a model in memory, to use instead of loading the named model.

    Raises:
        ModelError: the model cannot be used, or its modules that shall learn are unknown.
    """
    with without_garbage_collection():
        from secl.backends.local.model import LocalModel  # torch takes seconds to import

        loaded = loaded or model_cache().load(settings.model)
        local = LocalModel(
            loaded,
            adapter=settings.adapter,
            answer_weights=settings.answer_weights,
            nli=settings.evidence.nli,
            shared=shared,
            **_asking(settings),
        )
        if settings.named_method.learns:
            local.adapter.check()
        return local


@functools.cache
def model_cache() -> ModelCache:
    """Return the cache through which the runs of a process load a model only once."""
    from secl.backends.local.loading.loader import ModelCache

    return ModelCache()


def calibration(settings: Recipe, model: Model, mode: Mode = "ask") -> Earlier:
    """Return what to take over from the earlier run or server that `settings.model.calibration` names, if any.

    The labels that calibrated the earlier run come first.

    Raises:
        RunError: the folder is not a run or has no labels, or its model, mode or other settings differ.
    """
    if settings.model.calibration is None:
        return NO_RUN
    with Store(Path(settings.model.calibration)) as store:
        manifest, labels = Manifest.of(store), store.labels()
        rule = manifest.plan.posterior
        posterior = functools.reduce(lambda state, record: rule.follow(state, record)[0], store.records(), rule.start())
    folder, there = settings.model.calibration, manifest.settings
    if manifest.model != model.fingerprint:
        other = "weights, another tokenizer or template, or a conversion by another version of secl"
        same = (
            f"{there.model.name}, with other {other}" if there.model.name == settings.model.name else there.model.name
        )
        raise RunError(f"{folder} was made with another model ({same}); name a run of the model in use.")
    kinds = ("method", "prompts.", "evidence.", "paper", "posterior.")
    differences = [line for line in there.differences(settings) if line.startswith(kinds)]
    # Extra evidence does not change confidences.
    differences = [line for line in differences if not line.startswith("evidence.extra")]
    if there.returns_best != settings.returns_best:
        differences.append("loop.answer: " + ("best there, own here" if there.returns_best else "own there, best here"))
    if manifest.mode != mode:
        differences.append(f"mode: {manifest.mode} there, {mode} here")
    if differences:
        different = "; ".join(differences)
        raise RunError(
            f"the labels of {folder} do not apply here, because its settings differ ({different}); name a run with the "
            'settings marked "here".'
        )
    if not (labels or manifest.calibration):
        raise RunError(
            f"{folder} has no labels, so there is nothing to calibrate with; label answers with secl label {folder}, "
            f"or turn the right answers of its table into labels with secl label {folder} --references."
        )
    several = {options: sums for options, sums in posterior.shared.items() if sums.questions > 1}
    return Earlier((*manifest.calibration, *labels), several)


def build_calibrator(settings: Recipe, model: Model, earlier: Earlier = NO_RUN) -> Calibrator:
    """Return a calibrator with these settings for a model."""
    plan = settings.plan(model.tau, model.letters)
    plan = replace(plan, posterior=replace(plan.posterior, known=earlier.shared))
    return Calibrator(model, plan=plan, gate=settings.build_gate(), calibration=earlier.labels)


def load_for_asking(values: Mapping[str, object], run: Path | None = None) -> tuple[Calibrator, Recipe]:
    """Return a calibrator for single questions, and its recipe.

    Args:
        run: a run whose learned weights answer. The run's settings in `LEARNED_WITH` are the defaults.

    Raises:
        RunError: the run has learned nothing, or was made with another model.
    """
    if run is None:
        recipe = Recipe.of(values)
        model = load_model(recipe)
    else:
        with Store(run) as store:
            manifest, snapshot = Manifest.of(store), store.snapshot()
        if snapshot is None:
            raise RunError(f"{run} has learned nothing, so no learned version can answer; leave --version out.")
        settings = manifest.to_load()
        taught = {name: value for name, value in settings.dotted().items() if name.startswith(LEARNED_WITH)}
        taught |= {"model.calibration": None, "model.answer_weights": settings.answer_weights}
        taught |= {"evidence.nli": None, "evidence.extra_evidence": ()}
        recipe = Recipe.of({**taught, **values})
        model = load_model(recipe)
        learner = learner_of(model)
        if model.fingerprint != manifest.model:
            raise RunError(f"{run} was made with another model ({manifest.settings.model.name}); take that model.")
        learner.restore(snapshot)
    return build_calibrator(recipe, model, calibration(recipe, model)), recipe
