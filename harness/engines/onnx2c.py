"""onnx2c: an ONNX file becomes one C file in float32, nothing is planned or quantized."""

from __future__ import annotations

import hashlib
import shutil
from importlib.util import find_spec
from math import prod
from pathlib import Path

from tinyhil import files
from tinyhil.errors import BuildError, ModelError
from tinyhil.harness.engines.engine import Built, Engine, Tap, Task
from tinyhil.harness.engines.host_tool import HostTool, said, tool_of
from tinyhil.harness.engines.objects import Recipe, archive, engine_folder, header_of_bench
from tinyhil.harness.engines.port import Port
from tinyhil.language.graph import Graph

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
    tool = tool_of(_tool(task), task)
    model, taps = (task.model.read_bytes(), ()) if not task.tells else with_all_outputs(task.model.read_bytes(), graph)
    stem = f"onnx2c-{hashlib.sha256(model).hexdigest()[:16]}"
    file, generated, glue = (engine_folder(task) / f"{stem}{ending}" for ending in (".onnx", ".inc", ".c"))
    files.write_bytes(file, model)
    files.write_text(generated, said([str(tool), str(file)], task, PROTOBUF))
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


def _tool(task: Task) -> HostTool:
    """The translator; BuildError without protobuf or the package onnx, whose description of the format it takes."""
    protoc, found = shutil.which("protoc"), find_spec("onnx")
    if protoc is None or found is None or found.origin is None:
        raise BuildError(f"onnx2c: protoc is not installed; run: {PROTOBUF}")
    proto, source = Path(found.origin).parent, task.source / "src"

    def units(folder: Path) -> list[Path]:
        said([protoc, f"--cpp_out={folder}", f"-I{proto}", str(proto / "onnx.proto")], task, PROTOBUF)
        return [*sorted(source.rglob("*.cc")), *sorted(source.rglob("*.cpp")), folder / "onnx.pb.cc"]

    def includes(folder: Path) -> list[Path]:
        return [folder, source, task.source / "aixlog", task.source / "args", *_headers(task)]

    return HostTool("onnx2c", task.source, units, includes, ("-lprotobuf",), PROTOBUF)


def _headers(task: Task) -> list[Path]:
    """Folders that hold the headers of aixlog and args, wherever the checkout has its submodules."""
    found = (path.parent for name in ("aixlog.hpp", "args.hxx") for path in sorted(task.source.rglob(name)))
    return list(dict.fromkeys(found))


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
