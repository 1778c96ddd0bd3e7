"""The engines there are."""

from __future__ import annotations

from tinyhil.errors import ConfigError, did_you_mean
from tinyhil.harness.engines.emlearn import EMLEARN
from tinyhil.harness.engines.engine import Engine
from tinyhil.harness.engines.executorch import EXECUTORCH
from tinyhil.harness.engines.onnx2c import ONNX2C
from tinyhil.harness.engines.tflm import TFLM, TFLM_CMSIS_NN
from tinyhil.harness.engines.tinymaix import TINYMAIX

ENGINES = (TFLM, TFLM_CMSIS_NN, ONNX2C, EMLEARN, TINYMAIX, EXECUTORCH)


def engine_named(name: str) -> Engine:
    """ConfigError lists the known names."""
    found = next((engine for engine in ENGINES if engine.name == name), None)
    if found is None:
        known = [engine.name for engine in ENGINES]
        raise ConfigError(f"no engine named {name!r}; {did_you_mean(name, known)}known: {', '.join(known)}")
    return found
