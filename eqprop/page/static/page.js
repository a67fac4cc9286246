// The page: everything inside of one element, whatever computes for it.
import { clockDeck, Clock } from "./clock.js";
import { Curves } from "./curves.js";
import { make, setText } from "./dom.js";
import { largest } from "./hopfield.js";
import { nudgeBar } from "./nudgebar.js";
import { Pad } from "./pad.js";
import { Session } from "./session.js";
import { Stage } from "./stage.js";
import { Tip } from "./tip.js";
import { topBar } from "./topbar.js";

/**
 * @typedef {object} Reply an answer of the backend: the fields of its header, and
 * @property {Object<string, {shape: number[], data: Float32Array}>} arrays
 *
 * @param {HTMLElement} root where the page is built
 * @param {{ask: function(string, object): Promise<Reply>, on: function(string, function)}} backend
 * @param {object} options address: false leaves the browser's address alone, as in a notebook
 */
export function mount(root, backend, options = {}) {
  const page = new Page(root, backend, options);
  page.open();
  return page;
}

const REST = 1e-3; // a residual below it is called rest
const WIDE = { narrow: 640, aside: 1080 };

class Page {
  constructor(root, backend, options) {
    Object.assign(this, { root, backend, options });
    root.classList.add("eqprop-page");
    this.element = make("div", { class: "sheet" }, make("p", { class: "loading" }, "One moment …"));
    root.replaceChildren(this.element);
    this.view = "state";
    this.whole = -1;
  }

  async open() {
    try {
      this.hello = await this.backend.ask("hello", {});
    } catch (error) {
      this.element.replaceChildren(make("p", { class: "trouble", role: "alert" }, error.message));
      return;
    }
    this.session = new Session(this.backend, this.hello, {
      onsettled: (how) => this.settled(how),
      onfail: (sentence) => this.fail(sentence),
      onchange: () => this.changed(),
      frameNow: () => this.session.timeline.frame(0, Math.round(this.clock.position)),
    });
    this.clock = new Clock((position) => this.show(position));
    this.build();
    this.session.settle({ then: "play" });
  }

  get theme() {
    return this.root.dataset.theme === "dark" ? "dark" : "light";
  }

  build() {
    const { session, clock, hello } = this;
    this.tip = new Tip(this.root);
    const onhover = (about, event) => this.tip.show(about, event, hello);
    this.pad = new Pad(hello.input, { onhover, ondraw: (pixels, done) => this.drawn(pixels, done) });
    this.stages = [];
    this.stageRow = make("div", { class: "stages" });
    this.deck = clockDeck(clock, { onspeed: (speed) => (clock.speed = speed) });
    this.curves = new Curves({ onseek: (k) => { clock.play(false); clock.seek(k); } });
    this.nudges = nudgeBar(this);
    this.top = topBar(this);
    this.trouble = make("p", { class: "trouble", role: "alert", hidden: true });
    this.spoken = make("p", { class: "spoken", "aria-live": "polite" });
    this.aside = make("aside", { "aria-label": "More" });
    this.scene = make("section", { class: "scene", "aria-label": "Network" }, this.pad.element, this.stageRow);
    this.element.replaceChildren(
      this.top.element, this.trouble,
      make("div", { class: "columns" }, make("div", { class: "main" }, this.scene, this.deck.element, this.nudges.element, this.curves.element), this.aside),
      this.tip.element, this.spoken,
    );
    this.changed();
    this.watching = new ResizeObserver(() => this.fit());
    this.watching.observe(this.root);
    this.fit();
  }

  /** As many stages as sides are compared. */
  arrange() {
    const { sides } = this.session.state;
    if (this.stages.length === sides.length) return;
    const onhover = (about, event) => this.tip.show(about, event, this.hello);
    this.stages = sides.map(() => new Stage(this.hello, { onhover, onpick: null }));
    this.stageRow.replaceChildren(...this.stages.map((stage) => stage.element));
    this.root.classList.toggle("comparing", sides.length > 1);
  }

  fit() {
    const width = this.root.clientWidth;
    if (!width) return;
    const narrow = width < WIDE.narrow;
    this.root.classList.toggle("narrow", narrow);
    this.root.classList.toggle("wide", width >= WIDE.aside);
    const main = this.scene.clientWidth;
    const input = narrow ? Math.min(main - 40, 260) : Math.min(Math.max(main * 0.24, 150), 250);
    this.pad.fit(input, 260);
    const rest = narrow ? main : (main - this.pad.element.offsetWidth - 24) / this.stages.length;
    this.stages.forEach((stage) => stage.fit(rest, narrow, this.view === "triple"));
    this.curves.fit(main, narrow);
    this.redraw();
  }

  /** In the colours of another theme. */
  repaint() {
    this.stages.forEach((stage) => stage.repaint());
    this.curves.rebuild();
    this.redraw();
  }

  redraw() {
    this.whole = -1;
    if (this.session.reply) this.show(this.clock.position);
  }

  setView(view) {
    this.view = view;
    this.root.classList.toggle("triple", view === "triple");
    this.nudges.update();
    this.fit();
  }

  /** A stroke: the state slides on from where it is, and is nudged only when the pen is lifted. */
  drawn(pixels, done) {
    this.session.change({ input: { pixels }, dream: null }, { here: true, free: !done, then: "play" });
  }

  /** The state is another: everything that shows it follows. */
  changed() {
    this.arrange();
    this.nudges.update();
    const { state } = this.session;
    this.stages.forEach((stage) => {
      stage.bars.target = state.dream ?? state.target;
      stage.mark(this.selected ?? null, state.clamp);
    });
  }

  settled({ then = "play" }) {
    const { timeline, reply } = this.session;
    const phase = this.lastPhase ?? 0;
    this.arrange();
    this.stages.forEach((stage, i) => stage.take(reply.arrays, i, timeline.freeEnd(i)));
    this.curves.take(timeline, reply.arrays);
    this.deck.setTimeline(timeline);
    if (this.session.state.dream === null) this.pad.show(reply.arrays.x.data);
    const nudge = timeline.phases[1]?.first ?? timeline.length - 1;
    const held = timeline.phases[Math.min(phase, timeline.phases.length - 1)].last;
    const at = then === "play" ? 0 : then === "nudge" ? nudge : then === "hold" ? held : then;
    this.whole = -1;
    this.clock.reset(timeline.length, at);
    if (then === "play" || (then === "nudge" && timeline.phases.length > 1)) this.clock.play();
    this.speak();
  }

  /** Draws the position of the clock: between two steps, the state between them. */
  show(position) {
    const { timeline, reply, state } = this.session;
    const k = Math.floor(position);
    const on = timeline.joins(k) ? k + 1 : k;
    const mix = on > k ? position - k : 0;
    const triple = this.view === "triple";
    this.stages.forEach((stage, i) => stage.show(timeline.frame(i, k), timeline.frame(i, on), mix, triple, this.theme));
    const dreamed = state.dream !== null && reply.arrays["0/input"];
    if (dreamed) {
      const n = this.pad.values.length;
      this.pad.show(dreamed.data, timeline.frame(0, k) * n, timeline.frame(0, on) * n, mix);
    }
    const whole = Math.round(position);
    this.curves.show(position, whole);
    if (whole === this.whole) return;
    this.whole = whole;
    this.lastPhase = timeline.phaseAt(whole);
    this.deck.show(timeline, whole, this.phaseText(timeline.phases[this.lastPhase]));
    this.stages.forEach((stage, i) => setText(stage.reads, `It reads ${this.answer(i, timeline.frame(i, whole))}`));
  }

  answer(i, frame) {
    const { labels } = this.hello.outputs;
    return labels[largest(this.session.reply.arrays[`${i}/prediction`].data, frame * labels.length, labels.length)];
  }

  phaseText({ beta }) {
    const { dream, target } = this.session.state;
    const label = (k) => this.hello.outputs.labels[k];
    if (dream !== null) return `Dreaming of ${label(dream)}`;
    if (beta === 0) return "Free phase";
    const size = `β = ${beta.toFixed(2).replace("-", "−")}`;
    return beta > 0 ? `Pulled towards ${label(target)}, ${size}` : `Pushed away from ${label(target)}, ${size}`;
  }

  /** For those who listen; a moment later, so that a drawing is not talked over. */
  speak() {
    clearTimeout(this.speaking);
    this.speaking = setTimeout(() => {
      const { timeline, reply } = this.session;
      const end = timeline.freeEnd(0);
      const residual = reply.arrays["0/residual"].data[end];
      const rest = Number.isNaN(residual) ? "after" : residual <= REST ? "at rest after" : "still moving after";
      setText(this.spoken, `It reads ${this.answer(0, end)}, ${rest} ${end} steps.`);
      this.stages.forEach((stage) => stage.bars.describe());
    }, 600);
  }

  fail(sentence) {
    this.trouble.hidden = !sentence;
    setText(this.trouble, sentence);
    clearTimeout(this.failing);
    this.failing = setTimeout(() => (this.trouble.hidden = true), 12000);
  }

  close() {
    this.clock?.close();
    this.watching?.disconnect();
    this.root.replaceChildren();
  }
}
