"""RNNPool (Saha et al., NeurIPS 2020, section 3): FastGRNN over the rows and the columns of patches, and back and forth
over what these say. An operator of this project's own domain: ONNX has none.

Inputs X (1, channels, height, width), W1 (channels, hidden), U1 (hidden, hidden), B1 (2, hidden: of gate and candidate)
of the cell that sweeps pixels, and W2, U2, B2 of the one that sweeps its last states, all as `x W`. The result is
(1, 4 hidden of the second, patches down, patches across): of rows forth and back, of columns forth and back. It becomes
a loop over rows of patches with two Scans within; all patches of a row are swept together, and share columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tinyhil.frontend.listing import Call
from tinyhil.frontend.rewrite import OWN_DOMAIN, Results, Rewrite, Site


@dataclass(frozen=True, slots=True)
class Patches:
    """Square patches of `size` pixels every `stride`; whole ones alone."""

    size: int
    stride: int
    height: int
    width: int

    @property
    def down(self) -> int:
        """Patches along the height."""
        return (self.height - self.size) // self.stride + 1

    @property
    def across(self) -> int:
        """Patches along the width."""
        return (self.width - self.size) // self.stride + 1

    @property
    def lines(self) -> np.ndarray:
        """(patches down, size): the lines of pixels under each row of patches."""
        return np.arange(self.down)[:, None] * self.stride + np.arange(self.size)

    @property
    def columns(self) -> int:
        """Columns of pixels that some patch covers."""
        return (self.across - 1) * self.stride + self.size

    def pixels(self) -> np.ndarray:
        """(steps, sweeps): which pixel of the lines under a row of patches each sweep sees: along each line of each
        patch, patch by patch, then down each column."""
        step, line = np.arange(self.size)[:, None, None], np.arange(self.size)
        start = np.arange(self.across)[:, None] * self.stride
        along = line * self.width + start + step
        down = np.arange(self.columns) + np.arange(self.size)[:, None] * self.width
        return np.concatenate([along.reshape(self.size, -1), down], axis=1)

    def states(self) -> np.ndarray:
        """(steps, 4 sweeps of each patch): which of the last states of these sweeps the second cell sees."""
        patch, step = np.arange(self.across), np.arange(self.size)[:, None]
        row = patch * self.size + step
        column = self.across * self.size + patch * self.stride + step
        return np.stack([row, row[::-1], column, column[::-1]], axis=2).reshape(self.size, -1)


def _rnn_pool(site: Site) -> Results:
    channels, height, width = _shape(site)
    patches = _patches(site, height, width)
    cells = (_Cell.of(site, 1, channels), _Cell.of(site, 4, site.static(1, "W1").shape[1]))
    if patches.down == 1:
        row = _row(site, site.input(0), patches, cells)
        return site.last("Reshape", row, site.constant("shape", (1, -1, 1, patches.across), np.int64))
    lines = site.constant("lines", patches.lines, np.int64)
    call = Call("Scan", f"{site.call.name}.rows", (lines,), (f"{site.stem}.rows",), {"num_scan_inputs": 1})

    def fill(inputs: tuple[str, ...]) -> tuple[str, ...]:
        return (_row(site, site.make("Gather", site.input(0), inputs[0], axis=2), patches, cells),)

    (rows,) = site.builder.loop(call, (f"{site.stem}.line",), fill)
    planes = site.make("Transpose", rows, perm=[1, 0, 2])
    return site.last("Unsqueeze", planes, site.constant("axis", [0], np.int64))


def _shape(site: Site) -> tuple[int, int, int]:
    shape = site.shape(site.input(0))
    if len(shape) != 4 or shape[0] != 1:
        raise site.refuse(f"images of shape {list(shape)}", "give (1, channels, height, width)")
    return shape[1], shape[2], shape[3]


def _patches(site: Site, height: int, width: int) -> Patches:
    given = [[int(side) for side in site.attr(name, [])] for name in ("kernel_shape", "strides")]
    if any(len(sides) != 2 or sides[0] != sides[1] or sides[0] < 1 for sides in given):
        raise site.refuse(f"kernel_shape {given[0]} and strides {given[1]}", "give square ones, such as [8, 8]")
    size, stride = given[0][0], given[1][0]
    if size > min(height, width):
        raise site.refuse(f"patches of {size} pixels in {height} x {width}", "give smaller ones")
    return Patches(size, stride, height, width)


def _row(site: Site, lines: str, patches: Patches, cells: tuple[_Cell, _Cell]) -> str:
    """(4 hidden, patches across) of the lines (1, channels, size, width) under one row of patches."""
    channels = cells[0].inputs
    planes = site.make("Reshape", lines, site.constant("planes", (channels, -1), np.int64))
    pixels = site.make("Transpose", planes, perm=[1, 0])
    swept = site.make("Gather", pixels, site.constant("pixels", patches.pixels(), np.int64), axis=0)
    states = cells[0].last_states(swept)
    again = site.make("Gather", states, site.constant("states", patches.states(), np.int64), axis=0)
    said = cells[1].last_states(again)
    by_patch = site.make("Reshape", said, site.constant("patches", (patches.across, -1), np.int64))
    return site.make("Transpose", by_patch, perm=[1, 0])


@dataclass(frozen=True, slots=True)
class _Cell:
    """FastGRNN with zeta = 1 and nu = 0 (Kusupati et al., NeurIPS 2018): c = x W + h U,
    h' = g h + (1 - g) tanh(c + b_h), g = sigmoid(c + b_g)."""

    site: Site
    number: int
    w: np.ndarray
    u: np.ndarray
    biases: np.ndarray

    @classmethod
    def of(cls, site: Site, first: int, inputs: int) -> _Cell:
        number = 1 + first // 4
        w, u, b = (site.static(first + at, f"{name}{number}") for at, name in enumerate("WUB"))
        hidden = u.shape[-1]
        if (w.shape, u.shape, b.shape) != ((inputs, hidden), (hidden, hidden), (2, hidden)):
            shapes = [list(array.shape) for array in (w, u, b)]
            wanted = f"[{inputs}, hidden], [hidden, hidden], [2, hidden]"
            raise site.refuse(f"W{number}, U{number}, B{number} of shapes {shapes}", f"give {wanted}")
        return cls(site, number, w, u, b)

    @property
    def inputs(self) -> int:
        return int(self.w.shape[0])

    def last_states(self, x: str) -> str:
        """(sweeps, hidden) after the steps of x (steps, sweeps, inputs)."""
        _, sweeps, _ = self.site.shape(x)
        stem = f"{self.site.stem}.{self.number}"
        zeros = self.site.constant(f"{self.number}.zeros", np.zeros((sweeps, len(self.u))))
        call = Call(
            "Scan", f"{self.site.call.name}.{self.number}", (zeros, x), (f"{stem}.last",), {"num_scan_inputs": 1}
        )
        (last,) = self.site.builder.loop(call, (f"{stem}.h", f"{stem}.x"), lambda inputs: (self._step(*inputs),))
        return last

    def _step(self, h: str, x: str) -> str:
        make: Callable[..., str] = self.site.make
        constants = {"W": self.w, "U": self.u, "g": self.biases[0], "h": self.biases[1], "one": np.ones(1)}
        w, u, b_g, b_h, one = (self.site.constant(f"{self.number}.{key}", array) for key, array in constants.items())
        c = make("Add", make("MatMul", x, w), make("MatMul", h, u))
        gate = make("Sigmoid", make("Add", c, b_g))
        candidate = make("Tanh", make("Add", c, b_h))
        update = make("Mul", make("Sub", one, gate), candidate)
        return make("Add", make("Mul", gate, h), update)


REWRITES = (
    Rewrite(
        "RNNPool",
        "square patches, whole ones alone; constant weights; becomes Scan",
        _rnn_pool,
        ("kernel_shape", "strides"),
        OWN_DOMAIN,
    ),
)
