"""Exported libraries compute what the reference computes, on integers, on real numbers and step by step."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.export_bench import Exported, OnHost, export, unpacked
from tests.hil_command import check_failure, hil
from tests.onnx_models import load, node, simple
from tinyhil.codegen.export_kinds import KINDS
from tinyhil.compiler.calibrate import calibrate
from tinyhil.formats.codec import storage_dtype
from tinyhil.harness.build.pipeline import Compiled, compile_model
from tinyhil.harness.job.job import open_model
from tinyhil.harness.offline.export import library_of, packed
from tinyhil.harness.offline.export_sizes import PROCESSORS, measure
from tinyhil.language.assignment import Assignment
from tinyhil.references.classes import classes_of
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

SAMPLES = 6
FAST = [
    *(("fastgrnn_har", name, "static") for name in ("fixed16", "int8", "float16", "posit16es1", "nf4")),
    ("digits_cnn", "fixed8", "static"),
    ("digits_mlp", "fixed8", "caller"),
    ("fastgrnn_har", "fixed8", "caller"),
]
FORMATS = [
    "fixed8",
    "fixed12",
    "fixed8pc",
    "int16x8",
    "float32",
    "bfloat16",
    "posit8es0",
    "posit32es2",
    "fp8e4m3",
    "fp4e2m1",
]
SLOW = [
    *(("fastgrnn_har", name, "static") for name in FORMATS),
    *(("digits_cnn", name, "static") for name in ("int8", "posit8es2", "float32")),
    ("bonsai_usps2", "fixed16", "static"),
    ("protonn_usps10", "fixed16", "static"),
]
CASES = [*FAST, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)]


def samples_for(exported, count: int) -> np.ndarray:
    """Real inputs over the calibrated range of the model, and beyond its ends."""
    random = np.random.default_rng(5)
    fmt = exported.library.input.format
    high = float(np.ldexp(fmt.largest, fmt.exponent)) if fmt.bits <= 16 and fmt.largest < 1e4 else 4.0
    x = random.normal(0, high / 3, (count, *exported.compiled.program.input_shape[1:])).astype(np.float32)
    x.reshape(count, -1)[0, 0] = 3 * high
    x.reshape(count, -1)[-1, -1] = -3 * high
    return x


@pytest.mark.parametrize(("model", "format_", "arena"), CASES)
def test_library_equals_the_reference(model: str, format_: str, arena: str, tmp_path: Path) -> None:
    exported = export(model, format_, arena=arena)
    library, program = OnHost(exported, tmp_path), exported.compiled.program
    x = samples_for(exported, SAMPLES)
    codes, _ = quantize_inputs(program, x)
    expected = run_reference(program, codes).outputs
    real = dequantize_outputs(program, expected)
    classes = classes_of(exported.compiled.model.graph, real)
    for index in range(SAMPLES):
        found, outputs = library.run(codes[index])
        np.testing.assert_array_equal(outputs, expected[index])
        assert found == classes[index]
        np.testing.assert_array_equal(library.quantize(x[index]), codes[index])
        found, outputs = library.predict(x[index])
        np.testing.assert_array_equal(outputs, real[index].astype(np.float32))
        assert found == classes[index]


def test_a_loop_is_fed_step_by_step(tmp_path: Path) -> None:
    exported = export("fastgrnn_har", "fixed16")
    library, loop = OnHost(exported, tmp_path), exported.library.loop
    assert loop is not None
    x = samples_for(exported, 2)
    expected = run_reference(exported.compiled.program, quantize_inputs(exported.compiled.program, x)[0]).outputs
    for sample, outputs in zip(x, expected, strict=True):
        library.call("begin")
        out = np.full(len(outputs), 7, np.int16)
        assert library.call("finish_codes", out) == -1
        assert (out == 7).all()
        left = [library.call("step", np.ascontiguousarray(row)) for row in sample]
        assert left == list(range(loop.count - 1, -1, -1))
        assert library.call("step", np.ascontiguousarray(sample[0])) == -1
        library.call("finish_codes", out)
        np.testing.assert_array_equal(out, outputs)
        assert library.call("finish_codes", out) == -1


@pytest.mark.parametrize("format_", ["fixed16", "fixed5", "int8", "int16x8", "float16", "posit8es1"])
def test_real_numbers_become_codes_as_the_reference_does(format_: str, tmp_path: Path) -> None:
    """Ties, neighbours of ties, ends, zeros of both signs, subnormal numbers, infinities and NaN."""
    exported = export("digits_mlp", format_)
    library, fmt = OnHost(exported, tmp_path), exported.library.input.format
    storage = storage_dtype(fmt)
    every = np.arange(1 << min(fmt.bits, 12)) - (1 << min(fmt.bits, 12)) // 2
    reals = np.ldexp(fmt.decode(every.astype(storage).astype(np.int64)), fmt.exponent)
    reals = np.sort(reals[np.isfinite(reals)])
    ties = ((reals[1:] + reals[:-1]) / 2).astype(np.float32)
    near = [
        ties,
        np.nextafter(ties, np.float32(np.inf)),
        np.nextafter(ties, np.float32(-np.inf)),
        reals.astype(np.float32),
    ]
    special = np.array([0, -0.0, 1e-40, -1e-40, 3e38, -3e38, np.inf, -np.inf, np.nan, 1e-7], np.float32)
    values = np.concatenate([*near, special])
    count = exported.library.input.count
    values = np.resize(values, (-(-len(values) // count), count))
    expected, _ = quantize_inputs(exported.compiled.program, values)
    np.testing.assert_array_equal(np.array([library.quantize(row) for row in values]), expected)


@pytest.mark.parametrize("format_", ["fixed8", "fixed16", "int8"])
def test_columns_of_their_own_scale_are_mapped_by_the_library(format_: str, tmp_path: Path) -> None:
    """Real numbers in, whatever their columns reach: the codes are those the bench sends."""
    random, scales = np.random.default_rng(0), np.array([1e-3, 1.0, 5e3], np.float32)
    weights = random.normal(size=(3, 2)).astype(np.float32) / scales[:, None]
    graph = load(simple([node("MatMul", "x w", "y")], {"x": (1, 3)}, {"w": weights}), tmp_path)
    x = random.normal(size=(200, 1, 3)).astype(np.float32) * scales + scales
    opened = open_model(str(tmp_path / "m.onnx"))
    ranges = calibrate(graph, x[:100], {"name": "test"})
    compiled = compile_model(opened.model, Assignment(format_), ranges, (), ())
    assert compiled.program.columns is not None
    check_codes(compiled, x, tmp_path)


@pytest.mark.parametrize("format_", ["fixed8", "fixed3", "fixed16", "int8", "float32", "posit8es1", "fp8e4m3"])
@pytest.mark.parametrize("last", ["Sigmoid", "HardSigmoid", "Identity"])
def test_one_probability_says_yes_above_a_half(last: str, format_: str, tmp_path: Path) -> None:
    """A Sigmoid's lies above zero whatever it says; a score says yes there."""
    nodes = [node("MatMul", "x w", "s"), node(last, "s", "p"), node("Reshape", "p shape", "y")]
    constants = {"w": np.array([[1.0], [0.5]], np.float32), "shape": np.array([1], np.int64)}
    load(simple(nodes, {"x": (1, 2)}, constants), tmp_path)
    opened = open_model(str(tmp_path / "m.onnx"))
    x = np.random.default_rng(3).normal(size=(40, 1, 2)).astype(np.float32) * 3
    x[0] = 0.0  # a half, or zero: no
    ranges = calibrate(opened.model.graph, x, {"name": "test"})
    compiled = compile_model(opened.model, Assignment(format_), ranges, (), ())
    made = library_of(compiled, "m", None, "static", ())
    library = OnHost(Exported(compiled, made, packed("cmake", made, [])), tmp_path)
    graph, codes = opened.model.graph, quantize_inputs(compiled.program, x)[0]
    reals = dequantize_outputs(compiled.program, run_reference(compiled.program, codes).outputs)
    expected = reals[:, 0] > (0.5 if last != "Identity" else 0.0)
    assert 0 < expected.sum() < 40
    assert classes_of(graph, reals).tolist() == expected.tolist()
    assert [library.run(one)[0] for one in codes] == expected.tolist()
    assert [library.predict(one)[0] for one in x] == expected.tolist()


def test_an_input_of_whole_numbers_is_cut_by_the_library(tmp_path: Path) -> None:
    """As the file's cast does; what is beyond the format saturates."""
    nodes = [node("Cast", "x", "i", to=7), node("Gather", "w i", "y")]
    load(simple(nodes, {"x": (1, 8)}, {"w": np.ones((9, 2), np.float32)}), tmp_path)
    x = np.array([[0.5, -0.5, 1.99, -1.99, 3e9, -3e9, 40000.7, -0.0]], np.float32)
    opened = open_model(str(tmp_path / "m.onnx"))
    ranges = calibrate(opened.model.graph, np.ones((1, 1, 8), np.float32), {"name": "test"})
    compiled = compile_model(opened.model, Assignment("int8"), ranges, (), ())
    assert quantize_inputs(compiled.program, x)[0].tolist() == [[0, 0, 1, -1, 32767, -32768, 32767, 0]]
    check_codes(compiled, x, tmp_path)


def check_codes(compiled: Compiled, x: np.ndarray, folder: Path) -> None:
    made = library_of(compiled, "m", None, "static", ())
    library = OnHost(Exported(compiled, made, packed("cmake", made, [])), folder / "library")
    codes, _ = quantize_inputs(compiled.program, x)
    np.testing.assert_array_equal(np.array([library.quantize(row) for row in x]), codes)


def test_two_libraries_in_one_program_and_c_calls_them(tmp_path: Path) -> None:
    """Of different versions: the kernels of the second are not those of the first."""
    first, second = export("digits_mlp", "fixed8", name="first"), export("digits_mlp", "fixed16", name="second")
    sources = [first.write(tmp_path), second.write(tmp_path)]
    altered = sources[1] / "second_kernels" / "numeric.hpp"
    text = altered.read_text()
    assert "++saturations;" in text
    altered.write_text(text.replace("struct Const {", "struct Const {\n    static constexpr int version = 2;"))
    (tmp_path / "app.c").write_text(
        '#include <stdio.h>\n#include "first.h"\n#include "second.h"\n'
        "static float in[FIRST_INPUTS], out[FIRST_OUTPUTS];\n"
        "int main(void) {\n    int n;\n"
        "    for (n = 0; n < FIRST_INPUTS; ++n) in[n] = (float)(n % 16);\n"
        '    printf("%d", first_predict(in, out));\n    printf(" %d\\n", second_predict(in, out));\n    return 0;\n}\n'
    )
    includes = [f"-I{folder}" for folder in sources]
    objects = []
    for folder, name in zip(sources, ("first", "second"), strict=True):
        objects.append(str(tmp_path / f"{name}.o"))
        subprocess.run(["g++", "-std=c++11", "-c", str(folder / f"{name}.cpp"), "-o", objects[-1]], check=True)
    c_flags = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", *includes]
    subprocess.run(["gcc", *c_flags, "-c", str(tmp_path / "app.c"), "-o", str(tmp_path / "app.o")], check=True)
    subprocess.run(["gcc", str(tmp_path / "app.o"), *objects, "-o", str(tmp_path / "app")], check=True)
    said = subprocess.run([str(tmp_path / "app")], capture_output=True, text=True, check=True).stdout
    x = (np.arange(64) % 16).astype(np.float32)[None]
    expected = []
    for exported in (first, second):
        program = exported.compiled.program
        found = run_reference(program, quantize_inputs(program, x)[0]).outputs
        expected.append(str(classes_of(exported.compiled.model.graph, dequantize_outputs(program, found))[0]))
    assert said.split() == expected


def symbols(exported: Exported, folder: Path, compiler: str, *flags: str) -> set[str]:
    """What the object of a library defines for the linker."""
    sources, built = exported.write(folder), folder / f"{exported.prefix}.o"
    command = [compiler, "-std=gnu++11", "-Os", *flags, "-c", str(sources / f"{exported.prefix}.cpp"), "-o", str(built)]
    subprocess.run(command, check=True, capture_output=True)
    tool = [compiler.replace("g++", "nm"), "-g", "--defined-only", str(built)]
    listed = subprocess.run(tool, check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in listed.splitlines()}


@pytest.mark.parametrize(
    ("board", "format_"),
    [
        ("uno", "fixed8"),
        ("h747", "int8"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("uno", "int8"), ("due", "fixed8"), ("", "posit8es0"))
        ),
    ],
)
def test_libraries_share_no_symbol(board: str, format_: str, tmp_path: Path) -> None:
    """What the linker sees of a library bears its name, routines in assembler as well: versions may differ."""
    processor = next(found for found in PROCESSORS if (board or "due") in found.name.lower())
    compiler, flags = processor.compiler, processor.flags
    seen = []
    for name in ("left", "right"):
        exported = export("digits_cnn", format_, name=name, board=board or None)
        seen.append(symbols(exported, tmp_path, compiler, *flags))
        assert not [symbol for symbol in seen[-1] if name not in symbol]
        assert {symbol for symbol in seen[-1] if not symbol.startswith("_Z")} == set(
            re.findall(rf"\b({name}_\w+)\(", exported.files[f"{name}/src/{name}.h"])
        )
    assert len(seen[0]) == len(seen[1]) > 2
    assert not seen[0] & seen[1]
    objects = [str(tmp_path / "left.o"), str(tmp_path / "right.o")]
    subprocess.run([compiler, *flags, "-r", "-nostdlib", *objects, "-o", str(tmp_path / "both.o")], check=True)


def test_every_file_names_its_licence_and_nothing_of_the_bench_is_inside(tmp_path: Path) -> None:
    archive = tmp_path / "x.zip"
    assert hil("export", "cmake", "digits_mlp", "--out", archive, "--format", "fixed8", cwd=tmp_path).returncode == 0
    for kind in KINDS:
        files = export("digits_mlp", "fixed8", kind=kind).files
        assert {"digits_mlp/LICENSE", "digits_mlp/NOTICE", "digits_mlp/README.md"} <= set(files)
        assert kind != "cmake" or sorted(unpacked(archive, tmp_path)) == sorted(files)
        for name, text in files.items():
            if not name.endswith("LICENSE"):
                assert "SPDX-License-Identifier: Apache-2.0" in "\n".join(text.splitlines()[:3]), name
            assert "firmware/" not in text.replace("firmware, ", ""), name
            if name.endswith((".hpp", ".cpp", ".h")):
                assert not re.search(r"\bmalloc|\bnew\b(?! )|wire|\bmain\(", re.sub(r"//.*", "", text)), name


OLD_COMPILERS = {
    "avr-g++ as C++98": ["avr-g++", "-mmcu=atmega328p", "-std=gnu++98"],
    "g++ as C++98": ["g++", "-std=c++98"],
    "arm-none-eabi-g++ with -ffast-math": ["arm-none-eabi-g++", "-mcpu=cortex-m7", "-std=c++14", "-ffast-math"],
}


@pytest.mark.parametrize("compiler", OLD_COMPILERS)
def test_a_compiler_that_will_not_do_gets_one_error(compiler: str, tmp_path: Path) -> None:
    sources = export("digits_mlp", "fixed8").write(tmp_path)
    command = [*OLD_COMPILERS[compiler], "-c", str(sources / "digits_mlp.cpp"), "-o", str(tmp_path / "x.o")]
    done = subprocess.run(command, capture_output=True, text=True)
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    assert done.returncode == 1
    assert len(errors) == 1
    assert "digits_mlp" in errors[0].split("#error")[1]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["digits_mlp", "--out", "x.tar"], 2, "is one .zip file"),
        (["digits_mlp", "--out", "nowhere/x.zip"], 2, "there is no folder"),
        (["digits_mlp", "--out", "x.zip", "--name", "class"], 2, "no name for a C library; try 'class_net'"),
        (["digits_mlp", "--out", "x.zip", "--name", "a__b"], 2, "try 'a_b'"),
        (["digits_mlp", "--out", "x.zip", "--name", "Ünïcode"], 2, "no name for a C library"),
        (["digits_mlp", "--out", "x.zip", "--classes", "a,b"], 2, "2 class names, but the model has 10 outputs"),
        (["digits_mlp", "--out", "x.zip", "--format", "fixed99"], 2, "fixed99"),
        (["nothing_here", "--out", "x.zip"], 2, "no model 'nothing_here'"),
        (["digits_mlp", "--out", "x.zip", "--record", "none.json"], 2, "none.json: no such file"),
    ],
)
def test_what_can_not_be_exported_is_said_in_one_line(
    arguments: list[str], code: int, said: str, tmp_path: Path
) -> None:
    done = hil("export", "arduino", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1)
    assert said in done.stderr
    assert not list(tmp_path.iterdir())


def test_an_operator_that_can_not_be_exported_is_named(tmp_path: Path) -> None:
    onnx.save(simple([node("DeformConv", "x", "y")], {"x": (1, 3, 3)}), tmp_path / "model.onnx")
    done = hil("export", "cmake", "model.onnx", "--out", "x.zip", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "DeformConv" in done.stderr


def test_a_record_s_figures_are_in_the_read_me(tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(0, 4, (3, 1, 1, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    common = ["--inputs", str(tmp_path / "x.npz"), "--results", str(tmp_path / "results"), "--format", "fixed8"]
    assert hil("run", "--board", "host", "--model", "digits_mlp", *common, cwd=tmp_path).returncode == 0
    (record,) = (tmp_path / "results").rglob("*.json")
    base = ["export", "arduino", "digits_mlp", "--out", str(tmp_path / "x.zip"), "--record"]
    assert hil(*base, record, "--format", "fixed8", cwd=tmp_path).returncode == 0
    unpacked(tmp_path / "x.zip", tmp_path)
    figures = json.loads(record.read_text())
    text = (tmp_path / "digits_mlp" / "README.md").read_text()
    assert f"{figures['flash_bytes']:,} B" in text
    assert f"median {figures['latency']['median']:,.0f}" in text
    done = hil(*base, record, "--format", "fixed16", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "measured in fixed8; export it with --format fixed8, or measure it as here" in done.stderr
    done = hil("run", "--board", "due", "--model", "digits_mlp", *common, "--samples", 1, cwd=tmp_path)
    (record,) = (tmp_path / "results" / "due").rglob("*.json")
    done = hil(*base, record, "--format", "fixed8", cwd=tmp_path)  # the same program, in other calls
    check_failure(done, 2, "measured on due, whose core has calls of its own; export it with --board due")
    assert hil("run", "--board", "nucleo_l4r5", "--model", "digits_cnn", *common, cwd=tmp_path).returncode == 0
    (record,) = (tmp_path / "results" / "nucleo_l4r5").rglob("*.json")
    base[2] = "digits_cnn"
    done = hil(*base, record, "--format", "fixed8", cwd=tmp_path)
    assert "measured on nucleo_l4r5, whose core has calls of its own; export it with --board" in done.stderr
    done = hil(*base, record, "--format", "int8", "--prefer", "ram", cwd=tmp_path)
    assert "export it with --board nucleo_l4r5 --format fixed8 --prefer balanced, or" in done.stderr, "all at once"
    own = [*base, record, "--format", "fixed8", "--board"]
    assert hil(*own, "nucleo_l4r5", cwd=tmp_path).returncode == 0
    assert "measured on nucleo_l4r5; export it with --board nucleo_l4r5" in hil(*own, "pico", cwd=tmp_path).stderr
    other_plan = hil(*own, "nucleo_l4r5", "--prefer", "ram", cwd=tmp_path).stderr
    assert "measured with --prefer balanced; export it with --prefer balanced, or" in other_plan


def test_a_read_me_says_what_has_which_format(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("default: fixed8\nvalues: {logits: fixed16}\n")
    done = hil("export", "header", "digits_mlp", "--assignment", "w.yaml", "--out", "x.zip", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    unpacked(tmp_path / "x.zip", tmp_path)
    assert "in fixed8, but fixed16 of logits." in (tmp_path / "digits_mlp" / "README.md").read_text()


def test_a_library_takes_no_more_ram_than_it_may(tmp_path: Path) -> None:
    """Arena and a sample's codes, as `hil run --ram` counts; the record of such a run is of no other plan."""
    given = ["export", "cmake", "digits_cnn", "--format", "int8", "--out", "x.zip"]
    for board in ((), ("--board", "pico")):
        taken = []
        for limit in (1224, 640, 300):
            done = hil(*given, *board, "--ram", limit, cwd=tmp_path)
            assert done.returncode == 0, done.stderr
            taken += map(int, re.findall(r"arena (\d+) B = ", done.stderr))
        assert 1224 >= taken[0] > 640 >= taken[1] > 300 >= taken[2]
        check_failure(hil(*given, *board, "--ram", 200, cwd=tmp_path), 4, "--ram")
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(1).normal(0, 4, (2, 1, 1, 8, 8)).astype(np.float32))
    run = ["run", "--board", "host", "--model", "digits_cnn", "--format", "int8", "--inputs", "x.npz", "--ram", 700]
    assert hil(*run, cwd=tmp_path).returncode == 0
    (record,) = (tmp_path / "results").rglob("*.json")
    recorded = [*given, "--record", record]
    assert hil(*recorded, "--ram", 700, cwd=tmp_path).returncode == 0
    check_failure(hil(*recorded, cwd=tmp_path), 2, "--ram 700`; export it with its --ram, or its --assignment")


def test_packages_hold_to_their_formats_and_cmake_finds_one(tmp_path: Path) -> None:
    from platformio.package.manifest.parser import ManifestParserFactory
    from platformio.package.manifest.schema import ManifestSchema

    for kind, name in (("arduino", "library.properties"), ("platformio", "library.json")):
        exported = export("digits_mlp", "fixed8", kind=kind)
        exported.write(tmp_path / kind)
        parsed = ManifestParserFactory.new_from_file(str(tmp_path / kind / "digits_mlp" / name)).as_dict()
        assert parsed.pop("license", "Apache-2.0") == "Apache-2.0"  # its list of licences is on the network
        assert ManifestSchema().load_manifest(parsed)["name"] == "digits_mlp"
    export("digits_mlp", "fixed8", kind="cmake").write(tmp_path / "cmake")
    source, prefix = tmp_path / "cmake" / "digits_mlp", tmp_path / "prefix"
    app = tmp_path / "app"
    app.mkdir()
    (app / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(app C CXX)\nfind_package(digits_mlp REQUIRED)\n"
        "add_executable(app main.c)\ntarget_link_libraries(app PRIVATE digits_mlp::digits_mlp)\n"
        "set_target_properties(app PROPERTIES LINKER_LANGUAGE C)\n"
    )
    (app / "main.c").write_text((source / "examples" / "main.c").read_text())
    (typed,) = re.findall(r"`(cmake [^`]*)`", (source / "README.md").read_text())
    assert "PREFIX" in typed
    subprocess.run(typed.replace("PREFIX", str(prefix)), shell=True, cwd=source.parent, check=True, capture_output=True)
    for command in (
        ["cmake", "-S", app, "-B", tmp_path / "app_build", f"-DCMAKE_PREFIX_PATH={prefix}"],
        ["cmake", "--build", tmp_path / "app_build"],
    ):
        subprocess.run(list(map(str, command)), check=True, capture_output=True)
    (app / "CMakeLists.txt").write_text(  # as a project of STM32CubeMX: it knows no C++ itself
        "cmake_minimum_required(VERSION 3.13)\nproject(app C)\nadd_executable(app main.c)\n"
        f"add_subdirectory({source} digits_mlp)\ntarget_link_libraries(app digits_mlp::digits_mlp)\n"
    )
    for command in (["-S", app, "-B", tmp_path / "c_alone"], ["--build", tmp_path / "c_alone"]):
        subprocess.run(["cmake", *map(str, command)], check=True, capture_output=True)
    numbers = " ".join(str(n % 16) for n in range(64))
    program = tmp_path / "app_build" / "app"
    said = subprocess.run([str(program)], input=numbers, capture_output=True, text=True, check=True).stdout
    library = OnHost(export("digits_mlp", "fixed8"), tmp_path / "host")
    assert int(said) == library.predict((np.arange(64) % 16).astype(np.float32))[0]


@pytest.mark.parametrize("arena", ["static", "caller"])
@pytest.mark.parametrize("model", ["digits_mlp", "fastgrnn_har"])
def test_calls_of_the_read_me_compile(model: str, arena: str, tmp_path: Path) -> None:
    """Every call that the generated page names, in a C program that declares what it passes."""
    export(model, "fixed8", arena=arena, kind="cmake").write(tmp_path)
    page = (tmp_path / model / "README.md").read_text()
    up, calls = model.upper(), re.findall(rf"`({model}_\w+\([^`]*\))`", page)
    assert len(calls) == (1 if model == "digits_mlp" else 4)
    assert all(("arena" in call) == (arena == "caller") for call in calls)
    row = f"static float row[{up}_INPUTS];\n" if len(calls) > 1 else ""
    (tmp_path / "main.c").write_text(
        f"#include <{model}.h>\nstatic float in[{up}_INPUTS], out[{up}_OUTPUTS];\n{row}"
        f"static uint32_t arena[({up}_ARENA_BYTES + 3) / 4];\n"
        f"int main(void) {{ (void)arena; {'; '.join(calls)}; return 0; }}\n"
    )
    command = ["gcc", "-Werror", "-fsyntax-only", "-I", tmp_path / model / "src", tmp_path / "main.c"]
    subprocess.run(list(map(str, command)), check=True)


@pytest.mark.parametrize("arena", ["static", "caller"])
def test_there_is_no_memory_beyond_the_arena(arena: str, tmp_path: Path) -> None:
    exported = export("fastgrnn_har", "fixed8", arena=arena)
    sources = exported.write(tmp_path)
    for processor in PROCESSORS:
        for function, own in (("run", exported.library.run_bytes), ("predict", exported.library.predict_bytes)):
            sizes = measure(exported.library, processor, sources, function)
            assert sizes.ram_bytes == (own if arena == "static" else 0)
            assert 2500 < sizes.flash_bytes < 7000
        tool = processor.compiler.replace("g++", "nm")
        symbols = subprocess.run([tool, "-C", sources / "fastgrnn_har.o"], capture_output=True, text=True, check=True)
        variables = re.findall(r" [bBdDC] (.*)", symbols.stdout)
        names = {"hil_arena", "hil_codes"} if arena == "static" else set()
        assert {name.split("::")[-1] for name in variables} == names
        needed = set(re.findall(r"^ +U (\S+)", symbols.stdout, re.MULTILINE))
        assert not [name for name in needed if re.search(r"alloc|new|free|print|atexit|guard", name)]
