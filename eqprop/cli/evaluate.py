"""`eqprop evaluate`: the errors of a trained network."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from eqprop import data
from eqprop.cli.console import out, print_json, result_table, screen
from eqprop.experiment import Experiment, evaluate
from eqprop.train import Run


@dataclass(frozen=True)
class Evaluate:
    """Measure the errors of a run's weights."""

    run_dir: tyro.conf.Positional[Path]
    """the folder of the run"""
    data_dir: Path | None = None
    """folder with the data set's own files; None: the cache, filled from public sources"""
    json: bool = False
    """print the result as one JSON object, the last line of stdout"""

    def run(self) -> None:
        run = Run.open(self.run_dir)
        experiment = Experiment.from_dict(run.config)
        examples = data.load(experiment.dataset, self.data_dir, experiment.learning.valid, screen.print)
        result = evaluate(experiment, examples, run)
        if self.json:
            print_json(result)
        else:
            out.print(result_table(result))
