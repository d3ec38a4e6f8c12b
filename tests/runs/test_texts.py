"""Runs of texts: resume, summary, verdict and report count facts, and texts without facts count for nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from secl.display import as_sentence
from secl.evaluation.compare import Side, compare
from secl.evaluation.summary import summarise
from secl.evaluation.trust import assess, from_grades, one_of_each
from secl.explain import explain
from secl.facts.records import expected_wrong
from secl.records import Record, answers_in
from secl.reports.answers import neediest, signs_of
from secl.reports.folder import write_report
from secl.reports.result import estimate_share, next_step, result_sentences
from secl.reports.run_report import RunReport
from secl.reports.sections import sections_of
from secl.reports.summary_table import caption
from secl.runs import RunSettings, Store, resume_run, start_run
from secl.runs.encoding import from_body, to_body, to_export
from secl.runs.labelling import current_records
from secl.scores import SCORES
from tests.texts import POEM, Writer, facts_of_run, is_right, question_file, run_of_texts


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_of_texts(tmp_path_factory.mktemp("texts") / "run", 30)


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """A run of 12 texts and a poem in which each fact of the first 6 has its true label."""
    folder = run_of_texts(tmp_path / "labelled", 12)
    label_facts(folder, range(7))
    return folder


def label_facts(folder: Path, positions: Sequence[int]) -> None:
    with Store(folder, writable=True) as store:
        for position in positions:
            record = store.record(position)
            for fact in record.facts or ():
                right = is_right(record.question.text, fact.text or "")
                store.add_feedback(position, right, drawn=True, fact=fact.fact)


def records_of(folder: Path) -> list[Record]:
    with Store(folder) as store:
        return list(current_records(store))


def report_of(folder: Path) -> RunReport:
    with Store(folder) as store:
        return RunReport.of(store)


def test_the_form_of_a_question_stands_in_its_row(folder: Path) -> None:
    records = records_of(folder)
    assert {record.question.form for record in records} == {"text"}
    assert [record.question.text for record in records].count(POEM) == 1
    assert sum(record.facts == () for record in records) == 1


def test_a_run_of_texts_that_was_killed_continues_with_the_same_records(tmp_path: Path, folder: Path) -> None:
    settings = RunSettings.of({"stream.questions": str(question_file(tmp_path / "run.jsonl", 30))})
    run = start_run(settings, tmp_path / "run", lambda _: Writer())
    for _, _record in zip(range(11), run.steps(), strict=False):
        pass
    run.store.close()
    resumed = resume_run(tmp_path / "run", load=lambda _: Writer())
    resumed.proceed()
    resumed.store.close()
    whole, again = facts_of_run(folder), facts_of_run(tmp_path / "run")
    assert [to_body(fact) for fact in again] == [to_body(fact) for fact in whole]


def test_a_summary_counts_facts_and_their_expected_errors(folder: Path) -> None:
    records = records_of(folder)
    summary, facts = summarise(records, intervals=False), facts_of_run(folder)
    assert (summary.questions, summary.answers, summary.facts) == (31, len(facts), len(facts))
    assert summary.expected_wrong == pytest.approx(sum(1 - fact.confidence for fact in facts))
    assert summary.unlabelled == len(facts)
    assert {*summary.domains} == {"date", "name", "number"}
    assert f"{len(facts)} of {len(facts)} facts without a label" in caption(summary)
    assert "95% intervals, which allow for answers of one document or text that are wrong together" in caption(
        summarise(records)
    )
    assert summary.estimators["posterior"].cost_measured == 1.0


def test_labels_of_facts_give_the_measures_of_facts(labelled: Path) -> None:
    records = records_of(labelled)
    row = summarise(records, [SCORES["posterior"]], intervals=False).estimators["posterior"]
    facts = [fact for fact in answers_in(records) if fact.label is not None]
    confidence = np.array([fact.confidences.uncalibrated for fact in facts])
    correct = np.array([float(bool(fact.label)) for fact in facts])
    assert row.n == len(facts) > 20
    assert row.accuracy == pytest.approx(correct.mean())
    assert row.brier == pytest.approx(((confidence - correct) ** 2).mean())


def test_a_text_without_facts_counts_neither_as_wrong_nor_as_unreadable(folder: Path) -> None:
    (poem,) = (record for record in records_of(folder) if record.facts == ())
    assert answers_in([poem]) == []
    assert signs_of(poem) == ()
    assert neediest(records_of(folder), 31)[-1].position == poem.position
    verdict = assess([poem] * 30)
    assert (verdict.level, verdict.graded, verdict.codes) == ("unproven", 0, ())
    assert "no facts" in verdict.line
    summary = summarise([poem], intervals=False)
    assert (summary.questions, summary.answers, summary.unlabelled, summary.estimators) == (1, 0, 0, {})
    assert math.isnan(summary.expected_wrong)


def test_a_run_of_poems_alone_has_a_report(tmp_path: Path) -> None:
    path = tmp_path / "poems.jsonl"
    path.write_text('{"question": "Write a poem about the sea.", "form": "text"}\n')
    run = start_run(RunSettings.of({"stream.questions": str(path)}), tmp_path / "run", lambda _: Writer())
    run.proceed()
    run.store.close()
    report = report_of(tmp_path / "run")
    assert next_step(report, tmp_path / "run") == "ask for texts that state facts, or for short answers"
    assert result_sentences(report) == ["1 question answered. 1 text has no facts, and so no confidence."]
    assert write_report(tmp_path / "report", report).exists()


def test_the_verdict_is_about_facts(labelled: Path, folder: Path) -> None:
    verdict = assess(records_of(labelled))
    facts = [fact for fact in answers_in(records_of(labelled)) if fact.label is not None]
    assert verdict.graded == len(facts)
    assert verdict.accuracy == pytest.approx(sum(bool(fact.label) for fact in facts) / len(facts))
    assert "Only 6 texts have a label" in verdict.line
    assert "No fact has a label" in assess(records_of(folder)).line


def test_the_verdict_tests_one_fact_of_each_text() -> None:
    texts = [number // 10 for number in range(60)]
    assert sorted(texts[row] for row in one_of_each(texts)) == list(range(6))
    # Six texts whose ten facts are all right or all wrong together: calibrated, but 60 independent facts would not be.
    graded = [(0.9, number >= 20) for number in range(60)]
    assert "overconfident" in from_grades(graded, noun="fact").codes
    assert "overconfident" not in from_grades(graded, units=texts, noun="fact").codes


def test_an_estimate_of_right_facts_allows_for_facts_that_are_wrong_together() -> None:
    alone, together = estimate_share([0.5] * 100), estimate_share([0.5] * 100, [n // 10 for n in range(100)])
    assert alone[0] == together[0] == 0.5
    assert together[2] - 0.5 == pytest.approx(math.sqrt(10) * (alone[2] - 0.5))


def test_a_report_shows_the_texts_with_most_wrong_facts_first(folder: Path, tmp_path: Path) -> None:
    report = report_of(folder)
    (section,) = (section for section in sections_of(report) if section.texts)
    wrong = [expected_wrong(record.facts or ()) for record in section.texts]
    assert wrong == sorted(wrong, reverse=True)
    page = write_report(tmp_path / "report", report).read_text()
    assert as_sentence(explain(section.texts[0]).number) in page
    assert page.index("facts of the text") < page.index("Which facts may be accepted?")
    assert 'class="c" data-sort="2"' in page  # the poem


def test_an_export_of_a_text_has_all_its_facts(folder: Path) -> None:
    record = records_of(folder)[0]
    facts = to_export(record)["facts"]
    assert isinstance(facts, list)
    for plain, fact in zip(facts, record.facts or (), strict=True):
        names = ("text", "confidence", "low", "high", "candidates", "accepted", "span")
        assert {name: plain[name] for name in names} == {name: getattr(fact, name) for name in names}
    assert to_body(from_body(to_body(record))) == to_body(record)


def test_two_estimators_of_texts_are_compared_over_facts(labelled: Path) -> None:
    records = records_of(labelled)
    sides = [Side(records, len(records), SCORES[name]) for name in ("posterior", "answer_probability")]
    (comparison,) = compare(*sides)
    assert comparison.shared == len(answers_in(records))
    assert comparison.graded == sum(fact.label is not None for fact in answers_in(records))
    assert not comparison.unfinished


def test_a_label_of_one_fact_is_held_out_with_all_facts_of_its_text(labelled: Path) -> None:
    with Store(labelled) as store:
        log, measured = store.label_log(), RunReport.of(store).measured
    folds = {fact.labelled.labels for fact in answers_in(measured) if fact.label is not None and fact.labelled}
    sizes = {len(facts) for record in measured if (facts := [f for f in record.parts or () if f.label is not None])}
    assert max(folds) < len(log)
    assert all(len(log) - labels >= min(sizes) for labels in folds)  # a whole text is left out
