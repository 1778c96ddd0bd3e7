"""`hil search`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tinyhil.errors import ConfigError
from tinyhil.harness.commands import common, option
from tinyhil.harness.commands.common import boards_for, say

if TYPE_CHECKING:
    from tinyhil.harness.search.request import SearchRequest
    from tinyhil.harness.settings.config import Boards
    from tinyhil.harness.train.after_search import Afterwards
    from tinyhil.harness.train.correction import Chosen
    from tinyhil.harness.train.session import TrainOutcome, TrainRequest


@click.command()
@common.MODEL_OPTION
@common.stream_options
@option.count(
    "--ram",
    "Most bytes of RAM: all that --board needs (default: what it has); on host, reram and without one of the arena.",
)
@option.count("--arena", "Most bytes of the arena alone, model input apart.")
@option.number("--latency-us", "Most microseconds of the worst sample measured.", above=True)
@option.number("--energy-uj", "Most microjoules, on an accelerator.", above=True)
@option.count("--crossbars", "Most crossbars, on an accelerator.")
@option.number(
    "--cost",
    "Most of latency, energy and power together, as a share of 8 bits everywhere, on an accelerator.",
    above=True,
)
@option.count("--flash", "Most bytes of the firmware's image on --board.")
@option.choice(("ram", "flash", "latency"), "--minimize", "Find the least of it that costs --points.")
@option.text(
    "--pareto",
    "Sweep limits over two or three of ram, latency, flash and accuracy: the front, a file per point.",
    metavar="A,B[,C]",
)
@option.count("--levels", "With --pareto: limits per resource.", least=2, most=20, default=5)
@option.number(
    "--points",
    "With --minimize, or --pareto without accuracy: points of accuracy that may be lost on the search's samples.",
    default=0.5,
)
@option.number(
    "--more-time",
    "Percent of modelled time more than layer by layer for which rows may go in strips, and products be computed "
    "again, to keep a limit of RAM; 0: never.",
    default=50.0,
)
@option.text("--strategy", "How to search, see `hil docs search`; FILE.py: one of your own.", default="lagrange")
@option.flag("--own", "The strategy's own answer, even if one format for all tensors, or a mixture, is no worse.")
@option.text("--set", "set_", "An option of the strategy; may be repeated.", multiple=True, metavar="NAME=VALUE")
@option.text(
    "--formats",
    "--format",
    "Formats on offer, with commas between.  [default: fixed8,fixed16; on an accelerator fixed2 to fixed8]",
    multiple=True,
    callback=common.joined,
)
@option.text(
    "--weights", "Formats that weights alone may have, too.  [default: some where --flash or --latency-us ask for them]"
)
@option.count("--evaluations", "Stop after so many, or a question more; each repetition anew.", default=200)
@option.number("--seconds", "Stop so many after the start.")
@option.count("--target", "Stop when no more samples disagree with the float model.", least=0)
@option.count("--samples", "Search on so many training samples, evenly spread.")
@option.count("--seed", "For strategies that draw.", least=0, most=2**32 - 1, default=0)
@option.path("--inputs", "Search on its first half, report on its second.")
@option.path("--held-out", "Report on these; search and calibrate on all of --inputs.")
@common.CALIBRATE_OPTION
@common.calibrate_by_option("minmax")
@option.choice(
    ("engine", "reference"),
    "--evaluator",
    "The compiled host engine, or numpy: slower, and without a compiler.",
    default="engine",
)
@option.text(
    "--board",
    "boards",
    "Board that the firmware must fit, named as for `hil run`; repeated: one assignment for all of them.",
    multiple=True,
)
@option.flag("--each", "An assignment for each --board, evaluations shared; --out is a folder.")
@option.flag("--on-device", "Measure the finalists on --board; what it measures decides.")
@option.count("--every", "Measure every so many full trials on the board, too.")
@option.count("--finalists", "How many are measured.", default=3)
@option.count("--device-samples", "Samples per measurement.", default=50)
@common.prefer_option(usual="ram; balanced where latency is limited or minimized and RAM is not")
@option.text("--port", "Serial port or pyserial URL of the board.")
@option.path("--plot", "Accuracy against RAM, as .svg and .png of this name.")
@option.path("--out", "Assignment file; default: beside the trials.")
@option.path("--results", "Folder for trials.", default=Path("results"))
@option.count("--train", "epochs", "Then train the weights for what was found, so many epochs.")
@option.count(
    "--rounds", "With --train: search and train in turn so often, unless the formats stay.", most=10, default=1
)
@option.choice(
    ("haq", "hawq", "once"),
    "--schedule",
    "With --train. haq: the best answers are trained shortly, then the best of these; hawq: formats come in one "
    "after another; once: the answer is trained, that is all.",
    default="haq",
)
@option.flag(
    "--fine-tune",
    "With --train: train an epoch for each assignment before it is judged, as HAQ does; then only samples that "
    "training holds back judge.",
)
@option.number(
    "--augment",
    "With --train: by so much each channel of each sample gets another gain and offset.",
    most=1,
    default=0.0,
)
@common.correction_options("in the formats found")
@option.flag("--json", "as_json", "Print the result alone on stdout.")
@option.count(
    "--workers",
    "Processes that share its questions in a journal below --results, where those of --assist find them, too.",
    most=64,
)
@option.flag("--assist", "Answer questions of this very search under way elsewhere, until it ends.")
@common.bench_options
def search(
    as_json: bool,
    assist: bool,
    each: bool,
    boards_file: Path | None,
    bench_file: Path | None,
    boards: tuple[str, ...],
    corrections: Chosen,
    **options: Any,
) -> None:
    """Choose a format for every tensor under limits of RAM and cost, so that the fewest outputs differ from float."""
    from tinyhil.harness.python import calls
    from tinyhil.harness.search.request import SearchRequest
    from tinyhil.harness.train.after_search import Afterwards, require_trainable
    from tinyhil.harness.train.correction import require_correctable

    training = {name: options.pop(name) for name in ("epochs", "rounds", "schedule", "augment")}
    how = None if training["epochs"] is None else Afterwards(**training)
    if assist and (how is not None or corrections):
        raise ConfigError(
            "search: --assist answers questions, nothing more; leave --train and corrections to the search it helps"
        )
    if how is None and options["fine_tune"] and not assist:
        raise ConfigError("search: --fine-tune needs --train EPOCHS, which trains and writes the weights of the answer")
    request = SearchRequest(**options, board=boards[0] if boards else None, also=boards[1:])
    if corrections:
        require_correctable(request, how is not None, each)
    known = boards_for(request.board, boards_file, bench_file)
    if assist:
        answers = calls.assist(request, known, say)
        say(f"search: over; {answers} answers were given from here")
        return
    if each:
        if how is not None:
            raise ConfigError("search: --train and --each exclude each other; train for one board at a time")
        _search_each(request, known, as_json)
        return
    if how is not None:
        require_trainable(request)
    _search(request, how, corrections, known, as_json)


def _search(
    request: SearchRequest, how: Afterwards | None, corrections: Chosen, known: Boards | None, as_json: bool
) -> None:
    """One answer for all boards, and weights trained or corrected for it if that is asked for."""
    import json

    from rich.console import Console

    from tinyhil.harness.python import calls
    from tinyhil.harness.search.show import print_outcome, search_progress
    from tinyhil.harness.train.after_search import Round, alternate, best_of
    from tinyhil.harness.train.show import epoch_line, lines_of_correction, lines_of_rounds

    def ask(wanted: SearchRequest) -> Any:
        with search_progress(Console(stderr=True), wanted.evaluations) as progress:
            return (calls.pareto if wanted.pareto is not None else calls.search)(wanted, known, say, progress)

    def train(wanted: TrainRequest) -> TrainOutcome:
        return calls.train(wanted, say, lambda epoch: say(epoch_line(epoch)))

    found: tuple[Round, ...] = () if how is None else alternate(request, how, ask, train)
    outcome = best_of(found).searched if found else ask(request)
    if not as_json:
        print_outcome(outcome, common.console(120))
    corrected = calls.correct_found(outcome, corrections, say) if corrections else None
    if as_json:
        of_rounds = {"rounds": [each.printed for each in found]} if found else {}
        trained = {"trained": best_of(found).trained.printed} if found else {}
        more = {} if corrected is None else {"corrected": corrected.printed}
        click.echo(json.dumps({**outcome.record, **trained, **of_rounds, **more}))
        return
    for line in lines_of_rounds(found) if found else () if corrected is None else lines_of_correction(corrected):
        click.echo(line)


def _search_each(request: SearchRequest, known: Boards | None, as_json: bool) -> None:
    """Answers board by board; the first error, if there was one, ends the command."""
    import json

    from rich.console import Console

    from tinyhil.harness.python import calls
    from tinyhil.harness.search.show import print_outcome, search_progress

    with search_progress(Console(stderr=True), request.evaluations) as progress:
        found = calls.search_each(request, known, say, progress)
    console = common.console(120)
    if as_json:
        click.echo(json.dumps([one.printed for one in found]))
    for one in found if not as_json else ():
        console.print(f"== {one.board}", soft_wrap=True)
        if one.outcome is not None:
            print_outcome(one.outcome, console)
        else:
            console.print(str(one.error), soft_wrap=True)
    for one in found:
        if one.error is not None:
            raise one.error
