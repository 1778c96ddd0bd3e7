"""Schedules from layer by layer to the least RAM: each executes bit for bit, costs what it says, and fits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from arena_machine import Arena, compiled_cases
from given_data import data_file
from kernel_cases import SANITIZED, first_difference, run_natively, run_on_board

from benchmarks import msf_cnn
from benchmarks.networks import NETWORKS, Network, mobilenet_v2, squeezenet
from tinyhil.compiler.calibrate import Ranges, calibrate
from tinyhil.compiler.lower import lower
from tinyhil.errors import DoesNotFit
from tinyhil.frontend.load import load_model
from tinyhil.harness.python import api
from tinyhil.harness.records.terminal import rows
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import Program, walk
from tinyhil.memplan import DEFAULT, check
from tinyhil.memplan.arena import row_shapes
from tinyhil.memplan.arena.placement import Placement, place, smallest
from tinyhil.memplan.arena.placement_preference import chosen, input_bytes
from tinyhil.memplan.arena.row_choice import Cuts, cut_into
from tinyhil.memplan.arena.row_costs import layer_products
from tinyhil.memplan.arena.schedules import Scheduled, Schedules, cheapest_within, front, least
from tinyhil.memplan.arena.two_passes import in_two_passes
from tinyhil.passes.arrange import arrange
from tinyhil.preference import LEAST, PREFERENCES, RAM, Wish
from tinyhil.references.reference import quantize_inputs, run_reference

RESNET = "models/mlperftiny_ic_resnet8.onnx"


def excite(side: int) -> onnx.ModelProto:
    """Blocks of MobileNetV3: the mean of a map scales the map."""
    net = Network(side).conv(8, 3, 2).add("HardSwish")
    for hidden, outputs, stride in ((48, 8, 1), (40, 12, 2)):
        begin = net.last
        net.conv(hidden).add("HardSwish").depthwise(stride).add("HardSwish")
        planes = net.last
        net.add("GlobalAveragePool").conv(8).relu().conv(hidden).add("HardSigmoid").add("Mul", planes).conv(outputs)
        net = net.add("Add", begin) if stride == 1 else net
    return net.conv(24).relu().pool("AveragePool", 2, 2).model()


SMALL = {
    "mobilenet_v2": mobilenet_v2(24, 0.35, 4, blocks=3),
    "squeezenet": squeezenet(35, 24, fires=2),
    "excite": excite(26),
}


def program_of(proto: onnx.ModelProto, folder: Path, default: str) -> tuple[Program, np.ndarray]:
    path = folder / "network.onnx"
    path.write_bytes(proto.SerializeToString())
    graph = load_model(path).graph
    shape = graph.shapes[graph.inputs[0]]
    x = np.random.default_rng(0).normal(size=(2, *shape[1:])).astype(np.float32)
    program = lower(graph, Assignment(default), calibrate(graph, x, {}))
    return program, quantize_inputs(program, x)[0]


Made = tuple[Program, np.ndarray, list[Scheduled]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Made]:
    """Program, inputs and schedules of a small network, arranged for `core` unless that is None: made once."""

    @functools.cache
    def make(name: str, default: str, core: str | None = None) -> Made:
        program, inputs = program_of(SMALL[name], tmp_path_factory.mktemp(name), default)
        arranged = program if core is None else arrange(program, core)
        return arranged, inputs, make(name, default)[2] if core is not None and arranged == program else front(arranged)

    return make


def sizes_of(name: str, folder: Path) -> Program:
    """A published network whose ranges nobody knows: its sizes are the same."""
    path = folder / "network.onnx"
    path.write_bytes(dict(NETWORKS)[name]().SerializeToString())
    return with_unknown_ranges(path)


def with_unknown_ranges(path: Path) -> Program:
    graph = load_model(path).graph
    return lower(graph, Assignment("fixed8"), Ranges(dict.fromkeys(graph.all_shapes(), (-1.0, 1.0)), {}))


@pytest.mark.parametrize("default", ["fixed8", "int8"])
@pytest.mark.parametrize("name", SMALL)
def test_every_schedule_computes_the_same(name: str, default: str, made: Callable[..., Made]) -> None:
    program, inputs, found = made(name, default)
    wanted = run_reference(program, inputs).outputs
    assert len(found) >= 6
    assert [one.peak_bytes for one in found] == sorted((one.peak_bytes for one in found), reverse=True)
    assert [one.more_time for one in found] == sorted(one.more_time for one in found)
    assert found[0].more_products == found[0].more_time == 0
    assert found[-1].peak_bytes < place(program).plan.peak_bytes  # what no row computed once can reach
    for one in found:
        check(one.placed.problem, one.placed.plan)
        assert np.array_equal(run_reference(one.placed.program, inputs).outputs, wanted)
    machine = Arena(found[-1].placed)
    assert np.array_equal([machine.run(sample) for sample in inputs], wanted)


NAMES = (("mobilenet_v2", "fixed8"), ("squeezenet", "int8"), ("excite", "int8"))


def some(made: Callable[..., Made], core: str = "") -> tuple[list[Placement], list[np.ndarray]]:
    """The least RAM and half of the way to it: halos and whole maps are made twice."""
    placed, given = list[Placement](), list[np.ndarray]()
    for name, default in NAMES:
        _, inputs, found = made(name, default, core)
        placed += [one.placed for one in (found[len(found) // 2], found[-1])]
        given += [inputs[:1]] * 2
    return placed, given


def of_the_least_ram(folder: Path) -> tuple[list[Placement], list[np.ndarray]]:
    """Without what lies before it."""
    made = [program_of(SMALL[name], folder, default) for name, default in NAMES]
    return [least(arrange(program, "")).placed for program, _ in made], [inputs[:1] for _, inputs in made]


@pytest.mark.parametrize("half", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_natively_with_sanitizers(
    half: bool, tmp_path: Path, made: Callable[..., Made], monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = compiled_cases(*(some(made) if half else of_the_least_ram(tmp_path)), monkeypatch)
    assert first_difference(cases, run_natively(cases, tmp_path, *SANITIZED)) == ""


@pytest.mark.parametrize("board", ["due", "h747"])
def test_on_boards(board: str, tmp_path: Path, made: Callable[..., Made], monkeypatch: pytest.MonkeyPatch) -> None:
    spec = load_boards().board(board)
    cases = compiled_cases(*some(made, spec.chip.core), monkeypatch)
    assert first_difference(cases, run_on_board(cases, spec, tmp_path / "cache")) == ""


@pytest.mark.slow
def test_published_tables_are_beaten(tmp_path: Path) -> None:
    """MobileNetV2 0.35 at 144 x 144: msf-CNN has 25.7 kB at 25 % more products and 15.3 kB at 38 %; MCUNetV2 and others
    compute halos again, too."""
    program = sizes_of("MobileNetV2 0.35, 144 x 144", tmp_path)
    assert place(program).plan.peak_bytes <= 25_700
    for limit, most in ((24_000, 0.01), (17_600, 0.02), (15_300, 0.1)):
        found = cheapest_within(program, limit)
        assert found.peak_bytes <= limit
        assert found.more_products <= most
        again = layer_products(found.placed.program) - layer_products(program)
        assert 0 < again == round(found.more_products * layer_products(program))


@pytest.mark.parametrize("name", SMALL)
def test_what_fits_is_never_slower_than_what_the_front_shows(name: str, made: Callable[..., Made]) -> None:
    program, _, found = made(name, "fixed8")
    assert 0 < Schedules(program).floor_bytes <= found[-1].peak_bytes
    for one in found[2:6:3] if name == "mobilenet_v2" else found[4:6]:
        within = cheapest_within(program, one.peak_bytes)
        assert within.peak_bytes <= one.peak_bytes
        assert within.more_time <= one.more_time


@pytest.mark.data(RESNET)
@pytest.mark.parametrize("name", ["squeezenet", "ResNet-8"])
def test_the_front_is_what_limits_can_give(name: str, made: Callable[..., Made]) -> None:
    """Any limit, not only those at which the front has a point."""
    program = with_unknown_ranges(data_file(RESNET)) if name == "ResNet-8" else made(name, "int8")[0]
    peaks = [one.peak_bytes for one in (front(program) if name == "ResNet-8" else made(name, "int8")[2])]
    limits = {(2 * low + high) // 3 for low, high in pairwise(reversed(peaks))} | {peaks[0] + 5, peaks[0] - 1}
    for limit in limits:
        given = cheapest_within(program, limit)
        assert given.peak_bytes == max(peak for peak in peaks if peak <= limit)


@pytest.mark.parametrize("name", SMALL)
def test_loops_of_one_network_share_what_formats_do_not_change(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = [program_of(SMALL[name], tmp_path, fmt)[0] for fmt in ("fixed16", "int8", "fixed8", "posit8es2")]
    row_shapes._shapes.cache_clear()
    shared = [Cuts(program, again=True).parts for program in programs]
    assert row_shapes._shapes.cache_info().hits
    monkeypatch.setattr(row_shapes, "_signature", lambda part, columns: object())  # every strip counts
    for program, parts in zip(programs, shared, strict=True):
        row_shapes._shapes.cache_clear()
        assert Cuts(program, again=True).parts == parts


def test_no_schedule_undercuts_what_its_parts_need_alone(tmp_path: Path) -> None:
    """Of channels that groups do not share evenly, too."""
    program, _ = program_of(SMALL["excite"], tmp_path, "fixed8")
    twice = list(in_two_passes(program))[-1]
    cuts, alone = (Cuts(twice, again=True, alone=alone) for alone in (False, True))
    for limit in (8_500, 6_800, 5_800, 4_500, 3_700):
        cut = cuts.cheapest(limit)
        assert alone.floor_of(cut) <= smallest(cut_into(twice, cuts, cut.chosen), (), DEFAULT, None).plan.peak_bytes


def test_the_cheapest_that_fits(made: Callable[..., Made]) -> None:
    program, _, found = made("mobilenet_v2", "fixed8")
    assert cheapest_within(program, 1 << 30).placed.program == program
    assert cheapest_within(program, 1).peak_bytes <= found[-1].peak_bytes


def test_a_head_of_many_channels_goes_in_groups(tmp_path: Path) -> None:
    """The 1280 channels before the global mean are never there at once."""
    program = sizes_of("MobileNetV2 0.35, 144 x 144", tmp_path)
    placed = place(program)
    assert placed.plan.peak_bytes < 1280 * 5 * 5
    groups = [op for op in walk(placed.program.body) if op.kernel.base == "average_pool"]
    assert len(groups) > 1
    assert sum(op.params["channels"] for op in groups) == 1280
    assert layer_products(placed.program) == layer_products(program)


IN_GROUPS = (
    Network(8).conv(8).relu().pool("MaxPool", 2, 2).conv(16).relu().pool("MaxPool", 2, 2).model(),
    Network(10).conv(8, 3, 2).relu().conv(20).relu().pool("AveragePool", 5, 5).model(),
)


@pytest.mark.parametrize(
    ("board", "reader"), [("uno", "hil::near_rows<2>"), ("nucleo_g0b1", "hil::near_records"), ("due", "hil::flash")]
)
def test_groups_read_what_is_stored_for_their_channels(
    board: str, reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Multipliers and biases that a chip reads in other words than the reference has: every group its own."""
    spec = load_boards().board(board)
    made = [program_of(model, tmp_path, "int8") for model in IN_GROUPS]
    placed = [place(arrange(program, spec.chip.core)) for program, _ in made]
    tensors = [tensor for one in placed for tensor in one.program.tensors.values() if ".group1" in tensor.name]
    assert reader in {tensor.stored.reader for tensor in tensors if tensor.stored}
    cases = compiled_cases(placed, [inputs for _, inputs in made], monkeypatch)
    assert first_difference(cases, run_on_board(cases, spec, tmp_path / "cache")) == ""


def test_halos_are_computed_again_where_nothing_else_fits_or_where_that_is_wished_for(
    made: Callable[..., Made],
) -> None:
    program, _, found = made("mobilenet_v2", "fixed8")
    rows, least, beside = place(program).plan.peak_bytes, found[-1].peak_bytes, input_bytes(program)
    cases = [
        (Wish(RAM), None, True, rows),
        (Wish(RAM), rows + beside, True, rows),
        (Wish(RAM), rows + beside - 1, False, rows),  # does not fit, and the caller has other memories
        (Wish(LEAST), None, False, least),
        (Wish(ram_bytes=least + beside), None, False, least),
    ]
    for wish, ram_bytes, again, wanted in cases:
        assert chosen(program, wish, ram_bytes, again=again).plan.peak_bytes == wanted, wish
    for prefer in PREFERENCES:
        assert least <= chosen(program, Wish(prefer), rows + beside - 1, again=True).plan.peak_bytes < rows


def test_a_run_within_so_much_ram(tmp_path: Path) -> None:
    """On the host: what was asked for is kept, and every sample is right."""
    path = tmp_path / "network.onnx"
    path.write_bytes(SMALL["mobilenet_v2"].SerializeToString())
    model = api.load(path)
    x = np.random.default_rng(0).normal(size=(2, *model.input_shape[1:])).astype(np.float32)
    model = model.calibrate(x)
    limit = 1400 + 3 * 24 * 24
    within = model.run("host", x, formats="fixed8", ram=limit, results=tmp_path)
    assert within.bit_exact
    assert within.memory["arena_bytes"] + within.memory["input_bytes"] <= limit
    assert f"ram={limit}" in within.provenance["command"]
    again = within.plan["products_again"]
    assert 0 < again < 0.5
    said = dict(rows(within))["disagreements"]
    assert said.endswith(f"those of the {100 * again:.1f} % of products that are computed again included")
    with pytest.raises(DoesNotFit, match="with the input exceeds 2000 B of ram"):
        model.run("host", x, formats="fixed8", ram=2000, results=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", msf_cnn.PUBLISHED)
def test_msf_cnns_networks_need_less_at_no_more_products(name: str) -> None:
    found = front(msf_cnn.program_of(name))
    for size, products in msf_cnn.PUBLISHED[name]:
        assert msf_cnn.ours(found, products).peak_bytes < size
