"""Networks of kinds that neither the zoo nor MLPerf Tiny has, for which other passes of the compiler exist.

Weights are random but those of `wine`, which scikit-learn fits to its own data, and of MLPerf Tiny's float network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser

from benchmarks import signs, transformers
from benchmarks.given import given_data
from benchmarks.networks import Network as Layers
from benchmarks.networks import squeezenet
from benchmarks.weight_blocks import with_blocks

Made = tuple[onnx.ModelProto, Mapping[str, np.ndarray]]
SAMPLES = 16


@dataclass(frozen=True, slots=True)
class Network:
    """`made`: the model, and samples by the names of its inputs, the first one measured. `values`: those in other
    formats than `format`."""

    name: str
    format: str
    board: str
    made: Callable[[], Made]
    values: Mapping[str, str] = field(default_factory=dict)

    def written(self, folder: Path) -> tuple[Path, Path, Path]:
        """Files of the model, of samples, of formats."""
        model, inputs, formats = (folder / f"{self.name}.{ending}" for ending in ("onnx", "npz", "yaml"))
        proto, samples = self.made()
        onnx.save(proto, model)
        with inputs.open("wb") as file:
            np.savez(file, allow_pickle=False, **samples)
        values = ", ".join(f"{name}: {chosen}" for name, chosen in self.values.items())
        formats.write_text(f"default: {self.format}\nvalues: {{{values}}}\n")
        return model, inputs, formats


def _normal(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def _pictures(proto: onnx.ModelProto) -> Made:
    return proto, {
        "x": _normal(SAMPLES, *(dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim[1:]))
    }


def _transformer() -> Made:
    """Causal, its weights of 4 bits in blocks."""
    shape = transformers.Shape(image=16, channels=32, hidden=64, encoders=1, kernel=3, stride=1, causal=True)
    return _pictures(with_blocks(transformers.compact(shape)))


def _float_wake_words() -> Made:
    """MLPerf Tiny's in float, with dead channels."""
    proto = onnx.load(given_data() / "models" / "mlperftiny_vww_mobilenetv1_025_96.onnx")
    return proto, {"x": np.random.default_rng(1).uniform(size=(4, 3, 96, 96)).astype(np.float32)}


def _fusion() -> Made:
    """Inputs whose values differ a thousandfold, results that differ a hundredfold."""
    proto = parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        fusion (float[1, 10] image, float[1, 3] weather) => (float[1, 4] scores, float[1, 1] distance) {
            a = MatMul(image, w1)
            b = MatMul(weather, w2)
            c = Add(a, b)
            d = Relu(c)
            scores = MatMul(d, w3)
            distance = MatMul(d, w4)
        }"""
    )
    weights = {"w1": _normal(10, 8), "w2": _normal(3, 8) / 1000, "w3": _normal(8, 4), "w4": _normal(8, 1) * 100}
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return proto, {"image": _normal(SAMPLES, 10), "weather": _normal(SAMPLES, 3, seed=2) * 1000}


def _wine() -> Made:
    """A scaler and two layers over raw features."""
    from skl2onnx import to_onnx
    from sklearn import datasets, neural_network, pipeline, preprocessing

    x, y = datasets.load_wine(return_X_y=True)
    layers = neural_network.MLPClassifier((16,), max_iter=1000, random_state=0)
    model = pipeline.make_pipeline(preprocessing.StandardScaler(), layers).fit(x, y)
    x = x.astype(np.float32)
    options = {type(layers): {"zipmap": False}}
    return to_onnx(model, x[:1], options=options, target_opset={"": 17, "ai.onnx.ml": 3}), {"x": x}


def _squeezenet() -> Made:
    """Its first modules over images that go by rows."""
    return _pictures(squeezenet(64, 10, 3))


def _densely_connected() -> Made:
    """Each convolution reads the results of all before it; every one reaches twice as far as the one before."""
    net = Layers(32).conv(16, 3, 2).relu()
    for number in range(1, 4):
        whole, channels = net.last, net.channels
        net.conv(16, 3)
        net.weights[net.nodes[-1].input[1]] *= 2.0**number
        net.relu().add("Concat", whole, axis=1).channels = channels + 16
    return _pictures(net.add("GlobalAveragePool").conv(10).model())


def _signs() -> Made:
    """A convolution of signs by binary weights."""
    return _pictures(signs.conv(32, 32, 8))


SIGNS = {"w": "sign", "s": "sign", "b": "fixed16", "y": "fixed16"}
NETWORKS = (
    Network("vww_float", "int8", "h747", _float_wake_words),
    Network("transformer_blocks", "int8", "h747", _transformer),
    Network("fusion", "fixed8", "uno", _fusion),
    Network("wine", "fixed8", "uno", _wine),
    Network("squeezenet", "fixed8", "due", _squeezenet),
    Network("densely_connected", "fixed8", "h747", _densely_connected),
    Network("signs", "fixed8", "due", _signs, SIGNS),
)
