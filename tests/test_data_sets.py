"""The data sets besides UCI HAR: cache, HIL_DATA, official files, download; what they hold; and what is refused."""

from __future__ import annotations

import functools
import gzip
import http.server
import io
import itertools
import socket
import tarfile
import threading
import wave
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from given_data import SETS, data_file, needs_set

from tinyhil.data import ad, cifar, digits, dsa, fetch, fsdd, kws, letter, load, mnist, origin, usps
from tinyhil.data.dataset import hash_arrays
from tinyhil.errors import DataError

RANDOM = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def _bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No data, an empty cache, no proxy."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fetch, "_failures", {})


# ---- small official files, as the publishers lay them out


def usps_files() -> dict[str, bytes]:
    files = {}
    for part, count in (("train", 5), ("test", 3)):
        rows = np.round(RANDOM.uniform(-1, 1, (count, 256)), 3)
        lines = [" ".join([f"{i:.4f}", *(f"{v:.4f}" for v in row)]) + " \n" for i, row in enumerate(rows)]
        files[f"zip.{part}.gz"] = gzip.compress("".join(lines).encode())
    return files


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def letter_files() -> dict[str, bytes]:
    lines = [f"{c},{','.join(str((i + k) % 16) for k in range(16))}\n" for i, c in enumerate("TIDNZ")]
    return {"letter+recognition.zip": zipped({"letter-recognition.data": "".join(lines).encode()})}


def mnist_files() -> dict[str, bytes]:
    files = {}
    for (name, _), count, images in zip(mnist.FILES, (4, 4, 2, 2), (True, False) * 2, strict=True):
        header = bytes(16 if images else 8)
        body = RANDOM.integers(0, 256 if images else 10, count * 784 if images else count, np.uint8)
        files[name] = gzip.compress(header + body.tobytes())
    return files


def dsa_files() -> dict[str, bytes]:
    rows = "\n".join(",".join(f"{(r * 45 + c) % 90 / 10 - 4:.4f}" for c in range(45)) for r in range(125)).encode()
    names = [f"data/a{a:02d}/p{p}/s{s:02d}.txt" for a in range(1, 20) for p in range(1, 9) for s in range(1, 2)]
    return {"daily+and+sports+activities.zip": zipped(dict.fromkeys(names, rows))}


def fsdd_files() -> dict[str, bytes]:
    files = {}
    for number, count in ((0, 4000), (7, 9000), (5, 150)):
        buffer = io.BytesIO()
        with wave.open(buffer, "wb") as recording:
            recording.setparams((1, 2, 8000, 0, "NONE", ""))
            tone = 8000 * np.sin(2 * np.pi * 1000 * np.arange(count) / 8000)
            recording.writeframes(tone.astype(np.int16).tobytes())
        files[f"x/recordings/3_theo_{number}.wav"] = buffer.getvalue()
    return {"free-spoken-digit-dataset.zip": zipped(files)}


def kws_files() -> dict[str, bytes]:
    inner = {f"{kws.FOLDER}/t{i}.bin": RANDOM.integers(-128, 128, 490).astype(np.int8).tobytes() for i in range(10)}
    rows = [f"t{i}.bin,12,{i}" for i in range(10)]
    inner[f"{kws.FOLDER}/y_labels.csv"] = ("\n".join(rows) + "\n").encode()
    return {"energyrunner.zip": zipped(inner)}


def cifar_files() -> dict[str, bytes]:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, count in (("data_batch_1", 6), ("test_batch", 3)):
            records = RANDOM.integers(0, 256, (count, 3073), np.uint8)
            records[:, 0] = np.arange(count)
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            info.size = records.size
            archive.addfile(info, io.BytesIO(records.tobytes()))
    return {cifar.FILE: buffer.getvalue()}


@dataclass(frozen=True)
class Case:
    """A data set, its module, its official files in small, and the shape of its test part then."""

    name: str
    module: ModuleType
    files: Callable[[], dict[str, bytes]]
    x_test: tuple[int, ...]


CASES = (
    Case("usps", usps, usps_files, (3, 16, 16)),
    Case("usps2", usps, usps_files, (3, 16, 16)),
    Case("letter", letter, letter_files, (2, 16)),
    Case("mnist", mnist, mnist_files, (2, 28, 28)),
    Case("dsa19", dsa, dsa_files, (76, 125, 45)),
    Case("fsdd", fsdd, fsdd_files, (1, 98, 32)),
    Case("kws12", kws, kws_files, (8, 49, 10)),
    Case("cifar10", cifar, cifar_files, (3, 3, 32, 32)),
)
IDS = [case.name for case in CASES]


@pytest.fixture(autouse=True)
def _small_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes of the small official files; their content is not the published one, so its hash is left open."""
    monkeypatch.setattr(letter, "TRAIN", 3)
    monkeypatch.setattr(dsa, "SEGMENTS", 1)
    for module in {case.module for case in CASES}:
        monkeypatch.setattr(module, "PUBLISHED", module.ORIGIN, raising=False)
        remotes = tuple(replace(remote, known_hash=None) for remote in module.ORIGIN.remotes)
        monkeypatch.setattr(module, "ORIGIN", replace(module.ORIGIN, sha256=None, remotes=remotes))


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A web server that stands for the official addresses, and its folder."""
    folder = tmp_path / "www"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    _redirect(monkeypatch, server.server_port)
    yield folder
    server.shutdown()
    server.server_close()


def _redirect(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    for module in {case.module for case in CASES}:
        remotes = [replace(r, url=f"http://127.0.0.1:{port}/{r.file}") for r in module.ORIGIN.remotes]
        monkeypatch.setattr(module, "ORIGIN", replace(module.ORIGIN, remotes=tuple(remotes)))


def write(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_official_files_in_hil_data_are_read_once_and_cached(
    case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(tmp_path / "data", case.files())
    monkeypatch.setenv("HIL_DATA", str(tmp_path / "data"))
    first = load(case.name, allow_download=False)
    assert first.x_test.shape == case.x_test
    assert first.x_test.dtype == np.float32
    assert first.y_test is not None
    assert first.y_train is not None
    assert len(first.y_test) == len(first.x_test)
    assert len(first.y_train) == len(first.x_train)
    monkeypatch.delenv("HIL_DATA")
    again = load(case.name, allow_download=False)
    assert again.sha256 == first.sha256
    np.testing.assert_array_equal(again.x_train, first.x_train)
    np.testing.assert_array_equal(again.y_test, first.y_test)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_download(case: Case, served: Path) -> None:
    write(served, case.files())
    first = load(case.name)
    assert first.x_test.shape == case.x_test
    assert [path.suffix for path in fetch.cache_folder().iterdir() if path.suffix != ".lock"] == [".npz"]
    for path in served.iterdir():
        path.unlink()
    assert load(case.name).sha256 == first.sha256


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_damaged_official_files_are_refused(case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = {name: data[: len(data) // 2] for name, data in case.files().items()}
    write(tmp_path / "data", files)
    monkeypatch.setenv("HIL_DATA", str(tmp_path / "data"))
    with pytest.raises(DataError, match=r"damaged data .*; delete it and get it again") as caught:
        load(case.name, allow_download=False)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob("cache/*.npz"))


def test_content_that_is_not_the_published_one(monkeypatch: pytest.MonkeyPatch, served: Path) -> None:
    monkeypatch.setattr(usps, "ORIGIN", replace(usps.ORIGIN, sha256=usps.PUBLISHED.sha256))  # type: ignore[attr-defined]
    write(served, usps_files())
    with pytest.raises(DataError, match=r"download refused .*not the published usps"):
        load("usps")
    assert not list(fetch.cache_folder().glob("*.gz"))
    assert not list(fetch.cache_folder().glob("*.npz"))


def test_a_wrong_checksum_is_refused(monkeypatch: pytest.MonkeyPatch, served: Path) -> None:
    remotes = tuple(replace(remote, known_hash=f"md5:{32 * '0'}") for remote in mnist.ORIGIN.remotes)
    monkeypatch.setattr(mnist, "ORIGIN", replace(mnist.ORIGIN, remotes=remotes))
    write(served, mnist_files())
    with pytest.raises(DataError, match="hash") as caught:
        load("mnist")
    assert "\n" not in str(caught.value)


def test_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stand-in: one line that names the files and the address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        _redirect(monkeypatch, free.getsockname()[1])
    with pytest.raises(DataError, match=r"usps: download failed .*HIL_DATA to a folder with usps\.npz") as caught:
        load("usps")
    assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match="switched off"):
        load("usps", allow_download=False)
    with pytest.raises(DataError, match=r"ad01_normal_sample\.npz"):
        load("ad01")


def test_hil_data_that_is_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HIL_DATA", str(tmp_path / "absent"))
    with pytest.raises(DataError, match="not a folder"):
        load("letter")


@pytest.mark.parametrize("damage", ["cut", "empty", "keys"])
def test_damaged_npz(damage: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "data" / "small" / "letter.npz"
    path.parent.mkdir(parents=True)
    np.savez(path, **({"x": np.zeros((5, 16), np.uint8)} | ({} if damage == "keys" else {"y": np.zeros(5, np.uint8)})))
    if damage != "keys":
        path.write_bytes(path.read_bytes()[:100] if damage == "cut" else b"")
    monkeypatch.setenv("HIL_DATA", str(tmp_path / "data"))
    with pytest.raises(DataError, match="missing" if damage == "keys" else "damaged") as caught:
        load("letter")
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


# ---- what the sets hold


def test_digits_need_nothing() -> None:
    data = load("digits", allow_download=False)
    assert (data.x_train.shape, data.x_test.shape) == ((1347, 8, 8), (450, 8, 8))
    assert data.y_train is not None
    assert data.y_test is not None
    assert np.bincount(np.concatenate([data.y_train, data.y_test])).tolist() == [
        178, 182, 177, 183, 181, 182, 181, 179, 174, 180,
    ]  # fmt: skip
    assert np.bincount(data.y_test).tolist() == [45, 46, 44, 46, 45, 46, 45, 45, 43, 45]
    assert (data.x_train.min(), data.x_train.max()) == (0, 1)


def test_damaged_digits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with np.load(digits.FILE) as archive:
        arrays = {key: archive[key].copy() for key in archive.files}
    arrays["y"][0] ^= 1
    np.savez(tmp_path / "digits.npz", **arrays)
    monkeypatch.setattr(digits, "FILE", tmp_path / "digits.npz")
    with pytest.raises(DataError, match="content has changed"):
        load("digits")
    (tmp_path / "digits.npz").write_bytes(b"")
    with pytest.raises(DataError, match="damaged"):
        load("digits")


def test_usps_parses_its_text() -> None:
    (text, *_) = usps_files().values()
    first = gzip.decompress(text).decode().split()[:257]
    path = fetch.cache_folder() / "zip.gz"
    path.write_bytes(text)
    assert usps.ORIGIN.parse is not None
    arrays = usps.ORIGIN.parse([path, path])
    np.testing.assert_allclose(arrays["x_train"][0].ravel() / 1000, np.array(first[1:], float), atol=1e-9)
    assert arrays["y_train"].tolist() == [0, 1, 2, 3, 4]


def test_log_mel_of_a_tone() -> None:
    """1 kHz is 1000 mel (the scale is made so): the loudest band is the one nearest; silence is the floor."""
    tone = (8000 * np.sin(2 * np.pi * 1000 * np.arange(4000) / 8000)).astype(np.int16)
    codes = fsdd.log_mel(tone)
    mel = np.linspace(2595 * np.log10(1 + 20 / 700), 2595 * np.log10(1 + 4000 / 700), 34)[1:-1]
    assert codes[10].argmax() == np.abs(mel - 1000).argmin()
    assert (codes[1 + (4000 - 200) // 80 :] == 0).all()
    assert (fsdd.log_mel(np.zeros(8000, np.int16)) == 0).all()
    assert fsdd.log_mel(np.zeros(0, np.int16)).shape == (98, 32)
    assert fsdd.mel_filters().max() <= 1


PUBLISHED_COUNTS = (
    ("usps", [1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644],
     [359, 264, 198, 166, 200, 160, 170, 147, 166, 177]),
    ("mnist", [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
     [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]),
    ("dsa19", [240] * 19, [240] * 19),
    ("fsdd", [270] * 10, [30] * 10),
)  # fmt: skip


@pytest.mark.data(*itertools.chain.from_iterable(SETS[name] for name, _, _ in PUBLISHED_COUNTS))
def test_real_sets_have_the_published_counts_and_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, train, test in PUBLISHED_COUNTS:
        check_counts(name, train, test, monkeypatch)


def check_counts(name: str, train: list[int], test: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    module = next(case.module for case in CASES if case.name == name)
    monkeypatch.setattr(module, "ORIGIN", module.PUBLISHED)  # type: ignore[attr-defined]
    data = load(name, allow_download=False)
    assert data.y_train is not None
    assert data.y_test is not None
    assert np.bincount(data.y_train).tolist() == train
    assert np.bincount(data.y_test).tolist() == test


def test_usps2_splits_at_five(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(tmp_path / "data", usps_files())
    monkeypatch.setenv("HIL_DATA", str(tmp_path / "data"))
    ten, two = load("usps"), load("usps2")
    assert ten.y_test is not None
    np.testing.assert_array_equal(two.y_test, ten.y_test >= 5)


@needs_set("ad01")
def test_anomaly_windows_overlap() -> None:
    frames = np.load(data_file("small/ad01_normal_sample.npz"))["x"]
    data = ad.load_ad01()
    assert data.y_test is None
    np.testing.assert_array_equal(data.x_test[0].reshape(5, 128), frames[1:6])
    assert data.x_train.shape == data.x_test.shape == (98, 640)


@pytest.mark.parametrize(
    ("module", "name"),
    [pytest.param(module, name, marks=needs_set(name)) for module, name in ((letter, "letter"), (kws, "kws12"))],
)
def test_published_hashes_are_those_of_the_files_at_hand(module: ModuleType, name: str) -> None:
    published: origin.Origin = module.PUBLISHED
    (file,) = SETS[name]
    with np.load(data_file(file)) as archive:
        assert hash_arrays(*(archive[key] for key in published.keys)) == published.sha256
