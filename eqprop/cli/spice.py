"""`eqprop spice`: a trained circuit as a netlist, and its voltages beside those of ngspice."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import tyro

from eqprop import data, spice
from eqprop.cli.console import out, print_json, screen
from eqprop.errors import InputError
from eqprop.store import Run
from eqprop.store.atomic import write_atomic
from eqprop.study import experiment_of, weights_of


@dataclass(frozen=True)
class Spice:
    """Write a trained circuit as a SPICE netlist for one example, and compare its voltages with those of ngspice."""

    run_dir: tyro.conf.Positional[Path]
    """the folder of a run of `eqprop train --net resistive`"""
    example: int = 0
    """which of the test examples, counted from 0"""
    beta: float = 0.0
    """strength of the nudge towards the example's target; 0: none"""
    netlist: Path | None = None
    """file for the netlist; None: circuit.cir in the folder of the run"""
    timeout: float = 60.0
    """seconds to wait for ngspice"""
    data_dir: Path | None = None
    """folder with the data set's own files; None: the cache, filled from public sources"""
    json: bool = False
    """print the result as one JSON object, the last line of stdout"""

    def run(self) -> None:
        run = Run.open(self.run_dir)
        experiment = experiment_of(run)
        if not experiment.resists:
            kind = experiment.network.architecture
            raise InputError(f"{self.run_dir} has a {kind} network, no circuit: train one with --net resistive")
        if self.beta and experiment.cost.cost != "squared":
            raise InputError(f"beta={self.beta}: a nudge by {experiment.cost.cost} is no source of SPICE; leave it out")
        setup = experiment.build(data.load(experiment.dataset, self.data_dir, experiment.learning.valid, screen.print))
        test = setup.data.test
        if not 0 <= self.example < len(test):
            raise InputError(f"example={self.example}: give a number from 0 to {len(test) - 1}")
        theta, _ = weights_of(setup, run)
        v = jax.tree.map(lambda a: a[self.example : self.example + 1], test.v)
        path = self.netlist or run.folder / "circuit.cir"
        text = spice.netlist(setup.trainer.F, theta, jax.tree.map(lambda a: a[0], v), self.beta)
        write_atomic(path, text.encode())
        result: dict[str, Any] = {
            "netlist": str(path),
            "example": self.example,
            "label": int(test.labels[self.example]),
        }
        betas = (0.0, self.beta) if self.beta else (0.0,)
        found = None
        if spice.installed():
            found = spice.compare(setup.trainer.F, theta, v, betas, timeout=self.timeout)
            result |= {"betas": found.betas, "differences": found.differences, "largest": found.largest}
            result["output"] = [each["output"][0].tolist() for each in found.ngspice]
        if self.json:
            print_json(result)
            return
        lines = [f"{path}: test example {self.example}, a {result['label']}"]
        if found is None:
            lines += ["ngspice is not installed, so there is nothing to compare: apt-get install ngspice"]
        else:
            for beta, each in zip(betas, found.ngspice, strict=True):
                volts = " ".join(f"{u:.3f}" for u in each["output"][0])
                lines += [f"outputs by ngspice at β = {beta:g}: {volts} V"]
            lines += [str(found)]
        out.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)
