// The backend without a server: a small network that settles and learns in the browser, for the documentation.
import { DEMO } from "./demo-data.js";
import { bytesFromText, floatsFromText } from "./packing.js";
import { randomFrom, randomNet, shuffled } from "./random.js";
import { boxOf, copyNet, costOf, largest, learnBatch, projectState, settlePhase, settlePhases } from "./hopfield.js";
import { demoCode, demoHello } from "./demo-texts.js";

const SLICE = 12; // milliseconds of training at a time, so that the page stays smooth
const MINIBATCH = 10;

/** Images as [x, d, label]. */
function examplesFrom({ pixels, labels }, classes) {
  const bytes = bytesFromText(pixels);
  const size = bytes.length / labels.length;
  return [...labels].map((label, i) => {
    const x = Float64Array.from(bytes.subarray(i * size, (i + 1) * size), (level) => level / 16);
    return [x, oneHot(Number(label), classes), Number(label)];
  });
}

function oneHot(label, classes) {
  return Float64Array.from({ length: classes }, (_, i) => (i === label ? 1 : 0));
}

const lastOf = (list) => list[list.length - 1];
const joined = (rows) => Float32Array.from(rows.flatMap((row) => [...row]));

/** @returns a backend: {ask, on}, as every backend that a page may have. */
export function localBackend(data = DEMO) {
  const { sizes } = data;
  const names = ["input", ...(sizes.length === 3 ? ["hidden"] : sizes.slice(1, -1).map((_, k) => `hidden${k + 1}`)), "output"];
  const classes = lastOf(sizes);
  const opened = {
    sizes,
    W: data.weights.map((text) => Float64Array.from(floatsFromText(text))),
    b: data.biases.map((text) => Float64Array.from(floatsFromText(text))),
  };
  const learned = examplesFrom(data.learn, classes);
  const tested = examplesFrom(data.test, classes);
  const hearers = { progress: [], gone: [] };
  let net = copyNet(opened);
  let updates = 0;
  let lastFrames = [net.sizes.map((n) => new Float64Array(n))]; // of the last settling, to go on from
  let training = null;

  const inputOf = (input) => ("example" in input ? tested[input.example][0] : Float64Array.from(input.pixels));
  const targetOf = (target) => (target === null || target === undefined ? null : oneHot(target, classes));

  /** The bounds with all that is held. */
  function boundsWith(clamp, dream) {
    const box = boxOf(sizes);
    const hold = (k, unit, value) => {
      for (const bound of [box.low[k], box.high[k]]) unit === null ? bound.fill(value) : (bound[unit] = value);
    };
    if (dream !== null) oneHot(dream, classes).forEach((value, unit) => hold(sizes.length - 1, unit, value));
    for (const { layer, unit, value } of clamp) {
      if (names.indexOf(layer) > (dream === null ? 0 : -1)) hold(names.indexOf(layer), unit, value);
    }
    return box;
  }

  function settle({ input, target, sides, clamp = [], start = "rest", seed = 0, dream = null }) {
    const begin = performance.now();
    const x = inputOf(input);
    const box = boundsWith(clamp, dream);
    const d = targetOf(target);
    const from = start === "rest" ? null : lastFrames[Math.min(start.frame, lastFrames.length - 1)];
    const draw = randomFrom(seed);
    const first = sizes.map((n, k) => {
      if (k === 0 && dream === null) return x.slice();
      if (from) return from[k].slice();
      return k === 0 && seed ? Float64Array.from({ length: n }, draw) : new Float64Array(n); // each seed dreams its own
    });
    projectState(first, box, dream === null ? 1 : 0);
    const arrays = { x: { shape: [8, 8], data: Float32Array.from(x) } };
    const told = sides.map((side, i) => {
      const phases = settlePhases(net, first, { beta: 0, d, dreams: dream !== null, ...box }, side);
      const states = phases.flatMap((phase) => phase.states);
      if (i === 0) lastFrames = states;
      record(arrays, i, phases, states, d, dream !== null);
      let end = -1;
      const spans = phases.map(({ beta, states: own }, k) => {
        const span = { name: k ? "nudged" : "free", beta, first: end + 1, last: end + own.length };
        end = span.last;
        return span;
      });
      return { phases: spans };
    });
    return { sides: told, milliseconds: performance.now() - begin, arrays };
  }

  function record(arrays, i, phases, states, d, dreams) {
    const put = (name, shape, values) => (arrays[`${i}/${name}`] = { shape: [states.length, ...shape], data: values });
    sizes.forEach((n, k) => {
      if (k || dreams) put(names[k], k ? [n] : [8, 8], joined(states.map((s) => s[k])));
    });
    put("energy", [], Float32Array.from(phases.flatMap((phase) => phase.energy)));
    put("residual", [], Float32Array.from(phases.flatMap((phase) => phase.residual)));
    put("cost", [], Float32Array.from(states, (s) => (d ? costOf(lastOf(s), d) : NaN)));
    put("prediction", [classes], joined(states.map(lastOf)));
  }

  /** What the network answers to each image, and how costly that is. */
  function answers(images) {
    return images.map(([x, d], index) => {
      const start = sizes.map((n, k) => (k ? new Float64Array(n) : x));
      const { states } = settlePhase(net, start, { beta: 0, d: null, dreams: false, ...boxOf(sizes) }, "block");
      const y = lastOf(lastOf(states));
      return { index, predicted: largest(y), cost: costOf(y, d) };
    });
  }

  function examples({ order = "given", first = 0, count = 24 }) {
    let all = answers(tested);
    if (order === "wrong") all = all.filter((a) => a.predicted !== tested[a.index][2]).sort((a, b) => b.cost - a.cost);
    const some = all.slice(first, first + count);
    return {
      indices: some.map((a) => a.index),
      labels: some.map((a) => tested[a.index][2]),
      predicted: some.map((a) => a.predicted),
      total: all.length,
      arrays: {
        pixels: { shape: [some.length, 8, 8], data: joined(some.map((a) => tested[a.index][0])) },
        cost: { shape: [some.length], data: Float32Array.from(some, (a) => a.cost) },
      },
    };
  }

  /** The weights of layer k − 1 that lead to one unit of layer k. */
  function incoming(of, k, unit) {
    return Float32Array.from({ length: sizes[k - 1] }, (_, i) => of.W[k - 1][i * sizes[k] + unit]);
  }

  function unit({ layer, unit: j, input, target, side, rate }) {
    const k = names.indexOf(layer);
    const after = copyNet(net);
    if (target !== null) learnBatch(after, [[inputOf(input), targetOf(target)]], side, rate);
    const shape = k === 1 ? [8, 8] : [sizes[k - 1]];
    const [b, a] = [incoming(net, k, j), incoming(after, k, j)];
    return {
      from: names[k - 1],
      fields: { bias: net.b[k - 1][j], bias_change: after.b[k - 1][j] - net.b[k - 1][j] },
      arrays: { before: { shape, data: b }, change: { shape, data: a.map((w, i) => w - b[i]) }, after: { shape, data: a } },
    };
  }

  function fields({ layer, count = 25 }) {
    const k = names.indexOf(layer);
    const shown = Math.min(count, sizes[k]);
    const data = joined(Array.from({ length: shown }, (_, j) => incoming(net, k, j)));
    return { from: names[k - 1], arrays: { fields: { shape: [shown, ...(k === 1 ? [8, 8] : [sizes[k - 1]])], data } } };
  }

  function learn({ input, target, side, rate, times = 1 }) {
    for (let i = 0; i < times; i++) learnBatch(net, [[inputOf(input), targetOf(target)]], side, rate);
    updates += times;
    return { updates };
  }

  /** The images of update n: each epoch has an order of its own, so that the same way can be gone again. */
  function minibatch(n) {
    const batches = learned.length / MINIBATCH;
    const order = shuffled(learned.length, randomFrom(Math.floor(n / batches)));
    const first = (n % batches) * MINIBATCH;
    return order.slice(first, first + MINIBATCH).map((i) => learned[i]);
  }

  const trainOnce = (side, rate) => learnBatch(net, minibatch(updates++), side, rate);
  const testError = () => answers(tested).filter((a) => a.predicted !== tested[a.index][2]).length / tested.length;

  function train({ on, side, rate }) {
    if (!on) {
      if (training) push(training, false);
      training = null;
      return { on: false };
    }
    training = { losses: [], told: performance.now() };
    const mine = training;
    const go = () => {
      if (training !== mine) return;
      const until = performance.now() + SLICE;
      while (performance.now() < until) {
        const { cost, error } = trainOnce(side, rate);
        mine.losses.push([updates, cost, error]);
      }
      if (performance.now() - mine.told > 100) push(mine, true);
      setTimeout(go, SLICE); // half of the time is the page's
    };
    setTimeout(go, 0);
    return { on: true };
  }

  function push(mine, on) {
    hearers.progress.forEach((hear) => hear({ kind: "progress", updates, test_error: testError(), on, losses: mine.losses, arrays: {} }));
    mine.losses = [];
    mine.told = performance.now();
  }

  function weights({ to, seed = 0 }) {
    net = to === "random" ? randomNet(sizes, seed) : copyNet(opened);
    updates = 0;
    return { updates };
  }

  function replay({ did }) {
    weights({ to: "opened" });
    for (const [what, ...rest] of did) {
      if (what === "weights") weights({ to: rest[0], seed: rest[1] });
      if (what === "learn") learn({ input: rest[0], target: rest[1], times: rest[2], side: rest[3], rate: rest[5] });
      if (what === "train") for (let i = 0; i < rest[0]; i++) trainOnce(rest[1], rest[3]);
    }
    return { updates };
  }

  const hello = () => demoHello(sizes, names, tested.length, updates);
  const code = (state) => ({ code: demoCode(state, sizes, Array.from(inputOf(state.input))) });
  const kinds = { hello, settle, examples, unit, fields, learn, train, weights, replay, code };
  return {
    // What was asked is answered later, as from a server, and what fails is told to the one who asked.
    ask: (kind, asked = {}) => new Promise((resolve) => setTimeout(resolve)).then(() => ({ arrays: {}, ...kinds[kind](asked) })),
    on: (name, hear) => hearers[name]?.push(hear),
    theta: () => net, // for tests
  };
}
