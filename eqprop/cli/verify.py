"""`eqprop verify`: the paper's theorems and propositions, checked on networks of every kind."""

import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from eqprop.cli.console import out, print_json, screen
from eqprop.cli.folders import make_folder
from eqprop.compile import compile_quickly
from eqprop.errors import InputError
from eqprop.progress import CountBar

NUMBERS = (
    "The paper counts all in one series: its Proposition 2, Theorem 4 and Proposition 6 are "
    "proposition 1, theorem 2 and proposition 2 here."
)
SHORT = ("layered", "layered, tanh", "double well", "pair of units")


@dataclass(frozen=True)
class Verify:
    """Check the paper's claims (sections 2 to 4, Appendices A to C) on networks of every kind.

    All take about five minutes on two cores. On an energy of your own: `eqprop.verify(F, theta, v, s)` in Python.
    """

    claims: tuple[str, ...] = ()
    """claims to check, by name or how it begins, in capitals or not; none: all"""
    subjects: tuple[str, ...] = ()
    """networks to check them on, by name or how it begins; none: all"""
    short: bool = False
    """two minutes of one core: a few networks only, unless named"""
    list: bool = False
    """list the claims and networks, and check nothing"""
    report: Path | None = None
    """folder for a page with every number and the figures"""
    json: bool = False
    """print the results as one JSON object, the last line of stdout"""

    def run(self) -> None:
        compile_quickly()
        from eqprop.verification import CLAIMS, SUBJECTS, verify_zoo  # takes its time to load
        from eqprop.verification.run import named

        claims = {claim.name: claim for claim in CLAIMS}
        if self.list:
            out.print("claims:", *(f"  {name} ({claims[name].place})" for name in claims), NUMBERS, sep="\n")
            out.print("networks:", *(f"  {name}" for name in SUBJECTS), sep="\n")
            return
        chosen = named("--claims", self.claims or tuple(claims), claims)
        subjects = named("--subjects", self.subjects or (SHORT if self.short else tuple(SUBJECTS)), SUBJECTS)
        if self.report is not None:
            make_folder(self.report)  # before all is checked
        began = time.monotonic()
        with CountBar("checked") as bar:
            report = verify_zoo(subjects, tuple(chosen.values()), bar.update)
        seconds = time.monotonic() - began
        if not report.findings:
            raise InputError("none of these claims says anything about these networks: name others, see --list")
        if self.report is not None:
            report.save(self.report, [shlex.join(["eqprop", *sys.argv[1:]])])
        if self.json:
            print_json(report.to_dict())
        else:
            out.print(str(report), markup=False, highlight=False, soft_wrap=True)
            out.print(f"{report.total}, in {seconds:.0f} s", markup=False, highlight=False, soft_wrap=True)
            if self.report is not None:
                out.print(f"report in {self.report / 'README.md'}", markup=False, highlight=False, soft_wrap=True)
        of_short = self.short and not self.subjects
        if (of_short or self.claims) and (silent := [name for name in chosen if name not in report.by_claim()]):
            words, names = "not checked with --short" if of_short else "not about these networks", ", ".join(silent)
            screen.print(f"{words}: {names}", markup=False, highlight=False, soft_wrap=True)
        if not report.passed:
            failed = ", ".join(f"{claim} on {subject}" for claim, subject in report.failures)
            screen.print(f"{len(report.failures)} of {len(report.findings)} do not hold: {failed}", highlight=False)
            raise SystemExit(1)
