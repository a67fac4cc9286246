"""Watching over the other processes: when one is lost, the rest would wait for it for ever."""

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Self

import jax
import numpy as np
from jax.experimental import multihost_utils

from eqprop.cluster.joining import Place
from eqprop.errors import InputError

BEAT = 1.0
"""Seconds between two signs of life."""
SILENCE = 30.0
"""Seconds without one after which a process is lost; one that ends closes its lines at once, but a machine that is gone
does not."""
GRACE = 2.0
"""Seconds in which a process may say itself why it ends, after another has ended by an error that all may have."""
ALIVE, DONE, FAILED = b".", b"!", b"?"


class Watch:
    """A context in which each process has an open line to the first, and `lost` is called when one breaks.

    The first process listens at a port of its own, of which it tells the others through JAX. A line that is closed
    without leave means that the process has ended, one that stays silent that its machine or the network has. The first
    process then tells all others. `lost(sentence)` is called by a thread, as the main one may wait for the lost process
    inside of a computation; after it, this process ends with `status`.
    """

    def __init__(self, place: Place, lost: Callable[[str], None], status: int = 4):
        self.place, self.lost, self.status = place, lost, status
        self.over = threading.Event()
        self.lines: dict[socket.socket, int] = {}
        self.listener = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Self:
        try:
            self._connect()
        except (jax.errors.JaxRuntimeError, OSError) as error:
            raise InputError(
                f"process {self.place.process} of {self.place.processes} cannot reach the others: {error}; see whether "
                "all are running, and whether a firewall lets them talk to each other"
            ) from error
        self.listener.start()
        return self

    def _connect(self) -> None:
        server = None
        if self.place.process == 0:
            server = socket.create_server(("", 0), backlog=self.place.processes)
        port = int(multihost_utils.broadcast_one_to_all(np.int32(server.getsockname()[1] if server else 0)))
        if server is None:
            line = socket.create_connection((self.place.host, port), timeout=SILENCE)
            line.sendall(self.place.process.to_bytes(4, "big"))
            self.lines[line] = 0
        else:
            server.settimeout(SILENCE)
            with server:
                for _ in range(self.place.processes - 1):
                    line, _ = server.accept()
                    self.lines[line] = int.from_bytes(line.recv(4, socket.MSG_WAITALL), "big")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Take leave: the first process goes last, as JAX's service is there."""
        if kind is not None and issubclass(kind, jax.errors.JaxRuntimeError):
            self.listener.join(SILENCE + GRACE)  # most likely another is lost: who, is known in a moment
        if kind is None and self.place.process == 0:
            self.listener.join(SILENCE)
        self.over.set()
        if kind is None:
            jax.distributed.shutdown()
        self._say(FAILED if kind else DONE)
        self._hang_up()

    def _say(self, word: bytes) -> None:
        for line in list(self.lines):
            with contextlib.suppress(OSError):  # whoever reads from it will notice
                line.sendall(word)

    def _hang_up(self) -> None:
        for line in list(self.lines):
            line.close()

    def _listen(self) -> None:
        heard, said = dict.fromkeys(self.lines, time.monotonic()), 0.0
        while self.lines and not self.over.is_set():
            if time.monotonic() - said >= BEAT:
                self._say(ALIVE)
                said = time.monotonic()
            try:
                ready = select.select(list(self.lines), [], [], BEAT)[0]
            except (OSError, ValueError):  # closed by this process itself, which takes leave
                return
            for line in ready:
                reason = self._hear(line)
                heard[line] = time.monotonic()
                if reason:
                    return self._stop(reason)
            for line, process in self.lines.items():
                if time.monotonic() - heard[line] > SILENCE:
                    return self._stop(f"process {process} of {self.place.processes} gave no sign for {SILENCE:.0f} s")

    def _hear(self, line: socket.socket) -> str | None:
        """Why this process must stop, if what is heard on a line says so."""
        try:
            words = line.recv(4096)
        except OSError:
            words = b""
        who = f"process {self.lines[line]} of {self.place.processes}"
        if not words:
            return f"{who} has died"
        if FAILED in words:
            return None if self.over.wait(GRACE) else f"{who} has stopped by an error"
        if DONE in words:
            del self.lines[line]
        return words.strip(ALIVE + DONE).decode() or None

    def _stop(self, reason: str) -> None:
        if not self.over.is_set():
            self._say(reason.encode())
            self.lost(reason)
            if self.place.process == 0:
                self._wait_for_the_others()
            os._exit(self.status)

    def _wait_for_the_others(self) -> None:
        """Let them speak first: JAX's service ends with this process, and aborts those who still listen to it."""
        until = time.monotonic() + GRACE
        for line in self.lines:
            with contextlib.suppress(OSError):
                while (left := until - time.monotonic()) > 0:
                    line.settimeout(left)
                    if not line.recv(4096):
                        break
