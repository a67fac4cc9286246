"""ngspice in a process of its own: the voltages of a netlist, and those of a network for a batch of examples."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import numpy as np

from eqprop.energy import Shockley
from eqprop.errors import InputError
from eqprop.spice.writing import STEEP, circuit_of, netlist, node_names
from eqprop.total import TotalEnergy, system
from eqprop.types import Data, Theta

SHOWN = 12
"""How many of its last lines are shown if ngspice fails."""

CONSTANTS = """* constants
.control
set numdgt=17
print const.boltz const.echarge
.endc
.end
"""


class SpiceError(InputError):
    """ngspice is not there, or found no voltages; the message has what it said last."""


def installed() -> bool:
    """Whether there is an ngspice to ask."""
    return shutil.which("ngspice") is not None


def run(text: str, timeout: float = 60.0) -> dict[str, float]:
    """The voltages at the operating point of a netlist, by the names of its nodes.

    text: the netlist, with a line `.op`. timeout: seconds to wait for ngspice.
    """
    with TemporaryDirectory(prefix="eqprop-spice-") as folder:
        raw = Path(folder) / "out.raw"
        said = _call(text, Path(folder), ["-r", str(raw)], timeout)
        found = _voltages(raw.read_text()) if raw.exists() else {}
        if not found:
            raise SpiceError(f"ngspice found no operating point. It said last:\n{_last(said)}")
        if odd := [node for node, volts in found.items() if not np.isfinite(volts)]:
            raise SpiceError(f"ngspice gives no finite voltage for node {odd[0]!r}. It said last:\n{_last(said)}")
    return found


def solve(
    F: TotalEnergy,
    theta: Theta,
    v: tuple[Data, Data],
    beta: float = 0.0,
    *,
    currents: Mapping[str, Any] | None = None,
    ideal: Shockley = STEEP,
    timeout: float = 60.0,
) -> dict[str, np.ndarray]:
    """The voltages of each layer as ngspice finds them.

    The arguments are those of `netlist`; in v, `currents` and the result the first axis counts examples, each of which
    is a run of ngspice.
    """
    net = circuit_of(system(F))
    names = node_names(net)
    found: dict[str, list[np.ndarray]] = {layer: [] for layer in net.free}
    for k in range(len(v[0])):
        one, given = jax.tree.map(lambda a, k=k: np.asarray(a)[k], (v, currents))
        text = netlist(F, theta, one, beta, currents=given, ideal=ideal, per_kelvin=per_kelvin())
        volts = run(text, timeout)
        for layer, states in found.items():
            if loose := [name for name in names[layer] if name not in volts]:
                raise SpiceError(f"node {loose[0]!r} has no conductance above 0, so its voltage is not determined")
            states.append(np.reshape([volts[name] for name in names[layer]], net.shapes[layer]))
    return {layer: np.stack(states) for layer, states in found.items()}


@lru_cache(maxsize=1)
def per_kelvin() -> float:
    """k/q as this ngspice has it, in volts per kelvin."""
    with TemporaryDirectory(prefix="eqprop-spice-") as folder:
        said = _call(CONSTANTS, Path(folder), [], 60.0)
    values = dict(re.findall(r"const\.(\w+) = (\S+)", said))
    if values.keys() < {"boltz", "echarge"}:
        raise SpiceError(f"ngspice does not tell its constants. It said last:\n{_last(said)}")
    return float(values["boltz"]) / float(values["echarge"])


def _call(text: str, folder: Path, options: list[str], timeout: float) -> str:
    """What ngspice says to a netlist."""
    if not installed():
        raise SpiceError(
            "ngspice is not installed: on Debian and Ubuntu, apt-get install ngspice; see ngspice.sourceforge.io"
        )
    path = folder / "circuit.cir"
    path.write_text(text)
    try:
        done = subprocess.run(
            ["ngspice", "-b", *options, str(path)],
            env=os.environ | {"SPICE_ASCIIRAWFILE": "1"},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            encoding="utf-8",
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        raise SpiceError(f"ngspice took longer than timeout={timeout:g} seconds: give it more") from None
    return done.stdout


def _last(said: str) -> str:
    """The last lines that are about the circuit, and not about memory."""
    lines = [line for line in said.splitlines() if line.strip() and not re.search(r"DRAM| = .* MB|Stack = ", line)]
    return "\n".join(lines[-SHOWN:])


def _voltages(raw: str) -> dict[str, float]:
    """The voltages in a raw file of one point; none, if it has no point."""
    head, _, values = raw.partition("Values:")
    names = re.findall(r"^\s*\d+\s+(\S+)\s+(voltage|current)", head, re.MULTILINE)
    numbers = values.split()[1:]  # the first is the number of the point
    if len(numbers) != len(names):
        return {}
    found = {name: float(number) for (name, kind), number in zip(names, numbers, strict=True) if kind == "voltage"}
    return {re.sub(r"^v\((.*)\)$", r"\1", name): volts for name, volts in found.items()}
