"""Records of a training, handed to whatever keeps track of experiments."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from eqprop.errors import InputError
from eqprop.train.epochs import Progress


@runtime_checkable
class Scalars(Protocol):
    """A `SummaryWriter` of TensorBoard, from PyTorch or tensorboardX."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> Any: ...


@runtime_checkable
class Metrics(Protocol):
    """The module `mlflow`."""

    def log_metrics(self, metrics: dict[str, float], step: int) -> Any: ...


@runtime_checkable
class Log(Protocol):
    """A run of Weights & Biases, which `wandb.init` returns."""

    def log(self, data: dict[str, float], step: int) -> Any: ...


def track(sink: Any) -> Callable[[Progress], None]:
    """What `fit` takes as `observe`, so that each epoch's record goes to `sink`, under the number of the epoch.

    sink: a `SummaryWriter` (TensorBoard, tensorboardX), the run that `wandb.init` returns, the module `mlflow`, or any
        object with their method `add_scalar`, `log` or `log_metrics`. None of these libraries is needed otherwise.

        >>> class Printer:
        ...     def log(self, data, step):
        ...         print(step, data["train_cost"])
        >>> track(Printer())(Progress(None, 1, {}, 0.1, {"epoch": 1, "train_cost": 0.5}))
        1 0.5
    """
    if isinstance(sink, Scalars):

        def tell(record: dict[str, float], epoch: int) -> None:
            for name, value in record.items():
                sink.add_scalar(name, value, epoch)

    elif isinstance(sink, Metrics):

        def tell(record: dict[str, float], epoch: int) -> None:
            sink.log_metrics(record, step=epoch)

    elif isinstance(sink, Log):

        def tell(record: dict[str, float], epoch: int) -> None:
            sink.log(record, step=epoch)

    else:
        raise InputError(
            f"sink={type(sink).__name__} keeps no records: give a SummaryWriter, a run of wandb, the module mlflow, "
            "or an object with add_scalar(name, value, step), log(dict, step=…) or log_metrics(dict, step=…)"
        )

    def observe(progress: Progress) -> None:
        if progress.record:
            epoch = int(progress.record["epoch"])
            tell({name: value for name, value in progress.record.items() if name != "epoch"}, epoch)

    return observe
