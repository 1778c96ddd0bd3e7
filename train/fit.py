"""Training epoch by epoch: straight-through gradients, integers that judge, a checkpoint after each epoch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from tinyhil.compiler.calibrate import Ranges
from tinyhil.errors import ConfigError, TrainingError
from tinyhil.formats.codec import dequantize
from tinyhil.references.reference import quantize_inputs
from tinyhil.train.augment import augmented
from tinyhil.train.checkpoint import Checkpoint, load_checkpoint, require_weights, save_checkpoint
from tinyhil.train.clusters import clustered, entries_of, share_gradients
from tinyhil.train.integers import Arrays, on_grid
from tinyhil.train.limited_precision import Arithmetical, Half, Limited, LossScale, first_scale, holder
from tinyhil.train.loss import loss_of, taught_loss
from tinyhil.train.network import Holder, Network, network, with_constants
from tinyhil.train.parameters import groups_of, masks_of
from tinyhil.train.prune import mask, require_zeros
from tinyhil.train.quantizers import Quantizers, is_fixed_point, quantizers
from tinyhil.train.scales import FEW_BITS, LearnedQuantizers, ends_of, held, ranges_with, started
from tinyhil.train.schedule import Epoch, Job, Schedule, Trained
from tinyhil.train.stages import by_sensitivity, released, rounded_at

EXPLODED = 1e3  # times the first loss
LEAST_SCALE = 2.0**-24  # of a loss: gradients that overflow below it are no matter of scale
STEP_SIZE = 0.1  # of the logarithm of a step, to which rates are relative
STEP = "step of "  # before the name of a tensor
TOGETHER = 256  # samples that the teacher sees at once, and that say what rounding costs
Given = tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]  # samples, labels, scores of the teacher


@dataclass(slots=True)
class _Run:
    """Lives for one training."""

    job: Job
    net: Network
    optimizer: torch.optim.Adam
    masks: dict[str, torch.Tensor]
    epochs: list[Epoch] = field(default_factory=list)
    best_constants: Arrays = field(default_factory=dict)
    first_loss: float = math.inf
    scale: LossScale = field(default_factory=LossScale)
    teacher: Network | None = None  # the model as it was given
    taught: torch.Tensor | None = None  # its scores of the samples trained on
    order: tuple[str, ...] | None = None  # in which formats come in; None: all at once
    entries: dict[str, torch.Tensor] = field(default_factory=dict)
    steps: dict[str, torch.Tensor] = field(default_factory=dict)  # learned scales
    ends: dict[str, float] = field(default_factory=dict)  # what values reach with them after an epoch
    best_ends: dict[str, float] = field(default_factory=dict)  # of the best

    @property
    def moved(self) -> dict[str, torch.Tensor]:
        """All parameters, by names that differ."""
        return {**self.net.weights, **{f"{STEP}{name}": step for name, step in self.steps.items()}}

    def ranges(self, constants: Arrays, ends: Mapping[str, float]) -> Ranges:
        found = self.job.judge.ranges(constants)
        return ranges_with(found, self.job.judge.graph, ends, self.job.judge.assignment) if ends else found


def train(job: Job) -> Trained:
    """Move the weights of the judge's graph; the best epoch. TrainingError for values that are not finite."""
    torch.set_num_threads(job.schedule.threads)
    device = device_of(job.schedule)
    with nullcontext() if device.type == "cpu" else device:  # as a context every call of torch would go through it
        return _train(job)


def device_of(schedule: Schedule) -> torch.device:
    """Where tensors are made; ConfigError if torch does not have it."""
    has_gpu = torch.cuda.is_available()
    if schedule.device == "cuda" and not has_gpu:
        raise ConfigError("--device cuda: torch has no GPU here; leave it to auto, or say cpu")
    return torch.device("cuda" if has_gpu and schedule.device != "cpu" else "cpu")


def _train(job: Job) -> Trained:
    net = network(job.judge.graph)
    run = _Run(job, net, torch.optim.Adam(groups_of(net)), masks_of(net), scale=first_scale(job.arithmetic))
    if job.schedule.teacher > 0:
        run.teacher = network(job.judge.graph)
    if job.schedule.progressive:
        run.order = _order(run)
    _resume(run)
    if not run.epochs:
        given = {name: value.detach().cpu().numpy() for name, value in net.weights.items()}
        _judge(run, Epoch(0, math.nan, 0.0), given)
    for number in range(len(run.epochs), job.schedule.epochs + 1):
        _prune(run, number)
        used = _quantizers(run)
        if job.schedule.entries:
            used = _with_entries(run, used)
        if job.schedule.scales is not False:
            used = _with_scales(run, used)
        loss = _epoch(run, number, used)
        if isinstance(used, LearnedQuantizers):
            used = held(used, run.steps)
            run.ends = ends_of(used)
        _judge(run, Epoch(number, loss, 0.0), on_grid(_latents(run), used, job.judge.graph))
        if job.checkpoint is not None:
            save_checkpoint(job.checkpoint, _state(run))
    best = _best(run)
    return Trained(run.best_constants, run.ranges(run.best_constants, run.best_ends), best, tuple(run.epochs))


@torch.no_grad()
def _taught(run: _Run, x: np.ndarray) -> torch.Tensor | None:
    """The teacher's scores, if there is one; of samples that stay the same once."""
    net = run.teacher
    if net is None or (run.taught is not None and run.job.schedule.augment == 0):
        return run.taught
    x = x.reshape(len(x), *net.graph.shapes[net.graph.inputs[0]])
    parts = [
        net.forward(torch.as_tensor(part, dtype=torch.float32)) for part in np.array_split(x, -(-len(x) // TOGETHER))
    ]
    run.taught = torch.cat(parts)
    return run.taught


def _order(run: _Run) -> tuple[str, ...]:
    """What rounding costs the model as it was given, on a few of its samples."""
    used, samples = _quantizers(run), run.job.samples
    rows = np.linspace(0, len(samples.x) - 1, min(TOGETHER, len(samples.x))).astype(np.int64)
    y = torch.as_tensor(samples.y[rows].astype(np.int64))
    found = by_sensitivity(
        run.net, used, run.job.judge.assignment, _inputs(run, used, samples.x)[torch.as_tensor(rows)], y
    )
    return tuple(name for name, _ in found)


def _with_entries(run: _Run, used: Quantizers) -> Quantizers:
    """Weights on their entries, which from then on are what the weights are."""
    names = run.net.weights.keys() & {n for n, fmt in used.constants.items() if fmt.entries_in_flash}
    if not run.entries and len(run.epochs) == 1:
        run.entries = clustered(run.net.weights, used)
    elif not run.entries:
        run.entries = entries_of({name: run.net.weights[name] for name in names})
    if not run.entries:
        raise ConfigError("--entries: no weights have a codebook in these formats; choose kmeans16, nf4 or another one")
    return replace(used, constants={name: fmt for name, fmt in used.constants.items() if name not in names})


def _with_scales(run: _Run, used: Quantizers) -> Quantizers:
    """Steps as they are learned; those there are none of yet begin."""
    new = {name: step for name, step in started(used, run.net.weights).items() if name not in run.steps}
    _learn(run, new)
    if not run.steps and run.job.schedule.scales is None:
        return used
    if not run.steps:
        raise ConfigError(f"--learn-scales: nothing is fixed point of at most {FEW_BITS} bits in these formats")
    return held(used, run.steps)


def _learn(run: _Run, steps: Mapping[str, torch.Tensor]) -> None:
    for name, step in steps.items():
        run.steps[name] = step
        run.optimizer.add_param_group({"params": [step], "size": STEP_SIZE})


def _best(run: _Run) -> Epoch:
    """Of equal ones the last, whose loss is the lowest; of those before pruning is complete the last."""
    complete = 0 if run.job.pruning is None else run.job.pruning.complete
    return max(run.epochs, key=lambda epoch: (epoch.number >= complete, epoch.accuracy, epoch.number))


@torch.no_grad()
def _prune(run: _Run, number: int) -> None:
    """More zeros for this epoch. What the first one leaves out is looked at as the program would hold it."""
    pruning, graph = run.job.pruning, run.job.judge.graph
    if pruning is None:
        return
    pruned = {name: mask(run.net.weights[name], share) for name, share in pruning.at(number).items()}
    for name, stays in pruned.items():
        run.net.weights[name].mul_(stays)
    run.masks = {**run.masks, **{name: stays * run.masks.get(name, 1) for name, stays in pruned.items()}}
    require_zeros(on_grid(_latents(run), _quantizers(run), graph), pruned)


def _judge(run: _Run, epoch: Epoch, constants: Arrays) -> None:
    """Note the accuracy of the integers, and keep the constants if they are the best."""
    judge, samples, augment = run.job.judge, run.job.samples, run.job.schedule.augment
    x = samples.x_chosen_by
    if augment > 0:
        x = augmented(x, _shape(run), augment, (run.job.schedule.seed, 0))
    program = judge.program(constants, run.ranges(constants, run.ends))
    accuracy = judge.correct(program, x, samples.y_chosen_by)
    judged = Epoch(epoch.number, epoch.loss, accuracy)
    run.epochs.append(judged)
    if _best(run) is judged:
        run.best_constants = {name: array.copy() for name, array in constants.items()}
        run.best_ends = dict(run.ends)
    run.job.tell(judged)


def _latents(run: _Run) -> Arrays:
    return {name: value.detach().cpu().numpy().copy() for name, value in run.net.weights.items()}


def _quantizers(run: _Run) -> Quantizers:
    """Formats for an epoch: of weights from what moves, of values from the model as the integers have it."""
    judge, latents = run.job.judge, _latents(run)
    graph = judge.graph
    first = quantizers(with_constants(graph, latents), judge.assignment, judge.ranges(latents))
    ranges = judge.ranges(on_grid(latents, first, graph))
    return quantizers(with_constants(graph, latents), judge.assignment, ranges)


def _epoch(run: _Run, number: int, used: Quantizers) -> float:
    """One pass over the samples in an order that seed and number decide; the mean loss."""
    samples, schedule = run.job.samples, run.job.schedule
    given = samples.x
    if schedule.augment > 0:
        given = augmented(given, _shape(run), schedule.augment, (schedule.seed, number))
    x, scores = _inputs(run, used, given), _taught(run, given)
    y = torch.as_tensor(samples.y.astype(np.int64))
    losses = []
    for step, rows in enumerate(_batches(len(x), schedule, number)):
        steps = max(1, len(x) // schedule.batch)
        for group in run.optimizer.param_groups:
            group["share"] = schedule.rate_at((number - 1 + step / steps) / schedule.epochs)
            group["lr"] = group["size"] * group["share"]
        taught = None if scores is None else scores[rows]
        losses.append(
            _step(run, (number, step), (x[rows], y[rows], taught), _holder(run, (number, step), len(rows), used))
        )
        _project(run, used)
    return float(np.mean(losses))


def _shape(run: _Run) -> tuple[int, ...]:
    graph = run.job.judge.graph
    return graph.shapes[graph.inputs[0]]


def _inputs(run: _Run, used: Quantizers, given: np.ndarray) -> torch.Tensor:
    """Samples, as the program holds them unless the training has an arithmetic of its own."""
    if run.job.arithmetic is None:
        codes, _ = quantize_inputs(used.program, given)
        given = dequantize(codes, used.program.tensors[used.program.input].format)
    return torch.as_tensor(given.astype(np.float32)).reshape(len(given), *_shape(run))


def _batches(count: int, schedule: Schedule, epoch: int) -> Iterator[torch.Tensor]:
    order = torch.as_tensor(np.random.default_rng([schedule.seed, epoch]).permutation(count))
    size = min(schedule.batch, count)
    for begin in range(0, count - size + 1, size):
        yield order[begin : begin + size]


def _holder(run: _Run, at: tuple[int, int], samples: int, used: Quantizers) -> Holder:
    if run.job.arithmetic is not None:
        return holder(run.job.arithmetic, (run.job.schedule.seed, *at), samples)
    return used if run.order is None else released(used, rounded_at(run.order, at[0], run.job.schedule.epochs))


def _step(run: _Run, at: tuple[int, int], given: Given, used: Holder) -> float:
    x, y, taught = given
    scores = run.net.forward(x, used, run.job.judge.assignment)
    loss = loss_of(scores, y) if taught is None else taught_loss(scores, y, taught, run.job.schedule.teacher)
    value = float(loss.detach())
    if run.first_loss == math.inf:
        run.first_loss = value
    if not math.isfinite(value):
        raise _stopped(run, at, f"the loss is {value}", _first_strange(run, x, used))
    if value > EXPLODED * max(run.first_loss, 1.0):
        raise _stopped(run, at, f"the loss exploded from {run.first_loss:.3g} to {value:.3g}", _largest(run, x, used))
    run.optimizer.zero_grad()
    summed = used.summed if isinstance(used, Arithmetical) else 1
    (loss * run.scale.factor * summed).backward()
    strange = [name for name, w in run.moved.items() if w.grad is not None and not torch.isfinite(w.grad).all()]
    run.scale.after(run.job.arithmetic, not strange)
    if not strange:
        _update(run, used)
    elif run.job.arithmetic != Half() or run.scale.factor < LEAST_SCALE:  # a dynamic scale has just been halved
        is_scaled = isinstance(run.job.arithmetic, Half) and run.job.arithmetic.scale is not None
        what = f"a gradient of the loss times {run.scale.factor:g}" if is_scaled else "a gradient"
        remedy = "--loss-scale dynamic" if is_scaled else "a smaller --rate"
        raise _stopped(run, at, f"{what} is not finite", strange[0], remedy)
    return value


@torch.no_grad()
def _update(run: _Run, used: Holder) -> None:
    """Adam; plain descent where updates are rounded, as its small steps are the point."""
    moved = [weights for weights in run.moved.values() if weights.grad is not None]
    if isinstance(used, Arithmetical) and isinstance(used.arithmetic, Limited):
        share = run.optimizer.param_groups[0]["share"] / run.scale.factor
        for weights in moved:
            assert weights.grad is not None
            step = used.converted(share * used.converted(weights.grad))
            weights.copy_(used.converted(weights - step))
        return
    for weights in moved:
        assert weights.grad is not None
        weights.grad /= run.scale.factor
    share_gradients(run.net.weights, run.entries)
    torch.nn.utils.clip_grad_norm_(moved, 1.0)
    run.optimizer.step()


@torch.no_grad()
def _project(run: _Run, used: Quantizers) -> None:
    """Weights that leave the range of their format have no gradient any more: they stay at its ends. Zeros that were
    pruned stay zeros."""
    for name, weights in run.net.weights.items():
        fmt = used.constants.get(name)
        if fmt is not None and is_fixed_point(fmt) and name not in run.steps:
            unit = 2.0**fmt.exponent
            weights.clamp_(fmt.lowest * unit, (fmt.highest + 0.49) * unit)
        if name in run.masks:
            weights.mul_(run.masks[name])


def _first_strange(run: _Run, x: torch.Tensor, used: Holder) -> str:
    """The first tensor that is not finite."""
    found = [name for name, weights in run.net.weights.items() if not torch.isfinite(weights).all()]

    def watch(name: str, value: torch.Tensor) -> None:
        if not torch.isfinite(value).all():
            found.append(name)

    run.net.forward(x, used, run.job.judge.assignment, watch)
    return found[0] if found else run.net.scores


def _largest(run: _Run, x: torch.Tensor, used: Holder) -> str:
    """The tensor of the largest magnitude."""
    sizes: dict[str, float] = {}
    run.net.forward(x, used, run.job.judge.assignment, lambda n, v: sizes.update({n: float(v.detach().abs().max())}))
    return max(sizes, key=lambda name: sizes[name])


def _stopped(run: _Run, at: tuple[int, int], what: str, tensor: str, remedy: str = "a smaller --rate") -> TrainingError:
    last = len(run.epochs) - 1
    best = _best(run)
    resumable = f"; epoch {last} is kept in {run.job.checkpoint}" if run.job.checkpoint is not None and last > 0 else ""
    return TrainingError(
        f"training: epoch {at[0]}, step {at[1]}: {what}, first in tensor '{tensor}'{resumable} (best so far: epoch "
        f"{best.number}, {100 * best.accuracy:.2f} %); try {remedy}"
    )


def _state(run: _Run) -> Checkpoint:
    moments: Arrays = {}
    for name, weights in run.moved.items():
        for key, value in run.optimizer.state.get(weights, {}).items():
            moments[f"{key}/{name}"] = value.cpu().numpy()
    epochs = np.array([[e.number, e.loss, e.accuracy] for e in run.epochs])
    scale = np.array([run.scale.factor, run.scale.steps])
    latents = {name: value.detach().cpu().numpy().copy() for name, value in run.moved.items()}
    ends = {name: np.array([end, run.best_ends.get(name, 0.0)]) for name, end in run.ends.items()}
    return Checkpoint(run.job.identity, epochs, run.first_loss, scale, latents, run.best_constants, moments, ends)


def _resume(run: _Run) -> None:
    """Go on from the checkpoint, if there is one of this training."""
    if run.job.checkpoint is None or not run.job.checkpoint.exists():
        return
    found = load_checkpoint(run.job.checkpoint, run.job.identity)
    shapes = {name: tuple(weights.shape) for name, weights in run.net.weights.items()}
    require_weights(run.job.checkpoint, found, shapes, STEP)
    run.epochs = [Epoch(int(n), float(loss), float(accuracy)) for n, loss, accuracy in found.epochs]
    run.best_constants, run.first_loss = found.best, found.first_loss
    run.scale = LossScale(float(found.scale[0]), int(found.scale[1]))
    steps = {name.removeprefix(STEP): a for name, a in found.latents.items() if name.startswith(STEP)}
    _learn(run, {name: torch.tensor(array).requires_grad_() for name, array in steps.items()})
    run.ends = {name: float(pair[0]) for name, pair in found.ends.items()}
    run.best_ends = {name: float(pair[1]) for name, pair in found.ends.items() if pair[1] > 0}
    for name, weights in run.moved.items():
        weights.data.copy_(torch.as_tensor(found.latents[name]))
        keys = [key for key in found.moments if key.partition("/")[2] == name]
        if keys:
            run.optimizer.state[weights] = {key.partition("/")[0]: torch.as_tensor(found.moments[key]) for key in keys}
