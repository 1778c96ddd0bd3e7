"""`hil train`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tinyhil.harness.commands import common
from tinyhil.harness.commands.common import Finite, say


@click.command()
@common.MODEL_OPTION
@common.stream_options
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The trained model, an ONNX file.")
@click.option("--data", type=click.Path(path_type=Path), help=".npz (x, y) to train on; default: the model's data set.")
@click.option("--held-out", type=click.Path(path_type=Path), help="Report on these, which training never sees.")
@common.format_options
@common.calibrate_by_option()
@click.option("--epochs", type=click.IntRange(min=1), default=10, show_default=True, help="Passes over the samples.")
@click.option("--batch", type=click.IntRange(min=1), default=64, show_default=True, help="Samples per step.")
@click.option(
    "--rate",
    type=Finite(min=0, min_open=True),
    help="First learning rate, as a share of each tensor's size.  [default: by batch and bits of weights]",
)
@click.option("--arithmetic", help="Train in fixed16:IL.FL or fp16, instead of in the formats: `hil docs training`.")
@click.option(
    "--rounding",
    type=click.Choice(["nearest", "stochastic"]),
    default="nearest",
    show_default=True,
    help="Of --arithmetic fixed16.",
)
@click.option("--loss-scale", default="dynamic", show_default=True, help="Of --arithmetic fp16: a number, or dynamic.")
@click.option(
    "--teacher",
    type=Finite(0, 1),
    default=0.0,
    show_default=True,
    help="Share of the loss that the scores of the model as it was have.",
)
@click.option(
    "--augment",
    type=Finite(0, 1),
    default=0.0,
    show_default=True,
    help="Give each channel of each sample another gain and offset, by so much.",
)
@click.option("--entries", is_flag=True, help="Weights of a codebook keep their entries, which are trained.")
@click.option(
    "--learn-scales/--keep-scales",
    default=None,
    help="Train exponents, too, of fixed point of at most 8 bits.  [default: where weights have 4 bits or fewer]",
)
@click.option(
    "--progressive",
    is_flag=True,
    help="Formats come in over the first half of the epochs, those that alone cost the most first.",
)
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="auto: a GPU if torch has one.",
)
@click.option(
    "--prune",
    multiple=True,
    metavar="[NAME=]SHARE",
    help="So much of each matrix, or of this one, becomes zero, the smallest weights first; may be repeated.",
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Of all that is drawn.")
@click.option("--samples", type=click.IntRange(min=10), help="Train on so many samples, evenly spread.")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Of torch.")
@click.option("--json", "as_json", is_flag=True, help="Print the result alone on stdout.")
def train(as_json: bool, format_: str, **options: Any) -> None:
    """Move the weights of a model so that its integers are right: straight-through gradients in its own formats."""
    import json

    from tinyhil.harness.python import calls
    from tinyhil.harness.train.session import TrainRequest
    from tinyhil.harness.train.show import epoch_line, lines_of

    if options["learn_scales"] is None:
        del options["learn_scales"]
    outcome = calls.train(TrainRequest(format=format_, **options), say, lambda epoch: say(epoch_line(epoch)))
    if as_json:
        click.echo(json.dumps(outcome.printed))
    else:
        for line in lines_of(outcome):
            click.echo(line)
