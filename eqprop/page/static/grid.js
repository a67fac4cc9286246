// One array of numbers as a picture: vectors as a grid of cells, images as they are, feature maps beside each other.

/** How many columns a grid of n cells has: a number that divides n if one fits, a little wider than high. */
export function columnsFor(n) {
  const side = Math.ceil(Math.sqrt(n));
  for (let columns = side; columns <= 2 * side; columns++) if (n % columns === 0) return columns;
  return side;
}

/**
 * Where each number of an array goes in its picture.
 * @param {number[]} shape [n], [h, w], or [h, w, c] for c feature maps with a line between them
 */
export function placing(shape) {
  if (shape.length < 2) {
    const n = shape[0] ?? 1;
    const columns = n <= 12 ? n : columnsFor(n);
    return { width: columns, height: Math.ceil(n / columns), place: null, gaps: false };
  }
  const [h, w] = shape;
  const c = shape[2] ?? 1;
  if (c === 1) return { width: w, height: h, place: null, gaps: false };
  const columns = Math.min(c, Math.ceil(Math.sqrt((c * (h + 1)) / (w + 1))));
  const rows = Math.ceil(c / columns);
  const width = columns * (w + 1) - 1;
  const place = new Int32Array(h * w * c);
  for (let i = 0; i < place.length; i++) {
    const map = i % c;
    const x = Math.floor(i / c) % w;
    const y = Math.floor(i / (c * w));
    place[i] = (Math.floor(map / columns) * (h + 1) + y) * width + (map % columns) * (w + 1) + x;
  }
  return { width, height: rows * (h + 1) - 1, place, gaps: true };
}

/** The name of a unit for people: "unit 17", or "map 3, row 1, column 4". */
export function unitName(shape, unit) {
  if (shape.length < 2) return `unit ${unit}`;
  const [, w, c = 1] = shape;
  const pixel = Math.floor(unit / c);
  const where = `row ${Math.floor(pixel / w) + 1}, column ${(pixel % w) + 1}`;
  return c > 1 ? `map ${(unit % c) + 1}, ${where}` : where;
}

export class Grid {
  /**
   * @param {number[]} shape
   * @param {object} options label: its name for screen readers; onhover(unit | null, event); onpick(unit, event)
   */
  constructor(shape, { label, onhover = null, onpick = null } = {}) {
    this.shape = shape;
    this.count = shape.reduce((a, b) => a * b, 1);
    Object.assign(this, placing(shape));
    this.unitOf = null; // by pixel, made when first needed
    this.canvas = document.createElement("canvas");
    this.canvas.width = this.width;
    this.canvas.height = this.height;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", label ?? "");
    this.context = this.canvas.getContext("2d");
    this.image = this.context.createImageData(this.width, this.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.element = document.createElement("div");
    this.element.className = "grid";
    this.lines = document.createElement("i");
    this.lines.className = "lines";
    this.element.append(this.canvas, this.lines);
    this.cursor = 0;
    if (onpick || onhover) this.listen(onhover ?? (() => {}), onpick);
  }

  /** As large as fits into so many pixels of the screen, in whole pixels per cell where cells are large. */
  fit(width, height = Infinity) {
    const cell = Math.min(width / this.width, height / this.height);
    this.cell = cell >= 2 ? Math.floor(cell) : cell;
    this.canvas.classList.toggle("fine", cell < 2); // cells of uneven width would show a pattern that is not there
    const w = `${this.cell * this.width}px`;
    const h = `${this.cell * this.height}px`;
    if (this.element.style.width === w && this.element.style.height === h) return;
    this.element.style.width = w;
    this.element.style.height = h;
    const lined = this.cell >= 9 && !this.gaps;
    this.lines.style.display = lined ? "" : "none";
    this.lines.style.backgroundSize = `${this.cell}px ${this.cell}px`;
  }

  /** Paints `values` from `offset` on; with `mix`, on the way from there to `next`. */
  paint(values, offset, table, low, high, next = offset, mix = 0) {
    const scale = 255 / (high - low || 1);
    const { pixels, place, count } = this;
    for (let i = 0; i < count; i++) {
      let value = values[offset + i];
      if (mix) value += mix * (values[next + i] - value);
      const level = (value - low) * scale;
      pixels[place ? place[i] : i] = table[level <= 0 ? 0 : level >= 255 ? 255 : (level + 0.5) | 0];
    }
    this.context.putImageData(this.image, 0, 0);
  }

  /** Paints a difference, with 0 in the middle of the table. */
  paintDifference(values, offset, minus, table, most, next = offset, mix = 0) {
    const scale = 127.5 / (most || 1);
    const { pixels, place, count } = this;
    for (let i = 0; i < count; i++) {
      let value = values[offset + i];
      if (mix) value += mix * (values[next + i] - value);
      const level = 127.5 + (value - values[minus + i]) * scale;
      pixels[place ? place[i] : i] = table[level <= 0 ? 0 : level >= 255 ? 255 : (level + 0.5) | 0];
    }
    this.context.putImageData(this.image, 0, 0);
  }

  /** Paints numbers in [low, high] of red, green and blue. */
  paintColours(values, offset, low, high) {
    const bytes = this.image.data;
    const scale = 255 / (high - low || 1);
    for (let i = 0; i < bytes.length / 4; i++) {
      for (let c = 0; c < 3; c++) bytes[4 * i + c] = (values[offset + 3 * i + c] - low) * scale;
      bytes[4 * i + 3] = 255;
    }
    this.context.putImageData(this.image, 0, 0);
  }

  /** The unit under a pointer, or null. */
  unitAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = Math.floor(((event.clientX - box.left) / box.width) * this.width);
    const y = Math.floor(((event.clientY - box.top) / box.height) * this.height);
    if (x < 0 || y < 0 || x >= this.width || y >= this.height) return null;
    const pixel = y * this.width + x;
    if (!this.place) return pixel < this.count ? pixel : null;
    this.unitOf ??= this.place.reduce((units, at, unit) => ((units[at] = unit), units), new Int32Array(this.pixels.length).fill(-1));
    return this.unitOf[pixel] < 0 ? null : this.unitOf[pixel];
  }

  /** Where a unit is within the element, in pixels of the screen. */
  boxOfUnit(unit) {
    const at = this.place ? this.place[unit] : unit;
    return { x: (at % this.width) * this.cell, y: Math.floor(at / this.width) * this.cell, size: this.cell };
  }

  listen(onhover, onpick) {
    this.canvas.addEventListener("pointermove", (event) => onhover(this.unitAt(event), event));
    this.canvas.addEventListener("pointerleave", (event) => onhover(null, event));
    if (!onpick) return;
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.classList.add("pickable");
    this.canvas.addEventListener("click", (event) => {
      const unit = this.unitAt(event);
      if (unit !== null) onpick((this.cursor = unit), event);
    });
    this.canvas.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.width, ArrowDown: this.width };
      if (event.key in moves) {
        const next = this.cursor + (this.place ? Math.sign(moves[event.key]) : moves[event.key]);
        this.cursor = Math.min(Math.max(next, 0), this.count - 1);
        onhover(this.cursor, event);
      } else if (event.key === "Enter" || event.key === " ") onpick(this.cursor, event);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    this.canvas.addEventListener("blur", (event) => onhover(null, event));
  }
}
