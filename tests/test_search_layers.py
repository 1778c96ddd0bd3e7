"""Strategies made for accelerators: what they may choose, what that costs, and that they find what there is to find."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hil_command import check_failure, hil
from onnx_models import node, simple

from tinyhil import data
from tinyhil.compiler.calibrate import load_ranges
from tinyhil.errors import ConfigError, Infeasible
from tinyhil.frontend.load import load_model
from tinyhil.harness.job.zoo import ModelSource, find_model
from tinyhil.harness.search.total import placed
from tinyhil.harness.settings.config import load_boards
from tinyhil.reram.cost import cost_of
from tinyhil.reram.mapping import WITHOUT
from tinyhil.search.accelerator import AcceleratorCosts, AcceleratorLimits
from tinyhil.search.evaluator import Evaluator, NumpyExecutor, make_examples
from tinyhil.search.layers import layer_space
from tinyhil.search.memory import UNLIMITED, Memory
from tinyhil.search.search_loop import Budget, search
from tinyhil.search.search_problem import SearchProblem
from tinyhil.search.space import Choice, make_space
from tinyhil.search.strategies import make_strategy
from tinyhil.search.strategies.ddpg import decremented, nearest
from tinyhil.search.trial import TrialLog

HARDWARE = load_boards().board("reram").hardware
assert HARDWARE is not None
WIDTHS = tuple(f"fixed{bits}" for bits in range(2, 9))
SMALL = {"ppo": ("trials=24", "batch=4", "hidden=16", "iterations=5"), "ddpg": ("trials=24", "warmup=6"), "milp": ()}
LEARNERS = ("ppo", "ddpg")
EACH = [*(pytest.param(name, marks=pytest.mark.slow) for name in LEARNERS), "milp"]


@pytest.fixture(autouse=True)
def _pytorch_for_learners(request: pytest.FixtureRequest) -> None:
    if hasattr(request.node, "callspec") and request.node.callspec.params.get("name") in LEARNERS:
        request.getfixturevalue("pytorch")


def samples_of(source: ModelSource, shape: tuple[int, ...], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Of a set that ships; noise for LeNet-5, whose layers and costs alone are looked at."""
    if source.dataset == "mnist":
        return np.random.default_rng(0).uniform(size=(count, *shape)).astype(np.float32), np.zeros(count, np.int64)
    found = data.load(source.dataset)
    return found.x_test[:count], found.y_test[:count]


def search_problem(
    name: str = "digits_cnn", samples: int = 60, seed: int = 0, formats=WIDTHS, **limits: float
) -> SearchProblem:
    source = find_model(name)
    model = load_model(source.path)
    x, y = samples_of(source, model.graph.shapes[model.graph.inputs[0]], samples)
    space = make_space(model.graph, load_ranges(source.ranges, model.sha256), formats, WITHOUT)
    examples = make_examples(model.graph, x, y)
    evaluator = Evaluator(NumpyExecutor(), examples)
    costs = AcceleratorCosts(space, HARDWARE, AcceleratorLimits(**limits))
    return SearchProblem(
        space,
        Memory(space, lambda program: placed(program, None, "ram")),
        evaluator,
        UNLIMITED,
        seed,
        costs=costs,
        anchor=costs.anchor(),
    )


@pytest.mark.parametrize("name", ["digits_cnn", "lenet5_mnist", "fastgrnn_har", "digits_mlp"])
def test_costs_by_widths_are_those_of_the_lowered_program(name: str) -> None:
    problem = search_problem(name, samples=4)
    random = np.random.default_rng(1)
    for _ in range(4):
        drawn = random.integers(0, len(WIDTHS), len(problem.space.groups))
        candidate = tuple(Choice(WIDTHS[number]) for number in drawn)
        known, true = problem.costs.cost(candidate), cost_of(problem.space.lower(candidate), HARDWARE)
        assert known == true


def test_the_cost_of_eight_bits_everywhere_is_one() -> None:
    problem = search_problem(cost=1.0)
    uniform = problem.space.uniform(Choice("fixed8"))
    assert problem.costs.relative(problem.costs.cost(uniform)) == pytest.approx(1.0)
    assert problem.fits(uniform)
    layers = layer_space(problem, "ppo")
    assert layers.candidate([6] * len(layers.decisions)) == uniform


def test_only_the_layers_between_the_first_and_the_last_are_chosen() -> None:
    """LeNet-5: three layers, seven widths each for weights and inputs: 117,649 configurations."""
    layers = layer_space(search_problem("lenet5_mnist", samples=4), "ppo")
    names = [layers.problem.space.groups[decision.group].name for decision in layers.decisions]
    assert names == ["conv2_w", "pool1", "fc1_w", "pool2", "fc2_w", "relu3"]
    assert len(layers.choices) ** len(layers.decisions) == 117_649
    states = np.stack([layers.state(at, 0.5) for at in range(len(names))])
    assert states.shape == (6, 10)
    assert (states >= 0).all()
    assert (states <= 1).all()
    assert states[:, 8].tolist() == [1, 0] * 3  # weights or inputs
    assert (states[:, 9] == 0.5).all()


def test_the_mask_forbids_what_makes_the_limits_unreachable_and_nothing_else() -> None:
    problem = search_problem("digits_cnn", cost=0.78, formats=("fixed2", "fixed5", "fixed8"))
    layers = layer_space(problem, "ppo")
    count, options = len(layers.decisions), range(len(layers.choices))
    feasible = {taken for taken in product(options, repeat=count) if problem.fits(layers.candidate(taken))}
    assert 0 < len(feasible) < len(options) ** count
    for length in range(count):
        for taken in {one[:length] for one in feasible}:
            allowed = layers.allowed(list(taken)).tolist()
            assert allowed == [any(one[: length + 1] == (*taken, number) for one in feasible) for number in options]


def test_what_is_allowed_is_arithmetic_alone() -> None:
    """Without a limit of RAM nothing is lowered or planned, however often a strategy asks."""

    def forbidden(*_: object) -> object:
        raise AssertionError("planned")

    problem = search_problem("digits_cnn", samples=4, cost=0.8)
    layers = layer_space(replace(problem, memory=Memory(problem.space, forbidden, forbidden, forbidden)), "ppo")
    taken: list[int] = []
    for _ in layers.decisions:
        taken.append(int(np.flatnonzero(layers.allowed(taken))[-1]))
    assert layers.problem.fits(layers.candidate(taken))
    assert 0 < sum(taken) < len(taken) * (len(layers.choices) - 1)


def test_ddpg_decrements_until_the_limits_hold() -> None:
    problem = search_problem("digits_cnn", cost=0.8)
    layers = layer_space(problem, "ddpg")
    found = decremented(layers, [6] * len(layers.decisions))
    assert problem.fits(layers.candidate(found))
    assert not problem.fits(layers.candidate([6] * len(found)))
    assert max(found) - min(found) <= 1  # round by round
    assert found == sorted(found, reverse=True)  # from the last backwards
    assert decremented(layers, [0] * len(found)) == [0] * len(found)


def test_ddpg_rounds_as_haq() -> None:
    """Every width has an equal part of 0..1, the narrowest and the widest too."""
    actions = (np.arange(7000) + 0.5) / 7000
    haq = [int(np.clip(np.round(2 - 0.5 + action * (8 - 2 + 1)), 2, 8)) - 2 for action in actions]
    found = [nearest(action, 7) for action in actions]
    assert found == haq
    assert np.bincount(found).tolist() == [1000] * 7
    assert (nearest(0.0, 7), nearest(1.0, 7)) == (0, 6)


@pytest.mark.parametrize("name", EACH)
def test_answers_keep_the_limits_and_equal_seeds_give_equal_trials(name: str) -> None:
    def found(seed: int):
        problem = search_problem("digits_cnn", cost=0.8, seed=seed)
        return search(make_strategy(name, SMALL[name]), problem, budget=Budget(24))

    first, again, other = found(0), found(0), found(1)
    assert first.best.fits
    trials = [[trial.candidate for trial in one.trials] for one in (first, again, other)]
    assert trials[0] == trials[1]
    assert (trials[0] == trials[2]) == (name == "milp")  # which draws nothing
    if name == "ppo":  # masked: nothing beyond the limits was ever evaluated
        assert all(trial.fits for trial in first.trials)


@pytest.mark.parametrize("name", EACH)
def test_an_interrupted_search_goes_on_with_the_same_trials(name: str, tmp_path: Path) -> None:
    def found(log: TrialLog | None, evaluations: int):
        problem = search_problem("digits_cnn", cost=0.8)
        return search(make_strategy(name, SMALL[name]), problem, budget=Budget(evaluations), log=log)

    whole = found(None, 20)
    space = search_problem("digits_cnn").space
    found(TrialLog(tmp_path / "log", space, "key"), 9)
    lines = (tmp_path / "log").read_text().splitlines()
    (tmp_path / "log").write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:20])  # torn while it was written
    resumed = found(TrialLog(tmp_path / "log", space, "key"), 20)
    assert [trial.candidate for trial in resumed.trials] == [trial.candidate for trial in whole.trials]
    assert resumed.best.candidate == whole.best.candidate


def test_milp_finds_the_best_of_all_where_errors_add_up() -> None:
    """Against every configuration by the sum of the errors it measured itself."""
    problem = search_problem("digits_cnn", cost=0.8, formats=("fixed2", "fixed4", "fixed6", "fixed8"))
    layers = layer_space(problem, "milp")
    found = search(make_strategy("milp", ["solutions=1", "neighbours=false"]), problem)
    alone = {trial.candidate: trial.score.loss for trial in found.trials}
    most, count = len(layers.choices) - 1, len(layers.decisions)

    def additive(taken) -> float:
        widest = [most] * count
        return sum(alone[layers.candidate([*widest[:at], n, *widest[at + 1 :]])] for at, n in enumerate(taken))

    fitting = [one for one in product(range(most + 1), repeat=count) if problem.fits(layers.candidate(one))]
    answer = next(one for one in fitting if layers.candidate(one) == found.trials[-1].candidate)
    assert additive(answer) == pytest.approx(min(map(additive, fitting)))


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"cost": 0.01}, "0.01 of the cost with 8 bits are not reachable on this accelerator, the least is 0.2"),
        ({"latency_us": 1.0}, "1 us are not reachable on this accelerator, the least is"),
        ({"energy_uj": 1e-6}, "1e-06 uJ are not reachable"),
        ({"crossbars": 1}, "1 crossbars are not reachable on this accelerator, the least is"),
    ],
)
def test_an_unreachable_threshold_is_named_with_the_least(limits: dict, said: str) -> None:
    with pytest.raises(Infeasible, match="; try --") as caught:
        search_problem("digits_cnn", **limits)
    assert said in str(caught.value)
    (name, _), value = *limits.items(), float(str(caught.value).rsplit(" ", 1)[1])
    assert search_problem("digits_cnn", **{name: type(limits[name])(value)}).anchor is not None  # the remedy works


@pytest.mark.parametrize("name", EACH)
def test_a_threshold_below_what_the_ends_cost_is_named(name: str) -> None:
    problem = search_problem("digits_cnn", cost=0.3)
    with pytest.raises(Infeasible, match=r"the least is cost 0\.\d+ of 0\.3, with fixed2 for every layer but"):
        search(make_strategy(name, () if name != "ppo" else ("mask=true",)), problem)


def test_a_format_for_all_tensors_answers_where_the_ends_cost_too_much(tmp_path: Path) -> None:
    """ "Not reachable, the least is 0.745" was said where fixed4 for all tensors costs 0.4534: its answer at 0.75."""
    rng = np.random.default_rng(6)
    np.savez(tmp_path / "x.npz", x=rng.normal(0, 4, (40, 1, 1, 8, 8)).astype(np.float32), y=np.arange(40) % 10)
    given = ["search", "--board", "reram", "--model", "digits_cnn", "--inputs", "x.npz", "--strategy", "milp"]
    done = hil(*given, "--cost", 0.5, "--out", "a.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "of 0.5, with fixed2 for every layer but the first and the last, which keep fixed8; raise" in done.stderr
    assert "; fixed4 for all tensors keeps them" in done.stderr
    assert "default: fixed4\nvalues: {}" in (tmp_path / "a.yaml").read_text()
    check_failure(hil(*given, "--cost", 0.5, "--own", cwd=tmp_path), 4, "milp: the limits are not reachable", logs=True)
    refused = hil(*given, "--cost", 0.2, cwd=tmp_path)
    least = refused.stderr.rsplit(" ", 1)[1].strip()
    assert hil(*given, "--cost", least, cwd=tmp_path).returncode == 0, "what it says to try"


def test_a_limit_of_what_a_sum_is_rounded_to_is_kept(tmp_path: Path) -> None:
    """Three layers of 0.2 us each take 0.6000000000000001 us: "not reachable, the least is 0.6; try 0.6"."""
    random = np.random.default_rng(0)
    nodes = [node("MatMul", "x A", "a"), node("Tanh", "a", "b"), node("MatMul", "b B", "c"), node("Tanh", "c", "d")]
    constants = {"A": random.normal(size=(10, 24)), "B": random.normal(size=(24, 12)), "C": random.normal(size=(12, 3))}
    model = simple([*nodes, node("MatMul", "d C", "y")], {"x": (1, 10)}, constants)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    np.savez(tmp_path / "x.npz", x=random.normal(size=(60, 10)).astype(np.float32))
    asked = ("search", "--board", "reram", "--model", "net.onnx", "--inputs", "x.npz", "--calibrate", "x.npz")
    refused = hil(*asked, "--latency-us", 0.5, cwd=tmp_path)
    least = refused.stderr.rsplit(" ", 1)[1].strip()
    assert least == "0.6"
    assert hil(*asked, "--latency-us", least, "--evaluations", 4, cwd=tmp_path).returncode == 0, "what it says to try"


def test_widths_out_of_range_are_said() -> None:
    problem = search_problem("digits_cnn", formats=("fixed12", "fixed16"))
    with pytest.raises(ConfigError, match="chooses widths of 2 to 8 bits, of which --formats offers 0"):
        layer_space(problem, "ppo")


def test_no_widths_are_asked_for_where_there_is_no_layer_to_give_them_to() -> None:
    """`--formats fixed2,fixed4,fixed8` was asked for, then refused."""
    with pytest.raises(ConfigError, match="no layer between its first and its last; try --strategy lagrange"):
        layer_space(search_problem("digits_mlp", formats=("fixed12", "fixed16")), "milp")


def test_strategies_without_their_packages_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name, package, extra in (("ppo", "torch", "rl"), ("ddpg", "torch", "rl"), ("milp", "scipy.optimize", "milp")):
        with monkeypatch.context() as changed:
            changed.setitem(sys.modules, package, None)
            with pytest.raises(ConfigError, match=rf"pip install 'tinyhil\[{extra}\]'"):
                search(make_strategy(name, ()), search_problem("digits_cnn", samples=4))


def test_hil_search_on_the_accelerator(tmp_path: Path) -> None:
    options = ("--model", "digits_cnn", "--strategy", "random", "--evaluations", 8, "--json", "--results", tmp_path)
    limits = ("--latency-us", 30, "--energy-uj", 1, "--crossbars", 60)
    done = hil("search", "--board", "reram", *options, *limits, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["latency_us"] <= 30
    assert found["energy_uj"] <= 1
    assert found["crossbars"] <= 60
    given = ("--model", "digits_cnn", "--assignment", found["assignment_file"], "--samples", 20, "--json")
    record = json.loads(hil("run", "--board", "reram", *given, "--results", tmp_path, cwd=tmp_path).stdout)
    for name in ("latency_us", "energy_uj", "crossbars"):  # the board says what the search has promised
        assert record["accelerator"][name] == pytest.approx(found[name])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--board", "reram", "--cost", 0.01), "not reachable on this accelerator, the least is"),
        (("--board", "reram", "--flash", 100), "--flash is for chips"),
        (("--board", "host", "--cost", 0.5, "--ram", 5000), "host has no crossbars"),
        (("--crossbars", 5, "--ram", 5000), "--crossbars needs a board"),
        (("--board", "reram", "--formats", "posit8es0,posit16es1"), "give --formats fixed2,fixed4,fixed8"),
    ],
)
def test_bad_limits_end_in_one_line(options: tuple, said: str, tmp_path: Path) -> None:
    done = hil("search", "--model", "digits_cnn", *options, cwd=tmp_path)
    check_failure(done, done.returncode, said)
    assert done.returncode in (2, 4)
