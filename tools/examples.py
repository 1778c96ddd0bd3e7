"""Pages whose commands are typed: `python -m tools.examples` writes what they print into them.

docs/examples/README.md: the gallery. A script is Python, or lines of `hil`; its first line says what it shows. The page
names the compilers, whose figures are theirs. docs/half_hour.md: each block of shell is typed in one folder.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.measured import ROOT

FOLDER = ROOT / "docs" / "examples"
PAGE = FOLDER / "README.md"
HALF_HOUR = ROOT / "docs" / "half_hour.md"
SCRIPTS = sorted(path for path in FOLDER.iterdir() if path.suffix in (".py", ".sh"))
# Left out: what differs from run to run, or is too long
CHANGING = re.compile(r"^(wall|record|processor|prices)\b.*\n|^.*: built in .*\n", re.MULTILINE)
Hil = Callable[[list[str], Path], str]


def printed(script: Path, folder: Path, hil: Hil) -> str:
    """What the script prints in `folder`, into which its data is copied, but for what differs from run to run."""
    for path in FOLDER.glob("*.yaml"):
        shutil.copy(path, folder)
    if script.suffix == ".sh":
        lines = [shlex.split(line) for line in script.read_text().splitlines() if not line.startswith("#")]
        return CHANGING.sub("", "".join(hil(words[1:], folder) for words in lines))
    out = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out):
        runpy.run_path(str(script), run_name="__main__")
    return CHANGING.sub("", out.getvalue())


def compilers() -> str:
    """Those that make the figures of the page."""
    found = (subprocess.run([name, "-dumpversion"], capture_output=True, text=True) for name in ("g++", "avr-gcc"))
    return "g++ {}, avr-gcc {}".format(*(done.stdout.strip() for done in found))


def page(outputs: Mapping[str, str]) -> str:
    """The text of PAGE; `outputs` by the name of the script."""
    parts = [
        "# Ten examples",
        "What each part does, in the fewest lines. Scripts of `docs/examples/`, run by `tests/test_gallery.py`; what "
        f"they print is written by\n`python -m tools.examples` ({compilers()}).",
    ]
    for script in SCRIPTS:
        first, _, code = script.read_text().partition("\n")
        kind = {".py": "python", ".sh": "sh"}[script.suffix]
        said = first.strip('"# ')
        data = [f"```yaml\n{path.read_text()}```" for path in sorted(FOLDER.glob("*.yaml")) if path.name in code]
        parts.append(f"## {title(script)}\n\n{said}")
        parts += [f"```{kind}\n{code.strip()}\n```", *data, f"```\n{outputs[script.name].strip()}\n```"]
    return "\n\n".join(parts) + "\n"


def typed(text: str, shell: Callable[[str], str]) -> str:
    """The page with what its blocks of shell print behind each of them, anew."""

    def block(found: re.Match[str]) -> str:
        out = "".join(shell(line) for line in found[1].splitlines())
        return f"```sh\n{found[1]}```\n" + (f"\n```\n{CHANGING.sub('', out).rstrip()}\n```\n" if out.strip() else "")

    return re.sub(r"```sh\n(.*?)```\n(?:\n```\n.*?\n```\n)?", block, text, flags=re.DOTALL)


def title(script: Path) -> str:
    number, _, name = script.stem.partition("_")
    return f"{int(number)}. {name.capitalize()}"


def _hil(words: list[str], folder: Path) -> str:
    command = [str(Path(sys.executable).with_name("hil")), *words]
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout


def _shell(folder: str) -> Callable[[str], str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    def run(line: str) -> str:
        done = subprocess.run(
            line,
            shell=True,
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stdout

    return run


def main() -> None:
    os.environ.setdefault("HIL_LOAD", "direct")
    if sys.argv[1:] != ["half_hour"]:
        outputs = {}
        for script in SCRIPTS:
            with tempfile.TemporaryDirectory() as folder:
                outputs[script.name] = printed(script, Path(folder), _hil)
        PAGE.write_text(page(outputs))
    with tempfile.TemporaryDirectory() as folder:
        HALF_HOUR.write_text(typed(HALF_HOUR.read_text(), _shell(folder)))


if __name__ == "__main__":
    main()
