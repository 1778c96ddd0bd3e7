"""`hil formats` and its page: the same facts, all formats, honest about what was not measured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hil_command import hil

from tinyhil.formats import FORMATS, named
from tinyhil.harness.offline.formats import all_facts, facts, units, values
from tinyhil.harness.offline.formats import fitted as fitted_format
from tools.measured import BOARDS


def test_the_command_lists_every_format(tmp_path: Path) -> None:
    done = hil("formats", "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert [entry["name"] for entry in found] == [fmt.name for fmt in FORMATS]
    assert all(set(entry["costs"]) <= set(BOARDS) for entry in found)
    assert list(units()) == list(BOARDS)


def test_a_family(tmp_path: Path) -> None:
    done = hil("formats", "--family", "single", cwd=tmp_path)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["format", "float32", "bfloat16", "float16"]


def test_an_unknown_family(tmp_path: Path) -> None:
    done = hil("formats", "--family", "decimal", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("hil: unknown family 'decimal'; known: fixed")


@pytest.mark.parametrize(
    ("name", "largest", "smallest", "digits"),
    [
        ("fixed8", 1.0, 2.0**-7, 6),
        ("posit8es2", 2.0**24, 2.0**-24, 3),
        ("posit16es1", 2.0**28, 2.0**-28, 12),
        ("fp8e4m3", 448 / 256, 2.0**-17, 3),
        ("bfloat16", 255 * 2.0**120, 2.0**-133, 7),
        ("float16", 65504.0, 2.0**-24, 10),
    ],
)
def test_facts(name: str, largest: float, smallest: float, digits: float) -> None:
    found = facts(named(name))
    assert (found.largest, found.smallest, found.digits) == (largest, smallest, digits)


def test_values_are_all_there() -> None:
    assert len(values(fitted_format(named("posit8es1")))) == 255  # NaR is none
    assert len(values(fitted_format(named("fp8e4m3")))) == 253  # two zeros, two NaNs
    assert len(values(fitted_format(named("fixed5")))) == 32
    assert len(values(fitted_format(named("nf4")))) == 16
    assert (np.diff(values(fitted_format(named("float16")))) > 0).all()


def test_domains_are_known() -> None:
    assert {fact.domain for fact in all_facts()} == {"integer", "coded", "single", "affine"}
