"""The certificate of a device: what it is like, and which β and how many readings give which error of the gradient."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from eqprop.provenance import footer
from eqprop.store.atomic import write_atomic, write_json


class Expected(NamedTuple):
    """The error of the gradient of one minibatch, as a part of its length, at one β and with one number of readings.

    bias: since β is not small: what is left when the gradients at β and β/2 are extrapolated to 0.
    offset: since the device reads otherwise when it is pushed, even by nothing.
    noise: since it reads otherwise each time.
    """

    beta: float
    repeats: int
    bias: float
    offset: float
    noise: float

    @property
    def total(self) -> float:
        """All three, which have nothing to do with each other."""
        return (self.bias**2 + self.offset**2 + self.noise**2) ** 0.5


@dataclass(frozen=True)
class Certificate:
    """What `certify` found. `print` it for a table, `save` it as a page, ask whether the device is `fit`.

    noise, offset: of each layer, as a part of its range: how far readings scatter, and how far they move, in the root
        mean square over nodes, when the device is pushed by nothing.
    drift: how far free readings moved on in the course of the check, per settling, as a part of their range.
    settling_seconds: as the device tells; call_seconds: how long a call takes.
    write_spread, write_error: of θ, as parts of its range: how far repeated writes of the same θ scatter, and how far
        they are from what was asked for.
    linear_beta: the largest β tried at which outputs still answer in proportion, within a tenth; None: none did.
    clipped: the part of all readings that lie at an end of their range.
    dead: outputs that no push moves.
    table: the expected error of the gradient of a minibatch of `examples`.
    """

    device: str
    kind: str
    examples: int
    noise: dict[str, float]
    offset: dict[str, float]
    drift: float
    settling_seconds: float
    call_seconds: float
    write_spread: float
    write_error: float
    linear_beta: float | None
    clipped: float
    dead: tuple[str, ...]
    refused: float
    table: tuple[Expected, ...]
    wanted: float

    @property
    def best(self) -> Expected:
        """The fewest readings that give the error that is wanted, at their best β; or else the least error of all."""
        good = [row for row in self.table if row.total <= self.wanted]
        return min(good, key=lambda row: (row.repeats, row.total)) if good else min(self.table, key=lambda r: r.total)

    @property
    def problems(self) -> tuple[str, ...]:
        """Why the device is not fit, and what may help; none if it is."""
        best, found = self.best, []
        if best.total > self.wanted:
            parts = {"bias": best.bias, "offset": best.offset, "noise": best.noise}
            worst = max(parts, key=lambda name: parts[name])
            help_ = {"bias": "a smaller β", "offset": "trim the offset between the phases", "noise": "more readings"}
            found.append(
                f"no β that was tried has an error of {self.wanted:g} or less: the best is {best.total:.2g}, at β = "
                f"{best.beta:.3g} with {best.repeats} readings, mostly {worst} ({help_[worst]})"
            )
        if self.dead:
            found.append(f"no push moves {', '.join(self.dead)}: look after the wires")
        if self.clipped > 0.05:
            found.append(
                f"{self.clipped:.0%} of the readings lie at an end of their range: widen it, or lower the inputs"
            )
        if self.refused > 0.1:
            found.append(f"{self.refused:.0%} of the answers could not be used: the log has the reasons")
        return tuple(found)

    @property
    def fit(self) -> bool:
        """Whether nothing stands against training with it."""
        return not self.problems

    def __str__(self) -> str:
        return "\n".join(
            [f"{name:<28}{value}" for name, value in self._lines()] + ["", *self._rows(), "", *self._end()]
        )

    def _lines(self) -> list[tuple[str, str]]:
        def layers(parts: dict[str, float]) -> str:
            return ", ".join(f"{layer} {part:.2%}" for layer, part in parts.items()) + " of the range"

        linear = "none of those tried" if self.linear_beta is None else f"β = {self.linear_beta:.3g}"
        return [
            ("device", f"{self.device}, pushed by a {self.kind}"),
            ("noise of a reading", layers(self.noise)),
            ("offset between the phases", layers(self.offset)),
            ("drift", f"{self.drift:.2g} of the range per settling"),
            ("settling", f"{self.settling_seconds:.2g} s as it says, {self.call_seconds:.2g} s a call"),
            ("writes of one θ", f"scatter by {self.write_spread:.2%}, miss by {self.write_error:.2%} of the range"),
            ("outputs linear up to", linear),
            ("readings at an end", f"{self.clipped:.1%}"),
            ("refused", f"{self.refused:.1%} of all answers"),
        ]

    def _rows(self) -> list[str]:
        counts = sorted({row.repeats for row in self.table})
        head = "        β    bias  offset" + "".join(f"{f'{n} reading' + 's' * (n > 1):>13}" for n in counts)
        lines = [f"expected error of the gradient of {self.examples} examples:", head]
        for beta in sorted({row.beta for row in self.table}):
            some = {row.repeats: row for row in self.table if row.beta == beta}
            one = some[counts[0]]
            cells = "".join(f"{f'{some[n].total:.3f}' + (' <' if some[n] == self.best else '  '):>13}" for n in counts)
            lines.append(f"{beta:9.3g}{one.bias:8.3f}{one.offset:8.3f}{cells}")
        return lines

    def _end(self) -> list[str]:
        if not self.fit:
            return ["NOT FIT for training:", *(f"- {problem}" for problem in self.problems)]
        best = self.best
        readings = "one reading" if best.repeats == 1 else f"{best.repeats} readings"
        return [f"fit for training: take β = {best.beta:.3g} with {readings}, for an error of {best.total:.2g}"]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        rows = [row._asdict() | {"total": row.total} for row in self.table]
        return asdict(self) | {"table": rows, "fit": self.fit, "problems": list(self.problems)}

    def save(self, folder: str | Path, commands: Sequence[str] = ()) -> None:
        """README.md for people and certificate.json for programs."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "certificate.json", self.to_dict())
        lines = [f"# {self.device}: {'fit' if self.fit else 'not fit'} for training", "", "| | |", "|---|---|"]
        lines += [f"| {name} | {value} |" for name, value in self._lines()]
        lines += ["", "```text", *self._rows(), "```", "", *self._end(), "", footer(commands), ""]
        write_atomic(folder / "README.md", "\n".join(lines).encode())
