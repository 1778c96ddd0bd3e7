"""docs/examples/: each script prints what the page shows, and the page shows the scripts as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hil_command import hil

from tinyhil.frontend.rewrites import REWRITE_BY_NAME
from tools.examples import PAGE, SCRIPTS, compilers, page, printed, title

MOST_LINES = 30
SLOW = {"04_train.sh", "08_sweep.sh"}
# How deep a stack is seen depends on when bytes arrive; what is learned on sums in another order
MOVING = re.compile(r"^RAM .*$|^best epoch .*$|^accuracy .* by the integers.*$", re.MULTILINE)


def shown() -> dict[str, str]:
    """What the page says that each script prints."""
    text = PAGE.read_text()
    return {
        script.name: text.split(f"\n## {title(script)}\n")[1].split("\n## ")[0].split("```")[-2] for script in SCRIPTS
    }


def of_hil(words: list[str], folder: Path) -> str:
    done = hil(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "script",
    [pytest.param(one, marks=pytest.mark.slow if one.name in SLOW else (), id=one.name) for one in SCRIPTS],
)
def test_it_prints_what_the_page_shows(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the digit with the compilers that the page names; with others figures differ."""
    if "train" in script.name:
        pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setitem(REWRITE_BY_NAME, "Softsign", REWRITE_BY_NAME["Mish"])  # what the last example puts there goes
    said, stated = (MOVING.sub("", text).strip() for text in (printed(script, tmp_path, of_hil), shown()[script.name]))
    if compilers() not in PAGE.read_text():
        said, stated = (re.sub(r"[\d,.]+", "N", text) for text in (said, stated))
    assert said == stated, "python -m tools.examples"


def test_the_page_shows_the_scripts_as_they_are() -> None:
    made = re.sub(r"\(g\+\+ .*?\)", "", page(shown()))
    assert made == re.sub(r"\(g\+\+ .*?\)", "", PAGE.read_text()), "python -m tools.examples"
    assert len(SCRIPTS) == 10


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_it_is_short(script: Path) -> None:
    assert len(script.read_text().splitlines()) < MOST_LINES
