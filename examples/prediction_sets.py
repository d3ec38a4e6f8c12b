"""Sets of options of which 90 % contain the right one, by crepes or MAPIE, from answers with known references.

python examples/prediction_sets.py RUN    # a run whose questions have the same number of options; some have a reference
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import secl


def probabilities(records: list[secl.Record]) -> tuple[Any, Any, Any]:
    """Return the options' probabilities (rows: questions), which rows have a reference, and its option's number."""
    rows = [record for record in records if record.posterior is not None and record.question.options]
    if len({len(record.question.options) for record in rows}) != 1:
        raise secl.DataError(
            "the questions have no options, or different numbers of options; keep one number of options."
        )
    known = np.array([record.question.reference is not None for record in rows])
    right = [record.question.letters.index(record.question.reference) for record in rows if record.question.reference]
    return np.array([record.posterior.probabilities for record in rows if record.posterior]), known, np.array(right)


def by_crepes(p: Any, known: Any, right: Any, coverage: float) -> Any:
    """Return for each question which options are in its set."""
    from crepes import ConformalClassifier
    from crepes.extras import hinge

    classifier = ConformalClassifier().fit(hinge(p[known], np.arange(p.shape[1]), right))
    return classifier.predict_set(hinge(p), confidence=coverage, smoothing=False).astype(bool)


def by_mapie(p: Any, known: Any, right: Any, coverage: float) -> Any:
    """Return for each question which options are in its set."""
    from mapie.classification import SplitConformalClassifier
    from sklearn.base import BaseEstimator, ClassifierMixin

    class Given(ClassifierMixin, BaseEstimator):
        classes_ = np.arange(p.shape[1])

        def fit(self, *_: Any) -> Any:
            return self

        def predict_proba(self, rows: Any) -> Any:
            return rows

        def predict(self, rows: Any) -> Any:
            return rows.argmax(axis=1)

    classifier = SplitConformalClassifier(Given(), confidence_level=coverage, prefit=True)
    classifier.conformalize(p[known], right)
    return classifier.predict_set(p)[1][:, :, 0]


if __name__ == "__main__":
    with secl.runs.Store(sys.argv[1]) as store:
        answers = list(store.records())
    for answer, members in zip(answers, by_crepes(*probabilities(answers), 0.9), strict=True):
        inside = [option for option, member in zip(answer.question.options, members, strict=True) if member]
        print(answer.question.text, inside)
