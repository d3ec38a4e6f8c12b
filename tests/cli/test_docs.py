"""Names in README and docs/ exist, and numbers are the measured ones; made-up pages test the checks."""

import json
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from secl.cli.app import app
from secl.metrics.risk_control import fewest_labels
from secl.records import LearningOutcome
from secl.settings.names import SETTINGS, flag_of
from tests.cli import pages
from tests.conftest import ROOT

pytestmark = pytest.mark.heavy

DOCS = ROOT / "docs"
PAGES = [*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")), *sorted(DOCS.rglob("*.md"))]
COMMANDS = {name for page in PAGES for name in pages.commands(page.read_text(encoding="utf-8"))}
PAGE = pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])

FOREIGN = {
    "--logprobs",
    "--max-logprobs",
    "--max-lora-rank",
    "--max-loras",
    "--max-num-batched-tokens",
    "--max-num-seqs",
}
"""Flags of other programs that the text names."""

FOREIGN_CODE = {
    *("PIP_EXTRA_INDEX_URL", "VLLM_BATCH_INVARIANT=1", "gpu-memory-utilization", "docker build", "datasets.Dataset"),
    *(". .venv/bin/activate", "proxy_buffering off", "proxy_next_upstream ... non_idempotent", "balance leastconn"),
    *("secl.confidence", "secl.accepted", "secl.record_id"),  # attributes of spans
    "MoritzLaurer/DeBERTa-v3-large-mnli-fever-anli-ling-wanli",
    *("the Eiffel tower.", "a Color", "<|im_end|>", "secl.backends.mine"),
    *("option_a", "secl_unreadable_total", "secl show STATE 31", "NAME_accepted"),
    *("math-verify", "text2num", "quantulum3", "price-parser", "babel", "tab:domain_order", "tab:domain_order_full"),
    # LM-Polygraph and UQLM
    *("WhiteboxModel(model, tokenizer)", "BlackboxModel.from_openai(...)", "MaximumSequenceProbability", "PTrue"),
    "estimate_uncertainty(model, estimator, input_text=...)",
    *("UncertaintyOutput.uncertainty", "UncertaintyOutput.generation_text", "MeanTokenEntropy", "Verbalized1S"),
    *("SemanticEntropy", "DegMat", "LexicalSimilarity", "polygraph_eval", "LLMPanel", "UQEnsemble"),
    "BlackBoxUQ(llm).generate_and_score(prompts, num_responses=5)",
    *("score(responses=..., sampled_responses=...)", "results.to_df()", "WhiteBoxUQ", "evaluate_calibration"),
    'ScoreCalibrator("platt")',
}
"""Names of other programs, texts of questions, and names that the library composes."""

QWEN, FLOAT32 = "others[qwen2.5-coder-1.5b-instruct-q4_k_m.gguf][ratios]", "others[smollm2 in fp32][ratios]"

MEASURED = {
    "README.md": (
        "| guarantee of at most 10 % wrong | from [{fewest[10]} right labels](docs/labels.md#what-20-labels-give) |",
        "{with_a_confidence[chat_of_200_tokens][ratio]:.1f} (a long chat) to "
        "{with_a_confidence[open_question][ratio]:.1f} times (an open question)",
    ),
    "docs/findings.md": (
        "| SECL, always learning | .268 / .547 / .151 | .185 / .513 / .025 | {fwd_equivalents[stream_always]:.1f} |",
    ),
    "docs/performance.md": (
        *(
            f"| {name} | {{{of}[answered_vs_by_hand]:.1f}} | {{{of}[scored_vs_by_hand]:.1f}} | "
            f"{{{of}[trained_vs_by_hand]:.1f}} |"
            for name, of in (("SmolLM2, bf16", "ratios"), ("SmolLM2, float32", FLOAT32), ("Qwen2.5-Coder-1.5B", QWEN))
        ),
        "{ratios[stream_default_vs_by_hand]:.1f} times faster with the default gate, "
        "{ratios[stream_always_vs_by_hand]:.1f} times if always learning; "
        "with records on disk {ratios[stream_default_stored_vs_by_hand]:.1f} and "
        "{ratios[stream_always_stored_vs_by_hand]:.1f} times",
        "{ratios[posterior_vs_answering]:.1f} times the seconds of answering; {fwd_equivalents[posterior]:.1f} passes",
        "{ratios[posterior_vs_by_hand]:.1f} times faster than by hand",
        "{ratios[ablations_in_lockstep_vs_one_by_one]:.1f} times faster, all records the same",
        *(
            f"| {{with_a_confidence[{kind}][passes]:.1f}} | {{with_a_confidence[{kind}][steps]:.0f}} | "
            f"{{with_a_confidence[{kind}][ratio]:.1f}} |"
            for kind in ("options", "open_question", "chat_of_a_sentence", "chat_of_200_tokens")
        ),
    ),
    "docs/server.md": tuple(
        f"{reply} | {{with_a_confidence[{kind}][ratio]:.1f}} |"
        for reply, kind in (
            ("| `/v1/ask`, a choice among four options", "options"),
            ("| `/v1/ask`, an open question", "open_question"),
            ("| a chat of one sentence", "chat_of_a_sentence"),
            ("| a chat of 200 tokens", "chat_of_200_tokens"),
        )
    ),
    "docs/sizing.md": (
        "| {seconds[stream_posterior][answered]:.2f} | {seconds[stream_posterior][posterior]:.2f} |",
        "| one client | {serving[one_at_a_time][replies_a_second]:.1f} | {serving[one_at_a_time][p50]:.2f} s |",
        "| eight clients | {serving[frozen][replies_a_second]:.1f} | {serving[frozen][p50]:.1f} s |",
        "| eight clients, while the server learns | {serving[learning][replies_a_second]:.1f} | "
        "{serving[learning][p50]:.1f} s |",
    ),
}
"""Phrases by the page that has them, with the keys of their numbers in benchmarks/results.json; `fewest` is the number
of labels without an error that a guarantee takes, by its risk in percent."""


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    measured: dict[str, Any] = json.loads((ROOT / "benchmarks" / "results.json").read_text(encoding="utf-8"))
    return {**measured, "fewest": {percent: fewest_labels(percent / 100, 0.9) for percent in (5, 10)}}


@pytest.fixture(scope="module")
def words() -> set[str]:
    return pages.words_of(ROOT, ("src", "experiments", "benchmarks", "examples", "reference", "tests", "deploy"))


@cache
def flags_of(command: str) -> set[str]:
    """The flags that the help of a command shows."""
    found: Any = app
    for name in command.split():
        found = found[name]
    arguments = found.assemble_argument_collection(parse_docstring=False)
    return {"--help"} | {flag for argument in arguments if argument.show for flag in argument.names}


@PAGE
def test_all_that_a_page_names_exists(page: Path, words: set[str]) -> None:
    text = page.read_text(encoding="utf-8")
    assert [part for part in pages.problems(page, ROOT, words, flags_of) if part not in FOREIGN_CODE] == []
    known = {flag for name in COMMANDS for flag in flags_of(name)} | {flag_of(name) for name in SETTINGS}
    assert sorted({*re.findall(r"`(--[a-z][a-z-]*+)(?!\.)", text)} - known - FOREIGN) == []


@pytest.mark.parametrize("page", MEASURED)
def test_numbers_are_those_of_the_latest_benchmarks(page: str, results: dict[str, Any]) -> None:
    assert pages.wrong_numbers((ROOT / page).read_text(encoding="utf-8"), MEASURED[page], results) == []


def test_the_extras_of_readme_are_those_of_the_package_and_of_its_messages() -> None:
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    (sentence,) = re.findall(r"The extras are (.*?)\.\n", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert set(re.findall(r"`(\w+)` \(", sentence)) == extras
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    calls = [names for text in sources for names in re.findall(r'needs\(.*, "([\w,]+)"\)', text)]
    named = {name for names in calls for name in names.split(",")}
    assert {"local", "server", "tables"} <= named <= extras


def test_the_readme_names_the_demo_and_the_tests_that_ci_runs_side_by_side() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    commands = [line.split("#")[0].strip() for line in readme]
    place = commands.index("make demo")
    assert commands[place + 1] == "make test"
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_the_method_page_names_every_outcome_of_learning() -> None:
    text = (DOCS / "concepts.md").read_text(encoding="utf-8")
    assert [name for name in get_args(LearningOutcome) if f"`{name}`" not in text] == []


RIGHT = """# Made up

See [labels](labels.md#which-answers-were-labelled) and [above](#made-up).

    secl run --method posterior --gate never --evidence.tau=0.7 --benchmarks arc:3 --out RUN   # `loop.alpha`
    make test && python -m benchmarks --only serving

```python
>>> from secl import Question
>>> from secl.learning import Calibrator
```

`VIEWS` (`posterior/views.py`), `secl.metrics.risk_control`, `Record.accepted`, `src/secl/errors.py`; gone:
`python -m benchmarks.stamina --minutes 10` at 7be5c80. Answers take 0.25 s, -28 % of the time by hand.
"""

RESULTS = {"seconds": {"answered": 0.2544}, "over": -0.284}
PHRASES = ("Answers take {seconds[answered]:.2f} s, {over:.0%} of the time",)


def problems(text: str, folder: Path) -> list[str]:
    """What all checks say about a page in the folder `folder`."""
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    (folder / "labels.md").write_text("# Labels\n\n## Which answers were labelled\n", encoding="utf-8")
    words = "secl gates py src errors loop alpha Record accepted VIEWS posterior views metrics risk_control"
    flags = {"--method", "--gate", "--benchmarks", "--out"}
    found = pages.problems(page, ROOT, words.split(), lambda _command: flags)
    return found + pages.wrong_numbers(text, PHRASES, RESULTS)


NAMED = (
    *("labels.md", "were-labelled", "#made-up", "--out", "method posterior", "never", "evidence.tau", "loop.alpha"),
    *("arc", "make test", "&& python -m benchmarks", "--only", "Calibrator", "VIEWS", "posterior/views"),
    *("risk_control", "accepted", "secl/errors"),
)
"""What the page names, up to a place where another letter makes it a name of nothing."""

WRONG = [
    ("--evidence.tau=0.7", "--evidence.tau=-1", "evidence.tau=-1"),
    ("`src/secl/errors.py`", "`FadedName`", "FadedName"),
    (" at 7be5c80", "", "benchmarks.stamina"),
    ("0.25 s", "0.26 s", "Answers take 0.25 s, -28 % of the time"),
    ("-28 %", "-29 %", "Answers take 0.25 s, -28 % of the time"),
]


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    assert problems(RIGHT, tmp_path) == []
    for right, wrong, said in (*WRONG, *((name, f"{name}x", f"{name}x".split()[-1]) for name in NAMED)):
        assert RIGHT.count(right) == 1, right
        found = problems(RIGHT.replace(right, wrong), tmp_path)
        assert any(said in problem for problem in found), (wrong, found)
    text = "    src/secl/\n      errors.py          what users read\n      mistakes.py        gone\n"
    assert pages.missing_from_map(text, ROOT) == ["mistakes.py"]
    twice = "# One `secl` of [a](b)?\n\n# One `secl` of a?\n\n```\n# no heading\n```\n"
    assert pages.anchors(twice) == {"one-secl-of-a", "one-secl-of-a-1"}
