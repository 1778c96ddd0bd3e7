"""`hil boards`, and what can be done to a board besides running a model on it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tinyhil import errors
from tinyhil.harness.commands import option
from tinyhil.harness.commands.common import BENCH_OPTION, BOARDS_OPTION, WAIT_OPTION, read_boards, say

if TYPE_CHECKING:
    from tinyhil.harness.boards.locate import Place
    from tinyhil.harness.boards.survey import Seen

SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
PORT_OPTION = option.text("--port", "Serial port of the board; default: found by USB identity or the bench file.")


class Duration(click.ParamType):
    """90, 90s, 30m, 2h or 1d; seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds, more than 0; a usage error for anything else."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", str(value))
        if found is None or float(found[1]) == 0:
            self.fail(f"{value!r} is no duration; write 90s, 30m or 2h")
        return float(found[1]) * SECONDS[found[2]]


@click.group(invoke_without_command=True)
@option.flag("--fidelity", "Say what the numbers of each board and emulator mean.")
@option.flag("--json", "as_json", "Print the list as JSON.")
@BENCH_OPTION
@BOARDS_OPTION
@click.pass_context
def boards(
    context: click.Context, boards_file: Path | None, bench_file: Path | None, fidelity: bool, as_json: bool
) -> None:
    """List the known boards and which of them are attached, busy or wedged."""
    found = context.obj = read_boards(boards_file, bench_file)
    if context.invoked_subcommand is not None:
        return
    if fidelity:
        from tinyhil.harness.boards.fidelity import statements

        for line in statements(found):
            click.echo(line)
        return
    from tinyhil.harness.boards.survey import survey

    seen = survey(found)
    if as_json:
        import json

        click.echo(json.dumps([_plain(one) for one in seen]))
        return
    width = max(len(one.name) for one in seen)
    for one in seen:
        ram = f"{one.board.chip.ram_bytes} B RAM" if one.board.chip.ram_bytes else ""
        where = ", ".join(part for part in (one.where, one.role and f"role {one.role}", one.detail) if part)
        click.echo(
            f"{one.name:{width}} {one.board.title:32} {one.board.chip.name:11} {ram:14} {one.state:9} {where}".rstrip()
        )


def _plain(one: Seen) -> dict[str, Any]:
    return {
        "name": one.name,
        "kind": one.board.name,
        "title": one.board.title,
        "chip": one.board.chip.name,
        "ram_bytes": one.board.chip.ram_bytes,
        "state": one.state,
        "port": one.where or None,
        "serial_number": one.serial_number,
        "role": one.role,
        "detail": one.detail or None,
    }


@boards.command()
@option.flag("--yaml", "as_yaml", "Print entries for the bench file of what has none yet.")
@click.pass_obj
def scan(known: Any, as_yaml: bool) -> None:
    """List every USB serial port and remote board; nothing is opened, so nothing is reset."""
    from tinyhil.harness.boards.survey import scan as look
    from tinyhil.harness.boards.survey import stanza

    found = list(look(known))
    if as_yaml:
        new = [one for one in found if one.kinds and one.instance is None]
        stanzas = [stanza(one, number) for number, one in enumerate(new, 1)]
        click.echo("\n".join(["boards:", *stanzas] if stanzas else ["boards: {}  # nothing new is attached"]))
        return
    for one in found:
        serial = f"serial number {one.serial_number}" if one.serial_number else "no serial number"
        what = one.instance or (f"may be {' or '.join(one.kinds)}" if one.kinds else "no board of boards.yaml")
        click.echo(f"{one.where}  {one.usb}  {serial}  {one.product}  {what}".rstrip())
    if not found:
        click.echo("no USB serial port and no remote board")


@boards.command()
@click.argument("name")
@PORT_OPTION
@option.text("--for", "seconds", "How long: 90s, 30m, 2h.", type=Duration(), default="1h")
@option.text("--note", "Shown to those who want the board.", default="")
@click.pass_obj
def lock(known: Any, name: str, port: str | None, seconds: float, note: str) -> None:
    """Reserve a board: others wait or are refused until it expires. Your own runs go on."""
    from tinyhil.harness.boards.locks import LockFolder

    place = _physical(known, name, port)
    claim = LockFolder(known.bench.locks).reserve(place.lock_names, place.name, seconds, note)
    click.echo(claim.describe(place.describe()))


@boards.command()
@click.argument("name")
@PORT_OPTION
@option.flag("--force", "Take away another's reservation; end the process that uses the board.")
@click.pass_obj
def unlock(known: Any, name: str, port: str | None, force: bool) -> None:
    """End a reservation."""
    from tinyhil.harness.boards.locks import LockFolder, end_holder

    place, locks = _physical(known, name, port), LockFolder(known.bench.locks)
    released = locks.release(place.lock_names, place.name, force)
    holders = [holder for holder in map(locks.holder, place.lock_names) if holder]
    for holder in holders:
        if not force:
            raise errors.BoardError(f"{holder.describe(place.name)}; --force ends it")
        end_holder(holder, place.name)
    click.echo(f"{place.name}: {'free' if released or holders else 'was not reserved'}")


@boards.command()
@click.argument("name")
@PORT_OPTION
@option.text("--steps", "What may be tried, with commas between.", default="reset,touch,reflash,power")
@WAIT_OPTION
@click.pass_obj
def heal(known: Any, name: str, port: str | None, steps: str, wait_s: float | None) -> None:
    """Bring back a board that does not answer: reset, 1200-baud touch, write a test program, cut the USB power."""
    from tinyhil.harness.boards.claim import claim
    from tinyhil.harness.boards.heal import STEP_NAMES, Patient
    from tinyhil.harness.boards.heal import heal as climb
    from tinyhil.harness.build.toolchain import default_cache_dir
    from tinyhil.harness.measure.echo import echo_image
    from tinyhil.harness.measure.talk import log_folder

    names = tuple(steps.split(","))
    unknown = [step for step in names if step not in STEP_NAMES]
    if unknown:
        raise click.UsageError(f"no step named {unknown[0]!r}; known: {', '.join(STEP_NAMES)}")
    place = _physical(known, name, port)
    cache = default_cache_dir()
    with claim(place, known.bench.locks, wait_s, say) as reached, log_folder(cache) as logs:
        assert reached is not None
        patient = Patient(place, reached, lambda: echo_image(place.board, known, cache, say), logs)
        healed = climb(patient, names, say)
    click.echo(f"{place.name}: answers again after: {healed}")


def _physical(known: Any, name: str, port: str | None) -> Place:
    """A board that is more than a program."""
    from tinyhil.harness.boards.locate import locate

    place = locate(known, name, port)
    if place.port is None:
        raise errors.BoardError(f"{name}: none is attached; emulators need no care, every run starts a new one")
    if "://" not in place.port and not Path(place.port).exists():
        raise errors.BoardError(f"{name}: port {place.port} does not exist; `hil boards` lists the attached ones")
    return place
