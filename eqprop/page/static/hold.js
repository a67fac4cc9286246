// What is held by hand, and dreams: the label held, the input let go.
import { brief, iconButton, make, select, slider } from "./dom.js";
import { unitName } from "./grid.js";

export function holdPanel(page) {
  const { hello, session } = page;
  if (!hello.abilities.clamp) return null;
  const list = make("ul", { class: "pins" });
  const settle = (clamp) => {
    session.change({ clamp }, { here: true, then: "play" });
    page.unitPanel?.showHold();
  };
  const names = hello.layers.map(({ name }) => [name, name]);
  const layer = select("Layer", names, names[0][0], () => {});
  const ends = hello.layers.map(({ low, high }) => [low ?? -2, high ?? 2]);
  const [low, high] = [Math.min(...ends.map(([a]) => a)), Math.max(...ends.map(([, b]) => b))];
  const level = slider({ label: "at", min: low, max: high, step: (high - low) / 100, value: low, format: brief, oninput: () => {} });
  const holdAll = make("button", { type: "button", onclick: () => {
    const name = layer.input.value;
    settle([...session.state.clamp.filter((pin) => pin.layer !== name), { layer: name, unit: null, value: Number(level.input.value) }]);
  } }, "Hold the layer");
  const none = make("p", { class: "hint" }, "Nothing is held. Click a unit to hold it, or hold a whole layer:");
  const body = make("div", { class: "panel" }, none, list, make("div", { class: "line" }, layer.element, level.element), holdAll);

  function pinText({ layer: name, unit, value }) {
    const { shape } = hello.layers.find((each) => each.name === name);
    const which = unit === null ? "all of it" : name === hello.outputs.layer ? (hello.outputs.labels[unit] ?? unit) : unitName(shape, unit);
    return `${name}, ${which} = ${brief(value)}`;
  }

  function update() {
    const { clamp } = session.state;
    none.hidden = clamp.length > 0;
    list.replaceChildren(...clamp.map((pin) => make("li", {}, pinText(pin), iconButton("close", `Let go: ${pinText(pin)}`, () => settle(clamp.filter((each) => each !== pin))))));
    if (clamp.length > 1) list.append(make("li", {}, make("button", { type: "button", onclick: () => settle([]) }, "Let all go")));
  }
  return { title: "Hold units by hand", body, update };
}

export function dreamPanel(page) {
  const { hello, session } = page;
  if (!hello.abilities.dream) return null;
  const labels = hello.outputs.labels.map((label, k) => [String(k), label]);
  const label = select("Label", labels, "3", (value) => session.state.dream !== null && dream(Number(value)));
  const dream = (value, seed = session.state.seed) => session.change({ dream: value, seed }, { then: "play" });
  const start = make("button", { type: "button", class: "main-action", onclick: () => dream(Number(label.input.value)) }, "Dream");
  const again = make("button", { type: "button", onclick: () => dream(Number(label.input.value), session.state.seed + 1) }, "From another start");
  const stop = make("button", { type: "button", onclick: () => session.change({ dream: null, seed: 0 }, { then: "play" }) }, "Wake up");
  const body = make("div", { class: "panel" },
    make("p", { class: "hint" }, "Hold the answer and let the input go: the network settles to an image that goes with the label. It was never taught to draw, so do not expect a fine hand."),
    label.element, make("div", { class: "line" }, start, again, stop));
  function update() {
    const dreams = session.state.dream !== null;
    again.hidden = stop.hidden = !dreams;
    start.hidden = dreams;
    if (dreams) label.input.value = String(session.state.dream);
  }
  return { title: "Let it dream", body, update };
}
