"""Where the values of a network of few bits lie: on our grid, on the book's, on entries that values cluster around.

A table of benchmarks/training.py. The MLP of `qnn` with a hard tanh, its weights as there; what differs is what becomes
of the values behind the hard tanh. *Ours*: k 2^(1 - Q), -1 to 1 - 2^(1 - Q). *Symmetric*: the quantised hard tanh of
Moons et al., "Embedded Deep Learning", 2^Q values from -1 to 1, zero not among them. *Clusters*: 2^Q entries, k-means
of the float network's values. One loop of training for all three, in torch's floats.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields

import numpy as np
import torch

from benchmarks.bench import Bench, Row
from benchmarks.qnn import MLP, ON_MNIST, float_model, mnist_samples, of_bits
from benchmarks.trained_networks import note
from tinyhil.formats.codebook import kmeans
from tinyhil.language.assignment import Assignment
from tinyhil.train.loss import loss_of
from tinyhil.train.network import Network, network, with_constants
from tinyhil.train.parameters import groups_of
from tinyhil.train.quantizers import Quantizers, quantizers

Tensor = torch.Tensor
Grid = Callable[[Tensor], Tensor]
WIDTHS = (1, 2, 4)


@dataclass(frozen=True, slots=True)
class OnGrids(Quantizers):
    """Quantizers that hold some values on grids of their own, straight through within -1..1."""

    grids: Mapping[str, Grid]

    def value(self, name: str, x: Tensor) -> Tensor:
        """As held."""
        grid = self.grids.get(name)
        if grid is None:
            return Quantizers.value(self, name, x)
        inside = x.clamp(-1, 1)
        return inside + (grid(inside) - inside).detach()


def symmetric(bits: int) -> Grid:
    """2^bits values from -1 to 1, as far from each other: of 1 bit the sign."""
    steps = (1 << bits) - 1
    return lambda x: 2 * torch.round((x + 1) / 2 * steps) / steps - 1


def clustered(values: Tensor, bits: int) -> Grid:
    """The nearest of 2^bits entries that k-means finds for these values."""
    found = kmeans(values.numpy().reshape(-1), 1 << bits)
    entries = torch.as_tensor(np.sort(np.ldexp(np.array(found.entries), found.exponent)), dtype=torch.float32)
    middles = (entries[1:] + entries[:-1]) / 2
    return lambda x: entries[torch.bucketize(x.contiguous(), middles)]


def trained(bench: Bench, bits: int, grids: Mapping[str, Grid]) -> float:
    """Accuracy on the test samples after training as `qnn` trains, without a teacher."""
    formats, net = of_bits(bench, bits), network(bench.graph)
    x, y = torch.as_tensor(bench.samples.x), torch.as_tensor(bench.samples.y.astype(np.int64))
    x = x.reshape(len(x), *bench.graph.shapes[bench.graph.inputs[0]])
    optimizer = torch.optim.Adam(groups_of(net))
    steps = len(x) // ON_MNIST.batch
    for epoch in range(ON_MNIST.epochs):
        holder = _holder(bench, formats, net, grids)
        order = torch.as_tensor(np.random.default_rng([ON_MNIST.seed, epoch]).permutation(len(x)))
        for step in range(steps):
            rows = order[step * ON_MNIST.batch : (step + 1) * ON_MNIST.batch]
            for group in optimizer.param_groups:
                group["lr"] = group["size"] * ON_MNIST.rate_at((epoch + step / steps) / ON_MNIST.epochs)
            optimizer.zero_grad()
            loss_of(net.forward(x[rows], holder, formats), y[rows]).backward()
            optimizer.step()
    note({name: value.detach().numpy() for name, value in net.weights.items()})
    with torch.no_grad():
        given = torch.as_tensor(bench.x_test).reshape(-1, *x.shape[1:])
        scores = net.forward(given, _holder(bench, formats, net, grids), formats)
    return float((scores.argmax(1).numpy() == bench.y_test).mean())


def _holder(bench: Bench, formats: Assignment, net: Network, grids: Mapping[str, Grid]) -> OnGrids:
    constants = {name: value.detach().numpy() for name, value in net.weights.items()}
    used = quantizers(with_constants(bench.graph, constants), formats, bench.judge(formats).ranges(constants))
    return OnGrids(**{field.name: getattr(used, field.name) for field in fields(Quantizers)}, grids=grids)


def rows() -> Iterator[Row]:
    """A row for each width."""
    torch.set_num_threads(1)
    samples, x_test, y_test = mnist_samples()
    bench = Bench(float_model(samples, MLP, 8).graph, samples, x_test, y_test)
    hidden = [node.outputs[0] for node in bench.graph.nodes if node.op == "Clip"]
    seen: dict[str, Tensor] = {}
    with torch.no_grad():
        x = torch.as_tensor(samples.calibration).reshape(-1, *bench.graph.shapes[bench.graph.inputs[0]])
        network(bench.graph).forward(x, None, None, seen.__setitem__)
    for bits in WIDTHS:
        begin = time.process_time()
        row: Row = {"bits": str(bits), "ours": trained(bench, bits, {})}
        row["symmetric"] = trained(bench, bits, dict.fromkeys(hidden, symmetric(bits)))
        row["clusters"] = trained(bench, bits, {name: clustered(seen[name], bits) for name in hidden})
        yield {**row, "seconds": round(time.process_time() - begin)}
