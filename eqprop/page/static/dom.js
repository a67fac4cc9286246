// Small helpers to build the page.

/**
 * An element: make("button", {class: "big", "aria-label": "Play", onclick: play}, "Play").
 * Attributes that begin with "on" are listeners; false and null leave an attribute out, true sets it empty.
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** A drawing of 24 × 24 from the path of its strokes. */
export function icon(path, filled = false) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const stroke = document.createElementNS(SVG, "path");
  stroke.setAttribute("d", path);
  if (filled) stroke.setAttribute("class", "filled");
  svg.append(stroke);
  return svg;
}

export const ICONS = {
  play: "M8 5v14l11-7z",
  pause: "M7 5h4v14H7zM13 5h4v14h-4z",
  first: "M6 5v14M19 6l-9 6 9 6z",
  last: "M18 5v14M5 6l9 6-9 6z",
  back: "M15 6l-7 6 7 6",
  next: "M9 6l7 6-7 6",
  sun: "M12 8a4 4 0 100 8 4 4 0 000-8M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6L19 19M5 19l1.4-1.4M17.6 6.4L19 5",
  link: "M10 14a4 4 0 005.7 0l3-3a4 4 0 00-5.7-5.7l-1 1M14 10a4 4 0 00-5.7 0l-3 3a4 4 0 005.7 5.7l1-1",
  picture: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15 9h.01",
  code: "M8 7l-5 5 5 5M16 7l5 5-5 5",
  close: "M6 6l12 12M18 6L6 18",
  pin: "M12 21v-6M7 15h10l-2-4V4H9v7z",
};

/** A button with a drawing; its name is read out and shown on hover. */
export function iconButton(name, label, onclick, filled = false) {
  return make("button", { type: "button", class: "icon", "aria-label": label, title: label, onclick }, icon(ICONS[name], filled));
}

/** A slider with its name and its value. `format` makes the text of a value; `oninput` gets the number. */
export function slider({ label, min, max, step, value, format = String, oninput, onchange = () => {} }) {
  const shown = make("output", {}, format(value));
  const input = make("input", {
    type: "range", min, max, step, value, "aria-label": label,
    oninput: () => {
      shown.textContent = format(Number(input.value));
      oninput(Number(input.value));
    },
    onchange: () => onchange(Number(input.value)),
  });
  const element = make("label", { class: "slider" }, make("span", {}, label), input, shown);
  const set = (next) => {
    input.value = next;
    shown.textContent = format(next);
  };
  return { element, input, set };
}

/** A choice of [value, text] pairs, as a row of buttons of which one is pressed. */
export function choice(label, pairs, value, onpick) {
  const buttons = pairs.map(([key, text, hint]) =>
    make("button", { type: "button", "aria-pressed": String(key === value), title: hint ?? null, onclick: () => onpick(key) }, text),
  );
  const element = make("div", { class: "choice", role: "group", "aria-label": label }, ...buttons);
  const set = (next) => pairs.forEach(([key], i) => buttons[i].setAttribute("aria-pressed", String(key === next)));
  return { element, set };
}

/** A list to choose from, of [value, text] pairs. */
export function select(label, pairs, value, onpick) {
  const options = pairs.map(([key, text]) => make("option", { value: key, selected: key === value }, text));
  const input = make("select", { "aria-label": label, onchange: () => onpick(input.value) }, ...options);
  return { element: make("label", { class: "select" }, make("span", {}, label), input), input };
}

/** Sets the text only where it changed: the browser lays the page out again otherwise. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A number for people: three digits that matter. */
export function brief(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e5)) return value.toExponential(1).replace("-", "−").replace("e+", "e");
  return (size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toFixed(3)).replace("-", "−");
}
