"""Which method is recommended: by right answers where there are enough, else by what the views show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from secl.calibrator import Calibrator
from secl.evaluation.recommendation import recommend
from secl.evidence import CandidateEvidence, LetterOrder, Likelihood
from secl.gates import Never
from secl.question import Question
from secl.records import Record, Reply
from secl.reports.recommendation_report import recommendation_json, scores_table, use_and_why
from secl.settings import LoopSettings
from secl.testing import ScriptedModel, toy_stream, unit

pytestmark = pytest.mark.usefixtures("few_draws")


class Texts(ScriptedModel):
    """Letters know nothing; the right text is likelier by `knows` nats, beside noise of a few."""

    knows = 6.0

    def compare_candidates(self, question: Question, reply: Reply) -> CandidateEvidence | None:  # noqa: ARG002
        names, count = question.options, len(question.options)
        right = question.options.index(question.option(str(question.reference))) if question.reference else -1
        noise = [unit(f"{question.text}/{name}") + unit(f"{name}/{question.text}") - 1 for name in names]
        return CandidateEvidence(
            candidates=names,
            letters=(
                LetterOrder(order=tuple(range(count))[::-1], log_p=tuple(unit(f"o{i}{names}") for i in range(count))),
            ),
            likelihoods=tuple(
                Likelihood(given=self.knows * (i == right) + 4 * noise[i] - 20, alone=-20.0, tokens=2)
                for i in range(count)
            ),
            source="options",
        )


class Blind(Texts):
    knows = 0.0


def asked(model: ScriptedModel, count: int = 80) -> list[Record]:
    loop = Calibrator(
        model,
        gate=Never(),
        loop=LoopSettings(evidence_on="always"),
        evidence=("p_true", "candidates"),
    )
    return list(loop.run(toy_stream(count)))


def unlabelled(records: Sequence[Record]) -> list[Record]:
    return [
        replace(each, correct=None, frozen_correct=None, question=replace(each.question, reference=None))
        for each in records
    ]


def test_a_posterior_that_is_better_for_sure_is_recommended_with_its_gain() -> None:
    found = recommend(asked(Texts(stated=0.95)))
    assert (found.basis, found.method) == ("labels", "posterior")
    assert found.gain["brier"].falls
    assert found.gain["brier"].b == found.rows["posterior"].brier
    use, said = use_and_why(found)
    assert use.startswith("Use: secl run --method posterior")
    assert f"its Brier score is {found.rows['posterior'].brier:.3f} against {found.rows['stated'].brier:.3f}" in said


def test_best_answers_are_recommended_where_they_are_right_more_often_for_sure() -> None:
    found = recommend(asked(Texts(stated=0.95, accuracy=0.4), 160))
    assert found.best["accuracy"].rises
    assert found.flags == ("--answer best",)
    own, best = found.best["accuracy"].a, found.best["accuracy"].b
    assert use_and_why(found)[1].endswith(
        f"and its best answers are right in {100 * best:.1f}%, the own ones in {100 * own:.1f}%."
    )


def test_what_is_stated_stays_where_nothing_is_better() -> None:
    found = recommend(asked(Blind(stated=0.55)))
    assert (found.basis, found.method, found.gain) == ("labels", "stated", {})
    assert use_and_why(found) == (
        "Use: secl run --method stated",
        "Why: no other confidence has a lower Brier score than the stated one for sure.",
    )


def test_without_right_answers_the_posterior_is_the_choice_and_what_would_tell_is_said() -> None:
    records = asked(Texts())
    found = recommend(unlabelled(records))
    assert (found.basis, found.method, found.flags) == ("experience", "posterior", ())
    use, said = use_and_why(found)
    assert use == "Use: secl run --method posterior"
    assert said.startswith("Why: it had a lower Brier score than the stated")
    assert said.endswith("whether it has here only right answers can tell: label twenty.")
    assert found.means["stated"] == pytest.approx(sum(r.frozen.confidence for r in records) / len(records))
    (note,) = scores_table(found).notes
    assert "by the model's own account" in note


def test_posteriors_are_computed_from_evidence_that_was_recorded_without_them() -> None:
    records = asked(Texts(), 30)
    bare = [replace(record, posterior=None) for record in records]
    found = recommend(records)
    assert recommend(bare).means == found.means
    assert [row[0].text for row in scores_table(found).sections[""]] == [
        row.estimator.title for row in found.rows.values()
    ]
    plain = recommendation_json(found)
    assert (plain["method"], plain["sentence"]) == (found.method, " ".join(use_and_why(found)))
    assert plain["rows"]["stated"]["brier"] == found.rows["stated"].brier
