// A tour of five steps, for those who have not read the paper.
import { iconButton, make } from "./dom.js";

const PAPER = "https://arxiv.org/abs/1602.05179";

/** Takes the most wrong example with its own label as the target; where there is none, the answer that comes second. */
async function chooseWrong(page) {
  const { session, hello } = page;
  const wrong = hello.abilities.wrong && hello.examples ? await session.ask("examples", { order: "wrong", first: 0, count: 1 }) : null;
  if (wrong?.total) return session.change({ input: { example: wrong.indices[0] }, target: wrong.labels[0], dream: null }, null);
  const n = hello.outputs.labels.length;
  const at = session.timeline.freeEnd(0) * n;
  const outputs = [...session.reply.arrays["0/prediction"].data.subarray(at, at + n)];
  const best = outputs.indexOf(Math.max(...outputs));
  outputs[best] = -Infinity;
  session.change({ target: outputs.indexOf(Math.max(...outputs)), dream: null }, null);
}

/** Steps: what is said, which part of the page is lit, and what the page does. Those it cannot do are left out. */
function stepsFor(page) {
  const { hello, session } = page;
  const { labels } = hello.outputs;
  /** An image that it gets wrong shows most of a nudge. */
  const nudgeWrong = async (then) => {
    const { state } = session;
    if (state.target === null || state.dream !== null) await chooseWrong(page);
    session.change({}, { then });
  };
  const all = [
    {
      title: "It settles",
      text: "The image is held fixed. All other units start at 0 and slide downhill on an energy, until nothing moves any more. Where the outputs come to rest is the answer: there is no forward pass. Watch the energy fall.",
      section: "2.2", about: "the neuronal dynamics", lit: page.scene,
      act: () => { page.setView("state"); session.change({ target: null, dream: null, clamp: [] }, { then: "play" }); },
    },
    hello.targets && {
      title: "A nudge",
      text: "Here is an image that it gets wrong. Now a weak spring pulls the outputs towards what the answer should be. Its strength is β. The network settles again, from where it was, to a rest nearby." + (session.side.nudge === "symmetric" ? " Then it is pushed away as hard: the purple part of the time line." : ""),
      section: "2.3", about: "free phase and weakly clamped phase", lit: page.nudges.element,
      act: () => nudgeWrong("nudge"),
    },
    hello.targets && {
      title: "The difference travels back",
      text: "Compare the free state, the nudged one, and their difference. It begins at the outputs and spreads back, layer by layer. This is how units far from the output get to know of the error: there is no second network for it.",
      section: "2.3", about: "backpropagation of errors", lit: page.stageRow,
      act: () => { page.setView("triple"); nudgeWrong("nudge"); },
    },
    hello.abilities.learn && {
      title: "It learns",
      text: "Each weight looks only at the two units that it joins: were they more active together when pulled, or when pushed away? It grows or shrinks by just that. Here one image is learned five times. Click a unit to see its weights change.",
      section: "3.3", about: "the learning algorithm", lit: page.panels.folds.learn,
      act: async () => {
        page.openPanel("learn");
        if (session.state.target === null) await chooseWrong(page);
        page.learnPanel.learn(5);
      },
    },
    hello.abilities.train && {
      title: "It trains",
      text: "Do this for one image after the other, and the network learns to read all of them. Begin with random weights, and watch the test error fall. Everything else on the page still works meanwhile.",
      section: "5.2", about: "experimental results", lit: page.panels.folds.train,
      act: () => { page.setView("state"); page.openPanel("train"); },
    },
  ].filter(Boolean);
  return labels.length || !hello.targets ? all : all.slice(0, 1);
}

export class Tour {
  constructor(page) {
    this.page = page;
    this.at = 0;
    this.element = make("div", { class: "tour", role: "dialog", "aria-label": "Guided tour", hidden: true });
  }

  start() {
    this.steps = stepsFor(this.page);
    this.go(0);
  }

  go(at) {
    const step = this.steps[at];
    this.at = at;
    this.light(step.lit);
    // Beside what it speaks of, where there is room.
    this.element.classList.toggle("beside", !this.page.panels.element.contains(step.lit));
    step.act();
    const last = at === this.steps.length - 1;
    const next = make("button", { type: "button", class: "main-action", onclick: () => (last ? this.end() : this.go(at + 1)) }, last ? "Done" : "Next");
    const back = make("button", { type: "button", disabled: at === 0, onclick: () => this.go(at - 1) }, "Back");
    this.element.replaceChildren(
      make("header", {}, make("small", {}, `${at + 1} of ${this.steps.length}`), make("h2", {}, step.title), iconButton("close", "End the tour", () => this.end())),
      make("p", {}, step.text),
      make("footer", {}, make("a", { href: PAPER, target: "_blank", rel: "noopener" }, `Section ${step.section} of the paper: ${step.about}`), back, next),
    );
    this.element.hidden = false;
    next.focus({ preventScroll: true });
    step.lit?.scrollIntoView({ block: "center", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  }

  light(element) {
    this.lit?.classList.remove("lit");
    this.lit = element;
    element?.classList.add("lit");
  }

  end() {
    this.light(null);
    this.element.hidden = true;
    this.page.top.tour.focus();
  }
}
