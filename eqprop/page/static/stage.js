// One side of the scene: the layers of a network in a row, and its outputs as bars.
import { Bars } from "./bars.js";
import { contrastTable, STATES } from "./colors.js";
import { brief, make, setText } from "./dom.js";
import { Grid } from "./grid.js";

/** The least and the largest number of an array; an interval of some width, whatever they are. */
export function rangeOf(data, from = 0, to = data.length) {
  let low = Infinity;
  let high = -Infinity;
  for (let i = from; i < to; i++) {
    if (data[i] < low) low = data[i];
    if (data[i] > high) high = data[i];
  }
  return low < high ? [low, high] : [Number.isFinite(low) ? low - 0.5 : 0, Number.isFinite(low) ? low + 0.5 : 1];
}

const LEAST = 90; // pixels of the screen for a layer in a row

/** A layer: its state now, and beside the free state and the difference if they are asked for. */
class LayerCard {
  constructor(layer, { onhover, onpick }) {
    this.layer = layer;
    const label = (what) => `Layer ${layer.name}, ${layer.shape.join(" × ")} units${what}`;
    const hover = (what) => (unit, event) => onhover(this, what, unit, event);
    const pick = onpick && ((unit) => onpick(layer.name, unit));
    this.now = new Grid(layer.shape, { label: label(""), onhover: hover("now"), onpick: pick });
    this.free = new Grid(layer.shape, { label: label(", free"), onhover: hover("free") });
    this.difference = new Grid(layer.shape, { label: label(", difference"), onhover: hover("difference") });
    this.scale = make("figcaption", { class: "only-triple" });
    this.element = make("div", { class: "card layer" },
      make("h3", {}, layer.name, make("small", {}, layer.shape.length > 1 ? layer.shape.join("×") : `${layer.shape[0]} units`)),
      make("figure", { class: "only-triple" }, this.free.element, make("figcaption", {}, "free")),
      make("figure", {}, this.now.element, make("figcaption", { class: "only-triple" }, "now")),
      make("figure", { class: "only-triple" }, this.difference.element, this.scale),
    );
    this.marks = new Map();
  }

  fit(width, height) {
    for (const grid of [this.now, this.free, this.difference]) grid.fit(width, height);
    this.element.style.width = `${Math.max(this.now.cell * this.now.width, 64)}px`;
    this.marks.forEach((mark) => this.position(mark));
  }

  /** Takes the numbers of a new settling. */
  take({ data }, freeEnd) {
    const n = this.now.count;
    Object.assign(this, { data, freeAt: freeEnd * n, most: null });
    const { low, high } = this.layer;
    this.range = low !== null && high !== null ? [low, high] : rangeOf(data);
  }

  /** The largest difference from the free state in any nudged step: the ends of the scale. */
  largestDifference() {
    if (this.most !== null) return this.most;
    const n = this.now.count;
    let most = 0;
    for (let i = this.freeAt + n; i < this.data.length; i++) {
      const size = Math.abs(this.data[i] - this.data[this.freeAt + ((i - this.freeAt) % n)]);
      if (size > most) most = size;
    }
    return (this.most = most);
  }

  show(frame, next, mix, triple, theme) {
    const n = this.now.count;
    const [low, high] = this.range;
    this.at = frame * n;
    this.now.paint(this.data, this.at, STATES, low, high, next * n, mix);
    if (!triple) return;
    const nudged = this.at > this.freeAt;
    const at = nudged ? this.at : this.freeAt; // on the way to the free state there is no nudge to see
    const most = this.largestDifference();
    this.free.paint(this.data, this.freeAt, STATES, low, high);
    this.difference.paintDifference(this.data, at, this.freeAt, contrastTable(theme), most, nudged ? next * n : at, nudged ? mix : 0);
    setText(this.scale, most ? `difference, ±${brief(most)}` : "difference: none without a nudge");
  }

  valueOf(what, unit) {
    const free = this.data[this.freeAt + unit];
    const now = this.data[this.at + unit];
    return what === "free" ? free : what === "now" ? now : this.at > this.freeAt ? now - free : 0;
  }

  /** Rings around units: {kind: unit | null} with kinds "selected" and "pin17". */
  mark(wanted) {
    this.marks.forEach((mark) => mark.element.remove());
    this.marks.clear();
    for (const [kind, unit] of wanted) {
      const mark = { unit, element: make("i", { class: `mark ${kind}` }) };
      this.marks.set(`${kind}${unit}`, mark);
      this.now.element.append(mark.element);
      this.position(mark);
    }
  }

  position({ unit, element }) {
    const { x, y, size } = this.now.boxOfUnit(unit);
    Object.assign(element.style, { left: `${x}px`, top: `${y}px`, width: `${size}px`, height: `${size}px` });
  }
}

export class Stage {
  /** @param {object} events onhover(text | null, event), onpick(layer, unit) or null */
  constructor(hello, { onhover, onpick }) {
    this.hello = hello;
    const { labels } = hello.outputs;
    this.outputs = labels.length ? hello.outputs.layer : null; // without labels it is a layer like others
    const named = (card, what, unit, event) => onhover(unit === null ? null : { layer: card.layer, unit, what, value: card.valueOf(what, unit) }, event);
    this.cards = hello.layers.filter((layer) => layer.name !== this.outputs).map((layer) => new LayerCard(layer, { onhover: named, onpick }));
    const output = hello.layers.find((layer) => layer.name === this.outputs);
    this.bounds = output && output.low !== null && output.high !== null ? [output.low, output.high] : null;
    this.bars = new Bars({
      labels,
      low: 0,
      high: 1,
      onhover: (row, event) => onhover(row === null ? null : { output: row, value: this.bars.values[row] }, event),
      onpick: output && onpick ? (row) => onpick(this.outputs, row) : null,
    });
    this.title = make("h3", { class: "side" });
    this.reads = make("p", { class: "reads" });
    this.barsCard = make("div", { class: "card outputs", hidden: !labels.length }, make("h3", {}, this.outputs ?? "prediction"), this.bars.element, this.reads);
    this.row = make("div", { class: "row" }, ...this.cards.map((card) => card.element), this.barsCard);
    this.element = make("div", { class: "stage" }, this.title, this.row);
  }

  /** As wide as there is room: all in a row if they fit, otherwise in several rows or one under the other. */
  fit(width, narrow, triple, scale) {
    const count = this.cards.length;
    const hasBars = this.bars.labels.length > 0;
    const gap = count > 2 ? 30 : 40;
    const share = (width - gap * (count + 1)) / (count + (hasBars ? 1 : 0));
    const inRow = !narrow && share >= LEAST;
    const stacked = !inRow && (narrow || count < 2);
    const perRow = inRow ? count : stacked ? 1 : Math.max(1, Math.floor(width / (LEAST + gap + 20)));
    const bars = !hasBars ? 0 : inRow ? Math.min(Math.max(share, 150), 300 * scale) : Math.min(width - 12, 340);
    const each = inRow ? (width - bars - gap * (count + 1)) / count : width / perRow - (stacked ? 30 : gap);
    this.element.classList.toggle("stacked", stacked);
    this.element.classList.toggle("wrapped", !stacked && !inRow);
    this.row.style.columnGap = `${gap}px`;
    this.cards.forEach((card) => card.fit(Math.min(Math.max(each, 50), 320 * scale), scale * (triple ? 130 : inRow ? 260 : 200)));
    if (bars) this.bars.fit(bars, scale * (narrow ? 260 : inRow ? 290 : 230), scale);
  }

  /** Takes the arrays of side i of a new settling. */
  take(arrays, i, timeline) {
    const freeEnd = timeline.freeEnd(i);
    this.cards.forEach((card) => card.take(arrays[`${i}/${card.layer.name}`], freeEnd));
    this.prediction = arrays[`${i}/prediction`]?.data ?? new Float32Array(0);
    this.freeEnd = freeEnd;
    this.ready = true;
    [this.bars.low, this.bars.high] = this.bounds ?? this.barsRange();
  }

  /** Shares of classes go from 0 to 1; other outputs without bounds as far as they get. */
  barsRange() {
    const [low, high] = rangeOf(this.prediction);
    return low >= 0 && high <= 1 ? [0, 1] : [Math.min(low, 0), high];
  }

  show(frame, next, mix, triple, theme) {
    const n = this.bars.labels.length;
    if (!this.ready) return;
    this.cards.forEach((card) => card.show(frame, next, mix, triple, theme));
    if (n) this.bars.show(this.prediction, frame * n, next * n, mix, frame > this.freeEnd ? this.freeEnd * n : -1);
  }

  /** Rings around the selected unit and around those that are held. */
  mark(selected, clamp) {
    this.cards.forEach(({ layer, mark }, i) => {
      const held = clamp.filter((pin) => pin.layer === layer.name && pin.unit !== null).map((pin) => ["pinned", pin.unit]);
      const chosen = selected && selected.layer === layer.name ? [["selected", selected.unit]] : [];
      mark.call(this.cards[i], [...held, ...chosen]);
      this.cards[i].element.classList.toggle("held", clamp.some((pin) => pin.layer === layer.name && pin.unit === null));
    });
    this.bars.pinned = new Set(clamp.filter((pin) => pin.layer === this.outputs).flatMap((pin) => (pin.unit === null ? [...this.bars.labels.keys()] : [pin.unit])));
    this.bars.selected = selected && selected.layer === this.outputs ? selected.unit : null;
    this.bars.draw();
  }

  repaint() {
    this.bars.palette();
    this.bars.draw();
  }
}
