"""`hil train`."""

from __future__ import annotations

from typing import Any

import click

from tinyhil.harness.commands import common, option
from tinyhil.harness.commands.common import say


@click.command()
@common.MODEL_OPTION
@common.stream_options
@option.path("--out", "The trained model, an ONNX file.", required=True)
@option.path("--data", ".npz (x, y) to train on; default: the model's data set.")
@option.path("--held-out", "Report on these, which training never sees.")
@common.format_options
@common.calibrate_by_option()
@option.count("--epochs", "Passes over the samples.", default=10)
@option.count("--batch", "Samples per step.", default=64)
@option.number(
    "--rate",
    "First learning rate, as a share of each tensor's size.  [default: by batch and bits of weights]",
    above=True,
)
@option.text("--arithmetic", "Train in fixed16:IL.FL or fp16, instead of in the formats: `hil docs training`.")
@option.choice(("nearest", "stochastic"), "--rounding", "Of --arithmetic fixed16.", default="nearest")
@option.text("--loss-scale", "Of --arithmetic fp16: a number, or dynamic.", default="dynamic")
@option.number("--teacher", "Share of the loss that the scores of the model as it was have.", most=1, default=0.0)
@option.number(
    "--augment", "Give each channel of each sample another gain and offset, by so much.", most=1, default=0.0
)
@option.flag("--entries", "Weights of a codebook keep their entries, which are trained.")
@option.text(
    "--learn-scales/--keep-scales",
    "Train exponents, too, of fixed point of at most 8 bits.  [default: where weights have 4 bits or fewer]",
    default=None,
)
@option.flag(
    "--progressive", "Formats come in over the first half of the epochs, those that alone cost the most first."
)
@option.choice(("auto", "cpu", "cuda"), "--device", "auto: a GPU if torch has one.", default="auto")
@option.text(
    "--prune",
    "So much of each matrix, or of this one, becomes zero, the smallest weights first; may be repeated.",
    multiple=True,
    metavar="[NAME=]SHARE",
)
@option.count("--seed", "Of all that is drawn.", least=0, most=2**32 - 1, default=0)
@option.count("--samples", "Train on so many samples, evenly spread.", least=10)
@option.count("--threads", "Of torch.", default=1)
@option.flag("--json", "as_json", "Print the result alone on stdout.")
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
