"""Training a device on the digits, by settings that are kept in the folder of the run."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from math import inf
from typing import Any

import jax
import optax

from eqprop import data
from eqprop.bench.loop import fit, measure
from eqprop.bench.session import Session
from eqprop.bench.setups import Setup, setup
from eqprop.bench.system import trainer
from eqprop.errors import InputError
from eqprop.nudge import Symmetric
from eqprop.store import Run
from eqprop.store.run import UNIT
from eqprop.store.schema import from_dict
from eqprop.train import Feed, Progress, Shuffled


@dataclass(frozen=True)
class Recipe:
    """How a device is trained: by Adam, whose rate falls by a cosine to a tenth, and a symmetric nudge."""

    device: str = "simulated"
    epochs: int = 50
    """passes over the training examples"""
    batch_size: int = 32
    """examples in a minibatch"""
    beta: float = 5.0
    """how hard the outputs are pushed, in the unit of the device; `eqprop bench check` tells which is good"""
    learning_rate: float = 0.01
    """the largest step of a parameter, as a part of its range"""
    repeats: int = 1
    """settlings whose mean is taken for one: 4 have half the noise of a single one"""
    seed: int = 0
    """for the initial parameters, the order of the examples and the faults of a simulated bench"""
    train: int | None = None
    """train on this many examples only; None: all"""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "repeats", "train"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise InputError(f"{name}={value!r}: give a positive whole number")
        for name in ("learning_rate", "beta"):
            if not 0 < getattr(self, name) < inf:
                raise InputError(f"{name}={getattr(self, name)!r}: give a positive number")

    @classmethod
    def of(cls, run: Run) -> "Recipe":
        """That of a run which was begun by it."""
        config, names = run.config, {field.name for field in fields(cls)}
        if not isinstance(config, dict) or config.keys() != names:
            raise InputError(f"{run.folder} was not begun by `eqprop bench train`, or by another version: begin anew")
        return from_dict(cls, config, f"{run.folder / 'config.json'}: the settings")

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def carry_out(
        self,
        run: Run,
        *,
        timeout: float = 60.0,
        retries: int = 3,
        checkpoint_seconds: float = 10.0,
        values: bool = True,
        observe: Callable[[Progress], None] = lambda _: None,
    ) -> dict[str, Any]:
        """Train from where the run was left, and return the errors in percent; they are in its result.json as well."""
        made, digits = setup(self.device, self.seed), data.load("digits")
        feed = self.feed(digits)
        log = run.folder / "readings.jsonl"
        with Session(
            made.device, log=log, timeout=timeout, retries=retries, repeats=self.repeats, values=values
        ) as session:
            check_digits(session)
            ready = trainer(
                session,
                made.F,
                optax.adam(self.rates(made, session, feed)),
                Symmetric(self.beta),
                metrics={"error": made.F.cost.misclassified},
            )
            state = ready.init(made.theta, feed, jax.random.key(self.seed))
            state, history = fit(
                ready,
                state,
                feed,
                epochs=self.epochs,
                run=run,
                valid=digits.valid.v,
                checkpoint_seconds=checkpoint_seconds,
                observe=observe,
            )
            parts = {"train": digits.train, "valid": digits.valid, "test": digits.test}
            errors = {k: measure(ready, state.theta, split.v)["error"] for k, split in parts.items()}
        result = {"dataset": "digits", "net": self.device, "epochs": self.epochs, "seed": self.seed}
        result |= {f"{part}_error": round(error, 6) for part, error in errors.items()} | UNIT
        result |= {name: sum(int(record[name]) for record in history) for name in ("repeated", "skipped")}
        result |= {"seconds": round(sum(record["seconds"] for record in history), 1), "run_dir": str(run.folder)}
        run.write_result(result)
        return result

    def feed(self, digits: data.Dataset) -> Feed:
        """The training examples, in another order in each epoch."""
        if self.train is not None and self.train > len(digits.train):
            raise InputError(f"train={self.train}: there are {len(digits.train)} training examples")
        return Shuffled(jax.tree.map(lambda a: a[: self.train], digits.train.v), self.batch_size)

    def rates(self, made: Setup, session: Session, feed: Feed) -> optax.Schedule:
        """The rate of each minibatch."""
        largest = self.learning_rate * session.description.theta_range.width
        return optax.cosine_decay_schedule(largest, self.epochs * feed.batches, 0.1)


def check_digits(session: Session) -> None:
    """Refuse a device that the digits do not fit."""
    about = session.description
    if tuple(about.inputs) != (64,) or tuple(about.readings[about.output]) != (10,):
        sizes = f"{tuple(about.inputs)} inputs and {tuple(about.readings[about.output])} outputs"
        raise InputError(
            f"the {about.name} has {sizes}, and the digits 64 and 10: train it with eqprop.bench.fit in Python"
        )
