"""Coverage-guided fuzzing with Atheris: `python tests/fuzz.py TARGET --seconds 3600`.

Needs `pip install atheris`. Seeds are the files in tests/fuzz/TARGET; what is found goes to --corpus (and, small and
worth keeping, by hand to tests/fuzz). It ends at the first input that raises, which it writes to --corpus.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import atheris

READERS = [
    *("tinyhil.frontend", "tinyhil.files", "tinyhil.language.assignment", "tinyhil.sealed", "tinyhil.harness.records"),
    *("tinyhil.harness.report", "tinyhil.harness.settings.yaml_file", "tinyhil.harness.settings.bench_file"),
    *(
        "tinyhil.harness.sweep.file",
        "tinyhil.harness.settings.config",
        "tinyhil.harness.wire.protocol",
        "record_consumers",
    ),
]
with atheris.instrument_imports(include=READERS):
    from fuzz_targets import TARGETS, feed

SEEDS = Path(__file__).parent / "fuzz"
MOST_BYTES = 8192
MOST_SECONDS = 30  # for one input
MOST_MEGABYTES = 4096


def main() -> None:
    """Fuzz one target for so long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--corpus", type=Path, required=True)
    given = parser.parse_args()
    given.corpus.mkdir(parents=True, exist_ok=True)
    limits = (f"-max_total_time={given.seconds}", f"-timeout={MOST_SECONDS}", f"-rss_limit_mb={MOST_MEGABYTES}")
    options = (*limits, f"-max_len={MOST_BYTES}", f"-artifact_prefix={given.corpus}/crash-", "-print_final_stats=1")
    where = (str(given.corpus), str(SEEDS / given.target))

    def test_one_input(data: bytes) -> None:
        feed(given.target, data)

    atheris.Setup([sys.argv[0], *options, *where], test_one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
