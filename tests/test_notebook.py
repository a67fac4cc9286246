"""What a notebook shows: pictures of figures, and a line or a table for what would else be arrays."""

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import nbformat
import optax
import pytest

import eqprop as ep
from eqprop import plots
from eqprop.verification import CLAIMS

DOCS = Path(__file__).parent.parent / "docs"
NET = ep.Hopfield.layered(64, 3, 10)
F = ep.Total(NET, ep.SquaredError())
HISTORY = [{"epoch": n, "train_error": 0.5 / n, "valid_error": 0.6 / n} for n in (1, 2, 3)]


def test_a_figure_is_shown_as_a_picture_where_pyplot_was_never_imported() -> None:
    """By IPython's own rules, in a shell without any backend."""
    formatters = pytest.importorskip("IPython.core.formatters")
    shown, _ = formatters.DisplayFormatter().format(plots.learning_curve(HISTORY))
    assert shown["image/png"].startswith(b"\x89PNG")


def trained() -> tuple[ep.TrainState, ep.Trainer]:
    digits = ep.data.load("digits")
    trainer = ep.Trainer(F, ep.EquilibriumPropagation(), optax.adam(0.01))
    feed = ep.Shuffled(digits.train.v, 50)
    return trainer.init(NET.init(jax.random.key(0)), feed, jax.random.key(1)), trainer


def test_what_holds_arrays_prints_a_line() -> None:
    digits = ep.data.load("digits")
    state, _ = trained()
    trace = ep.Block(3).trace(F, state.theta, (digits.test.x[:2], None), 0.0, NET.rest(2))
    assert repr(digits) == "<Dataset digits: train 1,257, valid 180, test 360 inputs of 8 × 8, 10 classes>"
    assert repr(digits.test) == "<Split: 360 examples, x (360, 64), y (360, 10)>"
    assert repr(state).startswith("<TrainState: epoch 0, minibatch 0, 0 minibatches learned; θ W/hidden-output 3×10,")
    assert repr(state).endswith("235 numbers>")
    assert repr(trace).startswith("<Trace: 2 examples, 3 steps, energy 0 → -")
    feed = ep.Shuffled(digits.train.v, 50)
    assert repr(feed) == "<Shuffled: 26 minibatches in an epoch>"
    learned = ep.EquilibriumPropagation(ep.Symmetric(0.5), ep.Block(3), ep.Block(3))(
        F, state.theta, digits.test[:2].v, NET.rest(2)
    )
    assert repr(learned).endswith("235 numbers; states hidden 2×3, output 2×10: 26 numbers; phases free, nudged>")
    assert repr(learned.phases["nudged"]).startswith(
        "<Info: 2×2 settlings, up to 3 steps, 0 converged, residual up to "
    )
    jax.eval_shape(lambda info: bool(repr(info)) or None, learned.phases["free"])
    for thing in (digits, digits.test, state, trace, feed, learned, learned.phases):
        assert len(repr(thing)) < 300 and "\n" not in repr(thing) and " at 0x" not in repr(thing)


def test_a_state_can_be_printed_while_a_program_is_compiled() -> None:
    state, _ = trained()
    seen = []
    jax.eval_shape(lambda state: seen.append(repr(state)) or state.step, state)
    assert "235 numbers" in seen[0]


@pytest.mark.slow
def test_tables_for_notebooks_say_the_same() -> None:
    assert "<td>1,257</td>" in ep.data.load("digits")._repr_html_()
    springs = ep.Total(lambda theta, x, s: jnp.sum((s - theta * x) ** 2) / 2, lambda theta, y, s: jnp.sum((s - y) ** 2))
    v = (jnp.ones((1, 2)), jnp.zeros((1, 2)))
    one = [claim for claim in CLAIMS if claim.name == "theorem 1"]
    report = ep.verify(springs, jnp.array(0.5), v, jnp.zeros((1, 2)), claims=one)
    assert repr(report) == "<Report: 1 of 1 findings hold; print it for a table>"
    assert "theorem 1" in report._repr_html_() and "pass" in report._repr_html_()


# ---- the notebooks that are made from the tutorials ----

sys.path.insert(0, str(DOCS))
notebooks = importlib.import_module("notebooks")


def sources(notebook: Any) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


@pytest.mark.parametrize("name", notebooks.NAMES)
def test_a_notebook_is_its_tutorial_with_what_it_shows(name: str) -> None:
    kept = nbformat.read(DOCS / "notebooks" / f"{name}.ipynb", as_version=4)
    assert sources(kept) == sources(notebooks.made(name)), f"python docs/notebooks.py {name}"
    outputs = [output for cell in kept.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.output_type == "error"]
    assert any("image/png" in output.get("data", {}) for output in outputs), "it shows no figure"


@pytest.mark.slow
@pytest.mark.parametrize("name", notebooks.NAMES)
def test_a_notebook_runs(name: str) -> None:
    run = notebooks.run(notebooks.made(name))
    outputs = [output for cell in run.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)


def test_a_notebook_can_be_opened_elsewhere_where_the_project_has_an_address() -> None:
    assert "Colab" not in notebooks.links("first-energy", None)
    assert "/github/a/b/blob/main/docs/notebooks/first-energy.ipynb" in notebooks.links(
        "first-energy", "https://github.com/a/b"
    )
    words = notebooks._words(
        "[`Gradient`][eqprop.Gradient], [a page](x.md#y), [another](../z.md), [a notebook](own-energy.md), [b](https://a.b)"
    ).source
    assert words == (
        "`Gradient`, [a page](../tutorials/x.md#y), [another](../z.md), [a notebook](own-energy.ipynb), [b](https://a.b)"
    )


@pytest.mark.parametrize("name", notebooks.NAMES)
def test_links_in_a_notebook_lead_somewhere(name: str) -> None:
    for _, source in sources(notebooks.made(name)):
        for target in re.findall(r"\]\((?!http)([^)#]+)", source):
            assert (DOCS / "notebooks" / target).exists(), target
