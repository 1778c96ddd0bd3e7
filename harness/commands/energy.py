"""`hil energy`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tinyhil.harness.commands import common, option
from tinyhil.harness.commands.common import read_boards, say


@click.command()
@common.MODEL_OPTION
@common.stream_options
@common.format_options
@common.INPUTS_OPTION
@common.calibrate_options
@option.count("--samples", "Count zeros on so many.", default=20)
@option.text("--technology", "Prices of operations and accesses, by name; `hil docs energy` has the table.")
@option.path("--technologies", "Prices of your own, beside harness/energy/technologies.yaml.")
@option.flag("--json", "as_json", "Print the result alone on stdout, as one JSON object.")
@common.BOARDS_OPTION
def energy(as_json: bool, format_: str, boards_file: Path | None, **options: Any) -> None:
    """Model what a sample costs in energy: products, SRAM and DRAM, with the zeros that samples and weights show.

    Beside it, what it takes on microcontrollers whose energy others have measured."""
    import json

    from tinyhil.harness.energy.session import EnergyRequest
    from tinyhil.harness.python import calls

    outcome = calls.energy(EnergyRequest(format=format_, **options), read_boards(boards_file, None), say)
    if as_json:
        click.echo(json.dumps(outcome.printed))
        return
    from tinyhil.harness.energy.show import print_energy

    print_energy(outcome, common.console())
