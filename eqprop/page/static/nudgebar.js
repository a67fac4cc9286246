// What pulls at the outputs, and what is shown of it.
import { choice, make, select, slider } from "./dom.js";
import { MEANINGS } from "./words.js";

const MOST_BUTTONS = 12;

export function nudgeBar(page) {
  const { hello, session } = page;
  const labels = hello.outputs.labels.map((label, k) => [k, label]);
  const choose = (target) => page.nudgeTowards(target === session.state.target ? null : target);
  const many = labels.length > MOST_BUTTONS;
  const targets = many
    ? select("Nudge towards", [["", "nothing"], ...labels], "", (value) => choose(value === "" ? null : Number(value)))
    : choice("Nudge towards", [[null, "nothing"], ...labels], null, choose);
  const beta = slider({
    label: "Strength β", min: hello.betas[0], max: hello.betas[1], step: 0.01, value: session.side.beta,
    format: (value) => value.toFixed(2).replace("-", "−"),
    oninput: (value) => {
      const [first, ...others] = session.state.sides;
      session.change({ sides: [{ ...first, beta: value }, ...others] }, session.state.target === null ? null : { then: page.lastPhase ? "hold" : "nudge" });
    },
  });
  beta.element.title = MEANINGS.beta;
  const view = choice("Show", [["state", "State"], ["triple", "Free · now · difference", "The free state, the state now, and what the nudge has changed"]], page.view, (value) => page.setView(value));
  const element = make("section", { class: "nudges", "aria-label": "Nudge" },
    hello.targets && make("div", { class: "targets" }, many ? null : make("span", { class: "name", title: MEANINGS.nudge }, "Nudge towards"), targets.element),
    hello.targets && beta.element,
    hello.targets && view.element, // without a nudge there is no difference
  );
  function update() {
    const target = session.state.dream === null ? session.state.target : null;
    if (many) targets.input.value = target ?? "";
    else targets.set(target);
    if (Number(beta.input.value) !== session.side.beta) beta.set(session.side.beta);
    view.set(page.view);
    element.classList.toggle("idle", target === null);
  }
  return { element, update };
}
