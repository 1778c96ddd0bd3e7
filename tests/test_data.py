"""UCI HAR: where it is looked for, what is refused, and that a machine without network gets an honest stand-in fast."""

from __future__ import annotations

import functools
import hashlib
import http.server
import io
import socket
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from given_data import SHIPPED, needs_set
from hil_command import hil

from tinyhil.data import DATASETS, fetch, har, har_archive, har_download, load, load_har6
from tinyhil.data.dataset import hash_arrays
from tinyhil.data.har_archive import CHANNELS, CLASSES, FOLDER, ZIP_NAMES
from tinyhil.errors import DataError
from tinyhil.notice import telling

COUNTS = {"train": 7, "test": 5}
Archive = dict[str, bytes]


@pytest.fixture(autouse=True)
def _bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No data, an empty cache, and an address where nobody listens."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fetch, "_failures", {})
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setattr(har_download, "URL", f"http://127.0.0.1:{free.getsockname()[1]}/{ZIP_NAMES[0]}")


def text(rows: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savetxt(file, rows, fmt="%.7e")
    return file.getvalue()


@pytest.fixture
def official(monkeypatch: pytest.MonkeyPatch) -> Archive:
    """The files of a small data set in the published layout, declared the official one."""
    random = np.random.default_rng(1)
    files: Archive = {}
    hashes = {}
    for part, count in COUNTS.items():
        x = random.uniform(-1, 1, (len(CHANNELS), count, 128))
        for name, rows in zip(CHANNELS, x, strict=True):
            files[f"{part}/Inertial Signals/{name}_{part}.txt"] = text(rows)
        for key in ("y", "subject"):
            values = random.integers(1, 7, count)
            files[f"{part}/{key}_{part}.txt"] = b"".join(b"%d\n" % value for value in values)
            hashes[f"{key}_{part}"] = hash_arrays((values - (key == "y")).astype(np.uint8))
    monkeypatch.setattr(har_archive, "WINDOWS", COUNTS)
    monkeypatch.setattr(har_archive, "OFFICIAL_SHA256", hashes)
    return files


def zipped(files: Archive, nested: bool = True) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(f"{FOLDER}/{name}", data)
    if not nested:
        return buffer.getvalue()
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w") as archive:
        archive.writestr(f"{FOLDER}.names", "about")
        archive.writestr(f"{FOLDER}.zip", buffer.getvalue())
    return outer.getvalue()


def write_subset(path: Path, **changes: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(2)
    arrays = {
        "x_train": random.integers(-9000, 9000, (6, 128, 9)).astype(np.int16),
        "y_train": np.arange(6, dtype=np.uint8),
        "x_test": random.integers(-9000, 9000, (4, 128, 9)).astype(np.int16),
        "y_test": np.array([0, 5, 2, 1], np.uint8),
        "scale": np.array([1e-4] * 3 + [2e-4] * 3 + [1e-4] * 3, np.float32),
        "channels": np.array(CHANNELS),
    }
    np.savez(path, **{**arrays, **changes})  # type: ignore[arg-type]


class Server:
    """A web server for one folder, on a free port, that counts the files it hands out."""

    def __init__(self, folder: Path) -> None:
        self.served = 0
        server = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def do_GET(self) -> None:
                server.served += 1
                super().do_GET()

            def log_message(self, format: str, *args: object) -> None:
                return

        handler = functools.partial(Handler, directory=str(folder))
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    folder = tmp_path / "www"
    folder.mkdir()
    running = Server(folder)
    monkeypatch.setattr(har_download, "URL", f"http://127.0.0.1:{running.http.server_port}/har.zip")
    yield running
    running.http.shutdown()
    running.http.server_close()


# Where the data come from


def test_subset_in_hil_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "data" / "small" / "har6_subset.npz"
    write_subset(path)
    monkeypatch.setenv("HIL_DATA", str(tmp_path / "data"))
    data = load("har6", allow_download=False)
    assert (data.name, data.source, data.message) == ("har6", "subset", None)
    assert data.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert data.classes == CLASSES
    assert data.x_test.dtype == np.float32
    raw = np.load(path)
    np.testing.assert_allclose(data.x_test, raw["x_test"] * raw["scale"].astype(np.float64), rtol=1e-6)
    np.testing.assert_array_equal(data.y_test, [0, 5, 2, 1])


@pytest.mark.parametrize("form", ["nested zip", "plain zip", "folder"])
def test_full_set_in_hil_data_is_preferred_and_cached(
    form: str, official: Archive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    write_subset(folder / "small" / "har6_subset.npz")
    if form == "folder":
        for name, data in official.items():
            target = folder / FOLDER / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    else:
        nested = form == "nested zip"
        (folder / ZIP_NAMES[0 if nested else 1]).write_bytes(zipped(official, nested))
    monkeypatch.setenv("HIL_DATA", str(folder))
    first = load_har6(allow_download=False)
    assert (first.source, first.message) == ("full", None)
    assert first.x_train.shape == (7, 128, 9)
    for channel, name in enumerate(CHANNELS):
        expected = np.array(official[f"test/Inertial Signals/{name}_test.txt"].split(), np.float32)
        np.testing.assert_array_equal(first.x_test[:, :, channel].ravel(), expected)
    assert first.y_train is not None
    np.testing.assert_array_equal(first.y_train + 1, np.array(official["train/y_train.txt"].split(), int))

    monkeypatch.delenv("HIL_DATA")
    again = load_har6(allow_download=False)
    assert again.sha256 == first.sha256
    np.testing.assert_array_equal(again.x_train, first.x_train)


def test_the_cache_comes_before_hil_data(official: Archive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    archive = tmp_path / "har.zip"
    archive.write_bytes(zipped(official))
    har_download.store(har_archive.read(archive))
    write_subset(tmp_path / "data" / "har6_subset.npz")
    monkeypatch.setenv("HIL_DATA", str(tmp_path / "data"))
    assert load_har6().source == "full"


def test_the_subset_is_found_at_the_top_of_hil_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_subset(tmp_path / "data" / "har6_subset.npz")
    monkeypatch.setenv("HIL_DATA", str(tmp_path / "data"))
    assert load_har6(allow_download=False).source == "subset"


def test_the_cache_defaults_to_the_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HIL_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert har_download.cache_folder() == tmp_path / ".cache" / "tinyhil"


# Downloading


def test_download_is_checked_recorded_and_not_repeated(official: Archive, server: Server, tmp_path: Path) -> None:
    archive = zipped(official)
    (tmp_path / "www" / "har.zip").write_bytes(archive)
    first = load_har6()
    assert (first.source, server.served) == ("full", 1)
    cache = har_download.cache_folder()
    assert (cache / har_download.CHECKSUM_FILE).read_text().strip() == hashlib.sha256(archive).hexdigest()
    assert not (cache / har_download.ARCHIVE_FILE).exists()
    assert load_har6().sha256 == first.sha256
    assert server.served == 1


def test_a_changed_archive_is_refused_after_first_use(official: Archive, server: Server, tmp_path: Path) -> None:
    published = tmp_path / "www" / "har.zip"
    published.write_bytes(zipped(official))
    load_har6()
    (har_download.cache_folder() / har_download.PARSED_FILE).unlink()
    published.write_bytes(zipped({**official, "README.txt": b"changed"}))
    data = load_har6()
    assert data.source == "bundled"
    assert data.message is not None
    assert "hash" in data.message


@pytest.mark.parametrize("body", [b"<html>log in to the hotel network</html>", b"PK\x03\x04 cut short"])
def test_a_download_that_is_not_the_set_is_refused_and_removed(body: bytes, server: Server, tmp_path: Path) -> None:
    (tmp_path / "www" / "har.zip").write_bytes(body)
    data = load_har6()
    assert data.source == "bundled"
    assert data.message is not None
    assert "refused" in data.message
    assert "\n" not in data.message
    assert not (har_download.cache_folder() / har_download.ARCHIVE_FILE).exists()
    assert not (har_download.cache_folder() / har_download.CHECKSUM_FILE).exists()


def test_a_missing_page_is_a_failed_download(server: Server) -> None:
    data = load_har6()
    assert data.message is not None
    assert "404" in data.message


def test_nobody_listens(capfd: pytest.CaptureFixture[str]) -> None:
    data = load_har6()
    assert data.source == "bundled"
    assert data.message is not None
    assert "refused" in data.message
    assert "119 test windows that ship with tinyhil" in data.message
    assert len(data.message.splitlines()) == 1
    assert capfd.readouterr() == ("", "")


def test_a_silent_server_is_asked_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setattr(har_download, "URL", f"http://127.0.0.1:{silent.getsockname()[1]}/har.zip")
        monkeypatch.setattr(fetch, "PROBE_TIMEOUT_S", 0.5)
        first = load_har6()
        silent.settimeout(0)
        silent.accept()[0].close()
        second = load_har6()
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert first.message == second.message
    assert first.source == "bundled"


def test_download_switched_off(server: Server) -> None:
    data = load_har6(allow_download=False)
    assert data.message is not None
    assert "switched off" in data.message
    assert server.served == 0


# Refusals: one line that names the file


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:3000])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [cut, flip, empty])
@pytest.mark.parametrize("kind", ["subset", "zip", "cache"])
def test_damaged_files(
    damage: object, kind: str, official: Archive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("HIL_DATA", str(folder))
    archive = folder / ZIP_NAMES[0]
    if kind == "subset":
        path = folder / "har6_subset.npz"
        write_subset(path)
    else:
        archive.write_bytes(zipped(official))
        path = archive
        if kind == "cache":
            load_har6(allow_download=False)
            path = har_download.cache_folder() / har_download.PARSED_FILE
    assert callable(damage)
    damage(path)
    with pytest.raises(DataError) as caught:
        load_har6(allow_download=False)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"channels": np.array(CHANNELS[::-1])}, "channels are"),
        ({"x_test": np.zeros((4, 9, 128), np.int16)}, "do not fit"),
        ({"y_test": np.zeros(3, np.uint8)}, "do not fit"),
        ({"y_test": np.array([0, 1, 2, 6], np.uint8)}, "label 6"),
        ({"scale": np.ones(3, np.float32)}, "scale is"),
        ({"x_train": np.array([None])}, "it holds objects"),
    ],
)
def test_wrong_subset(
    changes: dict[str, np.ndarray], says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_subset(tmp_path / "har6_subset.npz", **changes)
    monkeypatch.setenv("HIL_DATA", str(tmp_path))
    with pytest.raises(DataError, match=says):
        load_har6()


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("train/y_train.txt", b"1\n2\n3\n4\n5\n6\n1\n", "y_train differs from the official list"),
        ("test/subject_test.txt", b"9\n9\n9\n9\n9\n", "subject_test differs from the official list"),
        ("test/Inertial Signals/body_acc_x_test.txt", text(np.full((5, 128), 99.0)), "no sensor"),
        ("test/Inertial Signals/body_acc_x_test.txt", text(np.full((5, 128), np.nan)), "no sensor"),
        ("test/Inertial Signals/body_acc_x_test.txt", text(np.zeros((4, 128))), "damaged"),
        ("test/Inertial Signals/body_acc_x_test.txt", b"1.0 oops\n", "damaged"),
        ("train/y_train.txt", None, "damaged"),
    ],
)
def test_an_archive_that_is_not_the_official_one(
    name: str, content: bytes | None, says: str, official: Archive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = {**official, name: content} if content is not None else {k: v for k, v in official.items() if k != name}
    (tmp_path / ZIP_NAMES[0]).write_bytes(zipped({k: v for k, v in files.items() if v is not None}))
    monkeypatch.setenv("HIL_DATA", str(tmp_path))
    with pytest.raises(DataError, match=says):
        load_har6()
    assert not (har_download.cache_folder() / har_download.PARSED_FILE).exists()


def test_hil_data_that_is_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HIL_DATA", str(tmp_path / "absent"))
    with pytest.raises(DataError, match="not a folder"):
        load_har6()


def test_unknown_name() -> None:
    with pytest.raises(DataError, match="'har7' does not exist; there are har6, digits"):
        load("har7")


def test_what_ships_is_real_and_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    with telling(lines.append):
        data = load_har6()
    assert (data.x_test.shape, data.x_train.shape) == ((119, 128, 9), (60, 128, 9))
    assert np.bincount(data.y_test).min() >= 15
    gravity = data.x_test[:, :, 6:] - data.x_test[:, :, :3]
    np.testing.assert_allclose(np.linalg.norm(gravity, axis=2).mean(axis=1), 1.0, atol=0.1)
    licence = har.BUNDLED.with_suffix(".md").read_text()
    assert "CC BY 4.0" in licence
    assert "Anguita" in licence
    (line,) = lines
    assert "2 s" in line
    assert "127.0.0.1" in line


@pytest.mark.parametrize(
    "command",
    [
        ("run", "--board", "host", "--model"),
        ("search", "--arena", "999999", "--model"),
        ("generate", "--calibrate-by", "mse", "--out", "project"),
        ("calibrate",),
    ],
    ids=lambda command: command[0],
)
def test_every_command_says_what_it_waits_for(command: tuple[str, ...], tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9"  # the discard port: nobody answers
    done = hil(
        *(*command, "lenet5_mnist"), cwd=tmp_path, HIL_DATA=None, HIL_CACHE=str(tmp_path), http_proxy=nowhere,
        https_proxy=nowhere,
    )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if line.startswith("asking ")]
    assert (done.returncode, len(lines)) == (2, 1), done.stderr


# The real data


def test_registry() -> None:
    names = [loader.name for loader in DATASETS]
    assert len(set(names)) == len(names)
    assert DATASETS[0] is har.HAR6


def test_official_hashes() -> None:
    lists = np.load(SHIPPED / "small" / "har6_official_labels.npz")
    assert {key: hash_arrays(lists[key].astype(np.uint8)) for key in lists.files} == har_archive.OFFICIAL_SHA256
    assert {part: len(lists[f"y_{part}"]) for part in ("train", "test")} == har_archive.WINDOWS


@needs_set("har6")
def test_real_subset() -> None:
    data = load_har6(allow_download=False)
    if data.source == "full":
        pytest.skip("HIL_DATA holds the full set")
    assert data.x_train.shape == (2400, 128, 9)
    assert data.x_test.shape == (950, 128, 9)
    assert data.y_train is not None
    assert data.y_test is not None
    assert data.groups_train is not None
    assert np.bincount(data.y_train).tolist() == [400, 350, 322, 420, 449, 459]
    assert np.bincount(data.y_test).tolist() == [160, 152, 135, 158, 172, 173]
    gravity = np.linalg.norm((data.x_test[:, :, 6:] - data.x_test[:, :, :3]).mean(axis=1), axis=1)
    assert abs(float(np.median(gravity)) - 1) < 0.05
