"""Before compiling in the repository: generate model/ from the bundled model, if anything it is made of has changed.

A SCons pre-script, named by the repository's platformio.ini only: a generated project has its model already.
"""

import subprocess
import sys
from pathlib import Path

Import("env")  # noqa: F821 (SCons puts it there)

MODEL = "fastgrnn_har"
MADE_OF = (f"models/{MODEL}", "codegen", "tinyhil", "memplan", "harness")

project = Path(env.subst("$PROJECT_DIR"))  # noqa: F821
generated = project / ".pio" / "bundled"
stamp = project / ".pio" / "bundled.stamp"


def is_current():
    if not (stamp.is_file() and (project / "model").is_dir()):
        return False
    made_of = (path for folder in MADE_OF for path in (project / folder).rglob("*") if path.suffix != ".pyc")
    return all(path.stat().st_mtime <= stamp.stat().st_mtime for path in made_of if path.is_file())


def generate():
    own = project / ".venv" / "bin" / "python"  # PlatformIO's interpreter may not be the one that has tinyhil
    python = str(own) if own.is_file() else sys.executable
    command = [python, "-m", "tinyhil.harness.cli", "generate", MODEL, "--out", str(generated)]
    result = subprocess.run(command, cwd=project, stdin=subprocess.DEVNULL, check=False)
    if result.returncode != 0:
        sys.stderr.write("error: could not generate model/; run: {}\n".format(" ".join(command)))
        env.Exit(1)  # noqa: F821


def take_over():
    """Only files whose text has changed are written: equal ones keep their time and are not compiled again."""
    target = project / "model"
    target.mkdir(exist_ok=True)
    made = {path.name: path.read_bytes() for path in (generated / "model").iterdir()}
    for path in target.iterdir():
        if path.name not in made:
            path.unlink()
    for name, content in made.items():
        path = target / name
        if not path.is_file() or path.read_bytes() != content:
            path.write_bytes(content)


if not is_current():
    generate()
    take_over()
    stamp.write_text("")
