"""What came of the networks for images: a table for each data set, curves, and what the full recipes would take."""

from typing import Any

from eqprop import plots
from eqprop.study.campaign import Outcome
from eqprop.study.images import WAYS, ImageCampaign
from eqprop.study.operations import iteration
from eqprop.study.pages import left_to_do, paragraph, table
from eqprop.study.recipes import CLASSES, IMAGE, RECIPES, THROUGHPUT, command
from eqprop.study.relatives_page import by_dataset, heading


def page(campaign: ImageCampaign, done: list[Outcome]) -> tuple[list[str], dict[str, Any]]:
    """The lines of the page, and its figure: learning_curves."""
    grouped = by_dataset(done)
    curves = {heading(some): {"all methods": {title(o): o.history for o in some}} for some in grouped.values()}
    return markdown(campaign, grouped), {"learning_curves": plots.rivals(curves)}


def title(outcome: Outcome) -> str:
    """The name of the way in which it was trained."""
    return WAYS[outcome.trial.kind].title


def to_dict(outcome: Outcome) -> dict[str, Any]:
    """All that is known about a trial, for JSON."""
    return {"method": outcome.trial.kind, "title": title(outcome), **outcome.notes, **outcome.result}


def row(outcome: Outcome) -> dict[str, str]:
    """A line of the table of a data set."""
    result = outcome.result
    return {
        "": title(outcome),
        "test error": f"{100 * result['test_error']:.2f} %",
        "validation error": f"{100 * result['valid_error']:.2f} %",
        "training error": f"{100 * result['train_error']:.2f} %",
        "epochs": f"{result['epochs']}",
        "time": f"{result['seconds'] / 60:.1f} min",
        "time of an epoch": f"{result['seconds_per_epoch']:.1f} s",
    }


def markdown(campaign: ImageCampaign, grouped: dict[str, list[Outcome]]) -> list[str]:
    """The lines of the page."""
    lines = ["# Networks for images", "", paragraph(INTRODUCTION), ""]
    for some in grouped.values():
        lines += [f"## {heading(some)}", "", common(some[0]), "", *table([row(o) for o in some]), ""]
        lines += [line for words in beside_exact(some) for line in (paragraph(words), "")]
    for line in left_to_do(sum(map(len, grouped.values())), len(campaign.trials())):
        lines += [line, ""]
    lines += ["![Validation error of all methods](learning_curves.png)", ""]
    lines += ["## What the full recipes take", "", paragraph(FULL.format(throughput=THROUGHPUT / 1e12)), ""]
    lines += table([recipe_row(name) for name in RECIPES])
    for name, recipe in RECIPES.items():
        words = paragraph(f"**{name}**, {recipe.source}. {recipe.differs}")
        lines += ["", words, "", "```", command(recipe.experiment), "```"]
    lines += ["", "## Settings", "", "Each training alone, by `eqprop train`:", "", "```"]
    lines += [command(outcome.trial.experiment) for some in grouped.values() for outcome in some]
    return [*lines, "```"]


def common(outcome: Outcome) -> str:
    """What all methods have in common."""
    learning, images = outcome.trial.experiment.learning, outcome.trial.experiment.images
    views = [*(["flipped"] if images.flip else []), *([f"shifted by up to {images.crop}"] if images.crop else [])]
    shown = f"images {' and '.join(views)}" if views else "images as they are"
    count = f"{learning.train:,} training images" if learning.train else "all training images"
    return f"{count}, {shown}, minibatches of {learning.batch_size}, {learning.optimizer}, seed {learning.seed}."


def beside_exact(some: list[Outcome]) -> list[str]:
    """How far Equilibrium Propagation is from exact gradients, in words."""
    by_way = {outcome.trial.kind: 100 * outcome.result["test_error"] for outcome in some}
    others = [way for way in ("through-time", "backpropagation") if way in by_way]
    if "symmetric" not in by_way or not others:
        return []
    gaps = [f"{by_way['symmetric'] - by_way[way]:+.2f} points from {WAYS[way].title}" for way in others]
    return [f"The test error of {WAYS['symmetric'].title}, is {' and '.join(gaps)}."]


def recipe_row(name: str) -> dict[str, str]:
    """A line of the table of recipes."""
    recipe = RECIPES[name]
    chosen = recipe.experiment
    steps = f"{chosen.settling.free_steps} + 2 × {chosen.settling.nudged_steps}"
    return {
        "recipe": name,
        "source": recipe.source,
        "network": chosen.network_name(IMAGE, CLASSES),
        "GFLOP an image and iteration": f"{iteration(chosen.layers(IMAGE, CLASSES)) / 1e9:.2f}",
        "iterations": steps,
        "epochs": f"{chosen.learning.epochs}",
        "operations": f"{recipe.operations:.1e}",
        "hours on one GPU": f"{recipe.hours:.0f}",
        "they report": recipe.result,
    }


INTRODUCTION = """
Convolutional networks, trained by Equilibrium Propagation with the symmetric nudge and with the holomorphic one, by
backpropagation through time, which is the exact gradient of the same settling, and by backpropagation in the
feed-forward network of the same shape. Shape, epochs, minibatches and views of the images are the same for all. The
holomorphic nudge needs smooth units and no switches: its network is another one of the same shape, of tanh units, which
settles for longer. *Errors*: at the end of training. *Time*: of training, compilation included.
"""

FULL = """
What others trained on CIFAR-10, in settings of `eqprop train`, and how long it would take; none of it was run here.
Operations are counted from the shapes: multiplications and additions in the products of all synapses, each visit of
each layer, both nudged phases and the contrast, over 50,000 images and all epochs. An *iteration* counts each synapse
once each way. Hours assume {throughput:.0f} TFLOPS, what the code of recipe B comes to on an A100, where 100 epochs of
it take about 3 hours. *They report*: their accuracy on test images. Images are divided by 2.4 deviations, about
0.6: public code of this kind divides by three times 0.2.
"""
