"""ExecuTorch: its runtime and the operators of its Cortex-M backend, which calls CMSIS-NN. The program is written here
from a .tflite file (executorch_program.py) by its own schema; flatc is compiled of the checkout's submodule."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from pathlib import Path

from tinyhil import files
from tinyhil.errors import BuildError, ConfigError, DoesNotFit
from tinyhil.frontend.tflite_file import read_file
from tinyhil.harness.engines.engine import Built, Engine, Tap, Task, tree_hash
from tinyhil.harness.engines.executorch_program import Program, packed, program_of
from tinyhil.harness.engines.host_tool import HostTool, said, tool_of
from tinyhil.harness.engines.objects import Recipe, archive, engine_folder, header_of_bench
from tinyhil.harness.engines.tflite_ends import MOST_MODEL_BYTES, ends_of, port_of
from tinyhil.passes.variants import DSP

RUNTIME = (
    "runtime/core/*.cpp",
    "runtime/core/portable_type/*.cpp",
    "runtime/core/exec_aten/util/tensor_util_portable.cpp",
    "runtime/executor/*.cpp",
    "runtime/kernel/*.cpp",
    "runtime/platform/*.cpp",
    "runtime/platform/default/minimal.cpp",
    "runtime/backend/*.cpp",
    "schema/*.cpp",
    "kernels/portable/cpu/util/broadcast_util.cpp",
    "kernels/portable/cpu/util/kernel_ops_util.cpp",
    "kernels/portable/cpu/util/dtype_util.cpp",
)
LEFT_OUT = re.compile(r"tensor_parser_aten|_test|test_|_f16|_f32")
OPERATORS, KERNELS = "backends/cortex_m/ops/operators.yaml", "backends/cortex_m/ops"
SUBMODULE = "third-party/flatbuffers"
SCHEMAS = ("program", "scalar_type")
FLAGS = (
    "-DC10_USING_CUSTOM_GENERATED_MACROS",
    "-DET_LOG_ENABLED=0",
    "-DET_ENABLE_PROGRAM_VERIFICATION=0",
    "-DFLATBUFFERS_MAX_ALIGNMENT=1024",
)
RUNTIME_BYTES = 1 << 16  # what the runtime may take for values and instructions before it has said how much it needs
KERNEL = """\
#include "{file}"
#include <executorch/extension/kernel_util/make_boxed_from_unboxed_functor.h>
static constexpr char name[] = "{name}";
executorch::runtime::Kernel {function}() {{
    return executorch::extension::make_boxed_kernel(name, EXECUTORCH_FN({kernel}, name));
}}
"""
GLUE = """\
#include "firmware/bench/hil_bench.h"
#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/program.h>
#include <executorch/runtime/platform/runtime.h>
#include <new>
#include <utility>

using namespace executorch::runtime;
{declared}
extern "C" {{
extern const unsigned char hil_engine_model[];
uint32_t hil_engine_arena_bytes;
void __cxa_pure_virtual() {{ __builtin_trap(); }}
}}
void operator delete(void *) noexcept {{}}
void operator delete(void *, unsigned {size}) noexcept {{}}
__asm__(".section .rodata.hil_engine_model,\\"a\\"\\n.balign {alignment}\\n.global hil_engine_model\\n"
        "hil_engine_model:\\n.incbin \\"{model}\\"\\n.text\\n");

namespace {{
alignas(16) uint8_t arena[{arena}];
constexpr uint32_t planned_bytes = {planned};
template <typename T> struct Place {{ alignas(T) uint8_t bytes[sizeof(T)]; }};
Place<executorch::extension::BufferDataLoader> loader_place;
Place<Program> program_place;
Place<Span<uint8_t>> span_place;
Place<HierarchicalAllocator> memory_place;
Place<MemoryAllocator> rest_place;
Place<MemoryManager> manager_place;
Place<Method> method_place;
Method *method;

template <typename T, typename... A> T *placed(Place<T> &place, A &&...a) {{
    return new (place.bytes) T(std::forward<A>(a)...);
}}
template <typename T> T &&sure(Result<T> &&result) {{
    if (!result.ok()) __builtin_trap();
    return std::move(result.get());
}}
}}

extern "C" void hil_engine_init(void) {{
    runtime_init();
    const Kernel kernels[] = {{{made}}};
    if (register_kernels({{kernels, {count}}}) != Error::Ok) __builtin_trap();
    auto *const loader = placed(loader_place, hil_engine_model, size_t({bytes}));
    auto *const program = placed(program_place, sure(Program::load(loader)));
    auto *const span = placed(span_place, arena, planned_bytes);
    auto *const memory = placed(memory_place, Span<Span<uint8_t>>(span, 1));
    auto *const rest = placed(rest_place, uint32_t(sizeof arena - planned_bytes), arena + planned_bytes);
    auto *const manager = placed(manager_place, rest, memory);
    method = placed(method_place, sure(program->load_method("forward", manager)));
    if (method->set_input(method->get_input(0), 0) != Error::Ok) __builtin_trap();
    hil_engine_arena_bytes = planned_bytes + rest->used_size();
}}
extern "C" void *hil_engine_input(void) {{ return method->mutable_input(0).toTensor().mutable_data_ptr(); }}
extern "C" void hil_engine_invoke(void) {{ if (method->execute() != Error::Ok) __builtin_trap(); }}
extern "C" const void *hil_engine_output(void) {{ return method->get_output(0).toTensor().const_data_ptr(); }}
extern "C" const void *hil_engine_tensor(uint16_t number) {{
    static const uint32_t offsets[] = {{{offsets}}};
    return arena + offsets[number];
}}
"""


def build(task: Task) -> Built:
    """BuildError or ModelError where it can not be: an operator that the backend has not, a core of 8 bits; DoesNotFit
    where no RAM is left for its arena."""
    core = task.board.chip.core
    if core == "avr":
        raise BuildError(f"{task.board.name}: ExecuTorch is for 32 bits and more; choose another board")
    if task.source.resolve().name != "executorch":
        raise BuildError(f"{task.source}: ExecuTorch's sources include executorch/...; name the folder executorch")
    content = read_file(files.read_bytes(task.model, "model", MOST_MODEL_BYTES))
    ends = ends_of(content, task)
    program = program_of(content, has_dsp=core in DSP, shares=not task.tells)
    numbers = [n for one in content.operations for n in one.outputs if n in program.offsets]
    taps = [Tap(content.tensors[n].name, port_of(content.tensors[n], codes=False), content.tensors[n].shape)
            for n in numbers]  # fmt: skip
    model = _written(task, program)
    cmsis = _cmsis_nn(task.source)
    planned = -(-program.planned_bytes // 16) * 16

    def sized(most: int, used: int | None = None) -> Built:
        made = _archive(task, program, model, cmsis, (most, planned, [program.offsets[n] for n in numbers]))
        known = tuple(taps) if task.tells else ()
        again = None if used is not None else lambda used: sized(-(-used // 16) * 16, -(-used // 16) * 16)
        return Built(*ends, archive=made, arena_bytes=used, beside=(cmsis,), taps=known, resized=again)

    ram = task.board.chip.ram_bytes
    most = planned + RUNTIME_BYTES if not ram else min(planned + RUNTIME_BYTES, ram * 7 // 8 // 16 * 16)
    if most <= planned:
        raise DoesNotFit(f"{task.board.name}: ExecuTorch plans {planned} B of {ram} B of RAM; choose a board with more")
    return sized(most)


def _written(task: Task, program: Program) -> Path:
    """The program as a .pte file, written by the schema of the checkout."""
    stem = hashlib.sha256(f"{tree_hash(task.source)}{program.text}".encode() + program.constants).hexdigest()[:16]
    folder = engine_folder(task) / f"executorch-{stem}"
    files.own_folder(folder, BuildError)
    path = folder / "model.pte"
    if not path.is_file():
        files.write_text(folder / "flat.json", program.text)
        schema = str(task.source / "schema" / "program.fbs")
        said([str(_flatc(task)), "--binary", "-o", str(folder), schema, str(folder / "flat.json")], task, GET[1])
        files.write_bytes(path, packed((folder / "flat.pte").read_bytes(), program.constants))
    return path


def _headers(task: Task) -> Path:
    """The folder of the headers that flatc makes of the schema."""
    folder = engine_folder(task) / f"executorch-headers-{tree_hash(task.source)[:16]}"
    for one in (folder, folder / "executorch", folder / "executorch" / "schema"):
        files.own_folder(one, BuildError)
    schema, into = task.source / "schema", folder / "executorch" / "schema"
    if any(not (into / f"{name}_generated.h").is_file() for name in SCHEMAS):
        options = ["--cpp", "--cpp-std", "c++11", "--gen-mutable", "--scoped-enums", "-o", str(into)]
        said([str(_flatc(task)), *options, *(str(schema / f"{name}.fbs") for name in SCHEMAS)], task, GET[1])
    return folder


def _flatc(task: Task) -> Path:
    root = task.source / SUBMODULE
    if not (root / "src" / "flatc_main.cpp").is_file():
        raise BuildError(f"executorch: {root} is empty; run: {GET[1]}")

    def units(folder: Path) -> list[Path]:
        own = [one for one in sorted((root / "src").glob("*.cpp")) if one.name != "flathash.cpp"]
        return [*own, *sorted((root / "grpc" / "src" / "compiler").glob("*.cc"))]

    return tool_of(HostTool("flatc", root, units, lambda folder: [root / "include", root / "grpc", root]), task)


def _archive(task: Task, program: Program, model: Path, cmsis: Path, sizes: tuple[int, int, list[int]]) -> bytes:
    root, (arena_bytes, planned, offsets) = task.source, sizes
    places = (root.parent, _headers(task), root / "runtime/core/portable_type/c10", root / SUBMODULE / "include")
    includes = [*(f"-I{place}" for place in places), header_of_bench(task), f"-I{cmsis}", f"-I{cmsis}/Include"]
    recipe = Recipe((*FLAGS, f"-DMAX_KERNEL_NUM={len(program.operators)}", *includes, f"-DHIL_OF={tree_hash(cmsis)}"))
    functions, units = [], []
    for number, name in enumerate(program.operators):
        functions.append(f"hil_engine_kernel_{number}")
        units.append(_generated(task, name.split("::")[1], _kernel(root, name, functions[-1])))
    text = GLUE.format(
        declared="\n".join(f"Kernel {function}();" for function in functions),
        made=", ".join(f"{function}()" for function in functions),
        count=len(functions),
        size="long" if task.board.is_host else "int",
        alignment=16 if task.board.is_host else 8,  # of the widest type
        model=model.resolve(),
        bytes=model.stat().st_size,
        arena=arena_bytes,
        planned=planned,
        offsets=", ".join(map(str, offsets)),
    )
    units.append(_generated(task, "glue", text))
    units += [one for pattern in RUNTIME for one in sorted(root.glob(pattern))]
    units += sorted((cmsis / "Source").rglob("*.c"))
    return archive(task, [(unit, recipe) for unit in units if not LEFT_OUT.search(unit.name)])


def _generated(task: Task, name: str, text: str) -> Path:
    path = engine_folder(task) / f"executorch-{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.cpp"
    files.write_text(path, text)
    return path


def _kernel(root: Path, name: str, function: str) -> str:
    """The file that registers an operator. BuildError for one that the checkout has not."""
    there = _kernels(root).get(name)
    defined = None if there is None else re.compile(rf"^Tensor& {there.split('::')[-1]}\(", re.MULTILINE)
    found = next(
        (
            path
            for path in sorted((root / KERNELS).glob("op_*.cpp"))
            if defined and defined.search(path.read_text(encoding="utf-8"))
        ),
        None,
    )
    if there is None or found is None:
        raise BuildError(f"{root}: has no {name}; check out a version with it, 1.5 of September 2026 has")
    native = there.replace("cortex_m::", "cortex_m::native::")
    return KERNEL.format(file=found.resolve(), name=name, function=function, kernel=native)


@lru_cache
def _kernels(root: Path) -> dict[str, str]:
    """Operator with its overload -> its function."""
    text = (root / OPERATORS).read_text(encoding="utf-8")
    return dict(re.findall(r"^- func: ([\w:.]+)\(.*?kernel_name: ([\w:]+)", text, re.MULTILINE | re.DOTALL))


def _cmsis_nn(root: Path) -> Path:
    """Beside the checkout or in it. ConfigError without it."""
    place = next((one for one in (root.parent / "cmsis-nn", root / "cmsis-nn") if one.is_dir()), None)
    if place is None:
        raise ConfigError(f"{root}: no cmsis-nn beside it; run there: {GET[2]}")
    return place


GET = (
    "git clone https://github.com/pytorch/executorch",
    "git -C executorch submodule update --init third-party/flatbuffers",
    "git clone https://github.com/ARM-software/CMSIS-NN cmsis-nn",
)
EXECUTORCH = Engine(
    "executorch",
    "ExecuTorch, int8, its Cortex-M operators",
    "BSD-3-Clause",
    (".tflite",),
    GET,
    "executorch",
    OPERATORS,
    build,
)
