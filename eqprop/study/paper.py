"""What the paper trained and how (section 5.2, Table 2), and our own recipe for the same networks."""

from dataclasses import dataclass, replace
from typing import Literal

from eqprop.study.campaign import Trial
from eqprop.study.experiment import Experiment
from eqprop.study.options import LearningOptions, NetworkOptions, SettlingOptions

Plain = Literal["1", "2", "3", "fashion"]
Net = Literal[Plain, "2-accelerated", "3-accelerated"]


@dataclass(frozen=True)
class Row:
    """A row of Table 2, with the epochs of the authors' code, which the text does not give."""

    hidden: tuple[int, ...]
    free_steps: int
    nudged_steps: int
    rates: tuple[float, ...]
    epochs: int


PUBLISHED = {
    1: (1.0, Row((500,), 20, 4, (0.2, 0.1), 25)),
    2: (2.0, Row((500, 500), 150, 6, (0.8, 0.2, 0.02), 60)),
    3: (2.0, Row((500, 500, 500), 500, 8, (0.256, 0.064, 0.016, 0.004), 500)),
}
"""What the authors' published code does, in the paper's terms: β, and the row of Table 2 that it would be.

The code that the paper's footnote links to has the cost ‖y − d‖² in place of ½ ‖y − d‖². So its β of 0.5, 1 and 1 is
twice that in the paper's terms; and its rates, which multiply a contrast divided by *its* β, are doubled as well.
"""

TABLE_2 = {
    1: Row((500,), 20, 4, (0.1, 0.05), 25),
    2: Row((500, 500), 100, 6, (0.4, 0.1, 0.01), 60),
    3: Row((500, 500, 500), 500, 8, (0.128, 0.032, 0.008, 0.002), 500),
}

NETS: dict[str, tuple[str, int]] = {
    "1": ("mnist", 1),
    "2": ("mnist", 2),
    "3": ("mnist", 3),
    "fashion": ("fashion", 2),
    "2-accelerated": ("mnist", 2),
    "3-accelerated": ("mnist", 3),
}
"""The data set and the number of hidden layers."""

PATIENCE: dict[str, int] = {"2": 2, "2-accelerated": 2, "3": 5, "3-accelerated": 5}
"""As published: the epochs after which a validation error above 10 % says that an output is dead."""

OMEGA = 1.2
"""of the sweeps by which an accelerated network settles freely; larger ones are quicker, and less like the steps"""

CHOICES = """
- *Initial weights*: uniform in ±√(6 / (n_pre + n_post)), Glorot & Bengio's range for a linear unit, without a gain.
  Biases begin at 0, and learn at the rate α_k of the weights that lead to their layer.
- *Particles* begin at 0. All units that settle are kept, the outputs too.
- *The errors in the table* are those of the last epoch, at the particles; and in brackets those of the final weights at
  the fixed points that s = 0 leads to (residual 1e-4, at most 100 sweeps), which are not always the same ones. Test
  images, which have no particles, begin at 0 as well.
- *The sign of β* is drawn once for each minibatch.
- *The update* is averaged over the minibatch, not summed.
- *The split*: the last {valid:,} training images are for validation, and are never trained on.
- *Training error over epochs* is counted as the epoch goes, at the end of the free phase, before each minibatch is
  learned; the paper does not say.
"""


def as_written(net: Net, seed: int = 0) -> Trial:
    """Section 5 to the letter: hard sigmoid, clipped steps of ε = 0.5, β = ±1, persistent particles, rates α_k."""
    return _trial(net, seed, 1.0, TABLE_2[NETS[net][1]])


def as_published(net: Net, seed: int = 0) -> Trial:
    """What the authors' code does: `PUBLISHED`, and minibatches that are the same in every epoch, in the same order.

    An accelerated network goes the same way in fewer steps, from the same particles: by sweeps of block descent that
    take the time of the published iterations (`time_of_a_sweep`). The nudged phase is that of the authors.
    """
    trial = _trial(net, seed, *PUBLISHED[NETS[net][1]], shuffle=False)
    if not net.endswith("-accelerated"):
        return trial
    return replace(trial, experiment=replace(trial.experiment, settling=accelerated(trial.experiment.settling)))


def accelerated(settling: SettlingOptions) -> SettlingOptions:
    """The free phase of gradient steps by as many sweeps of block descent as take the same time (`time_of_a_sweep`)."""
    sweeps = round((settling.free_steps or 0) * settling.epsilon / time_of_a_sweep(OMEGA))
    return replace(settling, nudged_relaxation="gradient", relaxation="block", omega=OMEGA, free_steps=sweeps)


def time_of_a_sweep(omega: float) -> float:
    """2ω/(2 − ω): how long the paper's dynamics take for what one sweep of block descent does to a slow mode.

    Layers form a chain, so that the Hessian 1 − M of E, where M joins neighbouring layers only, is consistently
    ordered. For an eigenvalue 1 − λ of M, a sweep with ω shrinks its mode by ν, with (ν + ω − 1)² = ν ω² (1 − λ)²
    (Young's formula for successive over-relaxation). So ν = 1 − 2ω/(2 − ω) λ + O(λ²), and a step of ε shrinks it by
    1 − ελ.
    """
    return 2 * omega / (2 - omega)


def _trial(net: Net, seed: int, beta: float, row: Row, *, shuffle: bool = True) -> Trial:
    experiment = Experiment(
        NETS[net][0],
        network=NetworkOptions(hidden=row.hidden, gain=1.0),
        settling=SettlingOptions(
            nudge="random-sign",
            beta=beta,
            relaxation="gradient",
            epsilon=0.5,
            free_steps=row.free_steps,
            nudged_steps=row.nudged_steps,
            persistent=True,
        ),
        learning=LearningOptions(
            epochs=row.epochs,
            batch_size=20,
            optimizer="sgd",
            learning_rate=row.rates,
            decay=1.0,
            changes=True,
            shuffle=shuffle,
            seed=seed,
        ),
    )
    return Trial(_folder(net, seed), net, experiment)


# An output that its input holds below −β or above 1 + β feels no nudge: to learn the last of the training examples the
# pull must be strong. An equal push generalises best, but deep networks do not bear a strong one (see `Asymmetric`).
# Where not all examples can be learned, as in Fashion-MNIST, the pull must begin weak, and grow while the rates fall.
RECIPES = {
    1: (
        SettlingOptions(beta=0.98),
        LearningOptions(epochs=40, batch_size=20, learning_rate=(0.00015,), decay=0.95),
    ),
    2: (
        SettlingOptions(nudge="asymmetric", growth=1.065),
        LearningOptions(epochs=27, batch_size=50, learning_rate=(0.0005,), decay=0.87),
    ),
    3: (
        SettlingOptions(nudge="asymmetric", beta=1.0),
        LearningOptions(epochs=36, batch_size=50, learning_rate=(0.0005,), decay=0.9),
    ),
}


def fast(net: Net, seed: int = 0) -> Trial:
    """The same networks, settling as in `eqprop train`, with more and smaller updates, until all is learned."""
    dataset, depth = NETS[net]
    settling, learning = RECIPES[depth]
    experiment = Experiment(
        dataset,
        network=NetworkOptions(hidden=TABLE_2[depth].hidden),
        settling=settling,
        learning=replace(learning, changes=True, seed=seed),
    )
    return Trial(_folder(net, seed), net, experiment)


def shortened(trial: Trial, epochs: int | None, train: int | None, valid: int | None) -> Trial:
    """The trial with fewer (or more) epochs or examples, where given."""
    asked = {"epochs": epochs, "train": train, "valid": valid}
    learning = replace(trial.experiment.learning, **{k: n for k, n in asked.items() if n is not None})
    return replace(trial, experiment=replace(trial.experiment, learning=learning))


def _folder(net: Net, seed: int) -> str:
    dataset, depth = NETS[net]
    return f"{dataset}-{depth}-hidden{'-accelerated' if net.endswith('-accelerated') else ''}-seed{seed}"
