"""Passes that make a program one core's: each by its name, each to be left out, none changes what is computed."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from random_models import extreme_inputs

from tinyhil.compiler.lower import lower
from tinyhil.harness.job.job import open_model
from tinyhil.language.program import Program
from tinyhil.passes.arrange import CORES, ON_CORE, arrange
from tinyhil.references.reference import run_reference

# model, format, and the passes that change a program of these on some core
CASES = {
    ("digits_cnn", "int8"): {"blocks"},
    ("digits_mlp", "sign"): {"signs"},
    ("fastgrnn_har", "fixed8"): {"tables", "folds", "ranges", "blocks"},
    ("fastgrnn_har", "int8"): {"tables", "linear-sums", "ranges", "blocks"},
    ("protonn_usps2", "fixed8"): {"streams", "matrices"},
}


@functools.cache
def lowered(model: str, fmt: str) -> Program:
    opened = open_model(model)
    return lower(opened.model.graph, opened.assignment(None, fmt), opened.required_ranges(None))


@pytest.mark.parametrize(("model", "fmt"), CASES)
def test_what_is_computed_stays_whatever_is_left_out(model: str, fmt: str) -> None:
    program = lowered(model, fmt)
    inputs = extreme_inputs(program, 1, 2)
    wanted = run_reference(program, inputs)
    changing = set()
    for core in CORES:
        whole = arrange(program, core)
        for one in ON_CORE:
            made = arrange(program, core, [one.name])
            if made.body == whole.body and made.tensors == whole.tensors:
                continue
            changing.add(one.name)
            found = run_reference(made, inputs)
            assert np.array_equal(found.outputs, wanted.outputs), (core, one.name)
            assert np.array_equal(found.saturations, wanted.saturations), (core, one.name)
    assert changing >= CASES[model, fmt]


def test_a_program_stays_as_it_is_without_all_of_them() -> None:
    program = lowered("digits_cnn", "int8")
    assert all(arrange(program, core, [one.name for one in ON_CORE]) is program for core in CORES)


def test_each_has_a_case_that_it_changes() -> None:
    """No model of the zoo has constant channels (tests/test_constant_channels.py), pixels (tests/test_layout.py),
    attention or GELU (tests/test_attention_kernels.py) or weights in groups (tests/test_grouped_weights.py)."""
    assert {one.name for one in ON_CORE} - set().union(*CASES.values()) == {
        "constant-channels",
        "input",
        "decided",
        "nibbles",
        "joint-functions",
        "linear-channels",
        "softmax-tables",
    }
