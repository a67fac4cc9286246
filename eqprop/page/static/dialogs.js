// What opens above the page: the Python code, and the keys.
import { iconButton, make } from "./dom.js";
import { MEANINGS } from "./words.js";

/** A dialog inside of the page; it is gone when it is closed. */
function showDialog(page, title, ...content) {
  const dialog = make("dialog", { class: "dialog", "aria-label": title },
    make("header", {}, make("h2", {}, title), iconButton("close", "Close", () => dialog.close())), ...content);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  page.element.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Copies a text; where the browser does not allow it, the text is shown to be copied by hand. */
export async function copyText(page, text, done) {
  try {
    await navigator.clipboard.writeText(text);
    page.say(done);
  } catch {
    const field = make("textarea", { readonly: true, rows: 4, "aria-label": "Text to copy" });
    field.value = text;
    showDialog(page, "Copy this", field);
    field.select();
  }
}

export async function showCode(page) {
  const { input, target, sides, rule, rate, clamp, dream, seed, did } = page.session.state;
  const reply = await page.session.ask("code", { input, target, sides, rule, rate, clamp, dream, seed, did });
  if (!reply) return;
  const copy = make("button", { type: "button", class: "main-action", onclick: () => copyText(page, reply.code, "The code is copied.") }, "Copy");
  showDialog(page, "The same in Python", make("pre", { tabindex: 0 }, make("code", {}, reply.code)), copy);
}

const KEYS = [
  ["Space", "play or pause"],
  ["← →", "one step back, one step on"],
  ["Home, R", "rewind: settle again from rest"],
  ["End", "to the last step"],
  ["0 … 9", "nudge towards this label"],
  ["N", "nudge towards nothing"],
  ["D", "state alone, or free, now and difference"],
  ["L", "learn this"],
  ["[ ]", "the example before, the next one"],
  ["?", "these keys"],
];

export function showHelp(page) {
  const rows = KEYS.map(([key, what]) => make("tr", {}, make("th", { scope: "row" }, make("kbd", {}, key)), make("td", {}, what)));
  showDialog(page, "How to use this page",
    make("p", {}, `${page.hello.input.drawable ? "Draw something" : "Take an example"}${page.hello.input.drawable && page.hello.examples ? " or take an example" : ""}, and press play. Each square is one unit: dark blue is off, yellow is on. Click a unit to see its weights, or to hold it.`),
    make("p", {}, page.hello.about),
    make("h3", {}, "What the words mean"),
    make("dl", {}, ...Object.entries(MEANINGS).flatMap(([word, meaning]) => [make("dt", {}, word), make("dd", {}, meaning)])),
    make("h3", {}, "Keys"),
    make("table", {}, ...rows),
    make("p", {}, "With Tab you reach everything; on a layer, the arrows go from unit to unit and Enter picks one."),
    make("p", {}, "The paper: ", make("a", { href: "https://arxiv.org/abs/1602.05179", target: "_blank", rel: "noopener" }, "Scellier & Bengio, Equilibrium Propagation"), "."));
}
