// One unit: the weights that lead to it, how learning would change them, and a hand to hold it.
import { contrastTable } from "./colors.js";
import { brief, make, setText, slider } from "./dom.js";
import { Grid, unitName } from "./grid.js";

/** The largest absolute value. */
function sizeOf(data) {
  let most = 0;
  for (const value of data) most = Math.max(most, Math.abs(value));
  return most;
}

/** Weights as a picture, 0 in the middle of the colours. */
export function fieldGrid({ shape, data }, most, theme, width, height = width, label = "") {
  const picture = shape.length === 3 && shape[2] === 3 ? [...shape.slice(0, 2), 3] : shape;
  const grid = new Grid(picture, { label });
  grid.fit(width, height);
  grid.paint(data, 0, contrastTable(theme), -most || -1, most || 1);
  return grid;
}

export function unitPanel(page) {
  const { hello, session } = page;
  if (!hello.abilities.unit && !hello.abilities.clamp) return null;
  const title = make("p", { class: "unit-name" }, "Click a unit of a layer, or a bar.");
  const pictures = make("div", { class: "fields" });
  const hint = make("p", { class: "hint" });
  const hold = make("div", { class: "hold" });
  const body = make("div", { class: "panel" }, title, pictures, hint, hold);
  let asking = false;
  let again = false;

  /** Holds the unit, or lets it go; `value` null lets go. */
  function pin(value) {
    const { layer, unit } = page.selected;
    const others = session.state.clamp.filter((each) => each.layer !== layer || each.unit !== unit);
    session.change({ clamp: value === null ? others : [...others, { layer, unit, value }] }, { here: true, then: "play" });
  }

  function showHold() {
    if (!hello.abilities.clamp) return;
    const { layer, unit } = page.selected;
    const held = session.state.clamp.find((each) => each.layer === layer && each.unit === unit);
    const { low, high } = hello.layers.find((each) => each.name === layer);
    const [from, to] = [low ?? -2, high ?? 2];
    const level = slider({
      label: "Hold at", min: from, max: to, step: (to - from) / 100, value: held?.value ?? to, format: brief,
      oninput: (value) => pin(value),
    });
    const toggle = make("button", { type: "button", onclick: () => { pin(held ? null : Number(level.input.value)); showHold(); } }, held ? "Let it go" : "Hold it");
    hold.replaceChildren(level.element, toggle);
  }

  async function refresh() {
    if (!page.selected || !body.closest("details")?.open) return;
    if (asking) return void (again = true);
    asking = true;
    const { layer, unit } = page.selected;
    const { input, target, rule, rate } = session.state;
    const shape = hello.layers.find((each) => each.name === layer).shape;
    const name = layer === hello.outputs.layer ? `output ${hello.outputs.labels[unit] ?? unit}` : `${layer}, ${unitName(shape, unit)}`;
    const reply = hello.abilities.unit ? await session.ask("unit", { layer, unit, input, target, side: session.side, rule, rate }) : null;
    setText(title, name);
    if (reply) draw(reply);
    asking = false;
    if (again) {
      again = false;
      refresh();
    }
  }

  function draw({ from, arrays }) {
    const { before, change, after } = arrays;
    const most = Math.max(sizeOf(before.data), after ? sizeOf(after.data) : 0);
    const width = change ? 88 : 150;
    const figure = (array, scale, caption) => make("figure", {},
      fieldGrid(array, scale, page.theme, width, width, `${caption}, weights from ${from}`).element,
      make("figcaption", {}, caption, make("br"), `±${brief(scale)}`));
    const figures = [figure(before, most, change ? "before" : "now")];
    if (change) figures.push(figure(change, sizeOf(change.data), "change"), figure(after, most, "after"));
    pictures.replaceChildren(...figures);
    const told = change
      ? "The change is what one “learn this” would do. Orange is above 0, blue below."
      : "Choose what to nudge towards, and the change that this would teach shows here.";
    setText(hint, `Weights from ${from === "input" ? "the input" : `layer ${from}`}. ${told}`);
  }

  function select(layer, unit) {
    page.selected = { layer, unit };
    showHold();
    refresh();
  }
  return { title: "One unit, and its weights", body, onopen: refresh, refresh, select, showHold: () => page.selected && showHold() };
}
