"""Which constants lie where nothing waits for them, on chips whose memory of that kind is too small for all."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from onnx import helper, numpy_helper
from onnx_models import samples_for

from tinyhil.compiler.calibrate import calibrate, save_ranges
from tinyhil.formats.fixed import Fixed
from tinyhil.frontend.onnx import load_onnx
from tinyhil.harness.build.image import check_fits
from tinyhil.harness.build.parts import parts_of
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.record import make_record
from tinyhil.harness.measure.run import run
from tinyhil.harness.mlperf.firmware import with_room
from tinyhil.harness.mlperf.session import Wanted, prepare
from tinyhil.harness.records.terminal import rows
from tinyhil.harness.settings.assets import asset
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.form import Form
from tinyhil.language.program import Op, Program, Role, Tensor
from tinyhil.memplan import Plan
from tinyhil.memplan.arena.transfer import Transfer
from tinyhil.memplan.problem import ARENA
from tinyhil.passes.hot import FIRMWARE_BYTES, TABLES_BYTES, HotMemory, hot_constants, most_fetched, room_for_constants

MEMORY = HotMemory("dtcm", 131072, 4096, 16384)


@pytest.mark.parametrize(
    ("sizes", "passes", "room", "found"),
    [
        ({"a": 100, "b": 200}, {"a": 2.0, "b": 3.0}, 300, "b"),  # 300 with what is between them
        ({"a": 104, "b": 200}, {"a": 2.0, "b": 3.0}, 304, "a b"),
        ({"a": 104, "b": 200, "c": 300}, {"a": 1.5, "b": 2.0, "c": 3.0}, 199, "a"),  # the next that fits
        ({"kept": 40, "far": 200}, {"kept": 1000.0, "far": 2.0}, 200, "far"),  # the cache holds the one of many passes
        ({"once": 200, "never": 200}, {"once": 1.0}, 200, "once"),
        ({"small": 48, "large": 56}, {"small": 1.0, "large": 1.0}, 100, "large"),
        ({"a": 64}, {"a": 1.0}, 0, ""),
    ],
)
def test_what_is_fetched_most_comes_first(
    sizes: dict[str, int], passes: dict[str, float], room: int, found: str
) -> None:
    assert most_fetched(sizes, passes, room, 50) == set(found.split())


def whole(sample_bytes: int, slots: int) -> Transfer:
    return Transfer(False, slots, sample_bytes, 0, 0, sample_bytes)


@pytest.mark.parametrize(
    ("arena", "slots", "room"), [(30_000, 2, 98304 - 16384 - 32_000 - FIRMWARE_BYTES), (90_000, 0, 0)]
)
def test_room_in_main_ram_is_what_it_leaves(arena: int, slots: int, room: int) -> None:
    plan = Plan({}, {}, arena, 0, False, "load", peaks={ARENA: arena})
    assert room_for_constants(plan, HotMemory(ARENA, 98304, 16384, 0), whole(1000, slots)) == room


@pytest.mark.parametrize(
    ("peaks", "slots", "room"),
    [
        ({"arena": 60_000}, 2, 131072 - 4096 - 60_000 - 2 * 1000 - FIRMWARE_BYTES),
        ({"arena": 126_000}, 0, 0),  # whether main RAM fits beside the stack is known after linking only
        ({"arena": 127_500}, 0, 131072),  # in AXI SRAM
        ({"arena": 500_000, "dtcm": 100_000}, 1, 31_072),
        ({"dtcm": 131_072, "arena": 500_000}, 1, 0),
    ],
)
def test_room_is_what_the_linker_has_for_sure(peaks: dict[str, int], slots: int, room: int) -> None:
    plan = Plan({}, {}, sum(peaks.values()), 0, False, "load", peaks=peaks)
    assert room_for_constants(plan, MEMORY, whole(1000, slots)) == room


@pytest.mark.parametrize(
    ("room", "chosen"), [(TABLES_BYTES + 48, ""), (TABLES_BYTES + 47, "w b"), (48, "w b"), (47, "b"), (7, "")]
)
def test_what_fits_as_a_whole_needs_no_choice(room: int, chosen: str) -> None:
    """8 bytes of biases, each read by a result, and 40 of weights, read once; the linker has `room` bytes for them."""
    sizes = {"x": (4, Role.INPUT), "w": (40, Role.CONSTANT), "b": (8, Role.CONSTANT), "y": (10, Role.ARENA)}
    tensors = {name: Tensor(name, count, Fixed(8, 0), role) for name, (count, role) in sizes.items()}
    constants = {name: np.zeros(tensors[name].count, np.int64) for name in "wb"}
    dense = Op(Form("dense"), "y", ("w", "x", "b"), "y", {"rows": 1, "outputs": 10, "inner": 4, "shift": 0})
    program = Program("one", tensors, constants, (dense,), "x", "y", (4,), (10,))
    size = room + 4096 + 100 + 2 * 4 + 2 * 10 + FIRMWARE_BYTES
    plan = Plan({}, {}, 100, 0, False, "load", peaks={"arena": 100})
    assert hot_constants(program, plan, HotMemory("dtcm", size, 4096, 0), whole(4, 2)) == set(chosen.split())


def test_the_linker_script_keeps_the_same_room_for_the_stack() -> None:
    for chip in (one.chip for one in load_boards().entries.values()):
        if chip.hot is not None:
            script = (asset("firmware") / "hal" / chip.hal / f"{chip.hal}.ld").read_text(encoding="utf-8")
            for included in re.findall(r"^INCLUDE firmware/(\S+)", script, re.M):
                script += (asset("firmware") / included).read_text(encoding="utf-8")
            (kib,) = re.findall(r"_stack_room = (\d+)K;", script)
            assert int(kib) << 10 == chip.hot.stack_bytes >= 2 * (chip.stack_reserve_bytes or 0)


def saved_mlp(sizes: tuple[int, ...], path: Path) -> np.ndarray:
    """Matrix after matrix of random weights, with the ranges of the samples that are returned."""
    random, nodes, weights = np.random.default_rng(3), [], []
    for n, (inputs, outputs) in enumerate(pairwise(sizes)):
        values = (random.normal(size=(inputs, outputs)) / inputs**0.5).astype(np.float32)
        weights.append(numpy_helper.from_array(values, f"w{n}"))
        nodes.append(helper.make_node("MatMul", [f"x{n}", f"w{n}"], [f"x{n + 1}"], name=f"x{n + 1}"))
    ends = [
        helper.make_tensor_value_info(f"x{n}", 1, [1, size]) for n, size in ((0, sizes[0]), (len(sizes) - 1, sizes[-1]))
    ]
    graph = helper.make_graph(nodes, "mlp", ends[:1], ends[1:], weights)
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]).SerializeToString())
    model, x = load_onnx(path), samples_for((1, sizes[0]), 2)
    save_ranges(path.with_suffix(".ranges.json"), calibrate(model.graph, x, {"name": "test"}), model.sha256)
    return x


@pytest.mark.parametrize(
    ("board", "hot_bytes"),
    [("h747", 320 * 256 + 256 * 160), ("due", 256 * 160 + 160 * 64), ("nucleo_g0b1", 320 * 256 + 160 * 64)],
)
def test_a_part_of_many_constants_is_read_where_nothing_waits(board: str, hot_bytes: int, tmp_path: Path) -> None:
    """Of 133 kB those of 82 kB, in a file of their own, and of 41 kB fit beside the H747's main RAM, those of 10 kB do
    not; in the Due's RAM the largest do not, in the G0B1's, where kernels lie, too, not both."""
    x = saved_mlp((320, 256, 160, 64), tmp_path / "mlp.onnx")
    np.save(tmp_path / "x.npy", x)
    request = Request(
        board=board, model=str(tmp_path / "mlp.onnx"), format="fixed8", inputs=tmp_path / "x.npy",
        calibrate=tmp_path / "x.npy", results=tmp_path,
    )  # fmt: skip
    boards = load_boards()
    outcome = run(request, boards, tmp_path / "cache", lambda line: None, lambda done, total: None)
    assert make_record(outcome)["bit_exact"]
    with outcome.image.elf.open("rb") as stream:
        found = {one.name: (one["sh_addr"], one["sh_size"]) for one in ELFFile(stream).iter_sections()}
    address, size = found[".hot"]
    assert (address >> 24, size) == (0x20, hot_bytes)
    assert found[".rodata"][0] >> 24 != 0x20
    assert found[".bss"][0] >> 24 == 0x20
    assert outcome.image.static_bytes < 4096  # constants are not counted; the kernels of a G0B1 are
    assert outcome.image.flash_bytes > 320 * 256 + 256 * 160 + 160 * 64
    check_fits(outcome.image, boards.board(board))
    parts = parts_of(outcome.image)
    assert parts is not None
    assert 0 <= parts["flash"]["weights"] - (320 * 256 + 256 * 160 + 160 * 64) < 64
    assert parts["flash"]["rest"] < 512  # tables of the linker's own
    assert parts["ram"]["rest"] < 64
    kernels = found[".kernels"][1] if ".kernels" in found else 0
    in_ram = sum(parts["ram"].get(name, 0) for name in ("model code", "wire", "libraries"))
    assert kernels <= in_ram <= kernels + 256, "what is copied to RAM is no rest"


def test_what_the_runner_of_mlperf_sends_has_its_room_before_constants(tmp_path: Path) -> None:
    """Beside 640 numbers of four bytes each 123 kB do not fit; without room for them the linker puts none there."""
    np.save(tmp_path / "x.npy", saved_mlp((640, 128, 320, 640), tmp_path / "mlp.onnx"))
    wanted = Wanted("h747", str(tmp_path / "mlp.onnx"), "fixed8", calibrate=tmp_path / "x.npy")
    ready = prepare(wanted, load_boards(), tmp_path / "cache", lambda line: None)
    with ready.image.elf.open("rb") as stream:
        hot = ELFFile(stream).get_section_by_name(".hot")
        address, size = hot["sh_addr"], hot["sh_size"]
    assert (address >> 24, size) == (0x20, 640 * 128)


def test_constants_that_find_no_room_after_all_are_said(tmp_path: Path) -> None:
    """As if nothing were kept for the stack: 126 kB are chosen, which the linker script has no room for."""
    x = saved_mlp((320, 256, 172, 64), tmp_path / "mlp.onnx")
    np.save(tmp_path / "x.npy", x)
    boards, said = load_boards(), list[str]()
    alone = boards.model_copy(update={"entries": {"h747": with_room(boards.board("h747"), -4096)}})
    request = Request(
        board="h747", model=str(tmp_path / "mlp.onnx"), format="fixed8", inputs=tmp_path / "x.npy",
        calibrate=tmp_path / "x.npy", results=tmp_path,
    )  # fmt: skip
    run(request, alone, tmp_path / "cache", said.append, lambda done, total: None)
    (line,) = (line for line in said if "no room" in line)
    assert line == "h747: 125952 B of constants have no room in dtcm after all: slower from flash"


@pytest.mark.parametrize(("sizes", "place"), [((40, 24), 0x20), ((1024, 640), 0x08)])
def test_the_l4r5_reads_constants_from_ram_where_there_is_room(
    sizes: tuple[int, ...], place: int, tmp_path: Path
) -> None:
    x = saved_mlp(sizes, tmp_path / "mlp.onnx")
    np.save(tmp_path / "x.npy", x)
    request = Request(
        board="nucleo_l4r5", model=str(tmp_path / "mlp.onnx"), format="fixed8", inputs=tmp_path / "x.npy",
        calibrate=tmp_path / "x.npy", results=tmp_path,
    )  # fmt: skip
    outcome = run(request, load_boards(), tmp_path / "cache", lambda line: None, lambda done, total: None)
    assert make_record(outcome)["bit_exact"]
    with outcome.image.elf.open("rb") as stream:
        rodata = ELFFile(stream).get_section_by_name(".rodata")
        address, size = rodata["sh_addr"], rodata["sh_size"]
    assert address >> 24 == place
    assert size > sizes[0] * sizes[1]
    assert place != 0x20 or address + size == 0x20000000 + 655360  # above the stack


def test_a_chip_of_less_ram_is_linked_for_it(tmp_path: Path) -> None:
    """16 KiB of an STM32L4R5: copies and the stack lay where that chip has no memory. 8 KiB more take the copies."""
    own = "chips:\n  tight: {like: stm32l4r5, ram_bytes: 16384}\n  wider: {like: tight, ram_bytes: 24576}\nboards:\n"
    for name in ("tight", "wider"):
        own += f"  {name}: {{title: T, chip: {name}, reset: by_probe, upload: stlink}}\n"
    (tmp_path / "own.yaml").write_text(own)
    np.save(tmp_path / "x.npy", saved_mlp((40, 24), tmp_path / "mlp.onnx"))
    boards = load_boards(tmp_path / "own.yaml")
    for name, has_copies in (("tight", False), ("wider", True)):
        request = Request(
            board=name, model=str(tmp_path / "mlp.onnx"), format="fixed8", inputs=tmp_path / "x.npy",
            calibrate=tmp_path / "x.npy", results=tmp_path,
        )  # fmt: skip
        outcome = run(request, boards, tmp_path / "cache", lambda line: None, lambda done, total: None)
        record = make_record(outcome)
        with outcome.image.elf.open("rb") as stream:
            elf = ELFFile(stream)
            (stack,) = elf.get_section_by_name(".symtab").get_symbol_by_name("_estack")
            size = elf.get_section_by_name(".rodata")["sh_size"]
        copied = size if has_copies else 0
        assert record["bit_exact"]
        assert record["memory"]["copied_bytes"] == copied
        assert stack["st_value"] + copied == 0x20000000 + boards.board(name).chip.ram_bytes
        assert (f", {copied} B of it copied where RAM is free" in dict(rows(record))["flash"]) is has_copies
