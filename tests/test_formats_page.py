"""`hil formats` and its page: the same facts, all formats, honest about what was not measured."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hil_command import hil

from tinyhil.errors import ConfigError
from tinyhil.formats import FORMATS, minifloat, named
from tinyhil.formats.affine import Affine
from tinyhil.formats.codebook import Codebook
from tinyhil.formats.format import Format, NamedFormat
from tinyhil.formats.minifloat import GENERAL
from tinyhil.harness.offline.formats import MODEL, all_facts, facts, lines, units, values
from tinyhil.harness.offline.formats import fitted as fitted_format
from tinyhil.harness.records.reals import format_of
from tools.formats_page import page
from tools.measured import BOARDS


def test_the_command_lists_every_format(tmp_path: Path) -> None:
    done = hil("formats", "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert [entry["name"] for entry in found] == [fmt.name for fmt in FORMATS]
    assert all(set(entry["costs"]) <= set(BOARDS) for entry in found)
    assert list(units()) == list(BOARDS)


def test_a_family(tmp_path: Path) -> None:
    done = hil("formats", "--family", "single", cwd=tmp_path)
    rows, _, below = done.stdout.partition("\n\n")
    assert [line.split()[0] for line in rows.splitlines()] == ["format", "float32", "bfloat16", "float16"]
    assert f"a sample of {MODEL}" in below


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


# ---- what formats print as


def _general() -> list[NamedFormat]:
    """Of every shape eXmY with its usual bias, those beside it, and weights per channel."""
    shapes = [f"e{x}m{y}" for x in range(1, 9) for y in range(11) if 1 + x + y <= 16]
    names = [f"{shape}{more}" for shape in shapes for more in ("", "b0", "b5", "b-3", "pc", "b5pc")]
    return [named(name) for name in names if not re.match(r"e8m\d+b|e7m\d+b-", name)]  # these reach 2^128


def _tensors(fmt: NamedFormat) -> list[Format]:
    """Formats of tensors of a magnitude of 1: of values, of what can not be below zero, and of weights."""
    fitted = [fmt.fit(1.0)] if fmt.fit_values is None or not isinstance(fmt.fit(1.0), Codebook) else []
    fitted += [fmt.fit_positive(1.0)] if fmt.fit_positive else []
    return fitted + ([fmt.fit_values(np.random.default_rng(0).normal(size=4096))] if fmt.fit_values else [])


OTHER = {"sign": "binary", "int16x8": "int16"}  # weights beside signs, values beside weights of int8


def _without_scale(fmt: Format) -> str:
    return str(fmt).split(" * ")[0]


def test_formats_that_differ_are_called_differently() -> None:
    """fp8e4m3 and e4m3 both printed as e4m3, fixed8pc as fixed8, kmeans16 and nf4 as a codebook of 16."""
    smalls = [named(f"{one.name}pc") for one in minifloat.NAMED if not one.values]
    found: dict[str, object] = {}
    for one in (*FORMATS, *_general(), *smalls):
        for fmt in _tensors(one):
            own = OTHER.get(one.name, one.name) if isinstance(fmt, Codebook) else fmt.scaled(0)  # fitted to the values
            own = fmt.c_type if isinstance(fmt, Affine) else own  # its scale is no power of two
            assert found.setdefault(_without_scale(fmt), own) == own, one.name


def test_a_printed_format_begins_with_its_name() -> None:
    """But for what is another format beside it: binary weights of signs, fixed8pc of fixed8pcu, int16 of int16x8."""
    for one in FORMATS:
        for fmt in _tensors(one):
            stem = one.name.removesuffix("u") if one.name.startswith("fixed") else one.name
            assert str(fmt).startswith((stem, OTHER.get(one.name, stem))), one.name


@pytest.mark.parametrize("one", [*FORMATS, *_general()], ids=lambda one: one.name)
def test_a_record_s_format_is_read_again(one: NamedFormat) -> None:
    if one.fit_values is None and one.fit_range is None and "pc" not in one.name:
        for fmt in _tensors(one):
            assert format_of(str(fmt)) == fmt


def test_small_floats_of_any_shape_are_told() -> None:
    with pytest.raises(ConfigError, match="1 to 8") as error:
        named("e9m3")
    assert GENERAL in str(error.value)
    for text in ("\n".join(lines(all_facts())), " ".join(page().split())):
        assert GENERAL in text
    for name in re.findall(r"e3m2\w*", GENERAL):
        shape = named(name).fit(1.0)
        assert np.isfinite(shape.decode(np.arange(1 << shape.bits))).all()
    nan = [one.name for one in minifloat.NAMED if getattr(one.fit(1.0), "nan_code", None) is not None]
    assert {name.removesuffix("pc") for name in nan} == set(re.findall(r"fp8\w+", GENERAL))
