// What the backend without a server says of itself, and the Python code for what it shows.

const RELAXATIONS = [
  { name: "block", title: "Block descent", about: "One layer after the other goes straight to its own lowest point." },
  { name: "gradient", title: "The paper's step", about: "All units take a small step downhill at the same time." },
];
const NUDGES = [
  { name: "symmetric", title: "Symmetric", about: "Pull towards the target, then push away from it as hard: the errors cancel." },
  { name: "one-sided", title: "One-sided", about: "Pull only, as in the paper's formula." },
];
const RULES = [
  { name: "equilibrium", title: "Equilibrium Propagation", about: "Compare the nudged states: what is active together more, is joined more." },
];

export function demoHello(sizes, names, examples, updates) {
  return {
    title: `digits, ${sizes.join("-")}`,
    about: "A small network that was trained on handwritten digits. All of it runs in your browser.",
    layers: sizes.slice(1).map((n, k) => ({ name: names[k + 1], shape: [n], low: 0, high: 1 })),
    input: { shape: [8, 8], low: 0, high: 1, drawable: true },
    outputs: { layer: "output", labels: [..."0123456789"] },
    targets: true,
    examples,
    relaxations: RELAXATIONS,
    nudges: NUDGES,
    rules: RULES,
    side: { relaxation: "block", nudge: "symmetric", beta: 0.5 },
    rule: "equilibrium",
    rate: 0.1,
    betas: [-1, 1],
    abilities: { clamp: true, dream: true, learn: true, train: true, unit: true, wrong: true, code: true },
    updates,
  };
}

/** Python for the settling that the page shows. */
export function demoCode({ target, sides, rate }, sizes, pixels) {
  const relaxations = { block: "ep.Block(steps=100, tol=1e-4", gradient: "ep.Gradient(steps=100, tol=1e-4" };
  const nudges = { symmetric: "ep.Symmetric", "one-sided": "ep.OneSided" };
  const { relaxation, nudge, beta } = sides[0];
  const back = relaxation === "block" ? ', order="backward"' : "";
  const lines = [
    "import jax",
    "import jax.numpy as jnp",
    "",
    "import eqprop as ep",
    "",
    `net = ep.Hopfield.layered(${sizes.join(", ")})`,
    "F = ep.Total(net, ep.SquaredError())",
    "theta = net.init(jax.random.key(0))  # or trained weights: eqprop train digits",
    `x = jnp.array([[${pixels.map((p) => Number(p.toFixed(4))).join(", ")}]])`,
    "",
    `free = ${relaxations[relaxation]})`,
  ];
  if (target === null || target === undefined) {
    lines.push("state, info = free(F, theta, (x, None), 0.0, net.rest(1))");
  } else {
    lines.push(
      `y = jax.nn.one_hot(jnp.array([${target}]), ${sizes[sizes.length - 1]})`,
      "state, info = free(F, theta, (x, y), 0.0, net.rest(1))",
      "",
      `nudged = ${relaxations[relaxation]}${back})`,
      `rule = ep.EquilibriumPropagation(${nudges[nudge]}(${beta}), free, nudged)`,
      "learned = rule(F, theta, (x, y), net.rest(1))",
      `theta = jax.tree.map(lambda w, g: w - ${rate} * g, theta, learned.gradient)`,
    );
  }
  lines.push('print(state["output"].round(2), info)', "");
  return lines.join("\n");
}
