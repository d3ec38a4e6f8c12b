"""`secl check`: which method is recommended, and the verdict on learning, on simulated models whose truth is known."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from secl import Question
from secl.display import percent
from secl.evaluation import compare as check_module
from secl.evaluation.compare import MIN_GAIN, Check, decide
from secl.evidence import (
    NO_OTHERS,
    OPTIONS,
    CandidateEvidence,
    Evidence,
    EvidenceKind,
    LetterOrder,
    Likelihood,
    PTrue,
    Thought,
)
from secl.gates import Never
from secl.learning import Calibrator, LoopSettings
from secl.methods import method
from secl.metrics.intervals import Difference, Interval, paired_differences
from secl.metrics.probability import normalised_p_true
from secl.records import Record, Reply
from secl.reports.comparison_report import check_sentences
from secl.scores import make_scores
from secl.testing import ScriptedModel, toy_stream, unit
from tests.answers import compared, make_record, make_reply

pytestmark = pytest.mark.usefixtures("few_draws")

Generator = np.random.Generator
Rule = Callable[[Generator, float], tuple[float, bool]]
"""From the signal at the right tau to what is stated and whether the answer is right."""


def check(records: Sequence[Record], tau: float = 1.0) -> Check:
    """Check records by the estimators in a report of the posterior, and by those that need P(True)."""
    shown = [each for each in make_scores(tau).values() if method("posterior").shows(each, ["p_true"])]
    return check_module.check({each.name: each.estimate(records) for each in shown})


def simulated(count: int, rule: Rule, seed: int, tau: float = 0.5) -> list[Record]:
    """Records of a model whose stated confidence and grades follow `rule` from P(True) normalised at `tau`."""
    generator, records = np.random.default_rng(seed), []
    for i in range(count):
        scores = generator.normal([0.5, 0.0, 0.0, 0.0], 1.0)
        p_true = tuple(np.exp(scores - scores.max() - 0.2).tolist())
        stated, right = rule(generator, normalised_p_true(p_true, tau))
        place = min(max(10 * stated - 0.5, 0.0), 9.0)  # between the centres of two bins
        answer = replace(make_reply(0), bins=tuple(max(0.0, 1 - abs(place - k)) for k in range(10)))
        plain = make_record(i, correct=right, frozen_correct=right, p_true=p_true)
        records.append(replace(plain, reply=answer, learning=None))
    return records


def overconfident(generator: Generator, signal: float) -> tuple[float, bool]:
    """The stated confidence is about 0.88 for every answer; the signal is calibrated."""
    return float(generator.normal(0.88, 0.03)), bool(generator.random() < signal)


def honest(generator: Generator, signal: float) -> tuple[float, bool]:
    """The stated confidence is calibrated; the signal is uninformative."""
    chance = float(generator.beta(2, 2))
    return chance, bool(generator.random() < chance)


def even(generator: Generator, signal: float) -> tuple[float, bool]:
    """Stated confidence and signal are equal and calibrated."""
    chance = min(max(signal, 0.05), 0.95)
    return chance, bool(generator.random() < chance)


def test_a_model_should_adapt_where_it_is_overconfident_and_its_signal_is_not() -> None:
    records = simulated(120, overconfident, 1)
    found = check(records, 0.5)
    assert (found.verdict, found.questions, found.labelled, found.rated) == ("adapt", 120, 120, 120)
    grades, stated = [bool(plain.correct) for plain in records], [plain.frozen.stated for plain in records]
    p_true = [plain.evidence.p_true.probabilities for plain in records if plain.evidence.p_true]
    signals = np.array([normalised_p_true(each, 0.5) for each in p_true])
    assert found.signal == paired_differences(stated, grades, signals, grades)
    found = check(simulated(120, honest, 1))
    assert found.verdict == "do not adapt"
    assert check_sentences(found)[2].endswith(": its Brier score is worse.")
    assert any("may worsen the ranking" in note for note in check_sentences(found)[3:])
    assert sum(check(simulated(60, even, seed)).verdict == "adapt" for seed in range(8)) <= 1  # both are calibrated


def test_what_cannot_be_used_does_not_count_and_is_said() -> None:
    records = simulated(60, overconfident, 7)
    silent, alone = Evidence(), Evidence(PTrue(candidates=("A",), probabilities=(0.5,), source=NO_OTHERS))
    holed = [plain.with_grades(None, None) for plain in records[:5]]
    holed += [replace(plain, evidence=silent if i < 7 else alone) for i, plain in enumerate(records[5:14])]
    holed += records[14:]
    found = check(holed)
    assert (found.questions, found.labelled, found.rated) == (60, 55, 46)
    assert found.signal == check(records[14:]).signal
    assert check_sentences(found)[3:5] == [
        "secl ignored the questions without a reference or a label: 5 of 60.",
        "secl ignored 9 answers without normalised P(True) (unreadable, or no distractor).",
    ]
    unrated = check(holed[5:12])
    assert (unrated.rated, unrated.verdict) == (0, "cannot tell")
    assert "none of the 5 questions has a reference" in check_sentences(check(holed[:5]))[2]


def test_a_few_right_answers_have_no_verdict_however_large_the_gain() -> None:
    """All stated confidences are 0.9. A constant near the base rate has a significantly lower ECE and Brier score."""
    flat = Evidence(PTrue(candidates=tuple("ABCD"), probabilities=(0.3,) * 4, source=OPTIONS))

    def found(right: int) -> Check:
        grades = iter([True] * right + [False] * (40 - right))
        records = simulated(40, lambda g, s: (0.9, next(grades)), 3)
        return check([replace(plain, evidence=flat) for plain in records])

    assert [found(right).verdict for right in (4, 5)] == ["cannot tell", "adapt"]
    assert "40 graded answers with normalised P(True), 4 right; a verdict needs" in check_sentences(found(4))[2]
    assert any("no better than chance (AUROC 0.5" in note for note in check_sentences(found(5))[3:])


def test_the_verdict_follows_from_the_intervals() -> None:
    for ece, brier, verdict in (
        ((-0.3, -0.1), (-0.2, -0.1), "adapt"),
        ((-0.3, 0.0), (-0.2, -0.1), "cannot tell"),
        ((-0.3, -0.1), (0.01, 0.1), "do not adapt"),
        ((-MIN_GAIN + 0.001, 0.3), (-0.1, 0.1), "do not adapt"),
        ((-MIN_GAIN - 0.001, 0.3), (-0.1, 0.1), "cannot tell"),
    ):
        spans = {"ece": ece, "brier": brier}.items()
        found = {name: Difference(0.5, 0.5 + sum(span) / 2, Interval(*span)) for name, span in spans}
        assert decide(found) == verdict


class Texts(ScriptedModel):
    """Letters are uninformative; the right text is likelier by `knows` nats, plus noise of a few nats."""

    knows: float

    def gather(self, question: Question, reply: Reply, evidence: Collection[EvidenceKind], **how: Any) -> Evidence:
        found = super().gather(question, reply, {*evidence} - {"candidates"}, **how)
        return replace(found, candidates=self._texts(question)) if "candidates" in evidence else found

    def _texts(self, question: Question) -> CandidateEvidence | None:
        names, count = question.options, len(question.options)
        right = question.options.index(question.option(str(question.reference))) if question.reference else -1
        noise = [unit(f"{question.text}/{name}") + unit(f"{name}/{question.text}") - 1 for name in names]
        given = [self.knows * (i == right) + 4 * noise[i] - 20 for i in range(count)]
        order = LetterOrder(order=tuple(range(count))[::-1], log_p=tuple(unit(f"o{i}{names}") for i in range(count)))
        likelihoods = tuple(Likelihood(given=each, alone=-20.0, tokens=2) for each in given)
        return compared(names, order, likelihoods=likelihoods).candidates


def asked(model: Texts, count: int = 80, knows: float = 6.0) -> list[Record]:
    model.knows = knows
    always = LoopSettings(evidence_on="always")
    kinds: tuple[EvidenceKind, ...] = ("p_true", "candidates")
    return list(Calibrator(model, method="secl", gate=Never(), loop=always, evidence=kinds).run(toy_stream(count)))


def test_a_method_that_is_better_for_sure_is_recommended_and_the_posterior_without_right_answers() -> None:
    found = check(asked(Texts(stated=0.95)))
    assert (found.basis, found.method) == ("labels", "posterior")
    brier = found.gain["brier"]
    assert brier.falls
    use, said, *_ = check_sentences(found)
    assert use.startswith("Use: secl run --method posterior")
    assert f"this method has a Brier score of {brier.b:.3f} (stated confidence: {brier.a:.3f}; 95% interval" in said

    found = check(asked(Texts(stated=0.95, accuracy=0.4), 160))
    assert found.best["accuracy"].rises
    assert found.answer == "best"
    own, best = found.best["accuracy"].a, found.best["accuracy"].b
    assert check_sentences(found)[1].endswith(
        f"; {percent(best)} of best answers are right, and {percent(own)} of own answers."
    )

    found = check(asked(Texts(stated=0.55), knows=0.0))
    assert (found.basis, found.method, found.gain) == ("labels", "stated", {})
    assert check_sentences(found)[:2] == [
        "Use: secl run --method stated",
        "Why: no other confidence has a significantly lower Brier score than the stated confidence.",
    ]

    found = check([each.with_grades(None, None) for each in asked(Texts())])
    assert (found.basis, found.method, found.answer) == ("experience", "posterior", "own")
    use, said, *_ = check_sentences(found)
    assert use == "Use: secl run --method posterior"
    assert said.startswith("Why: in our measurements, the posterior had a lower Brier score than the stated")
    assert "except on 32 questions that a server answered" in said
    assert said.endswith("label twenty answers to test the posterior on your questions.")


@pytest.mark.parametrize("better", [True, False])
def test_answers_after_thoughts_are_compared_with_the_letters_without_them(better: bool) -> None:
    """The letters prefer A without a thought and B after a thought."""
    right, wrong = ("B", "A") if better else ("A", "B")
    reference = [right] * 30 + [wrong] * 10
    reply = replace(make_reply(8, "B"), option_log_p=(-2.0, -0.1), thought=Thought(text="Hm.", tokens=2))
    orders = LetterOrder(order=(0, 1), log_p=(-0.2, -1.8)), LetterOrder(order=(1, 0), log_p=(-0.3, -1.7))
    records = [
        replace(
            make_record(position, correct=letter == "B", frozen_correct=letter == "B"),
            question=Question(f"{position}?", ("Rome", "Bern"), reference=letter, id=str(position)),
            reply=reply,
            learning=None,
            evidence=compared(("Rome", "Bern"), *orders),
        )
        for position, letter in enumerate(reference)
    ]
    found = check(records)
    accuracy = found.thought["accuracy"]
    assert (accuracy.a, accuracy.b) == ((0.25, 0.75) if better else (0.75, 0.25))
    (sentence,) = (each for each in check_sentences(found) if each.startswith("Thinking"))
    assert ("it pays: 75" in sentence, "it does not pay: 25" in sentence) == (better, not better)
    unlabelled = [record.with_grades(None, None) for record in records]
    few = [replace(each, question=replace(each.question, reference=None)) for each in unlabelled]
    (sentence,) = (each for each in check_sentences(check(few)) if each.startswith("Thinking"))
    assert sentence.endswith("cannot tell: the comparison needs 20 questions with options and a reference.")
