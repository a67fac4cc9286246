// The small sign beside the pointer, with the number that lies under it.
import { brief, make } from "./dom.js";
import { unitName } from "./grid.js";

export class Tip {
  constructor(root) {
    this.root = root;
    this.element = make("div", { class: "tip", role: "status", hidden: true });
    this.about = null;
    this.again = null;
  }

  /** @param {object|null} about {layer, unit, what, value}, {output, value}, {input, value} or {curve, text} */
  show(about, event, hello) {
    this.element.hidden = about === null || event.buttons > 0; // it would be in the way of a pen
    if (this.element.hidden) return;
    this.element.textContent = `${nameOf(about, hello)}: ${about.text ?? brief(about.value)}`;
    const box = this.root.getBoundingClientRect();
    const keyed = event.type.startsWith("key") ? event.target.getBoundingClientRect() : null;
    const x = (keyed ? keyed.left : event.clientX + 14) - box.left;
    const y = (keyed ? keyed.bottom + 4 : event.clientY + 18) - box.top;
    this.element.style.left = `${Math.max(4, Math.min(x, box.width - this.element.offsetWidth - 6))}px`;
    this.element.style.top = `${y}px`;
  }
}

function nameOf(about, hello) {
  if ("curve" in about) return about.curve;
  if ("input" in about) return `input, ${unitName(hello.input.shape, about.input)}`;
  if ("output" in about) return `output ${hello.outputs.labels[about.output]}`;
  const what = { now: "", free: ", free", difference: ", difference" }[about.what];
  return `${about.layer.name}, ${unitName(about.layer.shape, about.unit)}${what}`;
}
