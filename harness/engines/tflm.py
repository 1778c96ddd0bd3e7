"""TensorFlow Lite Micro with its reference kernels, or with CMSIS-NN's: the interpreter, the model's own operators."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

from tinyhil import files
from tinyhil.errors import BuildError, ConfigError, ModelError
from tinyhil.frontend.tflite_file import read_file
from tinyhil.harness.engines.engine import Built, Engine, Task, tree_hash
from tinyhil.harness.engines.objects import Recipe, archive, engine_folder, header_of_bench
from tinyhil.harness.engines.tflite_ends import MOST_MODEL_BYTES, ends_of, with_all_outputs

MICRO, KERNELS = "tensorflow/lite/micro", "tensorflow/lite/micro/kernels"
INTERPRETER = (
    f"{MICRO}/*.cc",
    f"{MICRO}/memory_planner/*.cc",
    f"{MICRO}/arena_allocator/*.cc",
    f"{MICRO}/tflite_bridge/*.cc",
    "tensorflow/lite/core/api/*.cc",
    "tensorflow/lite/core/c/*.cc",
    "tensorflow/lite/kernels/*.cc",
    "tensorflow/lite/kernels/internal/*.cc",
    "tensorflow/lite/kernels/internal/reference/*.cc",
    "tensorflow/compiler/mlir/lite/core/api/*.cc",
    "tensorflow/compiler/mlir/lite/schema/*.cc",
)
LEFT_OUT = re.compile(r"fake_|mock_|recording_|hexdump|debug_log|micro_time|_test|_f16|_f32")
HELPERS = (
    "kernel_util",
    "micro_tensor_utils",
    "activations_common",
    "reduce_common",
    "decompress",
    "decompress_common",
)
FLAGS = ("-DTF_LITE_STATIC_MEMORY", "-DTF_LITE_STRIP_ERROR_STRINGS", "-DNDEBUG")
INCLUDES = {"flatbuffers": "include", "gemmlowp": "", "ruy": "", "kissfft": ""}  # and where their headers are
HOST_ARENA_BYTES = 1 << 24
DOWNLOADS = "tensorflow/lite/micro/tools/make/downloads"
TEMPORARY_BYTES = 512  # of the planner while it places tensors, with pointers of 32 bits
HOST_TEMPORARY_BYTES = 1 << 16  # where nothing is measured
CMSIS_NN = "cmsis-nn"

GLUE = """\
#include "firmware/bench/hil_bench.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/micro/micro_resource_variable.h"
#include "tensorflow/lite/schema/schema_generated.h"
#include <new>

extern "C" {{
extern const unsigned char hil_engine_model[];
uint32_t hil_engine_arena_bytes;
void __cxa_pure_virtual() {{ __builtin_trap(); }}
}}
__asm__(".section .rodata.hil_engine_model,\\"a\\"\\n.balign 8\\n.global hil_engine_model\\n"
        "hil_engine_model:\\n.incbin \\"{model}\\"\\n.text\\n");
void operator delete(void *) noexcept {{}}
void operator delete(void *, unsigned {size}) noexcept {{}}
void DebugLog(const char *, va_list) {{}}
int DebugVsnprintf(char *, size_t, const char *, va_list) {{ return 0; }}

namespace {{
alignas(16) uint8_t hil_engine_arena[{arena}];
alignas(tflite::MicroInterpreter) uint8_t place[sizeof(tflite::MicroInterpreter)];
tflite::MicroInterpreter *interpreter;
tflite::MicroMutableOpResolver<{count}> resolver;
}}

extern "C" void hil_engine_init(void) {{
    const bool known = {adds};
    if (!known) __builtin_trap();
    const tflite::Model *const model = tflite::GetModel(hil_engine_model);{states}
    interpreter = new (place) tflite::MicroInterpreter(model, resolver, {memory});
    if (interpreter->AllocateTensors() != kTfLiteOk) __builtin_trap();
    hil_engine_arena_bytes = interpreter->arena_used_bytes();
}}
extern "C" void *hil_engine_input(void) {{ return interpreter->input(0)->data.raw; }}
extern "C" void hil_engine_invoke(void) {{ if (interpreter->Invoke() != kTfLiteOk) __builtin_trap(); }}
extern "C" const void *hil_engine_output(void) {{ return interpreter->output(0)->data.raw; }}
extern "C" const void *hil_engine_tensor(uint16_t number) {{ return interpreter->output(number + 1)->data.raw; }}
"""
MEMORY = "hil_engine_arena, sizeof hil_engine_arena"
STATES = """
    tflite::MicroAllocator *const allocator = tflite::MicroAllocator::Create({memory});
    tflite::MicroResourceVariables *const states = tflite::MicroResourceVariables::Create(allocator, {count});"""


def build(task: Task, *, cmsis_nn: bool = False) -> Built:
    """BuildError or ModelError where it can not be: an operator that TFLM has not, a board of 8 bits."""
    if task.board.chip.core == "avr":
        raise BuildError(f"{task.board.name}: TensorFlow Lite Micro is for 32 bits and more; choose another board")
    data = files.read_bytes(task.model, "model", MOST_MODEL_BYTES)
    content = read_file(data)
    ends = ends_of(content, task)
    operators = _operators(data)
    ram = task.board.chip.ram_bytes
    most = ram * 7 // 8 // 16 * 16 if ram else HOST_ARENA_BYTES
    model, taps = (data, ()) if not task.tells else with_all_outputs(data, content)
    file = engine_folder(task) / f"{hashlib.sha256(model).hexdigest()[:16]}.tflite"
    files.write_bytes(file, model)
    states = len(set(content.handles.values()))
    archive_of = partial(_archive, task, file, operators, states, cmsis_nn=cmsis_nn)
    made = Built(
        *ends,
        archive=archive_of(most),
        taps=taps,
        beside=tuple(_beside(task.source, name) for name in (*INCLUDES, *((CMSIS_NN,) if cmsis_nn else ()))),
    )

    def resized(used: int) -> Built:
        spare = HOST_TEMPORARY_BYTES if task.board.is_host else TEMPORARY_BYTES
        arena = (used + spare + 15) // 16 * 16
        return replace(made, archive=archive_of(arena), arena_bytes=arena)

    return replace(made, resized=resized)


def _operators(data: bytes) -> tuple[str, ...]:
    """Names of the operators of all subgraphs."""
    import tflite

    names = {number: name for name, number in vars(tflite.BuiltinOperator).items() if isinstance(number, int)}
    model = tflite.Model.GetRootAsModel(data, 0)
    codes = [model.OperatorCodes(index) for index in range(model.OperatorCodesLength())]
    return tuple(sorted({names[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())] for code in codes}))


def _archive(
    task: Task, file: Path, operators: Sequence[str], states: int, arena_bytes: int, *, cmsis_nn: bool
) -> bytes:
    root, adds = task.source, _adds(task.source)
    beside = [f"-I{path / part}" for name, part in INCLUDES.items() for path in (_beside(root, name),)]
    plain = Recipe((*FLAGS, f"-I{root}", header_of_bench(task), *beside))
    kernels, functions = _kernels(task, operators, cmsis_nn=cmsis_nn), []
    recipe = plain
    if cmsis_nn:
        cmsis = _beside(root, CMSIS_NN)
        functions = sorted((cmsis / "Source").rglob("*.c"))
        own = ("-DCMSIS_NN", f"-I{cmsis}", f"-I{cmsis}/Include", f"-DHIL_OF={tree_hash(cmsis)}")
        recipe = Recipe((*plain.flags, *own))
    calls = " && ".join(f"resolver.{adds[name]}() == kTfLiteOk" for name in operators)
    size = "long" if task.board.is_host else "int"
    glue = engine_folder(task) / f"tflm-{file.stem}-{arena_bytes}.cc"
    memory = {"states": "", "memory": MEMORY}
    if states:  # variables of the file, which its first inference sets
        memory = {"states": STATES.format(memory=MEMORY, count=states), "memory": "allocator, states"}
    text = GLUE.format(model=file.resolve(), arena=arena_bytes, count=len(operators), adds=calls, size=size, **memory)
    files.write_text(glue, text)
    interpreter = [path for pattern in INTERPRETER for path in sorted(root.glob(pattern))]
    units = [*((path, plain) for path in (*interpreter, glue)), *((path, recipe) for path in (*kernels, *functions))]
    return archive(task, [unit for unit in dict.fromkeys(units) if not LEFT_OUT.search(unit[0].name)])


def _kernels(task: Task, operators: Sequence[str], *, cmsis_nn: bool) -> list[Path]:
    """The files of the operators' kernels, CMSIS-NN's where it has them. ModelError for one that TFLM has not."""
    registered, adds = _registrations(task.source), _adds(task.source)
    missing = [name for name in operators if name not in registered or name not in adds]
    if missing:
        raise ModelError(f"{task.model}: operator {missing[0]} is none of TensorFlow Lite Micro's; leave it out")
    names = [registered[name] for name in operators]
    found = []
    for stem in dict.fromkeys((*HELPERS, *names, *(f"{name}_common" for name in names))):
        places = [
            task.source / KERNELS / folder / f"{stem}.cc" for folder in (*(("cmsis_nn",) if cmsis_nn else ()), "")
        ]
        found += [place for place in places if place.is_file()][:1]
    return found


@lru_cache
def _registrations(root: Path) -> dict[str, str]:
    """Operator -> the file of its kernel, without ending."""
    found: dict[str, str] = {}
    for path in sorted((root / KERNELS).glob("*.cc")):
        for name in re.findall(
            r"^TFLMRegistration\*? Register_([A-Z0-9_]+)\(\)", path.read_text(encoding="utf-8"), re.MULTILINE
        ):
            found.setdefault(name, path.stem)
    return found


@lru_cache
def _adds(root: Path) -> dict[str, str]:
    """Operator -> the function of the resolver that adds it."""
    text = (root / MICRO / "micro_mutable_op_resolver.h").read_text(encoding="utf-8")
    return {name: call for call, name in re.findall(r"TfLiteStatus (Add\w+)\([^{]*\{[^}]*?BuiltinOperator_(\w+)", text)}


def _beside(root: Path, name: str) -> Path:
    """The folder of what TFLM includes, beside the checkout or where its makefile puts it. ConfigError without it."""
    places = (root.parent / name, root / DOWNLOADS / name, root / DOWNLOADS / name.replace("-", "_"))
    place = next((one for one in places if one.is_dir()), None)
    if place is None:
        raise ConfigError(f"{root}: no {name} beside it or in its downloads; `hil engines` says how to get it")
    return place


GET = (
    "git clone https://github.com/tensorflow/tflite-micro tflm",
    "git clone --branch v25.9.23 https://github.com/google/flatbuffers",
    "git clone https://github.com/google/gemmlowp",
    "git clone https://github.com/google/ruy",
    "git clone https://github.com/mborgerding/kissfft",
)
MARKER = f"{MICRO}/micro_interpreter.cc"
TFLM = Engine(
    "tflm", "TensorFlow Lite Micro, reference kernels", "Apache-2.0", (".tflite",), GET, "tflm", MARKER, build
)
TFLM_CMSIS_NN = Engine(
    "cmsis-nn",
    "TensorFlow Lite Micro with CMSIS-NN's kernels",
    "Apache-2.0",
    (".tflite",),
    (*GET, "git clone https://github.com/ARM-software/CMSIS-NN cmsis-nn"),
    "tflm",
    MARKER,
    partial(build, cmsis_nn=True),
)
