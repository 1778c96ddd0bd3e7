"""Training: the operators' float references in torch, the formats' own quantisers, integers that judge."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hil_command import hil
from onnx_models import load, node, onnxruntime_outputs, samples_for, simple

torch = pytest.importorskip("torch")

from ops_models import ALL, proto, rnd, shape_of  # noqa: E402

from tests.port_models import STEPS, cell, streams  # noqa: E402
from tinyhil import data  # noqa: E402
from tinyhil.compiler.calibrate import calibrate  # noqa: E402
from tinyhil.compiler.lower import lower  # noqa: E402
from tinyhil.errors import DataError, ModelError, TrainingError  # noqa: E402
from tinyhil.formats.codec import dequantize  # noqa: E402
from tinyhil.harness.job.job import Streamed, open_model  # noqa: E402
from tinyhil.language.assignment import Assignment  # noqa: E402
from tinyhil.references.evaluate import evaluate  # noqa: E402
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference  # noqa: E402
from tinyhil.search.evaluator import NumpyExecutor  # noqa: E402
from tinyhil.train.fit import train  # noqa: E402
from tinyhil.train.flow import Flowing  # noqa: E402
from tinyhil.train.integers import Judge, on_grid  # noqa: E402
from tinyhil.train.loss import loss_of, taught_loss  # noqa: E402
from tinyhil.train.network import Network, network, with_constants  # noqa: E402
from tinyhil.train.quantizers import quantizers, straight_through  # noqa: E402
from tinyhil.train.samples import divide  # noqa: E402
from tinyhil.train.schedule import Epoch, Job, Schedule, Trained  # noqa: E402
from tinyhil.train.write import trained_onnx, trained_step  # noqa: E402

DIGITS = data.load("digits")
# of every family, and those with a scale per row
MORE = (
    *("fixed3", "fixed8", "fixed16", "fixed32", "fixed8pc", "posit6es1", "posit16es1", "fp8e4m3", "fp4e2m1pc"),
    *("float32", "bfloat16", "int16x8", "kmeans4", "nf4", "ternary"),
)
FAMILIES = (
    *("fixed4", "fixed4pc", "posit8es0", "fp4e2m1", "fp8e4m3pc", "int8", "kmeans16", "binary"),
    *(pytest.param(name, marks=pytest.mark.slow) for name in MORE),
)


def graph_of(name: str):  # type: ignore[no-untyped-def]
    return open_model(name, without=("dead-channels",)).model.graph


def unquantized(graph, weights=()) -> Network:  # type: ignore[no-untyped-def]
    """Any graph, the constants in `weights` as they are."""
    return Network(graph, {name: torch.tensor(a) for name, a in weights}, graph.outputs[0])


def test_every_operator_flows_through_torch(tmp_path: Path) -> None:
    strange = []
    for name in ALL:
        graph, x = load(proto(name), tmp_path), samples_for(shape_of(name), 4).astype(np.float32)
        wanted = evaluate(graph, x).reshape(4, -1)
        weights = [(n, a) for n, a in graph.all_constants().items() if a.dtype == np.float32]
        try:
            given = torch.tensor(x.reshape(4, *graph.shapes[graph.inputs[0]]))
            got = unquantized(graph, weights).forward(given).numpy()
        except ModelError as error:
            refused = "not in decisions" in str(error) and (wanted == np.rint(wanted)).all()
            if not refused and not any(f"({op})" in str(error) for op in ("Mod", "FloorDiv")):
                strange.append((name, str(error)))
            continue
        if not np.abs(got - wanted).max() < 1e-5 * max(1, np.abs(wanted).max()):
            strange.append((name, float(np.abs(got - wanted).max())))
    assert strange == []


def test_what_has_no_gradient_is_refused_by_name() -> None:
    with pytest.raises(ModelError, match="numpy's hypot"):
        np.hypot(Flowing(torch.ones(2)), 1.0)
    with pytest.raises(ModelError, match="leaves torch"):
        np.asarray(Flowing(torch.ones(2)))


ZOO = ("digits_mlp", "digits_cnn", "fastgrnn_usps10", "protonn_usps10", "bonsai_usps10")


@pytest.mark.parametrize("name", ZOO)
def test_forward_equals_onnxruntime_and_gradients_finite_differences(name: str) -> None:
    opened = open_model(name, without=("dead-channels",))
    graph = opened.model.graph
    net = network(graph)
    shape = graph.shapes[graph.inputs[0]]
    x = np.random.default_rng(1).normal(size=(4, *shape)).astype(np.float32)
    y = torch.tensor([0, 1, 0, 1])
    scores = net.forward(torch.tensor(x))
    wanted = onnxruntime_outputs(onnx.load(opened.source.path), x)
    assert np.abs(scores.detach().numpy() - wanted).max() < 1e-4 * max(1, np.abs(wanted).max())
    loss_of(scores, y).backward()
    moved = {n: w for n, w in net.weights.items() if w.grad is not None and w.grad.abs().max() > 0}
    assert len(moved) >= len(net.weights) - 1  # of Bonsai the branches decide, hard
    for weights in moved.values():
        assert weights.grad is not None
        way = weights.grad / weights.grad.norm()
        step = min(1e-2, 1e-2 / float(weights.grad.norm()))
        slope = float((weights.grad * way).sum())
        with torch.no_grad():
            ends = []
            for side in (1, -1):
                weights.add_(way * step * side)
                ends.append(float(loss_of(net.forward(torch.tensor(x)), y)))
                weights.sub_(way * step * side)
        assert slope == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=0.05, abs=1e-3)


@pytest.mark.parametrize(("last", "outputs", "seen"), [("Sigmoid", 1, "s"), ("Sigmoid", 2, "y"), ("Softmax", 2, "s")])
def test_a_loss_looks_before_what_makes_probabilities(last: str, outputs: int, seen: str, tmp_path: Path) -> None:
    """One probability says yes above a half, where the score before it is above zero."""
    nodes = [node("MatMul", "x w", "s"), node(last, "s", "y")]
    weights = {"w": np.random.default_rng(0).normal(size=(3, outputs)).astype(np.float32)}
    assert network(load(simple(nodes, {"x": (1, 3)}, weights), tmp_path)).scores == seen


@pytest.mark.parametrize("fmt", FAMILIES)
def test_the_network_computes_what_the_integers_do(fmt: str) -> None:
    graph, x = graph_of("digits_cnn"), DIGITS.x_test[:24]
    ranges = calibrate(graph, DIGITS.x_train[:200], {})
    used = quantizers(graph, Assignment(fmt), ranges)
    program = used.program
    codes, _ = quantize_inputs(program, x)
    wanted = dequantize_outputs(program, run_reference(program, codes.astype(np.int64)).outputs)
    held = dequantize(codes, program.tensors[program.input].format).reshape(len(x), 1, 1, 8, 8)
    got = network(graph).forward(torch.tensor(held.astype(np.float32)), used, Assignment(fmt)).detach().numpy()
    unit = np.abs(wanted).max() * 2.0**-12  # of longer formats, whose functions are approximated
    assert (np.abs(got - wanted) > unit).mean() < 0.04  # here and there a rounding falls otherwise
    assert (got.argmax(1) == wanted.argmax(1)).mean() > 0.9


@pytest.mark.parametrize("fmt", FAMILIES)
def test_weights_that_were_written_are_those_of_the_program(fmt: str) -> None:
    """Lowering what `on_grid` gives makes the same integers again: no scale moves."""
    graph = graph_of("digits_cnn")
    ranges = calibrate(graph, DIGITS.x_train[:200], {})
    net = network(graph)
    given = {name: w.detach().numpy() for name, w in net.weights.items()}
    first = quantizers(graph, Assignment(fmt), ranges)
    made = with_constants(graph, on_grid(given, first, graph))
    again = quantizers(made, Assignment(fmt), ranges)
    second = on_grid({n: a for n, a in made.all_constants().items() if n in given}, again, made)
    for name in given:
        constant = made.all_constants()[name]
        assert np.abs(second[name] - constant).max() <= 1e-4 * np.abs(constant).max(), name


def test_gradients_stop_where_a_format_saturates() -> None:
    from tinyhil.formats import named

    x = torch.tensor([-3.0, -0.6, 0.3, 0.99, 3.0]).requires_grad_()
    for name in ("fixed4", "posit6es0", "int8"):
        x.grad = None
        fmt = named(name).fit(0.999)
        straight_through(x, fmt).sum().backward()
        inside = [0.0, 1.0, 1.0, 1.0, 0.0] if name == "int8" else None
        if name == "fixed4":
            inside = [0.0, 1.0, 1.0, 0.0, 0.0]
        if inside is not None:
            assert x.grad is not None
            assert x.grad.tolist() == inside


def job(epochs: int, checkpoint: Path | None = None, tell=lambda epoch: None, **options: float) -> Job:  # type: ignore[no-untyped-def]
    graph = graph_of("digits_mlp")
    samples = divide(DIGITS.x_train[:300], DIGITS.y_train[:300], 0)
    judge = Judge(graph, Assignment("fixed4"), samples.calibration, NumpyExecutor())
    return Job(judge, samples, Schedule(epochs, rate=2e-3, **options), tell, checkpoint, "mine")


def goes_on_as_if_nothing_had_happened(given: Job, whole: Trained, number: int, folder: Path) -> bool:
    """Whether training that is interrupted after an epoch ends, by its checkpoint, where the `whole` one did."""

    def stop(epoch: Epoch) -> None:
        if epoch.number == number:
            raise KeyboardInterrupt

    path = folder / "c.npz"
    with pytest.raises(KeyboardInterrupt):
        train(replace(given, checkpoint=path, tell=stop))
    resumed = train(replace(given, checkpoint=path))
    assert resumed.epochs[1:] == whole.epochs[1:]
    return all(np.array_equal(resumed.constants[name], array) for name, array in whole.constants.items())


def test_an_interrupted_training_gives_the_same_weights(tmp_path: Path) -> None:
    whole = train(job(3))

    class Interrupted(Exception):
        pass

    def stop(epoch: Epoch) -> None:
        if epoch.number == 2:
            raise Interrupted

    with pytest.raises(Interrupted):
        train(job(3, tmp_path / "c.npz", stop))
    seen: list[Epoch] = []
    resumed = train(job(3, tmp_path / "c.npz", seen.append))
    assert [epoch.number for epoch in seen] == [2, 3]
    assert resumed.epochs[1:] == whole.epochs[1:]
    assert all(np.array_equal(resumed.constants[name], array) for name, array in whole.constants.items())
    with pytest.raises(DataError, match="another model, data or options"):
        train(replace(job(3, tmp_path / "c.npz"), identity="other"))


def test_what_is_not_finite_is_named_with_step_and_tensor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tinyhil.train.fit as fit

    calls = [0]
    plain = fit._project

    def poisoned(run, used) -> None:  # type: ignore[no-untyped-def]
        plain(run, used)
        calls[0] += 1
        if calls[0] == 6:  # 4 steps per epoch
            run.net.weights["fc2_w"].data[0, 0] = float("nan")

    monkeypatch.setattr(fit, "_project", poisoned)
    with pytest.raises(
        TrainingError, match=r"epoch 2, step 2: .* tensor 'fc2_w'; epoch 1 is kept in .*c.npz"
    ) as outcome:
        train(job(3, tmp_path / "c.npz", batch=60))
    assert "\n" not in str(outcome.value)
    assert (tmp_path / "c.npz").exists()


def test_an_exploding_loss_ends_training() -> None:
    with pytest.raises(TrainingError, match=r"epoch 1, step \d+: the loss (exploded|is)"):
        train(
            replace(
                job(2), schedule=Schedule(2, rate=1e6), judge=replace(job(2).judge, assignment=Assignment("float32"))
            )
        )


def test_hil_train_writes_what_hil_run_takes(tmp_path: Path) -> None:
    x, y = DIGITS.x_train[:400], DIGITS.y_train[:400]
    np.savez(tmp_path / "train.npz", x=x, y=y)
    np.savez(tmp_path / "test.npz", x=DIGITS.x_test[:100], y=DIGITS.y_test[:100])
    options = ["--format", "fixed4", "--epochs", "2", "--rate", "0.002", "--json", "--seed", "1"]
    done = hil(
        "train", "--model", "digits_cnn", "--data", tmp_path / "train.npz", "--held-out", tmp_path / "test.npz",
        "--out", tmp_path / "tuned.onnx", *options, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert [epoch["number"] for epoch in outcome["epochs"]] == [0, 1, 2]
    opened = open_model(str(tmp_path / "tuned.onnx"))
    program = lower(opened.model.graph, Assignment("fixed4"), opened.required_ranges(None))
    codes, _ = quantize_inputs(program, DIGITS.x_test[:100])
    outputs = dequantize_outputs(program, run_reference(program, codes).outputs)
    assert (outputs.argmax(1) == DIGITS.y_test[:100]).mean() == pytest.approx(outcome["test"]["after"])
    assert not (tmp_path / "tuned.checkpoint.npz").exists()


def test_labels_of_steps_are_those_of_their_scores() -> None:
    scores, y = torch.randn(5, 6, generator=torch.Generator().manual_seed(0)), np.array([[0, 1], [2, 2], [1, 0]] * 5)
    apart = loss_of(scores.reshape(10, 3), torch.tensor(y[:5]).flatten())
    assert loss_of(scores, torch.tensor(y[:5])) == apart
    assert taught_loss(scores, torch.tensor(y[:5]), scores, 0.0) == apart
    samples = divide(np.arange(15.0), y, 0)
    assert (samples.y.shape, samples.y_chosen_by.shape) == ((12, 2), (3, 2))


def test_a_function_of_a_later_opset_is_written_in_that_one(tmp_path: Path) -> None:
    given = simple([node("RMSNormalization", "x scale", "y", axis=-1)], {"x": (1, 8)}, {"scale": np.ones(8)})
    given.opset_import[0].version = 23
    onnx.save(given, tmp_path / "rms.onnx")
    model = open_model(str(tmp_path / "rms.onnx")).model
    written = onnx.load_from_string(trained_onnx(model, {}, "rms"))
    assert [one.version for one in written.opset_import if not one.domain] == [23]


@pytest.mark.parametrize("kind", [onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16])
def test_a_step_is_written_where_its_file_holds_the_weights_as_they_are(kind: int, tmp_path: Path) -> None:
    """In float16 what was learned would be lost."""
    proto = onnx.load(cell(tmp_path / "cell.onnx"))
    (weights, *_) = [one for one in proto.graph.initializer if len(one.dims) == 2]
    model = open_model(str(tmp_path / "cell.onnx"), streamed=Streamed(steps=STEPS)).model
    learned = {weights.name: onnx.numpy_helper.to_array(weights) + 1}
    weights.CopyFrom(
        onnx.numpy_helper.from_array(
            onnx.numpy_helper.to_array(weights).astype(onnx.helper.tensor_dtype_to_np_dtype(kind)), weights.name
        )
    )
    onnx.save(proto, tmp_path / "cell.onnx")
    written = trained_step(model, learned)
    assert (written is None) == (kind == onnx.TensorProto.FLOAT16)
    for one in () if written is None else onnx.load_from_string(written).graph.initializer:
        if one.name in learned:
            np.testing.assert_array_equal(onnx.numpy_helper.to_array(one), learned[one.name])


@pytest.mark.slow
def test_every_step_of_a_stream_may_have_a_label(tmp_path: Path) -> None:
    """Of a model with states: its integers are judged, and its weights moved, by the outputs of all steps."""
    model, x = cell(tmp_path / "cell.onnx"), streams(60)
    y = (x[:, :, 0] > 0).astype(np.int64) + (x[:, :, 1] > 0)
    for name, labels in (("steps", y), ("last", y[:, -1]), ("few", y[:, 1:])):
        np.savez(tmp_path / f"{name}.npz", x=x, y=labels)
    common = ["--model", model, "--format", "fixed6", "--epochs", "1", "--batch", "8", "--rate", "0.02", "--json"]
    found = {}
    for name in ("steps", "last"):
        options = ["--data", tmp_path / f"{name}.npz", "--held-out", tmp_path / f"{name}.npz"]
        done = hil("train", *common, *options, "--out", tmp_path / f"{name}.onnx", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        found[name] = json.loads(done.stdout)
        assert [one.name for one in onnx.load(tmp_path / f"{name}.onnx").graph.input] == [
            "frame",
            "h_in",
        ]  # a step again
        opened = open_model(str(tmp_path / f"{name}.onnx"), streamed=Streamed(steps=STEPS, every=name == "steps"))
        program = lower(opened.model.graph, Assignment("fixed6"), opened.required_ranges(None))
        outputs = dequantize_outputs(program, run_reference(program, quantize_inputs(program, x)[0]).outputs)
        right = outputs.reshape(60, -1, 3).argmax(2) == (y if name == "steps" else y[:, -1:])
        assert right.mean() == pytest.approx(found[name]["test"]["after"])
    assert found["steps"]["test"]["after"] > found["steps"]["test"]["before"]
    options = ["--data", tmp_path / "few.npz", "--steps", str(STEPS), "--out", tmp_path / "few.onnx"]
    done = hil("train", *common, *options, cwd=tmp_path)
    assert done.returncode == 2
    assert f"{STEPS - 1} labels a sample, a sample has {STEPS} steps" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "x.tflite"], "ONNX file"),
        (["--out", "x.onnx", "--format", "fixd4"], "did you mean fixed4"),
        (["--out", "x.onnx", "--data", "missing.npz"], "missing.npz"),
        (["--out", "x.onnx", "--data", "damaged.npz"], "sample 7 holds NaN"),
        (["--out", "x.onnx", "--data", "from_one.npz"], "from_one.npz: label 10, but the model has outputs 0 to 9"),
        (["--out", "x.onnx", "--assignment", "clips.yaml"], "would clip these weights a second time"),
    ],
)
def test_refusals_are_one_line(options: list[str], message: str, tmp_path: Path) -> None:
    x = DIGITS.x_train[:40].copy()
    x[7, 3] = np.nan
    np.savez(tmp_path / "damaged.npz", x=x, y=DIGITS.y_train[:40])
    np.savez(tmp_path / "from_one.npz", x=DIGITS.x_train[:40], y=DIGITS.y_train[:40] + 1)
    weights = next(iter(graph_of("digits_mlp").all_constants()))
    (tmp_path / "clips.yaml").write_text(f"default: fixed8\noffsets: {{{weights}: -1}}\n")
    done = hil("train", "--model", "digits_mlp", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_search_trains_for_what_it_has_found(tmp_path: Path) -> None:
    for name, part in (("train", slice(200)), ("test", slice(200, 300))):
        np.savez(tmp_path / f"{name}.npz", x=DIGITS.x_train[part], y=DIGITS.y_train[part])
    files = ["--inputs", tmp_path / "train.npz", "--held-out", tmp_path / "test.npz"]
    options = ["--formats", "fixed3,fixed4", "--ram", 200, "--evaluator", "reference", "--evaluations", 3, "--json"]
    done = hil("search", "--model", "digits_mlp", *files, *options, "--train", 2, "--rounds", 2, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {*found["trained"]["test"]} == {"samples", "before", "after", "float_before"}
    assert found["accuracy"] is not None
    assert 1 <= len(found["rounds"]) <= 2
    best = max(found["rounds"], key=lambda each: each["accuracy_held_back"])
    assert found["trained"]["assignment_file"] == best["assignment_file"]
    assert found["trained"]["out"] == best["out"]
    for each in found["rounds"]:
        opened = open_model(str(tmp_path / each["out"]))
        formats = opened.assignment(tmp_path / each["assignment_file"], "fixed16")
        program = lower(opened.model.graph, formats, opened.required_ranges(None))
        codes, _ = quantize_inputs(program, DIGITS.x_train[200:300])
        outputs = dequantize_outputs(program, run_reference(program, codes).outputs)
        assert (outputs.argmax(1) == DIGITS.y_train[200:300]).mean() == pytest.approx(each["test"]["after"])
    assert Path(tmp_path / found["trained"]["out"]).is_file()
    tuned = hil("search", "--model", "digits_mlp", *files, *options, "--train", 1, "--fine-tune", cwd=tmp_path)
    assert tuned.returncode == 0, tuned.stderr
    assert json.loads(tuned.stdout)["trained"]["test"]["samples"] == 100
    for more, said in ((["--train", 1], "--held-out"), (["--fine-tune"], "--fine-tune needs --train")):
        refused = hil("search", "--model", "digits_mlp", *files[:2], *options, *more, cwd=tmp_path)
        assert refused.returncode == 2
        assert said in refused.stderr


@pytest.mark.parametrize("name", [*ZOO, "fastgrnn_fsdd", "protonn_letter26", "bonsai_usps2"])
def test_what_is_written_is_the_same_model(name: str, tmp_path: Path) -> None:
    opened = open_model(name, without=("dead-channels",))
    graph = opened.model.graph
    weights = {n: w.detach().numpy() * np.float32(1.01) for n, w in network(graph).weights.items()}
    (tmp_path / "m.onnx").write_bytes(trained_onnx(opened.model, weights, "m"))
    x = np.random.default_rng(1).normal(size=(3, *graph.shapes[graph.inputs[0]])).astype(np.float32)
    wanted = evaluate(with_constants(graph, weights), x)
    assert np.array_equal(evaluate(open_model(str(tmp_path / "m.onnx")).model.graph, x), wanted)


def normalized() -> onnx.ModelProto:
    """A layer that a BatchNormalization is folded into, and one that an Add is."""
    nodes = [
        node("Conv", "x w", "c"),
        node("BatchNormalization", "c s b m v", "n"),
        node("Relu", "n", "r"),
        node("GlobalAveragePool", "r", "p"),
        node("Flatten", "p", "f"),
        node("Gemm", "f u", "g"),
        node("Add", "g o", "y"),
    ]
    random = np.random.default_rng(0)
    shapes = {"w": (4, 2, 3, 3), "s": (4,), "b": (4,), "m": (4,), "u": (4, 3), "o": (3,)}
    constants = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return simple(nodes, {"x": (1, 2, 6, 6)}, {**constants, "v": np.ones(4, np.float32)})


def test_layers_with_what_was_folded_into_them_are_written_as_they_are(tmp_path: Path) -> None:
    onnx.save(normalized(), tmp_path / "n.onnx")
    model = open_model(str(tmp_path / "n.onnx"), without=("dead-channels",)).model
    net = network(model.graph)
    assert {"n.weights", "n.bias"} <= set(net.weights)
    weights = {n: w.detach().numpy() * np.float32(1.5) for n, w in net.weights.items()}
    (tmp_path / "t.onnx").write_bytes(trained_onnx(model, weights, "t"))
    x = samples_for((1, 2, 6, 6), 4).astype(np.float32)
    wanted = evaluate(with_constants(model.graph, weights), x)
    assert np.allclose(evaluate(open_model(str(tmp_path / "t.onnx")).model.graph, x), wanted, atol=1e-6)


def test_columns_with_scales_of_their_own(tmp_path: Path) -> None:
    """Raw features of different ranges: the program maps them, and so does what is trained."""
    random = np.random.default_rng(0)
    sizes = np.array([1, 1000, 0.01, 1, 5], np.float32)
    w = (random.normal(size=(5, 3)) / sizes[:, None]).astype(np.float32)
    onnx.save(simple([node("Gemm", "x w b", "y")], {"x": (1, 5)}, {"w": w, "b": rnd(3)}), tmp_path / "m.onnx")
    graph = open_model(str(tmp_path / "m.onnx"), without=("dead-channels",)).model.graph
    x = (random.normal(size=(300, 5)) * sizes).astype(np.float32)
    y = evaluate(graph, x).reshape(300, 3).argmax(axis=1)
    used = quantizers(graph, Assignment("fixed8"), calibrate(graph, x, {}))
    assert used.program.columns is not None
    codes, _ = quantize_inputs(used.program, x)
    wanted = dequantize_outputs(used.program, run_reference(used.program, codes).outputs)
    held = dequantize(codes, used.program.tensors[used.program.input].format).reshape(300, 1, 5).astype(np.float32)
    net = network(graph)
    assert np.array_equal(net.forward(torch.tensor(held), used, Assignment("fixed8")).detach().numpy(), wanted)
    samples = divide(x, y, 0)
    judge = Judge(graph, Assignment("fixed8"), samples.calibration, NumpyExecutor())
    assert train(Job(judge, samples, Schedule(2))).best.accuracy > 0.9
