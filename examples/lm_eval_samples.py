"""Make a run of secl from the samples of an lm-eval task with options, for secl report, compare, label and threshold.

    lm_eval --model hf --model_args pretrained=MODEL --tasks arc_easy --log_samples --output_path out
    python examples/lm_eval_samples.py out/MODEL/samples_arc_easy_DATE.jsonl RUN
    secl report RUN

The answer is the option with the largest log-likelihood, as in lm-eval's acc. Its confidence is its probability among
the options. In Python, `secl.runs.summarise(read_samples(FILE))` has the measures.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import secl
from secl.evidence import Evidence, Posterior
from secl.ledger import Ledger
from secl.metrics.probability import softmax
from secl.question import LETTERS
from secl.records import Record, Reply


def requests_of(sample: dict[str, Any]) -> list[tuple[str, str, float]]:
    """Return prompt, option and log-likelihood of each option; requests without a prompt are of acc_mutual_info."""
    requests = sample["arguments"]
    if isinstance(requests, dict):  # since lm-eval 0.4.4
        requests = [(request["arg_0"], request["arg_1"]) for request in requests.values()]
    pairs = zip(requests, sample["filtered_resps"], strict=True)
    return [(prompt, option, float(log_p)) for (prompt, option), (log_p, _greedy) in pairs if prompt]


def record_of(sample: dict[str, Any], position: int, task: str) -> Record:
    """Return the record of a sample."""
    prompts, options, log_p = zip(*requests_of(sample), strict=True)
    texts, target = tuple(option.strip() for option in options), str(sample["target"]).strip()
    if not all(map(math.isfinite, log_p)) or len(set(texts)) < len(texts):
        raise ValueError
    own = log_p.index(max(log_p))
    # lm-eval writes the number of the right option or its text. If a number is also an option, acc tells them apart.
    found = [int(target)] if target.isdecimal() and int(target) < len(texts) else []
    found += [texts.index(target)] if target in texts else []
    right = next((each for each in found if sample.get("acc") == (own == each)), found[0])
    question = secl.Question(prompts[0], texts, LETTERS[right], task, f"{task}-{sample['doc_id']}")
    unknown: dict[str, Any] = {"bins": (), "digit_mass": math.nan, "entropy": math.nan}
    prior: dict[str, Any] = {"weights": (), "reliability": None, "questions": 0}
    return Record(
        position=position,
        kind="given",  # answers from elsewhere
        question=question,
        reply=Reply(text=LETTERS[own], answer=LETTERS[own], log_probability=log_p[own], option_log_p=log_p, **unknown),
        evidence=Evidence(),
        posterior=Posterior(candidates=texts, probabilities=tuple(softmax(log_p)), own=own, **prior),
        correct=own == right,
        ledger=Ledger(),
        plain_tokens=math.nan,
    )


def read_samples(file: Path) -> list[Record]:
    """Return the records of a file that lm-eval wrote with --log_samples.

    Raises:
        DataError: the file is not such a file, or is of a task without options.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise secl.DataError(f"{file} cannot be read: {problem}; name one file samples_TASK_DATE.jsonl.") from None
    task, records = file.stem.removeprefix("samples_").rsplit("_", 1)[0], []
    for number, line in enumerate(lines):
        try:
            records.append(record_of(json.loads(line), number, task))
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, secl.QuestionError) as problem:
            why = f" ({problem})" if isinstance(problem, secl.QuestionError | json.JSONDecodeError) else ""
            raise secl.DataError(
                f"{file}:{number + 1} has no log-likelihoods of 2 to 26 options and the number of the right one{why}; "
                "give a file that lm-eval 0.4 wrote with --log_samples for a task of the type multiple_choice."
            ) from None
    if not records:
        raise secl.DataError(f"{file} is empty; run lm_eval with --log_samples.")
    return records


def main(file: str, run: str) -> None:
    """Write the records of a file into a new run folder."""
    try:
        records = read_samples(Path(file))
        settings = {"model": {"name": f"lm-eval, {file}"}, "stream": {"questions": file}, "method": "posterior"}
        with secl.runs.Store.create(Path(run), {"total": len(records), "settings": settings}) as store:
            for record in records:
                store.add(record, 0.0)
    except secl.SeclError as problem:
        raise SystemExit(str(problem)) from None
    print(f"{len(records)} questions; next: secl report {run}")


if __name__ == "__main__":
    main(*sys.argv[1:])
