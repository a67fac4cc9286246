"""Layers and the synapses between them: what an energy lives on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import prod
from typing import Annotated, Any, Self, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import wadler_lindig

from eqprop.boundary import CHECKED, entrance, is_iterable, short
from eqprop.compile import check_process
from eqprop.energy.activation import ACTIVATIONS, Activation, Rho, hard_sigmoid
from eqprop.energy.base import unit_range
from eqprop.energy.synapse import Synapse, between
from eqprop.errors import InputError
from eqprop.state import Space, as_shape, check_shapes
from eqprop.types import Array, Gain, HowMany, Key, Layers, Scalar, Shape, Theta

BEYOND = 0.01  # of the box of ρ: what inputs may lie outside of it, as rounding and resampling leave them
LARGEST_PIXEL = 100.0  # normalised images stay far below, and initial weights are for inputs near 1


Size: TypeAlias = Annotated[int, CHECKED]
Activations: TypeAlias = Annotated[Rho | Mapping[str, Rho], CHECKED]


@dataclass(frozen=True)
class Graph:
    """Named layers joined by symmetric synapses.

    layers: the shape of each layer by name; a whole number is the size of a vector.
    synapses: pairs of layer names, which join all units of one with all of the other (a layer paired with itself: all
        its units with each other), or objects of any `Synapse`.
    clamped: the layer that holds the input x and never moves; all others form the state s.
    activation: ρ, as eqprop.tanh or "tanh"; one for all layers, or one for some by name, {"input": "identity"}: the
        others keep the hard sigmoid.

    θ is {"W": {"pre-post": …}, "b": {layer: …}}. There is a bias for each channel of a layer, the last axis of its
    shape; in a vector every unit is a channel. Layered, skip-connected and fully connected networks differ in their
    synapses only. The object holds no weights and is hashable.
    """

    layers: tuple[tuple[str, Shape], ...]
    synapses: tuple[Synapse, ...]
    clamped: str
    activations: tuple[tuple[str, Activation], ...]

    def __init__(
        self,
        layers: Mapping[str, int | Shape],
        synapses: Annotated[Iterable[tuple[str, str] | Synapse], CHECKED],
        *,
        clamped: str = "input",
        activation: Activations = hard_sigmoid,
    ):
        shapes = {layer: _shape(layer, shape) for layer, shape in layers.items()}
        if not is_iterable(synapses):
            raise InputError(f"synapses={short(synapses)} is not a list: give pairs of layer names, or synapses")
        object.__setattr__(self, "layers", tuple(shapes.items()))
        object.__setattr__(self, "synapses", tuple(_synapse(given, shapes) for given in synapses))
        object.__setattr__(self, "clamped", clamped)
        object.__setattr__(self, "activations", _activations(activation, shapes))
        Graph.__check_init__(self)

    def __check_init__(self) -> None:
        """Refuse layers, synapses and activations that do not belong together, be they given or read from a file."""
        shapes = {layer: _shape(layer, shape) for layer, shape in self.layers}
        if self.clamped not in shapes:
            raise InputError(f"clamped={self.clamped!r} is not a layer: the layers are {', '.join(shapes)}")
        if len(shapes) < 2:
            raise InputError(f"a network needs a layer besides the clamped {self.clamped!r}: add an output layer")
        _check_synapses(self.synapses, shapes, self.clamped)
        if odd := sorted(self.rho.keys() ^ shapes.keys()):
            raise InputError(
                f"activation for the layers {', '.join(self.rho)}: {odd[0]!r} is unknown or missing; "
                f"the layers are {', '.join(shapes)}"
            )

    @classmethod
    def layered(cls, *sizes: Size, activation: Activations = hard_sigmoid) -> Self:
        """Layers in a row, input first and output last, each joined to the next.

        Layers between are called hidden, or hidden1, hidden2, … if there are several.

            >>> import eqprop as ep
            >>> net = ep.Hopfield.layered(784, 500, 10)
            >>> net.parameters
            397510
            >>> theta = net.init(jax.random.key(0))
            >>> {synapse: w.shape for synapse, w in theta["W"].items()}
            {'input-hidden': (784, 500), 'hidden-output': (500, 10)}

        Inputs of any range, as standardised features, take another activation:

            >>> ep.Hopfield.layered(4, 3, 2, activation={"input": "identity"}).rho["input"].name
            'identity'
        """
        names = layer_names(sizes)
        return cls(dict(zip(names, sizes, strict=True)), pairwise(names), activation=activation)

    @classmethod
    def skip(cls, *sizes: Size, activation: Activations = hard_sigmoid) -> Self:
        """A layered network whose output is also joined to the input and to every hidden layer.

        The rest is as in `layered`.

            >>> import eqprop as ep
            >>> net = ep.Hopfield.skip(784, 500, 500, 10)
            >>> [synapse.name for synapse in net.synapses[3:]]
            ['input-output', 'hidden1-output']
        """
        names = layer_names(sizes)
        past = [(layer, "output") for layer in names[:-2]]
        return cls(dict(zip(names, sizes, strict=True)), [*pairwise(names), *past], activation=activation)

    @classmethod
    def fully_connected(cls, inputs: int, hidden: int, outputs: int, *, activation: Rho = hard_sigmoid) -> Self:
        """Every pair of units connected, none with itself (the paper's figure 1, left)."""
        sizes = {"input": inputs, "hidden": hidden, "output": outputs}
        within = [(layer, layer) for layer in ("hidden", "output") if sizes[layer] != 1]  # one unit has no pair
        return cls(sizes, [*combinations(sizes, 2), *within], activation=activation)

    def __repr__(self) -> str:
        layers = ", ".join(f"{layer}: {_times(shape)}" for layer, shape in self.layers)
        synapses = ", ".join(f"{synapse.name}: {prod(synapse.shape)}" for synapse in self.synapses)
        kind = type(self).__name__
        return f"{kind}({{{layers}}}, [{synapses}], {self._rho_names}, {self.parameters} parameters)"

    @property
    def _rho_names(self) -> str:
        """The activation of all layers, or of each."""
        names = {layer: rho.name for layer, rho in self.activations}
        if len(set(names.values())) == 1:
            return names[self.clamped]
        return ", ".join(f"{layer}: {name}" for layer, name in names.items())

    def __pdoc__(self, **_: Any) -> wadler_lindig.AbstractDoc:
        """The same where Equinox prints what contains the network."""
        return wadler_lindig.TextDoc(repr(self))

    def _repr_html_(self) -> str:
        """For notebooks: a table of layers, with their units and biases, and of synapses, with their weights."""
        biases = {layer: prod(shape) for layer, shape in self.biases.items()}
        rows = ["<tr><th>layer</th><th>units</th><th>biases</th></tr>"]
        rows += [f"<tr><td>{k}</td><td>{n:,}</td><td>{biases.get(k, 'clamped')}</td></tr>" for k, n in self._units]
        rows += ["<tr><th>synapse</th><th>shape</th><th>weights</th></tr>"]
        for synapse in self.synapses:
            rows.append(
                f"<tr><td>{synapse.name}</td><td>{_times(synapse.shape)}</td><td>{prod(synapse.shape):,}</td></tr>"
            )
        caption = f"<caption>{type(self).__name__}, {self._rho_names}, {self.parameters:,} parameters</caption>"
        return f"<table>{caption}{''.join(rows)}</table>"

    @property
    def _units(self) -> list[tuple[str, int]]:
        return [(layer, prod(shape)) for layer, shape in self.layers]

    @property
    def sizes(self) -> dict[str, int]:
        """The number of units of each layer, the clamped one included."""
        return dict(self._units)

    @property
    def free(self) -> dict[str, int]:
        """The layers that settle, with their numbers of units."""
        return {layer: size for layer, size in self._units if layer != self.clamped}

    @property
    def shapes(self) -> dict[str, Shape]:
        """The shapes of the layers that settle."""
        return {layer: shape for layer, shape in self.layers if layer != self.clamped}

    @property
    def smooth(self) -> bool:
        """Whether the interaction of all synapses has all derivatives; bounds of states are another matter."""
        return all(synapse.smooth for synapse in self.synapses)

    @property
    def biases(self) -> dict[str, Shape]:
        """The shapes of the biases: one for each channel of a layer that settles."""
        return {layer: shape[-1:] for layer, shape in self.shapes.items()}

    @property
    def rho(self) -> dict[str, Activation]:
        """The activation ρ of each layer, the clamped one included."""
        return dict(self.activations)

    @property
    def space(self) -> Space:
        """The layers that settle; their bounds are those of their activations."""
        low, high = ({layer: end(self.rho[layer]) for layer in self.shapes} for end in (_low, _high))
        return Space(self.shapes, _common(low), _common(high))

    @entrance
    def rest(self, batch: HowMany) -> Layers:
        """The state s = 0 for `batch` examples."""
        return self.space.rest(batch)

    @property
    def parameters(self) -> int:
        """How many numbers θ has."""
        return sum(map(prod, (*(synapse.shape for synapse in self.synapses), *self.biases.values())))

    @entrance
    def init(self, key: Key, gain: Gain | Mapping[str, Gain] = 0.5) -> Theta:
        """Weights in the range of each synapse, that of Glorot & Bengio if it is dense, times `gain`; biases zero.

        gain: one number, or one for each synapse by name.

        At full gain (the paper's) the first of several hidden layers starts saturated and learns late; at
        half of it deep networks learn from the first minibatch.
        """
        check_process()
        keys = jax.random.split(key, len(self.synapses))
        names = [synapse.name for synapse in self.synapses]
        gains = gain if isinstance(gain, Mapping) else dict.fromkeys(names, gain)
        if odd := sorted(gains.keys() ^ set(names)):
            raise InputError(f"gain for the synapses {list(gains)}: {odd[0]!r} is unknown or missing")
        return {
            "W": {syn.name: syn.init(k, gains[syn.name]) for syn, k in zip(self.synapses, keys, strict=True)},
            "b": {layer: jnp.zeros(shape) for layer, shape in self.biases.items()},
        }

    @entrance
    def fields(self, theta: Theta) -> Array:
        """The weights by which the inputs act on the first layer they are joined to."""
        self._check_theta(theta)
        return theta["W"][next(synapse.name for synapse in self.synapses if synapse.pre == self.clamped)]

    @entrance
    def per_layer(self, values: Mapping[str, float]) -> dict[str, dict[str, float]]:
        """A tree like θ with, for each layer, its value at its biases and at the synapses that lead to it.

        For the layers' own learning rates α_k (section 5.2): W_k, between h_{k−1} and h_k, goes with h_k.
        """
        if odd := sorted(values.keys() ^ self.free.keys()):
            raise InputError(f"values for the layers {list(values)}: {odd[0]!r} is unknown or missing")
        return {
            "W": {synapse.name: values[synapse.post] for synapse in self.synapses},
            "b": {layer: values[layer] for layer in self.free},
        }

    def phi(self, theta: Theta, rho: Layers) -> Scalar:
        """The interaction Φ = Σ of the synapses + Σ_i b_i ρ(u_i), given the firing rates of all layers."""
        paired = [synapse.phi(theta["W"][synapse.name], rho) for synapse in self.synapses]
        biased = (_biased(b, rho[layer]) for layer, b in theta["b"].items())
        return sum(biased, start=sum(paired[1:], paired[0]))

    def coupling(
        self, w: Mapping[str, Array], rates: Layers, layer: str, scale: Mapping[str, Array | float] | None = None
    ) -> Array | float:
        """How strongly the units of a layer feel each other, through all synapses of weights `w`.

        `scale`: a factor for the Φ of each synapse, by the layer that it leads to; none: 1.
        """
        parts = (
            (scale[syn.post] if scale else 1) * syn.coupling(w[syn.name], rates, layer)
            for syn in self.synapses
            if layer in (syn.pre, syn.post)
        )
        return sum(parts, start=0.0)

    def rates(self, x: Array, s: Layers) -> Layers:
        """ρ(u) of every layer, the input included."""
        rho = self.rho
        return self.inputs(x, rho[self.clamped]) | {layer: rho[layer](u) for layer, u in s.items()}

    def inputs(self, x: Array, rho: Any = lambda x: x) -> Layers:
        """The clamped layer by name; pixels may be whole numbers."""
        return {self.clamped: rho(jnp.asarray(x, jnp.result_type(float, x)))}

    def check(self, theta: Theta, x: Array, s: Layers) -> None:
        """Refuse what does not fit: shapes are known before anything is computed, so a misfit costs nothing to find."""
        self._check_shape(jnp.shape(x))
        check_shapes("the state", self.shapes, s)
        self._check_theta(theta)

    def _check_theta(self, theta: Theta) -> None:
        if not isinstance(theta, Mapping):
            raise InputError(f"theta is of type {type(theta).__name__} instead of a dict: make it with init")
        if lacking := sorted({"W", "b"} - theta.keys()):
            raise InputError(f"theta has {sorted(theta)} and lacks {lacking[0]!r}: make it with init")
        check_shapes("theta['W']", {synapse.name: synapse.shape for synapse in self.synapses}, theta["W"])
        check_shapes("theta['b']", self.biases, theta["b"])

    def take(self, x: Any) -> Any:
        """Inputs of a batch in the shape of the input layer, and bytes as numbers from 0 to 1.

        Images become rows where the layer is a vector, and the other way round; channels that come first come last. A
        list of arrays has one example in each.
        """
        if x is None or isinstance(x, list | tuple):
            x = _stacked(x or [])
        _require_array(x)
        shape, given = self.input_shape, jnp.shape(x)
        if prod(given) == prod(shape) and given[:1] != (1,):
            raise InputError(f"x of shape {given} is one example: give x[None], for the first axis counts them")
        x = unit_range(x)
        if len(shape) == 3 and given[1:] == (shape[2], *shape[:2]) != shape:
            return np.moveaxis(np.asarray(x), 1, -1)
        return x.reshape(-1, *shape) if _same_rows(given[1:], shape) else x

    @property
    def input_shape(self) -> Shape:
        """The shape of one input."""
        return dict(self.layers)[self.clamped]

    def check_inputs(self, x: Array, heard: tuple[float, float] | None = None) -> None:
        """Refuse inputs of a batch that do not fit, pixels that are still bytes, and what ρ does not hear.

        heard: the range of inputs that the energy tells apart; None: the box of the input layer's ρ.
        """
        _require_array(x)
        if jnp.shape(x) == self.input_shape:
            raise InputError(f"x of shape {jnp.shape(x)} is one example: give x[None], for the first axis counts them")
        self._check_shape(jnp.shape(x)[1:], jnp.shape(x)[:1])
        values = np.asarray(x)
        largest = max(float(np.max(values, initial=0)), -float(np.min(values, initial=0)))
        image = len(dict(self.layers)[self.clamped]) == 3
        if (values.dtype == np.uint8 and largest > 1) or (image and largest > LARGEST_PIXEL):
            raise InputError(
                f"inputs of type {values.dtype} go up to {largest:g}, where weights begin as for inputs up to about 1: "
                "divide bytes by 255, or normalise"
            )
        rho = self.rho[self.clamped]
        low, high = heard or (rho.low, rho.high)
        least, most = (float(end(values)) if values.size else 0.0 for end in (np.min, np.max))
        if least < low - BEYOND * (rho.high - rho.low) or most > high + BEYOND * (rho.high - rho.low):
            raise InputError(
                f"inputs go from {least:g} to {most:g}, and {rho.name} of the input hears nothing outside of "
                f"[{low:g}, {high:g}]: scale them to it (bytes: x / 255), or take another activation for the input, "
                f"as activation={{{self.clamped!r}: 'identity'}}"
            )

    def _check_shape(self, given: Shape, count: Shape = ()) -> None:
        """Refuse an input of another shape than that of its layer, and say what may have happened.

        count: the axis before it, which counts the examples of a batch.
        """
        shape, axis = self.input_shape, len(count)
        if given == shape:
            return
        fits = f"an input of shape {given} does not fit layer {self.clamped!r} of {_times(shape)} units"
        if not count and given[1:] == shape:
            raise InputError(
                f"{fits}: F is for one example; give x[0], or several to a relaxation, a rule or a trainer"
            )
        if len(given) == len(shape) == 3 and given == (shape[2], *shape[:2]):
            raise InputError(f"{fits}: channels come last; give np.moveaxis(x, {axis}, -1)")
        if _same_rows(given, shape):
            way = "flatten it" if len(shape) == 1 else "it is flattened" if len(given) == 1 else "the axes differ"
            rows = ", ".join(map(str, (*(-1 for _ in count), *shape)))
            examples = ", or let eqprop.examples do so" if count else ""
            raise InputError(f"{fits}: {way}; give x.reshape({rows}){examples}")
        if given[:2] == shape[1::-1] and prod(given) == prod(shape):
            raise InputError(f"{fits}: height and width are exchanged; give np.swapaxes(x, {axis}, {axis + 1})")
        image = (*count, *given) if given == count else given
        if given == count and prod(image) == prod(shape):
            rows = ", ".join(map(str, (1, *shape)))
            raise InputError(f"{fits}: x is one example, and the first axis counts them; give x.reshape({rows})")
        if len(image) > 1:
            way = (
                f", and the layer {prod(shape)}: resize it" if len(shape) == 1 else f": give images of {_times(shape)}"
            )
            raise InputError(f"{fits}: an image of {_times(image)} has {prod(image)} numbers{way}")
        raise InputError(fits)

    def require_forward(self) -> None:
        """Refuse synapses that do not lead from a layer to a later one, for energies that tell forward from back."""
        order = [layer for layer, _ in self.layers]
        for synapse in self.synapses:
            if order.index(synapse.pre) >= order.index(synapse.post):
                raise InputError(f"synapse {synapse.name} does not lead to a later layer: there are {', '.join(order)}")


def layer_names(sizes: tuple[int, ...]) -> list[str]:
    """The names of layers in a row."""
    if len(sizes) < 2:
        raise InputError(f"sizes={sizes}: give at least an input and an output size")
    count = len(sizes) - 2
    return ["input", *(["hidden"] if count == 1 else [f"hidden{k}" for k in range(1, count + 1)]), "output"]


def _activations(given: Rho | Mapping[str, Rho], shapes: Mapping[str, Shape]) -> tuple[Any, ...]:
    """The activation of each layer."""
    some = isinstance(given, Mapping)
    each = dict.fromkeys(shapes, hard_sigmoid if some else given) | (dict(given) if some else {})
    each = {layer: ACTIVATIONS.get(rho, rho) if isinstance(rho, str) else rho for layer, rho in each.items()}
    for layer, rho in each.items():
        if not isinstance(rho, Activation):
            raise InputError(
                f"activation={rho!r} of layer {layer!r}: give one of {', '.join(ACTIVATIONS)}, or an eqprop.Activation"
            )
    return tuple((layer, each[layer]) for layer in dict.fromkeys([*shapes, *each]) if layer in each)


def _low(rho: Activation) -> float:
    return rho.low


def _high(rho: Activation) -> float:
    return rho.high


def _common(bounds: dict[str, float]) -> float | dict[str, float]:
    """One bound for all layers where they agree."""
    first, *more = bounds.values()
    return first if all(bound == first for bound in more) else bounds


def _same_rows(given: Shape, shape: Shape) -> bool:
    """Whether the numbers of an input come in the order of the layer: as a vector, or with its sides."""
    sides, wanted = ([side for side in of if side != 1] for of in (given, shape))
    return prod(given) == prod(shape) and (len(given) < 2 or len(shape) < 2 or sides == wanted)


def _times(shape: Shape) -> str:
    return " × ".join(map(str, shape))


def _shape(layer: str, shape: Any) -> Shape:
    if "-" in layer or "/" in layer:
        raise InputError(f"layer name {layer!r} contains '-' or '/', which join names: choose another")
    return as_shape(layer, shape)


def _synapse(given: Any, shapes: dict[str, Shape]) -> Synapse:
    if isinstance(given, Synapse):
        return given
    pair = tuple(given) if isinstance(given, tuple | list) else (given,)
    if len(pair) != 2 or not all(isinstance(layer, str) for layer in pair):
        raise InputError(f"synapse {short(given)} is not a pair of layer names")
    _check_ends(pair, pair, shapes)
    if pair[0] == pair[1] and prod(shapes[pair[0]]) < 2:
        raise InputError(f"synapse {pair!r} is within a layer of one unit: there is no pair to connect")
    return between(*pair, shapes)


def _check_ends(synapse: Any, ends: tuple[str, ...], shapes: dict[str, Shape]) -> None:
    for layer in ends:
        if layer not in shapes:
            raise InputError(f"synapse {synapse!r} names an unknown layer {layer!r}: there are {', '.join(shapes)}")


def _require_array(x: Any) -> None:
    if not isinstance(x, np.ndarray | jax.Array):
        raise InputError(f"x={short(x)} is no array: give one, whose first axis counts examples")


def _check_synapses(synapses: tuple[Synapse, ...], shapes: dict[str, Shape], clamped: str) -> None:
    seen = set()
    for synapse in synapses:
        pair = (synapse.pre, synapse.post)
        _check_ends(synapse, pair, shapes)
        if set(pair) == {clamped}:
            raise InputError(f"synapse {pair!r} joins the clamped layer to itself, which nothing can feel: drop it")
        if frozenset(pair) in seen:
            raise InputError(f"synapse {pair!r} is given twice: synapses are symmetric, so list each pair once")
        seen.add(frozenset(pair))
        synapse.fit(shapes)
    unreached = set(shapes) - {layer for synapse in synapses for layer in (synapse.pre, synapse.post)}
    if unreached:
        raise InputError(f"no synapse reaches layer {sorted(unreached)[0]!r}: join it or drop it")


def _stacked(x: Sequence[Any]) -> np.ndarray:
    """One array of the examples in a list."""
    if not len(x):
        raise InputError("x has no examples: give one array, whose first axis counts them")
    try:
        shapes = dict.fromkeys(np.shape(one) for one in x)
    except ValueError as error:
        raise InputError("x has an example in rows of different lengths: give one array") from error
    if len(shapes) != 1:
        told = ", ".join(map(str, [*shapes][:3]))
        raise InputError(
            f"x has examples of {len(shapes)} shapes, {told}: give one array, or a list of arrays of one shape"
        )
    return np.stack(x)


def _biased(b: Array, rho: Array) -> Scalar:
    """Σ_i b_i ρ_i; as a product where it can be, which compiles to less than a sum over all examples."""
    return jnp.dot(b, rho) if rho.ndim == 1 else jnp.sum(b * rho)
