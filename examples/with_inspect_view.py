"""A stored run as a log of inspect_ai: every answer with its confidence, right or wrong, as `inspect view` shows it.

pip install inspect-ai                                     # beside secl
python examples/with_inspect_view.py RUN LOGS              # RUN is a folder of secl run, LOGS a folder for logs
inspect view --log-dir LOGS
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalMetric,
    EvalResults,
    EvalSample,
    EvalScore,
    EvalSpec,
    EvalStats,
    write_eval_log,
)
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput
from inspect_ai.scorer import Score

import secl
from secl.grading import reported_correct


def main(run: str, logs: str) -> None:
    """Write the log, and say where it is."""
    with secl.Store(run) as store:
        records, manifest, seconds = list(store.records()), store.manifest, store.seconds
    created = datetime.fromisoformat(manifest["created"])
    stats = EvalStats(started_at=created, completed_at=created + timedelta(seconds=seconds))
    name, model = Path(run).resolve().name, f"secl/{Path(manifest['settings']['model']['name']).name}"
    spec = EvalSpec(
        created=created,
        task=name,
        model=model,
        dataset=EvalDataset(name=name, samples=len(records)),
        config=EvalConfig(),
    )
    samples = [sample(one, model) for one in records]
    log = EvalLog(eval=spec, status="success", results=results(records), stats=stats, samples=samples)
    file = Path(logs) / f"{name}.eval"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_eval_log(log, str(file))
    print(f"wrote {file}")


def sample(record: secl.Record, model: str) -> EvalSample:
    """A record as a sample: its messages, its scores, and what was learned from it."""
    question, correct, answer = record.question, reported_correct(record), record.answer or ""
    values = {"correct": correct, "confidence": record.confidence, "stated": record.reply.confidence}
    scores = {name: Score(value=value, answer=answer) for name, value in values.items() if value is not None}
    facts = {"question": question.id, "outcome": record.outcome, "adapter_version": record.reply.version}
    return EvalSample(
        id=record.position,  # samples are shown in the order of their ids
        epoch=1,
        input=question.text,
        choices=list(question.options) or None,
        target=targets(question),
        messages=[ChatMessageUser(content=question.text), ChatMessageAssistant(content=record.reply.text)],
        output=ModelOutput.from_content(model, answer),
        scores=scores,
        metadata=facts,
    )


def targets(question: secl.Question) -> str | list[str]:
    """The right answers; none where nobody knows them."""
    reference: Any = question.reference
    return list(reference.correct) if isinstance(reference, secl.References) else reference or ""


def results(records: Sequence[secl.Record]) -> EvalResults:
    """The measures of all graded records."""
    graded = [(record.confidence, correct) for record in records if (correct := reported_correct(record)) is not None]
    found = secl.measure(*zip(*graded, strict=True), resamples=0) if graded else None
    names = ("accuracy", "mean_confidence", "brier", "ece", "ece_floor") if found else ()
    metrics = {name: EvalMetric(name=name, value=getattr(found, name)) for name in names}
    score = EvalScore(name="correct", scorer="correct", metrics=metrics)
    return EvalResults(total_samples=len(records), completed_samples=len(records), scores=[score] if found else [])


if __name__ == "__main__":
    main(*sys.argv[1:])
