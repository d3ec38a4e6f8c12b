"""Records made by hand or with given confidences and grades, without a model; their folders and reports."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from secl import Question
from secl.evaluation.acceptance import answers_of
from secl.evidence import OPTIONS, CandidateEvidence, Evidence, LetterOrder, Posterior, PTrue
from secl.gates import EntropyShift, Never
from secl.learning import Calibrator
from secl.ledger import Ledger
from secl.model import Model
from secl.records import UNTESTED, Decision, Learning, LearningOutcome, Record, Reply, Update
from secl.reports.run_report import RunReport
from secl.runs import RunSettings, Store, summarise
from secl.runs.labelling import review_queue
from secl.runs.manifest import Manifest
from secl.scores import SCORES
from secl.testing import ScriptedModel


def in_window(calibrator: Calibrator, questions: Sequence[Question], written: Sequence[str] = ()) -> list[Record]:
    """The records of questions that share passes; the model can answer all of them."""
    outcomes = calibrator.answer_window(questions, written)
    return [each for each in outcomes if isinstance(each, Record)]


def answered(confidence: Sequence[float], correct: Sequence[bool | None]) -> list[Record]:
    """Return a record for each confidence (in [0.05, 0.95]) and grade; a record without a grade has no reference."""
    records = []
    for position, (stated, right) in enumerate(zip(confidence, correct, strict=True)):
        question = Question(
            f"Question {position}?",
            options=("yes", "no"),
            reference=None if right is None else "A" if right else "B",
            domain="toy",
            id=f"q{position}",
        )
        calibrator = Calibrator(ScriptedModel(stated=stated), method="secl", gate=Never(), learns=False)
        record = replace(calibrator.answer(question), position=position)
        records.append(replace(record, reply=replace(record.reply, text="A", answer="A"), correct=right))
    return records


def run_folder(
    folder: Path, records: Sequence[Record], *, total: int | None = None, settings: object = None, **manifest: object
) -> Path:
    """Make a run folder with these records. Its manifest has the given values, else those of a finished toy run."""
    settings = {"stream": {"benchmarks": ["toy"]}, "method": "stated"} if settings is None else settings
    values = {"total": len(records) if total is None else total, "settings": settings, **manifest}
    with Store.create(folder, values) as store:
        for record in records:
            store.add(record, 0.1)
    return folder


def stored(folder: Path) -> list[Record]:
    """The records of a run folder."""
    with Store(folder) as store:
        return list(store.records())


def give_labels(folder: Path, says: Callable[[int], bool], most: int | None = None) -> None:
    """Label answers of a run by their positions, in the order of a review."""
    with Store(folder, writable=True) as store:
        for position in list(review_queue(store).positions)[:most]:
            store.add_feedback(position, says(position), drawn=True)


def make_reply(confidence_bin: int, answer: str | None = "A", digit_mass: float = 0.9, entropy: float = 1.0) -> Reply:
    """Return a reply with a probability of 1 for one digit."""
    bins = tuple(1.0 if k == confidence_bin else 0.0 for k in range(10))
    return Reply(text="A", answer=answer, bins=bins, digit_mass=digit_mass, entropy=entropy, log_probability=-entropy)


def replied(text: str, option_log_p: Sequence[float] = ()) -> Reply:
    """Return a reply with this answer and these letters; no test reads its confidence."""
    return replace(make_reply(0, text), text=text, option_log_p=tuple(option_log_p))


def sampled(model: Model, question: Question, count: int) -> tuple[str | None, ...]:
    """Answers that a model draws; letters come from the probabilities of its own answer."""
    reply = model.answer(question).reply if question.options else make_reply(8, "Lima")
    return model.gather(question, reply, ["samples"], samples=count).samples or ()


def weighed(candidates: Sequence[str], *probabilities: float, own: int | None = 0, **more: Any) -> Posterior:
    """The posterior of candidates; the model's own is the first unless another is named."""
    values = {"weights": (), "reliability": None, "questions": 0, **more}
    return Posterior(candidates=tuple(candidates), probabilities=probabilities, own=own, **values)


def compared(candidates: Sequence[str], *letters: LetterOrder, **more: Any) -> Evidence:
    """Return the views of candidates: letters in further orders, and by default no likelihoods."""
    values = {"likelihoods": (None,) * len(candidates), "source": OPTIONS, **more}
    return Evidence(candidates=CandidateEvidence(candidates=tuple(candidates), letters=letters, **values))


def make_record(
    position: int = 0,
    *,
    digit: int = 8,
    frozen_digit: int = 9,
    correct: bool | None = True,
    frozen_correct: bool | None = False,
    p_true: tuple[float, ...] | None = None,
    signal: float | None = None,
    outcome: LearningOutcome = "idle",
    domain: str = "quiz",
    decision: Decision | None = None,
    answer: str | None = "A",
    digit_mass: float = 0.9,
    entropy: float = 1.0,
    tokens: float = 100.0,
) -> Record:
    """Return one complete record."""
    update = (
        Update(version=1, before=0.85, target=0.8, after=0.82, losses=(0.1, 0.05, 0.02))
        if outcome == "trained"
        else None
    )
    return Record(
        position=position,
        question=Question(f"question {position}", domain=domain, id=str(position)),
        reply=make_reply(digit, answer, digit_mass, entropy),
        evidence=Evidence(
            None
            if p_true is None
            else PTrue(candidates=tuple("ABCDE"[: len(p_true)]), probabilities=p_true, source=OPTIONS)
        ),
        signal=signal,
        learning=Learning(
            frozen=make_reply(frozen_digit),
            frozen_correct=frozen_correct,
            decision=decision or UNTESTED,
            outcome=outcome,
            update=update,
        ),
        correct=correct,
        ledger=Ledger(answering=tokens),
        plain_tokens=100.0,
    )


def make_stream(questions: int = 160) -> list[Record]:
    """Return the records of a run over two domains with bursts."""
    generator, gate = np.random.default_rng(0), EntropyShift(warmup=10, burst=20)
    state, records = gate.start(), []
    for position in range(questions):
        second_half = position >= questions // 2
        entropy = float(generator.gamma(8.0, 0.2 if second_half else 0.05))
        state, decision = gate.step(state, entropy)
        of_burst: dict[str, Any] = {"p_true": (0.7, 0.2), "signal": 0.6, "outcome": "trained"}
        record = make_record(
            position,
            digit=int(generator.integers(10)),
            correct=bool(generator.random() < 0.6),
            domain="truthful_qa" if second_half else "arc $challenge$",
            decision=decision,
            entropy=entropy,
            **(of_burst if decision.in_burst else {}),
        )
        records.append(record)
    return records


def make_report(
    records: list[Record],
    *,
    name: str = "run",
    learned: bool = True,
    method: str = "secl",
    keys: tuple[str, ...] = ("stated", "p_true", "norm_p_true", "secl", "stated_platt"),
    model: str = "scripted",
    total: int | None = None,
    adapter: dict[str, Any] | None = None,
    skipped: tuple[tuple[str, str], ...] = (),
) -> RunReport:
    """Return a report of some records; without `learned` it has no SECL."""
    settings = {"model.name": model, "stream.benchmarks": ("capitals",), "method": method, "evidence.tau": 0.7}
    manifest = Manifest(
        settings=RunSettings.of(settings),
        total=len(records) if total is None else total,
        model="f" * 64,
        stream="e" * 64,
        environment={"secl": "0.2.0", "machine": "abacus"},
        adapter={"r": 8, "target_modules": ["q_proj"], "layers_to_transform": [3]} | (adapter or {}),
        skipped=skipped,
        created="2026-01-01T00:00:00+00:00",
    )
    estimators = [SCORES[key] for key in keys if learned or key != "secl"]
    summary = summarise(records, estimators, intervals=False)
    return RunReport(
        name=name,
        records=records,
        measured=records,
        manifest=manifest,
        seconds=3.0,
        summary=summary,
        answers=answers_of(records),
    )
