"""Files that are damaged, or made to hurt: one line and a documented exit code each, soon, and never a traceback."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import resource
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import yaml
from hil_command import check_failure, hil
from wire_bench import write_tiny_model

from tinyhil import files
from tinyhil.data import har_archive
from tinyhil.errors import ConfigError, DataError
from tinyhil.harness.boards.locks import LockFolder
from tinyhil.harness.records.figures import figures
from tinyhil.harness.records.partial import PartialRun
from tinyhil.harness.records.schema import read_record
from tinyhil.harness.settings.bench_file import Locks
from tinyhil.notice import telling
from tinyhil.sealed import DIGITS, MARK
from tinyhil.search.evaluator import Score
from tinyhil.search.journal import Journal, Query
from tinyhil.search.space import Choice

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "results/golden/uno/fastgrnn_har-fixed16.json"
DEEP = 100_000
SHIPPED = ("tinyhil", "memplan", "codegen", "search", "train", "harness")
ADDRESS_SPACE = 4 << 30


@pytest.fixture(autouse=True)
def little_memory() -> object:
    """What is declared and not there must not be allocated."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    text = header.encode("latin1")
    return b"\x93NUMPY" + bytes((version, 0)) + len(text).to_bytes(2 if version == 1 else 4, "little") + text + data


def npz(name: str, content: bytes, how: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", how) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def good_npy() -> bytes:
    file = io.BytesIO()
    np.save(file, np.arange(12, dtype=np.float32).reshape(3, 4))
    return file.getvalue()


def changed(content: bytes, at: int, byte: int) -> bytes:
    return content[:at] + bytes((byte,)) + content[at + 1 :]


FLOATS = "{'descr': '<f4', 'fortran_order': False, 'shape': SHAPE, }"
ARRAYS = {
    "empty": b"",
    "nothing but the magic": b"\x93NUMPY",
    "a version to come": npy(FLOATS.replace("SHAPE", "(1,)"), bytes(4), 9),
    "no dictionary": npy("[1, 2]"),
    "half a dictionary": npy("{'descr': '<f4', "),
    "deeply nested": npy("(" * 5000),
    "an expression": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2**70,)}"),
    "a shape of text": npy(FLOATS.replace("SHAPE", "'abc'")),
    "a negative shape": npy(FLOATS.replace("SHAPE", "(-1,)"), bytes(4)),
    "a shape beyond memory": npy(FLOATS.replace("SHAPE", f"({1 << 40},)"), bytes(16)),
    "a shape beyond integers": npy(FLOATS.replace("SHAPE", f"({1 << 62}, {1 << 62})"), bytes(16)),
    "fewer data than declared": good_npy()[:-1],
    "an unknown type": npy("{'descr': '<q9', 'fortran_order': False, 'shape': (1,)}", bytes(8)),
    "a type of objects": npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"cos\nsystem\n."),
    "a type nested in itself": npy("{'descr': " + "[('a'," * 200 + "'<f4'" + ")]" * 200 + ",'shape':(1,)}"),
    "a long header": npy("{" + " " * 60_000 + "}"),
    "a header longer than the file": b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{",
    "no text": npy("{'descr': '\xff\xfe', 'shape': (1,)}"),
    "a damaged stream": changed(npz("x.npy", good_npy() * 1), 60, 0xFF),
    "half an archive": npz("x.npy", good_npy())[:-30],
    "no array in it": npz("x.npy", b"hello"),
    "a damaged header in it": npz("x.npy", npy("(((")),
    "a method nobody has": changed(npz("x.npy", good_npy()), npz("x.npy", good_npy()).rfind(b"PK\1\2") + 10, 99),
    "a bomb": npz("x.npy", npy(FLOATS.replace("SHAPE", f"({1 << 40},)"), bytes(1 << 20))),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays(name: str, tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(ARRAYS[name])
    with pytest.raises(DataError) as caught:
        files.read_arrays(tmp_path / "x.npz")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300 + len(str(tmp_path))


@pytest.mark.parametrize("name", ["x.npz", "har.zip", "x.gz"])
def test_a_bomb_is_refused_by_what_it_declares(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand times its size: nothing of an archive is unpacked, of a .gz no more than is credible."""
    monkeypatch.setattr(files, "MOST_UNPACKED_BYTES", 1 << 20)
    zeros = npy(FLOATS.replace("SHAPE", f"({1 << 20},)"), bytes(4 << 20))
    (tmp_path / name).write_bytes(gzip.compress(zeros) if name.endswith("gz") else npz("x.npy", zeros))
    if name.endswith("gz"):
        with pytest.raises(ValueError, match="unpacks to more than"):
            files.gunzipped(tmp_path / name)
        return
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("it is unpacked"))
    with pytest.raises(DataError, match=r"unpacks to \d+ B, more than 1048576 B"):
        files.read_arrays(tmp_path / name) if name == "x.npz" else har_archive.read(tmp_path / name)


def test_archives_are_opened_in_one_place() -> None:
    """Where what they declare is looked at; those that are written are not read."""
    reading = re.compile(r'zipfile\.ZipFile\((?!\w+, "w")|gzip\.(open|decompress)|np\.load\(')
    shipped = [path for name in SHIPPED for path in (ROOT / name).rglob("*.py") if not path.is_symlink()]
    found = {str(path.relative_to(ROOT)) for path in shipped if reading.search(path.read_text())}
    assert found == {"tinyhil/files.py", "tinyhil/data/har_archive.py", "tinyhil/data/digits.py"}


def test_every_damaged_byte_of_an_archive_is_an_array_or_an_error(tmp_path: Path) -> None:
    content = npz("x.npy", good_npy())
    for at in range(len(content)):
        for byte in (0, 0xFF, content[at] ^ 1):
            with suppress(DataError):
                files.parse_arrays(changed(content, at, byte), "x.npz")


def test_good_arrays_are_numpy_s(tmp_path: Path) -> None:
    for array in (np.float64(3.5), np.asfortranarray(np.eye(3)), np.zeros((0, 4), np.int8), np.array(["ab", "c"])):
        np.save(tmp_path / "a.npy", array)
        np.testing.assert_array_equal(files.read_arrays(tmp_path / "a.npy"), np.load(tmp_path / "a.npy"))
    np.savez_compressed(tmp_path / "b.npz", x=np.eye(3), y=[1])
    assert {name: value.tolist() for name, value in files.read_arrays(tmp_path / "b.npz").items()} == {
        "x": np.eye(3).tolist(),
        "y": [1],
    }


# ---- what is no file ----

READERS: dict[str, Callable[[Path], object]] = {
    "arrays": files.read_arrays,
    "JSON": lambda path: files.read_json(path, "record"),
    "record": read_record,
}


@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_file(reader: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    os.truncate(os.open(tmp_path / "huge", os.O_CREAT | os.O_WRONLY), 5 << 30)
    (tmp_path / "loop").symlink_to("loop")
    expected = {"pipe": "no regular file", "huge": "more than the", "loop": "symbolic links", "absent": "no such file"}
    for name, words in {**expected, ".": "Is a directory"}.items():
        with pytest.raises(DataError, match=words):
            READERS[reader](tmp_path / name)
    with pytest.raises(DataError, match="no regular file"):
        READERS[reader](Path("/dev/zero"))


# ---- YAML ----

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [*{a},*{a},*{a},*{a},*{a},*{a},*{a},*{a},*{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {k: v}\n" + "".join(
    f"{b}: &{b} {{<<: [*{a},*{a},*{a},*{a},*{a},*{a},*{a},*{a}]}}\n"
    for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
YAML = {
    "aliases of aliases": BOMB,
    "merges of merges": MERGES,
    "an alias of itself": "a: &a [*a, *a, *a]\n",
    "a mapping that holds itself": "a: &a {b: *a}\n",
    "deeply nested": "[" * 5000,
    "an indented depth": "".join(" " * n + "a:\n" for n in range(3000)),
    "no UTF-8": "\udcff",
    "a control character": "a: \x01",
}


@pytest.mark.parametrize("name", YAML)
@pytest.mark.parametrize("option", ["--boards-file", "--bench", "--assignment"])
def test_yaml(name: str, option: str, tmp_path: Path) -> None:
    (tmp_path / "file.yaml").write_text(YAML[name], encoding="utf-8", errors="surrogateescape")
    arguments = ("run", "--board", "host", "--model", "digits_mlp", option, tmp_path / "file.yaml")
    done = hil(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "defect" not in done.stderr
    assert "file.yaml" in done.stderr


def test_yaml_of_a_megabyte_is_refused_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "big.yaml").write_text("a: b\n" * 300_000)
    with pytest.raises(ConfigError, match="more than the 1048576 B"):
        files.read_text(tmp_path / "big.yaml", "bench file", files.MOST_YAML_BYTES, ConfigError)
    assert isinstance(files.compose_yaml("a: &a [1]\nb: *a\n"), yaml.Node)


# ---- records ----


def put(record: dict, path: str, value: object) -> dict:
    *way, last = path.split(".")
    inner = record
    for step in way:
        inner = inner[step]
    inner[last] = value
    return record


WRONG = (
    *[(path, value) for path in ("raw", "latency", "memory", "provenance") for value in (None, [], "x", 3)],
    *[(path, value) for path in ("raw.ticks", "raw.outputs", "raw.inputs_crc32") for value in (None, 3, {}, "abc")],
    *[("raw.ticks", value) for value in (["1"], [1.5], [-1], [None], [[1]], [1])],
    *[("raw.outputs", value) for value in ([1], ["xyz"], ["0"], [None])],
    *[("board", value) for value in (None, 3, [], {}, "")],
    ("emulator", "simavr"),
    ("emulator", {}),
    ("accuracy", "0.5"),
    ("accuracy", 7),
    ("bit_exact", "yes"),
    ("flash_bytes", -1),
    ("flash_bytes", 1e300),
    ("latency.median", "8"),
    ("latency.unit", 5),
    ("memory.stack_bytes", "5"),
    ("provenance.compiler", "gcc"),
    ("boots", [1]),
    ("boots", {"median": 1}),
    ("order", [1]),
    ("order", {"board": 3, "model": "x"}),
    ("order", {"board": "uno"}),
    ("schema_version", 2),
    ("kind", "silver"),
)


@pytest.mark.parametrize(("path", "value"), WRONG, ids=[f"{p}={str(v)[:20]}" for p, v in WRONG])
def test_records_of_wrong_types(path: str, value: object, tmp_path: Path) -> None:
    record = json.loads(GOLDEN.read_text())
    (tmp_path / "r.json").write_text(json.dumps(put(record, path, value)))
    with pytest.raises(DataError, match=r"r\.json: not a record of"):
        figures(read_record(tmp_path / "r.json"))


RECORDS = {
    "empty": "",
    "half": '{"raw": ',
    "deep": "[" * DEEP,
    "deep in an object": '{"raw": ' * DEEP,
    "a number": "3",
    "infinity": '{"raw": Infinity}',
    "no number": '{"raw": NaN}',
    "too large a number": '{"raw": 1e999}',
    "many digits": '{"raw": ' + "9" * 5000 + "}",
    "no UTF-8": '{"raw": "\udcff"}',
}


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize(
    "command", [("compare", "r.json", "r.json"), ("golden", "check", "r.json")], ids=lambda words: words[0]
)
def test_records_that_are_none(name: str, command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(RECORDS[name], encoding="utf-8", errors="surrogateescape")
    check_failure(hil(*command, cwd=tmp_path), 2, "r.json")


def test_every_record_kept_here_is_one() -> None:
    committed = [*(ROOT / "results/golden").glob("*/*.json"), *(ROOT / "results/uno").glob("*/*.json")]
    assert len(committed) > 50
    for path in committed:
        figures(read_record(path))


# ---- partial files and locks ----

LINES = (
    '{"sample": Infinity, "output": "00", "ticks": 1, "saturations": 0, "trace": null}',
    '{"sample": 1e999, "output": "00", "ticks": 1, "saturations": 0, "trace": null}',
    '{"sample": 1, "output": "00", "ticks": Infinity, "saturations": 0, "trace": null}',
    '{"sample": 1, "output": "00", "ticks": 1.5, "saturations": 0, "trace": null}',
    '{"sample": -1, "output": "00", "ticks": 1, "saturations": 0, "trace": null}',
    '{"sample": 1, "output": "0", "ticks": 1, "saturations": 0, "trace": null}',
    '{"sample": 1, "output": "zz", "ticks": 1, "saturations": 0, "trace": null}',
    '{"sample": 1, "output": "00", "ticks": 1, "saturations": 0, "trace": [1]}',
    '{"sample": 1, "output": "00", "ticks": 1, "saturations": 0, "trace": {"instructions": "1"}}',
    '{"sample": "1", "output": "00", "ticks": "1", "saturations": 0, "trace": null}',
    '{"sample": 1, "output": "00", "ticks": 99999999999, "saturations": 0, "trace": null}',
    '{"sample": 1}',
    "[]",
    "null",
    "[" * DEEP,
    '{"a":' * DEEP,
    "\x00\x01",
)


def test_partial_files_are_read_as_far_as_they_are_sound(tmp_path: Path) -> None:
    line = '{"sample": 7, "output": "0001", "ticks": 5, "saturations": 1, "trace": null}'
    good = resealed(line)
    other = resealed(line.replace("7", "8").replace("0001", "00010203"))
    far = resealed(line.replace("7", "4000000000"))
    damaged, said = [*LINES, *map(resealed, LINES), good.replace("7", "9"), line.replace("7", "6")], list[str]()
    path = tmp_path / "run.partial.jsonl"
    path.write_text("\n".join([*damaged, good, *damaged, other, far, good[:30]]))
    with telling(said.append), PartialRun(tmp_path, "run") as partial:
        assert set(partial.results) == {7, 8, 4_000_000_000}
        partial.keep(10, 2)
        assert set(partial.results) == {7}
    partial.discard()
    assert len(said) == 1
    assert said[0].startswith(f"{path}: line 1 is cut, or without a sum, {2 * len(damaged)} more")


def resealed(line: str) -> str:
    """With the sum that it would have if it had been written so."""
    body = line[:-1]
    return f'{body}{MARK}{hashlib.sha256(body.encode()).hexdigest()[:DIGITS]}"}}'


DAMAGE = {
    "deep": lambda line: "[" * DEEP,
    "a loss that is none": lambda line: resealed(re.sub(r'"loss": [-0-9.e]+', '"loss": null', line)),
    "fewer than no disagreements": lambda line: resealed(re.sub(r'"disagreements": \d+', '"disagreements": -1', line)),
    "more right than there are": lambda line: resealed(re.sub(r'"correct": null', '"correct": 11', line)),
    "another figure": lambda line: line.replace('"disagreements": 1', '"disagreements": 0'),
    "a path for a process": lambda line: resealed('{"claim": "' + "0" * 24 + '", "by": "a/b"}'),
    "a long process": lambda line: resealed('{"claim": "' + "0" * 24 + '", "by": "' + "x" * 300 + '"}'),
    "a leader nowhere": lambda line: resealed('{"asking": "../../x"}'),
    "another name": lambda line: resealed(re.sub(r'"ask": "\w{4}', '"ask": "0000', line)),
    "a format of another kind": lambda line: resealed(re.sub(r'"formats": \["fixed8"', '"formats": [3', line)),
    "more formats than offsets": lambda line: resealed(re.sub(r'"offsets": \[-?\d+, ', '"offsets": [', line)),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_journal_is_said_and_changes_no_answer(name: str, tmp_path: Path) -> None:
    path, question = tmp_path / "journal.jsonl", Query((Choice("fixed8", -1), Choice("fixed16")))
    with Journal(path) as first:
        first.answer(question, lambda asked: Score(10, 1, None, 0, 0.5))
    lines = [line.removesuffix("\n").partition(MARK)[0] + "}" for line in path.read_text().splitlines()]
    changed = [DAMAGE[name](whole) for whole in ([*path.read_text().splitlines()] if "figure" in name else lines)]
    changes = [line for line, was in zip(changed, map(resealed, lines), strict=True) if line != was]
    assert changes, "the damage does something"
    path.write_text("".join(f"{line}\n" for line in changed))
    asked, said = [], list[str]()

    def again(query: Query) -> Score:
        asked.append(query)
        return Score(10, 1, None, 0, 0.5)

    with telling(said.append), Journal(path) as second:
        assert second.answer(question, again) == Score(10, 1, None, 0, 0.5)
        assert second.take() is None
    assert len(said) == 1
    assert "left out, what is missing is computed again" in said[0]
    assert not asked or asked == [question]


CLAIMS = (
    "",
    "[]",
    "{}",
    '{"owner": 3}',
    '{"owner": "x", "what": "y", "since": "now", "expires": 1, "pid": 1, "started": "1"}',
    '{"owner": "x", "what": "y", "since": 1, "expires": Infinity, "pid": 1, "started": "1"}',
    '{"owner": "x", "what": "y", "since": 1, "expires": 1e300}',
    '{"owner": "x", "what": "y", "since": 1, "expires": 1, "pid": 1e99, "started": "1"}',
    '{"owner": "x", "what": [], "since": 1, "expires": 1, "more": 1}',
    '{"why": 1, "since": NaN}',
    '{"why": "x", "since": 1e300}',
    "[" * DEEP,
    "\udcff",
)


@pytest.mark.parametrize("text", CLAIMS, ids=lambda text: text[:40])
def test_lock_files_of_others(text: str, tmp_path: Path) -> None:
    locks = LockFolder(Locks(folder=str(tmp_path)))
    for kind in ("holder", "reserved", "wedged"):
        (tmp_path / f"board.{kind}").write_text(text, encoding="utf-8", errors="surrogateescape")
    assert locks.holder("board") is None
    assert locks.reservation("board") is None
    assert locks.wedged(["board"]) is None
    with locks.hold(["board"], "board", 0, print):
        assert locks.holder("board") is not None


def test_a_lock_file_s_owner_moves_no_cursor(tmp_path: Path) -> None:
    claim = {"owner": "\x1b[2J" + "x" * 9000, "what": "\n", "since": 1, "expires": 2e9 * 2}
    (tmp_path / "board.reserved").write_text(json.dumps(claim))
    found = LockFolder(Locks(folder=str(tmp_path))).reservation("board")
    assert found is not None
    assert "\x1b" not in found.describe("board")
    assert len(found.describe("board")) < 1000


def test_names_of_temporary_files_can_not_be_guessed(tmp_path: Path) -> None:
    """In a folder that all can write: a link put there before would be written through."""
    target = tmp_path / "precious"
    target.write_text("mine")
    for name in (f"board.wedged.{os.getpid()}", "board.tmp", "board.wedged.tmp", "record.tmp", "record.json.partial"):
        (tmp_path / name).symlink_to(target)
    LockFolder(Locks(folder=str(tmp_path))).mark_wedged(["board"], "why")
    files.write_text(tmp_path / "record.json", "{}")
    assert target.read_text() == "mine"
    assert not (tmp_path / "board.wedged").is_symlink()
    assert (tmp_path / "record.json").stat().st_mode & 0o777 == 0o666 & ~os.umask(os.umask(0o022))


def test_who_reads_finds_a_whole_file(tmp_path: Path) -> None:
    path, texts = tmp_path / "file", {"a" * 50_000, "b" * 50_000}
    files.write_text(path, "a" * 50_000)
    writers = [threading.Thread(target=lambda t=text: [files.write_text(path, t) for _ in range(50)]) for text in texts]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert path.read_text() in texts
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


# ---- models, inputs, assignments through the command ----


@pytest.mark.parametrize("name", ["a shape beyond memory", "a damaged stream", "deeply nested", "half an archive"])
@pytest.mark.parametrize("option", ["--inputs", "--calibrate"])
def test_inputs_of_a_run(name: str, option: str, tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "tiny.onnx")
    np.savez(tmp_path / "good.npz", x=np.zeros((2, 1, 32), np.float32))
    (tmp_path / "bad.npz").write_bytes(ARRAYS[name])
    given = {"--inputs": "good.npz", "--calibrate": "good.npz", option: "bad.npz"}
    words = [word for pair in given.items() for word in pair]
    check_failure(hil("run", "--board", "host", "--model", model, *words, cwd=tmp_path), 2, "bad.npz")


# ---- the last resort ----

BREAKS = """
import sys, threading
from tinyhil.harness import cli
def fails():
    if sys.argv[1] == "thread":
        thread = threading.Thread(target=lambda: {}["missing"]); thread.start(); thread.join(); print("goes on")
    elif sys.argv[1] == "memory":
        bytearray(1 << 60)
    else:
        raise KeyError("two\\nlines")
import click
cli.hil.commands["doctor"] = click.Command("doctor", callback=fails)
cli.main(["doctor"])
"""


@pytest.mark.parametrize(("what", "code"), [("error", 70), ("thread", 0), ("memory", 2)])
def test_what_nobody_foresaw_is_one_line_and_a_log(what: str, code: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BREAKS, what],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "HIL_CACHE": str(tmp_path)},
    )
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    logs = list(tmp_path.glob("defects/*.log"))
    assert done.stderr.count("\n") == (0 if what == "thread" else 1)
    assert len(logs) == (0 if what == "memory" else 1)
    for log in logs:
        assert "KeyError" in log.read_text()
        assert what == "thread" or str(log) in done.stderr
