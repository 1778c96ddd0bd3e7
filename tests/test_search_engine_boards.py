"""What the engine says of an assignment is what `hil run` measures with it, on the host and on emulated boards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from search_models import host_engine

from tinyhil.compiler.calibrate import load_ranges
from tinyhil.errors import ModelError
from tinyhil.frontend.onnx import load_onnx
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.job import Request
from tinyhil.harness.job.zoo import find_model, zoo_names
from tinyhil.harness.measure.run import run
from tinyhil.harness.search.session import write_assignment
from tinyhil.harness.settings.config import load_boards
from tinyhil.preference import Wish
from tinyhil.search.engine.library import Engine
from tinyhil.search.space import Candidate, Choice, Space, make_space
from tinyhil.search.trial import unjudged

FAMILIES = {
    "fixed": ("fixed8", "fixed16"),
    "mixed": ("posit8es0", "posit16es1", "fp8e4m3", "float16", "fixed8", "fixed16"),
}
SAMPLES = {"host": 6}
ON_BOARDS = (
    *(("uno", name) for name in ("bonsai_usps2", "protonn_usps2", "fastgrnn_usps10")),
    *(("due", name) for name in ("digits_cnn", "bonsai_letter26", "fastgrnn_fsdd")),
    *(("h747", name) for name in ("digits_mlp", "lenet5_mnist", "protonn_mnist10")),
)
QUICK = {("host", "bonsai_usps2", "mixed"), ("host", "digits_cnn", "fixed"), ("uno", "protonn_usps2", "fixed")}
CASES = [
    pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow)
    for board, name in (*(("host", name) for name in zoo_names()), *ON_BOARDS)
    for case in ((board, name, "fixed"), (board, name, "mixed"))
]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return host_engine(default_cache_dir())


def drawn(space: Space, seed: int) -> Candidate:
    """A random assignment that can be lowered."""
    random = np.random.default_rng(seed)
    for _ in range(20):
        candidate = tuple(
            Choice(str(random.choice(space.formats)), -int(random.integers(2)) if len(space.formats) == 2 else 0)
            for _ in space.groups
        )
        try:
            space.lower(candidate)
        except ModelError:
            continue
        return candidate
    raise AssertionError("no assignment could be lowered")


@pytest.mark.parametrize(("board", "name", "family"), CASES)
def test_random_assignments(board: str, name: str, family: str, engine: Engine, tmp_path: Path) -> None:
    source = find_model(name)
    zoo = load_onnx(source.path)
    assert source.ranges is not None
    space = make_space(zoo.graph, load_ranges(source.ranges, zoo.sha256), FAMILIES[family])
    candidate = drawn(space, len(name))
    write_assignment(tmp_path / "widths.yaml", space, unjudged(candidate), Wish())
    shape = (SAMPLES.get(board, 3), *zoo.graph.shapes[zoo.graph.inputs[0]])
    x = np.random.default_rng(7).normal(scale=0.5, size=shape).astype(np.float32)
    x[::2] *= 5  # much of this saturates
    np.savez(tmp_path / "x.npz", x=x)
    request = Request(
        board,
        name,
        assignment=tmp_path / "widths.yaml",
        inputs=tmp_path / "x.npz",
        results=tmp_path,
        load="direct",
        timeout_s=300,
    )
    outcome = run(request, load_boards(), default_cache_dir(), lambda line: None, lambda *_: None)
    found = engine.run(space.lower(candidate), outcome.integers, (board, name))
    np.testing.assert_array_equal(found.outputs, outcome.outputs)
    np.testing.assert_array_equal(found.saturations, outcome.saturations)
    assert len(outcome.outputs) == len(x)
