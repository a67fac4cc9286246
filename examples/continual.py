"""Weights that move while the network settles: how far continual EP is from EP, over the rate.

python examples/continual.py [PICTURE]
"""

import sys

import jax
import numpy as np
import optax

import eqprop as ep
from eqprop.plots.laws import power_law

jax.config.update("jax_enable_x64", True)

net = ep.Hopfield.layered(64, 60, 10)
F = ep.Total(net, ep.SquaredError())
digits = ep.data.load("digits")
v, rest, theta = digits.train[:50].v, net.rest(50), net.init(jax.random.key(0))

free, nudged = ep.Block(200, 1e-10), ep.Gradient(steps=300, epsilon=0.3)  # long enough to settle
rates = np.logspace(-6, -2.5, 8)
distances = {}
for nudge in (ep.OneSided(0.2), ep.Symmetric(0.2)):
    still = ep.EquilibriumPropagation(nudge, free, nudged)(F, theta, v, rest).gradient
    moving = [ep.ContinualEquilibriumPropagation(nudge, free, nudged, rate) for rate in rates.tolist()]
    found = [rule(F, theta, v, rest).gradient for rule in moving]
    name = f"{type(nudge).__name__}({nudge.beta})"
    distances[name] = np.array([optax.tree.norm(optax.tree.sub(g, still)) / optax.tree.norm(still) for g in found])
    slope = np.polyfit(np.log(rates[2:5]), np.log(distances[name][2:5]), 1)[0]
    print(f"{name}: slope {slope:.3f}, distance {distances[name][2]:.1e} at a rate of {rates[2]:.0e}")

picture = sys.argv[1] if len(sys.argv) > 1 else "continual.png"
labels = {"xlabel": "rate η by which weights move", "ylabel": "relative distance from EP's gradient"}
power_law(rates, distances, 1, **labels, title="Continual EP tends to EP", law="η").savefig(picture, dpi=120)
