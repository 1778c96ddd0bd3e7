"""Every list of names answers a near miss with the name that was meant."""

from __future__ import annotations

import pytest

from tinyhil.errors import HilError, did_you_mean, nearest
from tinyhil.formats import ELSEWHERE, FORMAT_BY_NAME, named
from tinyhil.harness.energy.technology import find_technology
from tinyhil.harness.job.zoo import find_model
from tinyhil.harness.settings.config import load_boards
from tinyhil.memplan import find_planner
from tinyhil.search.strategies import make_strategy


@pytest.mark.parametrize(
    ("word", "names", "also", "found"),
    [
        ("shiftri", ("lagrange", "shiftry"), {}, "shiftry"),
        ("SHIFTRY", ("lagrange", "shiftry"), {}, "shiftry"),
        ("stm32h7", ("uno", "h747"), {"stm32h747": "h747"}, "h747"),
        ("nucleo", ("uno", "nucleo_l4r5"), {}, "nucleo_l4r5"),
        ("fp16", ("fixed16", "float16"), {"fp16": "float16"}, "float16"),
        ("zzz", ("uno", "due"), {}, None),
        ("", ("uno", "due"), {}, None),
    ],
)
def test_the_nearest_name(word: str, names: tuple[str, ...], also: dict[str, str], found: str | None) -> None:
    assert nearest(word, names, also) == found
    assert did_you_mean(word, names, also) == ("" if found is None else f"did you mean {found}? ")


ASKED = {
    "stm32h7": (lambda name: load_boards().board(name), "h747"),
    "fp16": (named, "float16"),
    "shiftri": (lambda name: make_strategy(name, ()), "shiftry"),
    "bestfit": (find_planner, "best-fit"),
    "digits_mpl": (find_model, "digits_mlp"),
    "embeded40": (lambda name: find_technology(name, None), "embedded40"),
}


@pytest.mark.parametrize("word", ASKED)
def test_every_registry_suggests(word: str) -> None:
    find, meant = ASKED[word]
    with pytest.raises(HilError, match=rf"did you mean {meant}\?"):
        find(word)


def test_other_people_s_words_mean_formats_that_are_there() -> None:
    assert set(ELSEWHERE.values()) <= set(FORMAT_BY_NAME)
