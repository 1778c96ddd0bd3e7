"""`hil diff`: equal boards are equal in every tensor; a wrong kernel is found in the tensor it computes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hil_command import hil
from onnx_models import node, simple
from scan_models import weights

from benchmarks.quiet import quiet
from tinyhil.errors import EXIT_GATE, BoardDiffers, DataError, LinkError
from tinyhil.formats.fixed import Fixed
from tinyhil.harness.build import pipeline
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.diff import _assembled, diff
from tinyhil.harness.search.session import SearchRequest, run_search
from tinyhil.harness.settings.config import load_boards
from tinyhil.harness.wire.protocol import Values, decode
from tinyhil.language.program import Program, Role, Tensor


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two matrices with a tanh between them, and 40 samples."""
    nodes = [node("MatMul", "x W", "t"), node("Tanh", "t", "h"), node("MatMul", "h V", "y")]
    model = simple(nodes, {"x": (1, 8)}, {"W": weights(8, 6), "V": weights(6, 3)})
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).normal(size=(40, 1, 8)).astype(np.float32))
    return tmp_path


def request(folder: Path, board: str) -> Request:
    return Request(board, str(folder / "net.onnx"), inputs=folder / "x.npz", results=folder / "results")


@pytest.mark.parametrize("board", ["host", "uno", pytest.param("due", marks=pytest.mark.slow)])
def test_an_honest_board_is_equal_in_every_tensor(board: str, folder: Path) -> None:
    found = diff(request(folder, board), 3, load_boards(), default_cache_dir(), quiet)
    assert found.first is None
    assert [(t.tensor, t.elements, t.different) for t in found.tensors] == [("t", 6, 0), ("h", 6, 0), ("y", 3, 0)]


@pytest.mark.parametrize("board", ["host", pytest.param("uno", marks=pytest.mark.slow)])
def test_a_loop_is_compared_step_by_step_while_its_input_streams(board: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(2, 128, 9)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    given = Request(board, "fastgrnn_har", "fixed8", inputs=tmp_path / "x.npz", results=tmp_path)
    found = diff(given, 1, load_boards(), default_cache_dir(), quiet)
    assert found.first is None
    by_name = {tensor.tensor: tensor for tensor in found.tensors}
    assert (by_name["c"].executions, by_name["c"].elements) == (128, 128 * 32)
    assert by_name["logits"].executions == 1


@pytest.fixture
def wrong_tanh(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = broken(pipeline.runtime_sources())
    monkeypatch.setattr(pipeline, "runtime_sources", lambda: sources)


def broken(sources: dict[str, str]) -> dict[str, str]:
    """The firmware with a tanh whose third element is one unit of the last place too large."""
    changed = dict(sources)
    text = sources["firmware/kernels/common/activation.hpp"]
    assert "void tanh(" in text
    changed["firmware/kernels/common/activation.hpp"] = text.replace("void tanh(", "void tanh_right(").replace(
        "}  // namespace hil",
        "template <class Acc, class Out, class In, class... Rest>\n"
        "void tanh(Out *out, In in, Rest... rest) {\n"
        "    tanh_right<Acc>(out, in, rest...);\n"
        "    out[2] = static_cast<Out>(out[2] + 1);\n"
        "}\n\n}  // namespace hil",
    )
    return changed


def test_a_wrong_kernel_is_named_by_its_tensor(folder: Path, wrong_tanh: None) -> None:
    found = diff(request(folder, "host"), 0, load_boards(), default_cache_dir(), quiet)
    assert found.first is not None
    assert (found.first.tensor, found.first.element) == ("h", 2)
    assert found.first.board == found.first.host + 1
    assert [t.different for t in found.tensors][:2] == [0, 1]


def test_a_search_ends_when_the_board_computes_something_else(folder: Path, wrong_tanh: None) -> None:
    search_request = SearchRequest(
        str(folder / "net.onnx"), 11, "haunter", inputs=folder / "x.npz", evaluations=10, board="host",
        on_device=True, device_samples=5, results=folder / "results",
    )  # fmt: skip
    with pytest.raises(BoardDiffers, match=r"host: \d of 5 samples .* sample \d: first to differ is tensor 'h'"):
        run_search(search_request, default_cache_dir(), quiet, quiet, load_boards())


def test_the_command(folder: Path) -> None:
    command = ("diff", "--board", "host", "--model", "net.onnx", "--inputs", "x.npz", "--sample", 39, "--json")
    run = hil(*command, cwd=folder)
    assert run.returncode == 0, run.stderr
    data = json.loads(run.stdout)
    assert (data["equal"], data["first"], data["sample"], len(data["tensors"])) == (True, None, 39, 3)
    assert BoardDiffers("").exit_code == EXIT_GATE


def test_a_sample_that_is_not_there(folder: Path) -> None:
    with pytest.raises(DataError, match="has no sample 40, the last is 39"):
        diff(request(folder, "host"), 40, load_boards(), default_cache_dir(), quiet)


# --- frames -------------------------------------------------------------------------------------------------------


def test_values_on_the_wire() -> None:
    assert decode(b"\x87\x03\x00\x00\x80\x00\x00ab") == Values(3, 0x8000, b"ab")


def log_of(*frames: Values) -> list[np.ndarray]:
    tensors = {name: Tensor(name, 2, Fixed(16, 0), Role.ARENA) for name in ("a", "b")}
    program = Program("m", tensors, {}, (), "a", "b", (2,), (2,))
    return _assembled(program, ["a", "b", "a"], frames)


def test_tensors_come_in_order_and_in_parts() -> None:
    a, b = Values(0, 0, bytes([1, 0, 2, 0])), (Values(1, 0, bytes([3, 0])), Values(1, 2, bytes([255, 255])))
    assert [array.tolist() for array in log_of(a, *b, a)] == [[1, 2], [3, -1], [1, 2]]


@pytest.mark.parametrize("lost", range(4))
def test_a_lost_frame_is_noticed(lost: int) -> None:
    frames = [Values(0, 0, bytes(4)), Values(1, 0, bytes(2)), Values(1, 2, bytes(2)), Values(0, 0, bytes(4))]
    with pytest.raises(LinkError, match="a frame was lost"):
        log_of(*frames[:lost], *frames[lost + 1 :])
    with pytest.raises(LinkError, match="a frame was lost"):
        log_of(*frames[:lost], replace(frames[lost], tensor=7), *frames[lost + 1 :])
