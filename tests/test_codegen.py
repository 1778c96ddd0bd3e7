"""Generated code: golden text, names no compiler trips over, limits, and every way a sample gets into a board."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from boards_under_test import EMULATED, each
from conftest import Golden
from kernel_cases import Case, first_difference, run_natively, run_on_board
from onnx_models import compiled, load, node, samples_for, simple
from random_models import extreme_inputs
from scan_models import SCANS, STREAMABLE, cell, classifier, scan
from wire_bench import ROOT

from tinyhil.codegen.body import tensors_of
from tinyhil.codegen.identifiers import comment, identifiers
from tinyhil.codegen.kernel_calls import const_name
from tinyhil.codegen.model import emit_model, header_of
from tinyhil.compiler.calibrate import load_ranges
from tinyhil.errors import DoesNotFit, ModelError
from tinyhil.formats.codec import storage_dtype
from tinyhil.frontend.onnx import load_onnx
from tinyhil.harness.boards import host
from tinyhil.harness.boards.connection import Session
from tinyhil.harness.build.compile import build
from tinyhil.harness.build.pipeline import compile_model, project_sources
from tinyhil.harness.job.zoo import find_model
from tinyhil.harness.settings.config import load_boards
from tinyhil.harness.wire import protocol
from tinyhil.harness.wire.link import Link
from tinyhil.harness.wire.stream import Options, check_identity, greet, stream
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import Program, Role
from tinyhil.memplan import plan
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.memplan.arena.transfer import Transfer, choose_transfer
from tinyhil.ops import KERNELS
from tinyhil.passes.hot import Target
from tinyhil.passes.laid import Laid, laid_out
from tinyhil.preference import Wish
from tinyhil.references.reference import run_reference

WHOLE = Transfer(False, 1, 8, 0, 0, 8)


def emitted(program: Program, transfer: Transfer = WHOLE) -> dict[str, str]:
    return emit_model(laid_out(program, plan(problem_of(program))), [Target("host", transfer)], bytes(range(8)))


def small(folder: Path, nodes: list[onnx.NodeProto], count: int = 4) -> Program:
    loaded = load(simple(nodes, {"x": (1, count)}), folder)
    return compiled(loaded, samples_for((1, count)))


# ---- the text


@pytest.mark.parametrize("format_", ["fixed16", "fixed8"])
def test_the_bundled_model(format_: str, golden: Golden) -> None:
    source = find_model("fastgrnn_har")
    model = load_onnx(source.path)
    assert source.ranges is not None
    ranges = load_ranges(source.ranges, model.sha256)
    boards = list(load_boards().entries.values())
    sources = compile_model(model, Assignment(format_), ranges, boards, ()).sources
    for name in ("model.hpp", "model.cpp", "board_uno.hpp", "board_due.hpp"):
        golden.check(f"fastgrnn_har-{format_}/{name}", sources[f"model/{name}"])
    assert {header_of(board.name) for board in boards if board.hardware is None} <= set(sources)


def test_constants_and_offsets_are_in_the_text(tmp_path: Path) -> None:
    loaded = load(SCANS["two_states"](), tmp_path)
    program = compiled(loaded, samples_for(loaded.shapes["x"]))
    placed = plan(problem_of(program))
    text = emitted(program)["model/model.cpp"]
    names = identifiers(program.tensors)
    for name, values in program.constants.items():
        found = re.search(rf"const u?int\d+_t {names[name]}\[(\d+)\] HIL_FLASH = {{([^}}]*)}}", text)
        assert found is not None
        assert int(found[1]) == len(values)
        assert [int(word) for word in found[2].replace(",", " ").split()] == values.tolist()
    for name, offset in placed.offsets.items():
        if name in tensors_of(laid_out(program, placed), program.body):
            assert re.search(rf"\*const {names[name]} = .*hil_arena \+ {offset}\)", text)
    assert f"hil_arena[{placed.peak_bytes}]" in text


@pytest.mark.parametrize("last", ["MatMul", "Concat", "Slice"])
def test_pointers_are_those_that_are_used(last: str, tmp_path: Path) -> None:
    """Of a part of a part that lies where it is read nothing is named: compilers warn of what is not used. A result
    may lie where it is read, too."""
    whole = "y" if last == "Concat" else "whole"
    nodes = [
        *(node("MatMul", f"x {name}", f"p{name}") for name in "abd"),
        node("Concat", "pa pb", "part", axis=1),
        node("Concat", "part pd", whole, axis=1),
    ]
    if last == "MatMul":
        nodes.append(node("MatMul", "whole w", "y"))
    elif last == "Slice":
        nodes.append(node("Slice", "whole start end axis", "y"))
    rng = np.random.default_rng(0)
    constants = {name: rng.normal(size=(3, 4)) for name in "abd"} | {"w": rng.normal(size=(12, 2))}
    constants |= {name: np.array([value]) for name, value in {"start": 3, "end": 9, "axis": 1}.items()}
    inputs = samples_for((1, 3))
    program = compiled(load(simple(nodes, {"x": [1, 3]}, constants), tmp_path), inputs)
    text = re.sub("//.*", "", emitted(program)["model/model.cpp"])
    pointers = re.findall(r"\*const (\w+) = ", text)
    assert len(pointers) > 3
    assert [name for name in pointers if len(re.findall(rf"\b{name}\b", text)) == 1] == []
    assert set(re.findall(r"hil::ram\((\w+)\)", text)) <= {*pointers}


def test_the_same_program_gives_the_same_text(tmp_path: Path) -> None:
    texts = []
    for _ in range(2):
        loaded = load(SCANS["nested"](), tmp_path)
        texts.append(emitted(compiled(loaded, samples_for(loaded.shapes["x"]))))
    assert texts[0] == texts[1]


def test_a_board_it_was_not_generated_for_is_refused(tmp_path: Path) -> None:
    header = emitted(small(tmp_path, [node("Relu", "x", "y")]))["model/model.hpp"]
    assert '#error "this model was generated for other boards"' in header


def test_every_number_known_at_compile_time_has_its_name() -> None:
    """Generated calls say what each number is; a name of Python's without one in C++ would not compile."""
    text = (ROOT / "firmware" / "kernels" / "common" / "constants.hpp").read_text()
    known = set(re.findall(r"^using (\w+) = (?:Long)?Const<N>;", text, re.MULTILINE))
    assert {const_name(param) for kernel in KERNELS for param in kernel.static_params} == known


# ---- names

ODD = """
class int and not while return asm typeof main std uint8_t int16_t size_t linux unix input output model run hil
hil_arena PORTB SP ADC EOF NULL F_CPU PROGMEM PB0 E2END TCNT1 SE step1 step2 sum count shift ram flash W x.y x/y x:0
x_y x_y_2 h h_ _h h__ h_2 int_ 0 1st v0 v1st λ ! ( -
"""
ODD_NAMES = ODD.split()


def test_identifiers_are_legal_and_differ() -> None:
    found = identifiers([*ODD_NAMES, "", " "])
    assert list(found) == [*ODD_NAMES, "", " "]
    assert len(set(found.values())) == len(found)
    for name in found.values():
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name)
    assert all(found[plain] == plain for plain in ("h", "sum", "count", "W"))
    assert found["class"] == "class_"
    assert found["SP"] == "SP_"


def odd_model(folder: Path) -> Program:
    """A chain through every odd name; a loop beside it, so that the counters are there too."""
    nodes, last = [], "x"
    for index, name in enumerate(ODD_NAMES):
        op = ("Add", "Mul", "Tanh", "Sub")[index % 4]
        operands = [last] if op == "Tanh" else [last, f"w {name}"]
        nodes.append(onnx.helper.make_node(op, operands, [name], name=f"bad\n{name}\\"))
        last = name
    body = cell([node("Add", "step3 row", "step3_next")], {"step3": (1, 4), "row": (1, 4)}, "step3_next")
    three = onnx.helper.make_node("Reshape", [last, "three"], ["rows"], name="r")
    nodes += [three, scan("zero rows", "end", body, name="loop */ \\"), node("Relu", "end", "y")]
    constants = {f"w {name}": np.full(4, 0.5 + index % 3) for index, name in enumerate(ODD_NAMES)}
    constants |= {"three": [1, 1, 4], "zero": np.zeros((1, 4))}
    loaded = load(simple(nodes, {"x": (1, 4)}, constants), folder, "odd\n*name\\")
    return compiled(loaded, samples_for((1, 4)))


def test_odd_names_compile_and_compute_natively(tmp_path: Path) -> None:
    program = odd_model(tmp_path)
    cases = [Case("odd", program, extreme_inputs(program, 1))]
    assert first_difference(cases, run_natively(cases, tmp_path, "-O0")) == ""


@pytest.mark.parametrize("board", each(EMULATED))
def test_odd_names_compile_and_compute_on_boards(board: str, tmp_path: Path) -> None:
    program = odd_model(tmp_path)
    cases = [Case("odd", program, extreme_inputs(program, 1))]
    assert first_difference(cases, run_on_board(cases, load_boards().board(board), tmp_path / "cache")) == ""


@pytest.mark.parametrize("text", ["a\nint b;", "a\\", "*/ x", "??/", "a\r", "\u2028", "\x00"])
def test_comments_stay_comments(text: str) -> None:
    assert re.fullmatch(r"[\w .,:;/()\[\]<>=+*^-]*", comment(text), re.ASCII)
    assert len(comment(text)) == len(text)


def test_the_generated_text_is_ascii(tmp_path: Path) -> None:
    assert all(text.isascii() for text in emitted(odd_model(tmp_path)).values())


# ---- limits


@pytest.mark.parametrize(
    ("nodes", "count", "message"),
    [
        ([node("Relu", "x", "y")], 70_000, r"input \[1, 70000\] of 'm': limit: 16 axes of 65535 elements"),
        ([node("Relu", "x", "y")], 40_000, "output of 'm': 80000 B, at most 60000 B"),
    ],
)
def test_what_the_wire_can_not_carry(nodes: list[onnx.NodeProto], count: int, message: str, tmp_path: Path) -> None:
    program = small(tmp_path, nodes, count)
    with pytest.raises(ModelError, match=message):
        emitted(program)


def test_scales_beyond_the_wire(tmp_path: Path) -> None:
    loaded = load(simple([node("Relu", "x", "y")], {"x": (1, 4)}), tmp_path)
    program = compiled(loaded, samples_for((1, 4), scale=1e-36))
    with pytest.raises(ModelError, match=r"input of 'm': scale 2\^-13\d, limits: 2\^-128 and 2\^127"):
        emitted(program)


def test_loops_longer_than_their_counter(tmp_path: Path) -> None:
    program = transfer_program(tmp_path, True, 6)
    loop = program.streamable_loop()
    assert loop is not None
    longer = [replace(item, count=65_536) if item is loop else item for item in program.body]
    with pytest.raises(ModelError, match="loop 'scan': 65536 steps, at most 65535 are supported"):
        emit_model(Laid(replace(program, body=tuple(longer)), plan(problem_of(program))), [], bytes(8))


# ---- how samples get in


def transfer_program(folder: Path, streamable: bool, steps: int = 128, width: int = 3) -> Program:
    """A sequence of `steps` rows; 16-bit, so a row has 2 * width bytes."""
    if streamable:
        proto = classifier([scan("h0 x", "h_n", cell())], (steps, 1, width), {"W": np.ones((width, 4))})
    else:
        proto = simple([node("Relu", "x", "y")], {"x": (1, steps * width)})
    loaded = load(proto, folder)
    return compiled(loaded, samples_for(loaded.shapes["x"], count=2))


@pytest.mark.parametrize(
    ("streamable", "steps", "width", "arena", "ram", "wanted"),
    [
        # 128 rows of 6 bytes: 768 bytes
        (True, 128, 3, 100, None, Transfer(False, 2, 128, 0, 0, 768)),
        (True, 128, 3, 100, 4096, Transfer(False, 2, 128, 0, 0, 768)),
        (True, 128, 3, 100, 3072, Transfer(False, 2, 128, 0, 0, 768)),  # exactly half for two slots
        (True, 128, 3, 100, 3071, Transfer(False, 1, 128, 0, 0, 768)),
        (True, 128, 3, 1536, 3072, Transfer(False, 2, 128, 0, 0, 768)),
        (True, 128, 3, 1537, 3072, Transfer(False, 1, 128, 0, 0, 768)),  # two slots and the arena do not fit
        (True, 128, 3, 100, 1536, Transfer(False, 1, 128, 0, 0, 768)),
        (True, 128, 3, 100, 1535, Transfer(True, 2, 126, 21, 6, 768)),  # 21 whole rows per chunk
        (True, 128, 3, 1000, 1252, Transfer(True, 2, 126, 21, 6, 768)),
        (False, 128, 3, 100, 1535, Transfer(False, 1, 128, 0, 0, 768)),  # not streamable: as a whole, while it fits
        (False, 128, 3, 767, 1535, Transfer(False, 1, 128, 0, 0, 768)),
        (False, 1, 20, 0, 4096, Transfer(False, 2, 40, 0, 0, 40)),  # shorter than a chunk
        (True, 4, 100, 0, 1599, Transfer(True, 2, 200, 1, 200, 800)),  # a row longer than the usual chunk
        (True, 4, 130, 0, 1100, Transfer(False, 1, 128, 0, 0, 1040)),  # a row of 260 bytes does not go into one frame
    ],
)
def test_transfer(
    streamable: bool, steps: int, width: int, arena: int, ram: int | None, wanted: Transfer, tmp_path: Path
) -> None:
    program = transfer_program(tmp_path, streamable, steps, width)
    found = choose_transfer(program, arena, ram, "b", Wish("latency"))
    assert found == wanted
    assert ram is None or found.input_bytes + arena <= ram


@pytest.mark.parametrize(
    ("streamable", "steps", "width", "wish", "wanted"),
    [
        (True, 128, 3, Wish("balanced"), Transfer(True, 2, 126, 21, 6, 768)),  # less than a sample
        (True, 128, 3, Wish("ram"), Transfer(True, 2, 126, 21, 6, 768)),
        (True, 20, 3, Wish("balanced"), Transfer(False, 2, 120, 0, 0, 120)),  # two chunks are not
        (True, 20, 3, Wish("ram"), Transfer(False, 1, 120, 0, 0, 120)),
        (False, 512, 1, Wish("balanced"), Transfer(False, 2, 128, 0, 0, 1024)),
        (False, 513, 1, Wish("balanced"), Transfer(False, 1, 128, 0, 0, 1026)),  # a second slot does not pay
        (False, 513, 1, Wish("balanced", overlapped=True), Transfer(False, 2, 128, 0, 0, 1026)),
        (False, 512, 1, Wish("ram", overlapped=True), Transfer(False, 1, 128, 0, 0, 1024)),
    ],
)
def test_transfer_that_is_preferred(
    streamable: bool, steps: int, width: int, wish: Wish, wanted: Transfer, tmp_path: Path
) -> None:
    program = transfer_program(tmp_path, streamable, steps, width)
    assert choose_transfer(program, 100, 98304, "b", wish) == wanted
    assert not choose_transfer(program, 100, None, "b", wish).streamed  # this computer has no limit


@pytest.mark.parametrize(
    ("streamable", "arena", "ram", "input_bytes"),
    [(True, 1000, 1251, 252), (True, 5000, 1000, 252), (False, 768, 1535, 768), (False, 0, 767, 768)],
)
def test_too_large(streamable: bool, arena: int, ram: int, input_bytes: int, tmp_path: Path) -> None:
    program = transfer_program(tmp_path, streamable)
    with pytest.raises(DoesNotFit) as caught:
        choose_transfer(program, arena, ram, "board")
    text = str(caught.value)
    assert text.startswith(f"board: arena {arena} B and input {input_bytes} B exceed {ram} B of RAM by ")
    assert f"by {arena + input_bytes - ram} B; largest tensors x 768 B, " in text
    sizes = [int(size) for size in re.findall(r"\S+ (\d+) B", text.split("largest tensors")[1])]
    real = sorted((t.size_bytes for t in program.tensors.values() if t.role in (Role.ARENA, Role.INPUT)), reverse=True)
    assert sizes == real[:3]


def stream_on_host(program: Program, transfer: Transfer, inputs: np.ndarray, folder: Path, mode: int) -> np.ndarray:
    """The real session of the host board with this transfer."""
    board = load_boards().board("host")
    sources = project_sources([board]) | emitted(program, transfer)
    image = build(sources, board, cache_dir=folder / "cache", log=lambda line: None)
    storage = storage_dtype(program.tensors[program.input].format)
    outputs: dict[int, bytes] = {}
    session = Session(image.load_path, folder)
    with host.connect(board, session) as device, Link(device.port, board.baud) as link:
        hello = greet(link, 10.0, device.banner_s, device.alive)
        check_identity(hello, image.hash, device.port)
        assert (hello.streamed, hello.slots, hello.input.shape) == (
            transfer.streamed, transfer.slots, program.input_shape,
        )  # fmt: skip
        samples = [sample.astype(storage).tobytes() for sample in inputs]
        on_result = lambda index, result: outputs.update({index: result.output})  # noqa: E731
        stream(link, hello, samples, Options(mode, 10.0, 0.5), on_result, device.alive)
    dtype = storage_dtype(program.tensors[program.output].format)
    return np.array([np.frombuffer(outputs[index], dtype) for index in range(len(inputs))], np.int64)


def transfers_of(program: Program) -> dict[str, Transfer]:
    sample = program.tensors[program.input].size_bytes
    found = {
        "two slots": Transfer(False, 2, min(sample, 16), 0, 0, sample),
        "one slot": Transfer(False, 1, min(sample, 128), 0, 0, sample),
    }
    loop = program.streamable_loop()
    if loop is not None:
        row = program.tensors[dict(loop.slices)[program.input]].size_bytes
        for steps in (1, 4, 50):  # 6 rows: six chunks, one and a half, one that is not full
            found[f"streamed by {steps}"] = Transfer(True, 2, steps * row, steps, row, sample)
    return found


@pytest.mark.parametrize("mode", [protocol.QUIET, protocol.STREAM], ids=["quiet", "stream"])
@pytest.mark.parametrize("name", ["view_before", "nested", "captures"])
def test_every_transfer_gives_the_same_results(name: str, mode: int, tmp_path: Path) -> None:
    loaded = load(SCANS[name](), tmp_path)
    program = compiled(loaded, samples_for(loaded.shapes["x"]))
    inputs = extreme_inputs(program, 3, random_rows=20)
    wanted = run_reference(program, inputs).outputs
    found = transfers_of(program)
    assert len(found) == (5 if name in STREAMABLE else 2)
    for transfer in found.values():
        assert np.array_equal(stream_on_host(program, transfer, inputs, tmp_path, mode), wanted)


def test_a_sample_in_the_arena_is_written_over(tmp_path: Path) -> None:
    """The next one waits for the result, in either mode."""
    program = small(tmp_path, [node("Relu", "x", "r"), node("Mul", "r r", "y")], 300).with_input_in_arena()
    found = plan(problem_of(program))
    assert found.offsets[program.input] == found.offsets["r"]
    inputs = extreme_inputs(program, 5, random_rows=5)
    transfer = choose_transfer(program, found.peak_bytes, 4096, "b")
    assert transfer == Transfer(False, 1, 128, 0, 0, 600, in_arena=True)
    for mode in (protocol.QUIET, protocol.STREAM):
        got = stream_on_host(program, transfer, inputs, tmp_path, mode)
        assert np.array_equal(got, run_reference(program, inputs).outputs)


@pytest.mark.parametrize("nodes", [[node("Identity", "x", "y")], [node("Flatten", "x", "y", axis=0)]])
def test_a_model_that_shows_its_input(nodes: list[onnx.NodeProto], tmp_path: Path) -> None:
    program = small(tmp_path, nodes, 5)
    inputs = extreme_inputs(program, 1)
    got = stream_on_host(program, transfers_of(program)["two slots"], inputs, tmp_path, protocol.QUIET)
    assert np.array_equal(got, inputs)


def test_a_long_output(tmp_path: Path) -> None:
    """More than one frame's usual length, more than the 250 bytes a board can receive in one."""
    program = small(tmp_path, [node("Relu", "x", "y")], 3000)
    inputs = extreme_inputs(program, 1, random_rows=1)
    got = stream_on_host(program, transfers_of(program)["one slot"], inputs, tmp_path, protocol.QUIET)
    assert np.array_equal(got, run_reference(program, inputs).outputs)
