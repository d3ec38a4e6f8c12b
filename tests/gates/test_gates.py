"""The contract of all gates, two gates against plain recomputations, and gates from a Python file."""

import dataclasses
import inspect
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secl.errors import ParameterError, RunError, SeclError
from secl.gates import GATES, Always, EntropyShift, Gate, Never, PageHinkley, gate_class, replay
from secl.records import Decision
from secl.runs import RunSettings, Store, resume_run, start_run
from secl.runs.loading import calibration, load_for_asking
from secl.runs.settings import Recipe
from secl.server.online.service import create_state, open_service, serving_settings
from secl.server.retention import Retention
from secl.server.store import ServerStore, open_folder
from secl.server.verify import Verification, examine
from secl.settings.groups import GateSettings
from secl.testing import ScriptedModel
from tests.runs.conftest import stop_after
from tests.server.waiting import prune

SHIFTY = [1.0 + 0.1 * (k % 3) for k in range(30)] + [4.0 + 0.1 * (k % 3) for k in range(60)] + [0.5] * 60

TESTING = [
    EntropyShift(threshold=3.1, warmup=2, burst=1),
    EntropyShift(threshold=3.1, warmup=5, burst=3, opening=False),
    EntropyShift(threshold=3.1, warmup=30, burst=50),
    PageHinkley(threshold=1.37, warmup=0, burst=1, restart="sums"),
    PageHinkley(threshold=1.37, warmup=10, burst=5, restart="all"),
]
ROWS: list[Gate] = [Always(), Never(), *TESTING]


def test_every_gate_has_a_row_and_all_parameters_of_the_papers_gate_can_be_set() -> None:
    assert {*map(type, ROWS)} == set(GATES.values())
    assert all(name in str(GateSettings.model_fields["name"].description) for name in GATES)
    parameters = {name for gate in ROWS for name in inspect.signature(type(gate)).parameters}
    in_python = {"opening", "slack", "restart"}  # the last one also by the setting `paper`
    assert parameters - set(GateSettings.model_fields) == in_python


@pytest.mark.parametrize("gate", ROWS, ids=repr)
def test_steps_are_pure_and_states_are_values_of_plain_numbers(gate: Gate) -> None:
    state = gate.start()
    for entropy in SHIFTY:
        before = state and dataclasses.asdict(state)
        after, decision = gate.step(state, np.float64(entropy))
        assert (after, decision) == gate.step(state, entropy)
        if state is None:
            assert decision == Decision(in_burst=isinstance(gate, Always))
            continue
        assert type(state)(**before) == state
        assert all(type(number) in (bool, int, float) for number in dataclasses.astuple(after))
        assert hash(after) == hash(dataclasses.replace(after))
        state = after
    for entropy in (-0.1, math.nan, math.inf):
        with pytest.raises(ParameterError, match="entropy"):
            gate.step(gate.start(), entropy)


def test_a_gate_names_the_parameter_that_makes_no_sense() -> None:
    hinkley = {"ema": 0.0, "epsilon": -0.01, "threshold": math.inf, "warmup": -1, "burst": 0, "restart": "mean"}
    shift = {"warmup": 2.5, "slack": -0.5, "threshold": math.nan, "burst": 0}
    for name, values in (("page-hinkley", hinkley), ("entropy-shift", shift)):
        for parameter, value in values.items():
            with pytest.raises(ParameterError, match=parameter):
                GATES[name](**{parameter: value})


def plain_shift(gate: EntropyShift, entropies: list[float]) -> list[Decision]:
    """Return the decisions, with mean and spread computed anew from a list of the reference."""
    expected: list[Decision] = []
    reference: list[float] = []
    up, down, left = 0.0, 0.0, 0
    for t, entropy in enumerate(entropies):
        if left:
            left -= 1
            expected.append(Decision(in_burst=True, remaining=left))
            continue
        statistic = None
        if len(reference) >= gate.warmup:
            mean = float(np.mean(reference))
            z = (entropy - mean) / max(float(np.std(reference, ddof=1)), 1e-3 * mean, 1e-6)
            up, down = max(0.0, up + z - gate.slack), max(0.0, down - z - gate.slack)
            statistic = max(up, down)
        alarm = (t == 0 and gate.opening) or (statistic is not None and statistic > gate.threshold)
        if alarm:
            reference, up, down, left = [], 0.0, 0.0, gate.burst - 1
        else:
            reference.append(entropy)
        expected.append(Decision(alarm=alarm, in_burst=alarm, remaining=left, statistic=statistic))
    return expected


def plain_page_hinkley(gate: PageHinkley, entropies: list[float]) -> list[Decision]:
    """Return the decisions by the paper's equation, summed anew from the last restart."""
    expected: list[Decision] = []
    mean_from = sums_from = left = 0
    for count in range(1, len(entropies) + 1):
        inside, left = left > 0, max(0, left - 1)
        sums, average = [0.0], entropies[mean_from]
        for end in range(mean_from, count):
            average = (1 - gate.ema) * average + gate.ema * entropies[end]
            if end >= sums_from:
                sums.append(sums[-1] + entropies[end] - average - gate.epsilon)
        statistic = sums[-1] - min(sums)
        alarm = not inside and count > gate.warmup and statistic > gate.threshold
        if alarm:
            left, sums_from = gate.burst - 1, count
            mean_from = sums_from if gate.restart == "all" else mean_from
        expected.append(Decision(alarm=alarm, in_burst=inside or alarm, remaining=left, statistic=statistic))
    return expected


@pytest.mark.parametrize("gate", TESTING, ids=repr)
@settings(max_examples=50)
@given(entropies=st.lists(st.floats(0.0, 5.0), min_size=1, max_size=120))
def test_decisions_are_those_of_a_plain_recomputation(gate: EntropyShift | PageHinkley, entropies: list[float]) -> None:
    if isinstance(gate, EntropyShift):
        expected, bound = plain_shift(gate, entropies), 1e-6  # standardised, so relative
    else:
        expected, bound = plain_page_hinkley(gate, entropies), 1e-9
    for plain, decision in zip(expected, replay(gate, entropies), strict=True):
        statistic = plain.statistic
        if statistic is not None and abs(statistic - gate.threshold) < bound * max(1.0, statistic):
            return  # rounding may decide
        assert decision == dataclasses.replace(plain, statistic=decision.statistic)
        assert decision.statistic == (None if statistic is None else pytest.approx(statistic, rel=bound, abs=bound))


def test_the_default_seldom_cries_wolf_and_sees_a_shift_in_time_in_any_unit() -> None:
    generator, gate = np.random.default_rng(0), EntropyShift(burst=1, opening=False)
    for noise in (generator.normal(10.0, 1.0, 20_000), generator.gamma(4.0, 1.0, 20_000)):
        assert sum(decision.alarm for decision in replay(gate, noise)) <= 20
    for spreads, median, latest in ((1.0, 20, 40), (-2.0, 8, 12)):
        noise = generator.normal(10.0, 1.0, (60, 300))
        noise[:, 200:] += spreads
        first = np.array([[each.alarm for each in replay(gate, stream)].index(True) for stream in noise])
        delays = first[first >= 200] - 199
        assert np.median(delays) <= median
        assert np.quantile(delays, 0.9) <= latest
    noise = np.random.default_rng(1).gamma(4.0, 0.25, 400)
    noise[200:] *= 1.8
    alarms = [decision.alarm for decision in replay(EntropyShift(), noise)]
    assert sum(alarms) == 2
    assert alarms == [decision.alarm for decision in replay(EntropyShift(), 30 * noise)]
    gate = EntropyShift(opening=False)
    assert not any(decision.alarm for decision in replay(gate, [2.0] * 100 + [2.0 + 1e-6] * 100))
    assert replay(gate, [2.0] * 100 + [2.1])[-1].alarm


MINE = """
from dataclasses import dataclass
from secl.gates import Gate
from secl.records import Decision

@dataclass(frozen=True)
class Asked:
    count: int = 0

class EveryThird(Gate):
    def start(self):
        return Asked()

    def step(self, state, entropy):
        opens = state.count % 3 == 0
        return Asked(state.count + 1), Decision(alarm=opens, in_burst=opens, remaining=0, statistic=None)

class Bare(EveryThird):
    def step(self, state, entropy):
        return 0, super().step(state, entropy)[1]

class Asks:
    pass
"""


def test_a_run_with_a_gate_of_ones_own_goes_on_as_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, elsewhere = tmp_path / "mine.py", tmp_path / "elsewhere"
    file.write_text(MINE)
    monkeypatch.chdir(tmp_path)
    recipe = RunSettings.of({"stream.benchmarks": ["capitals:9"], "method": "secl", "gate.name": "mine.py:EveryThird"})
    begun = start_run(recipe, tmp_path / "run", lambda _: ScriptedModel())
    with begun.store, pytest.raises(KeyboardInterrupt):
        begun.proceed(stop_after(5))
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    file.write_text(MINE.replace("% 3", "% 4"))
    named = {"gate.name": f"{file}:EveryThird"}
    changed = resume_run(tmp_path / "run", named, lambda _: ScriptedModel())
    with changed.store, pytest.raises(RunError, match="position 3 differs from the recorded one; restore the gate's"):
        changed.proceed()
    file.write_text(MINE)
    resumed = resume_run(tmp_path / "run", {"gate": {"name": "../mine.py:EveryThird"}}, lambda _: ScriptedModel())
    with resumed.store:
        resumed.proceed()
    assert [record.position for record in resumed.records if record.decision.in_burst] == [0, 3, 6]
    for name in ("../mine.py:EveryThird", named["gate.name"]):
        found = verified(tmp_path / "run", name)
        assert (found.findings, found.examined) == ([], 9)


def verified(folder: Path, gate: str | None = None) -> Verification:
    with open_folder(folder) as store:
        return examine(store, gate)


def pruned(folder: Path) -> int:
    with ServerStore(folder, writable=True) as state:
        return prune(state, Retention(records=1))


@pytest.mark.parametrize("gate", ["run/evil.py:Gate", "{run}/evil.py:Gate"])
def test_a_file_that_only_a_folder_names_is_never_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gate: str
) -> None:
    monkeypatch.chdir(tmp_path)
    run, state = tmp_path / "run", tmp_path / "state"
    values = {"method": "secl", "gate.name": "always"}
    with start_run(
        RunSettings.of({**values, "stream.benchmarks": ["capitals:3"]}), run, lambda _: ScriptedModel()
    ).store:
        pass
    create_state(state, serving_settings(values), "full", ScriptedModel()).close()
    (run / "evil.py").write_text('open("PWNED", "w").close()\nclass Gate: pass\n')
    for folder in (run, state):
        with Store(folder, writable=True) as store, store.db:
            change = "UPDATE manifest SET value = json_set(value, '$.gate.name', ?) WHERE key = 'settings'"
            store.db.execute(change, (gate.format(run=run),))
    opened: list[Callable[[], object]] = [
        lambda: resume_run(run, load=lambda _: ScriptedModel()),
        lambda: resume_run(run, {"gate.name": "always"}, lambda _: ScriptedModel()),
        lambda: resume_run(run, {"gate.name": "other.py:Gate"}, lambda _: ScriptedModel()),
        lambda: verified(run),
        lambda: verified(run, "other.py:Gate"),
        lambda: verified(state),
        lambda: pruned(state),
        lambda: open_service(state, serving_settings(values), load=lambda _: ScriptedModel()),
        lambda: calibration(Recipe.of({**values, "model.calibration": str(run)}), ScriptedModel()),
        lambda: load_for_asking({}, run),
    ]
    for number, read in enumerate(opened):
        with pytest.raises(
            SeclError, match=r"add --gate .*evil.py:Gate|other settings|do not apply|no labels|learned nothing"
        ):
            read()
        assert not (tmp_path / "PWNED").exists(), number


def test_what_is_no_gate_is_refused_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "broken.py").write_text("class:")
    monkeypatch.chdir(tmp_path)
    for name, problem in (
        ("sometimes", "there is no gate 'sometimes'; take always, never, .* or FILE.py:CLASS"),
        ("other.py:EveryThird", "there is no file other.py"),
        ("mine.py:Nobody", "mine.py defines no Nobody"),
        ("mine.py:Asks", "AttributeError: 'Asks' object has no attribute 'step'"),
        ("mine.py:Bare", r"step\(\) must return a state \(a frozen dataclass"),
        ("broken.py:EveryThird", "SyntaxError"),
    ):
        with pytest.raises(ParameterError, match=problem):
            gate_class(name)
