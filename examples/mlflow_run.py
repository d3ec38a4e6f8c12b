"""Log a run of secl to MLflow: settings as parameters, measures as metrics, and the report's page.

secl report RUN; python examples/mlflow_run.py RUN
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import mlflow

from secl.metrics.measures import MEASURES


def log_run(folder: Path) -> None:
    """Log the files that `secl report` wrote into the folder of a run."""
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    with mlflow.start_run(run_name=folder.name):
        mlflow.log_params({name: summary[name] for name in ("model", "method", "seed")})
        for name, row in summary["estimators"].items():
            known = {f"{name}.{measure}": row[measure] for measure in MEASURES if row[measure] is not None}
            mlflow.log_metrics(known)
        mlflow.log_artifact(str(folder / "report.html"))


if __name__ == "__main__":
    log_run(Path(sys.argv[1]))
