"""`eqprop evaluate`: the errors of a trained network."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from eqprop import data
from eqprop.cli.console import out, print_json, result_table, screen
from eqprop.store import Run
from eqprop.store.atomic import write_figure
from eqprop.study import evaluate, experiment_of


@dataclass(frozen=True)
class Evaluate:
    """Measure the errors of a trained network, and draw its confusion matrix in the folder of its run."""

    run_dir: tyro.conf.Positional[Path]
    """the folder of the run"""
    data_dir: Path | None = None
    """folder with the data set's own files; None: the cache, filled from public sources"""
    json: bool = False
    """print the result as one JSON object, the last line of stdout"""

    def run(self) -> None:
        run = Run.open(self.run_dir)
        experiment = experiment_of(run)
        examples = data.load(experiment.dataset, self.data_dir, experiment.learning.valid, screen.print)
        result, predicted = evaluate(experiment.build(examples), run)
        if self.json:
            print_json(result)
        else:
            out.print(result_table(result))
        try:
            drawn = draw(run, examples, predicted)
            if not self.json:
                out.print(f"drawn in {drawn}", markup=False, highlight=False, soft_wrap=True)
        except OSError as error:  # the folder may be read-only
            screen.print(f"no confusion_matrix.png: {error}", markup=False, highlight=False, soft_wrap=True)


def draw(run: Run, examples: data.Dataset, predicted: np.ndarray) -> Path:
    """Draw the confusion matrix of the test set in the run's folder, and return where."""
    from eqprop import plots  # matplotlib takes its time to load

    title = f"{Path(examples.name).name}, test set"
    figure = plots.confusion_matrix(examples.test.labels, predicted, examples.classes, title=title)
    path = run.folder / "confusion_matrix.png"
    write_figure(path, figure)
    return path
