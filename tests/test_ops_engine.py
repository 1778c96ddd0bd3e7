"""The host engine on the operators of test_ops_more.py: the reference's integers in every mix of widths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_models import load, samples_for
from random_models import extreme_inputs
from search_models import host_engine
from test_ops_more import ALL, proto, shape_of

from harness.toolchain import default_cache_dir
from search.engine import Engine
from search.space import Choice, make_space
from tinyhil.calibrate import calibrate
from tinyhil.errors import ModelError
from tinyhil.reference import run_reference


@pytest.fixture(scope="module")
def engine() -> Engine:
    return host_engine(default_cache_dir())


@pytest.mark.parametrize("name", ALL)
def test_each_operator_in_every_width(name: str, engine: Engine, tmp_path: Path) -> None:
    loaded = load(proto(name), tmp_path)
    space = make_space(loaded, calibrate(loaded, samples_for(shape_of(name), 4), {}), ("fixed8", "fixed16"))
    compared = 0
    for number in range(6):
        random = np.random.default_rng(number)
        candidate = tuple(Choice(str(random.choice(space.formats)), -number % 3) for _ in space.groups)
        try:
            program = space.lower(candidate)
        except ModelError as error:  # sums beyond 63 bits, slopes too coarse: a candidate that is none
            if not any(reason in str(error) for reason in ("exact sums need", "in units of")):
                raise
            continue
        inputs = extreme_inputs(program, number)
        found, wanted = engine.run(program, inputs), run_reference(program, inputs)
        np.testing.assert_array_equal(found.outputs, wanted.outputs)
        np.testing.assert_array_equal(found.saturations, wanted.saturations)
        compared += 1
    assert compared >= 3
