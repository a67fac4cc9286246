// Training on the data: start, stop, curves, and the receptive fields of the first layer.
import { plotColours, quietAxes } from "./curves.js";
import { make, setText } from "./dom.js";
import { fieldGrid } from "./units.js";

const FIELDS = 25;
const MOST_POINTS = 4000;
const SMOOTH = 0.05; // how much a new minibatch counts in the curves of cost and error

export function trainPanel(page) {
  const { hello, session } = page;
  if (!hello.abilities.train) return null;
  const toggle = make("button", { type: "button", class: "main-action", onclick: () => set(!training) });
  const random = make("button", { type: "button", onclick: () => fresh("random") }, "Random weights");
  const opened = make("button", { type: "button", title: "The weights that the page was opened with", onclick: () => fresh("opened") }, "First weights");
  const told = make("p", { class: "told", role: "status" });
  const place = make("div", { class: "plot" });
  const legend = make("p", { class: "legend" }, make("i", { class: "free" }), "cost ", make("i", { class: "pushed" }), "error while training ", make("i", { class: "pulled" }), "test error");
  const pictures = make("div", { class: "fields small" });
  const fieldsTitle = make("p", { class: "hint" });
  const body = make("div", { class: "panel" }, make("div", { class: "line" }, toggle, random, opened), told, place, legend, fieldsTitle, pictures);
  let training = false;
  let seed = 0;
  let points = [[], [], [], []]; // updates, cost, error, test error
  let plot = null;
  let begun = null; // what is being done, for the address
  let askingFields = false;

  const isOpen = () => Boolean(body.closest("details")?.open);

  async function set(on) {
    const { rule, rate } = session.state;
    const side = { ...session.side };
    const reply = await session.ask("train", { on, side, rule, rate });
    if (!reply) return;
    if (on) begun = { side, rule, rate, from: null, did: session.state.did };
    training = reply.on;
    show();
  }

  async function fresh(to) {
    if (training) await set(false);
    await session.weights(to, to === "random" ? seed++ : 0);
    points = [[], [], [], []];
    draw();
    setText(told, to === "random" ? "Fresh random weights: it knows nothing yet." : "");
    refreshFields();
  }

  function progress(news) {
    if (news.error) page.fail(news.error);
    training = news.on;
    for (const [update, cost, error] of news.losses ?? []) {
      const last = points[0].length - 1;
      const mixed = (ys, value) => (last < 0 ? value : ys[last] + SMOOTH * (value - ys[last]));
      const [smoothCost, smoothError] = [mixed(points[1], cost), mixed(points[2], error)];
      [update, smoothCost, smoothError, null].forEach((value, i) => points[i].push(value));
      if (begun && begun.from === null) begun.from = update - 1;
    }
    if (news.test_error !== null && points[0].length) points[3][points[0].length - 1] = news.test_error;
    thin();
    if (begun && begun.from !== null) {
      const { from, did, side, rule, rate } = begun;
      session.change({ did: [...did, { kind: "train", updates: news.updates - from, side, rule, rate }] }, null);
    }
    setText(told, `${news.updates} minibatches${testText()}`);
    show();
    draw();
    session.settle({ here: true, then: "rest" });
    refreshFields();
  }

  function testText() {
    const tests = points[3].filter((value) => value !== null);
    return tests.length ? `, test error ${(100 * tests[tests.length - 1]).toFixed(1)} %` : "";
  }

  /** Keeps every other point, and all test errors, when there are too many to see. */
  function thin() {
    if (points[0].length < MOST_POINTS) return;
    const tests = points[3];
    points = points.map((ys) => ys.filter((_, k) => k % 2 === 0 || tests[k] !== null));
  }

  function show() {
    setText(toggle, training ? "Stop" : "Train on the data");
    random.disabled = opened.disabled = false;
  }

  function draw() {
    if (!isOpen()) return;
    const width = Math.max(160, body.clientWidth);
    if (plot && plot.width !== width) {
      plot.destroy();
      plot = null;
    }
    if (plot) return plot.setData(points);
    const colours = plotColours(body);
    const line = { width: 1.8, points: { show: false } };
    plot = new uPlot({
      width, height: 150,
      series: [{}, { ...line, stroke: colours.free }, { ...line, stroke: colours.pushed }, { ...line, stroke: colours.pulled, spanGaps: true, width: 2.4 }],
      scales: { x: { time: false, range: (_, low, high) => [low ?? 0, Math.max(high ?? 1, (low ?? 0) + 1)] }, y: { range: (_, low, high) => [0, Math.max(high ?? 1, 0.05) * 1.05] } },
      axes: quietAxes(colours, { size: 38 }), legend: { show: false }, cursor: { show: false }, padding: [8, 16, 0, 0],
    }, points, place);
  }

  async function refreshFields() {
    if (!isOpen() || askingFields) return;
    askingFields = true;
    const reply = await session.ask("fields", { layer: hello.layers[0].name, count: FIELDS });
    askingFields = false;
    if (!reply) return;
    const { shape, data } = reply.arrays.fields;
    const each = shape.slice(1);
    const n = each.reduce((a, b) => a * b, 1);
    let most = 0;
    for (const value of data) most = Math.max(most, Math.abs(value));
    setText(fieldsTitle, `Weights from ${reply.from === "input" ? "the input" : reply.from} to the first ${shape[0]} units of ${hello.layers[0].name}`);
    const columns = Math.ceil(Math.sqrt(shape[0]));
    const size = Math.floor(Math.min(body.clientWidth, 320) / columns) - 4;
    pictures.replaceChildren(...Array.from({ length: shape[0] }, (_, i) => fieldGrid({ shape: each, data: data.subarray(i * n, (i + 1) * n) }, most, page.theme, size).element));
  }

  function onopen() {
    draw();
    refreshFields();
  }
  function repaint() {
    plot?.destroy();
    plot = null;
    onopen();
  }
  show();
  return { title: "Train on the data", body, onopen, progress, repaint, refresh: refreshFields, set };
}
