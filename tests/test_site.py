"""README's first screen, the site of docs/, its tutorials, and the action for other people's repositories."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import nullcontext, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import click
import pytest
import yaml
from browser import browser, chromium
from given_data import needs_set
from hil_command import hil, pytest_typed, typed_lines, wait_until
from test_examples import check_hil
from test_report_looks import AXE, LOOKS, faults
from wire_bench import ROOT

import tinyhil
from tinyhil.harness.cli import hil as commands_of_hil
from tools import figures, reference

DOCS = ROOT / "docs"
PROJECT = ROOT / "examples" / "vibration"
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))
SCREEN = 60  # lines
MADE = {figures.PAGE, reference.COMMANDS, reference.PYTHON}  # when the site is built
FETCHED = re.compile(r'<(?:script|img|iframe|link rel="(?:stylesheet|preload|icon)")[^>]*(?:src|href)="([^"]+)"')
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a link that leads nowhere, or a page outside of the navigation, fails."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "http_proxy": "http://127.0.0.1:9", "no_proxy": ""}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_asks_for_nothing(site: Path) -> None:
    pages = sorted(site.rglob("index.html"))
    assert len(pages) >= 30
    for page in pages:
        fetched = FETCHED.findall(page.read_text())
        assert fetched
        assert not [address for address in fetched if "//" in address], page
        assert 'data-md-component="source"' not in page.read_text()  # of it the theme's script asks GitHub
    assert not list(site.rglob("*.py"))


BARE = re.compile(r"</code></pre></div>\s*((?!</?(?:p|h\d|ul|ol|div|table|hr|li|article)\b)\S.{0,60})")


def test_text_behind_code_is_a_paragraph(site: Path) -> None:
    found = {page.parent.name: BARE.findall(page.read_text()) for page in sorted(site.rglob("index.html"))}
    assert {name: texts for name, texts in found.items() if texts} == {}


def test_every_golden_record_is_a_row_with_its_record_and_command(site: Path) -> None:
    page = (site / "measured/figures/index.html").read_text()
    golden = sorted((ROOT / "results/golden").glob("*/*.json"))
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)[1:]
    assert len(rows) > len(golden) > 100
    for path in golden:
        record = json.loads(path.read_text())
        (row,) = (
            row for row in rows if f"/{path.relative_to(ROOT)}&quot;" in row or f'/{path.relative_to(ROOT)}"' in row
        )
        for text in (
            record["model"],
            record["board"],
            f"{record['flash_bytes']:,}",
            f"{record['latency']['median']:,.0f}",
        ):
            assert text in row, path
        assert f"hil golden update --board {record['order']['board']} --model {record['order']['model']}" in row


def test_the_command_beside_a_figure_gives_the_figure(tmp_path: Path) -> None:
    """Typed in an empty folder: the same cycles and bytes."""
    (found,) = (one for one in figures.golden_figures() if one.file == "results/golden/uno/digits_mlp-fixed8.json")
    done = hil(*shlex.split(found.command)[1:], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / found.file).read_text())
    state = found.history[-1]
    assert (record["latency"]["median"], record["flash_bytes"]) == (state.ticks, state.flash_bytes)


def test_the_history_of_a_figure_is_what_git_has() -> None:
    """Of one record, read by git show; states that changed nothing are left out, the last is the record itself."""
    name = "results/golden/uno/fastgrnn_har-fixed16.json"
    (found,) = (one for one in figures.golden_figures() if one.file == name)
    log = subprocess.run(
        ["git", "log", "--format=%H", "--", name], cwd=ROOT, capture_output=True, text=True, check=True
    )
    shown = [
        json.loads(subprocess.run(["git", "show", f"{c}:{name}"], cwd=ROOT, capture_output=True, check=True).stdout)
        for c in reversed(log.stdout.split())
    ]
    each = [(one["latency"]["median"], one["flash_bytes"]) for one in shown]
    states = [(state.ticks, state.flash_bytes) for state in found.history]
    assert states[0] == each[0]
    assert states[-1] == each[-1]
    assert set(each) == set(states)
    assert {state.commit for state in found.history} <= set(log.stdout.split())


def test_every_row_of_the_tables_is_a_figure_with_its_history() -> None:
    """Of the engines: today's rows are the file's, older states what git shows of the same row."""
    rows = [one for one in figures.tabled_figures() if one.file == "results/engines.json"]
    measured = [one for one in json.loads((ROOT / rows[0].file).read_text())["rows"] if one["cycles"] is not None]
    assert [(one.model, one.board, one.engine, one.history[-1].ticks) for one in rows] == [
        (one["network"], one["board"], one["engine"], one["cycles"]) for one in measured
    ]
    moved = next(one for one in rows if len(one.history) > 1)
    for state in moved.history:
        shown = subprocess.run(["git", "show", f"{state.commit}:{moved.file}"], cwd=ROOT, capture_output=True).stdout
        assert (state.ticks, state.ram_bytes) in [
            (one["cycles"], one["RAM"])
            for one in json.loads(shown)["rows"]
            if (one["network"], one["board"], one["engine"]) == (moved.model, moved.board, moved.engine)
        ]


def test_the_reference_is_what_the_code_says(site: Path) -> None:
    commands = (site / "reference/commands/index.html").read_text()
    for name, command in commands_of_hil.commands.items():
        assert f">hil {name}" in commands or command.hidden, name
    assert ">--tflite-rounding [tflm&#124;<wbr>litert&#124;<wbr>cmsis-nn]</code>" in commands
    calls = (site / "reference/python/index.html").read_text()
    for name in tinyhil.__all__:
        assert f">tinyhil.{name}<" in calls


@pytest.mark.skipif(chromium() is None, reason="chromium is not installed")
def test_the_site_is_searched(site: Path) -> None:
    """From a server, as published: a word leads to its page."""
    handler = partial(SilentFiles, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, browser() as page:
        Thread(target=server.serve_forever, daemon=True).start()
        page.visit(f"http://127.0.0.1:{server.server_port}/", 1280, False)
        page.evaluate("document.querySelector('.md-search__input').focus(); 0")
        page.ask("Input.insertText", text="disagreement")
        found = "[...document.querySelectorAll('.md-search-result__link')].map(e => e.getAttribute('href'))"
        wait_until(lambda: any("/glossary/" in link for link in page.evaluate(found)))
        assert page.errors == []
        known = (f"http://127.0.0.1:{server.server_port}/", "data:")
        assert not [one for one in page.requests if not one.startswith(known)]
        server.shutdown()


@pytest.mark.skipif(chromium() is None, reason="chromium is not installed")
@pytest.mark.parametrize("start", ["", "tutorials/own/"])
def test_a_folder_is_searched_and_walked_without_a_server(site: Path, start: str) -> None:
    """As `make docs` leaves it: a word leads to its page, and so does a link."""
    glossary, install = ((site / name / "index.html").resolve().as_uri() for name in ("glossary", "install"))
    result = "[...document.querySelectorAll('.md-search-result__link')].find(e => e.href.includes('/glossary/'))"
    link = "[...document.querySelectorAll('.md-nav__link')].find(e => e.href.endsWith('/install/'))"
    # a page that goes elsewhere meanwhile answers no question; the theme clicks its own switches, too
    stay = "addEventListener('click', e => e.target.closest('a') && e.preventDefault()); 0"
    click = "(e => {{ e.click(); return e.href; }})({})"
    with browser() as page:
        page.show(site / start / "index.html", 1280, False)
        page.evaluate(stay)
        page.evaluate("document.querySelector('.md-search__input').focus(); 0")
        page.ask("Input.insertText", text="disagreement")
        page.evaluate("document.activeElement.dispatchEvent(new Event('keyup')); 0")  # as typing does
        wait_until(lambda: page.evaluate(f"!!{result}"))
        assert page.evaluate(click.format(result)).startswith(glossary)
        assert page.evaluate(click.format(link)) == install
        assert page.errors == []
        assert not [one for one in page.requests if not one.startswith(("file:", "data:"))]


@pytest.mark.slow
@pytest.mark.skipif(chromium() is None or not AXE.is_file(), reason="no chromium or no axe-core: make setup-dev")
@pytest.mark.parametrize(
    "name", ["", "measured/figures/", "trust/", "questions/", "reference/commands/", "tutorials/arduino/"]
)
def test_axe_finds_nothing_on_the_site(site: Path, name: str) -> None:
    with browser() as page:
        for width, dark in LOOKS:
            page.show(site / f"{name}index.html", width, dark)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert faults(page) == [], (width, dark)


class SilentFiles(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing: pytest shows what matters."""


@pytest.mark.skipif(chromium() is None, reason="chromium is not installed")
def test_tables_are_sorted_and_filtered_in_a_browser(site: Path) -> None:
    texts = (
        "[...document.querySelectorAll('.figures tbody tr')].filter(r => !r.hidden).map(r => r.cells[{}].textContent)"
    )
    with browser() as page:
        for width, dark in ((390, True), (1280, False)):  # one browser: the scheme is the system's, not the first seen
            page.show(site / "measured/figures/index.html", width, dark)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate("document.querySelector('.figures').scrollWidth") <= width, "nothing to be scrolled"
            assert page.evaluate("document.body.dataset.mdColorScheme") == ("slate" if dark else "default")
        page.evaluate("document.querySelectorAll('.figures .table-title')[6].click(); 0")
        flash = page.evaluate(texts.format(6))
        known = [int(text.replace(",", "")) for text in flash if text]
        assert known == sorted(known, reverse=True)
        assert len(known) > 100
        assert not any(flash[len(known) :]), "what is unknown comes last"
        page.evaluate(
            "const box = document.querySelector('.table-filter'); box.value = 'uno fixed8'; "
            "box.dispatchEvent(new Event('input')); 0"
        )
        assert set(page.evaluate(texts.format(1))) == {"uno"}
        assert page.evaluate("document.querySelector('.table-filter + span').textContent").startswith(" ")
        page.show(site / "measured/peers/index.html", 1280, False)
        assert page.evaluate("document.querySelectorAll('.table-filter').length") >= 1


def test_every_page_is_in_the_navigation() -> None:
    named = set(re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} | MADE == named


def test_the_first_screen_of_the_readme() -> None:
    """What it is, for whom, one picture of a report, the install, nine lines, use in a sketch; no wide table."""
    first = (ROOT / "README.md").read_text().split("\n## ")[0]
    assert len(first.splitlines()) <= 45
    assert len(re.findall(r"!\[[^\]]*report[^\]]*\]\(docs/report.png\)", first)) == 1
    assert "For engineers" in first
    block = first.split("```\n")[1].splitlines()
    assert len(block) <= 9
    assert block[0].startswith("git clone ")
    assert " && make setup && " in block[0]
    assert "in your sketch" in first
    assert "hil export arduino" in first
    assert max(line.count("|") for line in (ROOT / "README.md").read_text().splitlines()) <= 3


@pytest.mark.parametrize("name", ["search.md", "memplan.md", "glossary.md", "index.md", "tutorials/arduino.md"])
def test_pages_that_fit_a_screen(name: str) -> None:
    assert len((DOCS / name).read_text().splitlines()) <= SCREEN + 10 * name.startswith("tutorials")


def test_commands_of_the_pages_exist() -> None:
    """Every line that calls hil is parsed by click, as in workflows; an option that is only named needs no value."""
    pages = {page: page.read_text() for page in (ROOT / "README.md", ROOT / "AGENTS.md", *DOCS.rglob("*.md"))}
    for page, text in pages.items():
        blocks = "".join(re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
        lines = re.findall(r"^(?:\$ )?(hil [a-z].*)", blocks, re.MULTILINE)
        named = [line for line in re.findall(r"`(hil [a-z][^`]*)`", text) if line != "hil golden"]
        assert lines or page not in (ROOT / "README.md", *TUTORIALS)
        for line in (*lines, *named):
            words = shlex.split(re.split(r" (?:#|>>?|&&|\|) ?", line)[0])[1:]
            is_named = line in named and words[-1].startswith("--")
            with suppress(click.BadOptionUsage) if is_named else nullcontext():
                check_hil(words)


def test_the_zoo_and_files_that_tutorials_name_exist() -> None:
    for page in TUTORIALS:
        for model in re.findall(r"--model (\S+)", page.read_text()):
            assert (ROOT / "models" / model).is_dir() or (PROJECT / model).is_file(), f"{page.name}: {model}"


def test_the_action_is_well_formed() -> None:
    """Its inputs are used, its scripts are executable shell; the tutorial's workflow gives known inputs."""
    text = (ROOT / "action.yml").read_text()
    assert ACTION["runs"]["using"] == "composite"
    for name, given in ACTION["inputs"].items():
        assert given["description"]
        assert "default" in given
        assert f"inputs.{name} " in text or f"inputs.{name}}}" in text
    scripts = {ROOT / path for path in re.findall(r"\$GITHUB_ACTION_PATH/([\w./]+)", text)}
    assert {script.name for script in scripts} == {"install", "test"}
    for script in scripts:
        assert os.access(script, os.X_OK)
        subprocess.run(["bash", "-n", script], check=True)
    for step in ACTION["runs"]["steps"]:
        assert ("run" in step) != ("uses" in step)
        assert "uses" in step or step["shell"] == "bash"
    (block,) = re.findall(r"```yaml\n(.*?)```", (DOCS / "tutorials" / "ci.md").read_text(), re.DOTALL)
    workflow = yaml.safe_load(block)
    assert len(block.splitlines()) <= 10
    ours = workflow["jobs"]["boards"]["steps"][-1]
    assert set(ours["with"]) <= set(ACTION["inputs"])


def script(name: str, folder: Path, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """A script of the action in `folder`, with this Python's commands in front."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = ["bash", str(ROOT / ".ci" / "action" / name), *map(str, arguments)]
    variables = {**os.environ, "PATH": path, **environment}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def test_the_action_s_tests_write_the_summary_and_fail_with_pytest(tmp_path: Path) -> None:
    shutil.copytree(PROJECT, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__"))
    folder, summary = tmp_path / "project", tmp_path / "summary.md"
    chosen = {"HIL_BOARDS": "host", "HIL_ARGUMENTS": "-p no:cacheprovider --hil-samples 4", "HIL_REPORT": "out"}
    (folder / "test_one.py").write_text(
        "def test_one(board):\n"
        "    record = board.run('models/vibration.onnx', inputs='data/test.npz', calibrate='data/train.npz')\n"
        "    assert record['samples'] == 4\n\n"
        "def test_two():\n    assert False\n"
    )
    done = script("test", folder, **chosen, HIL_TESTS="test_one.py", GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout
    assert "| vibration | fixed16 | valid |" in summary.read_text()
    assert {path.name for path in (folder / "out").iterdir()} == {"junit.xml", "hil.json", "summary.md"}


def test_the_action_s_installation(tmp_path: Path) -> None:
    """As far as it goes without a network: pip is told the right packages."""
    python = tmp_path / "python"
    noted = f'[ "$1" = -m ] && echo "$@" >>{tmp_path}/told && exit 0'
    python.write_text(f'#!/bin/sh\n{noted}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (tmp_path / "hil").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "hil").chmod(0o755)
    environment = {"PYTHON": str(python), "HIL_PACKAGES": "torch onnx", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    root = tmp_path / "tinyhil"
    (root / ".ci").mkdir(parents=True)
    (root / ".ci" / "packages").write_text("#!/bin/sh\nexit 0\n")
    (root / ".ci" / "packages").chmod(0o755)
    done = script("install", tmp_path, root, **environment)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "told").read_text().split() == [
        *("-m", "pip", "install", "--quiet", f"{root}[report]", "pytest", "torch", "onnx")
    ]


def test_the_tutorial_s_strategy_searches(tmp_path: Path) -> None:
    page = (DOCS / "tutorials" / "own.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "uniform.py").write_text(block)
    (line,) = [line for line in page.splitlines() if line.startswith("hil search ")]
    done = hil(*shlex.split(line)[1:], "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["strategy"], found["search"]["trials"]) == ("uniform", 1)


def test_words_that_a_newcomer_lacks_lead_to_the_glossary(site: Path) -> None:
    """At their first use in running text, not in code, tables or links; where the glossary explains them."""
    from tools.site import WORDS, anchor, with_words_linked

    text = "# The arena\n`arena` in [the arena](a.md): the arena and the arena\n```\narena\n```\n| arena |\nan instant"
    linked = with_words_linked(text, "tutorials")
    assert linked == text.replace(": the arena and", ": the [arena](../glossary.md#arena) and").replace(
        "an instant", "an [instant](../glossary.md#instant)"
    )
    glossary = (site / "glossary/index.html").read_text()
    for word in set(WORDS.values()):
        assert f'id="{anchor(word)}"' in glossary, word
    assert "glossary/#arena" in (site / "memplan/index.html").read_text()


def test_the_navigation_keeps_the_four_kinds_of_pages_apart() -> None:
    names = [
        next(iter(one)) for one in yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"] if isinstance(one, dict)
    ]
    assert [name for name in names if name != "Home"][:4] == ["Tutorials", "How to", "Reference", "Explanation"]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["arduino", "wake_word", "ci", pytest.param("h747", marks=needs_set("mnist"))])
def test_a_tutorial_s_commands_are_typed_as_they_are(page: str, tmp_path: Path) -> None:
    """Every line of its blocks that calls hil or pytest, from an empty folder, but for those with folders of one's own.
    tests/test_new_format.py types those of own.md, which extend the sources."""
    typed = typed_lines((DOCS / "tutorials" / f"{page}.md").read_text())
    own = [line for line in typed if " compare before after" in line or "/dev/" in line]
    typed = [line for line in typed if line not in own]
    assert len(typed) >= 2
    assert len(own) <= 1
    folder = tmp_path
    for command in (command for line in typed for command in line.split(" && ")):
        program, *words = [w for word in shlex.split(command, comments=True) for w in _globbed(word, folder)]
        if program == "cd":
            folder = folder / words[0]
        else:
            done = hil(*words, cwd=folder) if program == "hil" else pytest_typed(words, folder)
            assert done.returncode == 0, (command, done.stdout, done.stderr)


def _globbed(word: str, folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in sorted(folder.glob(word))] if "*" in word else [word]
