"""A native module of MicroPython: the library behind functions that take arrays, built by `py/dynruntime.mk`.

Variables of such a module are reached through a table alone, so the arena is a global one of the module, which calls
the library as a caller that brings memory.
"""

from __future__ import annotations

from tinyhil.codegen.exported_library import SPDX, Library

_MAKEFILE = """\
# {spdx}
# {x} {version}. MPY_DIR: the source tree of MicroPython. ARCH: armv6m (Pico), armv7m (Due), armv7emsp (Nano 33 BLE,
# Pico 2), armv7emdp (H7), x64 (this computer), ...
MOD = {x}
ARCH ?= armv6m
SRC = {x}_module.c
LINK_RUNTIME ?= 1
CFLAGS_EXTRA += -Isrc -fno-tree-loop-distribute-patterns

include $(MPY_DIR)/py/dynruntime.mk

# Behind {x}_module.o: MicroPython's linker looks for mpy_init in the first file.
$(BUILD)/$(MOD).mpy: $(BUILD)/src/{x}.o

# A module has no tables of pointers: none of jumps, none of names.
$(BUILD)/src/%.o: src/%.cpp $(CONFIG_H) Makefile
\t$(Q)$(MKDIR) -p $(dir $@)
\t$(ECHO) "CXX $<"
\t$(Q)$(CROSS)g++ $(filter-out -std=c99,$(CFLAGS)) -std=c++11 -fno-exceptions -fno-rtti -ffp-contract=off \\
\t\t-fno-jump-tables -fno-tree-switch-conversion -o $@ -c $<
"""
_MODULE = """\
/* {spdx} */
/* {x} as a module of MicroPython. Arguments are arrays (or what else has a buffer) of exactly the bytes in use. */
#include "py/dynruntime.h"
#include "{x}.h"

void *memcpy(void *to, const void *from, size_t bytes) {{ return mp_fun_table.memmove_(to, from, bytes); }}
void *memmove(void *to, const void *from, size_t bytes) {{ return mp_fun_table.memmove_(to, from, bytes); }}
void *memset(void *to, int value, size_t bytes) {{ return mp_fun_table.memset_(to, value, bytes); }}

uint32_t {x}_memory[({up}_ARENA_BYTES + 3) / 4];

static void *given(mp_obj_t object, size_t count, size_t size, mp_uint_t access) {{
    mp_buffer_info_t buffer;
    mp_get_buffer_raise(object, &buffer, access);
    if (buffer.len != count * size) mp_raise_ValueError(MP_ERROR_TEXT("wrong length of an array"));
    if ((uintptr_t)buffer.buf % size != 0) mp_raise_ValueError(MP_ERROR_TEXT("an array that is not aligned"));
    return buffer.buf;
}}
"""
_FUNCTION = """\

static mp_obj_t {name}({parameters}) {{
    return mp_obj_new_int({x}_{name}({arguments}));
}}
static MP_DEFINE_CONST_FUN_OBJ_{count}({name}_obj, {name});
"""
_BEGIN = """\

static mp_obj_t begin(void) {{
    {x}_begin({x}_memory);
    return mp_const_none;
}}
static MP_DEFINE_CONST_FUN_OBJ_0(begin_obj, begin);
"""
_CLASS_NAME = """\

static mp_obj_t class_name(mp_obj_t index) {{
    const char *const text = {x}_class_name(mp_obj_get_int(index));
    size_t length = 0;
    while (text[length] != 0) ++length;
    return mp_obj_new_str(text, length);
}}
static MP_DEFINE_CONST_FUN_OBJ_1(class_name_obj, class_name);
"""
_EXAMPLE = """\
# {spdx}
from array import array

import {x}

sample = array("f", [0.0] * {x}.INPUTS)
result = array("f", [0.0] * {x}.OUTPUTS)
print({x}.predict(sample, result))
"""


def micropython(library: Library, version: str) -> dict[str, str]:
    """Path in the package -> text, beside its sources, which are made for an arena of the caller."""
    names = {"x": library.prefix, "up": library.prefix.upper(), "spdx": SPDX, "version": version}
    return {
        "Makefile": _MAKEFILE.format(**names),
        f"{library.prefix}_module.c": _module(library, names),
        "example.py": _EXAMPLE.format(**names),
    }


def _module(library: Library, names: dict[str, str]) -> str:
    """Text of the C file between MicroPython and the library."""
    x, up = names["x"], names["up"]
    whole, out = [("in", f"{up}_INPUTS", "READ")], [("out", f"{up}_OUTPUTS", "WRITE")]
    row = [("row", f"{up}_STEP_INPUTS", "READ")]
    functions = [("predict", whole + out, True), ("run", whole + out, False)]
    if library.loop:
        functions += [
            ("step", row, True),
            ("finish", out, True),
            ("step_codes", row, False),
            ("finish_codes", out, False),
        ]
    text, known = _MODULE.format(**names), [name for name, _, _ in functions]
    for name, arrays, real in functions:
        arguments = [f"{x}_memory"]
        for array, count, access in arrays:
            kind = "float" if real else f"{x}_{'output' if array == 'out' else 'input'}"
            arguments.append(f"given({array}, {count}, sizeof({kind}), MP_BUFFER_{access})")
        parameters = ", ".join(f"mp_obj_t {array}" for array, _, _ in arrays)
        called = ", ".join(arguments)
        text += _FUNCTION.format(name=name, parameters=parameters, x=x, arguments=called, count=len(arrays))
    if library.loop:
        text, known = text + _BEGIN.format(**names), [*known, "begin"]
    if library.class_names:
        text, known = text + _CLASS_NAME.format(**names), [*known, "class_name"]
    constants = ["INPUTS", "OUTPUTS", *(("STEPS", "STEP_INPUTS") if library.loop else ())]
    stored = [f"mp_store_global(MP_QSTR_{name}, MP_OBJ_FROM_PTR(&{name}_obj));" for name in known]
    stored += [f"mp_store_global(MP_QSTR_{name}, mp_obj_new_int({up}_{name}));" for name in constants]
    body = "\n".join(f"    {line}" for line in stored)
    return (
        f"{text}\nmp_obj_t mpy_init(mp_obj_fun_bc_t *self, size_t n_args, size_t n_kw, mp_obj_t *args) {{\n"
        f"    MP_DYNRUNTIME_INIT_ENTRY\n{body}\n    MP_DYNRUNTIME_INIT_EXIT\n}}\n"
    )
