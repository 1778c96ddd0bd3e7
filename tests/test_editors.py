"""For editors and assistants: schemas agree with our readers, pages can be read without a network."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hil_command import check_failure, hil
from jsonschema import Draft202012Validator
from sources import nodes, python_files

from tinyhil.errors import ConfigError
from tinyhil.harness.cli import hil as command
from tinyhil.harness.commands.schema import SCHEMAS, schema_text
from tinyhil.harness.offline.pages import page_text, pages
from tinyhil.harness.settings.bench_file import parse_bench
from tinyhil.harness.settings.config import parse_boards
from tinyhil.harness.sweep.file import read_sweep
from tinyhil.language.assignment import _content

ROOT = Path(__file__).resolve().parent.parent


def validator(name: str) -> Draft202012Validator:
    schema = json.loads(schema_text(name))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def blocks(page: str, word: str) -> list[Any]:
    """The YAML blocks of a page that hold a word."""
    found = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    return [yaml.safe_load(text) for text in found if word in text]


GOOD = {
    "boards": [yaml.safe_load((ROOT / "boards.yaml").read_text()), *blocks("tutorials/own.md", "boards:")],
    "bench": blocks("bench.md", "serial:"),
    "sweep": [yaml.safe_load((ROOT / "docs/examples/sweep.yaml").read_text()), *blocks("sweep.md", "models:")],
    "assignment": blocks("cli.md", "default:"),
    "record": [json.loads(path.read_text()) for path in sorted((ROOT / "results/golden/uno").glob("*.json"))[:3]]
    + [json.loads((ROOT / "tests/records/profile.json").read_text())],
    "search": [json.loads((ROOT / "tests/records/search.json").read_text())],
}
BAD = {
    "boards": [{"boards": {"mine": {"chip": "uno"}}}, {"chips": {"mine": {"core": "z80"}}}],
    "bench": [{"boards": {"left": {"serial": "1"}}}, {"locks": {"wait_s": -1}}],
    "sweep": [{"models": ["digits_mlp"], "boards": ["uno"]}, {"models": [], "boards": [], "formats": []}],
    "assignment": [{}, {"default": "fixed8", "offsets": {"w": 99}}, {"default": "fixed8", "else": 1}],
    "record": [{}, {"schema_version": 2}],
    "search": [{}],
}


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_a_schema_takes_what_is_right_and_nothing_else(name: str) -> None:
    check = validator(name)
    assert GOOD[name]
    for content in GOOD[name]:
        assert [error.message for error in check.iter_errors(content)] == []
        assert list(check.iter_errors({**content, "$schema": "x.json"})) == []
    for content in BAD[name]:
        assert list(check.iter_errors(content))


def test_a_file_may_name_its_schema(tmp_path: Path) -> None:
    """What the schemas allow, our readers do."""
    (tmp_path / "a.json").write_text('{"$schema": "assignment.json", "default": "fixed8"}')
    assert _content(tmp_path / "a.json")["default"] == "fixed8"
    source = ROOT / "docs/examples/sweep.yaml"
    named = '"$schema": x.json\n'
    boards = parse_boards(named + (ROOT / "boards.yaml").read_text(), ROOT / "boards.yaml")
    (tmp_path / "sweep.yaml").write_text(named + source.read_text())
    assert read_sweep(tmp_path / "sweep.yaml", boards) == read_sweep(source, boards)
    assert parse_bench(named + "locks: {wait_s: 3}", source, boards.names).locks.wait_s == 3


def test_every_page_is_printed_and_an_unknown_one_answered() -> None:
    listed = hil("docs", cwd=ROOT).stdout.splitlines()
    assert [line.split()[0] for line in listed] == list(pages())
    assert set(pages()) >= {"agents", "cli", "glossary", "questions", "tutorials/arduino", "papers"}
    assert hil("docs", "arduino", cwd=ROOT).stdout == (ROOT / "docs/tutorials/arduino.md").read_text()
    assert page_text("docs/fit.md") == (ROOT / "docs/fit.md").read_text()
    for path in pages().values():
        for link in re.findall(r"\]\((?!https?:)([^)\s]+\.md(?:#[^)\s]*)?)\)", path.read_text()):
            target = path.parent / link.partition("#")[0]
            if target.resolve() in {page.resolve() for page in pages().values()}:
                typed = page_text(link)  # as a reader does who sees the link alone
                assert typed == target.read_text() or path.parent != ROOT / "docs", f"{path.name}: `hil docs {link}`"
    check_failure(hil("docs", "glosary", cwd=ROOT), ConfigError.exit_code, "did you mean glossary", "hil docs")
    assert "cli:1: # The command `hil`" in hil("docs", "--find", "the COMMAND `hil`", cwd=ROOT).stdout.splitlines()
    assert "glossary:5:" in hil("docs", "--find", "width wide", cwd=ROOT).stdout
    assert "hil docs half_hour" in hil("docs", cwd=ROOT).stderr
    check_failure(hil("docs", "--find", "zzzzzz", cwd=ROOT), ConfigError.exit_code, "no page holds")
    check_failure(hil("docs", "pico", cwd=ROOT), ConfigError.exit_code, "no page 'pico'", "`hil docs --find pico`")


def test_messages_name_pages_by_the_command_that_prints_them() -> None:
    """Not by files of docs/, which a wheel does not have there."""
    topics, pages_of = 0, (ast.Module, ast.ClassDef, ast.FunctionDef)
    for path in python_files():
        bodies = [node.body for node in nodes(path) if isinstance(node, pages_of)]
        remarks = {id(body[0].value) for body in bodies if body and isinstance(body[0], ast.Expr)}
        for node in nodes(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in remarks:
                assert not re.search(r"docs/[\w/]+\.md", node.value), (path, node.value)
                for topic in re.findall(r"`hil docs ([\w/]+)`", node.value):
                    topics += bool(page_text(topic))
    assert topics > 20


def test_what_assistants_are_told_is_there() -> None:
    """Every command and page that AGENTS.md and the table of questions name."""
    for page in (ROOT / "AGENTS.md", ROOT / "docs/questions.md"):
        text = page.read_text()
        named = set(re.findall(r"\bhil ([a-z]+)", text)) - {"fits"}
        assert named <= set(command.commands), page.name
        for topic in re.findall(r"hil docs ([a-z]+)", text):
            assert page_text(topic)
    lines = re.findall(r"^hil (.*?)(?:  +#.*)?$", (ROOT / "AGENTS.md").read_text(), re.MULTILINE)
    assert any(line.startswith("run --board pico --model my.onnx") for line in lines)
    for line in lines:
        name, *words = line.split(" > ")[0].split()
        options = {o for p in command.commands[name].params for o in p.opts}
        assert {word for word in words if word.startswith("--")} <= options, line


def test_the_table_of_questions_tells_the_seven_names_apart() -> None:
    text = (ROOT / "docs/questions.md").read_text()
    for name in ("run", "profile", "bench", "flash", "golden", "diff", "sweep"):
        assert re.search(rf"^\| [^|]+\? \| [^|]*`hil {name}", text, re.MULTILINE), name
