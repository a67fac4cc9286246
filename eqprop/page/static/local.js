// The backend without a server: a small network that settles and learns in the browser, for the documentation.
import { DEMO } from "./demo-data.js";
import { bytesFromText, floatsFromText } from "./packing.js";
import { randomFrom, randomNet, shuffled } from "./random.js";
import { boxOf, copyNet, costOf, largest, learnBatch, projectState, restOf, settlePhases, withDrive } from "./hopfield.js";
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
function joined(rows) {
  const all = new Float32Array(rows.length * (rows[0]?.length ?? 0));
  rows.forEach((row, i) => all.set(row, i * row.length));
  return all;
}

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

  /** What the network answers to these of the test images, and how costly that is. */
  function answers(indices) {
    const box = boxOf(sizes);
    return [...indices].map((index) => {
      const [x, d] = tested[index];
      const start = sizes.map((n, k) => (k ? new Float64Array(n) : x));
      const problem = withDrive(net, x, { beta: 0, d: null, dreams: false, ...box });
      const y = lastOf(restOf(net, start, problem, "block", "forward"));
      return { index, predicted: largest(y), cost: costOf(y, d) };
    });
  }

  function examples({ order = "given", first = 0, count = 24 }) {
    const wrong = () => answers(tested.keys()).filter((a) => a.predicted !== tested[a.index][2]).sort((a, b) => b.cost - a.cost);
    const all = order === "wrong" ? wrong() : null;
    const some = all ? all.slice(first, first + count) : answers([...tested.keys()].slice(first, first + count));
    return {
      indices: some.map((a) => a.index),
      labels: some.map((a) => tested[a.index][2]),
      predicted: some.map((a) => a.predicted),
      total: all ? all.length : tested.length,
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
    const shape = k === 1 ? [8, 8] : [sizes[k - 1]];
    const before = incoming(net, k, j);
    const arrays = { before: { shape, data: before } };
    if (target !== null) {
      const learned = copyNet(net);
      learnBatch(learned, [[inputOf(input), targetOf(target)]], side, rate);
      const after = incoming(learned, k, j);
      Object.assign(arrays, { change: { shape, data: after.map((w, i) => w - before[i]) }, after: { shape, data: after } });
    }
    return { from: names[k - 1], arrays };
  }

  function fields({ layer, count = 25 }) {
    const k = names.indexOf(layer);
    const shown = Math.min(count, sizes[k]);
    const data = joined(Array.from({ length: shown }, (_, j) => incoming(net, k, j)));
    return { from: names[k - 1], arrays: { fields: { shape: [shown, ...(k === 1 ? [8, 8] : [sizes[k - 1]])], data } } };
  }

  function learn({ input, target, side, rate, times = 1 }) {
    if (target === null) throw new Error("Choose what the answer should be, to learn it.");
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
  const testError = () => answers(tested.keys()).filter((a) => a.predicted !== tested[a.index][2]).length / tested.length;

  function train({ on, side, rate }) {
    if (!on) {
      if (training) push(training, false);
      training = null;
      return { on: false };
    }
    training = { losses: [], told: performance.now(), tested: -Infinity };
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
    const due = !on || performance.now() - mine.tested > 500; // all test images take as long as many minibatches
    if (due) mine.tested = performance.now();
    const news = { kind: "progress", updates, test_error: due ? testError() : null, on, losses: mine.losses, arrays: {} };
    hearers.progress.forEach((hear) => hear(news));
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
    for (const thing of did) {
      if (thing.kind === "weights") weights(thing);
      if (thing.kind === "learn") learn(thing);
      if (thing.kind === "train") for (let i = 0; i < thing.updates; i++) trainOnce(thing.side, thing.rate);
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
