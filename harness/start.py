"""The entry point of the command `hil`: Ctrl-C while Python is still reading it is one line, too."""

import sys


def main() -> None:
    """As `tinyhil.harness.cli.main`; interrupted before that can answer for itself, exit code 130."""
    try:
        from tinyhil.harness.cli import main as hil
    except KeyboardInterrupt:
        sys.stderr.write("hil: interrupted\n")
        sys.exit(130)
    hil()
