"""Networks for images: convolutions, pooling, readouts, and what bad shapes are told."""

import os
import subprocess
import sys
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eqprop as ep
from eqprop.energy import POOLINGS
from eqprop.energy.convolution import convolve
from eqprop.errors import InputError
from eqprop.rule import parts
from eqprop.study import CostOptions, Experiment, NetworkOptions, settling_maps
from eqprop.verification.zoo import IMAGES
from marks import slow, slow_but

pytestmark = pytest.mark.usefixtures("x64")
SMOOTH_BUT_MAX = ep.Hopfield.convolutional((4, 4, 1), (2,), 3, activation=ep.smooth_step)
RANDOM = np.random.default_rng(0)


def convolved(image: np.ndarray, kernel: np.ndarray, stride: int, padding: int) -> np.ndarray:
    """The convolution, place by place."""
    height, width = kernel.shape[:2]
    padded = np.pad(image, ((padding, padding), (padding, padding), (0, 0)))
    rows, columns = ((n - k) // stride + 1 for n, k in zip(padded.shape, (height, width), strict=False))
    out = np.zeros((rows, columns, kernel.shape[3]))
    for i, j in product(range(rows), range(columns)):
        seen = padded[i * stride : i * stride + height, j * stride : j * stride + width]
        out[i, j] = np.einsum("abc,abcd->d", seen, kernel)
    return out


def pooled(field: np.ndarray, kind: str | None, side: int = 2) -> np.ndarray:
    """What each window is summed up to, window by window."""
    if kind is None:
        return field
    out = np.zeros((field.shape[0] // side, field.shape[1] // side, field.shape[2]))
    for i, j, c in np.ndindex(*out.shape):
        window = field[i * side : (i + 1) * side, j * side : (j + 1) * side, c]
        weights = np.exp(window) / np.exp(window).sum()
        out[i, j, c] = {"max": window.max(), "average": window.mean(), "softmax": (weights * window).sum()}[kind]
    return out


# ---- convolutions ----


@pytest.mark.parametrize(
    ("kind", "stride", "padding"), [("max", 1, 1), ("average", 1, 0), ("softmax", 1, 1), (None, 2, 1)]
)
def test_the_interaction_of_a_convolution_is_what_it_says(kind: str | None, stride: int, padding: int) -> None:
    pool = None if kind is None else POOLINGS[kind](2)
    synapse = ep.Convolution("a", "b", (3, 3, 2, 4), stride, padding, pool)
    image, w = RANDOM.normal(size=(6, 6, 2)), RANDOM.normal(size=synapse.shape)
    expected = pooled(convolved(image, w, stride, padding), kind)
    assert synapse.output(image.shape) == expected.shape
    above = RANDOM.normal(size=expected.shape)
    rho = {"a": jnp.asarray(image), "b": jnp.asarray(above)}
    assert float(synapse.phi(jnp.asarray(w), rho)) == pytest.approx((expected * above).sum(), rel=1e-12)
    np.testing.assert_allclose(synapse.drive(jnp.asarray(w), rho, "b"), expected, rtol=1e-12)


@pytest.mark.parametrize(("stride", "padding"), [slow(1, 1), slow(2, 0), (2, 1), slow(8, 2)])
def test_the_derivatives_of_a_convolution_are_those_of_differences(stride: int, padding: int) -> None:
    """Both ways of automatic differentiation, by the image and by the kernel, one at a time and together."""
    image, kernel = jnp.asarray(RANDOM.normal(size=(5, 5, 2))), jnp.asarray(RANDOM.normal(size=(3, 3, 2, 3)))
    moves = jnp.asarray(RANDOM.normal(size=image.shape)), jnp.asarray(RANDOM.normal(size=kernel.shape))
    out = convolve(image, kernel, stride, padding)
    ahead = jnp.asarray(RANDOM.normal(size=out.shape))

    def phi(image: Any, kernel: Any) -> Any:
        return jnp.sum(ahead * jnp.sin(convolve(image, kernel, stride, padding)))

    h = 1e-6
    for which in ((1, 0), (0, 1), (1, 1)):
        change = [part * move for part, move in zip(which, moves, strict=True)]
        up, down = (phi(*(a + sign * h * c for a, c in zip((image, kernel), change, strict=True))) for sign in (1, -1))
        expected = float(up - down) / (2 * h)
        forward = jax.jvp(phi, (image, kernel), tuple(change))[1]
        slopes = jax.grad(phi, argnums=(0, 1))(image, kernel)
        backward = sum(jnp.vdot(g, c) for g, c in zip(slopes, change, strict=True))
        assert float(forward) == pytest.approx(expected, rel=1e-7)
        assert float(backward) == pytest.approx(expected, rel=1e-7)
    only_image = jax.grad(lambda image: phi(image, kernel))(image)
    np.testing.assert_allclose(only_image, jax.grad(phi)(image, kernel), rtol=1e-12)


@pytest.mark.parametrize("window", [2, 3])
def test_the_bend_of_the_softmax_pooling_bounds_its_second_derivatives(window: int) -> None:
    pool = ep.SoftmaxPool(window)
    second = jax.jit(jax.hessian(lambda f: pool(f.reshape(window, window, 1))[0, 0, 0]))
    sizes = [
        np.abs(np.linalg.eigvalsh(second(spread * RANDOM.normal(size=window**2)))).max()
        for spread in (0.1, 1.0, 3.0, 10.0)
        for _ in range(30)
    ]
    assert 0.5 < max(sizes) <= pool.bend


@pytest.mark.parametrize("name", slow_but(IMAGES, "convolution, max"))
def test_block_descent_without_over_relaxation_never_raises_the_energy(name: str) -> None:
    """In any order, nudged or not, from a random state: the bound on the curvature holds."""
    problem = IMAGES[name]
    theta, v, rest = problem.draw(seed=1)
    start = jax.tree.map(lambda u: u + 0.7 * jnp.asarray(RANDOM.uniform(size=u.shape)), rest)
    path = ep.Block(30, omega=1.0, order="both").trace(problem.F, theta, v, 0.4, start)
    assert (np.diff(path.energy, axis=1) <= 1e-9).all()
    assert (path.energy[:, 0] - path.energy[:, -1] > 0.01).all()


@pytest.mark.slow
def test_the_coupling_of_softmax_pooling_is_a_bound_and_needed() -> None:
    """diag(c) ± ∂²Φ/∂ρ² has no negative eigenvalue; with a thirtieth of c it has."""
    synapse = ep.Convolution("a", "b", (3, 3, 1, 2), 1, 1, ep.SoftmaxPool(2))
    w = jnp.asarray(RANDOM.normal(size=synapse.shape))
    rho = {"a": jnp.asarray(RANDOM.uniform(size=(4, 4, 1))), "b": jnp.asarray(RANDOM.uniform(size=(2, 2, 2)))}
    second = jax.hessian(lambda flat: synapse.phi(w, rho | {"a": flat.reshape(4, 4, 1)}))(rho["a"].ravel())
    bound = np.diag(np.ravel(synapse.coupling(w, rho, "a")))
    for sign in (1, -1):
        assert np.linalg.eigvalsh(bound + sign * second).min() >= 0
    assert np.linalg.eigvalsh(bound / 30 - second).min() < 0
    assert synapse.coupling(w, rho, "b") == 0


SIGNED = ep.Hopfield.convolutional((4, 4, 1), (3, 4), 2, pool=ep.SoftmaxPool(2), activation=ep.hard_tanh)


@pytest.mark.slow
@pytest.mark.parametrize("make", [slow(lambda net: net), lambda net: ep.XieSeung(net, gamma=0.9), slow(ep.Directed)])
def test_the_curvature_of_every_energy_on_pooled_layers_is_a_bound(make: Any) -> None:
    """diag(c) minus the derivative of what pulls a layer back has no negative eigenvalue; the leak alone is short."""
    energy = make(SIGNED)
    theta = jax.tree.map(lambda w: 4 * w, energy.init(jax.random.key(0), gain=1.0))
    F, x = ep.Total(energy, ep.SquaredError()), jnp.asarray(RANDOM.uniform(size=(4, 4, 1)))
    rest, beyond = jax.tree.map(lambda u: u[0], energy.rest(1)), []
    for _ in range(10):
        s = jax.tree.map(lambda u: jnp.asarray(RANDOM.uniform(-1, 1, size=u.shape)), rest)

        def back(u: Any, s: Any = s) -> Any:
            return -F.force(theta, (x, None), 0.0, s | {"conv1": u})["conv1"]

        slope = np.reshape(jax.jacobian(back)(s["conv1"]), (12, 12))
        bound = np.ravel(energy.curvature(theta, x, s, ("conv1",))["conv1"])
        assert np.linalg.eigvalsh(bound * np.eye(12) - (slope + slope.T) / 2).min() >= 0
        beyond.append(np.linalg.eigvalsh(slope + slope.T).max() / 2)
    assert max(beyond) > 2  # so that steps that mind the leak alone overshoot


@pytest.mark.slow
def test_block_descent_on_weak_feedback_with_softmax_pooling_never_raises_the_energy() -> None:
    F = ep.Total(ep.XieSeung(SIGNED, gamma=0.9), ep.SquaredError())
    theta = jax.tree.map(lambda w: 4 * w, SIGNED.init(jax.random.key(0), gain=1.0))
    v = (jnp.asarray(RANDOM.uniform(size=(20, 4, 4, 1))), jnp.zeros((20, 2)))
    start = jax.tree.map(lambda u: jnp.asarray(RANDOM.uniform(-1, 1, size=u.shape)), SIGNED.rest(20))
    path = ep.Block(30, omega=1.0, order="both").trace(F, theta, v, 0.3, start)
    assert (np.diff(path.energy, axis=1) <= 1e-9).all()
    assert (path.energy[:, 0] - path.energy[:, -1] > 0.01).all()


@pytest.mark.slow
def test_a_network_whose_feedback_equals_its_weights_settles_as_the_symmetric_one_does() -> None:
    """With softmax pooling too: the same steps, so the same bound."""
    theta = jax.tree.map(lambda w: 4 * w, SIGNED.init(jax.random.key(0), gain=1.0))
    directed = ep.Directed(SIGNED)
    both = theta | {"V": {synapse: theta["W"][synapse] for synapse in directed.feedback}}
    v = (jnp.asarray(RANDOM.uniform(size=(3, 4, 4, 1))), None)
    expected, _ = ep.Block(7, omega=1.0)(ep.Total(SIGNED, ep.SquaredError()), theta, v, 0.0, SIGNED.rest(3))
    settled, _ = ep.Block(7, omega=1.0)(ep.Total(directed, ep.SquaredError()), both, v, 0.0, SIGNED.rest(3))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), settled, expected)


def test_a_layer_of_images_has_a_bias_for_each_channel() -> None:
    net = ep.Hopfield.convolutional((8, 8, 3), (4,), 10)
    theta = net.init(jax.random.key(0))
    assert theta["b"]["conv1"].shape == (4,)
    s = jax.tree.map(lambda u: u[0] + 1, net.rest(1))
    moved = theta | {"b": theta["b"] | {"conv1": theta["b"]["conv1"].at[2].add(1.0)}}
    x = jnp.zeros((8, 8, 3))
    assert float(net(theta, x, s) - net(moved, x, s)) == pytest.approx(16)  # the 4 × 4 units of that channel
    assert net.parameters == sum(leaf.size for leaf in jax.tree.leaves(theta))


def test_layers_may_have_activations_of_their_own() -> None:
    net = ep.Hopfield.convolutional((8, 8, 3), (4,), 10)
    assert net.rho["input"] is net.rho["output"] is ep.identity
    some = ep.Hopfield.layered(4, 3, 2, activation={"input": "identity"})  # the others keep the usual one
    assert some == ep.Hopfield.layered(
        4, 3, 2, activation={"input": ep.identity, "hidden": ep.hard_sigmoid, "output": ep.hard_sigmoid}
    )
    space = net.space
    far = {"conv1": jnp.full((4, 4, 4), -3.0), "output": jnp.full(10, -3.0)}
    assert float(space.project(far)["conv1"].max()) == 0.0
    assert float(space.project(far)["output"].max()) == -3.0
    x = jnp.asarray(RANDOM.normal(size=(8, 8, 3)))  # of either sign
    np.testing.assert_array_equal(net.rates(x, far)["input"], x)


def test_the_networks_of_the_field_have_the_shapes_that_they_have_there() -> None:
    net = ep.Hopfield.convolutional((32, 32, 3), (128, 256, 512, 512), padding=(1, 1, 1, 0))
    assert net.shapes["conv4"] == (1, 1, 512) and [*net.shapes] == ["conv1", "conv2", "conv3", "conv4"]
    res = ep.Hopfield.residual((32, 32, 3), (128, 256, 512, 512), 10)
    sides = [shape[0] for layer, shape in res.shapes.items() if layer != "output"]
    assert sides == [32, 16, 16, 8, 8, 4, 4, 2]
    assert {(syn.pre, syn.post) for syn in res.synapses if syn.shape[:2] == (1, 1)} == {
        ("input", "block1b"),
        ("block1b", "block2b"),
        ("block2b", "block3b"),
        ("block3b", "block4b"),
    }


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize(
    ("height", "width", "size", "padding"), [(8, 7, 3, 1), (5, 6, 1, 0), slow(7, 5, 2, 2), slow(6, 8, 4, 1)]
)
def test_both_derivatives_of_a_convolution_are_those_that_jax_finds(
    height: int, width: int, size: int, padding: int, stride: int
) -> None:
    """Whatever is left over at the edges, beyond the last place of the kernel."""
    image, kernel = jnp.asarray(RANDOM.normal(size=(height, width, 2))), RANDOM.normal(size=(size, size, 2, 3))

    def plain(image: Any, kernel: Any) -> Any:
        layout, around = ("NHWC", "HWIO", "NHWC"), [(padding, padding)] * 2
        return jax.lax.conv_general_dilated(image[None], kernel, (stride, stride), around, dimension_numbers=layout)[0]

    out, back = jax.vjp(plain, image, jnp.asarray(kernel))
    ours, our_back = jax.vjp(lambda image, kernel: convolve(image, kernel, stride, padding), image, jnp.asarray(kernel))
    np.testing.assert_allclose(ours, out, rtol=1e-12)
    pull = jnp.asarray(RANDOM.normal(size=out.shape))
    for found, wanted in zip(our_back(pull), back(pull), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("weigh", [False, True])
def test_a_batch_in_parts_teaches_what_it_teaches_as_a_whole(weigh: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradient, states and how they settled; also where all examples of a part weigh nothing."""
    net = ep.Hopfield.convolutional((8, 8, 2), (4, 4), 3)
    F, theta = ep.Total(net, ep.SquaredError()), net.init(jax.random.key(0))
    v = jnp.asarray(RANDOM.normal(size=(12, 8, 8, 2))), jnp.asarray(RANDOM.uniform(size=(12, 3)))
    weight = jnp.asarray([1.0, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0]) if weigh else None
    rule, rest = ep.EquilibriumPropagation(ep.Symmetric(0.1)), net.rest(12)

    def learn() -> Any:
        return jax.jit(lambda theta: rule.learn(F, theta, v, rest, jax.random.key(0), weight))(theta)

    whole = learn()
    monkeypatch.setattr(parts, "ENOUGH", 1)
    monkeypatch.setattr(parts, "_bytes", lambda tree: 3 if "conv1" in tree else 0)
    assert parts.count_parts(theta, rest, 2) == 6 and parts.count_parts(theta, rest, 1) == 1
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12), learn(), whole)
    monkeypatch.setattr(jax, "device_count", lambda: 2)
    assert parts.count_parts(theta, rest, 2) == 1


ON_TWO_DEVICES = """
import jax, jax.numpy as jnp, eqprop as ep
from eqprop.rule import parts
parts.ENOUGH = 1
net = ep.Hopfield.convolutional((8, 8, 2), (4, 4), 3)
F, theta = ep.Total(net, ep.SquaredError()), net.init(jax.random.key(0))
mesh = jax.make_mesh((2,), ("examples",), axis_types=(jax.sharding.AxisType.Auto,))
spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("examples"))
v, s = jax.device_put(((jnp.ones((24, 8, 8, 2)), jnp.ones((24, 3))), net.rest(24)), spread)
rule = ep.EquilibriumPropagation(ep.Symmetric(0.1))
learned = jax.jit(lambda v, s: rule.learn(F, theta, v, s, jax.random.key(0)))(v, s)
assert not learned.state["conv1"].sharding.is_fully_replicated  # each device has settled its share
"""


@pytest.mark.slow
def test_a_batch_on_two_devices_is_learned_by_both_at_once() -> None:
    """In a process of its own, which begins with two devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    done = subprocess.run([sys.executable, "-c", ON_TWO_DEVICES], env=os.environ | {"XLA_FLAGS": flags})
    assert done.returncode == 0


# ---- readouts ----


def test_a_readout_is_no_part_of_the_state_and_learns_with_the_rest() -> None:
    problem = IMAGES["convolution, average, readout"]
    theta, v, rest = problem.draw(seed=0)
    assert "output" not in rest and problem.F.predict(theta, v, jax.tree.map(lambda u: u[0], rest)).shape == (3,)
    settled = ep.Block(500, 1e-10, omega=1.0)
    rule = ep.EquilibriumPropagation(ep.Symmetric(1e-3), settled, settled)
    learned = rule(problem.F, theta, v, rest)
    s0 = learned.state

    def cost(readout: Any) -> Any:
        """At the free fixed points, which do not depend on the readout."""
        return jnp.mean(jax.vmap(problem.F.cost_at, in_axes=(None, 0, 0))(theta | {"readout": readout}, v, s0))

    expected = jax.grad(cost)(theta["readout"])
    for part in ("W", "b"):
        np.testing.assert_allclose(learned.gradient["readout"][part], expected[part], atol=1e-6)


@pytest.mark.slow
def test_the_curvature_of_a_readout_is_a_bound() -> None:
    cost = ep.SoftmaxReadout(layer="a", units=6, classes=4)
    theta = cost.init(jax.random.key(0), gain=3.0)
    y = jnp.eye(4)[1]
    second = jax.hessian(lambda flat: cost(theta, y, {"a": flat}))
    largest = max(np.linalg.eigvalsh(second(jnp.asarray(RANDOM.normal(size=6)))).max() for _ in range(50))
    bound = float(cost.curvature(theta, 1.0)["a"])
    assert 0.1 * bound < largest <= bound
    assert float(cost.curvature(theta, -1.0)["a"]) == 0.0


@pytest.mark.parametrize("cost", ["readout", "squared"])
def test_the_maps_of_a_settling_image_end_with_what_is_predicted(cost: Any) -> None:
    chosen = Experiment("digits", NetworkOptions((3,), "conv"), CostOptions(cost))
    setup = chosen.build(ep.data.load("digits"))
    maps = settling_maps(setup, theta := setup.state.theta)
    assert [*maps] == ["input", "conv1", "readout" if cost == "readout" else "output"]
    assert [*maps["input"]] == [f"class {setup.data.test.labels[0]}"]
    if cost == "readout":
        for moment, shown in maps["readout"].items():
            e = np.exp(maps["conv1"][moment].ravel() @ theta["readout"]["W"] + theta["readout"]["b"])
            np.testing.assert_allclose(shown, e / e.sum(), rtol=1e-5)


# ---- bad input ----


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ep.Hopfield.convolutional((28, 28), (32,), 10), r"image=\(28, 28\): give \(height, width, channels\)"),
        (lambda: ep.Hopfield.convolutional((4, 4, 1), (8,), 10, kernel=7, padding=1), "a kernel of 7 × 7 is larger"),
        (lambda: ep.Hopfield.convolutional((7, 7, 1), (8,), 10), "windows of 2 pixels do not divide a side of 7"),
        (lambda: ep.Hopfield.convolutional((8, 8, 1), (8,), 10, kernel=4), "kernel=4 with padding=None"),
        (lambda: ep.Hopfield.convolutional((8, 8, 1), (8, 8), 10, padding=(1,)), "padding=.*each of the 2 conv"),
        (lambda: ep.Hopfield.convolutional((8, 8, 1), (), 10), r"channels=\(\)"),
        (lambda: ep.Hopfield.convolutional((8, 8, 1), (0,), 10), "positive whole number of channels"),
        (lambda: ep.Hopfield.residual((8, 8, 1), (), 10), r"channels=\(\)"),
        (lambda: ep.MaxPool(0), "window=0"),
        (lambda: ep.Hopfield.convolutional((8, 8, 1), 4, 10), "channels=4"),  # pyright: ignore[reportArgumentType]
        (lambda: ep.Hopfield.convolutional((8, 8, 1), (4,), pool="max"), "pool='max'"),  # pyright: ignore
        (lambda: ep.Convolution("a", "a", (3, 3, 1, 1)), "a convolution of 'a' with itself"),
        (lambda: ep.BoltzmannMachine(ep.Hopfield.convolutional((4, 4, 1), (2,), 3)), "'input' is no vector"),
        (lambda: ep.FlipAndCrop(crop=9)(jax.random.key(0), (jnp.zeros((8, 8, 1)), None)), "crop=9 of an image"),
        (lambda: ep.Holomorphic().check(ep.Total(SMOOTH_BUT_MAX, ep.SquaredError())), "the largest of several"),
        (lambda: ep.Convolution("a", "b", (3, 3, 1, 1), stride=0), "stride=0"),
        (lambda: ep.Convolution("a", "b", (3, 3, 1, 1), padding=-1), "padding=-1"),
        (
            lambda: ep.Hopfield({"input": (8, 8, 2), "a": (8, 8, 4)}, [ep.Convolution("input", "a", (3, 3, 1, 4))]),
            "layer 'input' has 2 channels, and the kernel .* takes 1",
        ),
        (
            lambda: ep.Hopfield({"input": (8, 8, 1), "a": (8, 8, 4)}, [ep.Convolution("input", "a", (3, 3, 1, 4))]),
            r"leads to the shape \(6, 6, 4\), and layer 'a' has \(8, 8, 4\)",
        ),
        (
            lambda: ep.Hopfield.layered(4, 3, activation={"inputs": ep.tanh}),
            "'inputs' is unknown or missing; the layers are input, output",
        ),
        (lambda: ep.Hopfield.layered(4, 3).init(jax.random.key(0), {"input-hidden": 1.0}), "gain for the synapses"),
        (lambda: ep.SoftmaxReadout.of(ep.Hopfield.layered(4, 3), 10, layer="a"), "layer='a' is not a layer"),
        (lambda: ep.SoftmaxReadout(units=3, classes=1), "classes=1"),
        (lambda: ep.Block(order="sideways"), "order='sideways'"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_images_of_the_wrong_shape_and_a_readout_without_weights_are_refused_before_anything_compiles() -> None:
    net = ep.Hopfield.convolutional((8, 8, 1), (4,))
    F, theta = ep.Total(net, ep.SoftmaxReadout.of(net, 10)), net.init(jax.random.key(0))
    v = (jnp.zeros((2, 8, 8, 1)), jnp.eye(10)[:2])
    with pytest.raises(InputError, match="theta lacks 'readout'"):
        ep.EquilibriumPropagation()(F, theta, v, net.rest(2))
    with pytest.raises(InputError, match=r"an input of shape \(64,\) does not fit layer 'input' of 8 × 8 × 1 units"):
        ep.Block()(F, theta, (jnp.zeros((2, 64)), None), 0.0, net.rest(2))


# ---- complex states ----


@pytest.mark.slow
def test_the_holomorphic_nudge_gives_the_gradient_of_a_smooth_network_for_images() -> None:
    net = ep.Hopfield.convolutional((8, 8, 1), (3, 4), activation=ep.smooth_step, pool=ep.SoftmaxPool(2))
    cost = ep.SoftmaxReadout.of(net, 3)
    theta = net.init(jax.random.key(0), 3.0) | cost.init(jax.random.key(1), 0.5)
    v = (jnp.asarray(RANDOM.normal(size=(2, 8, 8, 1))), jnp.eye(3)[:2])
    settle = ep.Gradient(400, epsilon=0.5)
    around, small = (
        ep.EquilibriumPropagation(nudge, settle, settle)(ep.Total(net, cost), theta, v, net.rest(2)).gradient
        for nudge in (ep.Holomorphic(0.5), ep.Symmetric(1e-4))
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), around, small)
