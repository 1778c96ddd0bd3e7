"""Torch tensors that flow through the float references of the operators, so that no operator is written twice.

`tinyhil/ops` computes with numpy. numpy hands each call that meets a `Flowing` to it (NEP 13 and 18), and it does the
same in torch, which writes down the gradient. What carries no gradient (comparisons, indices, whole numbers) leaves
torch as a plain array. What is not in the tables below is refused by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.lib.mixins import NDArrayOperatorsMixin

from tinyhil.errors import ModelError

Tensor = torch.Tensor
FLOATS = {"float64": torch.float64, "float32": torch.float32, "float16": torch.float16}


class Flowing(NDArrayOperatorsMixin):
    """A float tensor with what the operators' references ask of an array."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """As ndarray's."""
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        """As ndarray's."""
        return self.tensor.ndim

    @property
    def size(self) -> int:
        """As ndarray's: elements."""
        return self.tensor.numel()

    @property
    def dtype(self) -> np.dtype[Any]:
        """numpy's name of torch's type."""
        return np.dtype(str(self.tensor.dtype).removeprefix("torch."))

    @property
    def T(self) -> Flowing:
        """As ndarray's: all axes reversed."""
        return self.transpose(*reversed(range(self.ndim)))

    def __len__(self) -> int:
        return len(self.tensor)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise ModelError("training: a value leaves torch where its gradient is needed")

    def numpy(self) -> np.ndarray:
        """The values, without their gradient."""
        array: np.ndarray = self.tensor.detach().cpu().numpy()
        return array

    def astype(self, dtype: Any, **_: Any) -> Any:
        """Floats stay in the flow; integers and booleans have no gradient."""
        wanted = np.dtype(dtype).name
        return Flowing(self.tensor.to(FLOATS[wanted])) if wanted in FLOATS else self.numpy().astype(dtype)

    def reshape(self, *shape: Any) -> Flowing:
        """As ndarray's; sizes apart or as one tuple."""
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        return Flowing(self.tensor.reshape(tuple(int(dim) for dim in wanted)))

    def transpose(self, *axes: int) -> Flowing:
        """As ndarray's; every axis named."""
        return Flowing(self.tensor.permute(axes))

    def swapaxes(self, a: int, b: int) -> Flowing:
        """As ndarray's."""
        return Flowing(self.tensor.swapaxes(a, b))

    def __getitem__(self, index: Any) -> Flowing:
        parts = index if isinstance(index, tuple) else (index,)
        backward = [p for p in parts if isinstance(p, slice) and (p.step or 1) < 0]
        if backward:
            return self._flipped(parts)
        return Flowing(self.tensor[tuple(torch.as_tensor(p) if isinstance(p, np.ndarray) else p for p in parts)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.tensor[index] = _tensor(value)

    def _flipped(self, parts: Sequence[Any]) -> Flowing:
        """Along axes that are read backward as a whole."""
        turned = [slice(None, None, -1) == part for part in parts]
        if any(part != slice(None) for part, back in zip(parts, turned, strict=True) if not back):
            raise _unknown(f"index {parts}")
        return Flowing(self.tensor.flip([axis for axis, back in enumerate(turned) if back]))

    def sum(self, axis: Any = None, keepdims: bool = False) -> Flowing:
        """As ndarray's; gradients flow to every element."""
        return Flowing(self.tensor.sum(_axes(self, axis), keepdim=keepdims))

    def mean(self, axis: Any = None, keepdims: bool = False) -> Flowing:
        """As ndarray's; gradients flow to every element."""
        return Flowing(self.tensor.mean(_axes(self, axis), keepdim=keepdims))

    def max(self, axis: Any = None, keepdims: bool = False) -> Flowing:
        """As ndarray's; equal largest ones share the gradient."""
        return Flowing(self.tensor.amax(_axes(self, axis), keepdim=keepdims))

    def min(self, axis: Any = None, keepdims: bool = False) -> Flowing:
        """As ndarray's; equal smallest ones share the gradient."""
        return Flowing(self.tensor.amin(_axes(self, axis), keepdim=keepdims))

    def argmax(self, axis: int) -> np.ndarray:
        """As ndarray's: an array of numpy, through which no gradient flows."""
        return self.numpy().argmax(axis=axis)

    def __getattr__(self, name: str) -> Any:
        """What else an array has, by a sentence; names with underscores are asked for by Python and numpy."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise _unknown(f"ndarray.{name}")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        options.pop("out", None)  # of a += b, which Python then assigns
        if method != "__call__" or options:
            raise _unknown(f"{ufunc.__name__}.{method}")
        name = ufunc.__name__.removesuffix(" (vectorized)")
        if name in WITHOUT_GRADIENT:
            return ufunc(*(x.numpy() if isinstance(x, Flowing) else x for x in inputs))
        if name not in UFUNCS:
            raise _unknown(name)
        return Flowing(UFUNCS[name](*(_tensor(x) for x in inputs)))

    def __array_function__(self, function: Any, types: Any, given: Any, options: Any) -> Any:
        if function.__name__ not in FUNCTIONS:
            raise _unknown(function.__name__)
        return FUNCTIONS[function.__name__](*given, **options)


class NoGradient(ModelError):
    """A function of numpy that the tables below do not have."""


def _unknown(what: str) -> NoGradient:
    return NoGradient(f"numpy's {what}, which has no gradient here")


def _tensor(value: Any) -> Any:
    """A tensor; numbers stay numbers, whose type does not count."""
    if isinstance(value, Flowing):
        return value.tensor
    return value if isinstance(value, bool | int | float) else torch.as_tensor(np.ascontiguousarray(value))


def _both(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Any, Any], Tensor]:
    """`function` where one of the two may be a number."""

    def call(a: Any, b: Any) -> Tensor:
        like = a if isinstance(a, Tensor) else b
        a, b = (x if isinstance(x, Tensor) else torch.tensor(x, dtype=like.dtype) for x in (a, b))
        return function(a, b)

    return call


def _matmul(a: Tensor, b: Tensor) -> Tensor:
    kind = torch.promote_types(a.dtype, b.dtype)
    return torch.matmul(a.to(kind), b.to(kind))


def _axes(array: Flowing, axis: Any) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(array.ndim))
    return tuple(axis) if isinstance(axis, tuple | list) else (int(axis),)


class _Sign(torch.autograd.Function):
    """The gradient of a hard tanh: what trains networks of one bit (Hubara et al. 2016)."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        context.save_for_backward(x.abs() <= 1)
        return torch.sign(x)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        (inside,) = context.saved_tensors
        return gradients[0] * inside


# The gradient at a tie of two goes to the second: Relu has none at 0. NaN stays NaN.
UFUNCS: dict[str, Callable[..., Tensor]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "power": lambda a, b: a**b,
    "negative": torch.neg,
    "positive": lambda a: a,
    "absolute": torch.abs,
    "maximum": _both(lambda a, b: torch.where(b >= a, b, a)),
    "minimum": _both(lambda a, b: torch.where(b <= a, b, a)),
    "exp": torch.exp,
    "expm1": torch.expm1,
    "log": torch.log,
    "log1p": torch.log1p,
    "sqrt": torch.sqrt,
    "square": torch.square,
    "tanh": torch.tanh,
    "sin": torch.sin,
    "cos": torch.cos,
    "erf": torch.erf,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "trunc": torch.trunc,
    "rint": torch.round,
    "sign": _Sign.apply,
    "matmul": _matmul,
    "ldexp": lambda a, b: a * 2.0**b,
}
WITHOUT_GRADIENT = {
    *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "isnan", "isfinite", "isinf"),
    *("logical_and", "logical_or", "logical_not"),
}


def _where(condition: Any, a: Any, b: Any) -> Flowing:
    chosen = condition.numpy() != 0 if isinstance(condition, Flowing) else np.asarray(condition, bool)
    return Flowing(_both(lambda x, y: torch.where(torch.as_tensor(chosen), x, y))(_tensor(a), _tensor(b)))


def _take(array: Flowing, index: Any, axis: int) -> Flowing:
    """As index_select, whose gradient is fast."""
    wanted = np.asarray(index, np.int64)
    taken = torch.index_select(array.tensor, axis, torch.as_tensor(wanted.reshape(-1)))
    return Flowing(taken.reshape(*array.shape[:axis], *wanted.shape, *array.shape[axis + 1 :]))


def _pad(array: Flowing, sides: Sequence[tuple[int, int]], constant_values: float) -> Flowing:
    flat = [int(end) for pair in reversed(sides) for end in pair]
    return Flowing(torch.nn.functional.pad(array.tensor, flat, value=float(constant_values)))


def _joined(join: Callable[..., Tensor]) -> Callable[..., Flowing]:
    def call(arrays: Sequence[Any], axis: int = 0) -> Flowing:
        tensors = [_tensor(a) for a in arrays]
        kind = next(a.tensor.dtype for a in arrays if isinstance(a, Flowing))
        return Flowing(join([t.to(kind) for t in tensors], dim=axis))

    return call


def _taken_along(array: Flowing, index: np.ndarray, axis: int) -> Flowing:
    at = torch.as_tensor(np.ascontiguousarray(index))
    return Flowing(torch.take_along_dim(array.tensor, at, dim=axis))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "where": _where,
    "clip": lambda a, low, high: np.minimum(np.maximum(a, low), high),
    "take": _take,
    "take_along_axis": _taken_along,
    "pad": _pad,
    "stack": _joined(torch.stack),
    "concatenate": _joined(torch.cat),
    "moveaxis": lambda a, source, to: Flowing(torch.moveaxis(a.tensor, source, to)),
    "broadcast_to": lambda a, shape: Flowing(torch.broadcast_to(a.tensor, tuple(shape))),
    "expand_dims": lambda a, axis: Flowing(a.tensor.unsqueeze(axis)),
    "transpose": lambda a, axes: a.transpose(*axes),
    "sum": Flowing.sum,
    "mean": Flowing.mean,
    "max": Flowing.max,
    "amax": Flowing.max,
    "min": Flowing.min,
    "amin": Flowing.min,
    "zeros_like": lambda a, dtype, shape: Flowing(torch.zeros(shape, dtype=FLOATS[np.dtype(dtype).name])),
    "einsum": lambda equation, *given: Flowing(torch.einsum(equation, *map(_tensor, given))),
    "argsort": lambda a, **options: np.argsort(a.numpy(), **options),
    "result_type": lambda *given: np.result_type(*(a.dtype if isinstance(a, Flowing) else a for a in given)),
}
