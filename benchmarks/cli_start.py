"""How long `hil --help` takes: median and fastest of several processes.

python benchmarks/cli_start.py [runs]
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

LIMIT_MS = 150


def measure(command: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - begin) * 1000


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    hil = Path(sys.executable).with_name("hil")
    command = [str(hil) if hil.is_file() else str(shutil.which("hil")), "--help"]
    measure(command)  # byte code is compiled once
    times_ms = [measure(command) for _ in range(runs)]
    print(
        f"hil --help: median {statistics.median(times_ms):.0f} ms, fastest {min(times_ms):.0f} ms (limit {LIMIT_MS} ms)"
    )
    sys.exit(statistics.median(times_ms) > LIMIT_MS)


if __name__ == "__main__":
    main()
