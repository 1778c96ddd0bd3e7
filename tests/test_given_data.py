"""How tests come to their data: what ships is listed and needs no setting, the rest is asked for by name."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from given_data import SETS, SHIPPED, absent, data_file, folder_of, ships

from tinyhil import data
from tinyhil.data import ad, cifar, dsa, fsdd, kws, letter, mnist, usps

TESTS = Path(__file__).resolve().parent
MOST_BYTES = 6_100_000


def test_what_ships_is_small_and_each_file_has_its_licence() -> None:
    listed = re.findall(r"^\| `([^`]+)` \|[^|]+\| \S.* \|$", (SHIPPED / "README.md").read_text(), re.MULTILINE)
    patterns = [name if "*" in name or not name.endswith("/") else f"{name}*" for name in listed]
    described = {path for pattern in patterns for path in SHIPPED.glob(pattern)}
    there = {path for path in SHIPPED.rglob("*") if path.is_file()} - {SHIPPED / "README.md"}
    assert described == there
    assert sum(path.stat().st_size for path in there) < MOST_BYTES


def test_sets_name_the_files_that_loaders_read() -> None:
    assert set(SETS) == {loader.name for loader in data.DATASETS}
    origins = [module.ORIGIN for module in (ad, cifar, dsa, fsdd, kws, letter, mnist, usps)]
    assert {origin.name: origin.files for origin in origins} == {
        origin.name: tuple(Path(file).name for file in SETS[origin.name]) for origin in origins
    }


def test_no_test_reads_the_setting_by_itself() -> None:
    """What it reads by itself it has on the machine of whoever wrote it, and not elsewhere."""
    own = {TESTS / "given_data.py", TESTS / "conftest.py", Path(__file__)}
    reads = re.compile(r"""(environ\[|environ\.get\(|getenv\()["']HIL_DATA["']""")
    assert not [path.name for path in TESTS.rglob("*.py") if path not in own and reads.search(path.read_text())]


def test_who_asks_for_nothing_is_given_nothing() -> None:
    assert "HIL_DATA" not in os.environ
    with pytest.raises(KeyError):
        data_file("small/no_such_file.npz")


@pytest.mark.data("small/letter.npz")
def test_what_ships_needs_no_setting(request: pytest.FixtureRequest) -> None:
    assert ships("small/letter.npz")
    assert absent("small/letter.npz") == []
    assert os.environ["HIL_DATA"] == str(SHIPPED) == str(folder_of("small/letter.npz"))
    assert "unshipped" not in request.node.keywords
    assert data.load("letter", allow_download=False).source == "full"
