"""Workers of a sweep: any number of processes, on any machines that see its folder, take trials and train them.

Optuna keeps what was tried and chooses what comes next. That a trial is being trained shows in a lock of the operating
system, which a process that dies cannot keep: whoever finds a trial without one goes on with it, from the checkpoint in
its run folder. So a trial keeps its number whoever trains it, and is told once.

    sweep.json     the settings
    journal.log    what Optuna keeps, a line of JSON for each event, unless that is a database
    locks/         a file for each trial, and one for the choice of the next
    trials/        a run folder for each trial
    README.md      the report, with its pictures
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from eqprop.data import Dataset
from eqprop.errors import DivergedError, InputError
from eqprop.store.run import Record
from eqprop.study.experiment import Experiment
from eqprop.study.sweep import Sweep, Values
from eqprop.study.training import perform, reopen
from eqprop.study.varied import Choice
from eqprop.train import Progress

try:
    import optuna
    from filelock import FileLock, Timeout
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock, JournalStorage
    from optuna.trial import FrozenTrial, Trial, TrialState
except ImportError as error:
    raise InputError(
        f"a sweep needs Optuna ({error}): pip install 'eqprop[sweep]', or in a clone '.[sweep]'"
    ) from error

optuna.logging.set_verbosity(optuna.logging.WARNING)
POLL = 1.0  # seconds between two looks at trials that other processes train

Follow = Callable[[int, Experiment, int], AbstractContextManager[Callable[[Progress], None]]]
"""(trial, experiment, minibatches of an epoch) → what surrounds its training, and is told about its progress."""


class Tried(NamedTuple):
    """A trial that has begun, as the report has it.

    state: running, done, pruned, diverged or refused.
    error: the validation error in percent; of a pruned trial, that of its last epoch; None if there is none.
    why: the sentence with which it diverged or was refused.
    """

    number: int
    state: str
    values: Values
    error: float | None
    test_error: float | None
    epochs: int
    why: str


class Workshop:
    """The folder of a sweep, as one worker sees it."""

    def __init__(self, folder: Path, sweep: Sweep):
        self.folder, self.sweep = folder, sweep
        (folder / "locks").mkdir(parents=True, exist_ok=True)
        self.alone = FileLock(folder / "locks" / "next")  # held while a trial is chosen, or the report written
        with self.alone:
            self.study = optuna.create_study(
                study_name=sweep.name,
                storage=_storage(folder, sweep.storage),
                pruner=_pruner(sweep),
                load_if_exists=True,
            )

    def work(
        self,
        data: Dataset,
        *,
        checkpoint_seconds: float | None = None,
        follow: Follow = lambda *_: nullcontext(lambda _: None),
        after: Callable[[], None] = lambda: None,
        wait: Callable[[list[int]], None] = lambda _: None,
    ) -> None:
        """Train trials until all are told; call `after` when one is, and `wait` while only others are at work."""
        data = data if self.sweep.test else replace(data, test=data.test[:0])
        while (begun := [trial.number for trial in self._unfinished()]) or self._left():
            with self._claim() as trial:
                if trial is not None:
                    self._train(trial, data, checkpoint_seconds, follow)
            if trial is None:
                wait(begun)
                time.sleep(POLL)
                continue
            with self.alone:
                after()

    def tried(self) -> list[Tried]:
        """All trials that have begun."""
        return [self._seen(trial) for trial in self.study.get_trials(deepcopy=False) if self._complete(trial)]

    def run_folder(self, number: int) -> Path:
        """Where a trial is trained."""
        return self.folder / "trials" / f"{number:04d}"

    @contextmanager
    def _claim(self) -> Iterator[Trial | None]:
        """A trial that nobody else trains, for as long as this goes on: one that was left, or a new one."""
        with self.alone:
            trial, lock = self._free_trial()
        try:
            yield trial
        finally:
            if lock is not None:
                lock.release()

    def _free_trial(self) -> tuple[Trial | None, FileLock | None]:
        for frozen in self._unfinished():
            lock = self._lock(frozen.number)
            try:
                lock.acquire(blocking=False)
            except Timeout:
                continue
            self.study.sampler = self._sampler(frozen.number)
            return self._suggested(Trial(self.study, frozen._trial_id)), lock
        if not self._left():
            return None, None
        number = len(self.study.get_trials(deepcopy=False))
        waiting = self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
        if self.sweep.search == "grid" and not waiting:
            self.study.enqueue_trial(self.sweep.combination(number))
        self.study.sampler = self._sampler(number)
        trial = self.study.ask()
        lock = self._lock(trial.number)
        lock.acquire()
        return self._suggested(trial), lock

    def _train(self, trial: Trial, data: Dataset, checkpoint_seconds: float | None, follow: Follow) -> None:
        """Train a trial from where it was left, and tell what came of it."""
        values = self.sweep.values(trial.params)

        def enough(history: list[Record]) -> bool:
            known = self._stored(trial).intermediate_values
            for record in history:
                if record["epoch"] not in known:  # a trial that goes on meets epochs again that were told already
                    trial.report(100 * record["valid_error"], int(record["epoch"]))
            return bool(history) and history[-1]["epoch"] < epochs and trial.should_prune()

        try:
            experiment = self.sweep.experiment(values)
            setup = experiment.build(data)
        except InputError as error:  # each value will do, but not beside the others
            return self._tell(trial, None, "refused", why=str(error))
        epochs = experiment.learning.epochs
        run = reopen(self.run_folder(trial.number), experiment)
        try:
            with follow(trial.number, experiment, setup.feed.batches) as observe:
                trained = perform(setup, run, checkpoint_seconds=checkpoint_seconds, enough=enough, observe=observe)
        except DivergedError as error:
            return self._tell(trial, None, "diverged", why=str(error))
        percent = {part: _percent(trained.result[f"{part}_error"]) for part in ("valid", "test")}
        pruned = trained.result["epochs"] < epochs
        self._tell(trial, percent["valid"], "pruned" if pruned else "done", test_error=percent["test"])

    def _tell(self, trial: Trial, error: float | None, kind: str, **notes: Any) -> None:
        """Let the search know. What is not done counts as worse than all that is."""
        for name, value in {"kind": kind, **notes}.items():
            trial.set_user_attr(name, value)
        if kind == "done":
            self.study.tell(trial.number, error)
        else:
            self.study.tell(trial.number, state=TrialState.PRUNED)

    def _suggested(self, trial: Trial) -> Trial:
        """The trial with a value for all that is varied; those that it has already stay."""
        for one in self.sweep.varied:
            if isinstance(one, Choice):
                trial.suggest_categorical(one.name, one.words())
            elif isinstance(one.low, int):
                trial.suggest_int(one.name, one.low, int(one.high), log=one.log)
            else:
                trial.suggest_float(one.name, one.low, one.high, log=one.log)
        return trial

    def _sampler(self, number: int) -> optuna.samplers.BaseSampler:
        """A sampler for one trial: its seed follows from the number, so that no two processes draw the same."""
        seed = (self.sweep.sweep_seed * 1_000_003 + number) % 2**32
        return (optuna.samplers.TPESampler if self.sweep.search == "tpe" else optuna.samplers.RandomSampler)(seed=seed)

    def _lock(self, number: int) -> FileLock:
        return FileLock(self.folder / "locks" / f"{number:04d}")

    def _left(self) -> bool:
        """Whether trials are still to begin."""
        begun = self.study.get_trials(deepcopy=False)
        return len(begun) < self.sweep.count or any(trial.state is TrialState.WAITING for trial in begun)

    def _unfinished(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))

    def _stored(self, trial: Trial) -> FrozenTrial:
        return self.study.get_trials(deepcopy=False)[trial.number]

    def _complete(self, trial: FrozenTrial) -> bool:
        """Whether a trial has a value for all that is varied."""
        return all(one.name in trial.params for one in self.sweep.varied)

    def _seen(self, trial: FrozenTrial) -> Tried:
        reported, notes = trial.intermediate_values, trial.user_attrs
        last = reported[max(reported)] if reported else None
        return Tried(
            trial.number,
            notes["kind"] if trial.state.is_finished() else "running",
            self.sweep.values(trial.params),
            trial.value if trial.state is TrialState.COMPLETE else last,
            notes.get("test_error"),
            max(reported, default=0),
            notes.get("why", ""),
        )


class _JournalLock(JournalFileOpenLock):
    """A lock that ends with its process, and mends what a process that died left behind.

    Optuna's own locks are files, for which others wait half a minute if their owner died. And a line that was cut off,
    by a machine that lost power, would make one unreadable line with the next.
    """

    def __init__(self, path: Path):
        super().__init__(str(path))
        self.path, self.lock = path, FileLock(path.with_name("locks") / "journal")

    def acquire(self) -> bool:
        self.lock.acquire()
        with open(self.path, "rb+") as file:
            size = file.seek(0, 2)
            start = max(0, size - 2**16)
            file.seek(start)
            tail = file.read()
            if tail and not tail.endswith(b"\n"):
                file.truncate(start + tail.rfind(b"\n") + 1)
        return True

    def release(self) -> None:
        self.lock.release()


def _storage(folder: Path, address: str | None) -> optuna.storages.BaseStorage:
    if address is None:
        path = folder / "journal.log"
        return JournalStorage(JournalFileBackend(str(path), _JournalLock(path)))
    try:
        return optuna.storages.RDBStorage(address)
    except Exception as error:  # of the many kinds that database drivers raise
        raise InputError(f"storage={address!r} cannot be opened: {error}") from error


def _pruner(sweep: Sweep) -> optuna.pruners.BasePruner:
    return {
        "median": lambda: optuna.pruners.MedianPruner(n_startup_trials=5),
        "halving": lambda: optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=4),
        "none": optuna.pruners.NopPruner,
    }["none" if sweep.search == "grid" else sweep.prune]()


def _percent(fraction: float | None) -> float | None:
    return None if fraction is None else round(100 * fraction, 4)
