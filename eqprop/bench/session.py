"""A session with a device: time-outs, retries, checks of all that it gives, a log, and a safe end."""

import contextlib
import signal
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import jax
import numpy as np

from eqprop.bench.calls import Calls, HangsError, begin
from eqprop.bench.device import Description, Device, Drive, Readings, Settled
from eqprop.bench.faults import DeviceError, RefusedError
from eqprop.bench.log import Log, packed
from eqprop.boundary import require_whole
from eqprop.errors import InputError
from eqprop.tree import named
from eqprop.types import Theta

ENOUGH = 4
"""Examples that push at an output without moving it, by which it is taken to be stuck."""


class Session:
    """A device between `with` and its end. All that is asked of it goes through here.

        with Session(device, log="readings.jsonl") as session:
            session.write(theta)
            readings = session.settle(x)

    However the block ends, by an error, an interrupt or SIGTERM, the device is put into its safe state. (Against
    SIGKILL and power cuts nothing helps but a watchdog in the device.)

    log: a file that every reading is added to, good or not; None: none is kept.
    timeout: seconds after which a call is given up.
    retries: how often a call is repeated that failed, hung, or gave what cannot be used.
    repeats: readings whose mean is taken for one.
    stale: refuse a reading that repeats the one before bit for bit, although what drives the device has changed, and
        one in which a pushed output did not move at all. A device of few bits and no noise may need False.
    values: whether the log has all numbers; if not, only how each reading went.
    """

    def __init__(
        self,
        device: Device,
        *,
        log: str | Path | None = None,
        timeout: float = 60.0,
        retries: int = 3,
        repeats: int = 1,
        stale: bool = True,
        values: bool = True,
    ):
        if not isinstance(device, Device):
            raise InputError(f"device={device!r} is no device: subclass eqprop.bench.Device")
        require_whole(0, retries=retries)
        require_whole(1, repeats=repeats)
        if not 0 < timeout <= threading.TIMEOUT_MAX:
            raise InputError(f"timeout={timeout!r}: give a positive number of seconds")
        self.device, self.timeout, self.retries, self.repeats = device, timeout, retries, repeats
        self.stale, self.values = stale, values
        self.reached: Theta = None
        """θ as the device read it back."""
        self.refused = 0
        """How many answers could not be used so far."""
        self.seconds: list[float] = []
        """How long the device said that each settling took."""
        self._path, self._log = log, None
        self._calls = Calls()
        self._description: Description | None = None
        self._wish: dict[str, np.ndarray] | None = None
        self._last: tuple[Any, bytes] | None = None
        self._free: tuple[int, Readings] | None = None
        self._count = 0
        self._handler: Any = None

    # ---- its beginning and its end ----

    def __enter__(self) -> Self:
        if self._description is not None:
            raise InputError("the session is open already: make another")
        self._log = None if self._path is None else Log(self._path)
        try:
            about: Description = self._ask("describe", self.device.describe, _no_description)
            self._description = about
            self.note(event="session", device=about.name, time=time.time())
            if threading.current_thread() is threading.main_thread():
                self._handler = signal.signal(signal.SIGTERM, _terminated)
        except BaseException as error:
            self._end(error)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        """Whatever happened, make the device safe; if that fails, say so loudly."""
        self._calls.wait(min(self.timeout, 1.0))  # a call that is about to return may do so
        thread, outcome = begin(self.device.safe)
        thread.join(self.timeout)
        why = "it did not answer" if thread.is_alive() else outcome[0][1]
        if self._handler is not None:
            signal.signal(signal.SIGTERM, self._handler)
            self._handler = None
        self._description = None
        with contextlib.suppress(OSError):  # a full disk must not hide what happened
            self.note(
                event="end", error=None if error is None else f"{type(error).__name__}: {error}", safe=why is None
            )
        if self._log is not None:
            self._log.close()
            self._log = None
        if why is not None:
            warning = f"the device could not be made safe ({why}): switch it off by hand"
            if error is None:
                raise DeviceError(warning)
            error.add_note(warning)

    @property
    def description(self) -> Description:
        """What the device says of itself."""
        if self._description is None:
            raise InputError("the session is not open: use it as `with Session(device) as session:`")
        return self._description

    @property
    def count(self) -> int:
        """How many answers it has had so far, good or not: the number `n` of the next in the log."""
        return self._count

    def note(self, **entry: Any) -> None:
        """Add a line to the log."""
        if self._log is not None:
            self._log.write(entry)

    def sync(self) -> None:
        """Let the log survive a power cut."""
        if self._log is not None:
            self._log.sync()

    # ---- what is asked of the device ----

    def write(self, theta: Theta) -> Theta:
        """Set θ, and return what was reached; a θ that is set already is not written again."""
        wish = {name: np.asarray(leaf) for name, leaf in named(theta).items()}
        if self.holds(theta):
            return self.reached
        self._check_theta(wish)
        own = jax.tree.map(lambda leaf: np.array(leaf), theta)  # the device may change it
        self._wish = None  # until it is known to be there
        self.reached = self._ask("write", lambda: self.device.write(own), self._bad_theta)
        self._wish = {name: leaf.copy() for name, leaf in wish.items()}
        return self.reached

    def holds(self, theta: Theta) -> bool:
        """Whether this θ is what was written last."""
        wish = named(theta)
        return (
            self._wish is not None
            and wish.keys() == self._wish.keys()
            and all(np.array_equal(np.asarray(leaf), self._wish[name]) for name, leaf in wish.items())
        )

    def assume(self, theta: Theta, reached: Theta) -> None:
        """Take θ as written, and this as reached: for a device that has recalled its memory."""
        self._wish = {name: np.array(leaf) for name, leaf in named(theta).items()}
        self.reached = reached

    def settle(self, x: Any, drive: Drive | None = None) -> Readings:
        """The readings of a batch, each the mean of `repeats`; refused ones are tried again, then told by an error."""
        x = np.asarray(x)
        self._check_drive(x, drive)
        most = self.description.batch or max(len(x), 1)
        slices = [slice(first, first + most) for first in range(0, len(x), most)]
        total: Readings = {}
        for _ in range(self.repeats):
            parts = [self._settle(x[rows], _rows(drive, rows)) for rows in slices]
            whole = {layer: np.concatenate([part[layer] for part in parts]) for layer in self.description.readings}
            self._check_moved(x, drive, whole)
            total = whole if not total else {layer: total[layer] + u for layer, u in whole.items()}
        mean = {layer: u / self.repeats for layer, u in total.items()}
        if drive is None:
            self._free = (_sum(x), mean)
        return mean

    def _settle(self, x: np.ndarray, drive: Drive | None) -> Readings:
        key = (_sum(x), None if drive is None else (drive.kind, drive.beta, tuple(map(_sum, drive.values.values()))))
        told = {"x": key[0], "drive": None if drive is None else [drive.kind, float(drive.beta)]}

        def bad(settled: Any) -> str:
            return self._bad_settling(settled, len(x), key)

        settled = self._ask("settle", lambda: self.device.settle(x, drive), bad, told)
        readings = {layer: np.array(settled.readings[layer], np.float32) for layer in self.description.readings}
        self._last = (key, _bytes(readings))
        self.seconds.append(float(settled.seconds))
        return readings

    def _ask(self, what: str, act: Callable[[], Any], bad: Callable[[Any], str], told: Any = None) -> Any:
        """What the device answers, if that is good; else it is asked again, and in the end given up."""
        reason, hangs = "", False
        for trial in range(self.retries + 1):
            answer, hangs = None, False
            began = time.monotonic()
            try:
                answer = self._calls(what, self.timeout, act)
                reason = bad(answer)
            except InputError:  # the caller's to mend
                raise
            except HangsError as error:
                reason, hangs = str(error), True
            except Exception as error:  # whatever a driver may raise
                reason = f"{type(error).__name__}: {error}"
            entry: dict[str, Any] = {"event": what, "n": self._count, "ok": not reason, "trial": trial} | (told or {})
            entry["took"] = round(time.monotonic() - began, 6)
            if reason:
                entry["reason"] = reason
                self.refused += 1
            if isinstance(answer, Settled) and self.values and (data := _arrays(answer.readings)):
                entry["readings"] = packed(data)
            self._count += 1
            self.note(**entry)
            if not reason:
                return answer
        tried = f"{what}: tried {self.retries + 1} times, last: {reason}"
        if hangs and not self._calls.wait(0):
            raise DeviceError(f"the device does not answer any more ({tried}): look after it, and go on with the run")
        raise RefusedError(tried)

    # ---- what is refused ----

    def _bad_settling(self, settled: Any, examples: int, key: Any) -> str:
        if not isinstance(settled, Settled):
            return f"settle returned {type(settled).__name__} instead of a Settled"
        if not settled.ok:
            return settled.reason or "the device says that it did not settle"
        about = self.description
        for layer, shape in about.readings.items():
            if layer not in settled.readings:
                return f"no reading of layer {layer!r}"
            u = np.asarray(settled.readings[layer])
            if u.shape != (examples, *shape):
                return f"layer {layer!r} was read with the shape {u.shape} instead of {(examples, *shape)}"
            if u.dtype.kind not in "fiu":
                return f"layer {layer!r} was read as {u.dtype}, which are no real numbers"
            if not np.isfinite(u).all():
                return f"layer {layer!r} has readings that are not finite"
            if not about.reading_ranges[layer].holds(u):
                return f"layer {layer!r} was read from {u.min():g} to {u.max():g}, beyond {about.reading_ranges[layer]}"
        readings = {layer: np.asarray(settled.readings[layer], np.float32) for layer in about.readings}
        if self.stale and self._last is not None and key != self._last[0] and _bytes(readings) == self._last[1]:
            return "the reading repeats the one before, bit for bit, although what drives the device has changed"
        return ""

    def _check_moved(self, x: np.ndarray, drive: Drive | None, readings: Readings) -> None:
        """Refuse readings in which a pushed output stayed just where it was without a push."""
        if not self.stale or drive is None or drive.kind == "clamp" or self._free is None or self._free[0] != _sum(x):
            return
        for layer, pushed in drive.values.items():
            free = self._free[1][layer]
            pushes = pushed != (free if drive.kind == "spring" else 0)
            still = np.all((readings[layer] == free) | ~pushes, axis=0) & (pushes.sum(axis=0) >= ENOUGH)
            if still.any():
                self.refused += 1
                node = tuple(map(int, np.argwhere(still)[0]))
                reason = f"node {node} of layer {layer!r} did not move at all when it was pushed: is it stuck?"
                self.note(event="refused", before=self._count, reason=reason)
                raise RefusedError(reason)

    def _bad_theta(self, reached: Any) -> str:
        about = self.description
        try:
            found = {name: np.asarray(leaf) for name, leaf in named(reached).items()}
        except (TypeError, ValueError) as error:
            return f"write returned what is no tree of arrays ({error})"
        if odd := sorted(found.keys() ^ about.theta.keys()):
            return f"write returned {sorted(found)}: {odd[0]!r} is unknown or missing"
        for name, shape in about.theta.items():
            if found[name].shape != tuple(shape):
                return f"{name!r} was read back with the shape {found[name].shape} instead of {tuple(shape)}"
            if not np.isfinite(found[name]).all():
                return f"{name!r} was read back with values that are not finite"
            if not about.theta_range.holds(found[name]):
                ends = f"{found[name].min():g} to {found[name].max():g}"
                return f"{name!r} was read back from {ends}, beyond {about.theta_range}"
        return ""

    # ---- what the caller is told ----

    def _check_theta(self, wish: Mapping[str, np.ndarray]) -> None:
        about = self.description
        if odd := sorted(wish.keys() ^ about.theta.keys()):
            raise InputError(f"theta has {sorted(wish)}, and the {about.name} {sorted(about.theta)}: mind {odd[0]!r}")
        for name, leaf in wish.items():
            if leaf.shape != tuple(about.theta[name]):
                raise InputError(f"theta of {name!r} has the shape {leaf.shape} instead of {tuple(about.theta[name])}")
            if not about.theta_range.holds(leaf):  # nor is what is not finite
                raise InputError(
                    f"theta of {name!r} goes from {leaf.min():g} to {leaf.max():g}, and the {about.name} from "
                    f"{about.theta_range}: clip it"
                )

    def _check_drive(self, x: np.ndarray, drive: Drive | None) -> None:
        about = self.description
        if x.shape[1:] != tuple(about.inputs):
            raise InputError(f"inputs of shape {x.shape[1:]} do not fit the {about.name}, which takes {about.inputs}")
        if not about.input_range.holds(x):
            ends = f"{np.min(x):g} to {np.max(x):g}"
            raise InputError(
                f"inputs go from {ends}, and those of the {about.name} from {about.input_range}: scale them"
            )
        if drive is None:
            return
        if drive.kind not in about.nudges:
            able = ", ".join(about.nudges) or "nothing"
            raise InputError(f"the {about.name} cannot do a {drive.kind!r}: it can do {able}")
        limit = about.nudges[drive.kind]
        if not 0 < abs(drive.beta) <= limit.beta:
            raise InputError(f"beta={drive.beta!r}: the {about.name} goes up to {limit.beta:g}, and needs more than 0")
        for layer, values in drive.values.items():
            if not limit.values.holds(values):
                raise InputError(
                    f"a {drive.kind} of up to {np.max(np.abs(values)):g} at layer {layer!r} is beyond {limit.values}, "
                    f"the range of the {about.name}: take a smaller β than {drive.beta:g}, or targets that are nearer"
                )


def _terminated(*_: Any) -> None:
    raise KeyboardInterrupt("terminated")


def _no_description(answer: Any) -> str:
    return "" if isinstance(answer, Description) else f"describe returned {type(answer).__name__}, no Description"


def _rows(drive: Drive | None, rows: slice) -> Drive | None:
    if drive is None:
        return None
    return drive._replace(values={layer: np.asarray(values)[rows] for layer, values in drive.values.items()})


def _sum(array: Any) -> int:
    return zlib.crc32(np.ascontiguousarray(array).tobytes())


def _bytes(readings: Mapping[str, np.ndarray]) -> bytes:
    return b"".join(np.ascontiguousarray(u).tobytes() for u in readings.values())


def _arrays(readings: Any) -> Readings:
    """What of the readings can be kept, however wrong it is."""
    if not isinstance(readings, Mapping):
        return {}
    kept = {str(layer): np.asarray(u) for layer, u in readings.items()}
    return {layer: u for layer, u in kept.items() if u.dtype.kind in "fiu"}
