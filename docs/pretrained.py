"""Trains the networks in docs/models, and writes their cards: `python docs/pretrained.py [FOLDER [DATASET …]]`.

A network is a safetensors file for `eqprop.load`. Its settings are those of `eqprop train`; the test set is
looked at once.
"""

import sys
import tempfile
from pathlib import Path

import eqprop as ep
from eqprop import data
from eqprop.provenance import footer
from eqprop.store import Run
from eqprop.study import perform, preset

CARD = """# {name}: {net}, trained on {dataset}

[`{file}`]({file}) ({kilobytes} kB) is a Hopfield network of {net} units, trained by Equilibrium Propagation.
It is for trying things out, and for teaching; handwriting from elsewhere is another matter than the data set's.

```python
import eqprop as ep

trainer, theta = ep.load("{file}")
classes = ep.predict(trainer, theta, images).argmax(1)  # images of {shape}: bytes, or numbers from 0 to 1
```

| | error |
|---|---|
| training | {train_error:.2%} |
| validation | {valid_error:.2%} |
| test | {test_error:.2%} |

Data: {description}; {examples} for training, in [0, 1], nothing else done to them. Training: the defaults of
`eqprop train {dataset}` with seed {seed}, {epochs} epochs. Weights are
float32, under the licence of the library.

{footer}
"""


def make(dataset: str, folder: Path) -> None:
    examples = data.load(dataset)
    setup = preset(dataset).build(examples)
    with tempfile.TemporaryDirectory() as scratch:
        trained = perform(setup, Run.create(Path(scratch) / "run", setup.experiment.to_dict()))
    result, path = trained.result, folder / f"{dataset}-{setup.name}.safetensors"
    ep.save(path, setup.trainer, trained.state, {"dataset": dataset, "test_error": result["test_error"]})
    entry = next(entry for entry in data.catalogue() if entry.name == dataset)
    card = CARD.format(
        name=path.stem,
        file=path.name,
        kilobytes=path.stat().st_size // 1024,
        shape=" × ".join(map(str, examples.shape)),
        description=entry.description,
        examples=f"{len(examples.train):,}",
        footer=footer([f"python docs/pretrained.py {folder} {dataset}"]),
        **result,
    )
    path.with_suffix(".md").write_text(card)
    print(path)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/models")
    target.mkdir(parents=True, exist_ok=True)
    for chosen in sys.argv[2:] or ("digits",):
        make(chosen, target)
