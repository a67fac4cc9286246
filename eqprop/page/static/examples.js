// Images of the data to look at, in their order or those that the network gets wrong.
import { choice, make, setText } from "./dom.js";
import { INK } from "./colors.js";
import { Grid } from "./grid.js";

const SHOWN = 24;

export function examplesPanel(page) {
  const { hello, session } = page;
  if (!hello.examples) return null;
  const { labels } = hello.outputs;
  const { shape, low, high } = hello.input;
  const coloured = shape.length === 3 && shape[2] === 3;
  const pixels = shape.reduce((a, b) => a * b, 1);
  let order = "given";
  let first = 0;
  let total = hello.examples;

  const thumbs = make("div", { class: "thumbs" });
  const about = make("p", { class: "hint" });
  const orders = choice("Which", [["given", "In order"], ["wrong", "Most wrong first"]], order, (value) => {
    order = value;
    first = 0;
    orders.set(value);
    load();
  });
  const back = make("button", { type: "button", onclick: () => turn(-1) }, "Earlier");
  const on = make("button", { type: "button", onclick: () => turn(1) }, "More");
  const body = make("div", { class: "panel" }, hello.abilities.wrong ? orders.element : null, thumbs, make("div", { class: "line" }, back, on), about);

  function turn(by) {
    first = Math.max(0, first + by * SHOWN);
    load();
  }

  async function load() {
    const reply = await session.ask("examples", { order, first, count: SHOWN });
    if (!reply) return;
    total = reply.total;
    const { data } = reply.arrays.pixels;
    thumbs.replaceChildren(...reply.indices.map((index, i) => thumb(reply, index, i, data)));
    back.disabled = first === 0;
    on.disabled = first + SHOWN >= total;
    const which = order === "wrong" ? `${total} ${total === 1 ? "image" : "images"} read wrongly. Under each: what it is, and how it was read.` : `${total} images.`;
    setText(about, which);
  }

  function thumb(reply, index, i, data) {
    const grid = new Grid(coloured ? shape.slice(0, 2) : shape, {});
    grid.fit(48, 48);
    if (coloured) grid.paintColours(data, i * pixels, low, high);
    else grid.paint(data, i * pixels, INK, low, high);
    const is = labels[reply.labels[i]] ?? "";
    const read = reply.predicted && reply.predicted[i] !== reply.labels[i] ? labels[reply.predicted[i]] : null;
    const name = `Example ${index}: ${is}${read === null ? "" : `, read as ${read}`}`;
    const caption = read === null ? is : make("span", { class: "wrong" }, `${is} → ${read}`);
    return make("button", { type: "button", class: "thumb", "aria-label": name, title: name, onclick: () => page.take(index) }, grid.element, caption);
  }

  return { title: "Examples", body, onopen: load, refresh: () => order === "wrong" && load() };
}
