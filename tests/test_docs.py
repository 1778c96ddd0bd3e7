"""The tests hold the docs: what is not documented, or documented wrongly, fails."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from tinyhil import errors
from tinyhil.harness.cli import hil
from tinyhil.harness.settings.config import load_boards
from tools import readme_run
from tools.docs import PAGES
from tools.stale import unmarked

ROOT = Path(__file__).resolve().parent.parent
CLI = (ROOT / "docs" / "cli.md").read_text()
LONGEST_LINE = 160
MOST_WORDS = 45_000  # in docs/, that hold a letter: numbers and the rules of tables are none (CONTRIBUTING.md)
PAGES_WITH_LINKS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("command", sorted(hil.commands))
def test_every_command_is_documented(command: str) -> None:
    assert f"| `hil {command}` |" in CLI


def test_no_command_is_documented_that_does_not_exist() -> None:
    assert set(re.findall(r"^\| `hil ([\w-]+)` \|", CLI, re.MULTILINE)) == set(hil.commands)


@pytest.mark.parametrize("command", sorted(hil.commands))
def test_every_option_has_a_help_text(command: str) -> None:
    options = [param for param in hil.commands[command].params if isinstance(param, click.Option)]
    assert not [option.name for option in options if not option.help]


@pytest.mark.parametrize("command", ["flash", "diff", "profile", "bench"])
def test_the_image_that_run_measured_is_asked_for_in_the_same_words(command: str) -> None:
    says = {"model", "states", "steps", "then", "hop", "rounding", "format_", "assignment", "calibrate", "calibrate_by"}
    names = {param.name for param in hil.commands[command].params}
    assert says <= names
    assert says <= {param.name for param in hil.commands["run"].params}


@pytest.mark.parametrize("page", sorted(PAGES))
def test_generated_page_is_current(page: str) -> None:
    assert unmarked((ROOT / page).read_text()) == PAGES[page](), "run: python -m tools.docs"


def test_every_exit_code_is_documented() -> None:
    codes = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", CLI, re.MULTILINE)} == codes


@pytest.mark.parametrize("page", PAGES_WITH_LINKS, ids=lambda page: page.name)
def test_files_named_in_the_docs_exist(page: Path) -> None:
    text = page.read_text()
    folders = "tinyhil|memplan|codegen|search|harness|firmware|emulators|docs|tests|models|benchmarks"
    named = re.findall(rf"`((?:{folders})/[\w./-]*)`", text)
    named += re.findall(r"\]\(([^)#:]+)\)", text)
    missing = [name for name in named if not (ROOT / name).exists() and not (page.parent / name).exists()]
    assert not missing


@pytest.mark.parametrize("page", [ROOT / "CHANGELOG.md", *PAGES_WITH_LINKS], ids=lambda page: page.name)
def test_lines_can_be_read_in_an_editor(page: Path) -> None:
    """Rows of tables are as long as they are."""
    lines = enumerate(page.read_text().splitlines(), 1)
    long = [number for number, line in lines if len(line) > LONGEST_LINE and not line.startswith("|")]
    assert not long, f"longer than {LONGEST_LINE} characters"


def test_cycles_are_trusted_on_cores_that_were_held_against_hardware() -> None:
    """The row of docs/trust.md names those of the table of errors, and the boards of no other core but as unchecked."""
    page, row = ((ROOT / "docs" / name).read_text() for name in ("cycle_model.md", "trust.md"))
    (row,) = (line for line in row.splitlines() if line.startswith("| Cycles on ARM"))
    checked = set(re.findall(r"^\| Cortex-(M\S+) \| all", page, re.MULTILINE))
    right, _, wrong = row.partition("**not")
    assert set(re.findall(r"\b(M\d+\+?)(?!\w)", right)) == checked
    boards = load_boards()
    chips = {boards.board(name).title.split()[-1]: boards.board(name).chip for name in boards.names}
    cores = {name: chip.core for name, chip in chips.items() if chip.emulator and chip.emulator.kind == "process"}
    named = {core: core.removeprefix("cortex-").upper().replace("PLUS", "+") for core in cores.values()}
    unchecked = {name for name, core in cores.items() if core != "avr" and named[core] not in checked}
    assert unchecked == {"Due"}
    assert all(name in wrong for name in unchecked)


def test_the_docs_are_no_longer_than_somebody_reads() -> None:
    """Whoever adds a page takes away as much that another says already."""
    pages = {page: len(re.findall(r"\S*[A-Za-z]\S*", page.read_text())) for page in (ROOT / "docs").rglob("*.md")}
    longest = sorted(pages, key=lambda page: -pages[page])[:5]
    assert sum(pages.values()) <= MOST_WORDS, [f"{page.relative_to(ROOT)}: {pages[page]}" for page in longest]
    assert f"{MOST_WORDS:,} words that hold a letter" in (ROOT / "CONTRIBUTING.md").read_text()


def test_the_citation_is_that_of_citation_cff() -> None:
    """Whoever has the wheel has no CITATION.cff: `hil docs --find cite` leads to a page with the citation itself."""
    said = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    asked = CliRunner().invoke(hil, ["docs", "--find", "cite"])
    assert "reproduce" in asked.output
    page = (ROOT / "docs" / "papers" / "reproduce.md").read_text()
    (entry,) = re.findall(r"^@software{tinyhil,(.*?)}$", page, re.DOTALL | re.MULTILINE)
    fields = dict(re.findall(r"(\w+) = {({?[^{}]*}?)}", entry))
    assert fields == {
        "author": " and ".join(f"{{{one['name']}}}" for one in said["authors"]),
        "version": said["version"],
        "url": said["repository-code"],
        "title": said["title"],
    }
    assert said["version"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_the_record_s_keys_are_documented() -> None:
    from tinyhil.harness.measure import record

    source = Path(record.__file__).read_text()
    keys = re.findall(r'^        "(\w+)": ', source[: source.index("def write_record")], re.MULTILINE)
    page = (ROOT / "docs" / "results.md").read_text()
    assert len(keys) > 20
    assert not [key for key in keys if f"`{key}`" not in page]


def test_no_committed_figure_comes_from_changed_files() -> None:
    command = ["git", "ls-files", "results"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    dirty = [name for name in listed if name.endswith(".json") and '"dirty": true' in (ROOT / name).read_text()]
    assert not dirty, "measure them again from a clean tree: make tables"


def test_readme_s_run_is_what_the_golden_record_holds() -> None:
    """Renew it: python -m tools.readme_run. The record has fewer samples, so its median is not quite the same."""
    _, printed, _ = readme_run.parts((ROOT / "README.md").read_text())
    record = json.loads((ROOT / "results" / "golden" / "uno" / "fastgrnn_har-fixed16.json").read_text())
    memory, median = record["memory"], record["latency"]["median"]
    pattern = r"\nRAM +(\d+) B = (\d+) static \+ (\d+) stack \+ (\d+) heap of (\d+) B; at worst (\d+) B\n"
    ram = re.search(pattern, printed)
    assert ram is not None
    total, static, stack, heap, limit, worst = (int(number) for number in ram.groups())
    assert (static, heap, limit) == (memory["static_bytes"], memory["heap_bytes"], memory["limit_bytes"])
    assert static + memory["stack_bytes"] <= worst  # how deep a run sees depends on when bytes arrive
    assert static + stack + heap == total <= worst
    assert f"\narena          {memory['arena_bytes']} B (--prefer balanced), " in printed
    assert f"\nflash          {record['flash_bytes']} B\n" in printed
    shown = re.search(r"median ([\d,]+) cycles", printed)
    assert shown is not None
    assert abs(int(shown[1].replace(",", "")) / median - 1) < 0.01
    assert "950 of 950 equal to the reference" in printed
