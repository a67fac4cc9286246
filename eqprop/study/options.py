"""The settings of an experiment, in the groups in which the command line shows them."""

from dataclasses import dataclass
from typing import Literal

from eqprop.device.held import Rounding
from eqprop.store.ranges import (
    AtLeastZero,
    Count,
    Epochs,
    Factor,
    Finite,
    HeldOut,
    Momentum,
    Pixels,
    Positive,
    Rate,
    Seed,
    Share,
    Steps,
    Tolerance,
    Units,
)
from eqprop.study.methods import METHODS

ArchitectureName = Literal["layered", "skip", "fully-connected", "conv", "residual", "resistive"]
MethodName = Literal[*METHODS]  # pyright: ignore[reportInvalidTypeForm]


@dataclass(frozen=True)
class NetworkOptions:
    """what the network is"""

    hidden: tuple[Units, ...] = (500,)
    """units of each hidden layer, or channels of each convolution or residual block; none for a network without"""
    architecture: ArchitectureName = "layered"
    """each layer joined to the next; the output joined to all layers besides; every unit to every other, which has one
    hidden layer; convolutions in a row; blocks of two convolutions with a skip past both; or a circuit of resistors and
    diodes"""
    activation: Literal["hard_sigmoid", "hard_tanh", "sigmoid", "tanh", "half_sigmoid", "relu6", "smooth_step"] = (
        "hard_sigmoid"
    )
    """ρ; the paper's is the hard sigmoid; with noise the default is tanh, for noise leaves any box; in convolutional
    networks, inputs and outputs have none"""
    kernel: Pixels = 3
    """conv: side of the kernels, an odd number of pixels"""
    padding: tuple[Pixels, ...] = ()
    """conv: pixels of 0 around each layer, one number for each convolution; none: as many as keep the sides"""
    pool: Literal["max", "average", "softmax", "none"] = "max"
    """conv: what sums up each 2 × 2 pixels behind a convolution; none: convolutions take every other pixel instead"""
    gain: Positive = 0.5
    """initial weights: this times Glorot & Bengio's range, or times 1/√fan_in for convolutions; the paper's is 1, deep
    networks start better at 0.5"""
    gains: tuple[Positive, ...] = ()
    """a gain for each synapse in order, the readout last; none: the same for all"""
    weights: Literal["real", "binary"] = "real"
    """binary: those of a synapse are ±α, with the signs of real ones that learn and α the mean of their absolute
    values; biases are real"""
    bias: Finite = 0.0
    """initial biases of the outputs; those of hidden layers are 0"""


@dataclass(frozen=True)
class CostOptions:
    """what is wanted"""

    cost: Literal["squared", "cross-entropy", "readout"] = "squared"
    """squared error (the paper's), softmax cross-entropy, or the cross-entropy of a readout with weights of its own,
    which is no part of the state (networks for images)"""
    targets: tuple[Finite, Finite] = (0.0, 1.0)
    """squared error: what an output ought to be for other classes, and for its own; 0.2 0.8 keep off the ends of the
    box, where an output feels no small nudge"""
    scale: Positive = 1.0
    """cross-entropy: outputs are multiplied by it before the softmax"""
    l1: AtLeastZero = 0.0
    """penalty on the absolute value of all weights and biases"""
    l2: AtLeastZero = 0.0
    """penalty on half the square of all weights and biases"""


@dataclass(frozen=True)
class SettlingOptions:
    """how the network is nudged, and how it settles"""

    nudge: Literal["one-sided", "random-sign", "symmetric", "asymmetric", "holomorphic"] = "symmetric"
    """which values of β are compared: 0 and β, 0 and ±β by chance, β and −β, β and −1 / N, or six points on a
    circle of radius β in the complex plane (smooth activations only)"""
    beta: Finite | None = None
    """strength of the nudge, β; None: 1 / N with N hidden and output layers, or what suits the method"""
    growth: Factor = 1.0
    """β is multiplied by it after each epoch"""
    order: Literal["forward", "both"] = "forward"
    """block descent in the free phase: from input to output, or there and back in each step, as for images"""
    relaxation: Literal["block", "gradient", "spiking"] = "block"
    """block descent; the paper's clipped gradient step; or that step with random spikes in place of rates. It holds for
    all phases. Fully connected networks take gradient by default, as synapses within a layer make the steps of block
    descent short"""
    omega: Finite | None = None
    """over-relaxation of block descent, ω; None: 1.2, rising to 1.5 for what still moves after 6 steps"""
    nudged_relaxation: Literal["block", "gradient"] | None = None
    """relaxation of the nudged phases, which then take all their steps: tol and accelerate are for the free phase
    only; None: as in the free phase"""
    epsilon: Positive = 0.5
    """step size of the gradient step and of spiking units, ε; with noise, the step of time"""
    free_steps: Steps | None = None
    """steps of the free phase; None: 2 N, short of the fixed points on purpose, or 7 N / ε if by gradient or by spikes;
    with noise, of every phase; of those with noise or spikes, the second half is averaged"""
    nudged_steps: Steps | None = None
    """steps of each nudged phase; None: N, or N / ε if by gradient, the time a nudge takes to cross N layers, or as in
    the free phase if by spikes"""
    tol: Tolerance | None = None
    """let an example rest once its residual is at most this; None: always take all steps"""
    accelerate: bool = False
    """extrapolate from each step and the one before (Anderson's method): pays where phases are long"""
    persistent: bool = False
    """start each free phase from the state in which the same example ended in the epoch before"""
    precision: Literal["float32", "bfloat16"] = "float32"
    """states and weights while they settle; weights change, and phases are contrasted, in float32 in any case.
    bfloat16 takes a strong nudge: about 0.5"""
    carry: bool = False
    """start each free phase from the state in which the same row of the previous minibatch ended; evaluate from rest"""
    surrogate: bool = False
    """record L, the objective whose exact gradient EP follows at this β; costs one more energy evaluation per phase"""
    tune: bool = False
    """choose β before the first minibatch, such that the estimated error of the gradient is least there; the search
    begins at --beta"""
    temperature: AtLeastZero = 0.001
    """strength of the noise, T: states follow e^(−F/T)"""


@dataclass(frozen=True)
class CircuitOptions:
    """what the circuit is made of (resistive)"""

    input_gain: Finite = 100.0
    """inputs are multiplied by it, since voltages shrink from layer to layer"""
    diode: Literal["ideal", "shockley"] = "ideal"
    """what keeps half of the hidden nodes above 0 V and half below"""
    saturation: Positive = 1e-7
    """shockley: the current that leaks backwards"""
    ideality: Positive = 1.0
    """shockley: how far from steepest it is"""
    amplification: Positive = 1.0
    """voltages are multiplied by it behind each hidden layer, and currents divided by it on their way back"""
    source_resistance: AtLeastZero = 0.0
    """of the source of each input"""
    least: AtLeastZero = 0.0
    """smallest conductance that a resistor can have"""
    most: Positive | None = None
    """largest conductance that a resistor can have; None: any"""


@dataclass(frozen=True)
class DeviceOptions:
    """what is not perfect about resistors and converters (resistive); all of it is off by default"""

    states: Count | None = None
    """values that a conductance can take, evenly spaced from --least to --most; None: all"""
    rounding: Rounding = "stochastic"
    """states: to the nearest, up or down by chance, or to the nearest with the rest kept for the next update"""
    write_noise: AtLeastZero = 0.0
    """standard deviation of what a write ends at, as a share of the range of conductances"""
    write_spread: AtLeastZero = 0.0
    """relative standard deviation of the steps of different devices (dw_min_dtod)"""
    up_down: Finite = 0.0
    """steps up are larger by this part, steps down smaller"""
    soft_bounds: bool = False
    """steps shrink to 0 towards --least and --most"""
    stuck: Share = 0.0
    """share of devices that never change"""
    drift: Finite = 0.0
    """exponent ν by which a conductance falls with the updates since it was last written"""
    volts: tuple[Positive, ...] = ()
    """what can be read: hidden nodes up to this on their side of 0, outputs up to it on both; one for all, or one for
    each of the N layers; none: all, and shares below are of 1 V"""
    bits: Count | None = None
    """of the converter that reads voltages"""
    read_noise: AtLeastZero = 0.0
    """standard deviation of a reading, as a share of what can be read"""
    offset: AtLeastZero = 0.0
    """standard deviation of what a node reads too much in one of two phases, always the same, as a share"""
    reads: Steps = 1
    """readings whose mean is taken for one"""


@dataclass(frozen=True)
class ImageOptions:
    """what is done to images (conv and residual)"""

    normalise: bool = False
    """subtract the mean of each channel over the training images, and divide by the deviation"""
    deviations: Positive = 1.0
    """normalise: the number of deviations to divide by"""
    flip: bool = False
    """show each image mirrored left to right by chance"""
    crop: Pixels = 0
    """shift each image by up to this many pixels either way"""


@dataclass(frozen=True)
class LearningOptions:
    """how the weights change"""

    method: MethodName = "equilibrium"  # pyright: ignore[reportInvalidTypeForm]
    """equilibrium propagation, or one of its relatives"""
    epochs: Epochs = 10
    """passes over the training examples"""
    batch_size: Count = 50
    """examples in a minibatch"""
    optimizer: Literal["sgd", "adam"] = "adam"
    """any optimizer will do in Python"""
    learning_rate: tuple[Rate, ...] = ()
    """one for all, or one for each of the N layers in order, the readout last; none: 0.002 / N for adam, 0.2 / N for
    sgd, with the N of a block for chains"""
    momentum: Momentum = 0.0
    """of sgd"""
    nesterov: bool = False
    """look ahead by the momentum"""
    weight_decay: AtLeastZero = 0.0
    """the part of itself that each number of θ loses in an update, at a learning rate of 1; the gradient of half its
    square in sgd, decoupled in adam"""
    schedule: Literal["staircase", "cosine"] = "staircase"
    """learning rates fall by the factor of decay after each epoch, or along half a cosine to 0 over all epochs"""
    balance: bool = False
    """scale the rate of each layer so that ‖ΔW_k‖/‖W_k‖ is the same for all, as the paper chose its rates"""
    changes: bool = False
    """keep ‖ΔW_k‖/‖W_k‖, averaged over each epoch, in the history; takes a little time"""
    decay: Factor = 0.65
    """the learning rates are multiplied by it after each epoch"""
    shuffle: bool = True
    """visit the examples in a new order in each epoch; otherwise in the order of the data, in the same minibatches"""
    seed: Seed = 0
    """decides the initial weights, the order of the examples and the signs of random nudges"""
    valid: HeldOut | None = None
    """examples held out for validation; None: as is usual for the data set"""
    train: Count | None = None
    """train on this many examples only, the first ones; None: all"""
