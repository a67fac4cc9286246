// Energy, cost and residual over the steps of all phases.
import { brief, make, setText } from "./dom.js";
import { MEANINGS } from "./words.js";

const QUANTITIES = [
  { name: "energy", title: "Energy", hint: "it slides downhill" },
  { name: "cost", title: "Cost", hint: "how far from the target", without: "none without a nudge" },
  { name: "residual", title: "Residual", hint: "how much it moves", log: true },
];
const KINDS = ["free", "pulled", "pushed"];
const SIDES = 2;
const kindOf = (beta) => (beta === 0 ? "free" : beta > 0 ? "pulled" : "pushed");

/** The colours of the page's theme, for plots. */
export function plotColours(element) {
  const style = getComputedStyle(element);
  const colour = (name) => style.getPropertyValue(name).trim();
  return {
    free: colour("--free"), pulled: colour("--pulled"), pushed: colour("--pushed"),
    soft: colour("--soft"), line: colour("--line"), family: style.fontFamily,
  };
}

/** Two axes without noise: thin lines, small grey numbers. */
export function quietAxes(colours, { xs, size = 46, scale = 1 } = {}) {
  const font = `${Math.round(11 * scale)}px ${colours.family}`;
  const grid = { stroke: colours.line, width: 1 };
  const shared = { stroke: colours.soft, font, grid, ticks: { show: false } };
  const values = (_, splits) => splits.map((value) => (value === null ? "" : brief(value).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "")));
  return [
    { ...shared, size: Math.round(22 * scale), gap: 4, values: xs ?? ((_, splits) => splits.map((value) => (Number.isInteger(value) ? value : ""))) },
    { ...shared, size: Math.round(size * scale), gap: 4, values, space: 24 * scale },
  ];
}

/** A range of numbers above 0 for a logarithmic scale, whatever the data are. */
const logRange = (_, low, high) => {
  if (!(low > 0) || !(high > 0)) return [1e-4, 1];
  return [10 ** Math.floor(Math.log10(low)), Math.max(10 ** Math.ceil(Math.log10(high)), 10 ** (Math.floor(Math.log10(low)) + 1))];
};
/** Of the lines of a logarithmic scale, those at powers of ten. */
const powerOf = (value) => Math.log10(value);
const isPower = (value) => value > 0 && Math.abs(powerOf(value) - Math.round(powerOf(value))) < 1e-6;
const decades = (_, splits) => splits.map((value) => (isPower(value) ? value : null));
const powerText = (value) => (isPower(value) ? `1e${Math.round(powerOf(value))}`.replace("-", "−") : "");
const plainRange = (_, low, high) => {
  if (low === null || high === null || !Number.isFinite(low + high)) return [0, 1];
  const room = (high - low || Math.abs(high) || 1) * 0.08;
  return [low - room, high + room];
};

/** The x and y of one quantity: a break where a phase begins, and the numbers of each side and kind of phase. */
export function curveData(timeline, arrays, name, log) {
  const xs = [];
  timeline.phases.forEach(({ first, last }, p) => {
    if (p) xs.push(first - 0.5);
    for (let k = first; k <= last; k++) xs.push(k);
  });
  const series = [];
  for (let i = 0; i < SIDES; i++) {
    const data = arrays[`${i}/${name}`]?.data;
    for (const kind of KINDS) {
      series.push(xs.map((k) => {
        const { phases } = timeline.sides[i] ?? { phases: [] };
        const p = timeline.phaseAt(k);
        if (!data || !Number.isInteger(k) || p >= phases.length || kindOf(phases[p].beta) !== kind) return null;
        if (k - timeline.phases[p].first > phases[p].last - phases[p].first) return null; // it waits for the other side
        const value = data[timeline.frame(i, k)];
        return Number.isFinite(value) && (!log || value > 0) ? value : null;
      }));
    }
  }
  return [xs, ...series];
}

class Curve {
  constructor(quantity, { onseek, onhover }) {
    Object.assign(this, { quantity, onseek, onhover });
    this.value = make("output", {});
    this.hint = make("small", {}, quantity.hint);
    this.place = make("div", { class: "plot" });
    this.line = make("i", { class: "now" });
    this.element = make("div", { class: "curve", role: "group", "aria-label": `${quantity.title} over the steps` },
      make("h3", { title: MEANINGS[quantity.name] }, quantity.title, this.hint, this.value), this.place);
    this.data = null;
  }

  build(width, scale) {
    this.plot?.destroy();
    const colours = plotColours(this.element);
    const paths = { spanGaps: false, points: { show: false }, width: 2 * scale };
    const series = Array.from({ length: SIDES }, (_, i) =>
      KINDS.map((kind) => ({ ...paths, stroke: colours[kind], dash: i ? [5, 4] : undefined }))).flat();
    const vertical = this.quantity.log ? { distr: 3, range: logRange } : { range: plainRange };
    const [xAxis, yAxis] = quietAxes(colours, { scale });
    const line = this.quantity.log ? { values: (_, splits) => splits.map(powerText), grid: { ...yAxis.grid, filter: decades } } : {};
    this.plot = new uPlot({
      width, height: Math.round(132 * scale), series: [{}, ...series],
      scales: { x: { time: false, range: (_, low, high) => [low ?? 0, Math.max(high ?? 1, (low ?? 0) + 1)] }, y: vertical },
      axes: [xAxis, { ...yAxis, ...line }],
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, y: false, points: { show: false }, x: false },
      hooks: { drawClear: [(u) => this.shade(u, colours)] },
      padding: [8, 10, 0, 0],
    }, this.data ?? [[0], ...series.map(() => [null])], this.place);
    this.plot.over.append(this.line);
    const stepOf = (event) => Math.min(Math.max(Math.round(this.plot.posToVal(event.offsetX, "x")), 0), this.timeline.length - 1);
    this.plot.over.addEventListener("click", (event) => this.onseek(stepOf(event)));
    this.plot.over.addEventListener("pointermove", (event) => this.onhover({ curve: this.quantity.title, text: this.valueAt(stepOf(event)) }, event));
    this.plot.over.addEventListener("pointerleave", (event) => this.onhover(null, event));
  }

  /** A line where each nudge begins. */
  shade(u, colours) {
    const c = u.ctx;
    c.save();
    c.setLineDash([4, 4]);
    for (const { first, beta } of this.timeline?.phases.slice(1) ?? []) {
      const x = u.valToPos(first - 0.5, "x", true);
      c.strokeStyle = c.fillStyle = colours[kindOf(beta)];
      c.beginPath();
      c.moveTo(x, u.bbox.top);
      c.lineTo(x, u.bbox.top + u.bbox.height);
      c.stroke();
    }
    c.restore();
  }

  take(timeline, arrays) {
    this.timeline = timeline;
    this.data = curveData(timeline, arrays, this.quantity.name, this.quantity.log);
    this.sides = timeline.sides.map((_, i) => arrays[`${i}/${this.quantity.name}`].data);
    const empty = this.data.slice(1).every((ys) => ys.every((y) => y === null));
    this.element.classList.toggle("empty", empty);
    setText(this.hint, empty ? (this.quantity.without ?? this.quantity.hint) : this.quantity.hint);
    this.plot?.setData(this.data);
  }

  /** The line at the position now, and the numbers of the whole step `k`. */
  show(position, k) {
    if (!this.plot) return;
    this.line.style.transform = `translateX(${this.plot.valToPos(position, "x")}px)`;
    setText(this.value, this.valueAt(k));
  }

  /** The numbers of a step, of both sides if there are two. */
  valueAt(k) {
    return this.sides.map((data, i) => brief(data[this.timeline.frame(i, k)])).join(" | ");
  }
}

/** The three curves beside each other. */
export class Curves {
  constructor(events) {
    this.curves = QUANTITIES.map((quantity) => new Curve(quantity, events));
    this.element = make("section", { class: "curves", "aria-label": "Curves" }, ...this.curves.map((curve) => curve.element));
  }

  fit(width, narrow, scale) {
    const each = narrow ? width : (width - 2 * 28) / 3;
    if (Math.abs(each - this.width) < 1 && scale === this.scale) return;
    Object.assign(this, { width: each, scale });
    this.rebuild();
  }

  /** Draws all anew, in the colours of the theme. */
  rebuild() {
    this.curves.forEach((curve) => curve.build(Math.floor(this.width), this.scale));
  }

  take(timeline, arrays) {
    this.curves.forEach((curve) => curve.take(timeline, arrays));
  }

  show(position, k) {
    this.curves.forEach((curve) => curve.show(position, k));
  }
}
