// Under the input: which example it is, with the one before and the next.
import { iconButton, make, setText } from "./dom.js";

export function exampleWalk(page) {
  if (!page.hello.examples) return null;
  const name = make("span", { class: "which" });
  const element = make("div", { class: "walk", role: "group", "aria-label": "Example" },
    iconButton("back", "The example before ([)", () => page.walk(-1)), name, iconButton("next", "The next example (])", () => page.walk(1)));

  /** The label of an example, or null where there is none. */
  async function labelOf(index) {
    const reply = await page.session.ask("examples", { order: "given", first: index, count: 1 });
    return reply?.labels?.[0] ?? null;
  }

  let shown = null;
  let label = null;
  async function update() {
    const { input, dream } = page.session.state;
    if (dream !== null) return setText(name, "a dream");
    if (!("example" in input)) {
      shown = label = null;
      return setText(name, "your drawing");
    }
    if (input.example !== shown) {
      shown = input.example;
      label = null;
      const found = await labelOf(shown);
      if (shown !== input.example) return; // another one was chosen meanwhile
      label = found;
    }
    const is = label === null ? "" : `: ${page.hello.outputs.labels[label]}`;
    setText(name, `example ${shown}${is}`);
  }
  return { element, update, label: () => label };
}
