// The outputs as bars: one for each label, with the target and the free answer marked.
import { largest } from "./hopfield.js";
import { brief, make } from "./dom.js";

export class Bars {
  /** @param {object} options labels; low and high of a bar; onhover(row | null, event); onpick(row) or null */
  constructor({ labels, low, high, onhover, onpick }) {
    Object.assign(this, { labels, low, high });
    this.canvas = make("canvas", { role: onpick ? "application" : "img", "aria-label": "Output bars" });
    this.element = make("div", { class: "bars" }, this.canvas);
    this.context = this.canvas.getContext("2d");
    this.target = null;
    this.cursor = 0;
    this.pinned = new Set();
    this.selected = null;
    this.values = new Float32Array(labels.length);
    this.free = null;
    this.listen(onhover, onpick);
  }

  fit(width, height, scale = 1) {
    this.scale = scale;
    this.width = Math.max(120, Math.floor(width));
    this.row = Math.min(Math.max(Math.floor(height / this.labels.length), 5), 30 * scale);
    this.height = this.row * this.labels.length;
    const dots = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * dots);
    this.canvas.height = Math.round(this.height * dots);
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.context.setTransform(dots, 0, 0, dots, 0, 0);
    this.palette();
    this.draw();
  }

  /** The colours of the page's theme. */
  palette() {
    const style = getComputedStyle(this.element);
    const colour = (name) => style.getPropertyValue(name).trim();
    this.colours = {
      ink: colour("--ink"), soft: colour("--soft"), bed: colour("--bed"), bar: colour("--bar"), best: colour("--free"),
      target: colour("--pulled"), up: colour("--up"), down: colour("--down"), family: style.fontFamily,
    };
  }

  /** Shows `data` from `offset` on, on the way to `next`; `free` is where the free answer begins in it, or −1. */
  show(data, offset, next, mix, free) {
    const n = this.labels.length;
    for (let i = 0; i < n; i++) {
      const value = data[offset + i];
      this.values[i] = mix ? value + mix * (data[next + i] - value) : value;
    }
    this.free = free < 0 ? null : data.subarray(free, free + n);
    this.draw();
  }

  draw() {
    if (!this.row) return;
    const { context: c, colours, row, labels, values, free } = this;
    const words = row >= 10;
    const size = Math.min(16 * this.scale, Math.round(row * 0.62));
    const longest = Math.max(...labels.map((label) => label.length));
    const left = words ? Math.min(this.width * 0.4, 10 + longest * size * 0.62) : 2;
    const right = words ? 46 * this.scale : 2;
    const span = this.width - left - right;
    const x = (value) => left + span * Math.min(Math.max((value - this.low) / (this.high - this.low || 1), 0), 1);
    const best = largest(values);
    c.clearRect(0, 0, this.width, this.height);
    c.textBaseline = "middle";
    for (let i = 0; i < labels.length; i++) {
      const [y, h] = [i * row + row * 0.16, row * 0.68];
      c.fillStyle = colours.bed;
      c.fillRect(left, y, span, h);
      c.fillStyle = i === best ? colours.best : colours.bar;
      c.fillRect(left, y, x(values[i]) - left, h);
      if (free) {
        c.fillStyle = values[i] > free[i] ? colours.up : colours.down;
        const [a, b] = [x(free[i]), x(values[i])].sort((p, q) => p - q);
        if (b - a > 0.7) {
          c.fillRect(a, y, b - a, h);
          c.fillStyle = colours.ink;
          c.fillRect(x(free[i]) - 1, y - row * 0.08, 2, h + row * 0.16);
        }
      }
      if (i === this.target) {
        c.strokeStyle = colours.target;
        c.lineWidth = 2;
        c.strokeRect(left - 1, y - 1, span + 2, h + 2);
      }
      if (!words) continue;
      c.font = `${i === best ? 700 : 400} ${size}px ${colours.family}`;
      c.fillStyle = colours.ink;
      c.textAlign = "right";
      c.fillText(labels[i], left - 7, (i + 0.5) * row + 1, left - 4);
      c.textAlign = "left";
      c.font = `${Math.min(12 * this.scale, size)}px ${colours.family}`;
      c.fillStyle = i === best ? colours.ink : colours.soft;
      const mark = this.pinned.has(i) ? " ●" : i === this.target ? " ◂" : "";
      c.fillText(values[i].toFixed(2).replace("-", "−") + mark, left + span + 6, (i + 0.5) * row + 1);
    }
    if (this.selected !== null || this.focused) this.ring(this.focused ? this.cursor : this.selected);
  }

  ring(i) {
    this.context.strokeStyle = this.colours.ink;
    this.context.lineWidth = 1.5;
    this.context.strokeRect(1, i * this.row + 1, this.width - 2, this.row - 2);
  }

  rowAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top) / this.row);
    return row >= 0 && row < this.labels.length ? row : null;
  }

  /** What a screen reader says of the bars. */
  describe() {
    const best = largest(this.values);
    this.canvas.setAttribute("aria-label", `Outputs. Largest: ${this.labels[best]}, ${brief(this.values[best])}`);
  }

  listen(onhover, onpick) {
    const { canvas } = this;
    canvas.addEventListener("pointermove", (event) => onhover(this.rowAt(event), event));
    canvas.addEventListener("pointerleave", (event) => onhover(null, event));
    if (!onpick) return;
    canvas.tabIndex = 0;
    canvas.classList.add("pickable");
    canvas.addEventListener("click", (event) => this.rowAt(event) !== null && onpick((this.cursor = this.rowAt(event))));
    canvas.addEventListener("keydown", (event) => {
      const moves = { ArrowUp: -1, ArrowDown: 1 };
      if (event.key in moves) {
        this.cursor = Math.min(Math.max(this.cursor + moves[event.key], 0), this.labels.length - 1);
        this.draw();
        onhover(this.cursor, event);
      } else if (event.key === "Enter" || event.key === " ") onpick(this.cursor);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    for (const name of ["focus", "blur"]) {
      canvas.addEventListener(name, (event) => {
        this.focused = name === "focus" && canvas.matches(":focus-visible");
        this.draw();
        if (name === "blur") onhover(null, event);
      });
    }
  }
}
