"""The FastGRNN of peers.py by CMSIS-NN's functions alone, called from plain C: beside ours without an interpreter.

A step is what CMSIS-NN's own LSTM does for a gate: `arm_nn_vec_mat_mul_result_acc_s8_s16` of the step's inputs and of
the hidden state (weights and operands of 8 bits, sums of 16), `arm_nn_activation_s16` of both activations; the cell's
products are plain C on 16 bits, since CMSIS-NN has no function for them; the classifier is `arm_fully_connected_s8`.
The hidden state has 16 bits, and 8 where it is multiplied. Grids are those of quantized_files.py.
"""

from __future__ import annotations

import hashlib
from math import floor, log2
from pathlib import Path

import numpy as np

from benchmarks.quantized_files import codes_of, fastgrnn_values, grid_of
from tinyhil import files
from tinyhil.errors import BuildError
from tinyhil.harness.engines.engine import Built, Engine, Task, tree_hash
from tinyhil.harness.engines.objects import Recipe, archive, engine_folder, header_of_bench
from tinyhil.harness.engines.port import Port
from tinyhil.harness.engines.rounding_rules import multiplier_of
from tinyhil.harness.engines.tflm import CMSIS_NN

# Behind the point: sums within +-8, where activations are 1 in 16 bits; states within +-4
SUM_BITS, STATE_BITS = 12, 13
FUNCTIONS = (
    "NNSupportFunctions/arm_nn_vec_mat_mul_result_acc_s8_s16",
    "ActivationFunctions/arm_nn_activation_s16",
    "NNSupportFunctions/arm_nntables",
    "FullyConnectedFunctions/arm_fully_connected_s8",
    "NNSupportFunctions/arm_nn_vec_mat_mult_t_s8",
)
GLUE = """\
#include <string.h>
#include "arm_nnfunctions.h"
#include "arm_nnsupportfunctions.h"
#include "firmware/bench/hil_bench.h"

enum {{ STEPS = {steps}, INPUTS = {inputs}, STATES = {states}, OUTPUTS = {outputs} }};
{arrays}
static int8_t input[STEPS * INPUTS], hidden[STATES], output[OUTPUTS];
void hil_engine_init(void) {{}}
void *hil_engine_input(void) {{ return input; }}
const void *hil_engine_output(void) {{ return output; }}
void hil_engine_invoke(void) {{
    int16_t state[STATES] = {{0}}, gate[STATES], change[STATES];
    memset(hidden, {hidden_zero}, sizeof hidden);
    for (int step = 0; step < STEPS; ++step) {{
        memset(gate, 0, sizeof gate);
        arm_nn_vec_mat_mul_result_acc_s8_s16(input + step * INPUTS, W, W_bias, gate, {W_factor}, INPUTS, STATES, 1, 1);
        arm_nn_vec_mat_mul_result_acc_s8_s16(hidden, U, U_bias, gate, {U_factor}, STATES, STATES, 1, 1);
        for (int i = 0; i < STATES; ++i) {{
            const int32_t sum = gate[i] + between[i];
            change[i] = (int16_t)(sum > 32767 ? 32767 : sum < -32768 ? -32768 : sum);
        }}
        arm_nn_activation_s16(gate, gate, STATES, 0, ARM_SIGMOID);
        arm_nn_activation_s16(change, change, STATES, 0, ARM_TANH);
        for (int i = 0; i < STATES; ++i) {{
            const int32_t z = gate[i], share = {most} - ({zeta} * z >> 15);
            const int32_t now = (z * state[i] + (share * change[i] >> {change_shift}) + (1 << 14)) >> 15;
            const int32_t code = ((now + {half}) >> {code_shift}) + {hidden_zero};
            state[i] = (int16_t)now;
            hidden[i] = (int8_t)(code > 127 ? 127 : code < -128 ? -128 : code);
        }}
    }}
    const cmsis_nn_context none = {{0, 0}};
    const cmsis_nn_fc_params dense = {{-({hidden_zero}), 0, {output_zero}, {{-128, 127}}}};
    const cmsis_nn_per_tensor_quant_params factor = {{{F_factor}}};
    const cmsis_nn_dims in = {{1, 1, 1, STATES}}, filter = {{STATES, 1, 1, OUTPUTS}}, bias = {{1, 1, 1, OUTPUTS}};
    arm_fully_connected_s8(&none, &dense, &factor, &in, hidden, &filter, F, &bias, F_bias, &bias, output);
}}
"""


def source_of(w: dict[str, np.ndarray], x: np.ndarray) -> tuple[str, Port, Port]:
    """C of the network `w` (quantized_files.fastgrnn) with grids of `x`, (samples, steps, inputs), and its ends."""
    values = fastgrnn_values(w, x)
    (x_scale,), (x_zero,), _ = grid_of(x)
    (y_scale,), (y_zero,), _ = grid_of(values["y"])
    bits = floor(log2(255 / np.ptp(np.append(values["h"], 0.0))))  # behind the point of a state's code of 8 bits
    zero = int(np.rint(-(values["h"].max() + values["h"].min()) / 2 * 2**bits))
    found: dict[str, object] = {"steps": x.shape[1], "inputs": x.shape[2], "states": len(w["U"])}
    arrays = []
    for name, bias, scale, shift, result in (
        ("W", w["bg"], x_scale, x_zero, 2.0**-SUM_BITS),
        ("U", np.zeros(len(w["U"])), 2.0**-bits, zero, 2.0**-SUM_BITS),
        ("F", w["f"], 2.0**-bits, 0, y_scale),  # CMSIS-NN takes this offset off itself
    ):
        step = float(np.abs(w[name]).max() / 127)
        codes = codes_of(w[name].T, ([step], [0], 0))
        offsets = np.rint(bias / (scale * step)).astype(int) - shift * codes.astype(int).sum(1)
        arrays += [_array("int8_t", name, codes), _array("int32_t", f"{name}_bias", offsets)]
        found[f"{name}_factor"] = "{}, {}".format(*multiplier_of(scale * step / result))
    arrays.append(_array("int16_t", "between", np.rint((w["bh"] - w["bg"]) * 2**SUM_BITS).astype(int)))
    zeta, most = (round(float(one) * 2**15) for one in (w["zeta"], w["zeta"] + w["nu"]))
    last = {"zeta": zeta, "most": most, "outputs": len(w["f"]), "hidden_zero": zero, "output_zero": y_zero}
    last |= {"code_shift": STATE_BITS - bits, "half": 1 << (STATE_BITS - bits - 1), "change_shift": 15 - STATE_BITS}
    text = GLUE.format(arrays="\n".join(arrays), **found, **last)
    return text, Port("int8", x_scale, x_zero), Port("int8", y_scale, y_zero)


def _array(kind: str, name: str, values: np.ndarray) -> str:
    return f"static const {kind} {name}[] = {{{','.join(map(str, values.reshape(-1)))}}};"


def engine(name: str, w: dict[str, np.ndarray], x: np.ndarray) -> Engine:
    """Of this network alone, whatever file of it is given; BuildError for a board of 8 bits."""

    def build(task: Task) -> Built:
        if task.board.chip.core == "avr":
            raise BuildError(f"{task.board.name}: CMSIS-NN is for Cortex-M; choose another board")
        text, source, target = source_of(w, x)
        glue = engine_folder(task) / f"calls-{hashlib.sha256(text.encode()).hexdigest()[:16]}.c"
        files.write_text(glue, text)
        includes = (f"-I{task.source}", f"-I{task.source}/Include", header_of_bench(task))
        recipe = Recipe((*includes, f"-DHIL_OF={tree_hash(task.source)}"))
        units = [glue, *(task.source / "Source" / f"{name}.c" for name in FUNCTIONS)]
        made = archive(task, [(Path(unit), recipe) for unit in units])
        return Built(source, target, x[0].size, len(w["f"]), archive=made, beside=(task.source,))

    get = ("git clone https://github.com/ARM-software/CMSIS-NN cmsis-nn",)
    marker = "Include/arm_nnfunctions.h"
    title = "CMSIS-NN's functions, called from plain C"
    return Engine(name, title, "Apache-2.0", (".onnx",), get, CMSIS_NN, marker, build)
