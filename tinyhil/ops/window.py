"""Sliding windows: the geometry that convolution and pooling share, 1-D and 2-D (1-D is 2-D of height 1).

Float arrays are (samples, 1, channels, [height,] width): ONNX's NCHW order of one sample behind the sample axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from tinyhil.language.graph import Node, Shape
from tinyhil.ops.operator import attr, refuse

ATTRIBUTES = ("auto_pad", "dilations", "kernel_shape", "pads", "strides")
MAX_AXIS = 1 << 22  # outputs times kernel positions along one axis: far beyond any memory of a chip
MAX_PATCH_ELEMENTS = 1 << 22  # of the numpy references, per batch of samples


@dataclass(frozen=True, slots=True)
class Window:
    """Input of `channels` planes `height` x `width`, output planes `out_height` x `out_width`.

    The window of output (y, x) starts at row y * stride_y - pad_y, column x * stride_x - pad_x. The fields are those of
    `hil::Window`, in its order.
    """

    channels: int
    height: int
    width: int
    out_height: int
    out_width: int
    kernel_y: int
    kernel_x: int
    stride_y: int
    stride_x: int
    pad_y: int
    pad_x: int
    dilation_y: int
    dilation_x: int

    @property
    def pixels(self) -> int:
        """Places of the window: elements of one output plane."""
        return self.out_height * self.out_width

    @property
    def positions(self) -> int:
        """Elements under the window in one plane."""
        return self.kernel_y * self.kernel_x

    def params(self) -> dict[str, int]:
        """The fields by name, as an operation carries them."""
        return asdict(self)

    def rows(self) -> np.ndarray:
        """Input row of each (output row, kernel row); outside of the plane where the window hangs over."""
        return _along(self.out_height, self.kernel_y, self.stride_y, self.pad_y, self.dilation_y)

    def columns(self) -> np.ndarray:
        """Columns of the input (out_width, kernel_x) under each place of the window; outside of it is padding."""
        return _along(self.out_width, self.kernel_x, self.stride_x, self.pad_x, self.dilation_x)

    def patches(self, planes: np.ndarray, padding: float) -> np.ndarray:
        """(samples, channels, positions, pixels) of `planes` (samples, channels, height, width)."""
        rows, columns = self.rows(), self.columns()
        inside = ((rows >= 0) & (rows < self.height))[:, :, None, None]
        inside = inside & ((columns >= 0) & (columns < self.width))[None, None]
        index = np.clip(rows, 0, self.height - 1)[:, :, None, None] * self.width
        index = index + np.clip(columns, 0, self.width - 1)[None, None]
        order = (1, 3, 0, 2)  # kernel row, kernel column, output row, output column
        index, inside = (np.transpose(a, order).reshape(self.positions, self.pixels) for a in (index, inside))
        flat = planes.reshape(*planes.shape[:2], self.height * self.width)
        if not inside.all():  # one more element behind each plane is the padding
            flat = np.concatenate([flat, np.full((*flat.shape[:2], 1), padding, flat.dtype)], axis=2)
            index = np.where(inside, index, self.height * self.width)
        return np.take(flat, index, axis=2)

    def sights(self) -> np.ndarray:
        """(n, positions) the masks that occur of positions inside of the plane: 9 of 3 x 3 padded by 1, 1 unpadded."""
        rows, columns = self.rows(), self.columns()
        down = np.unique((rows >= 0) & (rows < self.height), axis=0)
        across = np.unique((columns >= 0) & (columns < self.width), axis=0)
        return (down[:, None, :, None] & across[None, :, None, :]).reshape(-1, self.positions)

    def valid_counts(self) -> np.ndarray:
        """(pixels,) how many positions of each window lie inside of the plane."""
        rows, columns = self.rows(), self.columns()
        down = ((rows >= 0) & (rows < self.height)).sum(axis=1)
        across = ((columns >= 0) & (columns < self.width)).sum(axis=1)
        return np.outer(down, across).reshape(-1)


FIELDS = tuple(Window.__dataclass_fields__)


def window_of(params: Mapping[str, int]) -> Window:
    """The window an operation's parameters describe."""
    return Window(**{name: params[name] for name in FIELDS})


def ends_of_sums(
    weights: np.ndarray, low: np.ndarray, high: np.ndarray, sights: np.ndarray, padding: float
) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest sum of each output, wherever its window lies; exact for channels that are one number.

    `weights`: (outputs, channels, positions), of depthwise layers (outputs, 1, positions); `low`, `high`: (channels,).
    """
    is_depthwise = weights.shape[1] < len(low)
    product = np.multiply if is_depthwise else np.matmul
    least, most = [], []
    for sight in sights:
        seen, beyond = weights[:, :, sight], padding * weights[:, :, ~sight].sum(axis=(1, 2))
        up, down = (part(seen, 0).sum(axis=2) for part in (np.maximum, np.minimum))
        if is_depthwise:
            up, down = up[:, 0], down[:, 0]
        least.append(product(up, low) + product(down, high) + beyond)
        most.append(product(up, high) + product(down, low) + beyond)
    return np.min(least, axis=0), np.max(most, axis=0)


def _along(outputs: int, kernel: int, stride: int, pad: int, dilation: int) -> np.ndarray:
    return np.arange(outputs)[:, None] * stride - pad + np.arange(kernel)[None, :] * dilation


def infer_window(node: Node, shape: Shape, kernel: tuple[int, ...]) -> Window:
    """The window of a Conv or pooling node over an input (1, channels, spatial...).

    ModelError for what is not supported.
    """
    if len(shape) not in (3, 4) or shape[0] != 1:
        raise refuse(node, f"input {list(shape)}: 1-D or 2-D with a batch of 1 is supported", "reshape it")
    rank = len(shape) - 2
    if len(kernel) != rank or list(attr(node, "kernel_shape", kernel)) != list(kernel):
        raise refuse(node, f"kernel_shape {attr(node, 'kernel_shape', None)} for kernel {list(kernel)}", "export again")
    strides, dilations = (_per_axis(node, name, rank) for name in ("strides", "dilations"))
    sides = []
    pads = attr(node, "pads", None) or [0] * (2 * rank)
    if len(pads) != 2 * rank or min(pads) < 0:
        raise refuse(node, f"pads {list(pads)} for {rank} spatial axes", "the file is damaged")
    if min(kernel) < 1:
        raise refuse(node, f"kernel {list(kernel)}", "the file is damaged")
    for axis in range(rank):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        side = _side(node, shape[2 + axis], reach, strides[axis], (pads[axis], pads[axis + rank]))
        if side[0] * kernel[axis] > MAX_AXIS or reach > MAX_AXIS:
            raise refuse(node, f"{side[0]} outputs of a kernel that covers {reach}", "the file is damaged")
        sides.append(side)
    (out_y, pad_y), (out_x, pad_x) = [(1, 0)] * (2 - rank) + sides
    height, width = _two(shape[2:])
    fields = (shape[1], height, width, out_y, out_x, *_two(kernel), *_two(strides), pad_y, pad_x, *_two(dilations))
    return Window(**dict(zip(FIELDS, fields, strict=True)))


def _two(values: Sequence[int]) -> tuple[int, int]:
    """Per spatial axis: a missing height is 1."""
    return (1, values[0]) if len(values) == 1 else (values[0], values[1])


def _per_axis(node: Node, name: str, rank: int) -> list[int]:
    values = [int(v) for v in attr(node, name, None) or [1] * rank]
    if len(values) != rank or min(values) < 1:
        raise refuse(node, f"{name} {values} for {rank} spatial axes", "the file is damaged")
    return values


def _side(node: Node, size: int, reach: int, stride: int, pads: tuple[int, int]) -> tuple[int, int]:
    """(outputs, padding in front) of one axis; `reach` is what the dilated kernel covers."""
    auto = attr(node, "auto_pad", b"NOTSET")
    auto = auto.decode() if isinstance(auto, bytes) else str(auto)
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        outputs = -(-size // stride)
        total = max((outputs - 1) * stride + reach - size, 0)
        return outputs, total // 2 if auto == "SAME_UPPER" else total - total // 2
    if auto not in ("NOTSET", "VALID", ""):
        raise refuse(node, f"auto_pad {auto}", "export with explicit pads")
    front, back = pads if auto != "VALID" else (0, 0)
    span = size + front + back - reach
    outputs = span // stride + 1
    if attr(node, "ceil_mode", 0) and span % stride and outputs * stride < size + front:
        outputs += 1  # one more window, if it begins inside of the input or the padding in front
    if span < 0 or outputs < 1:
        raise refuse(node, f"a kernel that covers {reach} of {size + front + back}", "the input is too small")
    return outputs, front


def output_shape(shape: Shape, channels: int, window: Window) -> Shape:
    """The shape of what a window over `shape` gives."""
    spatial = (window.out_height, window.out_width) if len(shape) == 4 else (window.out_width,)
    return (1, channels, *spatial)


def batches(samples: int, elements: int) -> list[slice]:
    """Slices of the samples whose patches of `elements` per sample stay within memory."""
    step = max(1, MAX_PATCH_ELEMENTS // max(elements, 1))
    return [slice(start, start + step) for start in range(0, samples, step)]


def joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """What was computed batch by batch, as one."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
