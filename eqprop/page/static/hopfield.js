// A layered Hopfield network with the hard sigmoid, in plain typed arrays: the energy, the two relaxations and the
// learning rule of the library (eqprop/energy/hopfield.py, eqprop/relax/, eqprop/rule/equilibrium.py), step by step.
//
//   F = ½ Σ s² − Σ_k ρ(s_k) W_k ρ(s_k+1) − Σ b ρ(s) + β ½ ‖y − d‖²,   ρ(u) = 0 ∨ u ∧ 1
//
// States stay within [0, 1], where ρ is the identity. A unit that is held has its value as both of its bounds.

export const OMEGA = [1.2, 1.5]; // over-relaxation: the first steps, and from step 10 on
export const EPSILON = 0.5; // the paper's step
export const TOLERANCE = 1e-4;
export const MOST_STEPS = 100;

/**
 * @typedef {object} Net
 * @property {number[]} sizes units of each layer, the input first
 * @property {Float64Array[]} W W[k] joins layer k (rows) to layer k + 1 (columns), row by row
 * @property {Float64Array[]} b b[k] are the biases of layer k + 1
 *
 * @typedef {object} Problem what is held and what pulls, in one phase
 * @property {number} beta
 * @property {Float64Array|null} d the target of the outputs
 * @property {Float64Array[]} low bounds of each unit of each layer
 * @property {Float64Array[]} high
 * @property {boolean} dreams whether the input (layer 0) moves too
 * @property {Float64Array} [drive] see `withDrive`
 */

export function copyNet(net) {
  const copies = (arrays) => arrays.map((a) => a.slice());
  return { sizes: net.sizes, W: copies(net.W), b: copies(net.b) };
}

/** Bounds [0, 1] for all units. */
export function boxOf(sizes) {
  return { low: sizes.map((n) => new Float64Array(n)), high: sizes.map((n) => new Float64Array(n).fill(1)) };
}

const clipped = (u, low, high) => Math.min(Math.max(u, low), high);

/** Π(s), in place. */
export function projectState(s, { low, high }, first = 0) {
  for (let k = first; k < s.length; k++) {
    for (let i = 0; i < s[k].length; i++) s[k][i] = clipped(s[k][i], low[k][i], high[k][i]);
  }
  return s;
}

/** −∂F/∂s of layer k, into `out`. The input may lie outside of [0, 1], and is heard through ρ. */
export function forceOn(net, s, k, problem, out) {
  const { sizes, W, b } = net;
  const n = sizes[k];
  const driven = k === 1 && problem.drive;
  for (let j = 0; j < n; j++) out[j] = (driven ? driven[j] : k ? b[k - 1][j] : 0) - s[k][j];
  if (k > 0 && !driven) {
    const below = s[k - 1];
    const weights = W[k - 1];
    for (let i = 0; i < below.length; i++) {
      const rate = clipped(below[i], 0, 1);
      if (rate === 0) continue;
      const row = i * n;
      for (let j = 0; j < n; j++) out[j] += rate * weights[row + j];
    }
  }
  if (k < sizes.length - 1) {
    const above = s[k + 1];
    const weights = W[k];
    for (let j = 0; j < n; j++) {
      const row = j * above.length;
      let sum = 0;
      for (let l = 0; l < above.length; l++) sum += weights[row + l] * above[l];
      out[j] += sum;
    }
  } else if (problem.beta !== 0) {
    for (let j = 0; j < n; j++) out[j] -= problem.beta * (s[k][j] - problem.d[j]);
  }
  return out;
}

/** The problem with what the input adds to the first layer, which stays the same while the input is held. */
export function withDrive(net, x, problem) {
  if (problem.dreams) return problem;
  const rest = [x, new Float64Array(net.sizes[1]), new Float64Array(net.sizes[2] ?? 0)];
  return { ...problem, drive: forceOn(net, rest, 1, { beta: 0 }, new Float64Array(net.sizes[1])) };
}

/** The largest |s − Π(s + force)| of a layer: 0 just at rest. */
function residualOf(u, force, low, high) {
  let most = 0;
  for (let i = 0; i < u.length; i++) most = Math.max(most, Math.abs(u[i] - clipped(u[i] + force[i], low[i], high[i])));
  return most;
}

function moveAlong(u, force, step, low, high) {
  for (let i = 0; i < u.length; i++) u[i] = clipped(u[i] + step * force[i], low[i], high[i]);
}

const movingLayers = (net, problem) => net.sizes.map((_, k) => k).slice(problem.dreams ? 0 : 1);

/** Block descent: each layer in turn goes to its minimum and a bit beyond. Returns the largest residual that it met. */
export function blockStep(net, s, problem, t, order) {
  const visits = movingLayers(net, problem);
  if (order === "backward") visits.reverse();
  const omega = clipped(OMEGA[0] + 0.075 * (t - 6), ...OMEGA);
  const last = net.sizes.length - 1;
  let met = 0;
  for (const k of visits) {
    const force = forceOn(net, s, k, problem, new Float64Array(net.sizes[k]));
    met = Math.max(met, residualOf(s[k], force, problem.low[k], problem.high[k]));
    const curvature = k === last ? Math.max(1 + problem.beta, 0.1) : 1;
    moveAlong(s[k], force, omega / curvature, problem.low[k], problem.high[k]);
  }
  return met;
}

/** The paper's step: all units at once, s ← Π(s − ε ∂F/∂s). */
export function gradientStep(net, s, problem) {
  const layers = movingLayers(net, problem);
  const forces = layers.map((k) => forceOn(net, s, k, problem, new Float64Array(net.sizes[k])));
  let met = 0;
  layers.forEach((k, i) => {
    met = Math.max(met, residualOf(s[k], forces[i], problem.low[k], problem.high[k]));
    moveAlong(s[k], forces[i], EPSILON, problem.low[k], problem.high[k]);
  });
  return met;
}

export function costOf(y, d) {
  let sum = 0;
  for (let i = 0; i < y.length; i++) sum += (y[i] - d[i]) ** 2;
  return sum / 2;
}

/** F; without a target the cost is left out. */
export function energyOf(net, s, problem) {
  let total = 0;
  for (let k = problem.dreams ? 0 : 1; k < s.length; k++) {
    for (let i = 0; i < s[k].length; i++) total += (s[k][i] * s[k][i]) / 2 - (k ? net.b[k - 1][i] * s[k][i] : 0);
  }
  for (let k = 0; k < net.W.length; k++) {
    const n = net.sizes[k + 1];
    for (let i = 0; i < net.sizes[k]; i++) {
      const rate = clipped(s[k][i], 0, 1);
      if (rate === 0) continue;
      for (let j = 0; j < n; j++) total -= rate * net.W[k][i * n + j] * s[k + 1][j];
    }
  }
  return problem.beta === 0 ? total : total + problem.beta * costOf(s[s.length - 1], problem.d);
}

/**
 * One phase: frames from s to rest. Frame 0 is the start; `residual` is what the step that led to a frame met.
 * With a tolerance of null, all steps are taken.
 */
export function settlePhase(net, s, problem, relaxation, order = "forward", steps = MOST_STEPS, tolerance = TOLERANCE) {
  let now = s.map((u) => u.slice());
  const states = [now];
  const residual = [NaN];
  for (let t = 0; t < steps && !(tolerance !== null && residual[t] <= tolerance); t++) {
    now = now.map((u) => u.slice());
    residual.push(relaxation === "block" ? blockStep(net, now, problem, t, order) : gradientStep(net, now, problem));
    states.push(now);
  }
  return { states, residual, energy: states.map((frame) => energyOf(net, frame, problem)) };
}

/** β_k and w_k of a nudge, as in eqprop/nudge.py; a one-sided one also reads the free state, with the weight `free`. */
export function nudgeOf(name, beta) {
  return name === "symmetric"
    ? { betas: [beta, -beta], weights: [0.5 / beta, -0.5 / beta], free: 0 }
    : { betas: [beta], weights: [1 / beta], free: -1 / beta };
}

/**
 * The free phase and the nudged ones after it, each from the free state; the relaxation is that of `side`.
 * Nudged phases go from the output back, as the nudge travels.
 */
export function settlePhases(net, s, posed, side) {
  const problem = withDrive(net, s[0], posed);
  const free = settlePhase(net, s, { ...problem, beta: 0 }, side.relaxation);
  const phases = [{ beta: 0, ...free }];
  if (!problem.d || problem.dreams) return phases;
  const rest = free.states[free.states.length - 1];
  for (const beta of nudgeOf(side.nudge, side.beta).betas) {
    phases.push({ beta, ...settlePhase(net, rest, { ...problem, beta }, side.relaxation, "backward") });
  }
  return phases;
}

/** Where a phase ends, without the way there. */
export function restOf(net, s, problem, relaxation, order) {
  const now = s.map((u, k) => (k ? u.slice() : u));
  for (let t = 0, met = Infinity; t < MOST_STEPS && met > TOLERANCE; t++) {
    met = relaxation === "block" ? blockStep(net, now, problem, t, order) : gradientStep(net, now, problem);
  }
  return now;
}

/** Adds `scale` times −∂F/∂θ at the state s to the weights and biases: each pair of neighbours that are active together. */
export function addHebbian(net, s, scale) {
  for (let k = 0; k < net.W.length; k++) {
    const n = net.sizes[k + 1];
    for (let i = 0; i < net.sizes[k]; i++) {
      const rate = scale * clipped(s[k][i], 0, 1);
      if (rate !== 0) for (let j = 0; j < n; j++) net.W[k][i * n + j] += rate * s[k + 1][j];
    }
    for (let j = 0; j < n; j++) net.b[k][j] += scale * s[k + 1][j];
  }
}

/** One step down the gradient of Equilibrium Propagation on a minibatch of [x, d], in place: its mean cost and error. */
export function learnBatch(net, batch, side, rate) {
  const zeros = (arrays) => arrays.map((a) => new Float64Array(a.length));
  const change = { sizes: net.sizes, W: zeros(net.W), b: zeros(net.b) };
  const nudge = nudgeOf(side.nudge, side.beta);
  const box = boxOf(net.sizes);
  let cost = 0;
  let wrong = 0;
  for (const [x, d] of batch) {
    const start = net.sizes.map((n, k) => (k ? new Float64Array(n) : x));
    const problem = withDrive(net, x, { d, dreams: false, ...box });
    const at = (s, beta, order) => restOf(net, s, { ...problem, beta }, side.relaxation, order);
    const free = at(start, 0, "forward");
    const ends = [free, ...nudge.betas.map((beta) => at(free, beta, "backward"))];
    const y = free[net.sizes.length - 1];
    cost += costOf(y, d) / batch.length;
    wrong += (largest(y) === largest(d) ? 0 : 1) / batch.length;
    [nudge.free, ...nudge.weights].forEach((w, k) => addHebbian(change, ends[k], w / batch.length));
  }
  net.W.forEach((w, k) => w.forEach((_, i) => (w[i] += rate * change.W[k][i])));
  net.b.forEach((b, k) => b.forEach((_, i) => (b[i] += rate * change.b[k][i])));
  return { cost, error: wrong };
}

export function largest(values, from = 0, count = values.length) {
  let best = 0;
  for (let i = 1; i < count; i++) if (values[from + i] > values[from + best]) best = i;
  return best;
}
