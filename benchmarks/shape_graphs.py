"""Published networks as programs whose weights are zeros: shapes are all that memory planning asks for.

SqueezeNet 1.1, ResNet-18 and ResNet-50 at 224 x 224, YOLOv5s (release 6) at 640 x 640, from their published
architectures. Batch normalisation is folded; activations are operations of their own unless a network is built `fused`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tinyhil.formats.fixed import Fixed
from tinyhil.language.program import Loop, Op, Program, Role, Tensor
from tinyhil.ops import conv, elementwise, movement, pool, scan
from tinyhil.ops.window import Window

FLAT = {"size_0": 1, "size_1": 1, "size_2": 1, "stride_0": 0, "stride_1": 0, "stride_2": 0, "stride_3": 1}


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor in NCHW order."""

    name: str
    channels: int
    side: int

    @property
    def count(self) -> int:
        return self.channels * self.side * self.side


@dataclass
class Shapes:
    """A program as it grows. `bits` gives the width of each tensor by name, 8 where it says nothing."""

    fused: bool = False
    bits: dict[str, int] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    body: list[Op | Loop] = field(default_factory=list)

    def value(self, name: str, channels: int, side: int, role: Role = Role.ARENA) -> Value:
        made = Value(name, channels, side)
        self.tensors[name] = Tensor(name, made.count, Fixed(self.bits.get(name, 8), 0), role)
        return made

    def _window(self, x: Value, kernel: int, stride: int, pad: int, ceil: bool = False) -> Window:
        span = x.side + 2 * pad - kernel
        out = (-(-span // stride) if ceil else span // stride) + 1
        sides = (x.side, x.side, out, out, kernel, kernel, stride, stride, pad, pad, 1, 1)
        return Window(x.channels, *sides)

    def conv(self, name: str, x: Value, outputs: int, kernel: int, stride: int = 1, pad: int = 0) -> Value:
        """A convolution without its patch: the weights' order and the chip decide about that."""
        w = self._window(x, kernel, stride, pad)
        weights = f"{name}.weights"
        self.tensors[weights] = Tensor(weights, outputs * x.channels * kernel * kernel, Fixed(8, 0), Role.CONSTANT)
        out = self.value(name, outputs, w.out_width)
        params = {**w.params(), "groups": 1, "outputs": outputs, "shift": 0}
        self.body.append(Op(conv.CONV.form, name, (weights, x.name), name, params))
        return out

    def activated(self, name: str, x: Value, outputs: int, kernel: int, stride: int = 1, pad: int = 0) -> Value:
        """Convolution and activation: one operation or two."""
        if self.fused:
            return self.conv(name, x, outputs, kernel, stride, pad)
        return self.activation(name, self.conv(f"{name}.conv", x, outputs, kernel, stride, pad))

    def activation(self, name: str, x: Value) -> Value:
        self.bits.setdefault(x.name, self.bits.get(name, 8))
        self.tensors[x.name] = Tensor(x.name, x.count, Fixed(self.bits.get(name, 8), 0), Role.ARENA)
        out = self.value(name, x.channels, x.side)
        self.body.append(Op(elementwise.RELU.form, name, (x.name,), name, {"count": x.count, "shift": 0}))
        return out

    def add(self, name: str, a: Value, b: Value) -> Value:
        out = self.value(name, a.channels, a.side)
        params = {"count": a.count, "a_period": a.count, "b_period": a.count}
        self.body.append(
            Op(elementwise.ADD.form, name, (a.name, b.name), name, {**params, "a_shift": 0, "b_shift": 0, "shift": 0})
        )
        return out

    def pool(self, name: str, x: Value, kernel: int, stride: int, pad: int = 0, *, ceil: bool = False) -> Value:
        w = self._window(x, kernel, stride, pad, ceil)
        out = self.value(name, x.channels, w.out_width)
        self.body.append(Op(pool.MAX_POOL.form, name, (x.name,), name, {**w.params(), "shift": 0}))
        return out

    def upsample(self, name: str, x: Value) -> Value:
        out = self.value(name, x.channels, 2 * x.side)
        axes = {"size_0": x.channels * x.side, "size_1": 2, "size_2": x.side, "size_3": 2}
        strides = {"stride_0": x.side, "stride_1": 0, "stride_2": 1, "stride_3": 0}
        self.body.append(Op(movement.MOVE.form, name, (x.name,), name, {"offset": 0, **axes, **strides, "shift": 0}))
        return out

    def concat(self, name: str, parts: Sequence[Value]) -> Value:
        channels = sum(part.count for part in parts) // parts[0].side ** 2
        out, offset = self.value(name, channels, parts[0].side), 0
        self.tensors[name] = Tensor(name, sum(p.count for p in parts), self.tensors[name].format, Role.ARENA)
        for part in parts:
            params = {"offset": offset, **FLAT, "size_3": part.count, "count": self.tensors[name].count, "shift": 0}
            kernel, inputs = (movement.PLACE_MORE, (part.name, name)) if offset else (movement.PLACE, (part.name,))
            self.body.append(Op(kernel.form, f"{name}.{part.name}", inputs, name, params))
            offset += part.count
        return out

    def program(self, name: str, x: Value, y: Value) -> Program:
        sizes = {t.name: t.count for t in self.tensors.values() if t.role == Role.CONSTANT}
        weights = {name: np.broadcast_to(np.int64(0), count) for name, count in sizes.items()}  # one number each
        shape = (1, x.channels, x.side, x.side)
        return Program(name, self.tensors, weights, tuple(self.body), x.name, y.name, shape, (1,))


def squeezenet(net: Shapes) -> Program:
    """SqueezeNet 1.1; the input is planned as well, as the systems it is compared with do."""
    source = net.value("source", 3, 224, Role.INPUT)
    x = net.value("data", 3, 224)
    net.body.append(Op(scan.COPY.form, "data", (source.name,), x.name, {"count": x.count}))
    x = net.pool("pool1", net.activated("conv1", x, 64, 3, 2), 3, 2)
    for number, (squeeze, expand) in enumerate(((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192)), 2):
        x = _fire(net, number, x, squeeze, expand)
        if number in (3, 5):
            x = net.pool(f"pool{number}", x, 3, 2, ceil=True)
    for number in (8, 9):
        x = _fire(net, number, x, 64, 256)
    x = net.activated("conv10", x, 1000, 1)
    w = net._window(x, x.side, 1, 0)
    y = net.value("pool10", 1000, 1)
    net.body.append(Op(pool.AVERAGE_POOL.form, "pool10", (x.name,), y.name, {**w.params(), "factor": 1, "shift": 0}))
    return net.program("squeezenet1_1", source, y)


def _fire(net: Shapes, number: int, x: Value, squeeze: int, expand: int) -> Value:
    q = net.activated(f"fire{number}.squeeze", x, squeeze, 1)
    one = net.activated(f"fire{number}.expand1", q, expand, 1)
    return net.concat(f"fire{number}", (one, net.activated(f"fire{number}.expand3", q, expand, 3, 1, 1)))


def resnet18(net: Shapes) -> Program:
    source = net.value("data", 3, 224, Role.INPUT)
    x = net.pool("pool1", net.activated("conv1", source, 64, 7, 2, 3), 3, 2, 1)
    for stage, channels in enumerate((64, 128, 256, 512), 1):
        for block in range(2):
            name, stride = f"s{stage}b{block}", 2 if block == 0 and stage > 1 else 1
            a = net.activated(f"{name}.a", x, channels, 3, stride, 1)
            b = net.conv(f"{name}.b", a, channels, 3, 1, 1)
            shortcut = net.conv(f"{name}.short", x, channels, 1, stride) if stride == 2 else x
            x = net.activation(f"{name}.y", net.add(f"{name}.sum", b, shortcut))
    return net.program("resnet18", source, x)


def resnet50(net: Shapes) -> Program:
    source = net.value("data", 3, 224, Role.INPUT)
    x = net.pool("pool1", net.activated("conv1", source, 64, 7, 2, 3), 3, 2, 1)
    for stage, (blocks, channels) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512)), 1):
        for block in range(blocks):
            name, stride = f"s{stage}b{block}", 2 if block == 0 and stage > 1 else 1
            a = net.activated(f"{name}.a", x, channels, 1)
            b = net.activated(f"{name}.b", a, channels, 3, stride, 1)
            c = net.conv(f"{name}.c", b, 4 * channels, 1)
            shortcut = net.conv(f"{name}.short", x, 4 * channels, 1, stride) if block == 0 else x
            x = net.activation(f"{name}.y", net.add(f"{name}.sum", c, shortcut))
    return net.program("resnet50", source, x)


def yolov5s(net: Shapes) -> Program:
    """The activation (SiLU) counts as one element-wise operation."""
    source = net.value("images", 3, 640, Role.INPUT)
    x = net.activated("m1", net.activated("m0", source, 32, 6, 2, 2), 64, 3, 2, 1)
    x = _c3(net, "m2", x, 64, 1)
    x = net.activated("m3", x, 128, 3, 2, 1)
    p3 = _c3(net, "m4", x, 128, 2)
    p4 = _c3(net, "m6", net.activated("m5", p3, 256, 3, 2, 1), 256, 3)
    x = _c3(net, "m8", net.activated("m7", p4, 512, 3, 2, 1), 512, 1)
    x = net.activated("m9.a", x, 256, 1)
    pools = [x]
    for number in range(3):
        pools.append(net.pool(f"m9.p{number}", pools[-1], 5, 1, 2))
    n5 = net.activated("m10", net.activated("m9.b", net.concat("m9.c", pools), 512, 1), 256, 1)
    x = _c3(net, "m13", net.concat("m12", (net.upsample("m11", n5), p4)), 256, 1, shortcut=False)
    n4 = net.activated("m14", x, 128, 1)
    o3 = _c3(net, "m17", net.concat("m16", (net.upsample("m15", n4), p3)), 128, 1, shortcut=False)
    o4 = net.concat("m19", (net.activated("m18", o3, 128, 3, 2, 1), n4))
    o4 = _c3(net, "m20", o4, 256, 1, shortcut=False)
    o5 = net.concat("m22", (net.activated("m21", o4, 256, 3, 2, 1), n5))
    o5 = _c3(net, "m23", o5, 512, 1, shortcut=False)
    heads = [net.conv(f"{x.name}.head", x, 255, 1) for x in (o3, o4, o5)]
    return net.program("yolov5s", source, net.concat("detect", heads))


def _c3(net: Shapes, name: str, x: Value, channels: int, count: int, *, shortcut: bool = True) -> Value:
    half = channels // 2
    a = net.activated(f"{name}.cv1", x, half, 1)
    for number in range(count):
        inner = net.activated(f"{name}.m{number}.cv1", a, half, 1)
        inner = net.activated(f"{name}.m{number}.cv2", inner, half, 3, 1, 1)
        a = net.add(f"{name}.m{number}.add", a, inner) if shortcut else inner
    b = net.activated(f"{name}.cv2", x, half, 1)
    return net.activated(f"{name}.cv3", net.concat(f"{name}.cat", (a, b)), channels, 1)


NETWORKS: tuple[tuple[str, Callable[[Shapes], Program]], ...] = (
    ("SqueezeNet 1.1", squeezenet),
    ("ResNet-50", resnet50),
    ("YOLOv5s", yolov5s),
)

# Which tensors of SqueezeNet have 16 bits in the two mixes of the planner instances (squeezenet1_1_mix816_a and _b).
MIXES = {
    "mix a": (
        *(
            "data",
            "fire2.squeeze",
            "fire3.expand1",
            "fire3.expand3",
            "fire4.expand1",
            "fire5.squeeze",
            "fire5",
            "pool5",
        ),
        *("fire6", "fire7.expand1", "fire8.expand1", "fire8.expand3", "fire8", "fire9.expand1", "fire9.expand3"),
    ),
    "mix b": (
        *(
            "pool1",
            "fire2.squeeze",
            "fire3.squeeze",
            "pool3",
            "fire4.squeeze",
            "fire4.expand1",
            "fire5.expand3",
            "fire5",
        ),
        *("pool5", "fire6.squeeze", "fire6.expand1", "fire6.expand3", "fire6", "fire7", "fire8.squeeze"),
        *("fire8.expand1", "fire8.expand3", "fire9.expand3"),
    ),
}


def squeezenet_with(width: str, *, fused: bool) -> Program:
    """SqueezeNet at "8", "16" or one of the MIXES."""
    names = list(squeezenet(Shapes(fused=True)).tensors)
    wide = set(names) if width == "16" else set(MIXES.get(width, ()))
    bits = {name: 16 if name in wide else 8 for name in names}
    for name in names:
        bits[f"{name}.conv"] = bits[name]
    return squeezenet(Shapes(fused=fused, bits=bits))
