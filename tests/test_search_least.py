"""What a search calls least, whichever of its commands says it: refusals, `--minimize`, fronts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hil_command import check_failure, hil, record_of
from onnx_models import node, simple

DIGITS = ("--board", "uno", "--model", "digits_cnn")
NET = ("--model", "net.onnx", "--calibrate", "x.npz", "--inputs", "x.npz", "--board", "uno")
PRICED = r"--prefer least, with which fixed8 for all tensors takes (\d+) B, in more time than is permitted now"


def perceptron(seed: int, folder: Path) -> np.ndarray:
    """A network of six, nine and three; its samples."""
    random = np.random.default_rng(seed)
    shapes = {"A": (6, 9), "a": (9,), "B": (9, 3), "b": (3,)}
    constants = {name: random.normal(size=shape) for name, shape in shapes.items()}
    nodes = [node("MatMul", "x A", "c"), node("Add", "c a", "d"), node("Tanh", "d", "t"), node("MatMul", "t B", "e")]
    model = simple([*nodes, node("Add", "e b", "y")], {"x": (1, 6)}, constants)
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    x = random.normal(size=(400, 6)).astype(np.float32)
    np.savez(folder / "x.npz", x=x)
    return x


@pytest.mark.parametrize("limit", [400, 560])
def test_what_more_time_would_save_is_said_whatever_the_limit(limit: int, tmp_path: Path) -> None:
    """Of a limit that it does not keep, too: more than a run needs was called least."""
    ran = record_of(
        hil("run", *DIGITS, "--format", "fixed8", "--prefer", "least", "--samples", 2, "--json", cwd=tmp_path)
    )
    least = ran["memory"]["static_bytes"] + ran["memory"]["stack_limit_bytes"]
    asked = ("search", *DIGITS, "--formats", "fixed8", "--samples", 60)
    refused = hil(*asked, "--ram", limit, cwd=tmp_path)
    check_failure(refused, 4, logs=True)
    (said,) = re.findall(PRICED, refused.stderr)
    (named,) = re.findall(r"try --ram (\d+)", refused.stderr)
    assert int(said) == least < int(named)
    found = hil(*asked, "--minimize", "ram", "--json", cwd=tmp_path)
    assert record_of(found)["ram_bytes"] == int(named)
    assert (
        f"search: {named} B are the least found within --more-time; for less {said and '--prefer least'}"
        in found.stderr
    )


def test_formats_for_all_tensors_are_held_to_the_least_in_as_little(tmp_path: Path) -> None:
    """They stood beside an answer that computes again as they are planned without."""
    asked = ("search", *DIGITS, "--formats", "fixed8,fixed16", "--samples", 60, "--points", 100, "--minimize", "ram")
    found = record_of(hil(*asked, "--evaluations", 8, "--json", cwd=tmp_path))
    narrow = next(row for row in found["uniform"] if row["format"] == "fixed8")
    assert narrow["less_ram"]
    assert found["ram_bytes"] <= narrow["ram_bytes"] <= 598


@pytest.mark.parametrize("seed", [0, 1])
def test_no_mixture_of_two_formats_beats_a_front(seed: int, tmp_path: Path) -> None:
    """What a search beside its strategy's answer asks was not asked of a front."""
    x = perceptron(seed, tmp_path)
    np.savez(tmp_path / "searched.npz", x=x[:200])
    asked = NET[:4]
    swept = ("--pareto", "ram,latency,accuracy", "--levels", 2, "--formats", "fixed4,fixed8", "--evaluations", 1)
    front = record_of(hil("search", *asked, "--board", "uno", "--inputs", "x.npz", *swept, "--json", cwd=tmp_path))
    for wide in ("Aa Bb", "ab", "AB"):
        chosen = {"default": "fixed4", "values": {name: "fixed8" for name in wide if name != " "}}
        (tmp_path / "w.yaml").write_text(json.dumps({**chosen, "found": {"prefer": "ram"}}))
        run = ("run", *asked, "--board", "uno", "--inputs", "searched.npz", "--assignment", "w.yaml", "--json")
        ran = record_of(hil(*run, cwd=tmp_path))
        memory, latency = ran["memory"], ran["latency"]
        own = [memory["static_bytes"] + memory["stack_limit_bytes"], 1e6 * latency["max"] / latency["clock_hz"]]
        own.append(ran["disagreements"])
        points = [[one["ram_bytes"], one["latency_us"], one["searched_disagreements"]] for one in front["points"]]
        assert any(all(a <= b for a, b in zip(point, own, strict=True)) for point in points), (wide, own, points)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_least_flash_is_no_more_than_a_refusal_names(seed: int, tmp_path: Path) -> None:
    """What differs in one format from the least was measured before a refusal alone."""
    perceptron(seed, tmp_path)
    asked = ("search", *NET, "--evaluations", 2, "--samples", 60)
    found = record_of(hil(*asked, "--minimize", "flash", "--points", 100, "--results", "fresh", "--json", cwd=tmp_path))
    refused = hil(*asked, "--flash", 4000, cwd=tmp_path)
    check_failure(refused, 4, logs=True)
    (named,) = re.findall(r"try --flash (\d+)", refused.stderr)
    assert found["flash_bytes"] <= int(named)


def test_a_plan_of_less_code_is_named(tmp_path: Path) -> None:
    """Rows take code: a limit of flash was refused, or called least, that layer by layer keeps."""
    asked = ("search", *DIGITS, "--formats", "fixed8", "--samples", 60)
    refused = hil(*asked, "--flash", 9000, cwd=tmp_path)
    check_failure(refused, 4, logs=True)
    (named,) = re.findall(r"or --prefer balanced, whose plan of memory takes ([\d,]+) B", refused.stderr)
    found = record_of(hil(*asked, "--flash", 9000, "--prefer", "balanced", "--json", cwd=tmp_path))
    assert found["flash_bytes"] == int(named.replace(",", "")) <= 9000
    least = hil(*asked, "--minimize", "flash", "--json", cwd=tmp_path)
    assert record_of(least)["flash_bytes"] > found["flash_bytes"]
    assert f"planned with --prefer balanced this answer takes {found['flash_bytes']} B" in least.stderr


def test_no_more_than_the_chip_has_is_advised(tmp_path: Path) -> None:
    """A plan that takes more time was, whose RAM the chip lacks, too."""
    chip = "chips: {small: {like: atmega328p, ram_bytes: 520, stack_reserve_bytes: 128}}\n"
    board = "boards: {tiny: {title: Tiny, chip: small, reset: on_open, upload: arduino}}\n"
    (tmp_path / "own.yaml").write_text(chip + board)
    tiny = ("--boards-file", "own.yaml", "--board", "tiny", "--model", "digits_cnn")
    refused = hil("search", *tiny, "--formats", "fixed8", "--samples", 60, cwd=tmp_path)
    check_failure(refused, 4, "choose a board with more RAM", logs=True)
    assert "--prefer least" not in refused.stderr.splitlines()[-1]


def test_mixtures_are_held_to_the_least_both_ways(tmp_path: Path) -> None:
    """As they are planned and in as little as the answer: what takes the least arena may need more stack."""
    asked = ("search", "--board", "due", "--model", "digits_cnn", "--formats", "fixed4,fixed8", "--samples", 200)
    found = hil(*asked, "--minimize", "ram", "--points", 1, "--evaluations", 4, "--json", cwd=tmp_path)
    assert record_of(found)["ram_bytes"] <= 904


@pytest.mark.parametrize("seed", [0, 1])
def test_a_limit_that_the_least_keeps_is_kept(seed: int, tmp_path: Path) -> None:
    """Formats for all and mixtures of two need more stack than what --minimize finds: 944 B were called least."""
    random = np.random.default_rng(seed)
    shapes = {"A": (8, 3, 3, 3), "a": (8,), "W": (2, 288), "w": (2,)}
    constants = {name: random.normal(size=shape) / 4 for name, shape in shapes.items()}
    nodes = [node("Conv", "x A a", "c", pads=[1] * 4), node("Relu", "c", "r"), node("Flatten", "r", "f")]
    nodes.append(node("Gemm", "f W w", "y", transB=1))
    (tmp_path / "net.onnx").write_bytes(simple(nodes, {"x": (1, 3, 6, 6)}, constants).SerializeToString())
    np.savez(tmp_path / "x.npz", x=random.normal(size=(120, 3, 6, 6)).astype(np.float32))
    asked = ("search", *NET[:-1], "due", "--evaluations", 8)
    refused = hil(*asked, "--ram", 700, cwd=tmp_path)
    check_failure(refused, 4, logs=True)
    (named,) = re.findall(r"try --ram (\d+), which a mixture takes", refused.stderr)
    assert int(named) <= 820
    assert record_of(hil(*asked, "--ram", named, "--json", cwd=tmp_path))["ram_bytes"] <= int(named)


def two_convolutions(folder: Path) -> None:
    """A network of two, tanh and sigmoid; its samples."""
    random = np.random.default_rng(5644)
    shapes = {"A": (4, 2, 3, 3), "B": (6, 4, 3, 3), "W": (24, 14), "V": (14, 6)}
    constants = {name: random.normal(size=shape) / 3 for name, shape in shapes.items()}
    nodes = [node("Conv", "x A", "c", pads=[1] * 4), node("Tanh", "c", "t")]
    nodes += [node("AveragePool", "t", "p", kernel_shape=[2, 2], strides=[2, 2]), node("Conv", "p B", "d")]
    nodes += [node("Sigmoid", "d", "s"), node("AveragePool", "s", "q", kernel_shape=[2, 2], strides=[1, 1])]
    nodes += [node("Flatten", "q", "f"), node("MatMul", "f W", "e"), node("Tanh", "e", "g"), node("MatMul", "g V", "y")]
    (folder / "net.onnx").write_bytes(simple(nodes, {"x": (1, 2, 10, 10)}, constants).SerializeToString())
    np.savez(folder / "x.npz", x=random.normal(size=(400, 2, 10, 10)).astype(np.float32))


def test_a_plan_between_those_permitted_and_the_least_arena_is_named(tmp_path: Path) -> None:
    """The least arena needs more stack than what takes 98 % more time: only the least was asked for, nothing named."""
    two_convolutions(tmp_path)
    asked = ("search", *NET, "--formats", "fixed8")
    refused = hil(*asked, "--ram", 400, cwd=tmp_path)
    check_failure(refused, 4, logs=True)
    named = re.findall(r"or (--more-time) (\d+), with which fixed8 for all tensors takes (\d+) B", refused.stderr)
    assert named, refused.stderr
    option, percent, took = named[0]
    found = record_of(hil(*asked, "--ram", took, option, percent, "--json", cwd=tmp_path))
    assert found["ram_bytes"] <= int(took)


def test_what_differs_from_a_front_in_one_format_is_asked(tmp_path: Path) -> None:
    """A search asks it beside its answer, and beat the front: between 640 B, 2 differ, and 936 B there was nothing."""
    two_convolutions(tmp_path)
    swept = ("--pareto", "ram,accuracy", "--levels", 3, "--evaluations", 24)
    front = record_of(hil("search", *NET, *swept, "--json", cwd=tmp_path))
    points = {point["ram_bytes"]: point["searched_disagreements"] for point in front["points"]}
    assert any(ram < 800 and differ < 2 for ram, differ in points.items()), points


def three_layers(folder: Path) -> None:
    """A perceptron of six, twenty, twelve and four; its samples."""
    random = np.random.default_rng(5501)
    nodes, constants, last = [], {}, "x"
    for number, (a, b) in enumerate([(6, 20), (20, 12), (12, 4)]):
        constants[f"W{number}"] = random.normal(size=(a, b)) / np.sqrt(a) * 1.5
        constants[f"b{number}"] = random.normal(size=(b,)) * 0.3
        summed = f"a{number}" if number < 2 else "y"
        nodes += [node("MatMul", f"{last} W{number}", f"m{number}"), node("Add", f"m{number} b{number}", summed)]
        nodes += [node("Relu", summed, f"r{number}")] if number < 2 else []
        last = f"r{number}"
    (folder / "net.onnx").write_bytes(simple(nodes, {"x": (1, 6)}, constants).SerializeToString())
    np.savez(folder / "x.npz", x=random.normal(size=(600, 6)).astype(np.float32))


def test_no_search_refuses_what_another_has_answered(tmp_path: Path) -> None:
    """The least flash of a search, whose bytes only a compiler knows, was refused by the next one in the folder."""
    three_layers(tmp_path)
    found = record_of(hil("search", *NET, "--minimize", "flash", "--points", 2, "--json", cwd=tmp_path))
    again = record_of(hil("search", *NET, "--flash", found["flash_bytes"], "--json", cwd=tmp_path))
    assert again["flash_bytes"] <= found["flash_bytes"]


def test_mixtures_of_two_formats_are_measured_before_flash_is_refused(tmp_path: Path) -> None:
    """5,398 B were called least, where weights and biases in fixed8 with all else in fixed16 take 5,348."""
    three_layers(tmp_path)
    refused = hil("search", *NET, "--flash", 5000, cwd=tmp_path)
    check_failure(refused, 4, "--minimize flash looks further", logs=True)
    (named,) = re.findall(r"try --flash (\d+)", refused.stderr)
    asked = ("search", *NET, "--formats", "fixed8,fixed16", "--minimize", "flash", "--points", 100, "--evaluations", 8)
    assert int(named) <= record_of(hil(*asked, "--results", "fresh", "--json", cwd=tmp_path))["flash_bytes"]


def test_a_faster_plan_of_memory_is_named_beside_the_least_latency(tmp_path: Path) -> None:
    """The least latency was that of the plan that was asked for; another plan of the same answer is faster."""
    asked = ("search", *DIGITS, "--formats", "fixed8", "--samples", 40, "--minimize", "latency", "--json")
    least = hil(*asked, "--prefer", "ram", cwd=tmp_path)
    (named,) = re.findall(r"planned with --prefer balanced this answer takes ([\d,.]+) us", least.stderr)
    found = record_of(hil(*asked, "--prefer", "balanced", cwd=tmp_path))
    assert found["latency_us"] < record_of(least)["latency_us"]
    assert f"{found['latency_us']:,.1f}" == named
