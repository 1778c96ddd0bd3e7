"""docs/examples/ and docs/half_hour.md: scripts and commands print what the pages show."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hil_command import hil

from tinyhil.frontend.rewrites import REWRITE_BY_NAME
from tools.examples import HALF_HOUR, PAGE, SCRIPTS, compilers, page, printed, title, typed

MOST_LINES = 30
SLOW = {"04_train.sh", "08_sweep.sh"}
# What golden records hold: sizes and cycles of firmware; what is learned on sums in another order; tables of these
MOVING = re.compile(r"^(?:latency|RAM|flash|best epoch|accuracy .* by the integers|\||│).*$|^[┏┡└].*\n", re.MULTILINE)


def still(text: str) -> str:
    """With the compilers that the page names to the digit, but for those of MOVING; with others without any digit."""
    masked = MOVING.sub(lambda found: re.sub(r"[\d,.\s]+", "#", found[0]), text).strip()
    return masked if compilers() in PAGE.read_text() else re.sub(r"[\d,.]+", "#", masked)


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
    assert still(printed(script, tmp_path, of_hil)) == still(shown()[script.name]), "python -m tools.examples"


def shell(line: str, folder: Path) -> str:
    """A line as a reader types it; `hil` is forked."""
    command, _, rest = line.partition(" | ")
    out = None
    if command.startswith("hil "):
        words = [str(path) for word in shlex.split(command)[1:] for path in (sorted(folder.glob(word)) or [word])]
        out, command = of_hil(words, folder), rest or "cat"
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, input=out, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("end", ["## 5.", pytest.param("Next: ", marks=pytest.mark.slow)])
def test_half_an_hour_is_typed(end: str, tmp_path: Path) -> None:
    """The first four steps build nothing."""
    text = HALF_HOUR.read_text().split(f"\n{end}")[0]
    assert len(re.findall(r"^```sh$", text, re.MULTILINE)) >= 5
    assert still(typed(text, lambda line: shell(line, tmp_path))) == still(text), "python -m tools.examples half_hour"


def test_the_page_shows_the_scripts_as_they_are() -> None:
    made = re.sub(r"\(g\+\+ .*?\)", "", page(shown()))
    assert made == re.sub(r"\(g\+\+ .*?\)", "", PAGE.read_text()), "python -m tools.examples"
    assert len(SCRIPTS) == 10


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_it_is_short(script: Path) -> None:
    assert len(script.read_text().splitlines()) < MOST_LINES
