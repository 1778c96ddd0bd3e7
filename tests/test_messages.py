"""What is said is said once, of the right thing, with the documented exit code; nothing is taken for granted."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from flash_bench import Emulator
from hil_command import check_failure, hil
from onnx.external_data_helper import convert_model_to_external_data
from wire_bench import write_tiny_model

from tinyhil.errors import BoardError, BuildError, ConfigError, LinkError, ModelError
from tinyhil.frontend.onnx import load_onnx
from tinyhil.harness.boards.locate import locate
from tinyhil.harness.boards.survey import survey
from tinyhil.harness.build.compile import build, cache_full
from tinyhil.harness.records.partial import PartialRun
from tinyhil.harness.settings.config import load_boards
from tinyhil.harness.wire.link import Link
from tinyhil.harness.wire.protocol import Position, Result

DEAD = "socket://127.0.0.1:9"


@pytest.fixture
def raw_socket() -> Iterator[int]:
    """A server that takes connections and says nothing: a raw socket, no RFC 2217."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=lambda: [server.accept() for _ in range(3)], daemon=True).start()
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    ("port", "said"),
    [("/dev/no-such-port", "No such file or directory"), ("/dev/null", "Inappropriate ioctl"), (DEAD, "refused")],
)
def test_why_a_port_does_not_open_is_said_once(port: str, said: str) -> None:
    with pytest.raises(BoardError) as caught:
        Link(port, 115200)
    text = str(caught.value)
    assert said in text
    assert text.lower().count("could not open port") == 0
    assert text.count("[Errno") == 0
    assert text.count(port) == 1


def test_a_raw_socket_behind_rfc2217_is_called_by_its_name(raw_socket: int) -> None:
    with pytest.raises(BoardError, match=rf"no RFC 2217; is it a raw socket\? then socket://127.0.0.1:{raw_socket}"):
        Link(f"rfc2217://127.0.0.1:{raw_socket}", 115200)


def test_a_port_that_fails_says_why_once(tmp_path: Path) -> None:
    with Emulator("due", tmp_path) as due, Link(due.port, 115200) as link:
        due.process.kill()
        due.process.wait()
        with pytest.raises(LinkError, match=r"while receiving \(Input/output error\)") as caught:
            list(map(link.receive, [0.1] * 1000))
    assert "Errno" not in str(caught.value)


def test_a_remote_board_that_is_dead_is_not_there(tmp_path: Path, raw_socket: int) -> None:
    (tmp_path / "bench.yaml").write_text(
        f'boards:\n  dead: {{board: due, address: "{DEAD}"}}\n'
        f'  living: {{board: due, address: "socket://127.0.0.1:{raw_socket}"}}\n'
    )
    found = {one.name: one for one in survey(load_boards(bench=tmp_path / "bench.yaml"))}
    assert (found["dead"].state, found["dead"].detail) == ("absent", "nobody answers there")
    assert found["living"].state == "remote"


@pytest.mark.parametrize("command", ["lock", "unlock", "heal"])
def test_a_port_that_is_missing_is_not_locked(command: str, tmp_path: Path) -> None:
    done = hil("boards", command, "due", "--port", "/dev/no-such-port", cwd=tmp_path)
    check_failure(done, 3, "/dev/no-such-port does not exist")


@pytest.mark.parametrize("name", ["uno@", "due@", "host@"])
def test_nothing_after_the_at_sign(name: str) -> None:
    with pytest.raises(ConfigError, match="nothing after @"):
        locate(load_boards(), name)


def test_labels_beyond_the_classes_are_said(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "tiny.onnx")
    np.savez(tmp_path / "x.npz", x=np.zeros((3, 1, 32), np.float32), y=[0, 4, 1])
    done = hil("run", "--board", "host", "--model", model, "--inputs", "x.npz", "--calibrate", "x.npz", cwd=tmp_path)
    check_failure(done, 2, "label 4, but the model has outputs 0 to 3", logs=True)


def test_a_limit_that_can_not_be_kept_is_a_model_that_does_not_fit(tmp_path: Path) -> None:
    check_failure(hil("search", "--model", "digits_mlp", "--ram", "3", cwd=tmp_path), 4, "not feasible", logs=True)


# ---- folders ----


def test_a_cache_that_takes_nothing_names_itself_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(BuildError, match=r"cache.*: Not a directory; set HIL_CACHE"):
        build({"model/x.cpp": ""}, load_boards().board("uno"), cache_dir=tmp_path / "cache", log=print)


@pytest.mark.parametrize("link", ["file", "folder", "folder above", "in a folder"])
def test_links_do_not_lead_external_data_out_of_the_folder(link: str, tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "model"
    outside.mkdir()
    inside.mkdir()
    location = {"file": "w.bin", "folder": "sub/w.bin", "folder above": "a/b/w.bin", "in a folder": "real/w.bin"}[link]
    proto = onnx.load(write_tiny_model(tmp_path / "tiny.onnx"))
    convert_model_to_external_data(proto, all_tensors_to_one_file=True, location="w.bin", size_threshold=0)
    onnx.save(proto, outside / "tiny.onnx")
    (outside / "b").mkdir()
    (outside / "b" / "w.bin").write_bytes((outside / "w.bin").read_bytes())
    for tensor in proto.graph.initializer:
        next(entry for entry in tensor.external_data if entry.key == "location").value = location
    (inside / "tiny.onnx").write_bytes(proto.SerializeToString())
    if link == "in a folder":
        (inside / "real").mkdir()
    {
        "file": lambda: (inside / "w.bin").symlink_to(outside / "w.bin"),
        "folder": lambda: (inside / "sub").symlink_to(outside),
        "folder above": lambda: (inside / "a").symlink_to(outside),
        "in a folder": lambda: (inside / "real/w.bin").symlink_to(outside / "w.bin"),
    }[link]()
    with pytest.raises(ModelError, match="not in the folder of the model"):
        load_onnx(inside / "tiny.onnx")
    (tmp_path / "by-link").symlink_to(outside)  # the model itself may be reached by a link
    assert load_onnx(tmp_path / "by-link" / "tiny.onnx").graph


def test_an_equal_run_at_the_same_time_resumes_nothing_of_ours(tmp_path: Path) -> None:
    """Not even between our last sample and our record."""
    mine = PartialRun(tmp_path, "run")
    with mine:
        mine.add(0, Result(0, 5, 0, Position(1, 0, 1), b"\0\1"), None)
    with PartialRun(tmp_path, "run") as other:
        assert other.results == {}
        assert other.path != mine.path
        mine.discard()
    with PartialRun(tmp_path, "run") as third:
        assert third.results == {}
    assert not list(tmp_path.glob("*.jsonl"))


def test_a_run_that_died_before_its_record_is_resumed(tmp_path: Path) -> None:
    mine = PartialRun(tmp_path, "run")
    with mine:
        mine.add(0, Result(0, 5, 0, Position(1, 0, 1), b"\0\1"), None)
    mine._stream.close()  # as the kernel does
    with PartialRun(tmp_path, "run") as other:
        assert other.results[0].ticks == 5
    other.discard()


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "make room in the cache, or set HIL_CACHE"),
        (errno.EDQUOT, "make room in the cache, or set HIL_CACHE"),
        (errno.EROFS, "Read-only file system; set HIL_CACHE"),
        (errno.EACCES, "Permission denied; set HIL_CACHE"),
        (errno.EIO, "Input/output error; set HIL_CACHE"),
    ],
)
def test_room_is_asked_for_where_room_helps(code: int, remedy: str) -> None:
    assert remedy in str(cache_full(Path("cache"), OSError(code, os.strerror(code), "cache/x")))
