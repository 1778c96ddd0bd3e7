"""`hil doctor`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tinyhil.harness.commands import option
from tinyhil.harness.commands.common import BENCH_OPTION, BOARDS_OPTION, console, read_boards, say

if TYPE_CHECKING:
    from tinyhil.harness.measure.echo import EchoResult
    from tinyhil.harness.settings.config import Boards


@click.command()
@option.text("--board", "Test the wire of this board too: ten seconds of echo. A real one loses its program.")
@option.text("--port", "With --board: serial port or pyserial URL of the board.")
@option.number("--seconds", "With --board: so long.", least=0.1, default=10.0)
@option.flag("--json", "as_json", "Print what was found alone on stdout, as one JSON object.")
@option.flag("--fix", "Print the lines that get what is missing, alone on stdout: `| sh` types them.")
@BENCH_OPTION
@BOARDS_OPTION
def doctor(
    board: str | None,
    port: str | None,
    seconds: float,
    as_json: bool,
    fix: bool,
    bench_file: Path | None,
    boards_file: Path | None,
) -> None:
    """Say what is present, missing or too old, and how to get it."""
    from tinyhil.errors import EXIT_GATE, EXIT_OK
    from tinyhil.harness.doctor.installed import checks, exit_code, lines_to_type, report

    if fix:
        if board or as_json:
            raise click.UsageError("--fix stands alone")
        click.echo("".join(f"{line}\n" for line in lines_to_type(checks())), nl=False)
        return
    known = read_boards(boards_file, bench_file)  # before the long list, so that a wrong file is said at once
    found = checks()
    code = exit_code(found)
    if not as_json:
        report(found, console(200))
    echo = None if board is None else _test_wire(known, board, port, seconds)
    if as_json:
        record = {"ready": code == EXIT_OK, "checks": [asdict(check) for check in found]}
        click.echo(json.dumps(record | ({} if echo is None else {"echo": asdict(echo[1])}), indent=2))
    elif echo is not None:
        click.echo(_verdict(*echo))
    sys.exit(EXIT_GATE if echo is not None and echo[1].errors else code)


def _test_wire(known: Boards, board: str, port: str | None, seconds: float) -> tuple[str, EchoResult]:
    """Which board it was, and what came back."""
    from tinyhil.harness.boards.claim import claim
    from tinyhil.harness.boards.locate import locate
    from tinyhil.harness.build.toolchain import default_cache_dir
    from tinyhil.harness.measure.echo import echo_image, echo_test
    from tinyhil.harness.measure.talk import flash_unless_running

    place = locate(known, board, port)
    image = echo_image(place.board, known, default_cache_dir(), say)
    with claim(place, known.bench.locks, None, say) as reached:
        if reached is not None:
            flash_unless_running(image, place.board, reached, say)
        result = echo_test(place, reached, image, seconds)
    return f"{place.name} ({reached or ('this computer' if place.board.is_host else 'emulated')})", result


def _verdict(where: str, result: EchoResult) -> str:
    return (
        f"echo on {where}: {result.bytes_each_way} B there and back in {result.seconds:.1f} s, "
        f"{result.bytes_per_second:,.0f} B/s, {result.errors} errors ({result.wrong_samples} samples differ, "
        f"{result.damaged_frames} damaged frames, {result.overruns} overruns)"
    )
