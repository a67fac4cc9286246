"""Analog hardware: a circuit settles where the library says it does."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from eqprop.cost import SquaredError
from eqprop.energy import Resistive, Shockley
from eqprop.spice import STEEP, compare, installed
from eqprop.spice.comparison import Comparison
from eqprop.total import Total
from eqprop.verification.base import Claim, Finding, Subject, at_most, near
from eqprop.verification.calculus import unit

IDEALITIES = (1e-4, 1e-5, 1e-6)
"""Idealities of the diodes that stand for ideal ones."""


@dataclass(frozen=True)
class Circuit(Claim):
    """−∂F/∂v = 0 is Kirchhoff's current law: ngspice finds the same voltages, free and nudged   (section 3).

    The nudge is a current β (target − voltage) into each output, with either sign of β. Ideal diodes have no law that
    SPICE could solve: steep ones stand for them, and the difference falls as their ideality does. Where ngspice is not
    installed, the claim is skipped, and says so.

    limit: the largest difference in volts.
    """

    name: ClassVar[str] = "circuit"
    section: ClassVar[str] = "3"
    limit: float = 1e-8

    def applies(self, subject: Subject) -> bool:
        """To resistive networks with the squared error."""
        F = subject.F
        return F.offer(Resistive) is not None and isinstance(F, Total) and isinstance(F.cost, SquaredError)

    def check(self, subject: Subject) -> Finding:
        if not installed():
            return Finding(
                self, subject.name, (), skipped="not compared: ngspice is not installed (apt-get install ngspice)"
            )
        net: Any = subject.F.offer(Resistive)
        advice = "do θ, the input, the diodes and the nudge mean the same in E as in the netlist of eqprop.spice?"
        if net.diodes and net.diode is None:
            errors = [self.compared(subject, Shockley(1e-12, ideality)).largest for ideality in IDEALITIES]
            slope = float(np.polyfit(np.log(IDEALITIES), np.log(errors), 1)[0])
            return self.found(
                subject,
                [
                    at_most(
                        f"largest difference in volts, diodes of ideality {IDEALITIES[-1]:g}", errors[-1], 1e-6, advice
                    ),
                    near("its order in the ideality", slope, 1, 0.05, advice),
                ],
            )
        found = self.compared(subject)
        pairs = zip(found.betas, found.differences, strict=True)
        return self.found(
            subject,
            [
                at_most(f"largest difference in volts, β = {beta:.2g}", max(each.values()), self.limit, advice)
                for beta, each in pairs
            ],
        )

    def compared(self, subject: Subject, ideal: Shockley = STEEP) -> Comparison:
        """The library's voltages, which the subject's own relaxation finds, beside ngspice's."""
        beta = 0.1 * unit(subject)
        given = (subject.F, subject.theta, subject.v, (0.0, beta, -beta))
        return compare(*given, relaxation=subject.rule.nudged, ideal=ideal)
