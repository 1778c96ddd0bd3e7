"""Strings of devices, files and models that reach a tool's command language: all of them are fed what tools take for
commands. Nothing of it may run, and nothing may end the line it stands in."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper

from tests.onnx_models import load
from tests.onnx_models import model as made_model
from tinyhil.codegen.export_kinds import CMAKE, HEADER, KINDS
from tinyhil.codegen.exported_library import Library
from tinyhil.codegen.library_source import emit_library
from tinyhil.codegen.packages import package, source_of
from tinyhil.compiler.calibrate import calibrate
from tinyhil.errors import BoardError, BuildError, ConfigError, FlashError
from tinyhil.frontend.onnx import load_onnx
from tinyhil.harness.boards import renode
from tinyhil.harness.boards.flash import TOOLS, _openocd_does
from tinyhil.harness.boards.survey import scan, stanza
from tinyhil.harness.build.pipeline import compile_model, runtime_sources
from tinyhil.harness.offline.export import library_of, packed
from tinyhil.harness.records.exports import as_csv
from tinyhil.harness.settings.bench_file import parse_bench
from tinyhil.harness.settings.config import load_boards, parse_boards
from tinyhil.harness.settings.yaml_file import Record
from tinyhil.language.assignment import Assignment
from tinyhil.quoting import markdown, plain_path, yaml_word

ROOT = Path(__file__).resolve().parent.parent
MARKER = "HACKED"
ATTACKS = (
    f"; exec touch {MARKER}",
    f"x; exec touch {MARKER} ;",
    f"[exec touch {MARKER}]",
    f"$(touch {MARKER})",
    f"`touch {MARKER}`",
    f"| touch {MARKER}",
    f"&& touch {MARKER} &&",
    f'"; exec touch {MARKER}; "',
    f"'; touch {MARKER}; '",
    f"}}; exec touch {MARKER}; {{",
    f"}}}}; exec touch {MARKER}; {{{{",
    f"\\\n; exec touch {MARKER}",
    f"a\nexec touch {MARKER}\n",
    f"a\r!touch {MARKER}",
    "{image.__class__}",
    "{nosuch}",
    "$ENV{PATH}",
    "${PATH}",
    "-fplugin=/tmp/evil.so",
    "@/etc/passwd",
    "../../x/evil.sh",
    "/bin/sh",
    "=cmd|' /C calc'!A0",
    "[link](javascript:alert(1))",
    "![x](http://evil.example/x.png)",
    "<script>alert(1)</script>",
    "\x1b]0;title\x07\x1b[2J",
    "\u202egnp.exe",
    "a|b",
    "*/ #error */",
    '"); #error',
    "",
)
BOARDS = yaml.safe_load((ROOT / "boards.yaml").read_text())


@pytest.fixture(autouse=True)
def nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    assert not list(tmp_path.rglob(MARKER))


# ---- openocd, Renode, PlatformIO: what is quoted, and what is refused


def plugged(monkeypatch: pytest.MonkeyPatch, serial_number: str, product: str = "") -> None:
    from serial.tools import list_ports

    port = SimpleNamespace(device="/dev/ttyACM9", serial_number=serial_number, product=product, vid=0x0483, pid=0x374E)
    monkeypatch.setattr(list_ports, "comports", lambda: [port])


@pytest.mark.parametrize("attack", ATTACKS)
def test_openocd_reads_a_serial_number_and_a_path_as_words(
    attack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """openocd itself reads our command line; `program` is its own, with what it does through a probe left out."""
    plugged(monkeypatch, attack)
    board = load_boards().board("h747")
    elf = tmp_path / (attack.replace("/", "_") or "x") / "firmware.elf"
    image: Any = SimpleNamespace(elf=elf)
    if not attack.isprintable() or set(attack) & set("{}\\"):
        with pytest.raises(FlashError, match="openocd takes no") as caught:
            TOOLS["stlink"].command(image, board, "/dev/ttyACM9")
        assert str(caught.value).isprintable()
        return
    command = TOOLS["stlink"].command(image, board, "/dev/ttyACM9")
    (tmp_path / "stub.tcl").write_text(
        "proc init {} {}\nproc reset {args} {}\nproc poll {args} {}\n"
        'proc adapter {a number} { echo "SERIAL $number" }\n'
        "proc mrw {args} { return 0x450 }\nproc transport {args} {}\nproc reset_config {args} {}\n"
        'proc flash {a b path} { echo "FLASH $path" }\nproc verify_image {path} { echo "VERIFY $path" }\n'
    )
    words = [word for word in command if word not in ("interface/stlink.cfg", "target/stm32h7x_dual_bank.cfg", "-f")]
    done = subprocess.run(
        [words[0], "-f", "stub.tcl", *words[1:]], capture_output=True, text=True, timeout=600, cwd=tmp_path, check=False
    )
    assert f"FLASH {elf}\n" in done.stderr
    assert f"VERIFY {elf}\n" in done.stderr
    assert f"SERIAL {attack}\n" in done.stderr or not attack


def test_a_probe_is_reset_by_words_too(monkeypatch: pytest.MonkeyPatch) -> None:
    plugged(monkeypatch, ATTACKS[0])
    command = _openocd_does("reset run; shutdown", load_boards().board("h747"), "/dev/ttyACM9")
    assert f"adapter serial {{{ATTACKS[0]}}}" in command


@pytest.mark.parametrize("attack", [attack for attack in ATTACKS if not re.fullmatch(r"[\w@./=-]*", attack)])
def test_a_path_that_a_tool_s_own_language_would_read_is_refused(attack: str, tmp_path: Path) -> None:
    board = load_boards().board("due").emulated_by("renode")
    monitor = board.chip.emulator.model_copy(update={"program": "true"})  # type: ignore[union-attr]
    board = board.model_copy(update={"chip": board.chip.model_copy(update={"emulator": monitor})})
    with pytest.raises(BoardError, match="Renode takes no") as caught:
        renode.command(board, Path("/tmp") / attack / "firmware.bin", 1)
    assert str(caught.value).isprintable()
    with pytest.raises(BuildError, match="PlatformIO takes no"):
        plain_path(tmp_path / attack, "PlatformIO", BuildError)


def test_usual_paths_are_taken(tmp_path: Path) -> None:
    for name in ("a b", "jörg", "C++", "x~1", "data=1,2", "日本"):
        assert plain_path(tmp_path / name, "PlatformIO", BuildError)


# ---- board and bench files: every text in them that is no name of ours


def texts_of(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where strings stand in plain data."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield from texts_of(value, (*path, key))
    if isinstance(node, str):
        yield path


def replaced(data: Any, path: tuple[Any, ...], value: str) -> Any:
    copied = json.loads(json.dumps(data))
    node = copied
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return copied


SHOWN = ("title", "vendor", "url", "unit", "meaning", "source")  # texts, for people alone
EMPTY = ("vendor", "url", "unit")
A_BOARD = {
    "chips": {
        **{name: BOARDS["chips"][name] for name in ("atmega328p", "stm32l4r5", "mps2_an385", "reram")},
        "stm32h747": {**BOARDS["chips"]["stm32h747"], "emulated_as": "stm32h745"},
    },
    "boards": {
        "one": {
            **BOARDS["boards"]["h747"],
            "programmer_part": "m328pb",
            "pulse": "PJ1",
            "drive_id": "RPI-RP2",
            "upload_port": "/dev/ttyACM0",
        },
        "two": BOARDS["boards"]["uno"],
    },
}
FIELDS = [path for path in texts_of(A_BOARD) if "crossbars" not in path or "rows" in path]
A_BENCH = {
    "boards": {
        "near": {
            "board": "due",
            "serial": "7513",
            "usb": "2341:003D",
            "port": "/dev/ttyACM0",
            "role": "ci",
            "lock": "x",
        },
        "far": {"board": "due", "address": "rfc2217://a:1", "power": {"hub": "1-1.4", "port": 2}},
        "farm": {"board": "due", "labgrid": {"place": "due-1", "coordinator": "lab:1", "options": "ign_set_control"}},
    },
    "locks": {"folder": "/tmp/locks"},
}


def around(kind: str, name: str) -> dict[str, Any]:
    """A file with this chip and a board of it, or with this board and its chip: the less is read, the sooner."""
    chip = name if kind == "chips" else A_BOARD["boards"][name]["chip"]
    boards = {"one": {**BOARDS["boards"]["reram" if chip == "reram" else "host"], "chip": chip}}
    return {
        "chips": {chip: A_BOARD["chips"][chip]},
        "boards": {name: A_BOARD["boards"][name]} if kind == "boards" else boards,
    }


# To each field an eighth of the attacks, and to the next another one; all of them are slow.
@pytest.mark.parametrize("part", [8, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("path", FIELDS, ids=lambda path: ".".join(map(str, path)))
def test_a_board_file_says_nothing_that_is_executed(path: tuple[Any, ...], part: int) -> None:
    whole = around(*path[:2])
    parse_boards(json.dumps(whole), Path("boards.yaml"))
    for attack in ATTACKS[FIELDS.index(path) % part :: part]:
        text = json.dumps(replaced(whole, path, attack))
        if path[-1] in SHOWN and attack.isprintable() and (attack or path[-1] in EMPTY):
            parse_boards(text, Path("boards.yaml"))
            continue
        with pytest.raises(ConfigError) as caught:
            parse_boards(text, Path("boards.yaml"))
        assert str(caught.value).startswith("boards.yaml:")


@pytest.mark.parametrize("path", list(texts_of(A_BENCH)), ids=lambda path: ".".join(map(str, path)))
def test_a_bench_file_says_nothing_that_is_executed(path: tuple[Any, ...]) -> None:
    parse_bench(json.dumps(A_BENCH), Path("bench.yaml"), ("due",))
    for attack in (*ATTACKS, "spy:///dev/ttyUSB0?file=/tmp/x", "alt:///dev/x?class=Serial"):
        if path[-1] == "folder" and attack.isprintable() and attack:
            continue
        if path[-1] == "port" and attack.isprintable() and attack and "://" not in attack:
            continue  # a path, which is opened as a port
        with pytest.raises(ConfigError) as caught:
            parse_bench(json.dumps(replaced(A_BENCH, path, attack)), Path("bench.yaml"), ("due",))
        assert str(caught.value).startswith("bench.yaml:")


def fields_of(record: type[Record]) -> set[str]:
    """The names of all fields that may hold text, of a record and those within."""
    found: set[str] = set()
    for name, field in record.model_fields.items():
        inner = [field.annotation, *_within(field.annotation)]
        found |= {name} if any(kind is str for kind in inner) else set()
        for kind in inner:
            if isinstance(kind, type) and issubclass(kind, Record):
                found |= fields_of(kind)
    return found


def _within(annotation: Any) -> Iterator[Any]:
    for argument in get_args(annotation):
        yield argument
        yield from _within(argument)


def test_no_field_is_left_out() -> None:
    """One that is new must be in the samples above."""
    from tinyhil.harness.settings.bench_file import Bench
    from tinyhil.harness.settings.config import Content

    tried = {key for path in texts_of(A_BOARD) for key in path} | {key for path in texts_of(A_BENCH) for key in path}
    made = {"name", "like", "region", "regions"}  # names, of a pattern
    assert fields_of(Content) | fields_of(Bench) <= tried | made


# ---- what others have said, on terminals and in files of ours


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_usb_device_says_one_printable_line(attack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plugged(monkeypatch, attack, attack)
    boards = load_boards()
    (found,) = scan(boards)
    assert f"{found.serial_number}{found.product}".isprintable()
    entry = stanza(found, 1).replace("nucleo_h745", "h747")
    (instance,) = yaml.safe_load(f"boards:\n{entry}")["boards"].values()
    assert set(instance) == {"board", "serial" if found.serial_number else "port"}
    assert instance.get("serial") == found.serial_number


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_text_is_one_text_in_yaml_markdown_and_csv(attack: str) -> None:
    assert yaml.safe_load(yaml_word(attack)) == attack
    shown = markdown(attack)
    assert shown.isprintable()
    bare = re.sub(r"\\.", "", shown)  # what is not escaped
    assert not re.search(r"[\\`*\[\]!~|<>]|://|www\.", bare)
    record = _record(attack)
    (line,) = csv.DictReader(io.StringIO(as_csv([record])))
    assert not any(str(value).lstrip().startswith(("=", "+", "-", "@")) for value in line.values())
    assert len(line) == len(next(csv.reader(io.StringIO(as_csv([record])))))


def _record(text: str) -> dict[str, Any]:
    return {"board": text, "model": text, "format": text, "layers": [{"name": text, "kernel": text, "output": text}]}


# ---- models: names of values, of the graph, of classes and of the file


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Of a model whose values are called so, all of them; its classes, too."""
    folder = tmp_path_factory.mktemp("model")
    names = ["x", *(f"{attack}{number}" for number, attack in enumerate(ATTACKS))]
    nodes = [helper.make_node("Add", [a, f"{b}w"], [b], name=f"{b}n") for a, b in itertools.pairwise(names)]
    weights = [onnx.numpy_helper.from_array(np.ones(len(ATTACKS), np.float32), f"{name}w") for name in names[1:]]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, len(ATTACKS)]) for name in (names[0], names[-1])]
    graph = load(made_model(helper.make_graph(nodes, ATTACKS[12], ends[:1], ends[1:], weights)), folder)
    model = load_onnx(folder / "m.onnx")
    ranges = calibrate(graph, np.ones((2, len(ATTACKS)), np.float32), {})
    compiled = compile_model(model, Assignment("fixed8"), ranges, [], [])
    return library_of(compiled, "usual", "lib", "static", ATTACKS)


def named(library: Library, name: str) -> Library:
    return replace(library, laid=replace(library.laid, program=replace(library.program, name=name)))


@pytest.mark.parametrize("kind", KINDS)
def test_names_of_a_model_stay_names_in_an_export(kind: str, library: Library, tmp_path: Path) -> None:
    """Every file has as many lines as that of a model with usual names, and compilers and cmake read nothing else."""
    usual = packed(kind, named(library, "usual"), [])
    sources = emit_library(source_of(kind, library), runtime_sources())
    for attack in ATTACKS:
        hostile = named(replace(library, origin=f"{attack} in fixed8"), attack)
        files = package(kind, hostile, sources, "1.0", [])
        for name, text in files.items():
            assert len(text.splitlines()) == len(usual[name].splitlines()), (attack, name)
            assert all(line.isprintable() for line in text.replace("\t", " ").split("\n")), (attack, name)
    files = packed(kind, hostile, [])
    assert sorted(files) == sorted(usual)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    check = ["g++", "-std=gnu++11", "-fsyntax-only", "-Wall", "-Werror", "-I", tmp_path / "lib"]
    check.append(tmp_path / "lib" / ("examples" if kind == HEADER else "src") / "lib.cpp")
    if kind == CMAKE:
        check = ["cmake", "-S", tmp_path / "lib", "-B", tmp_path / "made"]
        if shutil.which("cmake") is None:
            return
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_compiler_reads_nothing_else_in_the_model_s_own_names(library: Library) -> None:
    """The header's class names are the classes, byte for byte."""
    source = emit_library(library, runtime_sources())
    header = next(text for name, text in source.items() if name == "lib.h")
    shown = next(line for line in header.splitlines() if "CLASS_NAMES" in line)
    program = f"#include <stdio.h>\n{shown}\nint main(){{const char *n[] = LIB_CLASS_NAMES; for (auto x : n) puts(x);}}"
    built = subprocess.run(
        ["g++", "-x", "c++", "-", "-o", "names"], input=program, text=True, capture_output=True, check=False
    )
    assert built.returncode == 0, built.stderr
    printed = subprocess.run(["./names"], capture_output=True, check=True).stdout
    assert printed.decode() == "".join(f"{attack}\n" for attack in ATTACKS)
