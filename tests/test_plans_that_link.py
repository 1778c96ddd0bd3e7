"""Plans that leave room for what firmware has beside them, with the sample in the arena where slots do not link."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hil_command import check_failure, hil, record_of
from onnx_models import node, simple
from scan_models import weights


def options(nodes: list[object], shapes: dict[str, tuple[int, ...]], x: tuple[int, ...], folder: Path) -> list[object]:
    """Those that name the network, its samples and its ranges."""
    model = simple(nodes, {"x": (1, *x)}, {name: weights(*shape) for name, shape in shapes.items()})
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    np.savez(folder / "x.npz", x=np.random.default_rng(3).normal(size=(40, *x)).astype(np.float32))
    return ["--model", "net.onnx", "--inputs", "x.npz", "--calibrate", "x.npz"]


@pytest.mark.parametrize("prefer", ["balanced", "latency", "ram"])
def test_what_links_for_the_least_ram_links_for_time(prefer: str, tmp_path: Path) -> None:
    """Two slots beside the arena were within the RAM of an Uno, not within what the stack and static data leave."""
    shapes = {"W1": (6, 3, 5), "D": (6, 1, 3), "W2": (4, 6, 3), "W3": (4, 4)}
    nodes = [
        node("Conv", "x W1", "c", kernel_shape=[5], pads=[2, 2]),
        node("Relu", "c", "r"),
        node("Conv", "r D", "d", kernel_shape=[3], pads=[1, 1], group=6),
        node("Add", "r d", "a"),
        node("Conv", "a W2", "e", kernel_shape=[3]),
        node("GlobalAveragePool", "e", "g"),
        node("Flatten", "g", "f"),
        node("MatMul", "f W3", "y"),
    ]
    asked = [*options(nodes, shapes, (3, 58), tmp_path), "--board", "uno", "--prefer", prefer]
    planned = record_of(hil("plan", *asked[:2], *asked[4:], "--json", cwd=tmp_path))
    found = record_of(hil("run", *asked, "--samples", 2, "--json", cwd=tmp_path))["memory"]
    assert found["arena_bytes"] + found["input_bytes"] == planned["peak_bytes"] + planned["input_bytes"] > 1000
    assert found["static_bytes"] <= 2048 - 256


def test_both_limits_are_kept_with_the_sample_in_the_arena(tmp_path: Path) -> None:
    """By rows it was too slow, with slots for the sample beside the arena too large, and nothing else was tried."""
    shapes = {"W1": (6, 1, 3, 3), "D": (6, 1, 3, 3), "W2": (270, 5)}
    nodes = [
        node("Conv", "x W1", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        node("Conv", "r D", "d", kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=6),
        node("Add", "r d", "a"),
        node("MaxPool", "a", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", "p", "f"),
        node("MatMul", "f W2", "y"),
    ]
    asked = [*options(nodes, shapes, (1, 18, 11), tmp_path), "--board", "nucleo_l4r5"]

    def needs(*given: object) -> tuple[int, float]:
        """RAM at worst, and microseconds."""
        ran = record_of(hil("run", *asked, *given, "--samples", 4, "--json", cwd=tmp_path))
        memory, latency = ran["memory"], ran["latency"]
        return memory["static_bytes"] + memory["stack_limit_bytes"], 1e6 * latency["max"] / latency["clock_hz"]

    (most_bytes, fast_us), (_, slow_us) = (needs("--format", "fixed8", "--prefer", p) for p in ("latency", "ram"))
    within_bytes, within_us = most_bytes - 300, (fast_us + slow_us) / 2  # two slots take 396
    limits = ["--ram", within_bytes, "--latency-us", within_us, "--formats", "fixed8"]
    done = hil("search", *asked, *limits, "--evaluations", 8, "--out", "w.yaml", "--json", cwd=tmp_path)
    found = record_of(done)
    assert found["ram_bytes"] <= within_bytes
    assert found["latency_us"] <= within_us
    assert found["less_ram"]
    assert not found["uniform"][0]["less_ram"]
    ram_bytes, took_us = needs("--assignment", "w.yaml")
    assert (ram_bytes, took_us) <= (found["ram_bytes"], within_us)
    done = hil(
        "search", *asked, "--ram", within_bytes, "--prefer", "balanced", "--formats", "fixed8", "--json", cwd=tmp_path
    )
    assert record_of(done)["ram_bytes"] <= within_bytes


SMALL = """
chips:
  small_chip: {like: rp2040, ram_bytes: %d}
boards:
  small: {title: Small, chip: small_chip, baud: 115200, reset: on_open, upload: uf2}
"""


@pytest.mark.parametrize("ram_bytes", [2840, 3400])
@pytest.mark.parametrize("format_", ["fixed8", "int8"])
def test_a_plan_is_one_that_a_run_takes(ram_bytes: int, format_: str, tmp_path: Path) -> None:
    """2,924 B of arena were said to fit 3,400 B, whose stack has 2,048, and refused in 2,840 B: both run in 544 B."""
    (tmp_path / "boards.yaml").write_text(SMALL % ram_bytes)
    asked = ["--model", "digits_cnn", "--board", "small", "--boards-file", "boards.yaml", "--format", format_]
    planned = record_of(hil("plan", *asked, "--json", cwd=tmp_path))
    ran = record_of(hil("run", *asked, "--samples", 2, "--json", cwd=tmp_path))["memory"]
    assert planned["peak_bytes"] == ran["arena_bytes"] < ram_bytes - 2048


def test_what_surely_does_not_link_does_not_fit(tmp_path: Path) -> None:
    (tmp_path / "boards.yaml").write_text(SMALL % 3400)
    asked = ["--model", "digits_cnn", "--board", "small", "--boards-file", "boards.yaml", "--format", "fixed8"]
    refused = hil("plan", *asked, "--ram", 2924, cwd=tmp_path)
    assert refused.returncode == 4
    assert "exceed 1352 B of RAM (3400 B less 2048 B for the stack) by 1572 B; use" in refused.stderr
    assert hil("run", *asked, "--ram", 2924, "--samples", 1, cwd=tmp_path).returncode == 4


def test_a_search_plans_every_format_for_the_room_there_is(tmp_path: Path) -> None:
    """int8 stood beside its answer as beyond the limits, which a run of it keeps."""
    (tmp_path / "boards.yaml").write_text(SMALL % 3400)
    asked = ["--model", "digits_cnn", "--board", "small", "--boards-file", "boards.yaml", "--samples", 60]
    found = record_of(hil("search", *asked, "--evaluations", 4, "--json", cwd=tmp_path))
    assert {row["format"]: row["arena_bytes"] for row in found["uniform"]} == {
        "fixed8": 544,
        "fixed16": 944,
        "int8": 544,
    }
    assert all(row["ram_bytes"] for row in found["uniform"])


def test_a_search_that_the_reserve_ends_says_who_knows_of_it(tmp_path: Path) -> None:
    """Nothing fits beside the reserve of the stack, which is a guess: a run says what the stack needs."""
    (tmp_path / "boards.yaml").write_text(SMALL % 2400)
    asked = ["--model", "digits_cnn", "--board", "small", "--boards-file", "boards.yaml", "--samples", 60]
    refused = hil("search", *asked, "--evaluations", 4, cwd=tmp_path)
    check_failure(refused, 4, "`hil run --board small --format fixed8` says whether a smaller stack_reserve", logs=True)
