"""Watch a trained network settle: first freely, to its prediction, then nudged towards the target.

python examples/settling.py [PICTURE]
"""

import sys

import jax
import optax

import eqprop as ep
from eqprop import plots

net = ep.Hopfield.layered(64, 60, 10)
F = ep.Total(net, ep.SquaredError())
digits = ep.data.load("digits")

rule = ep.EquilibriumPropagation(ep.Symmetric(0.5), ep.Block(steps=6), ep.Block(steps=4))
trainer, feed = ep.Trainer(F, rule, optax.adam(0.002)), ep.Shuffled(digits.train.v, batch_size=20)
state = trainer.init(net.init(jax.random.key(0)), feed, jax.random.key(1))
state, _ = ep.fit(trainer, state, feed, epochs=10)

# Among the test digits, the one whose output is farthest from its target has the most to be nudged.
x, y = digits.test.v
outputs = trainer.predict(state.theta, (x, y))
hardest = int(((outputs - y) ** 2).sum(1).argmax())
v = (x[hardest : hardest + 1], y[hardest : hardest + 1])

slowly, beta = ep.Gradient(steps=30, epsilon=0.2), 0.5
free = slowly.trace(F, state.theta, v, 0.0, net.rest(1))
nudged = slowly.trace(F, state.theta, v, beta, jax.tree.map(lambda path: path[:, -1], free.state))
picture = sys.argv[1] if len(sys.argv) > 1 else "settling.png"
label = int(digits.test.labels[hardest])
plots.settling(free, nudged, beta=beta, target=label, epsilon=slowly.epsilon).savefig(picture, dpi=120)
print(f"{picture}: a {label}, read as a {outputs[hardest].argmax()}")
