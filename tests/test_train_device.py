"""Training on a GPU, without one: `meta` refuses to mix its tensors with those of the processor, as a GPU does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from test_train import DIGITS, graph_of  # noqa: E402
from test_train_recipes import job  # noqa: E402

from tinyhil.compiler.calibrate import calibrate  # noqa: E402
from tinyhil.language.assignment import Assignment  # noqa: E402
from tinyhil.train.fit import train  # noqa: E402
from tinyhil.train.limited_precision import Half, Limited, holder  # noqa: E402
from tinyhil.train.loss import taught_loss  # noqa: E402
from tinyhil.train.network import network  # noqa: E402
from tinyhil.train.prune import Pruning  # noqa: E402
from tinyhil.train.quantizers import quantizers  # noqa: E402
from tinyhil.train.samples import divide  # noqa: E402

FEW = divide(DIGITS.x_train[:120], DIGITS.y_train[:120], 0)


@pytest.mark.parametrize("name", ["digits_cnn", "protonn_usps10"])
def test_a_step_stays_on_its_device(name: str) -> None:
    graph = graph_of(name)
    shape, formats = graph.shapes[graph.inputs[0]], Assignment("fixed8")
    seen = np.random.default_rng(0).normal(size=(8, *shape)).astype(np.float32)
    used = quantizers(graph, formats, calibrate(graph, seen, {}))
    for way in (None, used, holder(Limited(4, 12, True), (0,)), holder(Half(), (0,))):
        with torch.device("meta"):
            net = network(graph)
            scores = net.forward(torch.zeros(8, *shape), way, formats)
            taught_loss(scores, torch.zeros(8, dtype=torch.int64), torch.zeros_like(scores), 0.5).backward()
        moved = [weights.grad for weights in net.weights.values() if weights.grad is not None]
        assert moved
        assert {grad.device.type for grad in moved} == {"meta"}


class Apart(torch.overrides.TorchFunctionMode):
    """numpy reads only tensors that were fetched, as if all others lay on a GPU."""

    def __torch_function__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if function in (torch.Tensor.numpy, torch.Tensor.__array__) and not hasattr(args[0], "fetched"):
            raise TypeError("can't convert a tensor on a GPU to numpy; use Tensor.cpu() first")
        made = function(*args, **(kwargs or {}))
        if function is torch.Tensor.cpu:
            made = made.clone()
            made.fetched = True
        return made


@pytest.mark.parametrize(
    ("fmt", "options"),
    [
        ("fixed8pc", {"teacher": 0.5, "progressive": True}),
        ("int8", {}),
        ("posit8es0", {}),
        ("kmeans4", {"entries": True}),
        ("fixed4", {"scales": True}),
    ],
)
def test_what_numpy_reads_was_fetched(fmt: str, options: dict[str, object], tmp_path: Path) -> None:
    given = job(fmt, FEW, epochs=1, **options)
    pruning = Pruning({"conv2_w": 0.3}, 1) if fmt == "int8" else None
    with Apart():
        train(replace(given, checkpoint=tmp_path / "c.npz", pruning=pruning))
        assert len(train(replace(given, checkpoint=tmp_path / "c.npz", pruning=pruning)).epochs) == 2
