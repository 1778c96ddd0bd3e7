"""The lines of docs/sweep.md for clusters with a queue: their script asks for the resources, its jobs are workers."""

from __future__ import annotations

import ast
import os
import re
import sys
from pathlib import Path
from typing import Any

import distributed
import pytest
from hil_command import hil, record_of

jobqueue = pytest.importorskip("dask_jobqueue")
PAGE = Path(__file__).resolve().parent.parent / "docs" / "sweep.md"
# What Slurm does with a script, but for the queue: its lines run, each job in the background.
SBATCH = """#!/bin/sh
for script; do :; done
cp "$script" {folder}/job.sh
setsid sh {folder}/job.sh > {folder}/job.log 2>&1 &
echo $! > {folder}/pid
echo Submitted batch job 1
"""
SCANCEL = "#!/bin/sh\nkill -- -$(cat {folder}/pid)\n"
SWEEP = "models: [digits_mlp]\nboards: [host]\nformats: [fixed8]\nrun: {samples: 2}\n"


def documented(folder: Path, more: str = "") -> Any:
    """The cluster that the page makes, with `more` arguments, on this machine alone."""
    (block,) = (
        text for text in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "SLURMCluster" in text
    )
    lines = [ast.unparse(node) for node in ast.parse(block).body if isinstance(node, ast.ImportFrom | ast.Assign)]
    here = f"log_directory={str(folder)!r}, scheduler_options={{'host': '127.0.0.1', 'dashboard': False}}"
    names: dict[str, Any] = {}
    exec("\n".join(lines).removesuffix(")") + f", {here}{more})", names)
    return names["cluster"]


def test_the_script_asks_for_the_documented_resources(tmp_path: Path) -> None:
    (extra,) = re.findall(r"`(worker_extra_args=.*?)`", PAGE.read_text())
    with documented(tmp_path, f", {extra}") as cluster:
        script = cluster.job_script()
    for line in ("#SBATCH --cpus-per-task=1", "#SBATCH --mem=4G", "#SBATCH -t 02:00:00", "export HIL_DATA=/data"):
        assert line in script.splitlines()
    assert re.search(
        rf"{re.escape(sys.executable)} -m distributed\.cli\.dask_worker tcp://\S+ .*--resources due=1", script
    )


@pytest.mark.slow
def test_a_job_is_a_worker_that_computes_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        (tmp_path / name).write_text(text.format(folder=tmp_path))
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    with documented(tmp_path) as cluster:
        cluster.scale(jobs=1)
        with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=120)
        done = hil("sweep", "sweep.yaml", "--scheduler", cluster.scheduler_address, "--json", cwd=tmp_path)
        assert [row["exit_code"] for row in record_of(done)["cells"]] == [0]
