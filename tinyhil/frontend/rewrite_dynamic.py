"""What onnxruntime's dynamic quantizer writes, and its optimizer: codes whose scale each sample chooses."""

from __future__ import annotations

from tinyhil.frontend.rewrite import MICROSOFT, Results, Rewrite, Site
from tinyhil.frontend.rewrite_quantized import grid_of_inputs, real_value

LEVELS = 255.0  # between the lowest and the highest code, of uint8


def _chosen(site: Site, x: str) -> tuple[str, str, str]:
    """Codes (numbers) of `x`, their scale and zero point.

    Where all is 0 any scale will do: one of usual size, since those of other samples have to be held beside it.
    """
    nothing = site.constant("nothing", 0.0)
    low = site.make("Min", site.make("ReduceMin", x, keepdims=0), nothing)
    high = site.make("Max", site.make("ReduceMax", x, keepdims=0), nothing)
    width, levels = site.make("Sub", high, low), site.constant("levels", LEVELS)
    some = site.make("Where", site.make("Equal", width, nothing), site.constant("usual", 1.0), width)
    scale = site.make("Div", some, levels)
    ends = nothing, levels
    zero = site.make("Clip", site.make("Round", site.make("Neg", site.make("Div", low, scale))), *ends)
    codes = site.make("Clip", site.make("Add", site.make("Round", site.make("Div", x, scale)), zero), *ends)
    return codes, scale, zero


def _dynamic(site: Site) -> Results:
    """Codes, scale and zero point."""
    made = enumerate(_chosen(site, site.input(0)))
    return tuple(site.named(index, "Identity", one) if site.wants(index) else "" for index, one in made)


def _product(site: Site, x: str, weights: str, bias: int) -> Results:
    if not site.input(bias):
        return site.last("MatMul", x, weights)
    return site.last("Add", site.make("MatMul", x, weights), site.input(bias))


def _dynamic_matmul(site: Site) -> Results:
    """A, of which codes are chosen, times constant codes B, plus a bias."""
    codes, scale, zero = _chosen(site, site.input(0))
    x = site.make("Mul", site.make("Sub", codes, zero), scale)
    return _product(site, x, real_value(site, site.input(1), grid_of_inputs(site, 2, 3, -1)), 4)


def _to_float(site: Site) -> Results:
    """Codes A with a scale of the run, times constant codes B, plus a bias."""
    moved = site.make("Sub", site.input(0), site.input(4)) if site.input(4) else site.input(0)
    x = site.make("Mul", moved, site.input(2))
    return _product(site, x, real_value(site, site.input(1), grid_of_inputs(site, 3, 5, -1)), 6)


REWRITES = (
    Rewrite("DynamicQuantizeLinear", "uint8; numbers whose scale each sample chooses", _dynamic),
    Rewrite("DynamicQuantizeMatMul", "as DynamicQuantizeLinear and MatMul", _dynamic_matmul, (), MICROSOFT),
    Rewrite("MatMulIntegerToFloat", "as MatMul of what the codes stand for", _to_float, (), MICROSOFT),
)
