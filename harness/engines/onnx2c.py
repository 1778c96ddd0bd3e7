"""onnx2c: an ONNX file becomes one C file in float32, nothing is planned or quantized."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from importlib.util import find_spec
from math import prod
from pathlib import Path

import filelock

from tinyhil import files
from tinyhil.errors import BuildError, ModelError
from tinyhil.harness.build.toolchain import clean_environment
from tinyhil.harness.engines.engine import Built, Engine, Tap, Task, tree_hash
from tinyhil.harness.engines.objects import Recipe, archive, engine_folder, header_of_bench
from tinyhil.harness.engines.port import Port
from tinyhil.language.graph import Graph
from tinyhil.processes import run

TOOL_S, CONVERT_S = 1800.0, 300.0
PROTOBUF = "sudo apt-get install protobuf-compiler libprotobuf-dev"
GLUE = """\
#include "{generated}"

#include "firmware/bench/hil_bench.h"

static float input[{inputs}], output[{outputs}]{tensors};
void hil_engine_init(void) {{}}
void *hil_engine_input(void) {{ return input; }}
void hil_engine_invoke(void) {{ entry((const void *)input, (void *)output{arguments}); }}
const void *hil_engine_output(void) {{ return output; }}
const void *hil_engine_tensor(uint16_t number) {{
    static const void *const all[] = {{0{arguments}, output}};
    return all[number + 1];
}}
"""


def build(task: Task) -> Built:
    """BuildError without protobuf, or where onnx2c refuses the model; ModelError for several inputs or outputs."""
    graph = task.opened.model.graph
    if len(graph.inputs) != 1 or len(graph.outputs) != 1:
        raise ModelError(f"{task.model}: {len(graph.inputs)} inputs and {len(graph.outputs)} outputs; one of each")
    inputs, outputs = (prod(graph.shapes[ends[0]]) for ends in (graph.inputs, graph.outputs))
    tool = _tool(task)
    model, taps = (task.model.read_bytes(), ()) if not task.tells else with_all_outputs(task.model.read_bytes(), graph)
    stem = f"onnx2c-{hashlib.sha256(model).hexdigest()[:16]}"
    file, generated, glue = (engine_folder(task) / f"{stem}{ending}" for ending in (".onnx", ".inc", ".c"))
    files.write_bytes(file, model)
    files.write_text(generated, _said([str(tool), str(file)], CONVERT_S, task))
    inner = taps[:-1]  # the last is the output
    tensors = "".join(f", tensor_{number}[{prod(tap.shape)}]" for number, tap in enumerate(inner))
    arguments = "".join(f", (void *)tensor_{number}" for number in range(len(inner)))
    sizes = {"inputs": inputs, "outputs": outputs, "tensors": tensors, "arguments": arguments}
    files.write_text(glue, GLUE.format(generated=generated, **sizes))
    made = archive(task, [(glue, Recipe((header_of_bench(task), f"-DHIL_OF={hash_of(generated)}")))])
    return Built(Port("float32"), Port("float32"), inputs, outputs, archive=made, taps=taps)


def with_all_outputs(data: bytes, graph: Graph) -> tuple[bytes, tuple[Tap, ...]]:
    """The file with what its nodes compute in float32 as further outputs, as far as the graph has it under its name."""
    import onnx

    model = onnx.load_model_from_string(data)
    output = model.graph.output[0].name
    names = [name for node in model.graph.node for name in node.output if name in graph.shapes and name != output]
    made = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, graph.shapes[name]) for name in names]
    model.graph.output.extend(made)
    taps = [Tap(name, Port("float32"), graph.shapes[name]) for name in (*names, output)]
    return model.SerializeToString(), tuple(taps)


def hash_of(path: Path) -> str:
    """Of a file that another includes, as the value of a macro: the object is made anew when it changes."""
    return f"0x{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}"


def _tool(task: Task) -> Path:
    """The translator, compiled once for a state of the checkout."""
    folder = engine_folder(task) / f"onnx2c-{tree_hash(task.source)[:16]}"
    files.own_folder(folder, BuildError)
    with filelock.FileLock(f"{folder}.lock"):
        tool = folder / "onnx2c"
        if not tool.is_file():
            _compile_tool(task, folder, tool)
        return tool


def _compile_tool(task: Task, folder: Path, tool: Path) -> None:
    protoc, compiler = shutil.which("protoc"), shutil.which("g++")
    found = find_spec("onnx")
    if protoc is None or compiler is None or found is None or found.origin is None:
        raise BuildError(f"onnx2c: {'protoc' if protoc is None else 'g++'} is not installed; run: {PROTOBUF}")
    task.say("onnx2c: compiling the translator, which takes a minute or two")
    proto = Path(found.origin).parent
    _said([protoc, f"--cpp_out={folder}", f"-I{proto}", str(proto / "onnx.proto")], CONVERT_S, task)
    source = task.source / "src"
    units = [*sorted(source.rglob("*.cc")), *sorted(source.rglob("*.cpp")), folder / "onnx.pb.cc"]
    includes = [f"-I{path}" for path in (folder, source, task.source / "aixlog", task.source / "args", *_headers(task))]
    objects: list[Path] = []
    for unit in units:
        objects.append(folder / f"{unit.stem}-{len(objects)}.o")
        _said([compiler, "-std=c++20", "-O1", "-w", *includes, "-c", str(unit), "-o", str(objects[-1])], TOOL_S, task)
    partial = folder / "onnx2c.tmp"
    _said([compiler, *map(str, objects), "-o", str(partial), "-lprotobuf"], TOOL_S, task)
    partial.replace(tool)


def _headers(task: Task) -> list[Path]:
    """Folders that hold the headers of aixlog and args, wherever the checkout has its submodules."""
    found = (path.parent for name in ("aixlog.hpp", "args.hxx") for path in sorted(task.source.rglob(name)))
    return list(dict.fromkeys(found))


def _said(command: list[str], limit_s: float, task: Task) -> str:
    try:
        done = run(command, limit_s, env=clean_environment())
    except subprocess.TimeoutExpired:
        raise BuildError(f"{command[0]}: no end within {limit_s:.0f} s; {task.model}") from None
    except OSError as error:
        raise BuildError(f"{command[0]} does not run: {error.strerror}; run: {PROTOBUF}") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "rror" in line or "atal" in line]
        why = (lines or done.stderr.splitlines()[-1:] or ["no message"])[0]
        raise BuildError(f"onnx2c: {Path(command[-1]).name}: {why.strip()[:200]}")
    return done.stdout


ONNX2C = Engine(
    "onnx2c",
    "onnx2c, float32",
    "MIT",
    (".onnx",),
    ("git clone --recurse-submodules https://github.com/kraiskil/onnx2c", PROTOBUF),
    "onnx2c",
    "src/graph.cc",
    build,
)
