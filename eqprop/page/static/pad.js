// The input: a picture that can be drawn on, with mouse, pen or finger.
import { INK } from "./colors.js";
import { choice, make, slider } from "./dom.js";
import { Grid } from "./grid.js";
import { levelled } from "./packing.js";

/** How far a point is from the piece of a line between two others. */
function distanceTo([px, py], [ax, ay], [bx, by]) {
  const [dx, dy] = [bx - ax, by - ay];
  const length = dx * dx + dy * dy;
  const t = length ? Math.min(Math.max(((px - ax) * dx + (py - ay) * dy) / length, 0), 1) : 0;
  return Math.hypot(px - ax - t * dx, py - ay - t * dy);
}

/** Draws a line with soft edges into pixels of [0, 1], h × w; where it erases, it takes away. */
export function brush(pixels, [h, w], from, to, radius, erases) {
  for (let y = 0; y < h; y++) {
    for (let x = 0; x < w; x++) {
      const covered = Math.min(Math.max(radius + 0.5 - distanceTo([x + 0.5, y + 0.5], from, to), 0), 1);
      const i = y * w + x;
      pixels[i] = erases ? Math.min(pixels[i], 1 - covered) : Math.max(pixels[i], covered);
    }
  }
}

const LEAST_WIDTH = 184; // of the pen's tools

export class Pad {
  /** @param {object} events ondraw(pixels, done): after each piece of a stroke and at its end; onhover */
  constructor(input, { ondraw, onhover }) {
    this.input = input;
    this.ondraw = ondraw;
    const { shape } = input;
    this.colours = shape.length === 3 && shape[2] === 3;
    this.size = shape.length === 1 ? null : shape.slice(0, 2);
    this.grid = new Grid(this.colours ? this.size : shape, {
      label: input.drawable ? "Input: draw here" : "Input",
      onhover: (unit, event) => onhover(unit === null || this.colours ? null : { input: unit, value: this.values[unit] }, event),
    });
    this.values = new Float32Array(this.grid.count * (this.colours ? 3 : 1)).fill(input.low);
    this.erases = false;
    this.radius = this.size ? Math.max(0.7, 0.05 * this.size[0]) : 1;
    this.element = make("div", { class: "card input" }, make("h3", {}, "input", make("small", {}, shape.join("×"))), this.grid.element);
    if (input.drawable) {
      this.grid.canvas.classList.add("drawable");
      this.listen();
      this.element.append(this.tools());
    }
  }

  tools() {
    const mode = choice("Pen", [[false, "Draw"], [true, "Erase"]], false, (erases) => {
      this.erases = erases;
      mode.set(erases);
    });
    const side = this.size[0];
    const width = slider({
      label: "Pen", min: 0.5, max: Math.max(1.6, 0.12 * side), step: 0.05, value: this.radius,
      format: (r) => `${(2 * r).toFixed(1)} px`, oninput: (r) => (this.radius = r),
    });
    const clear = make("button", { type: "button", onclick: () => this.clear() }, "Clear");
    return make("div", { class: "tools" }, make("div", { class: "line" }, mode.element, clear), width.element);
  }

  fit(width, height) {
    this.grid.fit(width, height);
    this.element.style.width = `${Math.max(this.grid.cell * this.grid.width, LEAST_WIDTH)}px`;
  }

  /** Shows the numbers of an input; `offset` is for those of a dream, which has many. */
  show(values, offset = 0, next = offset, mix = 0) {
    const { low, high } = this.input;
    const [from, to] = low === null || high === null ? [Math.min(...values), Math.max(...values)] : [low, high];
    this.values = values.subarray(offset, offset + this.values.length);
    if (this.colours) this.grid.paintColours(values, offset, from, to);
    else this.grid.paint(values, offset, INK, from, to, next, mix);
  }

  clear() {
    this.values = new Float32Array(this.values.length).fill(this.input.low);
    this.show(this.values);
    this.ondraw([...this.values], true);
  }

  /** Where a pointer is, in pixels of the picture. */
  pointOf(event) {
    const box = this.grid.canvas.getBoundingClientRect();
    const [h, w] = this.size;
    return [((event.clientX - box.left) / box.width) * w, ((event.clientY - box.top) / box.height) * h];
  }

  stroke(from, to, done) {
    const { low, high } = this.input;
    const shares = Float32Array.from(this.values, (value) => (value - low) / (high - low));
    brush(shares, this.size, from, to, this.radius, this.erases);
    this.values = Float32Array.from(shares, (share) => levelled(low + share * (high - low), low, high));
    this.show(this.values);
    this.ondraw([...this.values], done);
  }

  listen() {
    const { canvas } = this.grid;
    let last = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      last = this.pointOf(event);
      this.stroke(last, last, false);
      event.preventDefault();
    });
    canvas.addEventListener("pointermove", (event) => {
      if (last === null) return;
      // A fast hand moves several times between two frames: all points of its way count.
      const points = (event.getCoalescedEvents?.() ?? []).map((each) => this.pointOf(each));
      for (const point of points.length ? points : [this.pointOf(event)]) {
        this.stroke(last, point, false);
        last = point;
      }
    });
    const end = () => {
      if (last === null) return;
      last = null;
      this.ondraw([...this.values], true);
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
  }
}
